"""Stubs behind a parent Edge, with a network behind that."""

from __future__ import annotations

from typing import Any

import pytest

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.upstream.interfaces import Answer, answer_of
from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import PropertyTypeD18, PublishDoneCodeD18, RequestErrorCode
from laps_wire.moqt.data import ObjectDatagram
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Publish, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import SubscribeCode
from testkit.bridges import Client, World
from testkit.edge_net import NAMESPACE, TRACK, RuleBook, track_of
from testkit.plane import D16, D18, bodies, subgroup
from testkit.stubs import Stub


def rejection(client: Client) -> tuple[int, str]:
    error = client.one(RequestRejected).message
    return error.error_code, error.reason


# Up


def test_what_a_stub_publishes_reaches_the_network() -> None:
    world = World()
    parent, far = world.edge(), world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    properties = (KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 3),)
    publisher = stub.edge.publisher(D18, TRACK, properties=properties)
    assert next(iter(world.port(parent).announced))[1] == TRACK
    near, subscriber = parent.subscriber(D16, TRACK), far.subscriber(D18, TRACK)
    ok = subscriber.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.track_properties == properties
    publisher.send(subgroup(D18, bodies(2)))
    publisher.datagram(ObjectDatagram(7, 9, 0, b"ping"))
    for client in (near, subscriber):
        assert list(client.objects()) == [(0, 0), (0, 1)]
        assert [each.payload for each in client.egress.object_datagrams()] == [b"ping"]
    assert len(joint.up.streams) == len(joint.up.datagrams) == 1
    assert not joint.down.streams
    publisher.leave()
    world.advance(2)
    near.one(PublishEnded)
    subscriber.one(PublishEnded)
    assert not world.port(parent).announced


def test_a_stub_is_asked_only_for_what_it_announced() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = stub.edge.announcer(D18, NAMESPACE)
    other = parent.subscriber(D18, track_of("x", b"deeper"))
    announcer.one(RequestReceived)
    parent.subscriber(D18, FullTrackName(Namespace.of(b"elsewhere"), b"x"))
    assert not announcer.take(RequestReceived)
    other.session.cancel(other.request)
    world.advance(20)
    announcer.one(RequestCancelled)


def test_a_refusal_of_the_stubs_publisher_is_told() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = stub.edge.announcer(D18, NAMESPACE)
    subscriber = parent.subscriber(D18, TRACK)
    event = announcer.one(RequestReceived)
    announcer.session.reject(event.request_id, RequestErrorCode.NOT_SUPPORTED, "no")
    world.settle()
    assert rejection(subscriber) == (RequestErrorCode.NOT_SUPPORTED, "no")
    # A namespace goes as well.
    announcer.leave()
    assert parent.relay.namespaces() == []


def test_watchers_at_the_parent_get_a_stubs_tracks_pushed() -> None:
    world = World()
    parent = world.edge(settings=EdgeSettings(forward_unwatched=False))
    stub = Stub(world)
    stub.join(parent)
    watcher = parent.connect(D18)
    watcher.session.subscribe_tracks(NAMESPACE)
    publisher = stub.edge.publisher(D18, TRACK)
    offer = watcher.one(RequestReceived)
    assert isinstance(offer.message, Publish)
    publisher.send(subgroup(D18, bodies(1), group=0))
    watcher.session.accept(offer.request_id)
    world.settle()
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert list(watcher.objects()) == [(0, 0), (1, 0)]


# Down


def test_what_a_stub_wants_comes_from_the_network() -> None:
    world = World()
    parent, far = world.edge(), world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    announcer = far.announcer(D18, NAMESPACE)
    subscriber = stub.edge.subscriber(D18, TRACK)
    announcer.answer(7)
    subscriber.one(RequestAccepted)
    announcer.send(subgroup(D18, bodies(2)))
    announcer.datagram(ObjectDatagram(7, 9, 0, b"ping"))
    assert list(subscriber.objects()) == [(0, 0), (0, 1)]
    assert [each.payload for each in subscriber.egress.object_datagrams()] == [b"ping"]
    # Two more subscribers at the Stub cost the parent nothing.
    stub.edge.subscriber(D16, TRACK)
    announcer.send(subgroup(D18, bodies(2), group=1))
    assert len(joint.down.streams) == 2
    assert [row.session for row in parent.relay.subscriptions()] == [joint.parent.client.number]
    subscriber.leave()
    world.advance(1)
    assert parent.relay.subscriptions()


