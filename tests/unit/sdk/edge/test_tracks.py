"""The table of tracks."""

from __future__ import annotations

import pytest

from laps_sdk.edge.events import TrackAdded, TrackRemoved
from laps_sdk.edge.settings import EdgeSettings
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import RequestOk, StandaloneFetch, SubscribeOk, TrackStatus
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestAccepted, RequestReceived, RequestRejected, SessionLimits
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, track_of

both = pytest.mark.parametrize("draft", DRAFTS)


def leave_a_cache(net: EdgeNet, draft: Draft, name: str = "report") -> int:
    """A publisher comes and goes; the number of the track that it leaves."""
    publisher = net.publisher(draft, track_of(name))
    number = net.plane.number(track_of(name))
    net.plane.cached[number] = 1
    net.plane.covered.add(number)
    net.plane.largest_of[number] = Location(9, 9)
    net.leave(publisher)
    return number


def fetch(net: EdgeNet, peer: Peer, name: str = "report") -> bool:
    peer.session.fetch(StandaloneFetch(track_of(name), Location(0, 0), Location(1, 0)))
    net.settle()
    return bool(peer.take(RequestAccepted))


@both
def test_a_track_comes_and_goes(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft, properties=(KeyValue(0x4, 1500),))
    assert net.plane.tracks == {1: TRACK}
    assert net.plane.max_age == {1: 1.5}
    net.leave(publisher)
    assert net.plane.tracks == {}
    assert [event.number for event in net.found(TrackAdded)] == [1]
    assert [event.number for event in net.found(TrackRemoved)] == [1]


@both
def test_a_cache_outlives_its_publisher(draft: Draft) -> None:
    net = EdgeNet()
    number = leave_a_cache(net, draft)
    peer = net.connect(draft)
    assert fetch(net, peer)
    # Who subscribes does not bring it back, nor take it away.
    subscriber = net.subscriber(draft)
    net.advance(1.0)
    assert len(subscriber.take(RequestRejected)) == 1
    assert fetch(net, peer)
    net.advance(29.0)
    assert number not in net.plane.tracks


@both
def test_no_cache_is_kept_if_that_is_not_wanted(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(cache_linger=0.0))
    leave_a_cache(net, draft)
    assert net.plane.tracks == {}


@both
def test_a_publisher_that_comes_back_begins_anew(draft: Draft) -> None:
    net = EdgeNet()
    number = leave_a_cache(net, draft)
    net.publisher(draft)
    assert number not in net.plane.tracks
    peer = net.subscriber(draft)
    ok = peer.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.track_alias > number
    assert ok.parameters.largest_object is None


@both
def test_who_waits_gets_the_new_track(draft: Draft) -> None:
    """A track ends while a SUBSCRIBE waits: the old numbers must not count for it."""
    net = EdgeNet()
    publisher = net.publisher(draft)
    net.plane.largest_of[1] = Location(9, 9)
    publisher.session.publish_done(publisher.request, 2, 1, "")
    net.settle()
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    peer = net.subscriber(draft, TRACK, waiting)
    net.advance(0.5)
    net.publisher(draft)
    ok = peer.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.track_alias == 2
    assert ok.parameters.largest_object is None
    assert list(net.plane.tracks) == [2]


@both
def test_another_publisher_comes_while_streams_are_under_way(draft: Draft) -> None:
    net = EdgeNet()
    first = net.publisher(draft)
    first.session.publish_done(first.request, 2, 1, "")
    net.settle()
    second = net.publisher(draft)
    assert net.plane.publishers(TRACK) == [first.id, second.id]
    net.advance(1.0)
    assert net.plane.publishers(TRACK) == [second.id]
    assert list(net.plane.tracks) == [1]


@both
def test_caches_make_room(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_tracks=2))
    first = leave_a_cache(net, draft, "one")
    second = leave_a_cache(net, draft, "two")
    net.publisher(draft, track_of("three"))
    assert first not in net.plane.tracks
    assert second in net.plane.tracks


@both
def test_of_two_caches_the_newer_stays(draft: Draft) -> None:
    net = EdgeNet()
    older = leave_a_cache(net, draft)
    newer = net.relay._tracks.open(net.now, TRACK)
    assert newer is not None
    net.relay._tracks.install(newer)
    net.relay._tracks.install(newer)
    net.plane.cached[newer.number] = 1
    net.relay._tracks.settle(net.now, newer)
    assert list(net.plane.tracks) == [newer.number] != [older]
    # Settling, or forgetting, what is over does nothing.
    net.relay._tracks.settle(net.now, newer)
    net.relay._tracks.forget(net.now, newer)
    net.relay._tracks.forget(net.now, newer)
    net.relay._tracks.settle(net.now, newer)
    assert net.plane.tracks == {}


