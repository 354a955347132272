"""Draining: clients are sent elsewhere, and peers move what goes through this relay.

::

    POST /v1/drain     --> begin ---+--> peers: the relay drains
    DELETE /v1/drain   --> take_back '-> clients: GOAWAY, at once or when control servers answered
    POST /v1/redirect  --> redirect ---> some clients: GOAWAY
    SIGTERM, new type  --> finish -----> begin, then wait for clients and peers
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from laps_relay.server.member import NetworkMember
from laps_relay.telemetry.logs import Logger
from laps_sdk.edge.server import EdgeServer

__all__ = ["ClientDrain"]

_LOOK: Final = 0.02
"""Seconds between two looks at what peers have moved elsewhere."""


class ClientDrain:
    """Sends clients of one relay away, and waits until the relay is needed no more."""

    def __init__(
        self,
        server: EdgeServer,
        network: Callable[[], NetworkMember | None],
        logger: Logger,
        timeout: Callable[[], float],
    ) -> None:
        """``network`` returns the relay's part in it; ``timeout`` is ``listen.drain_timeout``."""
        self._server = server
        self._network = network
        self._logger = logger
        self._timeout = timeout
        self._empty = asyncio.Event()
        self._hurry = False
        self._goaway: asyncio.TimerHandle | None = None
        self.draining = False
        self.ending = False
        """Whether the relay drains to end, or to become another type: there is no way back."""

    # Clients

    def begin(self, new_uri: str = "") -> None:
        """Send all clients away: to one address, or each to the relay that suits it best.

        Peers hear of it too: no relay sends clients here, and what goes through this one moves.
        Control servers get a moment to answer which relays have the tracks of the clients.
        """
        self.draining = True
        self._tell_peers(self._timeout())
        network = self._network()
        wait = 0.0 if new_uri or network is None else network.patience
        if wait > 0.0:
            self._cancel_goaway()
            self._goaway = asyncio.get_running_loop().call_later(wait, self._send_goaway, "")
        else:
            self._send_goaway(new_uri)

    def take_back(self) -> str | None:
        """Stop draining: clients that have not left may stay. Return why that is refused."""
        if not self.draining:
            return "the relay does not drain"
        if self.ending:
            return "the relay ends, or changes its type"
        self.draining = False
        self._cancel_goaway()
        network = self._network()
        if network is not None:
            network.stay()
        if self._server.running:
            self._server.relay.resume(all_stay=True)
            self._server.settle()
        return None

    def reset(self) -> None:
        """Take clients again, after :meth:`finish` and a change of the type."""
        self.draining = self.ending = False

    def redirect(self, sessions: Sequence[int] | None, share: float, new_uri: str) -> int:
        """Send some clients elsewhere and keep the others; return how many were sent.

        Without ``sessions`` a share of all is sent, spread over the times at which they came.
        Without an address each goes to the relay that suits it best, or stays if there is none.
        """
        if not self._server.running:
            return 0
        relay = self._server.relay
        if sessions is None:
            there = sorted(
                row.session for row in relay.sessions() if not row.leaving and not row.info.upstream
            )
            sessions = [
                session
                for index, session in enumerate(there)
                if int((index + 1) * share) > int(index * share)
            ]
        find = None if new_uri else self._places()
        places = {each: new_uri or (find(each) if find is not None else "") for each in sessions}
        sent = relay.redirect(
            self._server.now, {each: place for each, place in places.items() if place}
        )
        self._server.settle()
        return sent

    def send_waiting(self) -> None:
        """Send GOAWAY now to clients that wait for an answer of control servers."""
        if self._goaway is not None:
            self._send_goaway("")

    def _send_goaway(self, new_uri: str) -> None:
        self._cancel_goaway()
        if self._server.running:
            places = None if new_uri else self._places()
            self._server.relay.drain(self._server.now, new_uri, places=places)
            self._server.settle()

    def _cancel_goaway(self) -> None:
        if self._goaway is not None:
            self._goaway.cancel()
            self._goaway = None

    def _places(self) -> Callable[[int], str] | None:
        """Return what gives each client an address; None: clients find one themselves."""
        network = self._network()
        return None if network is None else network.places()

    def _tell_peers(self, seconds: float) -> None:
        network = self._network()
        if network is not None:
            network.drain(seconds)

    # The end

    async def finish(self, seconds: float) -> None:
        """Drain for good: wait for clients and peers, for so many seconds at most."""
        self.ending = True
        self._tell_peers(seconds)
        network = self._network()
        if self._server.ports or (network is not None and network.in_transit):
            self._logger.info("draining", sessions=len(self._server.ports), seconds=seconds)
            if not self.draining:
                self.begin()
        if not self._hurry:
            self._empty.clear()
        if not self._server.ports:
            self.clients_left()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty.wait()
                while self._stays:  # noqa: ASYNC110 - tables of the core are looked at
                    await asyncio.sleep(_LOOK)
        if network is not None and (unsent := network.unsent):
            self._logger.warning("peers did not get everything", streams=unsent, seconds=seconds)
        self.send_waiting()

    def clients_left(self) -> None:
        """Note that the relay has no client."""
        self._empty.set()

    def hurry(self) -> None:
        """End :meth:`finish` at once."""
        self._hurry = True
        self._empty.set()

    @property
    def _stays(self) -> bool:
        """Whether data still goes through the relay, or waits to be sent to peers."""
        network = self._network()
        return not self._hurry and network is not None and network.stays