def test_the_last_unsubscribe_of_a_stub_goes_up() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = parent.announcer(D18, NAMESPACE)
    subscriber = stub.edge.subscriber(D18, TRACK)
    announcer.answer()
    subscriber.leave()
    world.advance(5)
    assert not parent.relay.subscriptions()
    world.advance(5)
    announcer.one(RequestCancelled)


def test_the_end_of_a_track_reaches_a_stub() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    publisher = parent.publisher(D18, TRACK)
    subscriber = stub.edge.subscriber(D18, TRACK)
    publisher.session.publish_done(publisher.request, 2, 0, "that was all")
    world.advance(2)
    assert subscriber.one(PublishEnded).message.reason == "that was all"


def test_a_stub_that_waits_gets_what_comes_later() -> None:
    world = World(plaintext=False)
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    hasty = stub.edge.subscriber(D18, TRACK)
    patient = stub.edge.subscriber(D18, TRACK, Parameters(rendezvous_timeout=30_000))
    assert rejection(hasty)[0] == RequestErrorCode.DOES_NOT_EXIST
    world.advance(11)
    publisher = parent.publisher(D18, TRACK)
    world.advance(6)
    patient.one(RequestAccepted)
    publisher.send(subgroup(D18, bodies(1)))
    assert list(patient.objects()) == [(0, 0)]


def test_a_stub_that_waits_no_longer_is_forgotten() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    stub.edge.subscriber(D18, TRACK)
    assert joint.parent.poll_timeout() is not None
    world.advance(30)
    assert joint.parent.poll_timeout() is None


def test_nothing_comes_back_to_a_stub() -> None:
    world = World()
    parent = world.edge()
    stubs = [Stub(world), Stub(world)]
    joints = [stub.join(parent) for stub in stubs]
    publishers = [stub.edge.publisher(D18, TRACK) for stub in stubs]
    subscribers = [stub.edge.subscriber(D18, TRACK) for stub in stubs]
    for number, publisher in enumerate(publishers):
        publisher.send(subgroup(D18, bodies(1), group=number))
    for subscriber in subscribers:
        assert sorted(subscriber.objects()) == [(0, 0), (1, 0)]
    assert [len(joint.up.streams) for joint in joints] == [1, 1]
    assert [len(joint.down.streams) for joint in joints] == [1, 1]


# A client like others


def test_the_authorizer_and_caps_hold_for_a_stub() -> None:
    rules = RuleBook()
    world = World()
    parent = world.edge(authorizer=rules, settings=EdgeSettings(session_subscriptions=1))
    parent.publisher(D18, TRACK)
    parent.publisher(D18, track_of("other"))
    parent.publisher(D18, track_of("secret"))
    stub = Stub(world)
    stub.join(parent)
    stub.edge.subscriber(D18, TRACK).one(RequestAccepted)
    full = stub.edge.subscriber(D18, track_of("other"))
    assert rejection(full)[0] == RequestErrorCode.EXCESSIVE_LOAD
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=False, reason="not for Stubs")
    denied = stub.edge.subscriber(D18, track_of("secret"))
    assert rejection(denied) == (RequestErrorCode.UNAUTHORIZED, "not for Stubs")
    rules.rules[Action.PUBLISH_NAMESPACE] = Decision(allowed=False, reason="not for Stubs")
    rules.rules[Action.PUBLISH] = Decision(allowed=False, reason="not for Stubs")
    stub.edge.announcer(D18, NAMESPACE)
    stub.edge.publisher(D18, track_of("mine"))
    world.settle()
    assert parent.relay.namespaces() == []
    assert not any(track.track == track_of("mine") for track in parent.relay.tracks())


