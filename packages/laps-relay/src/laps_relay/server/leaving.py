"""Leaving in good order: clients are sent away, and peers move what goes through us."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from laps_relay.admin.relay_view import EdgeView
from laps_relay.telemetry.logs import Logger
from laps_sdk.edge.server import EdgeServer

if TYPE_CHECKING:
    from laps_relay.server.network_part import NetworkPart
    from laps_relay.server.stub_part import StubPart

__all__ = ["Leaving"]

_LOOK: Final = 0.02
"""Seconds between two looks at what peers have moved elsewhere."""


class Leaving:
    """Waits until a relay is needed no more, or for as long as it may take."""

    def __init__(
        self,
        server: EdgeServer,
        view: EdgeView,
        network: Callable[[], NetworkPart | StubPart | None],
        logger: Logger,
    ) -> None:
        self._server = server
        self._view = view
        self._network = network
        self._logger = logger
        self._empty = asyncio.Event()
        self._hurry = False

    def turned(self) -> None:
        """A turn of the server is over: perhaps the last client has left."""
        if not self._server.ports:
            self._empty.set()

    def hurry(self) -> None:
        """Wait for nobody."""
        self._hurry = True
        self._empty.set()

    def places(self) -> Callable[[int], str] | None:
        """What gives each client an address to go to."""
        network = self._network()
        redirects = None if network is None else network.redirects()
        return None if redirects is None else redirects.place

    def patience(self) -> float:
        """In how many seconds :meth:`places` knows who has which tracks."""
        network = self._network()
        return 0.0 if network is None else network.patience

    def tell_peers(self, seconds: float | None = None) -> None:
        """The network hears that we go; without seconds they are those of the configuration."""
        network = self._network()
        if network is not None:
            usual = self._view.loaded.config.listen.drain_timeout
            network.drain(usual if seconds is None else seconds)

    def keep_peers(self) -> None:
        """The network hears that we stay."""
        network = self._network()
        if network is not None:
            network.stay()

    async def drain(self, seconds: float) -> None:
        """Tell clients and peers, and wait for them: from now on there is no way back."""
        self._view.ending = True
        self.tell_peers(seconds)
        network = self._network()
        if self._server.ports or (network is not None and network.in_transit):
            self._logger.info("draining", sessions=len(self._server.ports), seconds=seconds)
            if not self._view.draining:
                self._view.drain("")
        if not self._hurry:
            self._empty.clear()
        self.turned()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty.wait()
                while self._stays:  # noqa: ASYNC110 - tables of the core are looked at
                    await asyncio.sleep(_LOOK)
        if network is not None and (unsent := network.unsent):
            self._logger.warning("peers did not get everything", streams=unsent, seconds=seconds)
        self._view.send_away()

    @property
    def _stays(self) -> bool:
        """Whether data still goes through us, or waits to be sent to peers."""
        network = self._network()
        return not self._hurry and network is not None and network.stays
