"""Publishers: how tracks come to be fed, what is asked of their publishers, and how that ends."""

from __future__ import annotations

import pytest

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import PublisherAdded, PublisherGone, SubscriberAdded, SubscriberGone
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import (
    EgressEntry,
    Subscription,
    SubscriptionDone,
    TrackEnded,
    TrackMalformed,
)
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    FilterType,
    GroupOrder,
    RequestErrorCode,
    SubscribeOptions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    PublishOk,
    RelativeJoiningFetch,
    RequestOk,
    RequestUpdate,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, PUBLISHER_INSTANCE, Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, RuleBook, track_of

both = pytest.mark.parametrize("draft", DRAFTS)


pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])


GRACE = EdgeSettings().publisher_grace
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
    net.advance(GRACE - 1)
    assert peer.take(PublishEnded) == []
    net.advance(1)
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
    net.advance(GRACE - 1)
    assert peer.take(PublishEnded) == []
    net.advance(1)
    assert peer.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].INTERNAL_ERROR


@both
def test_the_last_one_asked_refuses_after_the_other_ended_the_track(draft: Draft) -> None:
    net = EdgeNet()
    first, second = net.announcer(draft), net.announcer(draft)
    peer = net.subscriber(draft)
    request = net.answer(first)
    first.session.publish_done(request, PUBLISH_DONE_CODES[draft].TRACK_ENDED, 0)
    net.settle()
    net.advance(1)
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
    code = PUBLISH_DONE_CODES[first].EXPIRED
    publisher.session.publish_done(publisher.request, code, 3, "too late")
    net.settle()
    assert peer.take(PublishEnded) == []
    net.advance(0.25)
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[second].EXPIRED
    assert done.reason == "too late"
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
    assert net.plane.ingress == {}
    assert peer.take(PublishEnded) == []
    net.advance(GRACE)
    assert peer.one(PublishEnded).message.status_code == 0


@both
def test_a_publisher_that_comes_back_goes_on_for_its_subscribers(draft: Draft) -> None:
    net = EdgeNet()
    first = net.publisher(draft, parameters=Parameters(largest_object=Location(7, 3)))
    peer = net.subscriber(draft)
    net.lose(first)
    net.advance(GRACE / 2)
    net.publisher(draft, parameters=Parameters(largest_object=Location(8, 0)))
    net.advance(2 * GRACE)
    assert peer.take(PublishEnded) == []
    assert net.plane.publishers(TRACK) != []


@both
def test_a_publisher_that_counts_from_the_beginning_is_another_one(draft: Draft) -> None:
    net = EdgeNet()
    first = net.publisher(draft, parameters=Parameters(largest_object=Location(7, 3)))
    peer = net.subscriber(draft)
    net.lose(first)
    net.publisher(draft)
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].MALFORMED_TRACK
    assert "anew" in done.reason


@both
def test_a_publisher_that_says_that_it_is_the_same_may_send_old_objects_again(draft: Draft) -> None:
    net = EdgeNet()
    same = (KeyValue(PUBLISHER_INSTANCE, 4711),)
    first = net.publisher(
        draft, parameters=Parameters(largest_object=Location(7, 3)), properties=same
    )
    peer = net.subscriber(draft)
    net.lose(first)
    net.publisher(draft, parameters=Parameters(largest_object=Location(5, 0)), properties=same)
    assert peer.take(PublishEnded) == []
    net.advance(2 * GRACE)
    assert peer.take(PublishEnded) == []


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


# Subscribers: what they are told, what the plane is programmed with, and how they end.


LARGEST = SubscriptionFilter(FilterType.LARGEST_OBJECT)


def entry_of(net: EdgeNet, peer: Peer) -> EgressEntry:
    return net.plane.egress[Subscription(peer.id, peer.request)]


def ok_of(peer: Peer) -> SubscribeOk:
    message = peer.one(RequestAccepted).message
    assert isinstance(message, SubscribeOk)
    return message


# SUBSCRIBE


