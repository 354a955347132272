"""What fills the information bases: batches of node, announce and subscribe entries.

Node information goes hop by hop and is in :mod:`laps_wire.peering.laps2.node`. Announces and
subscribes are flooded from their source: such an entry is known by its *identity* and ordered by
its :class:`Stamp`, and whoever passes it on changes nothing but the parameters that were meant for
the neighbour.

::

    announce    identity (source node, kind, full-name hash)    advertise / withdraw
    subscribe   identity (source node, full-name hash)          advertise / withdraw / response

Of all that was heard about one identity the highest stamp is the truth, whether it was an
advertisement or a withdrawal; a withdrawal is therefore remembered for the convergence time
(seed 000, Subscribe Information).
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
    """Somebody publishes: a track, or everything below a namespace."""

    source: NodeId
    """The node at which the publisher is (seed: source_node_id)."""
    stamp: Stamp
    kind: AnnounceKind
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int | None
    """The hash of the track name; present for a track, absent for a namespace."""
    full_name_hash: int
    """The hash of the whole name; for a namespace, of the namespace with an empty track name."""
    plaintext: FullTrackName | None = None
    """The name itself, where the feature PLAINTEXT_NAMES allows it; empty name for a namespace."""
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
        """What makes two entries the same one."""
        return self.source, self.kind, self.full_name_hash


@dataclass(frozen=True, slots=True)
class AnnounceWithdrawal:
    """An announce is over."""

    source: NodeId
    stamp: Stamp
    kind: AnnounceKind
    full_name_hash: int
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> AnnounceIdentity:
        """What makes two entries the same one."""
        return self.source, self.kind, self.full_name_hash


@dataclass(frozen=True, slots=True)
class SubscribeData:
    """A client protocol's own message, carried without being read on the way."""

    draft: int = 0
    """Which MoQT draft encoded it, such as 16 or 18; 0 if there is none (and no data)."""
    body: bytes = b""
    """The message's body: without type and length, and without any authorization token."""

    def __post_init__(self) -> None:
        if self.draft == 0 and self.body:
            raise EncodeError("data that no draft encoded")


NO_DATA: Final = SubscribeData()
"""Nothing carried along."""


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """An s-relay wants a track."""

    source: NodeId
    """The s-relay (seed: source_node_id)."""
    stamp: Stamp
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int
    full_name_hash: int
    scope: tuple[Label, ...] = ()
    """What policy may look at: labels of the subscriber's tenant, region, class."""
    data: SubscribeData = NO_DATA
    """The original SUBSCRIBE, for the o-relay: it compares the names in it, not only hashes."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """What makes two entries the same one."""
        return self.source, self.full_name_hash


@dataclass(frozen=True, slots=True)
class SubscribeWithdrawal:
    """The last subscriber of a track at an s-relay has gone."""

    source: NodeId
    stamp: Stamp
    full_name_hash: int
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """What makes two entries the same one."""
        return self.source, self.full_name_hash


# Messages: several entries in one


@dataclass(frozen=True, slots=True)
class NodeAdvertise:
    """Nodes that can be reached through the sender; each replaces what it said of that node."""

    nodes: tuple[NodeInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NodeWithdraw:
    """Nodes that cannot be reached through the sender any more."""

    nodes: tuple[NodeId, ...]
    """Lowest first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class AnnounceAdvertise:
    """New or changed announces."""

    announces: tuple[AnnounceInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class AnnounceWithdraw:
    """Announces that are over."""

    announces: tuple[AnnounceWithdrawal, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeAdvertise:
    """New or changed subscribes."""

    subscribes: tuple[SubscribeInfo, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeWithdraw:
    """Subscribes that are over."""

    subscribes: tuple[SubscribeWithdrawal, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeResponse:
    """The answer to a subscribe, on its way back to the s-relay along the sessions it came by."""

    source: NodeId
    """The s-relay that subscribed: to whom this goes."""
    full_name_hash: int
    stamp: Stamp
    """The stamp of the subscribe that is answered; an answer to an older one is dropped."""
    responder: NodeId
    """Who answers: an o-relay, or the relay whose policy excludes the subscriber."""
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SubscribeCode`; 0 is accepted."""
    reason: str = ""
    retry_after_ms: int = 0
    """Not to be asked again before; 0 says nothing about it."""
    data: SubscribeData = NO_DATA
    """The publisher's own answer (SUBSCRIBE_OK or error body), if it has one."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def identity(self) -> SubscribeIdentity:
        """The identity of the subscribe that is answered."""
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
    shared=True,  # told to all peers
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
    shared=True,  # told to all peers
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
