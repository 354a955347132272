from __future__ import annotations

from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.sim.world.oracle import Oracle
from laps_wire.nodeid import NodeId


def graph_of(*links: tuple[int, int, int]) -> dict[NodeId, dict[NodeId, int]]:
    graph: dict[NodeId, dict[NodeId, int]] = {}
    for a, b, rtt in links:
        graph.setdefault(NodeId(a), {})[NodeId(b)] = rtt
        graph.setdefault(NodeId(b), {})[NodeId(a)] = rtt
    return graph


def everybody(_: NodeId) -> bool:
    return True


def test_fewer_relays_go_before_a_lower_cost() -> None:
    oracle = Oracle(graph_of((1, 2, 10), (2, 3, 10), (1, 3, 500)), everybody)
    assert oracle.next_hop(NodeId(1), NodeId(3)) == 3
    assert oracle.metric(NodeId(1), NodeId(3)) == (0, 500)
    assert oracle.diameter([NodeId(1), NodeId(2), NodeId(3)]) == 1


def test_cost_decides_among_equals_and_then_the_lower_peer() -> None:
    square = graph_of((1, 2, 10), (1, 3, 10), (2, 4, 30), (3, 4, 20))
    assert Oracle(square, everybody).next_hop(NodeId(1), NodeId(4)) == 3
    even = graph_of((1, 2, 10), (1, 3, 10), (2, 4, 20), (3, 4, 20))
    assert Oracle(even, everybody).next_hop(NodeId(1), NodeId(4)) == 2
    assert Oracle(even, everybody).path(NodeId(1), NodeId(4)) == (1, 2, 4)


def test_who_is_no_transit_is_reached_and_not_passed() -> None:
    line = graph_of((1, 2, 10), (2, 3, 10), (1, 4, 10), (4, 5, 10), (5, 3, 10))
    oracle = Oracle(line, lambda node: node != 2)
    assert oracle.next_hop(NodeId(1), NodeId(2)) == 2
    assert oracle.next_hop(NodeId(2), NodeId(3)) == 3
    assert oracle.next_hop(NodeId(1), NodeId(3)) == 4
    alone = Oracle(graph_of((1, 2, 10), (2, 3, 10)), lambda node: node != 2)
    assert not alone.reaches(NodeId(1), NodeId(3))
    assert alone.next_hop(NodeId(1), NodeId(3)) is None
    assert alone.metric(NodeId(1), NodeId(3)) is None
    assert alone.path(NodeId(1), NodeId(3)) is None


def test_a_class_chooses_among_what_neighbours_tell() -> None:
    # 1 has two ways to 4; for a class that may not pass 2 only the one through 3 is left.
    square = graph_of((1, 2, 10), (1, 3, 50), (2, 4, 10), (3, 4, 50))
    oracle = Oracle(square, everybody)
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: 2 not in way) == 3
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: way != (1, 2, 4)) == 3  # by a link
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: not {2, 3} & set(way)) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=12
    ),
    st.sets(st.integers(1, 6), max_size=2),
)
def test_it_agrees_with_trying_every_path(
    links: list[tuple[int, int, int]], denied: set[int]
) -> None:
    graph = graph_of(*(link for link in links if link[0] != link[1]))
    oracle = Oracle(graph, lambda node: node not in denied)
    for a in graph:
        for b in graph:
            if a != b:
                assert oracle.next_hop(a, b) == _tried(graph, denied, a, b)


def _tried(
    graph: dict[NodeId, dict[NodeId, int]], denied: set[int], a: NodeId, b: NodeId
) -> NodeId | None:
    between = [node for node in graph if node not in (a, b) and node not in denied]
    best: tuple[int, int, NodeId] | None = None
    for size in range(len(between) + 1):
        for middle in permutations(between, size):
            path = (a, *middle, b)
            steps = list(pairwise(path))
            if all(there in graph[here] for here, there in steps):
                found = (size, sum(graph[here][there] for here, there in steps), path[1])
                best = found if best is None or found < best else best
    return None if best is None else best[2]
