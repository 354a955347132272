"""FETCH: from the cache, from a publisher, and how it fails."""

from __future__ import annotations

import pytest

from laps_sdk.edge.events import FetchFailed, FetchRelayed, FetchServed
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.tracks import JOIN_PATIENCE
from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchRange,
    Subscription,
    TrackEnded,
    UpstreamEnded,
)
from laps_wire.moqt.codepoints import FilterType, GroupOrder, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    FetchTarget,
    RelativeJoiningFetch,
    StandaloneFetch,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    UpdateAccepted,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, track_of
from testkit.upstream import Upstream

both = pytest.mark.parametrize("draft", DRAFTS)


pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])


PROPERTIES = (KeyValue(0x1235, b"unknown"),)


SOME = StandaloneFetch(TRACK, Location(1, 0), Location(3, 0))


GROUP_END = (1 << 62) - 1


def fetch(
    net: EdgeNet,
    peer: Peer,
    target: FetchTarget = SOME,
    parameters: Parameters = NO_PARAMETERS,
) -> Subscription:
    peer.request = peer.session.fetch(target, parameters)
    net.settle()
    return Subscription(peer.id, peer.request)


def ok_of(peer: Peer) -> FetchOk:
    message = peer.one(RequestAccepted).message
    assert isinstance(message, FetchOk)
    return message


def cached(net: EdgeNet, draft: Draft, largest: Location | None = None) -> Peer:
    """A publisher whose track is in the cache."""
    publisher = net.publisher(draft, properties=PROPERTIES)
    number = net.plane.number(TRACK)
    net.plane.largest_of[number] = largest or Location(7, 3)
    net.plane.covered.add(number)
    net.plane.cached[number] = 10
    return publisher


def asked_of(peer: Peer) -> RequestReceived:
    event = peer.one(RequestReceived)
    assert isinstance(event.message, Fetch)
    return event


# From the cache


