"""The adj-RIB-out: what each peer is sent, damping, and recent withdrawals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.nodes.adj_out import (
    AdjRibOut,
    RecentWithdrawals,
    Urgency,
    same_relays,
    significant,
    urgency,
)
from laps_relay.network.nodes.node_table import NodeTable, PeerRecord, default_order
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import first_of
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Load,
    LoadClass,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    Parameters,
    Reachable,
    RelayType,
)
from testkit.nib_net import key_of, node_info

WE, P, Q, X, Y, Z = (NodeId(number) for number in (10, 1, 2, 9, 8, 7))


class Net:
    """One relay's table and exports, with peers 1 and 2."""

    def __init__(self, kind: RelayType = RelayType.EDGE, *, carries: bool = True) -> None:
        self.table = NodeTable(default_order)
        self.exports = AdjRibOut(
            node_info(WE, kind=kind), self.table, NetworkSettings(), OPEN_POLICY
        )
        self.one, self.two = self.peer(1, carries), self.peer(2, carries)
        self.flush(self.one)
        self.flush(self.two)

    def peer(self, number: int, carries: bool) -> PeerRecord:
        peer = self.table.peers[NodeId(number)] = PeerRecord(NodeId(number), node_info(number))
        peer.carries = carries
        peer.item = NodePathItem(WE, 10_000)
        self.table.put(peer, peer.latest)
        self.exports.open(peer)
        return peer

    def flush(
        self, peer: PeerRecord, now: float = 0.0
    ) -> tuple[dict[int, NodeInfo], tuple[NodeId, ...]]:
        self.table.refresh()
        self.exports.settle(now)
        advertise, withdraw = self.exports.flush(peer)
        return {int(info.node.node_id): info for info in advertise}, withdraw


def ids(info: NodeInfo) -> list[int]:
    return [int(item.node_id) for item in info.path]


def test_everybody_gets_the_same_object() -> None:
    net = Net()
    three = net.peer(3, True)
    net.table.put(net.one, node_info(9, (1, 5)))
    told = net.flush(net.two)[0][9]
    assert ids(told) == [1, 10]
    assert told.sum_srtt_us == 10_005
    assert net.flush(three)[0][9] is told
    assert net.flush(net.one)[0].keys() == {3}


def test_only_odd_parameters_go_along_and_a_change_of_them_is_told() -> None:
    net = Net()
    entry = node_info(9, (1, 5))
    net.table.put(net.one, replace(entry, parameters=Parameters(((2, b"a"), (3, b"b")))))
    assert net.flush(net.two)[0][9].parameters.entries == ((3, b"b"),)
    net.table.put(net.one, replace(entry, parameters=Parameters(((2, b"c"), (3, b"b")))))
    assert net.flush(net.two) == ({}, ())
    net.table.put(net.one, replace(entry, parameters=Parameters(((3, b"d"),))))
    assert net.flush(net.two)[0][9].parameters.entries == ((3, b"d"),)


def test_a_small_change_of_a_long_path_is_told_as_that_of_a_short_one() -> None:
    """Who measured the link has damped it: all paths over it change, or none does."""
    net = Net()
    for node, cost in ((8, 5_000), (9, 500_000)):
        net.table.put(net.one, node_info(node, (1, cost)))
    net.flush(net.two)
    for node, cost in ((8, 8_000), (9, 503_000)):
        net.table.put(net.one, node_info(node, (1, cost)))
    assert net.flush(net.two, 5.0)[0].keys() == {8, 9}
    assert net.exports.poll_timeout() is None


def test_a_path_that_costs_the_same_is_not_told_again() -> None:
    net = Net()
    net.table.put(net.one, node_info(9, (5, 20_000), (1, 30_000)))
    net.flush(net.two)
    net.table.put(net.one, node_info(9, (5, 25_000), (1, 25_000)))
    assert net.flush(net.two, 5.0) == ({}, ())
    assert net.exports.poll_timeout() is None


