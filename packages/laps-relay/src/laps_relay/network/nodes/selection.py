"""The best path to a node: one total order over candidates (laps-2, 5.1 and 8, load classes).

::

    least of   avoided transit relays, hops, cost, load, node id of the peer
               |                       |     |     |     '- makes it total
               |                       |     |     '- busy relays on the path
               |                       |     '- sum of sRTT and the session's own, microseconds
               |                       '- items of the path
               '- OVERLOADED and DRAINING ones: chosen only if nothing else reaches the node

A total order, never "shorter or faster": an OR flips on every update and floods for ever. Every
part of the key is a sum over the path, so a longer path is never better than its own part.
So a path vector converges, and to the same paths that a global search finds. A
preference by the next hop alone would not: three relays, each of which avoids its own overloaded
neighbour through the next relay, never converge.

A relay's load counts where it is transit, not where it is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeInfo, NodePathItem

__all__ = [
    "LOAD_WEIGHTS",
    "ORDERS",
    "Candidate",
    "Criterion",
    "Order",
    "PathRule",
    "avoided",
    "burden",
    "default_order",
    "make_order",
    "rank_of",
]


class Candidate(NamedTuple):
    """One path to a node, as one peer advertises it."""

    node: NodeId
    peer: NodeId
    """The next hop; the node itself if it is a neighbour."""
    info: NodeInfo
    link_srtt_us: int
    """Of our own session with the peer, as we measured it."""
    forwards: bool
    """Whether data can take this path: not through a control server, nor against a direction."""
    load: int = 0
    """How loaded the transit relays are, all together (``selection.burden``)."""

    @property
    def hops(self) -> int:
        """How many transit relays are on the path."""
        return len(self.info.path)

    @property
    def cost_us(self) -> int:
        """Sum of the path's sRTT and the session's own."""
        return self.info.sum_srtt_us + self.link_srtt_us

    @property
    def relays(self) -> tuple[NodeId, ...]:
        """All nodes from the next hop to the target, in the order in which data passes them."""
        return (*[item.node_id for item in reversed(self.info.path)], self.node)


Order: TypeAlias = "Callable[[Candidate], tuple[int, ...]]"
"""The key of a total order over candidates for one node: the least is best."""

PathRule: TypeAlias = "Callable[[Candidate], bool]"
"""Returns whether a path may be used for a purpose."""

# At most 16 relays are on a path: a sum of one class never reaches the weight of the next one.
LOAD_WEIGHTS: Final[Mapping[LoadClass, int]] = {
    LoadClass.NORMAL: 0,
    LoadClass.BUSY: 1,
    LoadClass.OVERLOADED: 1 << 8,
    LoadClass.DRAINING: 1 << 16,
}
"""What one transit relay of each class adds to ``Candidate.load``."""

_AVOID_SHIFT: Final = 8

Criterion: TypeAlias = "Callable[[Candidate], int]"
"""One part of an order. It must grow along a path, or the network may never settle."""


def burden(relays: Iterable[NodeId], weights: Mapping[NodeId, int]) -> int:
    """Return the load of all relays on a path together; relays without a weight are not loaded."""
    return sum(weights.get(relay, 0) for relay in relays)


def avoided(candidate: Candidate) -> int:
    """Return whether relays on a path are used only as a last resort, and how many."""
    return candidate.load >> _AVOID_SHIFT


def default_order(candidate: Candidate) -> tuple[int, ...]:
    """The order of laps-2, 5.1."""
    return rank_of(candidate.info.path, candidate.link_srtt_us, candidate.load, candidate.peer)


def rank_of(
    path: tuple[NodePathItem, ...], link_srtt_us: int, load: int, peer: NodeId
) -> tuple[int, ...]:
    """Return the rank of a path that is no candidate yet."""
    cost = link_srtt_us
    for item in path:
        cost += item.srtt_us
    return load >> _AVOID_SHIFT, len(path), cost, load, peer


def make_order(*criteria: Criterion, avoid: bool = True) -> Order:
    """An order by other criteria, the first one first; the peer's node id decides in the end.

    ``avoid``: overloaded and draining transit relays still come last, whatever the criteria say.
    ``make_order(lambda path: path.cost_us)`` does not look at hops.
    """
    parts: tuple[Criterion, ...] = (avoided, *criteria) if avoid else criteria

    def order(candidate: Candidate) -> tuple[int, ...]:
        return (*(part(candidate) for part in parts), candidate.peer)

    return order


ORDERS: Final[Mapping[str, Order]] = {
    "hops": default_order,
    "delay": make_order(lambda path: path.cost_us, lambda path: path.hops, lambda path: path.load),
}
"""What ``network.order`` may name; every relay of a network must have the same one."""
