"""Tracks that others want from the Edge."""

from __future__ import annotations

from typing import Any

import pytest

from laps_sdk.upstream.bodies import read_ok, subscribe_data
from laps_wire.moqt.codepoints import PropertyTypeD18, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestCancelled, RequestReceived, UpdateReceived
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode, SubscribeData
from testkit.bridges import Client, key_of
from testkit.edge_client import ClientNet, KeptFeed
from testkit.edge_net import NAMESPACE, TRACK, RuleBook
from testkit.plane import D18, bodies, subgroup

KEY = key_of(TRACK)


def pull(
    net: ClientNet,
    parameters: Parameters | None = None,
    *,
    key: int = KEY,
    name: FullTrackName = TRACK,
) -> KeptFeed:
    feed = KeptFeed()
    data = SubscribeData() if parameters is None else subscribe_data(name, parameters)
    net.client.subscribe_at_edge(net.now, key, name, data, feed)
    net.world.settle()
    return feed


def asked(announcer: Client) -> tuple[int, Subscribe]:
    event = announcer.take(RequestReceived)[-1]
    assert isinstance(event.message, Subscribe)
    return event.request_id, event.message


def test_served_by_who_publishes() -> None:
    net = ClientNet()
    properties = (
        KeyValue(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT, 700),
        KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 5),
    )
    publisher = net.edge.publisher(D18, TRACK, properties=properties)
    publisher.send(subgroup(D18, bodies(1), group=2))
    feed = pull(net)
    ((call, key, data),) = net.take()
    assert (call, key) == ("edge_accepted", KEY)
    assert read_ok(data) == (Location(2, 0), properties)
    publisher.send(subgroup(D18, bodies(1), group=3))
    assert feed.opened == [(5, 700, None)]
    assert list(feed.egress.objects()) == [(3, 0)]
    # Asked once more, the answer is that of now.
    pull(net)
    ((call, key, data),) = net.take()
    assert read_ok(data)[0] == Location(3, 0)


def test_an_announcer_is_asked_with_what_the_others_want() -> None:
    net = ClientNet()
    announcer = net.edge.announcer(D18, NAMESPACE)
    pull(net, Parameters(new_group_request=0, subscriber_priority=7))
    request_id, message = asked(announcer)
    assert message.parameters.new_group_request == 0
    assert [row.priority for row in net.edge.relay.subscriptions()] == [7]
    # Before it has answered nothing can be changed.
    pull(net, Parameters(new_group_request=3))
    dynamic = (KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)
    announcer.session.accept_subscribe(request_id, 7, Parameters(), dynamic)
    net.world.settle()
    ((_, _, data),) = net.take()
    assert read_ok(data) == (None, dynamic)
    announcer.take(UpdateReceived)
    announcer.send(subgroup(D18, bodies(1), group=4))
    feed = pull(net, Parameters(new_group_request=5))
    (update,) = announcer.take(UpdateReceived)
    assert update.message.parameters.new_group_request == 5
    announcer.send(subgroup(D18, bodies(1), group=5))
    assert list(feed.egress.objects()) == [(5, 0)]
    net.client.unsubscribe_at_edge(net.now, KEY)
    net.client.unsubscribe_at_edge(net.now, KEY)
    net.world.advance(5)
    announcer.one(RequestCancelled)


def test_refused() -> None:
    net = ClientNet()
    pull(net)
    assert net.take()[0][:3] == ("edge_refused", KEY, SubscribeCode.NO_PUBLISHER)
    announcer = net.edge.announcer(D18, NAMESPACE)
    pull(net)
    request_id, _ = asked(announcer)
    announcer.session.reject(request_id, RequestErrorCode.MALFORMED_TRACK, "broken")
    net.world.settle()
    assert net.take() == [("edge_refused", KEY, SubscribeCode.PUBLISHER_REFUSED, "broken")]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (2, ("edge_ended", KEY, "enough")),
        # Not every end is the publisher's: it is not allowed any more.
        (1, ("edge_refused", KEY, SubscribeCode.UNAUTHORIZED, "enough")),
    ],
)
def test_ended_with_a_word(status: int, told: tuple[object, ...]) -> None:
    net = ClientNet()
    publisher = net.edge.publisher(D18, TRACK)
    pull(net)
    net.take()
    publisher.session.publish_done(publisher.request, status, 0, "enough")
    net.world.advance(1)
    assert net.take() == [told]


def test_ended_without_a_word() -> None:
    net = ClientNet()
    net.edge.publisher(D18, TRACK)
    pull(net)
    net.take()
    # The edge resets the stream of the request.
    edge: Any = net.client.seam.edge
    (request_id,) = edge.open_requests
    edge.cancel(request_id)
    net.world.settle()
    assert net.take() == [("edge_ended", KEY, "the Edge ended it")]


def test_two_keys_with_one_alias() -> None:
    net = ClientNet()
    net.edge.publisher(D18, TRACK)
    pull(net)
    net.take()
    pull(net, key=KEY ^ 1 << 63)
    assert [call[:3] for call in net.take()] == [
        ("edge_refused", KEY ^ 1 << 63, SubscribeCode.HASH_COLLISION)
    ]


def test_an_edge_that_takes_nothing() -> None:
    net = ClientNet(upstream=False, authorizer=RuleBook())
    net.edge.relay.drain(net.now, "")
    net.world.settle()
    pull(net)
    ((call, _, code, reason),) = net.take()
    assert (call, code) == ("edge_refused", SubscribeCode.LIMIT)
    assert "GOAWAY" in reason


def test_what_is_about_other_requests_is_for_others() -> None:
    net = ClientNet()
    net.edge.publisher(D18, TRACK)
    pull(net)
    net.client.publish(net.now, AnnounceKind.NAMESPACE, TRACK)
    assert [row.namespace for row in net.edge.relay.namespaces()] == [NAMESPACE]
    assert [call[0] for call in net.take()] == ["edge_accepted"]
    # Nothing was published yet: asked again, there is still nothing to say about it.
    pull(net)
    ((_, _, data),) = net.take()
    assert read_ok(data) == (None, ())
