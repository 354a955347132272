"""What is remembered of one peering connection, from its first byte to its end.

``Peers`` has one for each number that the shell gave; the node at the other end is only what it
says of itself until ``up`` is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_sdk.peering.events import Dial, PeerUp
from laps_wire.nodeid import NodeId
from laps_wire.peering.session import PeeringSession, Refused, Role

__all__ = ["STREAM_STEP", "PeerRecord"]

STREAM_STEP: Final = 4
"""From one bidirectional stream of a client to its next (RFC 9000, 2.1)."""


@dataclass(slots=True, eq=False)
class PeerRecord:
    """One connection."""

    number: int
    wire: PeeringSession
    role: Role
    alpn: str
    spki_hash: bytes
    dial: Dial | None
    node: NodeId | None = None
    """Who the peer says it is."""
    fingerprint: bytes = b""
    up: PeerUp | None = None
    over: bool = False
    refusal: Refused | None = None
    next_stream: int = STREAM_STEP
    """The id of its next control stream, should it lose the first one."""
    reopened: float = float("-inf")
    reopen_at: float | None = None
    parted: bool = False
    """It ends because nobody wants this connection any more, whether we stay or not."""
