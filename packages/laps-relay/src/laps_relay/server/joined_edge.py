"""An Edge and the clients of it that live in this process: its upstream, and foreign peers.

::

    clients --- EdgeRelay ---+--- session 0    the upstream: the network, or the parents of a Stub
                             +--- session -1   a foreign peer: a Stub or a C++ relay
                             '--- ...

Each of them is a MoQT session in memory. Control messages are pumped until none is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.upstream.upstream import Upstream

__all__ = ["UPSTREAM_SESSION", "EdgeUplink", "InMemoryClient", "JoinedEdge"]

UPSTREAM_SESSION: Final = 0
"""The number of the upstream's session; clients count up from 1, foreign peers down from -1."""


class InMemoryClient(Protocol):
    """A client of the Edge in this process: the upstream, a Stub or a C++ relay."""

    @property
    def client(self) -> Upstream:
        """Its session with the Edge."""

    def pump(self, now: float) -> bool:
        """Carry control messages until none is left; return whether there were any."""

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called."""

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""


class EdgeUplink(InMemoryClient, Protocol):
    """What the Edge asks for tracks that its own clients do not have."""

    def open(self, now: float) -> None:
        """Begin the session."""

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Take what happened at the Edge."""


class JoinedEdge:
    """Pumps the clients in memory of one Edge and calls their timers."""

    def __init__(self, server: EdgeServer, relay: EdgeRelay, upstream: EdgeUplink) -> None:
        self.server = server
        self.relay = relay
        self._upstream = upstream
        self._clients: dict[int, InMemoryClient] = {UPSTREAM_SESSION: upstream}
        """By session; empty once the Edge was left."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    # Life

    def open(self) -> None:
        """Begin the session of the upstream; the server must have its clock."""
        self._upstream.open(self.server.now)

    def leave(self) -> None:
        """End the sessions of the upstream and of all foreign peers; do nothing a second time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        clients, self._clients = self._clients, {}
        for number in clients:
            self.relay.remove_session(self.server.now, number)
        if clients:
            self.server.settle()

    @property
    def joined(self) -> bool:
        """Whether :meth:`leave` was not called yet."""
        return bool(self._clients)

    # Turns

    def turn(self, now: float, events: Sequence[RelayEvent]) -> bool:
        """Pass events of the Edge upstream; return whether control messages were carried."""
        if events:
            self._upstream.observe(now, events)
        moved = self.pump(now)
        if moved:
            self.server.settle()
        return moved

    def pump(self, now: float) -> bool:
        """Carry control messages until none is left; return whether there were any."""
        moved = False
        for number, client in list(self._clients.items()):
            moved |= client.pump(now)
            if number != UPSTREAM_SESSION and client.client.closed:
                del self._clients[number]
        return moved

    def arm(self) -> None:
        """Set the timer to the earliest timeout of all clients."""
        times = [client.poll_timeout() for client in self._clients.values()]
        due = min((time for time in times if time is not None), default=None)
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = due
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        for client in list(self._clients.values()):
            client.handle_timeout(self.server.now)
        self.server.settle()

    # Readings

    @property
    def collisions(self) -> int:
        """Names that were refused because another one has the same hash."""
        return self._upstream.client.collisions

    @property
    def serves_stubs(self) -> bool:
        """Whether data goes from or to a Stub."""
        return False
