"""The node table: its records, the order of paths, and the best path to each node."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.node_table import (
    LOAD_WEIGHTS,
    ORDERS,
    AdjOut,
    Candidate,
    NodeRecord,
    NodeTable,
    PeerRecord,
    avoided,
    burden,
    default_order,
    make_order,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Load,
    LoadClass,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    RelayType,
    Stamp,
)
from laps_wire.peering.laps2.codepoints import MAX_HOPS
from testkit.nib_net import key_of, node_info

X = NodeId(9)


def table_of(*peers: int, carries: bool = True) -> NodeTable:
    table = NodeTable(default_order)
    for number in peers:
        node = NodeId(number)
        peer = table.peers[node] = PeerRecord(node, node_info(number))
        peer.carries = carries
        table.put(peer, peer.latest)
    return table


def best_peer(table: NodeTable, node: NodeId = X) -> int | None:
    table.refresh()
    record = table.records.get(node)
    return None if record is None or record.best is None else int(record.best.node)


def test_a_better_way_takes_the_place_at_once() -> None:
    table = table_of(1, 2)
    table.put(table.peers[NodeId(1)], node_info(9, (5, 1), (1, 1)))
    assert best_peer(table) == 1
    table.put(table.peers[NodeId(2)], node_info(9, (2, 1)))
    assert best_peer(table) == 2
    table.put(table.peers[NodeId(1)], node_info(9, (5, 1), (6, 1), (1, 1)))
    assert best_peer(table) == 2
    assert set(table.touched) == {1, 2, 9}
    assert set(table.routes) == {1, 2, 9}
    assert table.changed_selves == {NodeId(1): None, NodeId(2): None, X: None}


def test_a_best_way_that_became_worse_is_looked_for_again() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1)))
    table.put(two, node_info(9, (5, 1), (2, 1)))
    table.put(one, node_info(9, (5, 1), (6, 1), (1, 1)))
    table.put(one, node_info(9, (5, 1), (6, 1), (7, 1), (1, 1)))
    table.put(two, node_info(9, (5, 2), (2, 1)))
    assert best_peer(table) == 2
    table.drop(two, X)
    table.drop(two, X)
    assert best_peer(table) == 1
    table.drop(one, X)
    table.drop(one, X)
    assert best_peer(table) is None
    assert X not in table.records
    table.invalidate([X])
    assert best_peer(table) is None


def test_an_equal_entry_changes_nothing() -> None:
    table = table_of(1)
    table.put(table.peers[NodeId(1)], node_info(9, (1, 1)))
    table.touched.clear()
    table.put(table.peers[NodeId(1)], node_info(9, (1, 1)))
    assert not table.touched


def test_a_way_that_only_looks_the_same_is_touched() -> None:
    table = table_of(1)
    table.put(table.peers[NodeId(1)], node_info(9, (5, 1), (1, 1)))
    table.routes.clear()
    table.put(table.peers[NodeId(1)], node_info(9, (6, 1), (1, 1)))
    assert X in table.routes
    table.routes.clear()
    table.invalidate([X])
    table.refresh()
    assert X not in table.routes
    table.invalidate([X])
    table.put(table.peers[NodeId(1)], node_info(9, (7, 1), (1, 1)))
    table.refresh()
    assert X in table.routes


def test_ways_that_do_not_forward_are_no_routes() -> None:
    table = table_of(1, carries=False)
    table.put(table.peers[NodeId(1)], node_info(9, (1, 1)))
    assert best_peer(table) == 1
    assert not table.routes
    assert [way.forwards for way in table.candidates(X)] == [False]


def test_everybody_shares_one_self_part() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1)))
    table.put(two, node_info(9, (2, 1)))
    assert one.entries[X].node is two.entries[X].node
    table.put(two, node_info(9, (2, 1), sequence=2, region="new"))
    assert table.records[X].latest.node.region == "new"
    before = one.entries[X].node
    table.put(one, node_info(9, (1, 2)))
    assert one.entries[X].node is before
    table.put(two, node_info(9, (2, 1), sequence=1))
    table.refresh()
    assert table.records[X].latest.node is before


def test_a_lie_with_the_stamp_of_the_truth_goes_with_the_liar() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1), region="a lie"))
    table.put(two, node_info(9, (2, 1), region="the truth"))
    assert table.records[X].latest.node.region == "a lie"
    table.drop(one, X)
    table.refresh()
    assert table.records[X].latest.node.region == "the truth"
    table.put(one, node_info(9, (1, 1), region="the truth", signature=key_of("a")))
    assert one.entries[X].node is not two.entries[X].node


def test_an_epoch_goes_with_the_last_who_says_it() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1), epoch=3))
    one.carries = False
    table.put(two, node_info(9, (2, 1), epoch=2))
    table.invalidate([X])
    assert best_peer(table) == 2
    assert table.records[X].latest.node.stamp.epoch == 3
    table.put(one, node_info(9, (1, 1), epoch=1))
    table.refresh()
    assert table.records[X].latest.node.stamp.epoch == 2
    table.put(one, node_info(9, (1, 1), epoch=4))
    assert table.records[X].latest.node.stamp.epoch == 4
    table.drop(one, X)
    table.refresh()
    assert table.records[X].latest.node.stamp.epoch == 2


def test_loaded_relays_weigh_on_ways_through_them() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1)))
    table.put(two, node_info(9, (5, 1), (2, 1)))
    table.put(one, node_info(1, sequence=2, load=Load(LoadClass.OVERLOADED)))
    assert best_peer(table) == 2
    assert best_peer(table, NodeId(1)) == 1
    one.draining = True
    table.rerank(NodeId(1))
    table.rerank(NodeId(1))
    assert [way.peer for way in table.candidates(X)] == [2, 1]
    one.draining = False
    table.put(one, node_info(1, sequence=3))
    assert best_peer(table) == 1
    table.rerank(NodeId(77))
    table.set_filtered(one, NodeId(8), True)
    table.put(one, node_info(8, (5, 1), (1, 1)))
    assert [(peer.node, node) for peer, node in table.through(NodeId(5))] == [(1, 8), (2, 9)]


def test_a_peer_whose_session_ends_soon_is_reached_otherwise_unless_it_goes_away_itself() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(1))
    table.put(two, node_info(1, (5, 1), (2, 1)))
    one.draining = True
    table.rerank(NodeId(1))
    table.invalidate((NodeId(1),))
    assert best_peer(table, NodeId(1)) == 2
    table.put(one, node_info(1, sequence=2, load=Load(LoadClass.DRAINING)))
    assert best_peer(table, NodeId(1)) == 1


def test_what_policy_bars_is_known_and_no_way() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.set_filtered(one, X, True)
    table.put(one, node_info(9, (1, 1), sequence=2))
    assert best_peer(table) is None
    assert X in table.records
    table.put(two, node_info(9, (5, 1), (2, 1)))
    assert best_peer(table) == 2
    assert table.records[X].latest.node.stamp.sequence == 2
    assert [way.peer for way in table.candidates(X)] == [2]
    table.set_filtered(one, X, False)
    table.set_filtered(one, X, False)
    assert best_peer(table) == 1
    table.set_filtered(one, X, True)
    assert best_peer(table) == 2
    table.drop(two, X)
    table.drop(one, X)
    assert best_peer(table) is None
    assert (table.records.get(X), one.filtered) == (None, {})


def test_a_loaded_relay_that_is_gone_weighs_nothing() -> None:
    table = table_of(1)
    table.put(table.peers[NodeId(1)], node_info(9, (1, 1), load=Load(LoadClass.BUSY)))
    assert table._weights
    table.drop(table.peers[NodeId(1)], X)
    table.refresh()
    assert not table._weights


def test_of_ways_that_are_equal_in_any_order_the_lowest_peer_is_best() -> None:
    table = NodeTable(lambda _: ())
    for number in (3, 1, 2):
        peer = table.peers[NodeId(number)] = PeerRecord(NodeId(number), node_info(number))
        table.put(peer, node_info(9, (number, 1)))
    table.invalidate([X])
    assert best_peer(table) == 1
    assert [way.peer for way in table.candidates(X)] == [1, 2, 3]


entries = st.tuples(
    st.integers(1, 3),
    st.one_of(st.none(), st.lists(st.integers(1, 4), max_size=3)),
    st.integers(1, 2),
    st.integers(1, 3),
    st.booleans(),
)


@given(st.lists(entries, max_size=25))
def test_looking_at_once_and_looking_again_come_to_the_same(
    steps: list[tuple[int, list[int] | None, int, int, bool]],
) -> None:
    table = table_of(1, 2, 3)
    for number, costs, epoch, sequence, ask in steps:
        peer = table.peers[NodeId(number)]
        if costs is None:
            table.drop(peer, X)
        else:
            path = [(20 + hop, cost) for hop, cost in enumerate(costs)]
            table.put(peer, node_info(9, *path, (number, 1), epoch=epoch, sequence=sequence))
        if ask:
            table.refresh()
    ways = table.candidates(X)
    assert best_peer(table) == (int(ways[0].peer) if ways else None)
    told = [peer.entries[X].node.stamp for peer in table.peers.values() if X in peer.entries]
    if told:
        assert table.records[X].latest.node.stamp == max(told)
    else:
        assert X not in table.records


def test_every_way_that_changes_is_noted_once_and_cheaply() -> None:
    table = table_of(1, 2)
    one, two = table.peers[NodeId(1)], table.peers[NodeId(2)]
    table.put(one, node_info(9, (1, 1)))

    def noted() -> set[int]:
        table.refresh()
        found = {int(node) for node in table.paths}
        table.paths.clear()
        table.routes.clear()
        return found

    assert noted() == {1, 2, 9}
    longer = node_info(9, (5, 1), (2, 1))
    table.put(two, longer)
    assert (set(table.routes), noted()) == (set(), {9})
    table.put(two, longer)
    assert noted() == set()
    table.set_filtered(two, X, True)
    assert (set(table.routes), noted()) == (set(), {9})
    table.set_filtered(two, X, True)
    table.set_filtered(two, NodeId(77), True)
    assert noted() == set()
    table.set_filtered(two, X, False)
    assert noted() == {9}
    # The load of a relay on a way that is not the best one.
    table.put(two, node_info(5, (2, 1), load=Load(LoadClass.OVERLOADED, 900)))
    assert noted() == {5, 9}
    table.drop(two, X)
    assert noted() == {9}
    table.drop(two, X)
    assert noted() == set()


def test_a_new_peer_carries_nothing_and_was_told_nothing() -> None:
    peer = PeerRecord(NodeId(1), node_info(1))
    assert (peer.out, peer.carries, peer.entries, peer.unsynced) == (None, False, {}, None)


def test_a_node_id_is_held_by_the_first_key() -> None:
    record = NodeRecord(NodeId(1), node_info(1, signature=key_of("a")))
    assert record.fingerprint == b"a" * 32
    assert record.best is None


def test_there_may_be_something_to_tell() -> None:
    nothing, everything, something = AdjOut(), AdjOut(), AdjOut()
    everything.again = True
    something.dirty[NodeId(1)] = None
    assert [out.pending for out in (nothing, everything, something)] == [False, True, True]


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
