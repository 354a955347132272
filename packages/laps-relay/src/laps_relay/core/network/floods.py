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
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar, cast

from laps_relay.core.network.entries import Flooded, Kind
from laps_relay.core.network.flood_records import (
    NOBODY,
    Change,
    Early,
    FloodPeer,
    FloodSizes,
    Record,
    Slots,
    Source,
    Verdict,
)
from laps_relay.core.network.interfaces import NetworkSettings
from laps_relay.core.timers import Timers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError

__all__ = ["Change", "FloodSizes", "FloodTable", "Verdict"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class FloodTable(Generic[E, W, I]):
    """All announces, or all subscribes."""

    __slots__ = (
        "_audience",
        "_changes",
        "_early",
        "_exports",
        "_kind",
        "_limit",
        "_peers",
        "_settings",
        "_slots",
        "_sources",
        "_timers",
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
        self._exports = exports
        self._audience = audience
        self._limit = kind.limit(settings)
        self._sources: dict[NodeId, Source[E, W]] = {}
        self._early: dict[NodeId, dict[Hashable, Early[E, W]]] = {}
        self._peers: dict[int, FloodPeer[E, W]] = {}
        self._slots = Slots()
        self._timers: Timers[Record[E, W] | NodeId | tuple[NodeId, Hashable]] = Timers()
        self._changes: dict[I, E | None] = {}

    # Sessions

    def add_session(self, session: int, *, source: NodeId | None) -> None:
        """A control session is up; ``source`` is the node at its other end."""
        if session in self._peers:
            raise StateError(f"session {session} is in the table already")
        peer: FloodPeer[E, W] = FloodPeer(session, source, self._slots.take(session))
        self._peers[session] = peer
        self._refill(peer)

    def remove_session(self, now: float, session: int) -> None:
        """It has ended: what it alone gave is forgotten, after a grace."""
        peer = self._peers.pop(session, None)
        if peer is None:
            return
        for source in list(peer.given):
            # A tombstone stays: whoever said it, it is over.
            for record in list(self._sources[source].records.values()):
                if record.given & peer.bit:
                    self._ungive(now, peer, record)
        for source, waiting in list(self._early.items()):
            for key, early in list(waiting.items()):
                self._ungive_early(peer, source, key, early)
        if self._slots.retire(peer.slot):
            self._sweep()

    def sync_began(self, session: int) -> None:
        """The peer tells everything again (laps-2, 5.4)."""
        peer = self._peer(session)
        # Nothing was said before: nothing can be missing at the end.
        peer.told = set() if peer.given or peer.early else None

    def sync_ended(self, now: float, session: int) -> None:
        """Forget what the peer said before and has not said again."""
        peer = self._peer(session)
        told, peer.told = peer.told, None
        if told is None:
            return
        for source in list(peer.given):
            for record in list(self._sources[source].records.values()):
                if record.given & peer.bit and not record.dead and record not in told:
                    self._ungive(now, peer, record)
                    if not record.given:
                        self._forget(record)
        for source, waiting in list(self._early.items()):
            for key, early in list(waiting.items()):
                if early not in told:
                    self._ungive_early(peer, source, key, early)

    # What peers say

    def heard(self, now: float, session: int, entry: E) -> Verdict:
        """A peer advertised an entry.

        Raises :class:`~laps_wire.peering.errors.LimitExceededError` if it is one too many.
        """
        return self._heard(now, self._peer(session), self._kind.carried(entry), dead=False)

    def heard_withdrawal(self, now: float, session: int, withdrawal: W) -> Verdict:
        """A peer withdrew an entry. Raises like :meth:`heard`."""
        return self._heard(now, self._peer(session), withdrawal, dead=True)

    def _heard(self, now: float, peer: FloodPeer[E, W], item: E | W, *, dead: bool) -> Verdict:
        if item.source == self._kind.local:
            return Verdict.OWN
        source = self._sources.get(item.source)
        if source is None or item.stamp.epoch > source.epoch:
            return self._wait(now, peer, item, dead=dead)
        if item.stamp.epoch < source.epoch:
            return Verdict.STALE
        key = self._kind.key(item)
        record = source.records.get(key)
        if record is None:
            self._check_room(peer, dead=dead)
            record = source.records[key] = Record(item, dead=True)
        elif item.stamp < record.item.stamp:
            if record.dead and peer.node != item.source:
                # It has not heard of the end yet, and nobody else may be there to tell it.
                record.stale = self._slots.shared(record.stale | peer.bit)
                peer.dirty[record] = None
            return Verdict.STALE
        elif item.stamp == record.item.stamp:
            if dead == record.dead:
                self._repeat(peer, record)
                return Verdict.REPEATED
            if dead:
                if record.given & peer.bit:
                    self._ungive(now, peer, record)
                return Verdict.TAKEN_BACK
            # The withdrawal with this stamp was somebody's who lost it: the source says it is so.
            self._check_room(peer, dead=False)
        elif not record.given & peer.bit or dead != record.dead:
            self._check_room(peer, dead=dead)
        self._accept(now, peer, source, record, item, dead=dead)
        return Verdict.NEWER

    def _check_room(self, peer: FloodPeer[E, W], *, dead: bool) -> None:
        if (peer.tombs if dead else peer.live) >= self._limit:
            what = "withdrawals within the convergence time" if dead else "entries"
            raise LimitExceededError(f"more than {self._limit} {what} from one peer")

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
        told = record.sent | record.stale
        if dead:
            # Those who gave it do not know yet that it is over.
            told |= record.given
        if not self._settings.reflect and dead:
            # Nothing is kept for long, so nobody knows who was told (laps-2, 5.3).
            told = self._slots.active
        for session in list(self._slots.sessions(record.given)):
            self._count(self._peers[session], record, -1)
        record.item, record.dead = item, dead
        record.given, record.primary = peer.bit, peer.slot
        record.sent = 0
        record.stale = self._slots.shared(told & ~peer.bit)
        self._count(peer, record, 1)
        if peer.told is not None:
            peer.told.add(record)
        if dead or not self._settings.reflect:
            self._timers.set(record, now + self._settings.convergence)
        else:
            self._timers.cancel(record)
        self._mark(record)

    def _repeat(self, peer: FloodPeer[E, W], record: Record[E, W]) -> None:
        """One more session gives what is known."""
        if peer.told is not None:
            peer.told.add(record)
        if record.given & peer.bit or record.dead:
            return
        self._check_room(peer, dead=False)
        record.given = self._slots.shared(record.given | peer.bit)
        self._count(peer, record, 1)
        if record.primary == NOBODY:
            # It had lost its last giver a moment ago.
            record.primary = peer.slot
            if self._settings.reflect:
                self._timers.cancel(record)
            self._mark(record)

    # What we say ourselves

    def originate(self, now: float, entry: E) -> None:
        """An entry of our own, with a stamp that is newer than all before."""
        self._own(entry, dead=False)
        del now

    def retract(self, now: float, withdrawal: W) -> None:
        """An entry of our own is over."""
        record = self._own(withdrawal, dead=True)
        # Others may keep an entry of ours that long without hearing of its end: until they see that
        # we are gone (hold), and then until it has waited (convergence).
        settings = self._settings
        self._timers.set(record, now + settings.hold + 2 * settings.convergence)

    def _own(self, item: E | W, *, dead: bool) -> Record[E, W]:
        source = self._sources.get(item.source)
        if source is None:
            source = self._sources[item.source] = Source(item.stamp.epoch, known=True)
        key = self._kind.key(item)
        record = source.records.get(key)
        if record is None:
            record = source.records[key] = Record(item, dead=True)
        self._note(source, record)
        record.item, record.dead = item, dead
        record.stale = self._slots.shared(record.stale | record.sent)
        record.sent = 0
        self._timers.cancel(record)
        self._mark(record)
        return record

    # Nodes

    def node_changed(self, now: float, node: NodeId, epoch: int | None) -> None:
        """The node information base has this epoch of a node; None: it does not know the node."""
        if node == self._kind.local:
            return
        source = self._sources.get(node)
        if epoch is None:
            if source is not None and source.known:
                self._suspend(now, node, source)
            return
        if source is not None and source.epoch != epoch:
            # What a node said before a restart dies with its old epoch, everywhere by itself.
            for record in list(source.records.values()):
                self._forget(record, quiet=True)
            source = None
        if source is None:
            self._timers.cancel(node)
            self._sources[node] = Source(epoch, known=True)
        elif not source.known:
            self._timers.cancel(node)
            for record in source.records.values():
                self._note(source, record)
                self._mark(record)
            source.known = True
        self._promote(now, node, epoch)

    def _suspend(self, now: float, node: NodeId, source: Source[E, W]) -> None:
        """Nothing of it is used until it is known again, and nothing is kept for long."""
        for record in source.records.values():
            self._note(source, record)
        source.known = False
        if source.records:
            self._timers.set(node, now + self._settings.convergence)
        else:
            del self._sources[node]

    # Waiting for node information

    def _wait(self, now: float, peer: FloodPeer[E, W], item: E | W, *, dead: bool) -> Verdict:
        key = self._kind.key(item)
        waiting = self._early.get(item.source, {})
        early = waiting.get(key)
        if early is not None and item.stamp < early.item.stamp:
            return Verdict.STALE
        if early is None or item.stamp > early.item.stamp:
            if early is None or not early.given & peer.bit:
                self._check_room(peer, dead=False)
            if early is not None:
                self._clear_early(early, early.given)
            early = Early(item, 0, dead=dead)
            self._early.setdefault(item.source, {})[key] = early
            self._timers.set((item.source, key), now + self._settings.convergence)
        elif dead and not early.dead:
            self._ungive_early(peer, item.source, key, early)
            return Verdict.TAKEN_BACK
        if not early.given & peer.bit:
            self._check_room(peer, dead=False)
            early.given |= peer.bit
            peer.early += 1
        if peer.told is not None:
            peer.told.add(early)
        return Verdict.WAITING

    def _promote(self, now: float, node: NodeId, epoch: int) -> None:
        """What waited for this epoch is heard now; what is older never will be."""
        for key, early in list(self._early.get(node, {}).items()):
            if early.item.stamp.epoch > epoch:
                continue
            givers = [self._peers[session] for session in self._slots.sessions(early.given)]
            self._drop_early(node, key, early)
            for peer in givers:
                self._heard(now, peer, early.item, dead=early.dead)

    def _ungive_early(
        self, peer: FloodPeer[E, W], node: NodeId, key: Hashable, early: Early[E, W]
    ) -> None:
        if early.given & peer.bit:
            self._clear_early(early, peer.bit)
            peer.early -= peer.session not in self._peers
            if not early.given:
                self._drop_early(node, key, early)

    def _clear_early(self, early: Early[E, W], bits: int) -> None:
        for session in self._slots.sessions(early.given & bits):
            if session in self._peers:
                self._peers[session].early -= 1
        early.given &= ~bits

    def _drop_early(self, node: NodeId, key: Hashable, early: Early[E, W]) -> None:
        self._clear_early(early, early.given)
        self._timers.cancel((node, key))
        waiting = self._early[node]
        del waiting[key]
        if not waiting:
            del self._early[node]

    # Losing

    def _count(self, peer: FloodPeer[E, W], record: Record[E, W], by: int) -> None:
        source = record.item.source
        number = peer.given.get(source, 0) + by
        if number:
            peer.given[source] = number
        else:
            del peer.given[source]
        if record.dead:
            peer.tombs += by

    def _ungive(self, now: float, peer: FloodPeer[E, W], record: Record[E, W]) -> None:
        """A session does not give this any more."""
        self._count(peer, record, -1)
        record.given = self._slots.shared(record.given & ~peer.bit)
        if record.primary != peer.slot:
            return
        record.primary = NOBODY
        if record.given:
            record.primary = self._choose_primary(record)
        elif not record.dead:
            # Another peer may still have it; it hears now that we do not (laps-2, 5.3).
            self._timers.set(record, now + self._settings.origin_grace)
        if not record.dead:
            self._mark(record)

    def _choose_primary(self, record: Record[E, W]) -> int:
        """The source's own session if it gives it, else that with the lowest slot."""
        sessions = list(self._slots.sessions(record.given))
        for session in sessions:
            if self._peers[session].node == record.item.source:
                return self._peers[session].slot
        return self._peers[sessions[0]].slot

    def _forget(self, record: Record[E, W], *, quiet: bool = False) -> None:
        """Out of the table; those who were told hear it, unless they know by themselves."""
        node = record.item.source
        source = self._sources[node]
        self._note(source, record)
        del source.records[self._kind.key(record.item)]
        if not source.records and not source.known:
            self._timers.cancel(node)
            del self._sources[node]
        for session in list(self._slots.sessions(record.given)):
            self._count(self._peers[session], record, -1)
        self._timers.cancel(record)
        told = (record.sent | record.stale) & self._slots.active
        record.given = record.sent = record.stale = 0
        record.primary = NOBODY
        if record.dead or quiet:
            return
        record.item, record.dead = self._kind.withdrawal(cast("E", record.item)), True
        record.stale = told
        for session in self._slots.sessions(told):
            self._peers[session].dirty[record] = None

    def _sweep(self) -> None:
        active = self._slots.active
        self._slots.swept()
        for source in self._sources.values():
            for record in source.records.values():
                record.sent = self._slots.shared(record.sent & active)
                record.stale = self._slots.shared(record.stale & active)

    # Looking

    def get(self, identity: I) -> E | None:
        """The entry, if it can be used now."""
        record = self._record(identity)
        if record is None or record.dead or not self._sources[record.item.source].known:
            return None
        return cast("E", record.item)

    def heard_on(self, identity: I) -> int | None:
        """The session over which it came: the way back for answers."""
        record = self._record(identity)
        return None if record is None else self._slots.by_slot.get(record.primary)

    def live(self) -> Iterator[E]:
        """All entries that can be used now, our own too."""
        for source in self._sources.values():
            if source.known:
                for record in source.records.values():
                    if not record.dead:
                        yield cast("E", record.item)

    def sizes(self) -> FloodSizes:
        """How much is held; looks at everything."""
        rows = [record for source in self._sources.values() for record in source.records.values()]
        tombstones = sum(record.dead for record in rows)
        return FloodSizes(len(rows) - tombstones, sum(map(len, self._early.values())), tombstones)

    def given(self, session: int) -> int:
        """How many entries count for the cap of a session."""
        return self._peer(session).live

    def take_changes(self) -> list[Change[I, E]]:
        """Usable entries that came, changed or went since the last call."""
        taken, self._changes = self._changes, {}
        changes: list[Change[I, E]] = []
        for identity, previous in taken.items():
            entry = self.get(identity)
            if entry is not previous:
                changes.append(Change(identity, entry, previous))
        return changes

    def _record(self, identity: I) -> Record[E, W] | None:
        node, key = self._kind.split(identity)
        source = self._sources.get(node)
        return None if source is None else source.records.get(key)

    def _peer(self, session: int) -> FloodPeer[E, W]:
        peer = self._peers.get(session)
        if peer is None:
            raise StateError(f"session {session} is not in the table")
        return peer

    def _note(self, source: Source[E, W], record: Record[E, W]) -> None:
        """Before a record changes: what its users know of it."""
        usable = source.known and not record.dead
        previous = cast("E", record.item) if usable else None
        self._changes.setdefault(self._kind.identity(record.item), previous)

    # Telling

    def _mark(self, record: Record[E, W]) -> None:
        """Sessions may have to hear of it."""
        if self._audience is None:
            for peer in self._peers.values():
                peer.dirty[record] = None
            return
        for session in self._slots.sessions(record.sent | record.stale):
            self._peers[session].dirty[record] = None
        if not record.dead:
            for session in self._audience(cast("E", record.item)):
                if session in self._peers:
                    self._peers[session].dirty[record] = None

    def _refill(self, peer: FloodPeer[E, W]) -> None:
        """A session that knows nothing yet."""
        if self._audience is None:
            peer.full = True
            return
        own = self._sources.get(self._kind.local)
        if own is not None:
            peer.dirty.update(dict.fromkeys(own.records.values()))

    def resend(self, session: int) -> None:
        """Tell everything again: the peer asked for it, or its control stream moved."""
        peer = self._peer(session)
        for source in self._sources.values():
            for record in source.records.values():
                if (record.sent | record.stale) & peer.bit:
                    record.sent = self._slots.shared(record.sent & ~peer.bit)
                    if not record.dead:
                        record.stale = self._slots.shared(record.stale & ~peer.bit)
                    peer.dirty[record] = None
        self._refill(peer)

    def reconsider(self, session: int | None = None) -> None:
        """Export rules have changed, for one session or for all."""
        for peer in self._peers.values() if session is None else [self._peer(session)]:
            peer.full = True

    def offer(self, session: int, identities: Iterable[I]) -> None:
        """Export rules have changed for one session and these entries."""
        peer = self._peer(session)
        for identity in identities:
            record = self._record(identity)
            if record is not None:
                peer.dirty[record] = None

    def pending(self, session: int) -> bool:
        """Whether :meth:`flush` may have something."""
        peer = self._peer(session)
        return peer.full or bool(peer.dirty)

    def flush(self, session: int) -> tuple[tuple[E, ...], tuple[W, ...]]:
        """What a session must be told now: advertise, withdraw. No identity is in both."""
        peer = self._peer(session)
        todo, peer.dirty = peer.dirty, {}
        full, peer.full = peer.full, False
        if full:
            for source in self._sources.values():
                todo.update(dict.fromkeys(source.records.values()))
        advertise: dict[I, E] = {}
        withdraw: dict[I, W] = {}
        kind, bit = self._kind, peer.bit
        for record in todo:
            item = record.item
            told = (record.sent | record.stale) & bit
            if record.dead:
                # Our own ends are told to newcomers, too: they may have heard the beginning.
                if (told or item.source == kind.local) and item.source != peer.node:
                    withdraw[kind.identity(item)] = cast("W", item)
            elif not self._sources[item.source].known:
                continue
            elif self._wanted(peer, record):
                if record.sent & bit:
                    continue
                advertise[kind.identity(item)] = cast("E", item)
                record.sent = self._slots.shared(record.sent | bit)
                record.stale = self._slots.shared(record.stale & ~bit)
                continue
            elif told:
                withdraw[kind.identity(item)] = kind.withdrawal(cast("E", item))
            if told:
                record.sent = self._slots.shared(record.sent & ~bit)
                record.stale = self._slots.shared(record.stale & ~bit)
        for identity in advertise:
            withdraw.pop(identity, None)
        return tuple(advertise.values()), tuple(withdraw.values())

    def _wanted(self, peer: FloodPeer[E, W], record: Record[E, W]) -> bool:
        item = record.item
        if item.source != self._kind.local and not record.given:
            return False
        if record.primary == peer.slot or item.source == peer.node:
            return False
        return self._exports(peer.session, cast("E", item))

    # Time

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Forget what has been kept long enough."""
        while (due := self._timers.pop(now)) is not None:
            if isinstance(due, Record):
                self._forget(due, quiet=not self._settings.reflect)
            elif isinstance(due, tuple):
                self._drop_early(*due, self._early[due[0]][due[1]])
            else:
                source = self._sources[due]
                for record in list(source.records.values()):
                    self._forget(record, quiet=True)
