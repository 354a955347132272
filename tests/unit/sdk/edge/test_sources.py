"""Publishers: how tracks come to be fed, what is asked of their publishers, and how that ends."""

from __future__ import annotations

import pytest

from laps_sdk.edge.events import PublisherAdded, PublisherGone
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import TrackMalformed
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, FilterType, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import PublishOk, RequestOk, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    UpdateReceived,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, track_of

both = pytest.mark.parametrize("draft", DRAFTS)
pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])

DYNAMIC = (KeyValue(0x30, 1),)


def asked_of(peer: Peer) -> Subscribe:
    message = peer.one(RequestReceived).message
    assert isinstance(message, Subscribe)
    return message


# Our SUBSCRIBE


@pairs
def test_one_upstream_subscription_for_all(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(first)
    peers = [net.subscriber(second) for _ in range(3)]
    request = net.answer(publisher)
    peers += [net.subscriber(second) for _ in range(2)]
    assert [isinstance(p.one(RequestAccepted).message, SubscribeOk) for p in peers] == [True] * 5
    assert publisher.take(RequestReceived) == []
    for peer in peers:
        net.leave(peer)
    net.advance(4.9)
    assert publisher.session.request_state(request) is not None
    net.advance(0.1)
    assert publisher.session.request_state(request) is None
    assert net.plane.ingress == {}
    assert net.plane.tracks == {}


@both
def test_a_new_subscriber_ends_the_linger(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    request = net.answer(publisher)
    net.leave(peer)
    net.advance(4.0)
    net.subscriber(draft)
    net.advance(20.0)
    assert publisher.session.request_state(request) is not None


@both
def test_tokens_stay_here(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    token = Token.use_value(1, b"secret")
    net.subscriber(draft, TRACK, Parameters(authorization_tokens=(token,), subscriber_priority=4))
    largest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
    assert asked_of(publisher).parameters == Parameters(subscription_filter=largest)


@both
def test_all_publishers_of_matching_namespaces_are_asked(draft: Draft) -> None:
    net = EdgeNet()
    wide = net.announcer(draft, Namespace.of(b"example.net"))
    narrow = net.announcer(draft)
    other = net.announcer(draft, Namespace.of(b"example.net", b"team3"))
    peer = net.subscriber(draft)
    net.answer(narrow, alias=1)
    assert isinstance(peer.one(RequestAccepted).message, SubscribeOk)
    net.answer(wide, alias=2)
    assert other.take(RequestReceived) == []
    assert net.plane.publishers(TRACK) == [narrow.id, wide.id]
    # One that comes later is asked too.
    late = net.announcer(draft)
    net.answer(late)
    assert late.id in net.plane.publishers(TRACK)


@both
def test_longest_match(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(longest_match=True))
    wide = net.announcer(draft, Namespace.of(b"example.net"))
    narrow = net.announcer(draft)
    net.subscriber(draft)
    assert len(narrow.take(RequestReceived)) == 1
    assert wide.take(RequestReceived) == []


@both
def test_one_publisher_of_two_leaves(draft: Draft) -> None:
    net = EdgeNet()
    first, second = net.publisher(draft), net.announcer(draft)
    peer = net.subscriber(draft)
    # There was a publisher already: the other is asked only if it must be.
    assert second.take(RequestReceived) == []
    third = net.publisher(draft)
    net.leave(first)
    assert peer.take(PublishEnded) == []
    net.lose(third)
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].INTERNAL_ERROR
    assert "gone" in done.reason
    assert len(net.found(PublisherGone)) == 2


@both
def test_a_publisher_refuses_and_another_serves(draft: Draft) -> None:
    net = EdgeNet()
    first, second = net.announcer(draft), net.announcer(draft)
    peer = net.subscriber(draft)
    first.session.reject(first.one(RequestReceived).request_id, 0x10, "no")
    net.settle()
    assert peer.take(RequestRejected) == []
    net.answer(second)
    assert isinstance(peer.one(RequestAccepted).message, SubscribeOk)
    # Who refused is not asked again while there is another.
    net.subscriber(draft)
    assert first.take(RequestReceived) == []


@both
def test_the_last_one_asked_refuses_after_the_others_left(draft: Draft) -> None:
    net = EdgeNet()
    first, second = net.announcer(draft), net.announcer(draft)
    peer = net.subscriber(draft)
    net.answer(first)
    net.leave(first)
    assert peer.take(PublishEnded) == []
    second.session.reject(second.one(RequestReceived).request_id, 0x10, "no")
    net.settle()
    assert peer.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].TRACK_ENDED


@both
def test_a_publisher_that_does_not_answer(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    net.advance(10.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT
    assert len(publisher.take(RequestCancelled)) == 1


def test_a_publisher_that_allows_no_requests_yet() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    names = [track_of(name) for name in ("a", "b", "c")]
    peers = [net.subscriber(Draft.D16, name) for name in names]
    first = publisher.one(RequestReceived).request_id
    # The one that waits and is not wanted any more is not asked for.
    net.leave(peers[1])
    net.advance(6.0)
    publisher.session.reject(first, 0x10, "no")
    net.settle()
    assert peers[0].one(RequestRejected).message.error_code == 0x10
    assert asked_of(publisher).track == names[2]


def test_a_publisher_that_never_allows_another_request() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    net.subscriber(Draft.D16, track_of("a"))
    net.answer(publisher)
    peer = net.subscriber(Draft.D16, track_of("b"))
    net.advance(10.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT


def test_a_publisher_that_left_while_it_was_blocked() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    net.subscriber(Draft.D16, track_of("a"))
    peer = net.subscriber(Draft.D16, track_of("b"))
    publisher.session.goaway()
    net.settle()
    publisher.session.reject(publisher.one(RequestReceived).request_id, 0x10, "no")
    net.settle()
    net.advance(1.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


def test_too_much_waits_for_a_publisher() -> None:
    net = EdgeNet(settings=EdgeSettings(session_blocked=0))
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    net.subscriber(Draft.D16, track_of("a"))
    peer = net.subscriber(Draft.D16, track_of("b"))
    net.advance(1.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


# Their PUBLISH


@both
def test_publish_is_taken(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    message = publisher.one(RequestAccepted).message
    assert isinstance(message, PublishOk if draft is Draft.D16 else RequestOk)
    assert message.parameters.forward
    assert net.found(PublisherAdded)[0].pushed


@both
def test_publish_waits_with_its_objects(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(forward_unwatched=False))
    publisher = net.publisher(draft)
    message = publisher.one(RequestAccepted).message
    assert isinstance(message, PublishOk | RequestOk)
    assert message.parameters.forward is False
    peer = net.subscriber(draft)
    assert publisher.one(UpdateReceived).message.parameters.forward is True
    net.leave(peer)
    assert publisher.one(UpdateReceived).message.parameters.forward is False
    # Somebody waits already: forward from the start.
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    net.subscriber(draft, track_of("wanted"), waiting)
    second = net.publisher(draft, track_of("wanted"))
    message = second.one(RequestAccepted).message
    assert isinstance(message, PublishOk | RequestOk)
    assert message.parameters.forward


@both
def test_a_publish_that_crosses_our_subscribe(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    publisher = net.announcer(draft)
    publisher.take(RequestAccepted)
    peer.session.subscribe(TRACK)
    request = publisher.session.publish(TRACK, 9)
    net.settle()
    assert publisher.one(RequestAccepted).request_id == request
    assert isinstance(peer.one(RequestAccepted).message, SubscribeOk)
    assert net.plane.ingress == {(publisher.id, 9): (1, 128)}


@both
def test_too_many_publishes(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(session_publishes=1, max_tracks=2))
    publisher = net.publisher(draft, track_of("one"))
    publisher.session.publish(track_of("two"), 6)
    net.settle()
    assert publisher.one(RequestRejected).message.retry_interval > 0
    net.publisher(draft, track_of("two"))
    third = net.publisher(draft, track_of("three"))
    assert "tracks" in third.one(RequestRejected).message.reason


def test_mandatory_properties_are_not_understood() -> None:
    net = EdgeNet()
    mandatory = (KeyValue(0x4000, 1),)
    publisher = net.publisher(Draft.D18, properties=mandatory)
    error = publisher.one(RequestRejected).message
    assert error.error_code == RequestErrorCode.UNSUPPORTED_EXTENSION
    announcer = net.announcer(Draft.D18)
    peer = net.subscriber(Draft.D18)
    net.answer(announcer, properties=mandatory)
    error = peer.one(RequestRejected).message
    assert error.error_code == RequestErrorCode.UNSUPPORTED_EXTENSION
    assert len(announcer.take(RequestCancelled)) == 1
    assert net.plane.tracks == {}


@both
def test_properties_that_cannot_be_read(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft, properties=(KeyValue(0xB, b"\x05\x44"),))
    error = publisher.one(RequestRejected).message
    assert error.error_code == RequestErrorCode.MALFORMED_TRACK


# What receivers want together


@both
def test_forward_is_what_any_receiver_wants(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    quiet = net.subscriber(draft, TRACK, Parameters(forward=False))
    asked = publisher.take(RequestReceived)
    assert asked[0].message.parameters.forward is False
    publisher.session.accept_subscribe(asked[0].request_id, 7)
    net.settle()
    loud = net.subscriber(draft)
    update = publisher.one(UpdateReceived)
    assert update.message.parameters.forward is True
    publisher.session.accept(update.update_id)
    net.settle()
    loud.session.update(loud.request, Parameters(forward=False))
    net.settle()
    assert publisher.one(UpdateReceived).message.parameters.forward is False
    net.leave(quiet)
    assert publisher.take(UpdateReceived) == []


@both
def test_the_widest_filter(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)

    def start(group: int) -> Parameters:
        wanted = SubscriptionFilter(FilterType.ABSOLUTE_START, Location(group, 0))
        return Parameters(subscription_filter=wanted)

    net.subscriber(draft, TRACK, start(50))
    asked = publisher.one(RequestReceived)
    assert asked.message.parameters.subscription_filter == start(50).subscription_filter
    publisher.session.accept_subscribe(asked.request_id, 7)
    net.settle()
    net.subscriber(draft, TRACK, start(60))
    assert publisher.take(UpdateReceived) == []
    net.subscriber(draft, TRACK, start(40))
    update = publisher.one(UpdateReceived).message.parameters
    assert update == start(40)
    net.subscriber(draft)
    update = publisher.one(UpdateReceived).message.parameters
    largest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
    assert update.subscription_filter == largest
    net.subscriber(draft, TRACK, start(3))
    assert publisher.take(UpdateReceived) == []


@both
def test_new_groups(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    net.subscriber(draft, TRACK, Parameters(new_group_request=0))
    asked = publisher.one(RequestReceived)
    assert asked.message.parameters.new_group_request == 0
    publisher.session.accept_subscribe(
        asked.request_id, 7, Parameters(largest_object=Location(4, 0)), DYNAMIC
    )
    net.settle()
    # The group came: what was asked for is not under way any more.
    assert len(publisher.take(UpdateReceived)) == 1

    def wish(value: int) -> list[int | None]:
        net.subscriber(draft, TRACK, Parameters(new_group_request=value))
        return [
            event.message.parameters.new_group_request for event in publisher.take(UpdateReceived)
        ]

    assert wish(4) == []
    assert wish(5) == [5]
    assert wish(5) == []
    net.plane.largest_of[1] = Location(5, 0)
    assert wish(6) == [6]
    peer = net.subscriber(draft)
    net.plane.largest_of[1] = Location(6, 0)
    peer.session.update(peer.request, Parameters(new_group_request=7))
    net.settle()
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 7


@both
def test_no_new_groups_without_dynamic_groups(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    net.subscriber(draft, TRACK, Parameters(new_group_request=0))
    assert publisher.take(UpdateReceived) == []


def test_an_update_that_must_wait_is_sent_later() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish(TRACK, 5, NO_PARAMETERS, DYNAMIC)
    net.settle()
    net.subscriber(Draft.D16, TRACK, Parameters(new_group_request=0))
    first = publisher.one(UpdateReceived)
    net.plane.largest_of[1] = Location(3, 0)
    net.subscriber(Draft.D16, TRACK, Parameters(new_group_request=9))
    assert publisher.take(UpdateReceived) == []
    publisher.session.accept(first.update_id)
    net.settle()
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 9


# Ends


@pairs
def test_publish_done_is_passed_on(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(first)
    peer = net.subscriber(second)
    code = PUBLISH_DONE_CODES[first].TOO_FAR_BEHIND
    publisher.session.publish_done(publisher.request, code, 3, "too slow")
    net.settle()
    assert peer.take(PublishEnded) == []
    net.advance(0.25)
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[second].TOO_FAR_BEHIND
    assert done.reason == "too slow"
    assert net.plane.tracks == {}


@both
@pytest.mark.parametrize(
    ("count", "came", "waits"),
    [
        (3, (2, 0), True),
        (3, (3, 1), True),
        (3, (3, 0), False),
        (3, (4, 0), False),
        (0, (1, 1), True),
        (0, (0, 0), False),
        ((1 << 62) - 1, (1, 0), False),
        ((1 << 62) - 1, (1, 1), True),
    ],
)
def test_streams_behind_publish_done_are_waited_for(
    draft: Draft, count: int, came: tuple[int, int], waits: bool
) -> None:
    """Its stream count says what must come; data is slower than a control message."""
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer, stuck = net.subscriber(draft), net.subscriber(draft)
    ((key, _),) = net.plane.ingress.items()
    net.plane.incoming[key] = came
    publisher.session.publish_done(publisher.request, 2, count, "")
    net.settle()
    net.advance(2.0)
    assert (peer.take(PublishEnded) == []) is waits
    assert (key in net.plane.ingress) is waits
    # A stream that was reset before its header came is never seen: not for ever.
    net.advance(3.25)
    stuck.one(PublishEnded)
    assert net.plane.ingress == {}


@both
def test_a_publisher_that_comes_back_at_once(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    publisher.session.publish_done(publisher.request, 2, 1, "")
    net.settle()
    # Who comes now waits, for nobody feeds the track.
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    late = net.subscriber(draft, TRACK, waiting)
    assert late.take(RequestAccepted) == []
    publisher.session.publish(TRACK, 5)
    net.settle()
    net.advance(1.0)
    assert peer.take(PublishEnded) == []
    assert isinstance(late.one(RequestAccepted).message, SubscribeOk)
    assert sorted(net.plane.receivers(TRACK)) == [peer.id, late.id]


@both
def test_who_waits_behind_the_end_of_a_track_is_asked_for(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    net.subscriber(draft)
    request = net.answer(publisher)
    publisher.session.publish_done(request, 2, 1, "")
    net.settle()
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    late = net.subscriber(draft, TRACK, waiting)
    net.advance(0.25)
    net.answer(publisher)
    assert isinstance(late.one(RequestAccepted).message, SubscribeOk)


@both
def test_a_session_ends_behind_its_publish_done(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    publisher.session.publish_done(publisher.request, 2, 1, "the end")
    net.settle()
    net.leave(publisher)
    assert peer.one(PublishEnded).message.reason == "the end"


def test_a_stream_that_is_reset_ends_the_publish() -> None:
    net = EdgeNet()
    publisher = net.publisher(Draft.D18)
    peer = net.subscriber(Draft.D18)
    publisher.session.cancel(publisher.request)
    net.settle()
    assert peer.one(PublishEnded).message.status_code == 0
    assert net.plane.ingress == {}


@both
def test_a_malformed_track_of_one_publisher_of_two(draft: Draft) -> None:
    net = EdgeNet()
    bad, good = net.publisher(draft), net.publisher(draft)
    peer = net.subscriber(draft)
    net.notify(TrackMalformed(1, bad.id, "two payloads"))
    assert len(peer.take(PublishEnded)) == 1
    assert net.plane.publishers(TRACK) == [good.id]
    # The other one still serves, and one that is gone cannot be blamed.
    net.subscriber(draft)
    net.notify(TrackMalformed(1, 99, "again"))
    assert net.plane.publishers(TRACK) == [good.id]
