"""Announces and subscribes: one table for each, filled by flooding (laps-2, 5.2 to 5.4).

::

    heard(session, entry) ---> newer than what is known? --no--> dropped; the giver is remembered
                                        |
                   node of the source known, with this epoch? --no--> waits (laps-2, 5.3)
                                        |
                                   the truth: take_changes() ---> who uses entries
                                        |
                     wanted and told are compared for each session ---> flush(session)

Of all that was heard about one identity the highest stamp is true. Everything that a session must
be told follows from that: an entry goes to all sessions but the one over which it came first (its
*primary*), its source, and those that export rules exclude. What was told and is not wanted any
more is withdrawn **with its own stamp**. A source never uses a stamp twice, so such a withdrawal
says nothing about the source; it says that the sender does not give the entry any more. Whoever has
it from somebody else keeps it, and gives it back to the sender.

When the last session that gave an entry has ended, the entry stays for a grace while its source is
still known: another peer may have it, and gives it as soon as it hears that we lost it. A planned
change of paths does not make a subscribe flap that way.

::

    FloodRows       flood_rows.py: the rows, looking them up
      └─ FloodLosses  flood_losses.py: givers and sources that go
           └─ FloodTable  this module: what is heard, said and told
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar, cast

from laps_relay.network.flood.entries import Flooded
from laps_relay.network.flood.flood_losses import FloodLosses
from laps_relay.network.flood.flood_records import (
    NOBODY,
    Change,
    FloodPeer,
    FloodSizes,
    Record,
    Source,
    Verdict,
)
from laps_sdk.timers import Timers, earliest
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.varint import QUIC_MAX

__all__ = ["Change", "FloodSizes", "FloodTable", "Verdict"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class FloodTable(FloodLosses[E, W, I]):
    """All announces, or all subscribes."""

    __slots__ = ()

    # Sessions

    def add_session(self, session: int, *, source: NodeId | None, room: int = QUIC_MAX) -> None:
        """A control session is up; ``source`` is the node at its other end.

        It takes ``room`` entries from us, and is told no more.
        """
        state = self._state
        if session in state.peers:
            raise StateError(f"session {session} is in the table already")
        peer: FloodPeer[E, W] = FloodPeer(session, source, state.slots.take(session), room)
        state.peers[session] = peer
        self._telling.fill(peer)

    def remove_session(self, now: float, session: int) -> None:
        """It has ended: what it alone gave is forgotten, after a grace."""
        state = self._state
        peer = state.peers.pop(session, None)
        if peer is None:
            return
        full = state.slots.retire(peer.slot)
        for record in self._given_by(peer):
            self._ungive(now, peer, record)
        self._waiting.leave(peer)
        self._telling.leave(peer)
        self._timers.cancel(peer)
        if full:
            active = state.slots.active
            state.slots.swept()
            for record in state.records():
                record.sent = state.slots.shared(record.sent & active)
                record.stale = state.slots.shared(record.stale & active)

    def _given_by(self, peer: FloodPeer[E, W]) -> list[Record[E, W]]:
        sources = self._state.sources
        return [
            record
            for source in peer.given
            for record in sources[source].records.values()
            if record.given & peer.bit
        ]

    def sync_began(self, session: int) -> None:
        """The peer tells everything again (laps-2, 5.4)."""
        peer = self._state.peer(session)
        # If nothing was said before, nothing can be missing at the end.
        peer.told = set() if peer.total or peer.early else None

    def sync_ended(self, now: float, session: int) -> None:
        """Forget at once what the peer said before and has not said again, nor taken back."""
        peer = self._state.peer(session)
        told, peer.told = peer.told, None
        if told is None:
            return
        for record in self._given_by(peer):
            if not record.dead and record not in told:
                self._ungive(now, peer, record)
                if not record.given:
                    self._forget(record)
        self._waiting.leave(peer, but=cast("set[object]", told))

    # What peers say

    def heard(self, now: float, session: int, entry: E) -> Verdict:
        """A peer advertised an entry.

        Raises :class:`~laps_wire.peering.errors.LimitExceededError` if it is one too many.
        """
        return self._heard(now, self._state.peer(session), self._kind.carried(entry), dead=False)

    def heard_withdrawal(self, now: float, session: int, withdrawal: W) -> Verdict:
        """A peer withdrew an entry. Raises like :meth:`heard`."""
        return self._heard(now, self._state.peer(session), withdrawal, dead=True)

    def _heard(self, now: float, peer: FloodPeer[E, W], item: E | W, *, dead: bool) -> Verdict:
        if item.source == self._kind.local:
            return Verdict.OWN
        source = self._state.sources.get(item.source)
        key = self._kind.key(item)
        if source is None or item.stamp.epoch > source.epoch:
            until = now + self._settings.convergence
            return self._waiting.heard(
                peer, key, item, dead=dead, until=until, check=lambda: self._check_room(peer)
            )
        if item.stamp.epoch < source.epoch:
            return Verdict.STALE
        record = source.records.get(key)
        # A peer passes on what others withdraw, so its session must not end for too much of it: the
        # entry goes, and nothing is kept that says so.
        crowded = dead and peer.tombs >= self._limit
        if record is None:
            if crowded:
                return Verdict.STALE
            if not dead:
                self._check_room(peer)
            record = source.records[key] = Record(item, dead=True)
        elif item.stamp < record.item.stamp:
            if record.dead and peer.node != item.source:
                # It has not heard of the end yet, and nobody else may be there to tell it.
                self._telling.correct(peer, record)
            return Verdict.STALE
        elif item.stamp == record.item.stamp:
            if dead == record.dead:
                self._repeat(now, peer, record)
                return Verdict.REPEATED
            if dead:
                if record.given & peer.bit:
                    self._ungive(now, peer, record)
                return Verdict.TAKEN_BACK
            # A withdrawal with this stamp was of somebody who lost it: the source says it is so.
            self._check_room(peer)
        elif not dead and (record.dead or not record.given & peer.bit):
            self._check_room(peer)
        self._accept(now, peer, source, record, item, dead=dead)
        if crowded:
            self._forget(record)
        return Verdict.NEWER

    def _check_room(self, peer: FloodPeer[E, W]) -> None:
        if peer.live >= self._limit:
            raise LimitExceededError(f"more than {self._limit} entries from one peer")

    def _accept(
        self,
        now: float,
        peer: FloodPeer[E, W],
        source: Source[E, W],
        record: Record[E, W],
        item: E | W,
        *,
        dead: bool,
    ) -> None:
        """What a peer said is the truth now."""
        self._note(source, record)
        self._doubts.confirm(record, record.given)
        self._rests.end(record)
        slots = self._state.slots
        told = record.sent | record.stale
        if dead:
            # Those who gave it do not know yet that it is over. A Via that keeps nothing does not
            # know who was told: everybody hears it (laps-2, 5.3).
            told = told | record.given if self._settings.reflect else slots.active
        for other in self._state.peers_of(record.given):
            other.count(record, -1)
        self._put(source, record, item, dead=dead)
        record.given, record.primary = slots.shared(peer.bit), peer.slot
        record.sent, record.stale = 0, slots.shared(told & ~peer.bit)
        peer.count(record, 1)
        if peer.told is not None:
            peer.told.add(record)
        if dead or not self._settings.reflect:
            self._timers.set(record, now + self._settings.convergence)
        else:
            self._timers.cancel(record)
        self._telling.mark(record)

    def _repeat(self, now: float, peer: FloodPeer[E, W], record: Record[E, W]) -> None:
        """One more session gives what is known, or says so again."""
        self._doubts.confirm(record, peer.bit)
        if not self._settings.reflect and not record.dead:
            self._timers.set(record, now + self._settings.convergence)
        if not record.given & peer.bit and not record.dead:
            self._check_room(peer)
            record.given = self._state.slots.shared(record.given | peer.bit)
            peer.count(record, 1)
            if record.primary == NOBODY:
                # It had lost its last giver a moment ago.
                if self._settings.reflect:
                    self._timers.cancel(record)
                self._follow(now, record, peer)
        if peer.told is not None:
            peer.told.add(record)

    # What we say ourselves

    def originate(self, now: float, entry: E) -> None:
        """An entry of our own, with a stamp that is newer than all before."""
        del now
        self._telling.ended.pop(self._own(entry, dead=False), None)

    def retract(self, now: float, withdrawal: W) -> None:
        """An entry of our own is over."""
        before = self.get(self._kind.identity(withdrawal))
        record = self._own(withdrawal, dead=True)
        if before is not None:
            self._telling.ended[record] = before
        # Others may keep an entry of ours that long without hearing of its end: until they see that
        # we are gone (hold), and then until it has waited (convergence).
        settings = self._settings
        self._timers.set(record, now + settings.hold + 2 * settings.convergence)

    def _own(self, item: E | W, *, dead: bool) -> Record[E, W]:
        source = self._state.sources.get(item.source)
        if source is None:
            source = self._state.sources[item.source] = Source(item.stamp.epoch, known=True)
        record = source.records.get(self._kind.key(item))
        if record is None:
            record = source.records[self._kind.key(item)] = Record(item, dead=True)
        self._note(source, record)
        self._put(source, record, item, dead=dead)
        record.stale = self._state.slots.shared(record.stale | record.sent)
        record.sent = 0
        self._timers.cancel(record)
        self._telling.mark(record)
        return record

    # Nodes

    def node_changed(self, now: float, node: NodeId, epoch: int | None) -> None:
        """The node information base has this epoch of a node; None: it does not know the node."""
        if node == self._kind.local:
            return
        source = self._state.sources.get(node)
        if epoch is None:
            if source is not None and source.known:
                self._suspend(now, node, source)
            return
        if source is None or not source.known or source.epoch != epoch:
            self._timers.cancel(node)
        if source is not None and source.epoch != epoch:
            # What a node said before a restart dies with its old epoch, everywhere by itself.
            for record in list(source.records.values()):
                self._fade(now, record)
            source = None
        if source is None:
            self._state.sources[node] = Source(epoch, known=True)
        elif not source.known:
            self._resume(now, node, source)
        for early, givers in self._waiting.take(node, epoch):
            for peer in givers:
                self._heard(now, peer, early.item, dead=early.dead)

    # Telling

    def resend(self, session: int) -> None:
        """Tell everything again: the peer asked for it, or its control stream moved."""
        self._telling.resend(self._state.peer(session))

    def reconsider(self, session: int | None = None) -> None:
        """Export rules have changed, for one session or for all."""
        if session is None:
            self._telling.reconsider()
        else:
            self._state.peer(session).full = True

    def offer(self, session: int, identities: Iterable[I]) -> None:
        """Export rules have changed for one session and these entries."""
        peer = self._state.peer(session)
        for identity in identities:
            record = self._record(identity)
            if record is not None:
                peer.dirty[record] = None

    def pending(self, session: int) -> bool:
        """Whether :meth:`flush` may have something."""
        peer = self._state.peer(session)
        return peer.full or bool(peer.dirty)

    def is_behind(self) -> bool:
        """Whether that is so for any session."""
        for peer in self._state.peers.values():  # noqa: SIM110 - after every event
            if peer.dirty or peer.full:
                return True
        return False

    def flush(self, session: int) -> tuple[tuple[E, ...], tuple[W, ...]]:
        """What a session must be told now: advertise, withdraw. No identity is in both."""
        return self._telling.flush(self._state.peer(session))

    # Time

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (self._timers, *self._rests.clocks, *self._waiting.clocks)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return earliest(
            self._timers.next(), self._rests.poll_timeout(), self._waiting.poll_timeout()
        )

    def handle_timeout(self, now: float) -> None:
        """Forget what has been kept long enough."""
        self._waiting.handle_timeout(now)
        while (rested := self._rests.pop(now)) is not None:
            self._telling.mark(rested)
        while (due := self._timers.pop(now)) is not None:
            if isinstance(due, Record):
                self._forget(due, quiet=not self._settings.reflect)
            elif isinstance(due, FloodPeer):
                self._telling.faded(due)
            elif self._state.sources[due].known:
                self._settle_doubts(now, due)
            else:
                for record in list(self._state.sources[due].records.values()):
                    self._fade(now, record)