@pairs
def test_served_from_the_cache(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = cached(net, first)
    peer = net.connect(second)
    key = fetch(
        net,
        peer,
        SOME,
        Parameters(group_order=GroupOrder.DESCENDING, subscriber_priority=4),
    )
    ok = ok_of(peer)
    assert ok.end_location == Location(3, 0)
    assert ok.track_properties == PROPERTIES
    assert not ok.end_of_track
    wanted = FetchRange(
        track=1,
        start=Location(1, 0),
        end=Location(3, GROUP_END),
        order=GroupOrder.DESCENDING,
        priority=4,
    )
    assert net.plane.served[key] == (wanted, False)
    assert publisher.take(RequestReceived) == []
    assert [event.complete for event in net.found(FetchServed)] == [True]
    net.notify(FetchEnded(key, complete=True))
    assert net.relay.sessions()[1].fetches == 0


@both
def test_the_end_is_the_largest_object(draft: Draft) -> None:
    net = EdgeNet()
    cached(net, draft, Location(2, 5))
    net.notify(TrackEnded(1, Location(2, 5)))
    peer = net.connect(draft)
    key = fetch(net, peer)
    ok = ok_of(peer)
    assert ok.end_location == Location(2, 6)
    assert ok.end_of_track
    assert net.plane.served[key][0].end == Location(2, 5)


@both
def test_what_was_not_published_yet(draft: Draft) -> None:
    net = EdgeNet()
    cached(net, draft, Location(0, 5))
    peer = net.connect(draft)
    fetch(net, peer)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INVALID_RANGE
    assert net.relay.sessions()[1].fetches == 0


@both
def test_a_cache_without_its_publisher(draft: Draft) -> None:
    net = EdgeNet()
    publisher = cached(net, draft)
    net.leave(publisher)
    peer = net.connect(draft)
    key = fetch(net, peer)
    ok_of(peer)
    assert net.plane.served[key][1] is False
    # Without all of it, what there is.
    net.plane.covered.clear()
    key = fetch(net, peer)
    ok_of(peer)
    assert net.plane.served[key][1] is True
    # It does not last for ever.
    net.advance(30.0)
    assert net.plane.tracks == {}
    fetch(net, peer)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


# Joining


@both
@pytest.mark.parametrize(
    ("target", "start"),
    [(RelativeJoiningFetch, Location(5, 0)), (AbsoluteJoiningFetch, Location(2, 0))],
)
def test_joining(
    draft: Draft, target: type[RelativeJoiningFetch | AbsoluteJoiningFetch], start: Location
) -> None:
    net = EdgeNet()
    cached(net, draft)
    largest = Parameters(subscription_filter=SubscriptionFilter(FilterType.LARGEST_OBJECT))
    peer = net.subscriber(draft, TRACK, largest)
    peer.take(RequestAccepted)
    # The track goes on, but the FETCH ends where the subscription began.
    net.plane.largest_of[1] = Location(20, 0)
    key = fetch(net, peer, target(peer.request, 2))
    assert ok_of(peer).end_location == Location(7, 4)
    wanted = net.plane.served[key][0]
    assert (wanted.start, wanted.end) == (start, Location(7, 3))


@both
def test_joining_what_has_no_objects(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    fetch(net, peer, RelativeJoiningFetch(peer.request, 1))
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INVALID_RANGE


@both
def test_joining_before_the_answer(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    subscription = peer.request
    key = fetch(net, peer, RelativeJoiningFetch(subscription, 1))
    asked = publisher.one(RequestReceived)
    publisher.session.accept_subscribe(
        asked.request_id, 7, Parameters(largest_object=Location(4, 4))
    )
    net.settle()
    # The cache has nothing: the FETCH goes to the publisher, as one of its own.
    message = asked_of(publisher).message
    assert isinstance(message, Fetch)
    assert message.target == StandaloneFetch(TRACK, Location(3, 0), Location(4, 5))
    assert net.plane.relayed[key].session == publisher.id


@both
def test_joining_what_is_refused(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    fetch(net, peer, RelativeJoiningFetch(peer.request, 1))
    publisher.session.reject(publisher.one(RequestReceived).request_id, 0x10, "no")
    net.settle()
    codes = {event.message.error_code for event in peer.take(RequestRejected)}
    assert codes == {
        RequestErrorCode.DOES_NOT_EXIST,
        RequestErrorCode.INVALID_JOINING_REQUEST_ID,
    }


# From a publisher


@pairs
def test_relayed(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(first)
    peer = net.connect(second)
    key = fetch(net, peer, SOME, Parameters(group_order=GroupOrder.DESCENDING))
    asked = asked_of(publisher)
    assert isinstance(asked.message, Fetch)
    assert asked.message.target == SOME
    assert asked.message.parameters == Parameters(group_order=GroupOrder.DESCENDING)
    relayed = net.plane.relayed[key]
    assert (relayed.session, relayed.request_id) == (publisher.id, asked.request_id)
    publisher.session.accept_fetch(
        asked.request_id, Location(2, 9), end_of_track=True, track_properties=PROPERTIES
    )
    net.settle()
    ok = ok_of(peer)
    assert (ok.end_location, ok.end_of_track) == (Location(2, 9), True)
    assert ok.track_properties == PROPERTIES
    publisher.session.fetch_ended(asked.request_id)
    net.notify(
        FetchEnded(key, complete=True),
        UpstreamEnded(publisher.id, asked.request_id, complete=True),
    )
    assert [event.publisher for event in net.found(FetchRelayed)] == [publisher.id]
    assert net.plane.tracks == {}
    assert publisher.session.open_requests == (publisher.request,)
    assert peer.take(RequestCancelled) == publisher.take(RequestCancelled) == []


@both
def test_objects_come_before_the_answer(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    key = fetch(net, peer)
    asked = asked_of(publisher)
    net.notify(
        UpstreamEnded(publisher.id, asked.request_id, complete=True),
        FetchEnded(key, complete=True),
    )
    assert net.relay.sessions()[1].fetches == 1
    publisher.session.accept_fetch(asked.request_id, Location(2, 9))
    net.settle()
    ok_of(peer)
    assert net.relay.sessions()[1].fetches == 0
    assert net.plane.tracks == {}


@both
def test_a_publisher_that_feeds_the_track_goes_first(draft: Draft) -> None:
    net = EdgeNet()
    net.announcer(draft)
    publisher = cached(net, draft)
    net.plane.covered.clear()
    peer = net.connect(draft)
    fetch(net, peer)
    asked_of(publisher)


@both
def test_the_publisher_refuses(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    key = fetch(net, peer)
    publisher.session.reject(asked_of(publisher).request_id, 0x11, "no such groups")
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (0x11, "no such groups")
    assert net.plane.cancelled == [(key, 0)]
    assert len(net.found(FetchFailed)) == 1


@both
def test_a_publisher_without_history(draft: Draft) -> None:
    """What the cache has is sent; the rest is told as unknown."""
    net = EdgeNet()
    publisher = cached(net, draft)
    net.plane.covered.clear()
    peer = net.connect(draft)
    key = fetch(net, peer)
    code = RequestErrorCode.NOT_SUPPORTED
    publisher.session.reject(asked_of(publisher).request_id, code, "no history")
    net.settle()
    assert ok_of(peer).end_location == Location(3, 0)
    assert net.plane.served[key][1] is True
    assert key not in net.plane.relayed
    assert [event.complete for event in net.found(FetchServed)] == [False]
    net.advance(20.0)
    assert peer.take(RequestRejected) == []
    net.notify(FetchEnded(key, complete=True))
    assert net.relay.sessions()[1].fetches == 0
    # Without anything in the cache the publisher's answer is ours.
    net.plane.cached.clear()
    fetch(net, peer)
    publisher.session.reject(asked_of(publisher).request_id, code, "no history")
    net.settle()
    assert peer.one(RequestRejected).message.error_code == code


@both
def test_a_publisher_that_knows_the_range_to_be_wrong(draft: Draft) -> None:
    net = EdgeNet()
    publisher = cached(net, draft)
    net.plane.covered.clear()
    peer = net.connect(draft)
    fetch(net, peer)
    code = RequestErrorCode.INVALID_RANGE
    publisher.session.reject(asked_of(publisher).request_id, code, "no such groups")
    net.settle()
    assert peer.one(RequestRejected).message.error_code == code


@both
def test_the_publisher_is_gone(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    fetch(net, peer)
    net.lose(publisher)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR


@both
def test_the_publisher_is_gone_behind_its_answer(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    key = fetch(net, peer)
    publisher.session.accept_fetch(asked_of(publisher).request_id, Location(2, 9))
    net.settle()
    net.lose(publisher)
    assert net.plane.cancelled == [(key, 0)]
    assert net.relay.sessions()[0].fetches == 0


@both
def test_the_publisher_takes_too_long(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    fetch(net, peer)
    net.advance(10.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT
    assert len(publisher.take(RequestCancelled)) == 1


def test_how_long_to_wait_for_a_publisher() -> None:
    net = EdgeNet()
    publisher = cached(net, Draft.D18)
    net.plane.covered.clear()
    peer = net.connect(Draft.D18)
    key = fetch(net, peer, SOME, Parameters(fill_timeout=0))
    ok_of(peer)
    assert net.plane.served[key][1]
    assert publisher.take(RequestReceived) == []
    key = fetch(net, peer, SOME, Parameters(fill_timeout=2000))
    asked_of(publisher)
    net.advance(2.0)
    ok_of(peer)
    assert net.plane.served[key][1]


@both
def test_an_answer_that_cannot_be_passed_on(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    peer = net.connect(draft)
    fetch(net, peer)
    asked = asked_of(publisher)
    # Draft 18 counts to 2**64, draft 16 to 2**62.
    publisher.session.accept_fetch(asked.request_id, Location(2**63, 1))
    net.settle()
    if draft is Draft.D18:
        assert ok_of(peer).end_location == Location(2**63, 1)
    else:
        error = peer.one(RequestRejected).message
        assert error.error_code == RequestErrorCode.INTERNAL_ERROR


def test_a_cached_answer_that_cannot_be_written() -> None:
    net = EdgeNet()
    cached(net, Draft.D18, Location(2**63, 1))
    peer = net.connect(Draft.D16)
    fetch(net, peer, StandaloneFetch(TRACK, Location(1, 0), Location(2**62 - 1, 0)))
    ok_of(peer)
    net.plane.largest_of[1] = Location(5, GROUP_END - 1)
    job = fetch(net, peer, StandaloneFetch(TRACK, Location(1, 0), Location(6, 0)))
    assert job in net.plane.served


def test_a_publisher_that_allows_no_requests() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    peer = net.connect(Draft.D16)
    fetch(net, peer)
    fetch(net, peer, StandaloneFetch(track_of("other"), Location(0, 0), Location(1, 0)))
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST
    asked = asked_of(publisher)
    publisher.session.reject(asked.request_id, 0x10, "")
    net.settle()
    assert "publisher" in peer.one(RequestRejected).message.reason


# Ends


@both
def test_a_subscriber_gives_up(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    key = fetch(net, peer)
    peer.session.cancel(peer.request)
    net.settle()
    assert net.plane.cancelled == [(key, 1)]
    assert len(publisher.take(RequestCancelled)) == 1
    assert net.plane.tracks == {}


@both
def test_a_stream_that_was_reset(draft: Draft) -> None:
    net = EdgeNet()
    cached(net, draft)
    peer = net.connect(draft)
    key = fetch(net, peer)
    net.notify(FetchEnded(key, complete=False), FetchEnded(Subscription(99, 1), complete=True))
    assert len(net.found(FetchFailed)) == 1
    assert net.relay.sessions()[1].fetches == 0


@both
def test_a_priority_may_change(draft: Draft) -> None:
    net = EdgeNet()
    cached(net, draft)
    peer = net.connect(draft)
    fetch(net, peer)
    peer.session.update(peer.request, Parameters(subscriber_priority=1))
    net.settle()
    assert len(peer.take(UpdateAccepted)) == 1


@both
def test_caps(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(session_fetches=1, max_tracks=1))
    cached(net, draft)
    peer, other = net.connect(draft), net.connect(draft)
    fetch(net, peer)
    fetch(net, peer)
    assert peer.one(RequestRejected).message.retry_interval > 0
    fetch(net, other, StandaloneFetch(track_of("other"), Location(0, 0), Location(1, 0)))
    assert "tracks" in other.one(RequestRejected).message.reason


def test_a_track_begins_anew_while_it_is_fetched() -> None:
    net = EdgeNet()
    publisher = cached(net, Draft.D18)
    net.leave(publisher)
    peer = net.connect(Draft.D18)
    key = fetch(net, peer)
    ok_of(peer)
    net.publisher(Draft.D18)
    assert (key, 0) in net.plane.cancelled
    assert list(net.plane.tracks) == [2]


def test_a_publisher_comes_while_a_fetch_is_relayed() -> None:
    net = EdgeNet()
    announcer = net.announcer(Draft.D18)
    peer = net.connect(Draft.D18)
    key = fetch(net, peer)
    asked_of(announcer)
    net.publisher(Draft.D18)
    assert key in net.plane.relayed
    assert net.plane.cancelled == []


# Others who may have it


@both
def test_the_next_publisher_is_asked_and_the_first_error_counts(draft: Draft) -> None:
    net = EdgeNet()
    publishers = [net.announcer(draft), net.announcer(draft)]
    peer = net.connect(draft)
    fetch(net, peer)
    (first,) = (
        each for each in publishers if any(type(event) is RequestReceived for event in each.events)
    )
    second = next(each for each in publishers if each is not first)
    first.session.reject(asked_of(first).request_id, 0x10, "not here")
    net.settle()
    assert peer.take(RequestRejected) == []
    second.session.reject(asked_of(second).request_id, RequestErrorCode.NOT_SUPPORTED, "nor here")
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (0x10, "not here")
    assert len(net.found(FetchRelayed)) == 2


def test_the_network_is_asked_last_and_not_for_itself() -> None:
    net = EdgeNet()
    network = Upstream(net, fetches=True)
    publisher = net.announcer(Draft.D18)
    peer = net.connect(Draft.D18)
    fetch(net, peer)
    publisher.session.reject(asked_of(publisher).request_id, 0x10, "not here")
    net.settle()
    asked = asked_of(network)
    network.session.accept_fetch(asked.request_id, Location(3, 0))
    net.settle()
    assert ok_of(peer).end_location == Location(3, 0)
    # What it asks for itself it is not asked for.
    other = StandaloneFetch(track_of("other"), Location(0, 0), Location(1, 0))
    fetch(net, network, other)
    publisher.session.reject(asked_of(publisher).request_id, 0x10, "not here")
    net.settle()
    assert network.one(RequestRejected).message.error_code == 0x10
    assert network.take(RequestReceived) == []


def test_a_second_one_waits_for_the_first_but_not_for_long() -> None:
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    first, second, third = (net.connect(Draft.D18) for _ in range(3))
    for peer in (first, second):
        fetch(net, peer)
    asked = asked_of(publisher)  # once
    net.advance(JOIN_PATIENCE)
    again = asked_of(publisher)
    fetch(net, third)
    publisher.session.reject(asked.request_id, 0x10, "not here")
    net.settle()
    # Whoever still waits asks by itself, and the one that did not wait any more is its own master.
    assert first.one(RequestRejected).message.error_code == 0x10
    publisher.session.reject(asked_of(publisher).request_id, 0x10, "not here")
    publisher.session.reject(again.request_id, 0x10, "not here")
    net.settle()
    for peer in (second, third):
        assert peer.one(RequestRejected).message.error_code == 0x10


# FETCHes that wait for another one: how many ask upstream, and what becomes of the others.


D18 = Draft.D18


FIRST = StandaloneFetch(TRACK, Location(4, 0), Location(4, 6))


def join_fetch(net: EdgeNet, target: StandaloneFetch = FIRST) -> Peer:
    peer = net.connect(D18)
    peer.request = peer.session.fetch(target)
    net.settle()
    return peer


def scene(readers: int) -> tuple[EdgeNet, Peer, list[Peer]]:
    """A publisher that was asked once, and readers that wait for it."""
    net = EdgeNet(settings=EdgeSettings(upstream_timeout=10.0))
    publisher = net.announcer(D18)
    peers = [join_fetch(net) for _ in range(readers)]
    return net, publisher, peers


def cached_to(net: EdgeNet) -> None:
    """What came is in the cache."""
    number = net.plane.number(TRACK)
    net.plane.covered.add(number)
    net.plane.cached[number] = 6


def test_others_have_it_from_the_cache() -> None:
    net, publisher, (first, second, third) = scene(3)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    first.one(RequestAccepted)
    assert second.take(RequestAccepted) == []
    cached_to(net)
    net.notify(UpstreamEnded(publisher.id, asked.request_id, complete=True))
    for peer in (second, third):
        peer.one(RequestAccepted)
        assert Subscription(peer.id, peer.request) in net.plane.served
    assert len(net.found(FetchRelayed)) == 1
    assert (net.relay.take_fetch_joins(), net.relay.take_fetch_joins()) == (2, 0)
    net.advance(20.0)
    assert second.take(RequestRejected) == []


def test_who_does_not_find_it_there_asks_by_itself_once() -> None:
    net, publisher, (_, second) = scene(2)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    net.notify(UpstreamEnded(publisher.id, asked.request_id, complete=True))
    again = publisher.one(RequestReceived)
    publisher.session.reject(again.request_id, RequestErrorCode.NOT_SUPPORTED, "no history")
    net.settle()
    second.one(RequestRejected)
    assert net.relay.take_fetch_joins() == 1


def test_only_who_begins_where_another_one_does_joins_it() -> None:
    net, publisher, _ = scene(1)
    join_fetch(net, StandaloneFetch(TRACK, Location(4, 0), Location(9, 0)))
    join_fetch(net, StandaloneFetch(TRACK, Location(3, 0), Location(4, 6)))
    join_fetch(net, StandaloneFetch(TRACK, Location(5, 0), Location(5, 6)))
    assert len(publisher.take(RequestReceived)) == 3
    assert net.relay.take_fetch_joins() == 1


def test_the_first_one_gives_up_and_the_next_asks() -> None:
    net, publisher, (first, second, third) = scene(3)
    first.session.cancel(first.request)
    net.settle()
    publisher.one(RequestCancelled)
    assert len(publisher.take(RequestReceived)) == 3  # each of the others asks by itself
    second.session.cancel(second.request)
    third.session.cancel(third.request)
    net.settle()
    assert all(row.fetches == 0 for row in net.relay.sessions())


def test_one_that_waits_gives_up() -> None:
    net, publisher, (_, second) = scene(2)
    second.session.cancel(second.request)
    net.settle()
    asked = publisher.one(RequestReceived)
    publisher.session.reject(asked.request_id, RequestErrorCode.INVALID_RANGE, "none")
    net.settle()
    assert publisher.take(RequestReceived) == []


def test_errors_and_losses_release_all_of_them() -> None:
    net, publisher, peers = scene(2)
    code = RequestErrorCode.INVALID_RANGE
    publisher.session.reject(publisher.one(RequestReceived).request_id, code, "none")
    net.settle()
    publisher.session.reject(publisher.one(RequestReceived).request_id, code, "none")
    net.settle()
    assert [peer.one(RequestRejected).message.error_code for peer in peers] == [code, code]
    net, publisher, peers = scene(2)
    publisher.session.close()
    net.settle()
    for peer in peers:
        peer.one(RequestRejected)


def test_a_wait_that_is_too_long_ends_with_a_fetch_of_its_own() -> None:
    net, publisher, (first, second) = scene(2)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    first.one(RequestAccepted)
    net.advance(JOIN_PATIENCE)
    again = publisher.one(RequestReceived)
    publisher.session.accept_fetch(again.request_id, Location(4, 6))
    net.settle()
    second.one(RequestAccepted)


def test_a_session_that_is_gone_with_both() -> None:
    net = EdgeNet()
    publisher = net.announcer(D18)
    peer = net.connect(D18)
    for _ in range(3):
        peer.session.fetch(FIRST)
    net.settle()
    peer.session.close()
    net.settle()
    assert len(publisher.take(RequestReceived)) == 1
    publisher.one(RequestCancelled)