def test_a_change_of_cost_is_told_once_an_interval() -> None:
    net = Net()
    net.table.put(net.one, node_info(9, (1, 50_000)))
    net.flush(net.two)
    net.table.put(net.one, node_info(9, (1, 70_000)))
    assert net.flush(net.two, 5.0)[0].keys() == {9}
    net.table.put(net.one, node_info(9, (1, 90_000)))
    assert net.flush(net.two, 5.5) == ({}, ())
    assert net.exports.poll_timeout() == 6.0
    assert first_of(net.exports.clocks) == 6.0
    net.table.put(net.one, node_info(9, (1, 95_000)))
    told = net.flush(net.two, 6.0)[0][9]
    assert told.path[0].srtt_us == 95_000
    assert net.exports.poll_timeout() is None


def test_a_large_change_that_was_taken_back_is_not_told() -> None:
    net = Net()
    net.table.put(net.one, node_info(9, (1, 50_000)))
    net.flush(net.two)
    for now, cost in ((5.0, 70_000), (5.1, 90_000), (5.2, 70_000)):
        net.table.put(net.one, node_info(9, (1, cost)))
        net.flush(net.two, now)
    net.exports.settle(6.0)
    assert net.flush(net.two, 6.0) == ({}, ())


def test_what_is_not_a_metric_does_not_wait() -> None:
    net = Net()
    net.table.put(net.one, node_info(9, (1, 50_000)))
    net.flush(net.two)
    net.table.put(net.one, node_info(9, (1, 70_000)))
    net.flush(net.two, 5.0)
    net.table.put(net.one, node_info(9, (1, 90_000)))
    net.flush(net.two, 5.1)
    net.table.put(net.one, node_info(9, (1, 90_000), sequence=2))
    assert net.flush(net.two, 5.2)[0].keys() == {9}
    net.table.put(net.one, node_info(9, (5, 1), (1, 90_000), sequence=2))
    assert net.flush(net.two, 5.3)[0].keys() == {9}
    assert net.exports.poll_timeout() is None


def test_a_node_that_goes_while_a_change_waits() -> None:
    net = Net()
    for now, cost in ((5.0, 50_000), (5.1, 70_000), (5.2, 90_000)):
        net.table.put(net.one, node_info(9, (1, cost)))
        net.flush(net.two, now)
    assert net.exports.poll_timeout() is not None
    net.table.drop(net.one, X)
    assert net.flush(net.two, 5.3) == ({}, (X,))
    assert net.exports.poll_timeout() is None


def test_a_node_that_goes_and_comes_back_as_one_that_is_not_told() -> None:
    """Nobody asked in between, so it has a new record that was never exported."""
    net = Net()
    three = net.peer(3, False)
    net.table.put(net.one, node_info(9, (1, 5)))
    assert 9 in net.flush(net.two)[0]
    net.table.drop(net.one, X)
    net.table.refresh()
    net.table.put(three, node_info(9, (3, 5)))
    assert net.flush(net.two) == ({}, (X,))
    assert X not in net.flush(net.one)[1]  # it was not told of its own way
    net.table.put(three, node_info(9, (3, 5), sequence=2))
    assert net.flush(net.two) == ({}, ())


def test_we_ourselves() -> None:
    net = Net()
    net.exports.set_self(0.0, node_info(WE, sequence=2, load=Load(value=50)))
    assert net.flush(net.two) == ({}, ())
    net.exports.set_self(0.0, node_info(WE, sequence=3, load=Load(value=150)))
    assert net.flush(net.two)[0][WE].node.load.value == 150
    net.exports.set_self(0.5, node_info(WE, sequence=4, load=Load(value=300)))
    assert net.flush(net.two, 0.5) == ({}, ())
    assert net.exports.poll_timeout() == 1.0
    assert net.flush(net.two, 1.0)[0][WE].node.load.value == 300
    busy = Load(LoadClass.BUSY, 300)
    net.exports.set_self(1.1, node_info(WE, sequence=5, load=busy))
    assert net.flush(net.two, 1.1)[0][WE].node.load == busy
    net.exports.set_self(1.2, node_info(WE, sequence=6, load=Load(LoadClass.BUSY, 700)))
    net.exports.set_self(1.3, node_info(WE, sequence=7, load=busy))
    assert net.exports.poll_timeout() is None


