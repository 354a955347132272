"""What a session rejects by itself; first as a function, then as a peer sees it."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.errors import DuplicateTrackAlias
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    FetchTarget,
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    RequestError,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import Kind, RequestRefused, Role, SessionLimits, State
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.tables import (
    Refusal,
    Request,
    Requests,
    check_alias,
    check_fetch_ok,
    is_reserved,
    namespace_of,
    overlap,
    refusal,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone

D16, D18 = Draft.D16, Draft.D18
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
JOIN = RelativeJoiningFetch(0, 1)
BOTH = pytest.mark.parametrize("draft", [D16, D18])


def held(
    draft: Draft, *messages: RequestMessage, ours: bool = False, state: State = State.PENDING
) -> Requests:
    """A table with these requests in it."""
    requests = Requests(4)
    for message in messages:
        request = Request(draft, message, ours=ours)
        request.state = state
        requests.add(request)
    return requests


def why(
    draft: Draft, message: RequestMessage, requests: Requests, *, leaving: bool = False
) -> RequestErrorCode | None:
    found = refusal(message, requests, draft, max_requests=3, leaving=leaving)
    return None if found is None else found.code


# Subscriptions


@BOTH
def test_a_second_subscription_as_publisher(draft: Draft) -> None:
    subscribed = held(draft, Subscribe(0, TRACK))
    assert why(draft, Subscribe(2, TRACK), subscribed) is RequestErrorCode.DUPLICATE_SUBSCRIPTION
    assert why(draft, Subscribe(2, OTHER), subscribed) is None
    publishing = held(draft, Publish(1, TRACK, 7), ours=True)
    assert why(draft, Subscribe(2, TRACK), publishing) is RequestErrorCode.DUPLICATE_SUBSCRIPTION


@BOTH
def test_a_second_subscription_as_subscriber(draft: Draft) -> None:
    again = Publish(2, TRACK, 7)
    published = held(draft, Publish(0, TRACK, 7))
    assert why(draft, again, published) is RequestErrorCode.DUPLICATE_SUBSCRIPTION
    established = held(draft, Subscribe(1, TRACK), ours=True, state=State.ESTABLISHED)
    assert why(draft, again, established) is RequestErrorCode.DUPLICATE_SUBSCRIPTION
    # Our SUBSCRIBE crossed it: the application chooses.
    assert why(draft, again, held(draft, Subscribe(1, TRACK), ours=True)) is None
    # The other role is another subscription.
    assert why(draft, again, held(draft, Subscribe(0, TRACK))) is None


def test_an_alias_of_another_track_ends_the_session() -> None:
    published = held(D18, Publish(0, TRACK, 7))
    with pytest.raises(DuplicateTrackAlias, match="alias 7 belongs to request 0"):
        why(D18, Publish(2, OTHER, 7), published)
    check_alias(7, TRACK, published)
    check_alias(8, OTHER, published)


# Fetches


@pytest.mark.parametrize(
    ("start", "end", "good"),
    [
        ((5, 3), (5, 4), True),
        ((5, 3), (5, 3), True),
        ((5, 3), (5, 0), True),  # the whole group
        ((5, 3), (5, 2), False),
        ((5, 3), (4, 0), False),
        ((5, 3), (4, 9), False),
        ((5, 3), (6, 1), True),
    ],
)
def test_the_end_of_a_fetch(start: tuple[int, int], end: tuple[int, int], good: bool) -> None:
    target = StandaloneFetch(TRACK, Location(*start), Location(*end))
    expected = None if good else RequestErrorCode.INVALID_RANGE
    assert why(D16, Fetch(0, target), Requests(4)) is expected
    message = FetchOk(None, False, Location(*end))
    if good:
        check_fetch_ok(target, message)
    else:
        with pytest.raises(ProtocolViolation, match="before"):
            check_fetch_ok(target, message)


def test_the_end_of_a_joining_fetch() -> None:
    check_fetch_ok(RelativeJoiningFetch(0, 3), FetchOk(None, False, Location(0, 0)))
    check_fetch_ok(AbsoluteJoiningFetch(0, 3), FetchOk(None, False, Location(3, 0)))
    with pytest.raises(ProtocolViolation):
        check_fetch_ok(AbsoluteJoiningFetch(0, 3), FetchOk(None, False, Location(2, 9)))


@BOTH
@pytest.mark.parametrize("target", [RelativeJoiningFetch(0, 1), AbsoluteJoiningFetch(0, 1)])
@pytest.mark.parametrize(
    ("joined", "ours", "state", "good"),
    [
        (Subscribe(0, TRACK), False, State.PENDING, True),
        (Subscribe(0, TRACK), False, State.ESTABLISHED, True),
        (Subscribe(0, TRACK), False, State.FAILING, False),
        (Subscribe(0, TRACK), True, State.ESTABLISHED, False),
        (Publish(0, TRACK, 1), True, State.ESTABLISHED, True),
        (Publish(0, TRACK, 1), True, State.PENDING, False),
        (Publish(0, TRACK, 1), False, State.ESTABLISHED, False),
        (TrackStatus(0, TRACK), False, State.PENDING, False),
        (Subscribe(4, TRACK), False, State.ESTABLISHED, False),
    ],
)
def test_what_can_be_joined(
    draft: Draft, target: FetchTarget, joined: RequestMessage, ours: bool, state: State, good: bool
) -> None:
    expected = None if good else RequestErrorCode.INVALID_JOINING_REQUEST_ID
    assert why(draft, Fetch(2, target), held(draft, joined, ours=ours, state=state)) is expected


def test_joining_in_draft_16_wants_the_largest_object_filter() -> None:
    for type_ in (FilterType.LARGEST_OBJECT, FilterType.NEXT_GROUP_START):
        parameters = Parameters(subscription_filter=SubscriptionFilter(type_))
        requests = held(D16, Subscribe(0, TRACK, parameters))
        if type_ is FilterType.LARGEST_OBJECT:
            assert why(D16, Fetch(2, JOIN), requests) is None
        else:
            with pytest.raises(ProtocolViolation, match="NEXT_GROUP_START"):
                why(D16, Fetch(2, JOIN), requests)
            assert why(D18, Fetch(2, JOIN), requests) is None


def test_joining_in_draft_18_wants_forward_state_1() -> None:
    requests = held(D18, Subscribe(0, TRACK, Parameters(forward=False)))
    assert why(D18, Fetch(2, JOIN), requests) is RequestErrorCode.INVALID_RANGE
    assert why(D16, Fetch(2, JOIN), requests) is None


# Namespaces


@BOTH
def test_overlapping_prefixes(draft: Draft) -> None:
    requests = held(draft, SubscribeNamespace(0, NS))
    for prefix in (Namespace(), NS, Namespace.of(b"a")):
        found = why(draft, SubscribeNamespace(2, prefix), requests)
        assert found is RequestErrorCode.PREFIX_OVERLAP
    assert why(draft, SubscribeNamespace(2, Namespace.of(b"b")), requests) is None
    assert why(draft, PublishNamespace(2, NS), requests) is None


def test_namespaces_and_tracks_overlap_apart() -> None:
    requests = held(D18, SubscribeNamespace(0, NS))
    assert why(D18, SubscribeTracks(2, NS), requests) is None
    assert overlap(Kind.SUBSCRIBE_NAMESPACE, NS, requests, but=0) is None
    assert overlap(Kind.SUBSCRIBE_NAMESPACE, NS, requests) == Refusal(
        RequestErrorCode.PREFIX_OVERLAP, "request 0 has such a prefix"
    )


RESERVED: list[Any] = [
    Subscribe(0, FullTrackName(Namespace.of(b"."), b"x")),
    Subscribe(0, FullTrackName(Namespace.of(b".session", b"z"), b"")),
    Publish(0, FullTrackName(Namespace.of(b".", b"z"), b"x"), 1),
    TrackStatus(0, FullTrackName(Namespace.of(b".session"), b"x")),
    Fetch(
        0,
        StandaloneFetch(
            FullTrackName(Namespace.of(b".session"), b"x"), Location(0, 0), Location(1, 0)
        ),
    ),
    PublishNamespace(0, Namespace.of(b".session")),
    SubscribeNamespace(0, Namespace.of(b".")),
    SubscribeTracks(0, Namespace.of(b".session")),
]


@pytest.mark.parametrize("message", RESERVED, ids=lambda message: type(message).__name__)
def test_reserved_namespaces_do_not_exist_in_draft_18(message: RequestMessage) -> None:
    assert why(D18, message, Requests(4)) is RequestErrorCode.DOES_NOT_EXIST


def test_what_is_not_reserved() -> None:
    assert why(D16, RESERVED[0], Requests(4)) is None
    assert not is_reserved(None)
    assert not is_reserved(Namespace())
    assert not is_reserved(Namespace.of(b".other"))
    assert not is_reserved(Namespace.of(b"a", b"."))
    assert namespace_of(Fetch(0, JOIN)) is None
    assert why(D18, SubscribeNamespace(0, Namespace()), Requests(4)) is None


# Load and leaving


def test_only_draft_18_has_codes_for_load_and_leaving() -> None:
    full = held(D18, *(TrackStatus(request_id, TRACK) for request_id in (0, 2, 4)))
    assert why(D18, TrackStatus(6, TRACK), full) is RequestErrorCode.EXCESSIVE_LOAD
    assert why(D16, TrackStatus(6, TRACK), full) is None
    two = held(D18, TrackStatus(0, TRACK), TrackStatus(2, TRACK))
    assert why(D18, TrackStatus(6, TRACK), two) is None
    assert why(D18, TrackStatus(6, TRACK), two, leaving=True) is RequestErrorCode.GOING_AWAY
    assert why(D16, TrackStatus(6, TRACK), two, leaving=True) is None


# As the peer sees it


@BOTH
def test_the_peer_gets_an_error_and_the_application_a_note(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.request(Subscribe(0, TRACK))
    lone.events()
    stream_id = lone.request(Subscribe(2, TRACK))
    code = RequestErrorCode.DUPLICATE_SUBSCRIPTION
    reason = "request 0 is for this track"
    assert lone.events() == [
        RequestRefused(request_id=2, message=Subscribe(2, TRACK), error_code=code, reason=reason)
    ]
    error = RequestError(2 if draft is D16 else None, code, 0, reason)
    assert lone.sent() == {stream_id: [error] if draft is D16 else [error, "fin"]}
    assert lone.session.open_requests == (0,)


@BOTH
def test_the_same_token_twice_is_rejected_and_yet_registered(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    tokens = (Token.register(1, 0, b"t"), Token.use_value(0, b"t"))
    lone.request(Subscribe(0, TRACK, Parameters(authorization_tokens=tokens)))
    refused = lone.events()
    assert isinstance(refused[0], RequestRefused)
    assert refused[0].error_code == RequestErrorCode.MALFORMED_AUTH_TOKEN
    again = Parameters(authorization_tokens=(Token.use_alias(1),))
    lone.request(Subscribe(2, TRACK, again))
    assert lone.close_code is None
    assert lone.session.open_requests == (2,)


def test_load_is_shed_one_by_one() -> None:
    lone = Lone.established(D18, Role.SERVER, limits=SessionLimits(max_requests=2))
    for request_id in (0, 2, 4):
        lone.request(TrackStatus(request_id, TRACK))
    assert lone.session.open_requests == (0, 2)
    lone.session.accept(0)
    lone.request(TrackStatus(6, TRACK))
    assert lone.session.open_requests == (2, 6)


def test_nothing_new_behind_our_goaway() -> None:
    lone = Lone.established(D18, Role.SERVER)
    lone.session.goaway()
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.sent()
    refused = lone.events()
    assert isinstance(refused[0], RequestRefused)
    assert refused[0].error_code == RequestErrorCode.GOING_AWAY
    assert stream_id == 0