@pairs
def test_a_second_subscriber_joins_what_is_there(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    properties = (KeyValue(0x4, 5000), KeyValue(0xE, 9), KeyValue(0x1235, b"unknown"))
    publisher = net.announcer(first)
    early = net.subscriber(second)
    largest = Parameters(largest_object=Location(3, 4))
    net.answer(publisher, parameters=largest, properties=properties)
    number = net.plane.number(TRACK)
    told = ok_of(early)
    assert told.track_properties == properties
    assert told.parameters.largest_object == Location(3, 4)
    assert net.plane.max_age[number] == 5.0
    assert net.plane.ingress[publisher.id, 77] == (number, 9)

    net.plane.largest_of[number] = Location(6, 0)
    late = net.subscriber(first, TRACK, Parameters(subscription_filter=LARGEST))
    assert publisher.take(RequestReceived) == []
    joined = ok_of(late)
    assert joined.track_alias == told.track_alias == number
    assert joined.track_properties == properties
    assert joined.parameters.largest_object == Location(6, 0)
    assert entry_of(net, early).start is None
    assert entry_of(net, late).start == Location(6, 1)
    assert [event.session for event in net.found(SubscriberAdded)] == [early.id, late.id]


@both
def test_how_a_subscriber_wants_it(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, properties=(KeyValue(0x2, 900), KeyValue(0x22, 2)))
    plain = net.subscriber(draft)
    assert entry_of(net, plain) == EgressEntry(
        track=1, alias=1, order=GroupOrder.DESCENDING, delivery_timeout=0.9
    )
    special = net.subscriber(
        draft,
        TRACK,
        Parameters(
            subscriber_priority=3,
            group_order=GroupOrder.ASCENDING,
            forward=False,
            object_delivery_timeout=500,
            subscription_filter=SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(2, 2), 5),
        ),
    )
    assert entry_of(net, special) == EgressEntry(
        track=1,
        alias=1,
        start=Location(2, 2),
        end_group=5,
        forward=False,
        priority=3,
        order=GroupOrder.ASCENDING,
        delivery_timeout=0.5,
    )


@both
def test_a_range_that_is_over(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, parameters=Parameters(largest_object=Location(9, 0)))
    over = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(1, 0), 4)
    peer = net.subscriber(draft, TRACK, Parameters(subscription_filter=over))
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INVALID_RANGE
    assert net.plane.egress == {}


def test_draft_18_says_how_long_to_wait_for_a_publisher() -> None:
    net = EdgeNet()
    hasty = net.subscriber(Draft.D18)
    assert hasty.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST
    patient = net.subscriber(Draft.D18, TRACK, Parameters(rendezvous_timeout=3000))
    net.advance(2.9)
    assert patient.take(RequestRejected) == []
    net.advance(0.1)
    assert patient.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT
    assert net.relay.subscriptions() == []