def test_only_a_control_server_tells_of_ways_that_do_not_forward() -> None:
    net = Net(carries=False)
    net.table.put(net.one, node_info(9, (1, 5)))
    assert net.flush(net.two) == ({}, ())
    net.exports.set_self(0.0, node_info(WE, sequence=2, kind=RelayType.CONTROL))
    assert net.flush(net.two)[0].keys() == {WE, 1, 9}
    net.exports.set_self(0.0, node_info(WE, sequence=3, kind=RelayType.EDGE))
    assert net.flush(net.two)[1] == (1, 9)


def test_a_path_of_another_life_is_not_worth_the_newer_self_part() -> None:
    net = Net()
    net.two.carries = False
    net.table.put(net.one, node_info(9, (1, 5), epoch=1))
    net.table.put(net.two, node_info(9, (2, 5), epoch=2))
    three = net.peer(3, True)
    assert net.flush(three)[0][9].node.stamp.epoch == 1


def test_a_path_of_sixteen_is_not_passed_on() -> None:
    net = Net()
    path = [(100 + hop, 1) for hop in range(15)]
    net.table.put(net.one, node_info(9, *path[1:], (1, 5)))
    assert len(net.flush(net.two)[0][9].path) == 16
    net.table.put(net.one, node_info(9, *path, (1, 5)))
    assert net.flush(net.two) == ({}, (X,))
    net.table.drop(net.one, X)
    assert net.flush(net.two) == ({}, ())


def test_nothing_goes_to_who_is_on_the_path_or_must_have_it_verified() -> None:
    net = Net()
    net.table.put(net.one, node_info(9, (2, 5), (1, 5)))
    assert net.flush(net.two) == ({}, ())
    net.table.put(net.one, node_info(9, (3, 5), (1, 5)))
    net.two.signed = True
    assert net.flush(net.two) == ({}, ())
    net.one.signed = True
    net.exports.retell(net.two)
    assert net.flush(net.two)[0].keys() == {9}


def test_policy_may_keep_things_to_itself() -> None:
    class Quiet(OpenPolicy):
        def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
            return Refusal("quiet", "not for it") if peer.node_id == 2 else None

    net = Net()
    net.table.put(net.one, node_info(9, (1, 5)))
    net.flush(net.two)
    net.exports.policy = Quiet()
    for peer in (net.one, net.two):
        net.exports.retell(peer)
    assert net.flush(net.two) == ({}, (1, 9, WE))
    assert net.flush(net.one) == ({}, ())


def test_everything_again() -> None:
    net = Net()
    assert net.two.out is not None
    net.two.out.again = True
    assert net.flush(net.two)[0].keys() == {1, WE}
    net.two.out = None
    net.exports.retell(net.two)
    assert net.flush(net.two) == ({}, ())


def test_a_peer_is_told_no_more_nodes_than_it_takes() -> None:
    net = Net()
    three = net.peer(3, True)
    net.exports.open(three, 4)
    for node in (4, 5, 6):
        net.table.put(net.one, node_info(node, (1, 5)))
    # We ourselves are always among them, whoever has a lower id.
    assert net.flush(three)[0].keys() == {1, 2, 4, 10}
    assert three.out is not None
    assert list(three.out.withheld) == [5, 6]
    net.table.drop(net.one, NodeId(6))
    assert net.flush(three) == ({}, ())
    assert list(three.out.withheld) == [5]
    # What a withdrawal frees is used with the next batch: the peer hears of it last.
    net.table.drop(net.one, NodeId(4))
    assert net.flush(three) == ({}, (4,))
    assert list(three.out.dirty) == [5]
    assert net.flush(three)[0].keys() == {5}
    assert list(three.out.dirty) == []
    # What it has may change.
    net.table.put(net.one, node_info(5, (1, 500_000)))
    assert net.flush(three, 10.0)[0].keys() == {5}
    three.out.again = True
    assert net.flush(three, 10.0)[0].keys() == {1, 2, 5, 10}


