"""Who serves the tracks that an s-relay wants, and whether they can still be reached.

An o-relay that said yes serves a track until it says that it has ended. One that is gone, or that
started again, says nothing: it has a grace to be there and to say yes again. So has one to which
policy leaves no way any more, because then its own word may not reach us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from laps_relay.network.subscriptions.want_records import Due, Want, WantTimers
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeSelf

__all__ = ["Serving"]


class Serving:
    """The o-relays that serve something, each with the tracks."""

    __slots__ = ("_by_responder", "_cut", "_grace", "_node", "_reaches", "_timers")

    def __init__(
        self,
        grace: float,
        timers: WantTimers,
        *,
        node: Callable[[NodeId], NodeSelf | None],
        reaches: Callable[[NodeId], bool],
    ) -> None:
        self._grace = grace
        self._timers = timers
        self._node = node
        self._reaches = reaches
        self._by_responder: dict[NodeId, dict[int, Want]] = {}
        self._cut: set[NodeId] = set()
        """Those that served something until no way led there any more."""

    def __len__(self) -> int:
        return len(self._by_responder)

    def add(self, now: float, want: Want, node: NodeId) -> None:
        """An o-relay says that it serves a track, perhaps again."""
        known = self._node(node)
        if node not in want.accepted and known is not None and not self._reaches(node):
            self._timers.set((Due.CUT, want.key, node), now + self._grace)
        want.accepted[node] = None if known is None else known.stamp.epoch
        want.renewed.add(node)
        self._by_responder.setdefault(node, {})[want.key] = want
        lost = (Due.LOST, want.key, node)
        if known is None:
            self._timers.set(lost, now + self._grace)
        else:
            self._timers.cancel(lost)

    def remove(self, want: Want, node: NodeId) -> None:
        """It does not any more, or nobody wants it."""
        del want.accepted[node]
        self._timers.cancel((Due.LOST, want.key, node))
        self._timers.cancel((Due.CUT, want.key, node))
        served = self._by_responder[node]
        del served[want.key]
        if not served:
            del self._by_responder[node]

    def node_changed(self, now: float, node: NodeId) -> None:
        """The node information base has something new about a node."""
        served = self._by_responder.get(node)
        if not served:
            return
        known = self._node(node)
        for key, want in served.items():
            accepted = want.accepted
            lost = (Due.LOST, key, node)
            if known is not None and accepted[node] in (None, known.stamp.epoch):
                accepted[node] = known.stamp.epoch
                self._timers.cancel(lost)
            elif self._timers.when(lost) is None:
                # Gone, or started again: then it hears our subscribe, and answers anew.
                self._timers.set(lost, now + self._grace)

    def paths_changed(self, now: float, nodes: Iterable[NodeId]) -> Iterator[NodeId]:
        """Ways to these nodes came or went; gives whom one leads to again that was cut off."""
        if not self._by_responder and not self._cut:
            return
        for node in nodes:
            served = self._by_responder.get(node, ())
            if not served and node not in self._cut:
                continue
            reached = self._reaches(node)
            for key in served:
                cut = (Due.CUT, key, node)
                if reached:
                    self._timers.cancel(cut)
                elif self._timers.when(cut) is None:
                    self._timers.set(cut, now + self._grace)
            if reached and node in self._cut:
                self._cut.remove(node)
                yield node

    def cut_off(self, want: Want) -> bool:
        """Whether no way leads to any of those who serve a track; then they are remembered."""
        if any(self._reaches(each) for each in want.accepted):
            return False
        self._cut.update(want.accepted)
        return True
