"""The content of the information bases: node, announce and subscribe entries, and their batches.

Node information goes hop by hop::

    +---------------- NodeSelf: written by the node, never changed -----------------+
    | node id · type · epoch · sequence · contacts · location · region · load ·     |
    | reachability · labels · parameters                                            |
    +---------------- NodeSignature: over the bytes above --------------------------+
    | scheme · key fingerprint · signature                                          |
    +---------------- the path: each relay appends itself --------------------------+
    | path [(node id, sRTT) ...] · parameters                                       |
    +-------------------------------------------------------------------------------+

Relays forward the self part byte for byte. It has one encoding (shortest varints, ascending
parameters), so decoding and encoding give the same bytes and the signature stays valid. A relay
cannot change a node's description of itself; it can only lengthen the path.

Announces and subscribes are flooded from their source. Such an entry is identified by its
*identity* and ordered by its :class:`Stamp`. A relay that floods it further changes only the
hop-by-hop parameters::

    announce    identity (source node, kind, full-name hash)    advertise / withdraw
    subscribe   identity (source node, full-name hash)          advertise / withdraw / response

For each identity the entry with the highest stamp is valid, be it an advertisement or a withdrawal.
A relay therefore keeps a withdrawal for the convergence time (seed 000, Subscribe Information).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import F64, U64, VARINT, Array, Choice, Constrained, Layout, Prefixed, Text
from laps_wire.names import FULL_TRACK_NAME, FullTrackName
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import (
    FINGERPRINT_BYTES,
    MAX_BATCH,
    MAX_HOPS,
    MAX_REACHABLE,
    MAX_REGION_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_SUBSCRIBE_DATA_BYTES,
    AnnounceKind,
    AuthScheme,
    LoadClass,
    RelayType,
)
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    ELEMENT_HASHES,
    LABELS,
    NO_PARAMETERS,
    NODE_SET,
    PARAMETERS,
    REASON,
    STAMP,
    Label,
    Maybe,
    Parameters,
    Stamp,
)

__all__ = [
    "ANNOUNCE_ADVERTISE",
    "ANNOUNCE_INFO",
    "ANNOUNCE_WITHDRAW",
    "ANNOUNCE_WITHDRAWAL",
    "MAX_LOAD",
    "NODE_ADVERTISE",
    "NODE_INFO",
    "NODE_SELF",
    "NODE_WITHDRAW",
    "NO_DATA",
    "SUBSCRIBE_ADVERTISE",
    "SUBSCRIBE_DATA",
    "SUBSCRIBE_INFO",
    "SUBSCRIBE_RESPONSE",
    "SUBSCRIBE_WITHDRAW",
    "SUBSCRIBE_WITHDRAWAL",
    "UNSIGNED",
    "AnnounceAdvertise",
    "AnnounceIdentity",
    "AnnounceInfo",
    "AnnounceWithdraw",
    "AnnounceWithdrawal",
    "Degrees",
    "Load",
    "Location",
    "NodeAdvertise",
    "NodeInfo",
    "NodePathItem",
    "NodeSelf",
    "NodeSignature",
    "NodeWithdraw",
    "Reachable",
    "SubscribeAdvertise",
    "SubscribeData",
    "SubscribeIdentity",
    "SubscribeInfo",
    "SubscribeResponse",
    "SubscribeWithdraw",
    "SubscribeWithdrawal",
]

# Node information

MAX_LOAD: Final = 1000
"""Load values are thousandths of the node's capacity."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """An angle as a double, from ``-limit`` to ``limit``."""

    limit: int

    def read(self, reader: Reader, field: str) -> float:
        """Read the angle."""
        start = reader.pos
        value = F64.read(reader, field)
        if not -self.limit <= value <= self.limit:
            reader.fail(field, f"{value} is outside -{self.limit}..{self.limit}", offset=start)
        return value

    def write(self, writer: Writer, value: float, field: str) -> None:
        """Write the angle."""
        if not -self.limit <= value <= self.limit:
            writer.fail(field, f"{value} is outside -{self.limit}..{self.limit}")
        writer.f64(value, field)


