"""Guests: peers that are no part of the network beyond this relay, and how they are let in."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.links import ForeignPeer, Link
from laps_sdk.peering.peers import Peers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId

__all__ = ["ForeignPeerFactory", "ForeignPeerWire"]


class ForeignPeerWire:
    """The peering session of a guest, for its commands."""

    __slots__ = ("_peers", "session")

    def __init__(self, peers: Peers, session: int) -> None:
        self._peers = peers
        self.session = session

    def send(self, now: float, message: Any) -> None:
        """Send information; nothing if the session is about to end."""
        self._peers.send(now, self.session, message)

    def advertise_sns(self, now: float, targets: tuple[NodeId, ...]) -> int | None:
        """Make a subscriber node set; gives its id, None if there can be none."""
        if self._peers.up(self.session) is None:
            return None
        try:
            return self._peers.wire(self.session).advertise_sns(now, targets)
        except StateError:
            return None

    def update_sns(self, now: float, sns_id: int, targets: tuple[NodeId, ...]) -> None:
        """Change one in place."""
        if self._peers.up(self.session) is not None:
            with suppress(StateError):  # too large: those who come are not served
                self._peers.wire(self.session).update_sns(now, sns_id, targets)

    def withdraw_sns(self, now: float, sns_id: int) -> None:
        """End one."""
        if self._peers.up(self.session) is not None:
            self._peers.wire(self.session).withdraw_sns(now, sns_id)

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        """End the session."""
        self._peers.close(now, self.session, code, reason)


class ForeignPeerFactory(Protocol):
    """Makes a guest of a session that is none of the network's own (Stub, parent, C++ relay)."""

    def __call__(
        self, now: float, link: Link, up: PeerUp, wire: ForeignPeerWire
    ) -> ForeignPeer | None:
        """The guest; None: the peer is a relay like any other."""
