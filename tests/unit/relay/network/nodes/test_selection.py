"""The order of ways."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.selection import (
    LOAD_WEIGHTS,
    ORDERS,
    Candidate,
    avoided,
    burden,
    default_order,
    make_order,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeInfo, NodePathItem, NodeSelf, RelayType, Stamp
from laps_wire.peering.laps2.limits import MAX_HOPS
from testkit.nib_net import node_info

BUSY = LOAD_WEIGHTS[LoadClass.BUSY]
OVERLOADED = LOAD_WEIGHTS[LoadClass.OVERLOADED]
DRAINING = LOAD_WEIGHTS[LoadClass.DRAINING]


def way(*srtts: int, link: int = 0, load: int = 0, peer: int = 1) -> Candidate:
    path = [(100 + hop, srtt) for hop, srtt in enumerate(srtts)]
    return Candidate(NodeId(9), NodeId(peer), node_info(9, *path), link, True, load)


def test_hops_then_cost_then_load_then_the_lowest_peer() -> None:
    ways = [
        way(link=900),
        way(5, link=5, load=BUSY, peer=9),
        way(10, link=1, peer=3),
        way(1, link=10, peer=4),
        way(10, link=1, load=BUSY, peer=2),
        way(1, 1),
        way(load=OVERLOADED),
        way(1, load=OVERLOADED),
        way(load=DRAINING),
    ]
    for better, worse in pairwise(ways):
        assert default_order(better) < default_order(worse)


def test_no_number_of_relays_of_one_class_weighs_more_than_one_of_the_next() -> None:
    weights = [LOAD_WEIGHTS[load] for load in LoadClass]
    for lighter, heavier in pairwise(weights):
        assert lighter * MAX_HOPS < heavier
    assert avoided(way(load=BUSY * MAX_HOPS)) == 0
    assert avoided(way(load=OVERLOADED)) > 0


def test_the_burden_is_that_of_all_relays_on_the_way() -> None:
    weights = {NodeId(1): BUSY, NodeId(2): OVERLOADED}
    assert burden([NodeId(1), NodeId(2), NodeId(3)], weights) == BUSY + OVERLOADED
    assert burden([], weights) == 0


@given(
    st.lists(st.integers(0, 1000), max_size=5),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.sampled_from([0, BUSY, OVERLOADED, DRAINING]),
    st.sampled_from([0, BUSY, OVERLOADED, DRAINING]),
)
def test_a_longer_way_is_never_better_than_what_it_was_made_from(
    srtts: list[int], link: int, farther: int, load: int, more: int
) -> None:
    whole = way(*srtts, link=link, load=load)
    longer = way(*srtts, link, link=farther, load=load + more, peer=0)
    assert default_order(whole) < default_order(longer)


@given(
    st.sampled_from(sorted(ORDERS)),
    st.lists(st.integers(0, 1000), max_size=5),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.sampled_from([0, BUSY, OVERLOADED, DRAINING]),
    st.sampled_from([0, BUSY, OVERLOADED, DRAINING]),
)
def test_that_holds_for_every_order_that_can_be_configured(
    name: str, srtts: list[int], link: int, farther: int, load: int, more: int
) -> None:
    order = ORDERS[name]
    whole = way(*srtts, link=link, load=load)
    longer = way(*srtts, link, link=farther, load=load + more, peer=0)
    assert order(whole) < order(longer)


def test_the_orders_by_name() -> None:
    short, fast = way(50, link=1), way(1, 1, 1)
    assert ORDERS["hops"](short) < ORDERS["hops"](fast)
    assert ORDERS["delay"](fast) < ORDERS["delay"](short)
    assert ORDERS["delay"](short) < ORDERS["delay"](fast._replace(load=OVERLOADED))
    assert ORDERS["delay"](way(2)) < ORDERS["delay"](way(1, 1))


def test_other_criteria() -> None:
    short, fast = way(50, link=1), way(1, 1, 1)
    assert default_order(short) < default_order(fast)
    by_cost = make_order(lambda each: each.cost_us)
    assert by_cost(fast) < by_cost(short)
    assert by_cost(short) < by_cost(fast._replace(load=OVERLOADED))
    blind = make_order(lambda each: each.cost_us, avoid=False)
    assert blind(fast._replace(load=OVERLOADED)) < blind(short)
    assert by_cost(way(peer=1)) < by_cost(way(peer=2))


def test_a_path_counts_its_relays_and_its_cost() -> None:
    near, far = NodeId(2), NodeId(3)
    info = NodeInfo(
        NodeSelf(far, RelayType.EDGE, Stamp(1, 1)),
        path=(NodePathItem(NodeId(4), 100), NodePathItem(near, 20)),
    )
    path = Candidate(far, near, info, 7, forwards=True)
    assert (path.hops, path.cost_us) == (2, 127)
    # The last of a path is the next hop: data passes it first.
    assert path.relays == (near, NodeId(4), far)


def test_a_neighbour_is_its_own_next_hop() -> None:
    info = NodeInfo(NodeSelf(NodeId(2), RelayType.VIA, Stamp(1, 1)))
    path = Candidate(NodeId(2), NodeId(2), info, 7, forwards=True)
    assert (path.hops, path.cost_us, path.relays) == (0, 7, (NodeId(2),))
