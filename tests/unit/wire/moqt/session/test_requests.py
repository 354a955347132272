from __future__ import annotations

import pytest

from laps_wire.errors import EncodeError, ProtocolViolation, StateError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.state import Actor, Kind, Signal, State
from laps_wire.moqt.session.tables import Purpose, Request, Requests, Streams, prefix_of, track_of
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))


def make(message: RequestMessage, *, ours: bool = True, draft: Draft = Draft.D16) -> Request:
    return Request(draft, message, ours=ours)


# What a message names


@pytest.mark.parametrize(
    ("message", "track", "prefix", "kind"),
    [
        (Subscribe(0, TRACK), TRACK, None, Kind.SUBSCRIBE),
        (Publish(0, TRACK, 1), TRACK, None, Kind.PUBLISH),
        (TrackStatus(0, TRACK), TRACK, None, Kind.TRACK_STATUS),
        (Fetch(0, RANGE), TRACK, None, Kind.FETCH),
        (Fetch(0, RelativeJoiningFetch(2, 1)), None, None, Kind.FETCH),
        (PublishNamespace(0, NS), None, None, Kind.PUBLISH_NAMESPACE),
        (SubscribeNamespace(0, NS), None, NS, Kind.SUBSCRIBE_NAMESPACE),
        (SubscribeTracks(0, NS), None, NS, Kind.SUBSCRIBE_TRACKS),
    ],
)
def test_what_a_request_is_about(
    message: RequestMessage, track: FullTrackName | None, prefix: Namespace | None, kind: Kind
) -> None:
    assert track_of(message) == track
    assert prefix_of(message) == prefix
    request = make(message)
    assert (request.id, request.kind, request.track, request.prefix) == (0, kind, track, prefix)


@pytest.mark.parametrize(
    ("message", "ours", "us", "we_publish"),
    [
        (Subscribe(0, TRACK), True, Actor.REQUESTER, False),
        (Subscribe(0, TRACK), False, Actor.RESPONDER, True),
        (Publish(0, TRACK, 1), True, Actor.REQUESTER, True),
        (Publish(0, TRACK, 1), False, Actor.RESPONDER, False),
    ],
)
def test_who_we_are_in_it(message: RequestMessage, ours: bool, us: Actor, we_publish: bool) -> None:
    request = make(message, ours=ours)
    assert (request.us, request.we_publish, request.is_subscription) == (us, we_publish, True)


def test_parameters_of_a_subscription_are_kept_until_changed() -> None:
    largest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
    request = make(Subscribe(0, TRACK, Parameters(forward=False, subscription_filter=largest)))
    assert (request.forward, request.filter) == (False, largest)
    request.note_parameters(RequestUpdate(2, 0, Parameters(forward=True)))
    assert (request.forward, request.filter) == (True, largest)
    following = SubscriptionFilter(FilterType.NEXT_GROUP_START)
    request.note_parameters(RequestUpdate(4, 0, Parameters(subscription_filter=following)))
    assert (request.forward, request.filter) == (True, following)
    request.note_parameters(object())
    assert (request.forward, request.filter) == (True, following)
    # FORWARD in a SUBSCRIBE_NAMESPACE is about the subscriptions that follow from it.
    assert make(SubscribeNamespace(0, NS, parameters=Parameters(forward=False))).forward


def test_a_suffix_follows_the_prefix() -> None:
    request = make(SubscribeNamespace(0, NS))
    assert request.join(Namespace.of(b"c")) == Namespace.of(b"a", b"b", b"c")
    assert make(PublishNamespace(0, NS)).join(NS) == NS
    with pytest.raises(EncodeError, match="33 fields"):
        request.join(Namespace((b"x",) * 31))


# The two states


def test_our_commands_move_both_states() -> None:
    request = make(Subscribe(0, TRACK), ours=False)
    request.apply_ours(Signal.OK)
    assert (request.state, request.shadow, request.over) == (
        State.ESTABLISHED,
        State.ESTABLISHED,
        False,
    )
    with pytest.raises(StateError, match="SUBSCRIBE 0 is established: its responder cannot 'ok'"):
        request.apply_ours(Signal.OK)


def test_the_peer_cannot_know_yet_that_we_ended_it() -> None:
    request = make(Subscribe(0, TRACK))
    request.apply_ours(Signal.CANCEL)
    assert (request.state, request.shadow) == (State.TERMINATED, State.PENDING)
    assert request.over
    assert request.apply_theirs(Signal.OK) is False
    assert request.apply_theirs(Signal.DONE) is False
    assert (request.state, request.shadow) == (State.TERMINATED, State.TERMINATED)
    with pytest.raises(ProtocolViolation, match="terminated: its responder cannot 'done'"):
        request.apply_theirs(Signal.DONE)


def test_what_the_peer_ended_is_over_for_both() -> None:
    request = make(Subscribe(0, TRACK))
    assert request.apply_theirs(Signal.ERROR)
    assert (request.state, request.shadow) == (State.TERMINATED, State.TERMINATED)


