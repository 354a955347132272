"""The content of the information bases: batches of node, announce and subscribe entries.

Node information goes hop by hop and is in :mod:`laps_wire.peering.laps2.node`. Announces and
subscribes are flooded from their source. Such an entry is identified by its *identity* and ordered
by its :class:`Stamp`. A relay that floods it further changes only the hop-by-hop parameters.

::

    announce    identity (source node, kind, full-name hash)    advertise / withdraw
    subscribe   identity (source node, full-name hash)          advertise / withdraw / response

For each identity the entry with the highest stamp is valid, be it an advertisement or a withdrawal.
A relay therefore keeps a withdrawal for the convergence time (seed 000, Subscribe Information).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.fields import U64, VARINT, Choice, Prefixed
from laps_wire.layout import Array, Layout
from laps_wire.names import FULL_TRACK_NAME, FullTrackName
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import AnnounceKind
from laps_wire.peering.laps2.fields import (
    ELEMENT_HASHES,
    LABELS,
    NODE_SET,
    REASON,
    STAMP,
    Label,
    Maybe,
    Stamp,
)
from laps_wire.peering.laps2.limits import MAX_BATCH, MAX_SUBSCRIBE_DATA_BYTES
from laps_wire.peering.laps2.node import NODE_INFO, NodeInfo
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters

__all__ = [
    "ANNOUNCE_ADVERTISE",
    "ANNOUNCE_INFO",
    "ANNOUNCE_WITHDRAW",
    "ANNOUNCE_WITHDRAWAL",
    "NODE_ADVERTISE",
    "NODE_WITHDRAW",
    "NO_DATA",
    "SUBSCRIBE_ADVERTISE",
    "SUBSCRIBE_DATA",
    "SUBSCRIBE_INFO",
    "SUBSCRIBE_RESPONSE",
    "SUBSCRIBE_WITHDRAW",
    "SUBSCRIBE_WITHDRAWAL",
    "AnnounceAdvertise",
    "AnnounceIdentity",
    "AnnounceInfo",
    "AnnounceWithdraw",
    "AnnounceWithdrawal",
    "NodeAdvertise",
    "NodeWithdraw",
    "SubscribeAdvertise",
    "SubscribeData",
    "SubscribeIdentity",
    "SubscribeInfo",
    "SubscribeResponse",
    "SubscribeWithdraw",
    "SubscribeWithdrawal",
]

AnnounceIdentity: TypeAlias = tuple[NodeId, AnnounceKind, int]
"""``(source node, kind, full-name hash)``."""
SubscribeIdentity: TypeAlias = tuple[NodeId, int]
"""``(source node, full-name hash)``."""


@dataclass(frozen=True, slots=True)
class AnnounceInfo:
    """An announce: a node has a publisher of a track, or of all tracks below a namespace."""

    source: NodeId
    """The node that the publisher is connected to (seed: source_node_id)."""
    stamp: Stamp
    kind: AnnounceKind
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int | None
    """The hash of the track name; present for a track, absent for a namespace."""
    full_name_hash: int
    """The hash of the whole name; for a namespace, of the namespace with an empty track name."""
    plaintext: FullTrackName | None = None
    """The plain name, if the feature PLAINTEXT_NAMES is in use; empty name for a namespace."""
    parameters: Parameters = NO_PARAMETERS

    def __post_init__(self) -> None:
        if (self.kind is AnnounceKind.TRACK) != (self.name_hash is not None):
            raise EncodeError("a track has a name hash and a namespace has none")
        if self.plaintext is None:
            return
        if len(self.plaintext.namespace.fields) != len(self.element_hashes):
            raise EncodeError("as many element hashes as the plaintext has elements")
        if self.kind is AnnounceKind.NAMESPACE and self.plaintext.name:
            raise EncodeError("a namespace has no track name")

    @property
    def identity(self) -> AnnounceIdentity:
        """The identity of the entry: entries with equal identities replace each other."""
        return self.source, self.kind, self.full_name_hash


@dataclass(frozen=True, slots=True)
class AnnounceWithdrawal:
    """The withdrawal of an announce."""

    source: NodeId
    stamp: Stamp
    kind: AnnounceKind
    full_name_hash: int
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> AnnounceIdentity:
        """The identity of the entry: entries with equal identities replace each other."""
        return self.source, self.kind, self.full_name_hash


@dataclass(frozen=True, slots=True)
class SubscribeData:
    """A message of a client protocol; relays on the path do not read it."""

    draft: int = 0
    """The MoQT draft of the message, such as 16 or 18; 0 if there is no message."""
    body: bytes = b""
    """The message's body: without type and length, and without any authorization token."""

    def __post_init__(self) -> None:
        if self.draft == 0 and self.body:
            raise EncodeError("data that no draft encoded")


