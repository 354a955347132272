"""Other relays as a client of the Edge."""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import Subscription
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import StandaloneFetch
from laps_wire.moqt.session import RequestAccepted, RequestRejected
from laps_wire.moqt.structures import Location
from laps_wire.names import Namespace
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData
from testkit.bridges import NETWORK, World, key_of
from testkit.edge_client import ClientNet, KeptFeed, served
from testkit.edge_net import NAMESPACE, TRACK, track_of
from testkit.plane import D18, bodies, subgroup


def test_both_directions() -> None:
    net = ClientNet()
    assert net.client.number == NETWORK
    subscriber = net.edge.subscriber(D18, TRACK)
    assert [call[:2] for call in net.take()] == [("edge_subscribed", TRACK)]
    net.accept(TRACK)
    subscriber.one(RequestAccepted)
    publisher = net.edge.publisher(D18, track_of("mine"))
    feed = KeptFeed()
    net.client.subscribe_at_edge(
        net.now, key_of(track_of("mine")), track_of("mine"), SubscribeData(), feed
    )
    assert [call[0] for call in net.take()] == ["edge_accepted"]
    publisher.send(subgroup(D18, bodies(1)))
    assert list(feed.egress.objects()) == [(0, 0)]
    net.client.unsubscribe_at_edge(net.now, key_of(track_of("mine")))
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert list(feed.egress.objects()) == [(0, 0)]


def test_names_of_both_kinds() -> None:
    net = ClientNet()
    net.client.publish(net.now, AnnounceKind.NAMESPACE, track_of(""))
    assert [row.namespace for row in net.edge.relay.namespaces()] == [NAMESPACE]
    net.client.unpublish(net.now, AnnounceKind.NAMESPACE, track_of(""))
    assert net.edge.relay.namespaces() == []
    net.client.publish(net.now, AnnounceKind.TRACK, TRACK)
    net.accept(TRACK, served(Location(1, 1)))
    assert [row.track for row in net.edge.relay.tracks()] == [TRACK]
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    net.world.advance(1)
    assert [row.live for row in net.edge.relay.tracks()] in ([], [False])


def test_the_past_is_not_asked_for() -> None:
    net = ClientNet()
    net.client.publish(net.now, AnnounceKind.NAMESPACE, track_of(""))
    client = net.edge.connect(D18)
    client.session.track_status(TRACK)
    client.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(5, 0)))
    net.world.settle()
    codes = [event.message.error_code for event in client.take(RequestRejected)]
    assert codes == [RequestErrorCode.DOES_NOT_EXIST] * 2
    # If it were, we would say so.
    edge = net.client.seam.edge
    edge.track_status(TRACK)
    net.world.settle()
    assert edge.open_requests


def test_the_past_is_asked_of_who_has_it() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2), end_of_group=True))
    client = two.connect(D18)
    client.request = client.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(0, 0)))
    world.settle()
    client.one(RequestAccepted)
    request_id, items = client.egress.fetched()
    assert (request_id, len(items)) == (client.request, 2)
    edge = world.port(two).bridge.client
    assert edge.poll_timeout() is None
    edge.handle_timeout(world.now)


def test_ends() -> None:
    net = ClientNet(upstream=False)
    net.edge.relay.drain(net.now, "")
    net.world.advance(30)
    assert net.client.closed
    ((call, _, reason),) = net.take()
    assert (call, reason) == ("edge_closed", "the session did not leave in time")
    net = ClientNet()
    net.client.publish(net.now, AnnounceKind.NAMESPACE, track_of(""))
    net.client.close(net.now)
    assert net.edge.relay.sessions() == []
    assert net.client.poll_timeout() is None
    net.client.handle_timeout(net.now)
    assert Namespace() not in [row.namespace for row in net.edge.relay.namespaces()]


def test_open_streams_go_on_in_new_ones() -> None:
    net = ClientNet()
    net.client.renew(key_of(TRACK))  # nobody asked for it
    publisher = net.edge.publisher(D18, TRACK)
    feed = KeptFeed()
    net.client.subscribe_at_edge(net.now, key_of(TRACK), TRACK, SubscribeData(), feed)
    renewed: list[tuple[Subscription, float]] = []
    net.client._renew = lambda subscription, before: renewed.append((subscription, before))
    publisher.send(subgroup(D18, bodies(1)), fin=False)
    net.client.renew(key_of(TRACK), 7.0)
    ((subscription, before),) = renewed
    assert before == 7.0
    assert subscription.session == NETWORK


def test_a_track_is_wanted_until_no_part_wants_it() -> None:
    net = ClientNet()
    key, one, two = key_of(TRACK), object(), object()
    data = SubscribeData()
    for part in (one, two, one):
        net.client.subscribe_above(net.now, part, key, TRACK, data)
    assert [call[0] for call in net.take()] == ["edge_subscribed"] * 3
    net.client.unsubscribe_above(net.now, one, key, TRACK)
    net.client.unsubscribe_above(net.now, one, key, TRACK)
    assert net.take() == []
    net.client.unsubscribe_above(net.now, two, key, TRACK)
    assert net.take() == [("edge_unsubscribed", TRACK)]
    net.client.unsubscribe_above(net.now, two, key, TRACK)
    assert net.take() == []
