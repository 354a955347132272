"""The rows of a flood table: looking them up, and counting them while they change.

What is usable is what is no withdrawal, and whose source the node information base knows. Before a
row changes it is noted what its users know of it (:meth:`FloodRows._note`); so changes that end
where they began are none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar, cast

from laps_relay.network.flood.entries import Flooded, Kind
from laps_relay.network.flood.flood_doubts import Doubts
from laps_relay.network.flood.flood_records import (
    Change,
    FloodPeer,
    FloodSizes,
    FloodState,
    Record,
    Source,
)
from laps_relay.network.flood.flood_rests import Rests
from laps_relay.network.flood.flood_telling import Telling
from laps_relay.network.flood.flood_waiting import Waiting
from laps_relay.network.settings import NetworkSettings
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId

__all__ = ["FloodRows"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


class FloodRows(Generic[E, W, I]):
    """The parts of a flood table, and what can be asked of it."""

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