NO_DATA: Final = SubscribeData()
"""No message."""


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """A subscribe of an s-relay to a track."""

    source: NodeId
    """The s-relay (seed: source_node_id)."""
    stamp: Stamp
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int
    full_name_hash: int
    scope: tuple[Label, ...] = ()
    """The labels that policy may evaluate: the subscriber's tenant, region, class."""
    data: SubscribeData = NO_DATA
    """The original SUBSCRIBE, in which the o-relay compares the names and not only hashes."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """The identity of the entry: entries with equal identities replace each other."""
        return self.source, self.full_name_hash


@dataclass(frozen=True, slots=True)
class SubscribeWithdrawal:
    """The withdrawal of a subscribe: the last subscriber of a track at an s-relay has left."""

    source: NodeId
    stamp: Stamp
    full_name_hash: int
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """The identity of the entry: entries with equal identities replace each other."""
        return self.source, self.full_name_hash


# Messages: several entries in one


@dataclass(frozen=True, slots=True)
class NodeAdvertise:
    """Nodes that can be reached through the sender; each replaces the sender's previous entry."""

    nodes: tuple[NodeInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NodeWithdraw:
    """Nodes that can no longer be reached through the sender."""

    nodes: tuple[NodeId, ...]
    """The ids of the nodes, lowest first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class AnnounceAdvertise:
    """New or changed announces."""

    announces: tuple[AnnounceInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class AnnounceWithdraw:
    """Withdrawn announces."""

    announces: tuple[AnnounceWithdrawal, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeAdvertise:
    """New or changed subscribes."""

    subscribes: tuple[SubscribeInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeWithdraw:
    """Withdrawn subscribes."""

    subscribes: tuple[SubscribeWithdrawal, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeResponse:
    """The response to a subscribe; it returns to the s-relay along the path of the subscribe."""

    source: NodeId
    """The s-relay that subscribed, which gets the response."""
    full_name_hash: int
    stamp: Stamp
    """The stamp of the subscribe; a response to an older subscribe is dropped."""
    responder: NodeId
    """The relay that answers: an o-relay, or a relay whose policy excludes the subscriber."""
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SubscribeCode`; 0 is accepted."""
    reason: str = ""
    retry_after_ms: int = 0
    """How long to wait before a retry, in milliseconds; 0: unspecified."""
    data: SubscribeData = NO_DATA
    """The body of the publisher's SUBSCRIBE_OK or error, if there is one."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """The identity of the subscribe."""
        return self.source, self.full_name_hash


# Tables

SUBSCRIBE_DATA: Final = Layout(
    SubscribeData, ("draft", VARINT), ("body", Prefixed(MAX_SUBSCRIBE_DATA_BYTES))
)
ANNOUNCE_INFO: Final = Layout(
    AnnounceInfo,
    ("source", NODE_ID),
    ("stamp", STAMP),
    ("kind", Choice(VARINT, AnnounceKind)),
    ("element_hashes", ELEMENT_HASHES),
    ("name_hash", Maybe(U64)),
    ("full_name_hash", U64),
    ("plaintext", Maybe(FULL_TRACK_NAME)),
    ("parameters", PARAMETERS),
    shared=True,  # sent to all peers
)
ANNOUNCE_WITHDRAWAL: Final = Layout(
    AnnounceWithdrawal,
    ("source", NODE_ID),
    ("stamp", STAMP),
    ("kind", Choice(VARINT, AnnounceKind)),
    ("full_name_hash", U64),
    ("parameters", PARAMETERS),
)
SUBSCRIBE_INFO: Final = Layout(
    SubscribeInfo,
    ("source", NODE_ID),
    ("stamp", STAMP),
    ("element_hashes", ELEMENT_HASHES),
    ("name_hash", U64),
    ("full_name_hash", U64),
    ("scope", LABELS),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
    shared=True,  # sent to all peers
)
SUBSCRIBE_WITHDRAWAL: Final = Layout(
    SubscribeWithdrawal,
    ("source", NODE_ID),
    ("stamp", STAMP),
    ("full_name_hash", U64),
    ("parameters", PARAMETERS),
)

NODE_ADVERTISE: Final = Layout(
    NodeAdvertise, ("nodes", Array(NODE_INFO, MAX_BATCH)), ("parameters", PARAMETERS)
)
NODE_WITHDRAW: Final = Layout(NodeWithdraw, ("nodes", NODE_SET), ("parameters", PARAMETERS))
ANNOUNCE_ADVERTISE: Final = Layout(
    AnnounceAdvertise, ("announces", Array(ANNOUNCE_INFO, MAX_BATCH)), ("parameters", PARAMETERS)
)
ANNOUNCE_WITHDRAW: Final = Layout(
    AnnounceWithdraw,
    ("announces", Array(ANNOUNCE_WITHDRAWAL, MAX_BATCH)),
    ("parameters", PARAMETERS),
)
SUBSCRIBE_ADVERTISE: Final = Layout(
    SubscribeAdvertise, ("subscribes", Array(SUBSCRIBE_INFO, MAX_BATCH)), ("parameters", PARAMETERS)
)
SUBSCRIBE_WITHDRAW: Final = Layout(
    SubscribeWithdraw,
    ("subscribes", Array(SUBSCRIBE_WITHDRAWAL, MAX_BATCH)),
    ("parameters", PARAMETERS),
)
SUBSCRIBE_RESPONSE: Final = Layout(
    SubscribeResponse,
    ("source", NODE_ID),
    ("full_name_hash", U64),
    ("stamp", STAMP),
    ("responder", NODE_ID),
    ("code", VARINT),
    ("reason", REASON),
    ("retry_after_ms", VARINT),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
)
