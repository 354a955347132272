"""When peers are sent what the information bases hold, and when they are asked for theirs.

::

    a base changed ----------> batching time --> flush to each peer that is behind
    a peer asks (SYNC) ------> at most once in SYNC_PAUSE --> everything, between SYNC_BEGIN and END
    a Via that keeps nothing:  a peer asks --> all others are asked first, then it is answered
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from laps_relay.network.flood.advertising import Advertiser
from laps_relay.network.flood.floods import AnnounceTable, SubscribeTable
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.timers import Due, RelayTimers
from laps_sdk.peering.links import Link, Links
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Bases, SyncRequest

__all__ = ["FLOODED", "SYNC_PAUSE", "AdvertisementSchedule"]

FLOODED: Final = Bases.ANNOUNCES | Bases.SUBSCRIBES
REFILL_TIME: Final = 1.0
"""How long a Via that keeps nothing waits for what others have, in seconds."""
SYNC_PAUSE: Final = 1.0
"""A peer is sent everything again at most so often, in seconds."""
_LOOK: Final = (Due.LOOK, 0)


class AdvertisementSchedule:
    """Schedules differences and synchronisations for all control sessions."""

    __slots__ = (
        "_advertiser",
        "_announces",
        "_links",
        "_nib",
        "_refilled",
        "_send",
        "_settings",
        "_subscribes",
        "_timers",
    )

    def __init__(
        self,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        timers: RelayTimers,
        send: Callable[[float, int, Any], bool],
    ) -> None:
        """``send`` sends a message over a session."""
        self._settings = settings
        self._links = links
        self._nib = nib
        self._announces = announces
        self._subscribes = subscribes
        self._timers = timers
        self._send = send
        self._advertiser = Advertiser(nib, announces, subscribes)
        self._refilled = float("-inf")
        """When peers were last asked for everything."""

    # Differences

    def schedule(self, now: float) -> None:
        """Begin the batching time if any peer is behind; it is one for all peers."""
        if self._timers.when(_LOOK) is None and (
            self._nib.is_behind(now) or self._announces.is_behind() or self._subscribes.is_behind()
        ):
            self._timers.set(_LOOK, now + self._settings.batch)

    def flush_behind(self, now: float) -> None:
        """Send differences to every peer that is behind."""
        for link in list(self._links.controls()):
            if self._is_behind(now, link):
                self.flush(now, link.session)

    def _is_behind(self, now: float, link: Link) -> bool:
        return (
            (link.node is not None and self._nib.pending(now, link.node))
            or self._announces.pending(link.session)
            or self._subscribes.pending(link.session)
        )

    def flush(self, now: float, session: int) -> None:
        """Send all differences to one peer."""
        link = self._links.get(session)
        if link is not None and link.control and link.foreign_peer is None:
            self._advertiser.flush(now, link, lambda message: self._send(now, session, message))

    def flush_all(self, now: float) -> None:
        """Send all differences to all peers."""
        for link in list(self._links.controls()):
            self.flush(now, link.session)

    def nodes_advertised(self, now: float, session: int, peer: NodeId) -> None:
        """A peer advertised nodes: their entries may have to be sent again (laps-2, 5.3)."""
        self._advertiser.spoken(now, session, peer)

    # Synchronisation

    def sync_requested(self, now: float, link: Link, bases: Bases) -> None:
        """A peer must be sent everything: it is new, its control stream has moved, or it asks."""
        first, link.synced = not link.synced, True
        if not self._settings.reflect and bases & FLOODED:
            # Others have what we do not keep. A new peer receives it as it comes; a peer that had
            # it would take it for gone if it were missing between SYNC_BEGIN and SYNC_END.
            if not first:
                self.refill(now, link)
                self._timers.set((Due.RESYNC, link.session), now + REFILL_TIME)
                bases &= ~FLOODED
            elif self._timers.when((Due.REFILL, 0)) is None:
                self._timers.set((Due.REFILL, 0), now + self._settings.batch)
        # A few bytes cause all tables to be sent: no peer gets that as often as it likes.
        due = link.synced_at
        if due <= now:  # otherwise it is about to be sent everything
            due = link.synced_at = now if first else max(now, due + SYNC_PAUSE)
        if due > now:
            link.asked |= bases
        else:
            link.sync |= bases
        self._timers.set((Due.FLUSH, link.session), due)

    def sync_due(self, now: float, session: int) -> None:
        """Send a peer all that it asked for."""
        link = self._links.by_session[session]
        link.sync, link.asked = link.sync | link.asked, Bases(0)
        self.flush(now, session)

    def resync_due(self, now: float, session: int) -> None:
        """Send a peer all announces and subscribes, now that others have sent us theirs."""
        self._links.by_session[session].sync |= FLOODED
        self.flush(now, session)

    def refill(self, now: float, asked: Link | None = None) -> None:
        """Ask peers for everything; because one of them ``asked`` for it, not all the time.

        Otherwise Vias that keep nothing would ask each other in a circle for ever.
        """
        if asked is None or now >= self._refilled + self._settings.convergence / 2:
            self._refilled = now
            before = now - self._settings.batch
            self.request_sync(now, lambda link: link is not asked and link.opened < before)

    def request_sync(self, now: float, whom: Callable[[Link], bool]) -> None:
        """Ask peers to send all announces and subscribes again."""
        for link in list(self._links.controls()):
            if whom(link):
                self._send(now, link.session, SyncRequest(FLOODED))