@both
def test_a_fetch_ends_with_its_cache(draft: Draft) -> None:
    net = EdgeNet()
    leave_a_cache(net, draft)
    peer = net.connect(draft)
    assert fetch(net, peer)
    net.advance(30.0)
    assert len(net.plane.cancelled) == 1
    assert net.relay.sessions()[0].fetches == 0


@both
def test_the_largest_location(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, parameters=Parameters(largest_object=Location(5, 0)))
    (row,) = net.relay.tracks()
    assert row.largest == Location(5, 0)
    net.plane.largest_of[1] = Location(4, 0)
    assert net.relay.tracks()[0].largest == Location(5, 0)
    net.plane.largest_of[1] = Location(6, 0)
    assert net.relay.tracks()[0].largest == Location(6, 0)


@both
def test_no_room(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_tracks=1))
    net.publisher(draft)
    assert len(net.subscriber(draft, track_of("other")).take(RequestRejected)) == 1
    assert len(net.subscriber(draft).take(RequestAccepted)) == 1
    assert [row.track for row in net.relay.tracks()] == [TRACK]


@both
def test_a_subscription_lingers(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(linger=2.0))
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    net.answer(publisher)
    net.leave(peer)
    again = net.subscriber(draft)
    net.leave(again)
    net.advance(1.9)
    assert len(net.plane.tracks) == 1
    net.advance(0.1)
    assert net.plane.tracks == {}


# TRACK_STATUS.


pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])


PROPERTIES = (KeyValue(0x1235, b"unknown"),)


def ask(net: EdgeNet, draft: Draft) -> Peer:
    peer = net.connect(draft)
    peer.request = peer.session.track_status(TRACK)
    net.settle()
    return peer


def ok_of(peer: Peer) -> RequestOk:
    message = peer.one(RequestAccepted).message
    assert isinstance(message, RequestOk)
    return message


@pairs
def test_what_the_relay_knows(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    net.publisher(
        first, parameters=Parameters(largest_object=Location(4, 2)), properties=PROPERTIES
    )
    ok = ok_of(ask(net, second))
    assert ok.parameters.largest_object == Location(4, 2)
    assert ok.track_properties == (PROPERTIES if second is Draft.D18 else ())


@pairs
def test_what_a_publisher_knows(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(first)
    peer = ask(net, second)
    event = publisher.one(RequestReceived)
    assert isinstance(event.message, TrackStatus)
    properties = PROPERTIES if first is Draft.D18 else ()
    publisher.session.accept(
        event.request_id, Parameters(largest_object=Location(1, 1)), properties
    )
    net.settle()
    ok = ok_of(peer)
    assert ok.parameters.largest_object == Location(1, 1)
    assert ok.track_properties == (properties if second is Draft.D18 else ())


@both
def test_nobody_knows(draft: Draft) -> None:
    net = EdgeNet()
    peer = ask(net, draft)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


@both
def test_the_publisher_says_no(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = ask(net, draft)
    publisher.session.reject(publisher.one(RequestReceived).request_id, 0x10, "no such track")
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (0x10, "no such track")


@both
def test_the_publisher_says_nothing(draft: Draft) -> None:
    net = EdgeNet()
    net.announcer(draft)
    peer = ask(net, draft)
    net.advance(10.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT


@both
def test_the_publisher_is_gone(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = ask(net, draft)
    net.lose(publisher)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR


def test_publishers_that_cannot_be_asked() -> None:
    net = EdgeNet()
    leaving = net.announcer(Draft.D16)
    leaving.session.goaway()
    full = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    full.session.publish_namespace(NAMESPACE)
    net.settle()
    ask(net, Draft.D16)
    peer = ask(net, Draft.D16)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST
    assert leaving.take(RequestReceived) == []


def test_an_answer_that_cannot_be_written() -> None:
    net = EdgeNet()
    # Draft 18 counts to 2**64, draft 16 to 2**62.
    net.publisher(Draft.D18, parameters=Parameters(largest_object=Location(2**63, 0)))
    peer = ask(net, Draft.D16)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR


def test_who_asked_is_gone() -> None:
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    peer = ask(net, Draft.D18)
    net.lose(peer)
    publisher.session.accept(publisher.one(RequestReceived).request_id)
    net.settle()
    assert len(net.relay.sessions()) == 1
