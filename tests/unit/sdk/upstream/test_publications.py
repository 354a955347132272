"""What others publish at the Edge."""

from __future__ import annotations

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.upstream.interfaces import Answer
from laps_wire.moqt.codepoints import PropertyTypeD18, PublishDoneCodeD18
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import PublishEnded, RequestAccepted, RequestReceived
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode
from testkit.bridges import NETWORK
from testkit.edge_client import ClientNet, served
from testkit.edge_net import NAMESPACE, TRACK, RuleBook, track_of
from testkit.plane import D18

SPACE = track_of("")
PROPERTIES = (KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 5),)


def offer(net: ClientNet, name: FullTrackName = TRACK) -> None:
    net.client.publish(net.now, AnnounceKind.TRACK, name)
    net.world.settle()


# Namespaces


def test_a_namespace_is_published_once() -> None:
    net = ClientNet()
    for _ in range(2):
        net.client.publish(net.now, AnnounceKind.NAMESPACE, SPACE)
    assert [row.namespace for row in net.edge.relay.namespaces()] == [NAMESPACE]
    for _ in range(2):
        net.client.unpublish(net.now, AnnounceKind.NAMESPACE, SPACE)
    assert net.edge.relay.namespaces() == []


def test_a_namespace_that_is_refused_can_be_tried_again() -> None:
    rules = RuleBook()
    rules.rules[Action.PUBLISH_NAMESPACE] = Decision(allowed=False)
    net = ClientNet(upstream=False, authorizer=rules)
    net.client.publish(net.now, AnnounceKind.NAMESPACE, SPACE)
    assert net.edge.relay.namespaces() == []
    rules.rules.clear()
    net.client.publish(net.now, AnnounceKind.NAMESPACE, SPACE)
    assert len(net.edge.relay.namespaces()) == 1


def test_a_name_that_moqt_cannot_say_is_left_out() -> None:
    net = ClientNet()
    reserved = FullTrackName(Namespace.of(b".", b"x"), b"")
    net.client.publish(net.now, AnnounceKind.NAMESPACE, reserved)
    net.client.unpublish(net.now, AnnounceKind.NAMESPACE, reserved)
    assert net.edge.relay.namespaces() == []


# Tracks


def test_a_track_is_pushed_with_what_its_publisher_says() -> None:
    net = ClientNet(upstream=False)
    watcher = net.edge.connect(D18)
    watcher.session.subscribe_tracks(NAMESPACE)
    net.world.settle()
    offer(net)
    offer(net)
    assert [call[:2] for call in net.take()] == [("edge_subscribed", TRACK)]
    assert not watcher.take(RequestReceived)
    net.accept(TRACK, served(Location(2, 2), PROPERTIES))
    message = watcher.one(RequestReceived).message
    assert isinstance(message, Publish)
    assert message.track_properties == PROPERTIES
    assert message.parameters.largest_object == Location(2, 2)
    # A client's PUBLISH is taken whether somebody receives it or not.
    net.accept(TRACK)
    assert net.take() == []
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    assert net.take() == [("edge_unsubscribed", TRACK)]
    net.world.advance(1)
    watcher.one(PublishEnded)


def test_it_is_wanted_while_somebody_takes_it() -> None:
    net = ClientNet(settings=EdgeSettings(forward_unwatched=False))
    offer(net)
    net.accept(TRACK)
    assert [call[0] for call in net.take()] == ["edge_subscribed", "edge_unsubscribed"]
    subscriber = net.edge.subscriber(D18, TRACK)
    subscriber.one(RequestAccepted)
    assert [call[0] for call in net.take()] == ["edge_subscribed"]
    subscriber.session.update(subscriber.request, Parameters(subscriber_priority=3))
    subscriber.session.update(subscriber.request, Parameters(forward=False))
    net.world.settle()
    assert [call[0] for call in net.take()] == ["edge_unsubscribed"]
    # Answers to what is not wanted are none.
    net.answer(TRACK, Answer.REFUSED, SubscribeCode.POLICY)
    assert net.edge.relay.tracks()[0].live


def test_a_request_for_a_group_is_taken() -> None:
    net = ClientNet()
    offer(net)
    net.accept(TRACK, served(properties=(KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)))
    subscriber = net.edge.subscriber(D18, TRACK)
    net.take()
    subscriber.session.update(subscriber.request, Parameters(new_group_request=1))
    net.world.settle()
    assert net.take() == []


def test_it_ends_with_its_publisher() -> None:
    net = ClientNet()
    offer(net)
    net.accept(TRACK)
    subscriber = net.edge.subscriber(D18, TRACK)
    net.take()
    net.answer(TRACK, Answer.ENDED, SubscribeCode.ENDED)
    net.world.advance(1)
    assert subscriber.one(PublishEnded).message.status_code == PublishDoneCodeD18.TRACK_ENDED
    assert net.take()[0] == ("edge_unsubscribed", TRACK)


def test_one_that_is_not_given_is_not_pushed() -> None:
    net = ClientNet()
    offer(net)
    net.answer(TRACK, Answer.REFUSED, SubscribeCode.POLICY)
    assert [call[0] for call in net.take()] == ["edge_subscribed", "edge_unsubscribed"]
    assert net.edge.relay.tracks() == []
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    assert net.take() == []


def test_one_that_the_edge_refuses_is_not_wanted() -> None:
    rules = RuleBook()
    rules.rules[Action.PUBLISH] = Decision(allowed=False)
    net = ClientNet(upstream=False, authorizer=rules)
    offer(net)
    net.accept(TRACK)
    assert [call[0] for call in net.take()] == ["edge_subscribed", "edge_unsubscribed"]
    assert net.edge.relay.tracks() == []


def test_one_that_the_edge_subscribed_to_is_not_pushed_as_well() -> None:
    net = ClientNet()
    subscriber = net.edge.subscriber(D18, TRACK)
    offer(net)
    net.accept(TRACK)
    subscriber.one(RequestAccepted)
    (row,) = net.edge.relay.tracks()
    assert row.publishers == (NETWORK,)
    # Both want it, and it goes when neither does.
    net.take()
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    assert net.take() == []
    subscriber.leave()
    net.world.advance(10)
    assert net.take() == [("edge_unsubscribed", TRACK)]


def test_an_edge_that_sends_everybody_away() -> None:
    net = ClientNet(upstream=False)
    offer(net)
    net.edge.relay.drain(net.now, "")
    net.world.settle()
    net.accept(TRACK)
    net.client.unpublish(net.now, AnnounceKind.TRACK, TRACK)
    assert net.edge.relay.tracks() == []
