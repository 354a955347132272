"""What a relay's own clients ask about fetches; a part of ``NetworkRelay``."""

from __future__ import annotations

from laps_relay.network.orders import NetworkOrders
from laps_sdk.upstream.interfaces import FetchHandle, FetchRefusal
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData
from laps_wire.peering.laps2.information import NO_DATA

__all__ = ["FetchCommands"]


class FetchCommands(NetworkOrders):
    """FETCHes of our own clients, and their answers to those of others."""

    __slots__ = ()

    def fetch(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        """Our clients want a range of the past; gives its ID, or why it cannot be had."""
        asked = self._fetches.asking.ask(now, name, data)
        self._settle(now, news=False)
        return asked

    def unfetch(self, now: float, fetch_id: int) -> None:
        """They do not any more."""
        self._fetches.asking.cancel(now, fetch_id)
        self._settle(now, news=False)

    def fetch_over(self, now: float, fetch_id: int) -> None:  # noqa: ARG002 - as all commands
        """Its stream has ended."""
        self._fetches.asking.over(fetch_id)

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        """A FETCH of another relay is answered; its stream goes into the feed."""
        self._fetches.fetched(now, handle, data)
        self._settle(now, news=False)

    def fetch_refused(
        self, now: float, handle: FetchHandle, code: int, reason: str, data: SubscribeData = NO_DATA
    ) -> None:
        """It is not."""
        self._fetches.refused(now, handle, FetchRefusal(code, reason, data))
        self._settle(now, news=False)

    def fetch_served(self, now: float, handle: FetchHandle) -> None:
        """Its stream has ended."""
        self._fetches.serving.served(now, handle)
        self._settle(now, news=False)