def test_policy_holds_for_a_stub_at_the_publishers_own_edge() -> None:
    """It is told at once, and why: not that the publisher has ended the track."""
    world = World()
    parent = world.edge()
    parent.publisher(D18, TRACK)
    denied: list[FullTrackName] = []
    parent.relay.set_policy(lambda name: "not in this region" if name in denied else None)
    stub = Stub(world)
    stub.join(parent)
    subscriber = stub.edge.subscriber(D18, TRACK)
    subscriber.one(RequestAccepted)
    denied.append(TRACK)
    parent.relay.reauthorize(world.now)
    world.advance(0.5)  # and not when the Stub is looked after again
    done = subscriber.one(PublishEnded).message
    assert (done.status_code, done.reason) == (
        PublishDoneCodeD18.UNAUTHORIZED,
        "not in this region",
    )
    late = stub.edge.subscriber(D18, TRACK)
    assert rejection(late) == (RequestErrorCode.UNAUTHORIZED, "not in this region")
    denied.clear()
    world.advance(2)
    stub.edge.subscriber(D18, TRACK).one(RequestAccepted)


def test_a_stub_that_may_not_be_here_is_sent_away() -> None:
    rules = RuleBook()
    rules.rules[Action.CLIENT_SETUP] = Decision(allowed=False, reason="no Stubs")
    world = World()
    parent = world.edge(authorizer=rules)
    stub = Stub(world)
    joint = stub.join(parent)
    assert joint.over
    assert joint.pair.closed[1] == (CloseCode.NOT_AUTHORIZED, "no Stubs")
    assert stub.uplink.active is None
    # Once more, for a session that is over.
    joint.parent.edge_closed(world.now, 0, "again")


def test_a_lost_stub_leaves_nothing_behind() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    publisher = stub.edge.publisher(D18, TRACK)
    subscriber = parent.subscriber(D18, TRACK)
    stream = publisher.send(subgroup(D18, bodies(1)), fin=False)
    joint.close()
    world.advance(1)
    assert subscriber.egress.streams[0].reset_code is not None
    assert not world.port(parent).announced
    assert [row.session for row in parent.relay.sessions() if row.info.peering] == [1000]
    publisher.more(stream, b"")
    assert not subscriber.take(PublishEnded)  # it may come back
    world.advance(30)
    subscriber.one(PublishEnded)


# Streams


def test_a_stub_that_stops_a_stream_gets_nothing_more_of_it() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    publisher = parent.publisher(D18, TRACK)
    stub.edge.subscriber(D18, TRACK)
    data = subgroup(D18, bodies(2))
    stream = publisher.send(data[:20], fin=False)
    (out,) = joint.down.streams
    joint.parent.out_stream_gone(world.now, out, 5, stopped=True)
    publisher.more(stream, data[20:], fin=True)
    (row,) = parent.relay.subscriptions()
    assert row.counters is not None
    assert row.counters.dropped_streams == 1
    # One that nobody knows (any more).
    joint.parent.out_stream_gone(world.now, out, 5, stopped=True)


def test_resets_pass() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    up, down = stub.edge.publisher(D18, TRACK), parent.publisher(D18, track_of("down"))
    above = parent.subscriber(D18, TRACK)
    below = stub.edge.subscriber(D18, track_of("down"))
    for publisher in (up, down):
        stream = publisher.send(subgroup(D18, bodies(1)), fin=False)
        publisher.reset(stream, 0x42)
    assert above.egress.resets() == below.egress.resets() == [0x42]


def test_sets_have_no_place_here() -> None:
    world = World()
    joint = Stub(world).join(world.edge())
    data = bytes([24, 0x10, 0, 18, 0, 0, 0, 1]) + bytes(16)
    with pytest.raises(ProtocolViolation, match="SNS id 1"):
        joint.parent.stream_data(world.now, 2, data, False)
    with pytest.raises(ProtocolViolation, match="SNS id 1"):
        joint.parent.datagram(world.now, bytes([24, 0x20, 0, 18, 0, 0, 0, 1]) + bytes(16))


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (SubscribeCode.ACCEPTED, Answer.ACCEPTED),
        (SubscribeCode.ENDED, Answer.ENDED),
        (SubscribeCode.POLICY, Answer.REFUSED),
        (77, Answer.REFUSED),
    ],
)
def test_what_a_response_means(code: Any, answer: Answer) -> None:
    assert answer_of(code) is answer