@dataclass(frozen=True, slots=True)
class Location:
    """The position of a node, in degrees (WGS 84)."""

    longitude: float
    """East is positive, -180 to 180."""
    latitude: float
    """North is positive, -90 to 90."""


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """The load of a node; its order is that of path selection."""

    load_class: LoadClass = LoadClass.NORMAL
    value: int = 0
    """Thousandths of the capacity, 0 to 1000."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """A node that the advertised node reaches directly, and the round-trip time to it."""

    node_id: NodeId
    rtt_us: int
    """Measured round trip in microseconds."""


@dataclass(frozen=True, slots=True)
class NodePathItem:
    """One relay that forwarded the information (seed 000, Node Path)."""

    node_id: NodeId
    """The relay that sent the advertisement."""
    srtt_us: int
    """Smoothed RTT, in microseconds, of the session on which that relay received it."""


@dataclass(frozen=True, slots=True)
class NodeSignature:
    """The key that a node ID is bound to, and the signature with it over the self part."""

    scheme: int = AuthScheme.NONE
    """An :class:`AuthScheme` that signs; 0 with empty fields if the node does not sign."""
    fingerprint: bytes = b""
    """SHA-256 of the key's SubjectPublicKeyInfo; empty if there is none."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        if len(self.fingerprint) not in (0, FINGERPRINT_BYTES):
            raise EncodeError(
                f"fingerprint: {len(self.fingerprint)} bytes, 0 or {FINGERPRINT_BYTES} belong"
            )
        if self.scheme == AuthScheme.NONE and self.signature:
            raise EncodeError("a signature without a scheme")


UNSIGNED: Final = NodeSignature()
"""No key and no signature."""


@dataclass(frozen=True, slots=True)
class NodeSelf:
    """A node's description of itself."""

    node_id: NodeId
    relay_type: RelayType
    stamp: Stamp
    """The node's boot epoch, and a sequence that grows when any field below changes."""
    contacts: tuple[str, ...] = ()
    """Addresses to dial, possibly of a load balancer or anycast; empty: it cannot be dialled."""
    location: Location | None = None
    region: str = ""
    """The operator's name for the region of the node; empty if none."""
    load: Load = Load()
    reachable: tuple[Reachable, ...] = ()
    """Other nodes that the node reaches directly, for the choice of Vias."""
    labels: tuple[Label, ...] = ()
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node as a peer advertises it."""

    node: NodeSelf
    signature: NodeSignature = UNSIGNED
    path: tuple[NodePathItem, ...] = ()
    """The relays that forwarded it, nearest to the node first; empty: from the node itself."""
    parameters: Parameters = NO_PARAMETERS
    """Parameters of the path, not of the node."""

    @property
    def sum_srtt_us(self) -> int:
        """The sum of the smoothed RTTs of the path, in microseconds; not on the wire."""
        return sum(item.srtt_us for item in self.path)

    def passed_on(self, node_id: NodeId, srtt_us: int) -> Self:
        """Return the entry as relay ``node_id`` advertises it further.

        ``srtt_us`` is the smoothed RTT of the session on which that relay received it.
        """
        return replace(
            self,
            path=(*self.path, NodePathItem(node_id, srtt_us)),
            parameters=self.parameters.carried(),
        )


_LOCATION: Final = Layout(Location, ("longitude", Degrees(180)), ("latitude", Degrees(90)))
_LOAD: Final = Layout(
    Load, ("load_class", Choice(VARINT, LoadClass)), ("value", Constrained(VARINT, 0, MAX_LOAD))
)
_REACHABLE: Final = Layout(Reachable, ("node_id", NODE_ID), ("rtt_us", VARINT))
_PATH_ITEM: Final = Layout(NodePathItem, ("node_id", NODE_ID), ("srtt_us", VARINT))
_SIGNATURE: Final = Layout(
    NodeSignature,
    ("scheme", VARINT),
    ("fingerprint", Prefixed(FINGERPRINT_BYTES)),
    ("signature", Prefixed(MAX_SIGNATURE_BYTES)),
)

NODE_SELF: Final = Layout(
    NodeSelf,
    ("node_id", NODE_ID),
    ("relay_type", Choice(VARINT, RelayType)),
    ("stamp", STAMP),
    ("contacts", CONTACTS),
    ("location", Maybe(_LOCATION)),
    ("region", Text(MAX_REGION_BYTES)),
    ("load", _LOAD),
    ("reachable", Array(_REACHABLE, MAX_REACHABLE)),
    ("labels", LABELS),
    ("parameters", PARAMETERS),
    shared=True,  # sent to all peers
)

NODE_INFO: Final = Layout(
    NodeInfo,
    ("node", NODE_SELF),
    ("signature", _SIGNATURE),
    ("path", Array(_PATH_ITEM, MAX_HOPS)),
    ("parameters", PARAMETERS),
    shared=True,  # sent to all peers
)


# Announces and subscribes

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
