"""How a flood table loses entries: their givers go, their source is gone for a while, or for good.

::

    a session gives it no more  --> another giver is its primary   it rests a little first
                                --> nobody gives it                a grace, then forgotten
    its source is not known     --> not used; doubted              known again: used again, but
                                                                   givers must say it once more
    nobody tells the other of   --> kept; who is at the other end  the same, on that session
    its source on a session         may have forgotten it
    its source has restarted    --> fades, here as everywhere
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from laps_relay.network.flood.entries import Flooded
from laps_relay.network.flood.flood_doubts import DOUBTED, TOLD_AGAIN
from laps_relay.network.flood.flood_records import NOBODY, FloodPeer, Record, Source
from laps_relay.network.flood.flood_rows import FloodRows
from laps_wire.nodeid import NodeId

__all__ = ["FloodLosses"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class FloodLosses(FloodRows[E, W, I]):
    """What is done with rows that somebody gives no more, or whose source is gone."""

    __slots__ = ()

    # Givers

    def _ungive(self, now: float, peer: FloodPeer[E, W], record: Record[E, W]) -> None:
        """A session does not give this any more."""
        self._doubts.confirm(record, peer.bit)
        peer.count(record, -1)
        record.given = self._state.slots.shared(record.given & ~peer.bit)
        if record.primary != peer.slot:
            return
        record.primary = NOBODY
        if record.given:
            givers = self._state.peers_of(record.given)
            own = [giver for giver in givers if giver.node == record.item.source]
            self._follow(now, record, (own or givers)[0])
        elif not record.dead:
            # Another peer may still have it; it hears now that we do not, and gives it.
            self._timers.set(record, now + self._settings.origin_grace)
            self._telling.mark(record)

    def _follow(self, now: float, record: Record[E, W], giver: FloodPeer[E, W]) -> None:
        """Another session is the primary of an entry that has lost the one before."""
        record.primary = giver.slot
        if record.dead:
            return
        if giver.node == record.item.source:
            self._rests.end(record)
        else:
            self._rests.begin(now, record)
        self._telling.mark(record)

    def _forget(self, record: Record[E, W], *, quiet: bool = False) -> None:
        """Out of the table; those who were told hear it, unless they know by themselves."""
        node = record.item.source
        source = self._state.sources[node]
        self._note(source, record)
        if not record.dead:
            self._count(source, -1)
        del source.records[self._kind.key(record.item)]
        if not source.records and not source.known:
            self._timers.cancel(node)
            del self._state.sources[node]
        for peer in self._state.peers_of(record.given):
            peer.count(record, -1)
        self._timers.cancel(record)
        self._rests.end(record)
        self._doubts.confirm(record, record.given)
        self._telling.ended.pop(record, None)
        self._telling.over(record)
        record.given, record.primary = 0, NOBODY
        if quiet:
            record.sent = record.stale = 0
        elif not record.dead:
            self._telling.bury(record)
        # A withdrawal that is still to be told to somebody is told, though it is out of the table.
        record.dead = True

    def _fade(self, now: float, record: Record[E, W]) -> None:
        """Out of the table, as everywhere; a moment later there is room for it where it was told.

        Not at once: others learn a little later what we know of a node.
        """
        for peer in self._telling.fade(record):
            if self._timers.when(peer) is None:
                self._timers.set(peer, now + self._settings.origin_grace)
        self._forget(record, quiet=True)

    # Sources

    def _suspend(self, now: float, node: NodeId, source: Source[E, W]) -> None:
        """Nothing of it is used until it is known again, and nothing is kept for long."""
        source.since = now
        for record in source.records.values():
            self._note(source, record)
            if self._settings.reflect and not record.dead:
                self._doubts.note(record)
        source.known = False
        self._live -= source.live
        if source.records:
            self._timers.set(node, now + self._settings.convergence)
        else:
            self._timers.cancel(node)
            del self._state.sources[node]

    def _resume(self, now: float, node: NodeId, source: Source[E, W]) -> None:
        """A node is known again, in the same life."""
        # After so long somebody who gave it up a little earlier may need to be told again.
        away = (now - source.since) / self._settings.convergence
        long = away > TOLD_AGAIN
        for record in source.records.values():
            self._note(source, record)
            if long and not record.dead:
                self._telling.again(record, record.sent)
            self._telling.mark(record)
        source.known = True
        self._live += source.live
        self._doubts.returned(node, late=away > DOUBTED)
        self._await_doubts(now, node)

    def spoke(self, now: float, session: int, node: NodeId, silence: float) -> None:
        """One end of a session tells the other of a node again, after so many seconds.

        Meanwhile the peer may have lost the node, which we still knew from others, and what it
        said. Or it was so with us.
        """
        source = self._state.sources.get(node)
        away = silence / self._settings.convergence
        if source is None or away <= TOLD_AGAIN:
            return
        peer = self._state.peer(session)
        for record in source.records.values():
            if record.dead:
                continue
            if record.sent & peer.bit:
                self._telling.again(record, peer.bit)
                peer.dirty[record] = None
            if away > DOUBTED and record.given & peer.bit and self._settings.reflect:
                self._doubts.add(record, peer.bit)
        if source.known:
            self._await_doubts(now, node)

    def _await_doubts(self, now: float, node: NodeId) -> None:
        if self._doubts.of(node):
            self._timers.set(node, now + self._settings.origin_grace)

    def _settle_doubts(self, now: float, node: NodeId) -> None:
        """Who has not said again what it gave does not give it any more."""
        for record, bits in self._doubts.take(node).items():
            for peer in self._state.peers_of(record.given & bits):
                self._ungive(now, peer, record)
