"""Guests: peers that are no part of the network beyond this relay, and how they are let in."""

from __future__ import annotations

from typing import Any, Protocol

from laps_relay.core.network.links import Guest, Link
from laps_relay.core.network.peers import Peers, PeerUp

__all__ = ["GuestFactory", "GuestWire"]


class GuestWire:
    """The peering session of a guest, for its commands."""

    __slots__ = ("_peers", "session")

    def __init__(self, peers: Peers, session: int) -> None:
        self._peers = peers
        self.session = session

    def send(self, now: float, message: Any) -> None:
        """Send information; nothing if the session is about to end."""
        if self._peers.up(self.session) is not None:
            self._peers.wire(self.session).send(now, message)

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        """End the session."""
        self._peers.close(now, self.session, code, reason)


class GuestFactory(Protocol):
    """Makes a guest of a session that is none of the network's own (Stub, parent, C++ relay)."""

    def __call__(self, now: float, link: Link, up: PeerUp, wire: GuestWire) -> Guest | None:
        """The guest; None: the peer is a relay like any other."""
