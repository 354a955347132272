"""Node information: what a node says about itself, and the path along which we hear it.

::

    +---------------- NodeSelf: written by the node, never changed -----------------+
    | node id · type · epoch · sequence · contacts · location · region · load ·     |
    | reachability · labels · parameters                                            |
    +---------------- NodeSignature: over the bytes above --------------------------+
    | scheme · key fingerprint · signature                                          |
    +---------------- the way it came: each relay appends itself -------------------+
    | path [(node id, sRTT) ...] · parameters                                       |
    +-------------------------------------------------------------------------------+

The self part is passed on byte for byte: it has one encoding (shortest varints, ascending
parameters), so decoding and encoding give the same bytes and the signature stays good. A relay may
not improve what a node says of itself; it can only lengthen the path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import F64, VARINT, Choice, Constrained, Prefixed, Text
from laps_wire.layout import Array, Layout
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import AuthScheme, LoadClass, RelayType
from laps_wire.peering.laps2.fields import CONTACTS, LABELS, STAMP, Label, Maybe, Stamp
from laps_wire.peering.laps2.limits import (
    FINGERPRINT_BYTES,
    MAX_HOPS,
    MAX_REACHABLE,
    MAX_REGION_BYTES,
    MAX_SIGNATURE_BYTES,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters

__all__ = [
    "MAX_LOAD",
    "NODE_INFO",
    "NODE_SELF",
    "UNSIGNED",
    "Degrees",
    "Load",
    "Location",
    "NodeInfo",
    "NodePathItem",
    "NodeSelf",
    "NodeSignature",
    "Reachable",
]

MAX_LOAD: Final = 1000
"""Load values are thousandths of the node's capacity."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """An angle as a double, from ``-limit`` to ``limit``."""

    limit: int

    def read(self, reader: Reader, field: str) -> float:
        """Read it."""
        start = reader.pos
        value = F64.read(reader, field)
        if not -self.limit <= value <= self.limit:
            reader.fail(field, f"{value} is outside -{self.limit}..{self.limit}", offset=start)
        return value

    def write(self, writer: Writer, value: float, field: str) -> None:
        """Write it."""
        if not -self.limit <= value <= self.limit:
            writer.fail(field, f"{value} is outside -{self.limit}..{self.limit}")
        writer.f64(value, field)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a node stands, in degrees (WGS 84)."""

    longitude: float
    """East is positive, -180 to 180."""
    latitude: float
    """North is positive, -90 to 90."""


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """How busy a node is; ordered as selection orders it."""

    load_class: LoadClass = LoadClass.NORMAL
    value: int = 0
    """Thousandths of the capacity, 0 to 1000."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """A node that the advertised node can reach by itself, and the time there and back."""

    node_id: NodeId
    rtt_us: int
    """Measured round trip in microseconds."""


@dataclass(frozen=True, slots=True)
class NodePathItem:
    """One relay that passed the information on (seed 000, Node Path)."""

    node_id: NodeId
    """The relay that sent the advertisement."""
    srtt_us: int
    """Smoothed RTT in microseconds of the session on which *it* received the information."""


@dataclass(frozen=True, slots=True)
class NodeSignature:
    """By which key a node ID is held, and that key's signature over the self part."""

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
    """What a node says about itself."""

    node_id: NodeId
    relay_type: RelayType
    stamp: Stamp
    """The node's boot epoch, and a sequence that grows when anything below changes."""
    contacts: tuple[str, ...] = ()
    """How to dial it, maybe through a load balancer or anycast; empty: it cannot be dialled."""
    location: Location | None = None
    region: str = ""
    """The operator's name of its region; empty if none."""
    load: Load = Load()
    reachable: tuple[Reachable, ...] = ()
    """Other nodes that it reaches directly, for choosing Vias."""
    labels: tuple[Label, ...] = ()
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node as a peer advertises it."""

    node: NodeSelf
    signature: NodeSignature = UNSIGNED
    path: tuple[NodePathItem, ...] = ()
    """The relays that passed it on, the one nearest to the node first; empty: the node itself."""
    parameters: Parameters = NO_PARAMETERS
    """About the way, not about the node."""

    @property
    def sum_srtt_us(self) -> int:
        """The sum over the path; derived, and so never wrong on the wire."""
        return sum(item.srtt_us for item in self.path)

    def passed_on(self, node_id: NodeId, srtt_us: int) -> Self:
        """What relay ``node_id``, which heard this over a session of ``srtt_us``, advertises."""
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
    shared=True,  # told to all peers
)

NODE_INFO: Final = Layout(
    NodeInfo,
    ("node", NODE_SELF),
    ("signature", _SIGNATURE),
    ("path", Array(_PATH_ITEM, MAX_HOPS)),
    ("parameters", PARAMETERS),
    shared=True,  # told to all peers
)