SETTINGS = NetworkSettings()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (20_000, 22_000, True),
        (20_000, 18_000, True),
        (20_000, 21_999, False),  # 2 ms
        (100_000, 105_000, False),  # 10 %
        (100_000, 110_000, True),
        (0, 1_000, False),
        (0, 2_000, True),
        (5, 5, False),
    ],
)
def test_ten_percent_and_two_milliseconds(old: int, new: int, expected: bool) -> None:
    assert significant(old, new, SETTINGS) is expected


def test_without_thresholds_every_change_counts() -> None:
    exact = replace(SETTINGS, metric_ratio=0.0, metric_floor_us=0)
    assert significant(5, 6, exact)
    assert not significant(5, 5, exact)
    assert urgency(node_info(1), node_info(1, sequence=2), exact) is Urgency.NEVER


def test_the_same_relays_at_another_cost() -> None:
    path = node_info(1, (2, 10), (3, 10)).path
    assert same_relays(path, path)
    assert same_relays(path, node_info(1, (2, 99), (3, 10)).path)
    assert not same_relays(path, node_info(1, (2, 10), (4, 10)).path)
    assert not same_relays(path, path[:1])


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (node_info(1, sequence=9), Urgency.NEVER),
        (node_info(1, sequence=9, load=Load(value=99)), Urgency.NEVER),
        (node_info(1, sequence=9, load=Load(value=100)), Urgency.LATER),
        (node_info(1, load=Load(LoadClass.BUSY)), Urgency.NOW),
        (node_info(1, region="r"), Urgency.NOW),
        (node_info(1, kind=RelayType.VIA), Urgency.NOW),
        (node_info(1, epoch=2), Urgency.NOW),
        (node_info(1, signature=key_of("a")), Urgency.NOW),
        (node_info(1, reachable=(Reachable(NodeId(2), 5),)), Urgency.LATER),
    ],
)
def test_what_a_node_says_of_itself(new: NodeInfo, expected: Urgency) -> None:
    assert urgency(node_info(1), new, SETTINGS) is expected


def test_reachable_nodes_are_metrics() -> None:
    near = node_info(1, reachable=(Reachable(NodeId(2), 20_000),))
    assert urgency(near, near, SETTINGS) is Urgency.NEVER
    little = node_info(1, reachable=(Reachable(NodeId(2), 21_000),))
    assert urgency(near, little, SETTINGS) is Urgency.NEVER
    much = node_info(1, reachable=(Reachable(NodeId(2), 30_000),))
    assert urgency(near, much, SETTINGS) is Urgency.LATER


def test_what_was_taken_back_may_be_believed_for_a_while() -> None:
    told = RecentWithdrawals(30.0)
    told.add(100.0, P, (X, Y))
    assert told.recent(100.0, P, X)
    assert not told.recent(100.0, Q, X)
    assert not told.recent(100.0, P, Z)
    told.add(120.0, P, (X,))
    assert told.recent(129.9, P, Y)
    assert not told.recent(130.0, P, Y)
    assert told.recent(149.9, P, X)
    told.add(130.0, Q, ())
    assert len(told) == 1
    told.add(200.0, Q, (Z,))
    assert len(told) == 1


def test_who_takes_back_more_than_can_be_kept_suspects_nobody() -> None:
    told = RecentWithdrawals(30.0, most=2)
    told.add(100.0, P, (X, Y))
    assert not told.recent(100.0, Q, X)
    told.add(101.0, P, (Z,))
    assert len(told) == 2
    assert told.recent(130.9, P, X)
    assert told.recent(130.9, Q, X)
    assert not told.recent(131.0, Q, X)
