"""The relay as its fetches see it: real relays, joined in memory."""

from __future__ import annotations

from laps_relay.network.fetch.fetch_router import FETCH_FEEDS, FetchRouter
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.subscriptions.subscriptions import TrackHashes
from laps_relay.policy import OPEN_POLICY
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Feature, RelayType
from testkit.fetch_rig import request_of
from testkit.relay_net import HASHER, TRACK, RelayNet, key_of

FIELDS = TRACK.namespace.fields
HASHES = TrackHashes(HASHER.elements(FIELDS), HASHER.name(TRACK.name), key_of(TRACK))


def router(relay: NetworkRelay) -> FetchRouter:
    found = relay.fetches.router
    assert isinstance(found, FetchRouter)
    return found


def diamond() -> RelayNet:
    """Two Edges with two Vias between them, the first of which is nearer."""
    net = RelayNet()
    net.add(1)
    net.add(5, RelayType.VIA)
    net.add(6, RelayType.VIA)
    net.add(9)
    for via, delay in ((5, 0.005), (6, 0.02)):
        net.join(1, via, delay=delay)
        net.join(via, 9, delay=delay)
    net.run(2.0)
    return net


def test_ways_are_the_sessions_that_lead_there_the_best_first() -> None:
    net = diamond()
    ways = router(net.relays[9])
    assert ways.sessions_to(NodeId(1)) == [net.session(9, 5), net.session(9, 6)]
    assert ways.sessions_to(NodeId(66)) == []
    # A peer that does not know fetches is no way.
    link = net.relays[9].links.by_session[net.session(9, 5)]
    link.features -= {Feature.FETCHES}
    assert ways.sessions_to(NodeId(1)) == [net.session(9, 6)]


def test_nodes_peers_and_policy() -> None:
    net = diamond()
    ways = router(net.relays[9])
    assert ways.policy is OPEN_POLICY
    peer = ways.peer(net.session(9, 5))
    assert peer is not None
    assert peer == ways.node(NodeId(5))
    assert peer.relay_type is RelayType.VIA
    assert ways.peer(999) is None
    assert ways.node(NodeId(66)) is None
    assert not ways.send(net.now, 999, request_of(9, 1))
    assert ways.draw()


def test_holders_are_those_who_serve_or_announced_it_the_nearest_first() -> None:
    net = diamond()
    net.add(2)
    net.join(9, 2)
    net.publish(1)
    net.run(2.0)
    ways = router(net.relays[9])
    assert ways.holders(HASHES) == [NodeId(1)]
    net.publish(2)
    net.publish(9)
    net.subscribe(9)
    net.run(2.0)
    assert ways.holders(HASHES) == [NodeId(2), NodeId(1)]
    net.crash(1)
    net.relays[9].close(net.now, net.session(9, 2))
    assert ways.holders(HASHES)[-1] == NodeId(2)  # nobody leads there, but it is in the tables


def test_a_feed_of_its_own_for_each_answer() -> None:
    net = diamond()
    relay = net.relays[1]
    ways = router(relay)
    assert ways.announcers(request_of(9, 1)) is None
    feed = ways.open_feed(net.now, request_of(9, 1), TRACK)
    assert feed is not None
    assert feed.ingress.set_id == FETCH_FEEDS
    assert [(row.targets, row.incoming) for row in relay.tables.sets()] == [((NodeId(9),), False)]
    stream = feed.open_stream(net.now, priority=3)
    stream.write(b"past")
    net.run(0.2)
    assert list(net.clients[9].streams.values()) == [b"past"]
    ways.close_feed(net.now, feed, cut=False)
    stream.write(b"!", True)
    net.run(3.0)
    assert net.got(9) == [[b"past!"]]
    assert relay.tables.sets() == []


def test_no_way_no_feed() -> None:
    net = diamond()
    ways = router(net.relays[1])
    assert ways.open_feed(net.now, request_of(66, 1), TRACK) is None
    net.run(3.0)
    assert (net.relays[1].tables.sets(), net.relays[1].tables.fib()) == ([], [])


def test_a_control_server_knows_announcers() -> None:
    net = RelayNet()
    net.add(3, RelayType.CONTROL)
    for edge in (1, 9):
        net.add(edge)
        net.dial_for_ever(edge, 3)
    net.run()
    net.publish(1)
    net.run()
    assert router(net.relays[3]).announcers(request_of(9, 3)) == [NodeId(1)]
    assert router(net.relays[9]).holders(HASHES) == [NodeId(3)]
