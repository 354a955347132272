"""Entries that came before the node information of their source (laps-2, 5.3).

An entry of an unknown node, or of a later life of a known one, is not believed and not passed on.
It is kept beside the table, at most for the convergence time. It does not touch what the table has:
nobody can remove an entry by inventing an epoch. When the node information comes, everything that
waited is heard as if it came just then, from each session that gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from laps_relay.network.flood.entries import Flooded
from laps_relay.network.flood.flood_records import Early, FloodPeer, FloodState, Verdict
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId

__all__ = ["Waiting"]

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)


class Waiting(Generic[E, W]):
    """What waits, by source and key: the newest only."""

    __slots__ = ("_early", "_size", "_state", "_timers")

    def __init__(self, state: FloodState[E, W]) -> None:
        self._state = state
        self._early: dict[NodeId, dict[Hashable, Early[E, W]]] = {}
        self._size = 0
        self._timers: Timers[tuple[NodeId, Hashable]] = Timers()

    def __len__(self) -> int:
        return self._size

    def heard(
        self,
        peer: FloodPeer[E, W],
        key: Hashable,
        item: E | W,
        *,
        dead: bool,
        until: float,
        check: Callable[[], None],
    ) -> Verdict:
        """A session gave something; ``check`` raises if it is one too many."""
        waiting = self._early.get(item.source, {})
        early = waiting.get(key)
        if early is not None and item.stamp < early.item.stamp:
            return Verdict.STALE
        # Of an advertisement and a withdrawal with one stamp the source said the former.
        if early is not None and item.stamp == early.item.stamp and (dead or not early.dead):
            if dead and not early.dead:
                self._ungive(peer, key, early)
                return Verdict.TAKEN_BACK
            if not early.given & peer.bit:
                check()
                early.given |= peer.bit
                peer.early += 1
        else:
            if early is None or not early.given & peer.bit:
                check()
            if early is not None:
                self._drop(key, early)
            early = Early(item, peer.bit, dead=dead)
            peer.early += 1
            self._early.setdefault(item.source, {})[key] = early
            self._size += 1
            self._timers.set((item.source, key), until)
        if peer.told is not None:
            peer.told.add(early)
        return Verdict.WAITING

    def take(self, node: NodeId, epoch: int) -> list[tuple[Early[E, W], list[FloodPeer[E, W]]]]:
        """What waited for this epoch of a node, and who gave it; what is older is dropped."""
        waiting = self._early.get(node)
        if waiting is None:
            return []
        taken = []
        for key, early in list(waiting.items()):
            if early.item.stamp.epoch > epoch:
                continue
            givers = self._state.peers_of(early.given)
            self._drop(key, early)
            if early.item.stamp.epoch == epoch:
                taken.append((early, givers))
        return taken

    def leave(self, peer: FloodPeer[E, W], but: set[object] | None = None) -> None:
        """A session does not give any of it any more, but for what it has said again."""
        for waiting in list(self._early.values()):
            for key, early in list(waiting.items()):
                if but is None or early not in but:
                    self._ungive(peer, key, early)

    def _ungive(self, peer: FloodPeer[E, W], key: Hashable, early: Early[E, W]) -> None:
        if early.given & peer.bit:
            early.given &= ~peer.bit
            peer.early -= 1
            if not early.given:
                self._drop(key, early)

    def _drop(self, key: Hashable, early: Early[E, W]) -> None:
        for peer in self._state.peers_of(early.given):
            peer.early -= 1
        node = early.item.source
        self._timers.cancel((node, key))
        waiting = self._early[node]
        del waiting[key]
        self._size -= 1
        if not waiting:
            del self._early[node]

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Give up what waited long enough."""
        while (due := self._timers.pop(now)) is not None:
            node, key = due
            self._drop(key, self._early[node][key])
