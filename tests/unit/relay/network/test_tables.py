"""The tables of a relay, as rows."""

from __future__ import annotations

from laps_sdk.forwarding.samples import Samples
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from testkit.relay_net import TRACK, RelayNet, key_of


def test_the_tables_of_an_origin() -> None:
    net = RelayNet()
    net.add(1, region="north")
    net.add(2)
    net.join(1, 2)
    net.run()
    net.publish(1)
    net.subscribe(2)
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
    assert relay.subscriptions.counters() == (0, 1, 0, 0, 0)
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
    net.subscribe(3)
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
    net.subscribe(2)
    net.run()
    net.send(1, b"object")
    net.run()
    _, (sent,) = net.relays[1].plane.take_traffic()
    (came,), _ = net.relays[2].plane.take_traffic()
    assert sent.key == came.key == key_of(TRACK)
    assert sent.bytes == came.bytes > len(b"object")


A, B, C = NodeId(1), NodeId(2), NodeId(3)


def chain() -> RelayNet:
    """Edge 1, Via 2 that is located, Edge 3 that wants the track of 1."""
    net = RelayNet()
    net.add(1, region="north")
    net.add(2, RelayType.VIA)
    net.add(3)
    net.dial_for_ever(1, 2)
    net.join(2, 3)
    net.run()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    return net


def test_connections_before_and_after_the_handshake() -> None:
    net = chain()
    net.join(1, 3)
    known, greeting = net.relays[1].tables.peers()
    assert (known.node, known.relay_type, known.region) == (B, "via", "")
    assert (known.control, known.sends, known.receives) == (True, True, True)
    assert (known.dialled, known.on_demand, known.leaving, known.guest) == (True,) + (False,) * 3
    assert (known.srtt_us, known.loss, known.alpn) == (10_000, 0.0, "laps-2")
    assert (greeting.node, greeting.relay_type, greeting.region) == (None, "", "")
    assert not greeting.dialled


def test_nodes_and_the_ways_to_them() -> None:
    net = chain()
    relay = net.relays[3]
    own, first, via = relay.tables.nodes()
    assert (own.node, own.next_hop, own.hops, own.path, own.ways) == (C, None, 0, (), 0)
    assert (first.node, first.next_hop, first.hops, first.path) == (A, B, 1, (B, A))
    assert (first.region, first.cost_us, first.ways) == ("north", 20_000, 1)
    assert first.contacts == ("relay-1:33434",)
    assert (via.node, via.relay_type, via.load_class, via.load) == (B, "via", "normal", 0)
    assert (via.longitude, via.latitude) == (None, None)


def test_announces_and_subscribes() -> None:
    net = chain()
    relay = net.relays[1]
    (announce,) = relay.tables.announce_rows()
    assert (announce.source, announce.kind, announce.name) == (A, "track", TRACK)
    assert (announce.key, announce.session) == (key_of(TRACK), None)
    (subscribe,) = relay.tables.subscribe_rows()
    assert (subscribe.source, subscribe.name) == (C, TRACK)
    assert subscribe.session == net.session(1, 2)
    # A Via does not know names.
    (subscribe,) = net.relays[2].tables.subscribe_rows()
    assert (subscribe.name, subscribe.key) == (None, key_of(TRACK))


def test_some_rows_of_a_table() -> None:
    net = chain()
    relay = net.relays[1]
    everything = relay.tables.nodes()
    assert relay.tables.nodes(slice(1, 2)) == everything[1:2]
    assert len(relay.tables.announce_rows(slice(0, 1))) == 1
    assert relay.tables.announce_rows(slice(1, 9)) == []
    every = relay.tables.subscribe_rows()
    assert relay.tables.subscribe_rows(slice(0, 9)) == every
    assert relay.tables.subscribe_rows_of(key_of(TRACK)) == every
    assert relay.tables.subscribe_rows_of(1) == []


def test_sets_and_the_fib() -> None:
    net = chain()
    net.send(1, b"object")
    net.run()
    origin, via, edge = net.relays.values()
    (made,) = origin.tables.sets()
    assert (made.incoming, made.targets, made.hops, made.key) == (False, (C,), 0, key_of(TRACK))
    incoming, outgoing = via.tables.sets()
    assert (incoming.incoming, incoming.hops, incoming.targets) == (True, 0, (C,))
    assert (outgoing.incoming, outgoing.hops, outgoing.retiring) == (False, 1, False)
    (entry,) = origin.tables.fib()
    assert (entry.session, entry.local, entry.key) == (0, False, key_of(TRACK))
    (entry,) = via.tables.fib()
    assert entry.session == incoming.session
    assert entry.egress == ((outgoing.session, outgoing.sns_id),)
    assert (entry.streams, entry.datagrams, entry.key) == (1, 0, None)
    (entry,) = edge.tables.fib()
    assert (entry.egress, entry.local) == ((), True)


def test_a_node_that_is_only_known() -> None:
    """Through a control server: no way leads there, but it is in the table."""
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.run()
    rows = {row.node: row for row in net.relays[1].tables.nodes()}
    assert (rows[B].next_hop, rows[B].path, rows[B].ways) == (None, (), 1)
