"""What a relay reports of its peers, for logs and telemetry: output of its ``poll_events``.

Every report is frozen. It names sessions by the shell's numbers and nodes by their ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import RelayType

__all__ = [
    "FAULTS",
    "Dialled",
    "KeyForgotten",
    "NodeSuspected",
    "PeerAdded",
    "PeerFaulted",
    "PeerGone",
    "PeerLeaving",
    "PeerReport",
    "PeerStays",
    "PeerTurnedDown",
]

FAULTS: Final = frozenset(
    {
        CloseCode.PROTOCOL_VIOLATION,
        CloseCode.UNKNOWN_MESSAGE,
        CloseCode.MESSAGE_TOO_LARGE,
        CloseCode.LIMIT_EXCEEDED,
        CloseCode.SNS_VIOLATION,
        CloseCode.BAD_NODE,
    }
)
"""Codes with which we close because the peer broke the protocol; others are ends like any other."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspected:
    """A peer said something of a node that is not believed."""

    node: NodeId
    peer: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForgotten:
    """A person lets another key have a node id."""

    node: NodeId


PeerReport: TypeAlias = (
    PeerAdded
    | PeerGone
    | PeerTurnedDown
    | PeerFaulted
    | PeerLeaving
    | PeerStays
    | Dialled
    | NodeSuspected
    | KeyForgotten
)
"""Everything that is reported of peers, by a Stub too."""
