"""Node information: a node's description of itself, and the path of its advertisement.

::

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
