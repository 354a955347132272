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

An entry is usable if it is not a withdrawal and the node information base knows its source. Before
a record changes, :meth:`FloodTable._note` keeps what its users know of it. A change that ends where
it began is therefore not reported.

How the table loses entries::

    a session gives it no more  --> another giver is its primary   it rests a little first
                                --> nobody gives it                a grace, then forgotten
    its source is not known     --> not used; doubted              known again: used again, but
                                                                   givers must say it once more
    nobody tells the other of   --> kept; who is at the other end  the same, on that session
    its source on a session         may have forgotten it
    its source has restarted    --> fades, here as everywhere
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar, cast

from laps_relay.network.flood.entries import Flooded, Kind
from laps_relay.network.flood.flood_doubts import DOUBTED, Doubts
from laps_relay.network.flood.flood_records import (
    NOBODY,
    Change,
    FloodPeer,
    FloodSizes,
    FloodState,
    Record,
    Source,
    Verdict,
)
from laps_relay.network.flood.flood_rests import Rests
from laps_relay.network.flood.flood_telling import Telling
from laps_relay.network.flood.flood_waiting import Waiting
from laps_relay.network.nodes.silences import TOLD_AGAIN
from laps_relay.network.settings import NetworkSettings
from laps_sdk.timers import Timers, earliest
from laps_wire.buffer import QUIC_MAX
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceWithdrawal,
    SubscribeInfo,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.information import AnnounceIdentity, SubscribeIdentity

__all__ = ["AnnounceTable", "Change", "FloodSizes", "FloodTable", "SubscribeTable", "Verdict"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class FloodTable(Generic[E, W, I]):
    """All announces, or all subscribes."""

    __slots__ = (
        "_changes",
        "_doubts",
        "_kind",
        "_limit",
        "_live",
        "_rests",
        "_settings",
        "_state",
        "_telling",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        kind: Kind[E, W, I],
        settings: NetworkSettings,
        *,
        exports: Callable[[int, E], bool],
        audience: Callable[[E], Iterable[int]] | None = None,
    ) -> None:
        """``exports(session, entry)``: whether a session may be told an entry.

        ``audience(entry)``, if given, names the only sessions for which that is worth asking: a
        control server with a thousand Edges asks few of them.
        """
        self._kind = kind
        self._settings = settings
        self._limit = kind.limit(settings)
        self._state: FloodState[E, W] = FloodState()
        self._rests: Rests[E, W] = Rests(settings.batch)
        self._telling: Telling[E, W, I] = Telling(kind, self._state, self._rests, exports, audience)
        self._waiting: Waiting[E, W] = Waiting(self._state)
        self._doubts: Doubts[E, W] = Doubts()
        self._timers: Timers[Record[E, W] | FloodPeer[E, W] | NodeId] = Timers()
        self._changes: dict[I, E | None] = {}
        self._live = 0

    # Looking

    def get(self, identity: I) -> E | None:
        """The entry, if it can be used now."""
        record = self._record(identity)
        if record is None or record.dead or not self._state.sources[record.item.source].known:
            return None
        return cast("E", record.item)

    def heard_on(self, identity: I) -> int | None:
        """The session over which it came: the way back for answers."""
        record = self._record(identity)
        return None if record is None else self._state.slots.by_slot.get(record.primary)

    def live(self, start: int = 0) -> Iterator[E]:
        """All entries that can be used now, our own too; without the first ``start`` of them."""
        for source in self._state.sources.values():
            if not source.known:
                continue
            if start >= source.live:
                start -= source.live
                continue
            for record in source.records.values():
                if record.dead:
                    continue
                if start:
                    start -= 1
                else:
                    yield cast("E", record.item)

    def of_key(self, key: Hashable) -> Iterator[E]:
        """The entries of one key that can be used now; asks each source once."""
        for source in self._state.sources.values():
            record = source.records.get(key) if source.known else None
            if record is not None and not record.dead:
                yield cast("E", record.item)

    def of_source(self, node: NodeId) -> Iterator[E]:
        """The entries of one node that can be used now; looks at no others."""
        source = self._state.sources.get(node)
        if source is not None and source.known:
            for record in source.records.values():
                if not record.dead:
                    yield cast("E", record.item)

    @property
    def size(self) -> int:
        """How many entries can be used now; costs nothing."""
        return self._live

    def sizes(self) -> FloodSizes:
        """How much is held; looks at everything."""
        dead = [record.dead for record in self._state.records()]
        return FloodSizes(len(dead) - sum(dead), len(self._waiting), sum(dead))

    def stale(self) -> int:
        """Return how many entries are in doubt."""
        return len(self._doubts)

    def given(self, session: int) -> int:
        """How many entries count for the cap of a session."""
        return self._state.peer(session).live

    @property
    def has_changes(self) -> bool:
        """Whether :meth:`take_changes` may give any."""
        return bool(self._changes)

    def take_changes(self) -> list[Change[I, E]]:
        """Usable entries that came, changed or went since the last call."""
        changes: list[Change[I, E]] = []
        if not self._changes:
            return changes
        taken, self._changes = self._changes, {}
        for identity, previous in taken.items():
            entry = self.get(identity)
            if entry is not previous:
                changes.append(Change(identity, entry, previous))
        return changes

    def _record(self, identity: I) -> Record[E, W] | None:
        node, key = self._kind.split(identity)
        source = self._state.sources.get(node)
        return None if source is None else source.records.get(key)

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
        return self.received(now, self._state.peer(session), self._kind.carried(entry), dead=False)

    def heard_withdrawal(self, now: float, session: int, withdrawal: W) -> Verdict:
        """A peer withdrew an entry. Raises like :meth:`heard`."""
        return self.received(now, self._state.peer(session), withdrawal, dead=True)

    def received(self, now: float, peer: FloodPeer[E, W], item: E | W, *, dead: bool) -> Verdict:
        """Take an entry or a withdrawal from a peer; return what became of it."""
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
                self.received(now, peer, early.item, dead=early.dead)

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

    # Rows

    def _put(self, source: Source[E, W], record: Record[E, W], item: E | W, *, dead: bool) -> None:
        if record.dead != dead:
            self._count(source, -1 if dead else 1)
        record.item, record.dead = item, dead
        if dead:
            self._telling.over(record)

    def _count(self, source: Source[E, W], by: int) -> None:
        source.live += by
        if source.known:
            self._live += by

    def _note(self, source: Source[E, W], record: Record[E, W]) -> None:
        """Before a record changes: what its users know of it."""
        usable = source.known and not record.dead
        previous = cast("E", record.item) if usable else None
        self._changes.setdefault(self._kind.identity(record.item), previous)


AnnounceTable: TypeAlias = FloodTable[AnnounceInfo, AnnounceWithdrawal, AnnounceIdentity]
SubscribeTable: TypeAlias = FloodTable[SubscribeInfo, SubscribeWithdrawal, SubscribeIdentity]
