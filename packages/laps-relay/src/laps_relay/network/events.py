"""What the network core tells its shell, for logs and telemetry: the output of ``poll_events``.

Every event is frozen, names sessions by the shell's numbers, nodes by their ids and tracks by their
hashes, and holds no token and no byte of an object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeInfo,
    RelayType,
    SnsRefusal,
    SubscribeInfo,
)

__all__ = [
    "AnnounceAdded",
    "AnnounceGone",
    "Dialled",
    "KeyForgotten",
    "NetworkEvent",
    "NodeAdded",
    "NodeGone",
    "NodeSuspected",
    "PeerAdded",
    "PeerFaulted",
    "PeerGone",
    "PeerLeaving",
    "PeerStays",
    "PeerTurnedDown",
    "PolicyChanged",
    "RouteChanged",
    "SetChanged",
    "SetGone",
    "SetRefused",
    "SubscribeAdded",
    "SubscribeGone",
    "SubscribeRefused",
]


# Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAdded:
    """A peering session is established."""

    session: int
    node: NodeId
    relay_type: RelayType
    mode: str
    alpn: str
    control: bool
    dialled: bool
    implementation: str = ""
    contact: str = ""
    """Where it was dialled; empty if it came by itself."""
    handshake: float = 0.0
    """Seconds from the connection to the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerGone:
    """It is over."""

    session: int
    node: NodeId | None
    code: int
    reason: str
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTurnedDown:
    """A handshake did not come to its end: somebody said no, or nobody answered in time."""

    session: int
    node: NodeId | None
    code: int
    reason: str
    contact: str = ""
    """As of :class:`PeerAdded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFaulted:
    """A peer broke the protocol; its session is being closed."""

    session: int
    node: NodeId | None
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLeaving:
    """DRAIN: what goes through the peer is moved away from it."""

    session: int
    node: NodeId
    reason: str
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStays:
    """STAY: the peer has taken its DRAIN back."""

    session: int
    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """A connection to a relay is wanted, or could not be had."""

    contact: str
    node: NodeId | None
    dynamic: bool
    failed: str = ""
    """Why; empty if it was begun."""


# Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node became known, or says something else of itself."""

    info: NodeInfo
    peer: NodeId | None
    """Through whom; None for our own."""
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone:
    """A node can not be reached any more."""

    node: NodeId
    reason: str
    """``withdrawn`` or ``session_closed``: what the last peer that knew it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspected:
    """A peer said something of a node that is not believed."""

    node: NodeId
    peer: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChanged:
    """The best way to a node is another one."""

    node: NodeId
    peer: NodeId | None
    """The next hop now; None: there is no way."""
    hops: int
    cost_us: int


# Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceAdded:
    """An announce became known."""

    entry: AnnounceInfo
    session: int | None
    """Where it came from; None for our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceGone:
    """It is over."""

    entry: AnnounceInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeAdded:
    """A subscribe became known."""

    entry: SubscribeInfo
    session: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeGone:
    """It is over."""

    entry: SubscribeInfo
    delayed: bool = False
    """Whether we held it back first; what others do is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRefused:
    """Policy, a publisher or a collision said no to a subscribe."""

    key: int
    source: NodeId
    code: int
    reason: str


# Forwarding


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChanged:
    """A subscriber node set was made or changed."""

    session: int
    sns_id: int
    incoming: bool
    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    members: int
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGone:
    """A subscriber node set is over."""

    session: int
    sns_id: int
    incoming: bool
    removed: tuple[NodeId, ...]
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRefused:
    """A peer named targets in a set that we do not serve for it."""

    session: int
    node: NodeId
    sns_id: int
    code: SnsRefusal
    targets: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForgotten:
    """A person lets another key have a node id."""

    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """Another policy is in force."""


NetworkEvent: TypeAlias = (
    PeerAdded
    | PeerGone
    | PeerTurnedDown
    | PeerFaulted
    | PeerLeaving
    | PeerStays
    | Dialled
    | NodeAdded
    | NodeGone
    | NodeSuspected
    | RouteChanged
    | AnnounceAdded
    | AnnounceGone
    | SubscribeAdded
    | SubscribeGone
    | SubscribeRefused
    | SetChanged
    | SetGone
    | SetRefused
    | KeyForgotten
    | PolicyChanged
)