def test_the_end_of_data_is_ours_to_see() -> None:
    request = make(Fetch(0, RANGE))
    request.apply_ours(Signal.DATA_END)
    assert (request.state, request.shadow) == (State.DATA_ENDED, State.PENDING)
    assert request.apply_theirs(Signal.OK)
    # Over for us, but the peer may still answer an update of ours.
    assert (request.state, request.shadow) == (State.TERMINATED, State.ESTABLISHED)
    assert request.apply_theirs(Signal.UPDATE_OK) is False


def test_a_reply_behind_the_end_of_data_is_seen_by_the_peer() -> None:
    request = make(Fetch(0, RANGE), ours=False)
    request.apply_ours(Signal.DATA_END)
    request.apply_ours(Signal.OK)
    assert (request.state, request.shadow) == (State.TERMINATED, State.ESTABLISHED)
    assert request.apply_theirs(Signal.CANCEL) is False


# The tables


def test_requests_are_found_until_they_end() -> None:
    requests = Requests(2)
    ours, theirs = make(Subscribe(0, TRACK)), make(Subscribe(1, TRACK), ours=False)
    for request in (ours, theirs):
        requests.add(request)
    assert (len(requests), requests.theirs, list(requests)) == (2, 1, [ours, theirs])
    assert requests.subscriptions(TRACK, we_publish=False) == [ours]
    assert requests.subscriptions(TRACK, we_publish=True) == [theirs]
    assert requests.subscriptions(OTHER, we_publish=True) == []
    requests.end(theirs)
    assert (len(requests), requests.theirs, requests.get(1)) == (1, 0, None)
    assert requests.ended.get(1) is theirs
    assert requests.subscriptions(TRACK, we_publish=True) == []
    requests.end(ours)
    assert requests._tracks == {}


def test_other_requests_are_no_subscriptions() -> None:
    requests = Requests(2)
    status = make(TrackStatus(0, TRACK))
    requests.add(status)
    assert requests.subscriptions(TRACK, we_publish=False) == []
    requests.end(status)
    assert requests.ended.get(0) is status


def test_an_alias_stands_for_one_track_in_each_direction() -> None:
    requests = Requests(4)
    published = make(Publish(1, TRACK, 7), ours=False)
    requests.add(published)
    assert requests.alias_holder(7, OTHER, we_publish=False) is published
    assert requests.alias_holder(7, TRACK, we_publish=False) is None
    assert requests.alias_holder(7, OTHER, we_publish=True) is None
    assert requests.alias_holder(8, OTHER, we_publish=False) is None
    subscribed = make(Subscribe(0, OTHER))
    requests.add(subscribed)
    subscribed.note_parameters(SubscribeOk(0, 8))
    requests.add_alias(subscribed, 8)
    assert requests.alias_holder(8, TRACK, we_publish=False) is subscribed
    same = make(Subscribe(2, OTHER))
    requests.add(same)
    requests.add_alias(same, 8)
    requests.end(subscribed)
    assert requests.alias_holder(8, TRACK, we_publish=False) is same
    requests.end(same)
    requests.end(published)
    assert requests._aliases == {}


@pytest.mark.parametrize(
    ("prefix", "overlaps"),
    [
        (Namespace(), True),
        (Namespace.of(b"a"), True),
        (NS, True),
        (Namespace.of(b"a", b"b", b"c"), True),
        (Namespace.of(b"a", b"c"), False),
        (Namespace.of(b"b"), False),
    ],
)
def test_prefixes_overlap_if_one_begins_the_other(prefix: Namespace, overlaps: bool) -> None:
    requests = Requests(4)
    held = make(SubscribeNamespace(1, NS), ours=False)
    requests.add(held)
    found = requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, None)
    assert found is (held if overlaps else None)
    assert requests.overlapping(Kind.SUBSCRIBE_TRACKS, prefix, None) is None
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, held) is None


def test_a_prefix_that_an_update_asks_for_counts() -> None:
    requests = Requests(4)
    held = make(SubscribeNamespace(1, NS), ours=False)
    held.prefixes[3] = Namespace.of(b"x")
    requests.add(held)
    for prefix in (NS, Namespace.of(b"x", b"y")):
        assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, None) is held
        assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, held) is None
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, Namespace.of(b"y"), None) is None


def test_our_own_prefixes_do_not_count() -> None:
    requests = Requests(4)
    requests.add(make(SubscribeNamespace(0, NS)))
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, NS, None) is None


def test_all_is_forgotten_with_the_session() -> None:
    requests = Requests(4)
    requests.add(make(Publish(1, TRACK, 7), ours=False))
    requests.clear()
    assert (len(requests), requests.theirs) == (0, 0)
    assert requests.subscriptions(TRACK, we_publish=False) == []
    assert requests.alias_holder(7, OTHER, we_publish=False) is None


def test_not_every_request_has_a_stream() -> None:
    request = make(Subscribe(0, TRACK))
    with pytest.raises(StateError, match="SUBSCRIBE 0 has no stream of its own"):
        _ = request.own_stream
    request = make(Subscribe(0, TRACK), draft=Draft.D18)
    request.stream = Streams(Role.CLIENT).open(Purpose.REQUEST, unidirectional=False)
    assert request.own_stream is request.stream
