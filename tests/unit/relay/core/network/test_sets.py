"""Subscriber node sets: small networks by hand, and a machine that moves everything at any time."""

from __future__ import annotations

from laps_relay.core.network.interfaces import EgressSet
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from testkit.set_world import SetWorld, feed

KEY = 0x7AC5
LINE = [(1, 2), (2, 3)]
"""1 -- 2 -- 3"""
DIAMOND = [(1, 2), (1, 3), (2, 4), (3, 4)]
"""From 1 to 4 by 2 or by 3; sessions 1 and 2 begin at 1, sessions 3 and 4 end at 4."""


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


def world(nodes: int, wires: list[tuple[int, int]]) -> SetWorld:
    return SetWorld(nodes, wires)


def want(net: SetWorld, *targets: int, relay: int = 1, number: int = 1, scope: str = "") -> None:
    net[relay].sets.set_feed(net.now, feed(number), KEY, ids(*targets), scope)
    net.check()


def begin(net: SetWorld, name: str, *, relay: int = 1, number: int = 1) -> None:
    net[relay].plane.begin(feed(number), name)


def got(net: SetWorld, name: str) -> list[int]:
    return sorted(int(node) for (node, each), count in net.delivered.items() if each == name)


def move(net: SetWorld, relay: int, target: int, hop: int) -> None:
    """Another next hop at one relay."""
    net[relay].hop[NodeId(target)] = NodeId(hop)
    net[relay].sets.reroute(net.now, [NodeId(target)])
    net.check()


def test_along_a_line() -> None:
    net = world(3, LINE)
    want(net, 2, 3, scope="gold")
    net.drain()
    net.check()
    assert net[2].got[1] == {1: (ids(2, 3), 0, "gold")}
    assert net[3].got[2] == {1: (ids(3), 1, "gold")}
    begin(net, "s")
    net.drain()
    assert got(net, "s") == [2, 3]
    (row,) = net[2].sets.rows()
    assert (row.local, row.hops, row.scope, row.key) == (True, 1, "gold", None)


def test_targets_come_and_go_in_place() -> None:
    net = world(3, LINE)
    want(net, 3)
    net.drain()
    begin(net, "s")
    net.drain()
    want(net, 2, 3)
    net.drain()
    assert net[2].got[1] == {1: (ids(2, 3), 0, "")}
    want(net, 2)
    net.drain()
    assert net[2].plane.cuts == [(EgressSet(2, 1), StreamCode.NO_SUBSCRIBERS)]
    assert net[1].sets.counters.moved == 0
    assert net[3].sets.rows() == []
    want(net)
    net.drain()
    assert net[1].plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]
    assert [row.targets for row in net[1].sets.rows()] == [()]
    net[1].sets.drop_feed(net.now, feed(1))
    assert net.is_empty()


def test_a_move_is_made_before_it_breaks() -> None:
    net = world(4, DIAMOND)
    want(net, 2, 4)
    net.drain()
    begin(net, "old")
    move(net, 1, 4, 3)
    assert net[1].sent == {1: {1: ids(2, 4), 2: ids(2)}, 2: {1: ids(4)}}
    assert net[1].plane.entries[feed(1)] == ((EgressSet(1, 2), EgressSet(2, 1)), False)
    begin(net, "new")
    net.drain()
    assert got(net, "old") == got(net, "new") == [2, 4]
    net.finished |= {"old"}
    net.drain()
    assert net[1].sent == {1: {2: ids(2)}, 2: {1: ids(4)}}
    assert net[2].got[1] == {2: (ids(2), 0, "")}
    assert net[1].sets.counters.moved == 1
    assert not net.truncated
