"""The rows of a flood table, made small: a control server holds a million of them.

Which sessions gave an entry, and which were told it, are bits of numbers. A session has one bit,
its *slot*. The numbers repeat from row to row, so equal ones are kept once (:meth:`Slots.shared`).

::

    record   item    the advertisement or withdrawal that is true
             given   bits of the sessions that gave exactly this item
             sent    bits of the sessions that were told exactly this item
             stale   bits of the sessions that were told something older, or must be corrected
             primary the slot of the session over which answers go back

The slot of a session that ended still has its bit in rows that were sent to it. It is used again
only after one pass over the table has cleared it, and passes are made for many slots together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from laps_relay.network.flood.entries import Flooded
from laps_wire.buffer import QUIC_MAX
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId

__all__ = [
    "NOBODY",
    "Change",
    "Early",
    "FloodPeer",
    "FloodSizes",
    "FloodState",
    "Record",
    "Slots",
    "Source",
    "Verdict",
]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity

NOBODY: Final = -1
"""The primary of an entry that is our own, or that nobody gives any more."""

_MAX_RETIRED: Final = 64
_MAX_SHARED: Final = 4_096


class Verdict(Enum):
    """What became of something that was heard."""

    NEWER = "newer"
    """It is the truth now."""
    REPEATED = "repeated"
    """It was known already; the session is remembered as one that gives it."""
    TAKEN_BACK = "taken back"
    """The session does not give it any more; others may."""
    WAITING = "waiting"
    """It waits for the node information of its source."""
    STALE = "stale"
    """Something newer is known."""
    OWN = "own"
    """It claims to be our own: ignored."""


class Change(NamedTuple, Generic[I, E]):
    """A usable entry came (no previous), changed, or went (no entry)."""

    identity: I
    entry: E | None
    previous: E | None


class FloodSizes(NamedTuple):
    """How much a table holds."""

    entries: int
    """Advertisements whose source is or was known."""
    waiting: int
    """Those that wait for their source."""
    tombstones: int
    """Withdrawals that are remembered."""


class Record(Generic[E, W]):
    """What is true about one identity."""

    __slots__ = ("dead", "given", "item", "primary", "sent", "stale")

    def __init__(self, item: E | W, *, dead: bool) -> None:
        self.item: E | W = item
        self.dead = dead
        """Whether the item is a withdrawal."""
        self.given = 0
        self.sent = 0
        self.stale = 0
        self.primary = NOBODY


class Source(Generic[E, W]):
    """A node, and what it says."""

    __slots__ = ("epoch", "known", "live", "records", "since")

    def __init__(self, epoch: int, *, known: bool) -> None:
        self.epoch = epoch
        """The epoch that the node information base has, or had when it last knew the node."""
        self.known = known
        """Whether the node information base has it now."""
        self.since = 0.0
        """If not: since when."""
        self.live = 0
        """How many of the records are no withdrawals."""
        self.records: dict[Hashable, Record[E, W]] = {}
        """By key; all with the epoch above."""


class Early(Generic[E, W]):
    """What cannot be used yet: the newest of one identity, and who gave exactly that."""

    __slots__ = ("dead", "given", "item")

    def __init__(self, item: E | W, given: int, *, dead: bool) -> None:
        self.item: E | W = item
        self.given = given
        self.dead = dead


class FloodPeer(Generic[E, W]):
    """A session."""

    __slots__ = (
        "bit",
        "dirty",
        "early",
        "fading",
        "freed",
        "fresh",
        "full",
        "given",
        "node",
        "offered",
        "room",
        "session",
        "slot",
        "told",
        "tombs",
        "total",
        "withheld",
    )

    def __init__(self, session: int, node: NodeId | None, slot: int, room: int = QUIC_MAX) -> None:
        self.session = session
        self.room = room
        """How many entries it takes from us."""
        self.offered = 0
        """How many it has from us, at most."""
        self.freed = 0
        """How many of them have ended since that was counted."""
        self.fading = 0
        """How many more end about now, without a word of ours."""
        self.withheld: dict[Record[E, W], None] = {}
        """Entries for which it had no room."""
        self.node = node
        """Who is at its other end."""
        self.slot = slot
        self.bit = 1 << slot
        self.given: dict[NodeId, int] = {}
        """How many records it gives, by source; so the end of a session looks at no others."""
        self.total = 0
        """All of them."""
        self.tombs = 0
        """How many of those are withdrawals."""
        self.early = 0
        """How many it gave that wait."""
        self.dirty: dict[Record[E, W], None] = {}
        """What may have to be told."""
        self.full = False
        """Everything may have to be told."""
        self.fresh = False
        """It was told nothing yet, and may have heard of us before."""
        self.told: set[Record[E, W] | Early[E, W]] | None = None
        """What was said again since SYNC_BEGIN; None: nothing is to be forgotten at its end."""

    @property
    def live(self) -> int:
        """Entries that count for the cap."""
        return self.total - self.tombs + self.early

    def count(self, record: Record[E, W], by: int) -> None:
        """It gives one record more, or one less."""
        source = record.item.source
        number = self.given.get(source, 0) + by
        if number:
            self.given[source] = number
        else:
            del self.given[source]
        self.total += by
        if record.dead:
            self.tombs += by


class Slots:
    """Which bit belongs to which session."""

    __slots__ = ("_free", "_retired", "_shared", "_top", "active", "by_slot")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._retired: list[int] = []
        self._top = 0
        self._shared: dict[int, int] = {}
        self.active = 0
        """The bits of all sessions."""
        self.by_slot: dict[int, int] = {}
        """Sessions."""

    def take(self, session: int) -> int:
        """A slot for a session: the lowest free one."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._top
            self._top += 1
        self.active |= 1 << slot
        self.by_slot[slot] = session
        return slot

    def retire(self, slot: int) -> bool:
        """The session has ended; True: it is time to clear the bits of all that have."""
        self.active &= ~(1 << slot)
        del self.by_slot[slot]
        self._retired.append(slot)
        return len(self._retired) >= _MAX_RETIRED

    def swept(self) -> None:
        """No row has a bit of an ended session any more."""
        self._free = sorted((*self._free, *self._retired), reverse=True)
        self._retired = []
        self._shared = {}

    def shared(self, mask: int) -> int:
        """The same number, as an object that equal ones share."""
        if len(self._shared) > _MAX_SHARED:
            self._shared = {}
        return self._shared.setdefault(mask, mask)

    def sessions(self, mask: int) -> Iterator[int]:
        """The sessions of some bits, lowest slot first."""
        mask &= self.active
        while mask:
            low = mask & -mask
            yield self.by_slot[low.bit_length() - 1]
            mask ^= low


class FloodState(Generic[E, W]):
    """What the parts of a flood table share."""

    __slots__ = ("peers", "slots", "sources")

    def __init__(self) -> None:
        self.sources: dict[NodeId, Source[E, W]] = {}
        self.peers: dict[int, FloodPeer[E, W]] = {}
        """By session."""
        self.slots = Slots()

    def peer(self, session: int) -> FloodPeer[E, W]:
        """A session that must be there."""
        peer = self.peers.get(session)
        if peer is None:
            raise StateError(f"session {session} is not in the table")
        return peer

    def peers_of(self, mask: int) -> list[FloodPeer[E, W]]:
        """The sessions of some bits, lowest slot first."""
        return [self.peers[session] for session in self.slots.sessions(mask)]

    def records(self) -> Iterator[Record[E, W]]:
        """All rows."""
        for source in self.sources.values():
            if source.records:  # most nodes of a network have none
                yield from source.records.values()
