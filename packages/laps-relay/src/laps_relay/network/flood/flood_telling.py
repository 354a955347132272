"""What each session must be told: the difference of what is true and what it was told.

::

    for each record that may have changed, and one session:

      a withdrawal                told something older?         --> withdraw, with its stamp
      an entry that it may have   not told, or something older? --> advertise
      an entry that it may not    told?                         --> withdraw, with the entry's stamp
      its source is not known     --> nothing, until it is; but where everything is told again,
                                      and this was told before: withdraw, with the entry's stamp

An entry goes to all sessions but the one over which answers go back, and those with its source. An
entry that nobody gives any more, or that rests (:mod:`.flood_rests`), goes to none.

Nobody is told more entries than it takes (laps-2, 4.3): it would have to end the session, and
whoever can fill our table could part us from our peers. What found no room waits until there is
some.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar, cast

from laps_relay.network.flood.entries import Flooded, Kind
from laps_relay.network.flood.flood_records import FloodPeer, FloodState, Record
from laps_relay.network.flood.flood_rests import Rests

__all__ = ["Telling"]

_COUNT_SHIFT: Final = 6
"""A 64th of the room must have been withdrawn before it is counted again."""

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class Telling(Generic[E, W, I]):
    """The outgoing side of a flood table."""

    __slots__ = ("_audience", "_crowded", "_exports", "_kind", "_rests", "_state", "ended")

    def __init__(
        self,
        kind: Kind[E, W, I],
        state: FloodState[E, W],
        rests: Rests[E, W],
        exports: Callable[[int, E], bool],
        audience: Callable[[E], Iterable[int]] | None,
    ) -> None:
        self._kind = kind
        self._state = state
        self._rests = rests
        self._exports = exports
        self._audience = audience
        self.ended: dict[Record[E, W], E] = {}
        """Our own entries that are over and may still be believed somewhere."""
        self._crowded: dict[FloodPeer[E, W], None] = {}
        """Sessions that entries are withheld from."""

    # What may have to be told

    def mark(self, record: Record[E, W]) -> None:
        """A record has changed."""
        state = self._state
        if self._audience is None:
            for peer in state.peers.values():
                peer.dirty[record] = None
            return
        for peer in state.peers_of(record.sent | record.stale):
            peer.dirty[record] = None
        if not record.dead:
            for session in self._audience(cast("E", record.item)):
                if session in state.peers:
                    state.peers[session].dirty[record] = None

    def correct(self, peer: FloodPeer[E, W], record: Record[E, W]) -> None:
        """A session believes something that is over."""
        record.stale = self._state.slots.shared(record.stale | peer.bit)
        peer.dirty[record] = None

    def again(self, record: Record[E, W], bits: int) -> None:
        """These sessions were told an entry, and may have forgotten it."""
        shared = self._state.slots.shared
        record.stale = shared(record.stale | bits)
        record.sent = shared(record.sent & ~bits)

    def fill(self, peer: FloodPeer[E, W]) -> None:
        """A session was told nothing yet."""
        peer.fresh = True
        peer.full = self._audience is None
        own = self._state.sources.get(self._kind.local)
        if own is not None:
            peer.dirty.update(dict.fromkeys(own.records.values()))

    def resend(self, peer: FloodPeer[E, W]) -> None:
        """Nobody knows what a session was told.

        What we have lost, or let rest, or whose source we do not know now, is not left out: it is
        withdrawn. Who misses an entry at the end of a synchronisation forgets it, and who hears
        that we give it no more has a grace in which others give it (laps-2, 5.3). What export rules
        keep back now is left out.
        """
        shared, bit = self._state.slots.shared, peer.bit
        others, peer.dirty = peer.dirty, {}
        lost = 0
        for record in self._state.records():
            if (record.sent | record.stale) & bit:
                record.sent = shared(record.sent & ~bit)
                if not record.dead:
                    known = self._state.sources[record.item.source].known
                    gives = known and self._gives(peer, record)
                    lost += not gives
                    record.stale = shared(record.stale & ~bit if gives else record.stale | bit)
                peer.dirty[record] = None
        # What it may still have comes first: it must not be told more than it takes.
        peer.dirty.update(others)
        peer.offered = lost
        self.fill(peer)

    def reconsider(self) -> None:
        """Export rules have changed, for all sessions."""
        if self._audience is None:
            for peer in self._state.peers.values():
                peer.full = True
        else:
            for record in self._state.records():
                self.mark(record)

    def bury(self, record: Record[E, W]) -> None:
        """A record is out of the table: those who were told that it is so hear that it is not."""
        told = (record.sent | record.stale) & self._state.slots.active
        record.item, record.dead = self._kind.withdrawal(cast("E", record.item)), True
        record.sent, record.stale = 0, told
        for peer in self._state.peers_of(told):
            peer.dirty[record] = None

    # Room

    def over(self, record: Record[E, W]) -> None:
        """A record is over: it waits for no room any more."""
        for peer in self._crowded:
            peer.withheld.pop(record, None)

    def leave(self, peer: FloodPeer[E, W]) -> None:
        """A session has ended."""
        self._crowded.pop(peer, None)

    def fade(self, record: Record[E, W]) -> list[FloodPeer[E, W]]:
        """A record is out of the table, and of those of others, by themselves; gives who had it."""
        peers = self._state.peers_of(record.sent | record.stale)
        for peer in peers:
            peer.fading += 1
        record.sent = record.stale = 0
        return peers

    def faded(self, peer: FloodPeer[E, W]) -> None:
        """Now it has forgotten that, too: there may be room for others."""
        peer.freed += peer.fading
        peer.fading = 0
        self._offer_withheld(peer)

    def _offer_withheld(self, peer: FloodPeer[E, W]) -> None:
        if peer.withheld and self._has_room(peer):
            peer.dirty.update(peer.withheld)
            peer.withheld = {}
            self._crowded.pop(peer, None)

    # Telling

    def flush(self, peer: FloodPeer[E, W]) -> tuple[tuple[E, ...], tuple[W, ...]]:
        """What a session must be told: advertise, withdraw. No identity is in both."""
        if not peer.dirty and not peer.full and not peer.freed:
            peer.fresh = False
            return (), ()
        todo, peer.dirty = peer.dirty, {}
        if peer.full:
            todo.update(dict.fromkeys(self._state.records()))
        fresh, peer.full, peer.fresh = peer.fresh, False, False
        advertise: dict[I, E] = {}
        withdraw: dict[I, W] = {}
        identity, shared, bit = self._kind.identity, self._state.slots.shared, peer.bit
        for record in todo:
            item = record.item
            told = (record.sent | record.stale) & bit
            if record.dead:
                if item.source != peer.node and (told or (fresh and self._believed(peer, record))):
                    withdraw[identity(item)] = cast("W", item)
            elif not self._state.sources[item.source].known:
                if not (fresh and told):
                    continue
                # Everybody forgets it, or keeps it until the source is back, if nothing is said;
                # but what is left out when everything is said is forgotten at once.
                withdraw[identity(item)] = self._kind.withdrawal(cast("E", item))
            elif self._wanted(peer, record):
                if not record.sent & bit:
                    if not told:
                        if not self._has_room(peer):
                            peer.withheld[record] = None
                            self._crowded[peer] = None
                            continue
                        peer.offered += 1
                        peer.withheld.pop(record, None)
                    advertise[identity(item)] = cast("E", item)
                    record.sent = shared(record.sent | bit)
                    record.stale = shared(record.stale & ~bit)
                continue
            else:
                peer.withheld.pop(record, None)
                if told:
                    withdraw[identity(item)] = self._kind.withdrawal(cast("E", item))
            if told:
                peer.freed += 1
                record.sent = shared(record.sent & ~bit)
                record.stale = shared(record.stale & ~bit)
        if peer.freed:
            self._offer_withheld(peer)
        for name in advertise:
            withdraw.pop(name, None)
        return tuple(advertise.values()), tuple(withdraw.values())

    def _has_room(self, peer: FloodPeer[E, W]) -> bool:
        """Whether a session takes one more entry.

        What it has is counted only when that may matter, and not for every withdrawal again.
        """
        if peer.offered < peer.room:
            return True
        if peer.freed <= peer.room >> _COUNT_SHIFT:
            return False
        bit = peer.bit
        told = sum(1 for each in self._state.records() if (each.sent | each.stale) & bit)
        peer.offered = told + peer.fading
        peer.freed = 0
        return peer.offered < peer.room

    def _wanted(self, peer: FloodPeer[E, W], record: Record[E, W]) -> bool:
        return self._gives(peer, record) and self._exports(peer.session, cast("E", record.item))

    def _gives(self, peer: FloodPeer[E, W], record: Record[E, W]) -> bool:
        """Whether an entry is ours to give to a session, whatever export rules say."""
        source = record.item.source
        if source != self._kind.local and not record.given:
            return False
        if self._rests and record in self._rests:
            return False
        return record.primary != peer.slot and source != peer.node

    def _believed(self, peer: FloodPeer[E, W], record: Record[E, W]) -> bool:
        """Whether a newcomer may have heard of an entry of ours, and not of its end."""
        entry = self.ended.get(record)
        return entry is not None and self._exports(peer.session, entry)