def test_a_wait_has_a_limit() -> None:
    net = EdgeNet(settings=EdgeSettings(max_rendezvous=2.0))
    peer = net.subscriber(Draft.D18, TRACK, Parameters(rendezvous_timeout=3_600_000))
    net.advance(2.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT


@pairs
@pytest.mark.parametrize("pushed", [True, False])
def test_subscribing_before_the_publisher_comes(first: Draft, second: Draft, pushed: bool) -> None:
    net = EdgeNet()
    waiting = Parameters(rendezvous_timeout=5000 if first is Draft.D18 else None)
    peer = net.subscriber(first, TRACK, waiting)
    net.advance(0.5)
    if pushed:
        net.publisher(second)
    else:
        publisher = net.announcer(second)
        # The publisher's time to answer is its own.
        net.advance(5.0)
        assert peer.take(RequestRejected) == []
        net.answer(publisher)
    ok_of(peer)
    assert net.plane.receivers(TRACK) == [peer.id]
    # Receivers are there before the objects that waited for their alias.
    assert [line.split()[0] for line in net.plane.log] == ["egress", "ingress"]


@both
def test_a_publisher_that_refuses(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    request = publisher.one(RequestReceived).request_id
    publisher.session.reject(request, RequestErrorCode.UNAUTHORIZED, "not for you")
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (RequestErrorCode.UNAUTHORIZED, "not for you")
    assert net.relay.subscriptions() == []


@both
def test_a_publisher_that_vanishes_before_it_answers(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = net.subscriber(draft)
    net.lose(publisher)
    net.advance(1.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


@both
def test_too_many_subscriptions(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(session_subscriptions=1))
    net.publisher(draft, track_of("one"))
    peer = net.subscriber(draft, track_of("one"))
    peer.session.subscribe(track_of("two"))
    net.settle()
    error = peer.one(RequestRejected).message
    expected = {Draft.D16: RequestErrorCode.INTERNAL_ERROR, Draft.D18: 0x9}
    assert error.error_code == expected[draft]
    assert error.retry_interval > 0


@both
def test_too_many_tracks(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_tracks=1))
    net.publisher(draft, track_of("one"))
    peer = net.subscriber(draft, track_of("two"))
    assert "tracks" in peer.one(RequestRejected).message.reason


def test_a_track_that_the_subscribers_draft_cannot_describe() -> None:
    net = EdgeNet()
    # Draft 18 counts to 2**64, draft 16 to 2**62.
    net.publisher(Draft.D18, parameters=Parameters(largest_object=Location(2**63, 0)))
    peer = net.subscriber(Draft.D16)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR
    assert net.plane.egress == {}


# Updates


@both
def test_updates(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    net.plane.largest_of[1] = Location(4, 0)
    peer.session.update(
        peer.request,
        Parameters(
            forward=False,
            subscriber_priority=7,
            subscription_filter=SubscriptionFilter(FilterType.ABSOLUTE_START, Location(5, 0)),
        ),
    )
    net.settle()
    assert peer.one(UpdateAccepted).message.parameters.largest_object == Location(4, 0)
    entry = entry_of(net, peer)
    assert (entry.forward, entry.priority, entry.start) == (False, 7, Location(5, 0))

    net.plane.largest_of[1] = Location(6, 0)
    peer.session.update(peer.request, Parameters(forward=True))
    net.settle()
    assert entry_of(net, peer).forward
    # Where a joining FETCH ends moves with the Forward State in draft 18 alone (18: 5.1).
    record = net.relay._state.clients[peer.id].requests[peer.request]
    assert record.joining == (Location(6, 0) if draft is Draft.D18 else None)  # type: ignore[union-attr]  # a receiver


@both
def test_an_update_to_what_is_over_ends_the_subscription(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    net.plane.largest_of[1] = Location(9, 0)
    over = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(1, 0), 4)
    peer.session.update(peer.request, Parameters(subscription_filter=over))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == RequestErrorCode.INVALID_RANGE
    status = peer.one(PublishEnded).message.status_code
    assert status == PUBLISH_DONE_CODES[draft].UPDATE_FAILED
    assert net.plane.egress == {}


def test_an_update_before_the_answer() -> None:
    """Our own sessions do not send one, but a peer may."""
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    peer = net.subscriber(Draft.D18)
    receiver = net.relay._state.clients[peer.id].requests[peer.request]
    core = peer.wire._core
    request = core.requests.get(peer.request)
    assert request is not None
    core.on_update(
        request, RequestUpdate(peer.request + 2, None, Parameters(subscriber_priority=9))
    )
    for event in peer.pair.server.take_events():
        assert isinstance(event, UpdateReceived)
        net.relay.handle_session_event(net.now, peer.id, event)
    assert receiver.updates == [peer.request + 2]  # type: ignore[union-attr]  # a receiver
    asked = peer.session._core.requests.get(peer.request)
    assert asked is not None
    asked.our_updates.append(peer.request + 2)
    peer.session._core.updates[peer.request + 2] = asked
    net.answer(publisher)
    assert peer.one(UpdateAccepted).update_id == peer.request + 2
    assert entry_of(net, peer).priority == 9
    assert receiver.updates == []  # type: ignore[union-attr]  # a receiver


# Ends


@both
def test_unsubscribing(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    net.plane.streams[Subscription(peer.id, peer.request)] = 4
    peer.session.cancel(peer.request)
    net.settle()
    assert net.plane.resets == [(Subscription(peer.id, peer.request), 1)]
    (gone,) = net.found(SubscriberGone)
    assert gone.counters.streams == 4


@both
def test_the_last_group_was_sent(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    key = Subscription(peer.id, peer.request)
    net.plane.streams[key] = 3
    net.notify(SubscriptionDone(key), SubscriptionDone(Subscription(99, 0)))
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].SUBSCRIPTION_ENDED
    assert done.stream_count == 3
    # All are finished. One that were not would go on behind PUBLISH_DONE, which must not be.
    assert net.plane.resets == [(key, 1)]


@both
def test_the_end_of_a_track(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    net.notify(TrackEnded(1, Location(5, 5)), TrackEnded(99, Location(0, 0)))
    # Streams may still be under way.
    assert peer.take(PublishEnded) == []
    net.advance(0.25)
    assert peer.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].TRACK_ENDED
    # Who comes too late hears it too.
    late = net.subscriber(draft)
    ok_of(late)
    net.advance(0.25)
    assert late.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].TRACK_ENDED


@both
def test_the_end_of_a_track_comes_behind_what_a_slow_subscriber_lacks(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    (key,) = net.plane.egress
    net.plane.lagging.add(key)
    code = PUBLISH_DONE_CODES[draft].TRACK_ENDED
    publisher.session.publish_done(publisher.one(RequestAccepted).request_id, code, 0)
    net.settle()
    net.advance(60.0)
    assert peer.take(PublishEnded) == []
    assert net.plane.resets == []
    net.notify(SubscriptionDone(key))
    assert peer.one(PublishEnded).message.status_code == code


@both
def test_the_end_of_a_track_waits_for_what_is_under_way(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    ((key, _),) = net.plane.ingress.items()
    net.plane.incoming[key] = (3, 1)
    net.notify(TrackEnded(1, Location(5, 5)))
    net.advance(3.0)
    assert peer.take(PublishEnded) == []
    net.plane.incoming[key] = (3, 0)
    net.advance(0.25)
    assert peer.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].TRACK_ENDED
    assert publisher.take(RequestCancelled) == []
    # Not for ever: a stream may hang.
    net.plane.incoming[key] = (4, 1)
    late = net.subscriber(draft)
    net.advance(4.9)
    assert late.take(PublishEnded) == []
    net.advance(0.25)
    late.one(PublishEnded)


@both
def test_a_malformed_track(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    net.notify(TrackMalformed(1, publisher.id, "two payloads"), TrackMalformed(99, 1, ""))
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].MALFORMED_TRACK
    assert net.plane.resets[0][1] == 0x12
    assert net.plane.purged == [1]
    assert net.plane.ingress == {}
    assert publisher.session.request_state(publisher.request) is None


# PUBLISH


def watcher(net: EdgeNet, draft: Draft, parameters: Parameters = NO_PARAMETERS) -> Peer:
    """A client that gets what is published."""
    peer = net.connect(draft)
    if draft is Draft.D16:
        peer.session.subscribe_namespace(NAMESPACE, SubscribeOptions.PUBLISH, parameters)
    else:
        peer.session.subscribe_tracks(NAMESPACE, parameters)
    net.settle()
    peer.take(RequestAccepted)
    return peer


@pairs
def test_objects_flow_from_where_publish_was_sent(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    peer = watcher(net, second)
    net.publisher(first, parameters=Parameters(largest_object=Location(2, 2)))
    event = peer.one(RequestReceived)
    peer.request = event.request_id
    assert event.message.parameters.largest_object == Location(2, 2)
    assert net.plane.egress == {}
    net.plane.largest_of[1] = Location(5, 0)
    peer.session.accept(event.request_id, Parameters(subscriber_priority=1, new_group_request=0))
    net.settle()
    entry = entry_of(net, peer)
    assert (entry.start, entry.priority) == (Location(2, 3), 1)


@both
def test_publish_ok_with_a_filter(draft: Draft) -> None:
    net = EdgeNet()
    peer = watcher(net, draft)
    net.publisher(draft, parameters=Parameters(largest_object=Location(2, 2)))
    peer.request = peer.one(RequestReceived).request_id
    wanted = SubscriptionFilter(FilterType.NEXT_GROUP_START)
    peer.session.accept(peer.request, Parameters(subscription_filter=wanted))
    net.settle()
    assert entry_of(net, peer).start == Location(3, 0)


@both
def test_publish_ok_with_a_range_that_is_over(draft: Draft) -> None:
    net = EdgeNet()
    peer = watcher(net, draft)
    net.publisher(draft, parameters=Parameters(largest_object=Location(9, 2)))
    peer.request = peer.one(RequestReceived).request_id
    wanted = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(1, 0), 3)
    peer.session.accept(peer.request, Parameters(subscription_filter=wanted))
    net.settle()
    # There is no way to refuse it then: it gets what is new.
    assert entry_of(net, peer).start == Location(9, 3)


@both
def test_a_publish_that_is_not_wanted(draft: Draft) -> None:
    net = EdgeNet()
    peer = watcher(net, draft)
    publisher = net.publisher(draft)
    request = peer.one(RequestReceived).request_id
    peer.session.reject(request, RequestErrorCode.UNINTERESTED)
    net.settle()
    assert net.relay.subscriptions() == []
    # It does not come again because another one publishes it too.
    net.publisher(draft)
    assert peer.take(RequestReceived) == []
    # But when it is published anew.
    for other in list(net.peers.values()):
        if other is not peer:
            net.leave(other)
    net.publisher(draft)
    assert len(peer.take(RequestReceived)) == 1
    assert publisher.gone


@both
def test_a_pending_publish_ends_with_its_track(draft: Draft) -> None:
    net = EdgeNet()
    peer = watcher(net, draft)
    publisher = net.publisher(draft)
    publisher.session.publish_done(publisher.request, 2, 0, "")
    net.settle()
    net.advance(0.0)
    assert peer.one(PublishEnded).message.stream_count == 0
    assert net.relay.subscriptions() == []


@both
def test_a_subscription_of_ones_own_track(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.publisher(draft)
    request = peer.session.subscribe(TRACK)
    net.settle()
    assert net.plane.receivers(TRACK) == [peer.id]
    (row,) = net.relay.subscriptions()
    assert (row.request_id, row.established) == (request, True)


@both
def test_a_subscriber_refuses_an_update_of_ours(draft: Draft) -> None:
    """The relay sends none for a PUBLISH; if a session says so, the subscription ends."""
    net = EdgeNet()
    peer = watcher(net, draft)
    net.publisher(draft)
    peer.request = peer.one(RequestReceived).request_id
    peer.session.accept(peer.request)
    net.settle()
    peer.wire.update(peer.request, Parameters(forward=True))
    peer.pair.server.transmit(peer.pair.client)
    net.settle()
    event = peer.one(UpdateReceived)
    peer.session.reject(event.update_id, RequestErrorCode.NOT_SUPPORTED, "no")
    net.settle()
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].UPDATE_FAILED


@both
def test_an_update_that_is_not_allowed(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    peer = net.subscriber(draft)
    rules.rules[Action.REQUEST_UPDATE] = Decision(allowed=False)
    peer.session.update(peer.request, Parameters(forward=False))
    net.settle()
    status = peer.one(PublishEnded).message.status_code
    assert status == PUBLISH_DONE_CODES[draft].UPDATE_FAILED


@both
def test_a_grant_that_ends(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=True, expires=net.now + 0.5)
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    waiter = net.subscriber(draft, track_of("none"), waiting)
    net.publisher(draft)
    peer = net.subscriber(draft)
    assert ok_of(peer).parameters.expires == 500
    net.advance(0.5)
    assert len(peer.take(PublishEnded)) == 1
    assert waiter.one(RequestRejected).message.error_code == 0x5


@both
def test_new_groups_are_asked_for(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft, properties=(KeyValue(0x30, 1),))
    watching = watcher(net, draft)
    offer = watching.one(RequestReceived)
    watching.session.accept(offer.request_id, Parameters(new_group_request=0))
    net.settle()
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 0
    peer = net.subscriber(draft, TRACK, Parameters(new_group_request=3))
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 3
    peer.session.update(peer.request, Parameters(new_group_request=4))
    net.settle()
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 4


@both
def test_joining_before_the_answer(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    first, second = net.subscriber(draft), net.subscriber(draft)
    first.session.fetch(RelativeJoiningFetch(first.request, 0))
    second.session.fetch(RelativeJoiningFetch(second.request, 0))
    net.settle()
    # One does not wait for it.
    second.session.cancel(second.request)
    net.settle()
    assert len(second.take(RequestRejected)) == 1
    net.answer(publisher, parameters=Parameters(largest_object=Location(1, 1)))
    assert len(net.plane.relayed) == 1
