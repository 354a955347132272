"""The events of the network for logs and telemetry: what ``poll_events`` returns.

Every event is frozen, names sessions by the shell's numbers, nodes by their ids and tracks by their
hashes, and holds no token and no byte of an object. What is reported of peers, by a Stub too, is in
:mod:`laps_sdk.peering.reports`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laps_sdk.peering.reports import (
    Dialled,
    KeyForgotten,
    NodeSuspected,
    PeerAdded,
    PeerFaulted,
    PeerGone,
    PeerLeaving,
    PeerStays,
    PeerTurnedDown,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeInfo,
    SnsRefusal,
    SubscribeInfo,
)

__all__ = [
    "AnnounceAdded",
    "AnnounceGone",
    "NetworkEvent",
    "NodeAdded",
    "NodeGone",
    "PolicyChanged",
    "RouteChanged",
    "SetChanged",
    "SetGone",
    "SetRefused",
    "SubscribeAdded",
    "SubscribeGone",
    "SubscribeRefused",
]


# Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node became known, or changed its node information."""

    info: NodeInfo
    peer: NodeId | None
    """The next hop; None for our own node."""
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone:
    """A node cannot be reached any more."""

    node: NodeId
    reason: str
    """``withdrawn`` or ``session_closed``: what the last peer that knew it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChanged:
    """The best path to a node changed."""

    node: NodeId
    peer: NodeId | None
    """The next hop now; None: there is no path."""
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
    """An announce was removed."""

    entry: AnnounceInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeAdded:
    """A subscribe became known."""

    entry: SubscribeInfo
    session: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeGone:
    """A subscribe was removed."""

    entry: SubscribeInfo
    delayed: bool = False
    """Whether it was ours and its withdrawal was delayed; unknown of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRefused:
    """A subscribe was refused for policy, by a publisher, or for a hash collision."""

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
    """A subscriber node set was withdrawn, or ended with its session."""

    session: int
    sns_id: int
    incoming: bool
    removed: tuple[NodeId, ...]
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRefused:
    """A peer named targets in a set that this relay does not serve for it."""

    session: int
    node: NodeId
    sns_id: int
    code: SnsRefusal
    targets: int
    """How many."""


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
