"""The tables of a relay, as rows."""

from __future__ import annotations

from laps_sdk.forwarding.samples import Samples
from laps_wire.nodeid import NodeId
from testkit.relay_net import TRACK, RelayNet, key_of


def test_the_tables_of_an_origin() -> None:
    net = RelayNet()
    net.add(1, region="north")
    net.add(2)
    net.join(1, 2)
    net.run()
    net.publish(1)
    net.want(2)
    net.run()
    net.send(1, b"object")
    net.run()
    relay = net.relays[1]
    assert (relay.node_id, relay.info.node.region) == (NodeId(1), "north")
    assert [(row.node, row.control) for row in relay.tables.peers()] == [(2, True)]
    assert [row.node for row in relay.tables.nodes()] == [1, 2]
    assert [(row.source, row.name) for row in relay.tables.announce_rows()] == [(1, TRACK)]
    assert [(row.source, row.key) for row in relay.tables.subscribe_rows()] == [(2, key_of(TRACK))]
    assert [(row.targets, row.incoming) for row in relay.tables.sets()] == [((NodeId(2),), False)]
    assert [(row.streams, row.key) for row in relay.tables.fib()] == [(1, key_of(TRACK))]
    assert relay.plane.counters().streams_out == 1
    assert relay.interests.counters() == (0, 1, 0, 0, 0)
    assert relay.tables.sizes() == (2, 1, 1, 0, 1, 1)
    assert net.relays[2].tables.sizes() == (2, 1, 1, 1, 0, 1)
    assert relay.tables.subscribe_rows_of(key_of(TRACK)) == relay.tables.subscribe_rows(slice(0, 1))
    assert relay.tables.announce_rows(slice(1, 5)) == []


def test_what_goes_through_a_relay_is_in_transit_until_it_is_sent() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    origin, between, end = (net.relays[number] for number in (1, 2, 3))
    before = between.in_transit
    net.publish(1)
    net.want(3)
    net.run()
    assert (before, between.in_transit) == (False, True)
    assert not origin.in_transit  # its own clients' is not
    assert not end.in_transit
    assert between.plane.unsent() == 0
    assert between.flight >= 0.0
    assert RelayNet().add(9).flight == 0.0


def test_traffic_is_the_same_at_both_ends() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.run()
    for relay in net.relays.values():
        relay.plane.count_traffic()
        relay.plane.time_objects(Samples(0, lambda _: 0))
    net.publish(1)
    net.want(2)
    net.run()
    net.send(1, b"object")
    net.run()
    _, (sent,) = net.relays[1].plane.take_traffic()
    (came,), _ = net.relays[2].plane.take_traffic()
    assert sent.key == came.key == key_of(TRACK)
    assert sent.bytes == came.bytes > len(b"object")
