"""What a relay reports of its peers for logs and telemetry: the output of its ``poll_events``.

Reports are frozen. They identify sessions by the numbers of the peer port and nodes by their ids.
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
"""Codes with which we close because the peer broke the protocol."""


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
    """The contact that was dialled; "" if the peer dialled."""
    handshake: float = 0.0
    """Seconds from the connection to the established session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerGone:
    """A peering session has ended."""

    session: int
    node: NodeId | None
    code: int
    reason: str
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTurnedDown:
    """A handshake failed: one side refused, or no answer came in time."""

    session: int
    node: NodeId | None
    code: int
    reason: str
    contact: str = ""
    """The contact that was dialled; "" if the peer dialled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFaulted:
    """A peer broke the protocol; its session is being closed."""

    session: int
    node: NodeId | None
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLeaving:
    """A side sent DRAIN: traffic through the peer moves elsewhere."""

    session: int
    node: NodeId
    reason: str
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStays:
    """The peer sent STAY and so cancelled its DRAIN."""

    session: int
    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """A connection to a relay was dialled, or the dial failed."""

    contact: str
    node: NodeId | None
    dynamic: bool
    failed: str = ""
    """Why the dial failed; "" if it was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspected:
    """A peer sent information on a node that is not believed."""

    node: NodeId
    peer: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForgotten:
    """An operator allowed another key to hold a node id."""

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
"""Every report of peers, also of a Stub."""
