"""Tracks that the Edge wants from others."""

from __future__ import annotations

from unittest.mock import patch

from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.upstream.bodies import read_subscribe
from laps_sdk.upstream.interfaces import Answer
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.codepoints import PropertyTypeD18, PublishDoneCodeD18, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import PublishEnded, RequestAccepted, RequestRejected
from laps_wire.moqt.structures import Location
from laps_wire.peering.laps2 import SubscribeCode
from testkit.edge_client import ClientNet, served
from testkit.edge_net import TRACK, track_of
from testkit.plane import D16, D18

PATIENT = Parameters(rendezvous_timeout=60_000)
DYNAMIC = (KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)


def refuse(net: ClientNet, code: SubscribeCode = SubscribeCode.NO_PUBLISHER) -> None:
    net.answer(TRACK, Answer.REFUSED, code)


def test_accepted() -> None:
    net = ClientNet()
    subscriber = net.edge.subscriber(D18, TRACK, Parameters(new_group_request=0))
    ((call, name, data),) = net.take()
    assert (call, name) == ("edge_subscribed", TRACK)
    subscribe = read_subscribe(data)
    assert subscribe is not None
    assert (subscribe.track, subscribe.parameters.new_group_request) == (TRACK, 0)
    net.accept(TRACK, served(Location(3, 1), DYNAMIC))
    ok = subscriber.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert (ok.parameters.largest_object, ok.track_properties) == (Location(3, 1), DYNAMIC)
    # Said twice, it is the same.
    net.accept(TRACK)
    assert not subscriber.take(RequestAccepted)
    net.answer(track_of("unknown"), Answer.ACCEPTED, 0)
    # The edge updates what it wants: a new group is asked for, the rest is taken.
    net.take()
    subscriber.session.update(subscriber.request, Parameters(new_group_request=4))
    subscriber.session.update(subscriber.request, Parameters(forward=False))
    net.world.settle()
    ((call, _, data),) = net.take()
    subscribe = read_subscribe(data)
    assert call == "edge_subscribed"
    assert subscribe is not None
    assert subscribe.parameters.new_group_request == 4
    subscriber.session.cancel(subscriber.request)
    net.world.advance(5)
    assert net.take() == [("edge_unsubscribed", TRACK)]


def test_refused_and_accepted_later() -> None:
    net = ClientNet()
    waiting = net.edge.subscriber(D18, TRACK, PATIENT)
    refuse(net)
    refuse(net)
    net.take()
    net.world.advance(20)
    assert net.take() == []
    net.accept(TRACK)
    waiting.one(RequestAccepted)


def test_refused_and_not_wanted_any_more() -> None:
    net = ClientNet()
    hasty = net.edge.subscriber(D18, TRACK)
    refuse(net)
    assert hasty.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST
    net.take()
    net.world.advance(5)
    assert net.take() == [("edge_unsubscribed", TRACK)]
    net.accept(TRACK)
    assert net.client.poll_timeout() is None


def test_who_comes_meanwhile_is_asked_for_again() -> None:
    net = ClientNet()
    net.edge.subscriber(D18, TRACK)
    refuse(net)
    net.take()
    late = net.edge.subscriber(D16, TRACK)
    assert [call[0] for call in net.take()] == ["edge_subscribed"]
    net.accept(TRACK)
    late.one(RequestAccepted)
    net.world.advance(30)
    assert net.take() == []


def test_refused_for_good() -> None:
    net = ClientNet()
    subscriber = net.edge.subscriber(D18, TRACK, PATIENT)
    refuse(net, SubscribeCode.POLICY)
    error = subscriber.one(RequestRejected).message
    assert (error.error_code, error.reason) == (RequestErrorCode.UNAUTHORIZED, "because")


def test_ended() -> None:
    net = ClientNet()
    subscriber = net.edge.subscriber(D18, TRACK)
    net.accept(TRACK)
    net.answer(TRACK, Answer.ENDED, SubscribeCode.ENDED)
    net.world.advance(1)
    done = subscriber.one(PublishEnded).message
    assert (done.status_code, done.reason) == (PublishDoneCodeD18.TRACK_ENDED, "because")
    net.take()
    net.world.advance(10)
    assert net.take() == [("edge_unsubscribed", TRACK)]


def test_no_answer_at_all() -> None:
    net = ClientNet(settings=EdgeSettings(upstream_timeout=2.0))
    publisher = net.edge.publisher(D18, TRACK)
    subscriber = net.edge.subscriber(D18, TRACK)
    net.take()
    net.world.advance(30)
    # Somebody still receives the track from a publisher here: the wish stays.
    assert net.take() == []
    net.accept(TRACK)
    assert [row.network for row in net.edge.relay.tracks()] == [True]
    publisher.leave()
    assert not subscriber.take(PublishEnded)
    # Without anybody it goes.
    other = net.edge.subscriber(D18, track_of("other"))
    net.take()
    net.world.advance(3)
    assert other.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT
    assert net.take() == [("edge_unsubscribed", track_of("other"))]


def test_accepted_while_the_edge_waits_for_nothing() -> None:
    """The answer is kept for the next SUBSCRIBE, as long as the wish is."""
    net = ClientNet()
    hasty = net.edge.subscriber(D18, TRACK)
    refuse(net)
    hasty.take(RequestRejected)
    net.accept(TRACK)
    late = net.edge.subscriber(D18, TRACK)
    late.one(RequestAccepted)


def test_who_comes_long_after_the_answer_begins_anew() -> None:
    """What was sent meanwhile came to nobody, so a stream that is open would stay unheard."""
    net = ClientNet()
    hasty = net.edge.subscriber(D18, TRACK)
    refuse(net)
    hasty.take(RequestRejected)
    net.accept(TRACK)
    net.take()
    net.world.advance(1)
    late = net.edge.subscriber(D18, TRACK)
    assert [call[:2] for call in net.take()] == [
        ("edge_unsubscribed", TRACK),
        ("edge_subscribed", TRACK),
    ]
    assert not late.take(RequestAccepted)
    net.accept(TRACK)
    late.one(RequestAccepted)


def test_names_that_collide() -> None:
    with patch.object(KeyedHasher, "full_name", return_value=5):
        net = ClientNet()
        net.edge.subscriber(D18, TRACK)
        other = net.edge.subscriber(D18, track_of("other"))
        error = other.one(RequestRejected).message
        assert error.error_code == RequestErrorCode.INTERNAL_ERROR
        assert "has the hash of" in error.reason
        assert net.client.collisions == 1
        assert [call[1] for call in net.take()] == [TRACK]


def test_keys_with_the_same_alias() -> None:
    def full_name(self: KeyedHasher, fields: object, name: bytes) -> int:
        return 5 if name == TRACK.name else 5 | 1 << 63

    with patch.object(KeyedHasher, "full_name", full_name):
        net = ClientNet()
        first = net.edge.subscriber(D18, TRACK)
        second = net.edge.subscriber(D18, track_of("other"))
        net.accept(TRACK)
        net.accept(track_of("other"))
        first.one(RequestAccepted)
        error = second.one(RequestRejected).message
        assert (error.error_code, error.reason) == (0, "the track alias is taken")
