"""Answering and ending requests: hop by hop, both drafts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode, StreamResetCodeD18
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    Fetch,
    FetchCancel,
    FetchOk,
    Goaway,
    Publish,
    PublishDone,
    PublishNamespace,
    PublishNamespaceCancel,
    PublishNamespaceDone,
    PublishOk,
    RequestError,
    RequestOk,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    GoawayReceived,
    Kind,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestRejected,
    Role,
    State,
    TrackBlocked,
    UpdateAccepted,
    UpdateRejected,
)
from laps_wire.moqt.structures import Location, Redirect
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone, Pair

D16, D18 = Draft.D16, Draft.D18
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
BOTH = pytest.mark.parametrize("draft", [D16, D18])
CANCELLED = int(StreamResetCodeD18.CANCELLED)
EMPTY = {D16: 1, D18: 2}
"""How many streams a session has without requests."""


def rid(draft: Draft, request_id: int) -> int | None:
    """The request id in a reply."""
    return request_id if draft is D16 else None


def check_baseline(pair: Pair) -> None:
    """Nothing is left of any request."""
    pair.settle()
    for end in (pair.client, pair.server):
        assert end.session.open_requests == ()
        assert end.session.open_streams == EMPTY[pair.draft]
        assert not end.session.closed


# Saying OK


@BOTH
def test_a_subscription_from_beginning_to_end(draft: Draft) -> None:
    pair = Pair.established(draft)
    client, server = pair.client.session, pair.server.session
    # SUBSCRIBE
    client.subscribe(TRACK)
    pair.to_server()
    # SUBSCRIBE_OK
    extra = (KeyValue(0x04, 5),)
    server.accept_subscribe(0, 7, Parameters(expires=9), extra)
    assert server.request_state(0) is State.ESTABLISHED
    ok = SubscribeOk(rid(draft, 0), 7, Parameters(expires=9), extra)
    assert pair.to_client() == [RequestAccepted(request_id=0, message=ok)]
    assert client.request_state(0) is State.ESTABLISHED
    # PUBLISH_DONE
    code = PUBLISH_DONE_CODES[draft].TRACK_ENDED
    server.publish_done(0, code, 3, "the end")
    assert server.open_requests == ()
    done = PublishDone(rid(draft, 0), code, 3, "the end")
    assert pair.to_client() == [PublishEnded(request_id=0, message=done)]
    check_baseline(pair)


@BOTH
def test_a_publication_from_beginning_to_end(draft: Draft) -> None:
    pair = Pair.established(draft)
    client, server = pair.client.session, pair.server.session
    client.publish(TRACK, 7)
    pair.to_server()
    server.accept(0, Parameters(forward=False))
    ok: Any = (
        PublishOk(0, Parameters(forward=False))
        if draft is D16
        else RequestOk(None, Parameters(forward=False))
    )
    assert pair.to_client() == [RequestAccepted(request_id=0, message=ok)]
    for session in (client, server):
        request = session._core.requests.get(0)
        assert request is not None
        assert not request.forward
    # The subscriber leaves.
    server.cancel(0)
    code = None if draft is D16 else CANCELLED
    assert pair.to_client() == [RequestCancelled(request_id=0, code=code)]
    check_baseline(pair)


@BOTH
def test_a_publisher_may_take_a_publication_back(draft: Draft) -> None:
    pair = Pair.established(draft)
    pair.client.session.publish(TRACK, 7)
    pair.to_server()
    pair.client.session.publish_done(0, 0, 0)
    assert pair.to_server() == [
        PublishEnded(request_id=0, message=PublishDone(rid(draft, 0), 0, 0))
    ]
    check_baseline(pair)


@BOTH
@pytest.mark.parametrize("data_first", [False, True])
def test_a_fetch_is_over_with_its_reply_and_its_data(draft: Draft, data_first: bool) -> None:
    pair = Pair.established(draft)
    client, server = pair.client.session, pair.server.session
    client.fetch(RANGE)
    pair.to_server()
    if data_first:
        server.fetch_ended(0)
        assert server.request_state(0) is State.DATA_ENDED
        client.fetch_ended(0)
        assert client.request_state(0) is State.DATA_ENDED
    server.accept_fetch(0, Location(1, 0), end_of_track=True)
    ok = FetchOk(rid(draft, 0), True, Location(1, 0))
    assert pair.to_client() == [RequestAccepted(request_id=0, message=ok)]
    if not data_first:
        server.fetch_ended(0)
        assert server.open_requests == ()
        assert client.request_state(0) is State.ESTABLISHED
        client.fetch_ended(0)
    assert client.open_requests == ()
    # Whoever comes late is not punished for it.
    client.fetch_ended(0)
    check_baseline(pair)


@BOTH
def test_the_status_of_a_track(draft: Draft) -> None:
    pair = Pair.established(draft)
    pair.client.session.track_status(TRACK)
    pair.to_server()
    properties = (KeyValue(0x04, 5),) if draft is D18 else ()
    largest = Parameters(largest_object=Location(3, 4))
    pair.server.session.accept(0, largest, properties)
    assert pair.server.session.open_requests == ()
    ok = RequestOk(rid(draft, 0), largest, properties)
    assert pair.to_client() == [RequestAccepted(request_id=0, message=ok)]
    check_baseline(pair)


@BOTH
def test_a_request_is_accepted_in_its_own_way_and_once(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    for message in (Subscribe(0, TRACK), Fetch(2, RANGE), PublishNamespace(4, NS)):
        lone.request(message)
    session = lone.session
    with pytest.raises(StateError, match="accept a SUBSCRIBE with its own command"):
        session.accept(0)
    with pytest.raises(StateError, match="accept a FETCH with its own command"):
        session.accept(2)
    with pytest.raises(StateError, match="request 4 is a PUBLISH_NAMESPACE"):
        session.accept_subscribe(4, 7)
    with pytest.raises(StateError, match="request 0 is a SUBSCRIBE"):
        session.accept_fetch(0, Location(0, 0))
    session.accept_subscribe(0, 7)
    with pytest.raises(StateError, match="established"):
        session.accept_subscribe(0, 7)
    with pytest.raises(StateError, match="request 6 does not exist"):
        session.accept(6)
    assert session.request_kind(0) is Kind.SUBSCRIBE
    assert session.request_kind(6) is None


@BOTH
def test_nobody_accepts_his_own_request(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.publish_namespace(NS)
    with pytest.raises(StateError, match="requester cannot 'ok'"):
        lone.session.accept(0)
    with pytest.raises(StateError, match="requester cannot 'error'"):
        lone.session.reject(0, 0)


@BOTH
def test_an_alias_of_ours_is_not_given_twice(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.request(Subscribe(0, TRACK))
    lone.request(Subscribe(2, OTHER))
    lone.session.accept_subscribe(0, 7)
    with pytest.raises(StateError, match="alias 7"):
        lone.session.accept_subscribe(2, 7)
    lone.session.accept_subscribe(2, 8)


@BOTH
def test_our_subscribe_must_end_before_a_publish_that_crossed_it(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.subscribe(TRACK)
    lone.request(Publish(1, TRACK, 7))
    with pytest.raises(StateError, match="cancel our own SUBSCRIBE 0"):
        lone.session.accept(1)
    lone.session.cancel(0)
    lone.session.accept(1)
    assert lone.session.request_state(1) is State.ESTABLISHED


# Saying no


@BOTH
def test_a_rejection(draft: Draft) -> None:
    pair = Pair.established(draft)
    pair.client.session.subscribe(TRACK)
    pair.to_server()
    code = RequestErrorCode.DOES_NOT_EXIST
    pair.server.session.reject(0, code, "gone", retry_interval=100)
    error = RequestError(rid(draft, 0), code, 100, "gone")
    assert pair.to_client() == [RequestRejected(request_id=0, message=error)]
    check_baseline(pair)


def test_a_redirect() -> None:
    pair = Pair.established(D18)
    pair.client.session.subscribe(TRACK)
    pair.to_server()
    redirect = Redirect("moqt://else", OTHER)
    pair.server.session.reject(0, RequestErrorCode.REDIRECT, redirect=redirect)
    (event,) = pair.to_client()
    assert isinstance(event, RequestRejected)
    assert event.message.redirect == redirect
    check_baseline(pair)


@BOTH
def test_nothing_is_rejected_after_the_end(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.session.close()
    commands: list[Callable[[], None]] = [
        lambda: lone.session.reject(0, 0),
        lambda: lone.session.accept(0),
        lambda: lone.session.fetch_ended(0),
        lone.session.goaway,
        lambda: lone.session.cancel(0),
    ]
    for command in commands:
        with pytest.raises(StateError, match="closed"):
            command()


# Updates


def established(draft: Draft) -> Pair:
    """A pair with SUBSCRIBE 0 by the client, accepted."""
    pair = Pair.established(draft)
    pair.client.session.subscribe(TRACK)
    pair.to_server()
    pair.server.session.accept_subscribe(0, 7)
    pair.to_client()
    return pair


@BOTH
def test_an_update_that_is_taken(draft: Draft) -> None:
    pair = established(draft)
    update_id = pair.client.session.update(0, Parameters(forward=False))
    pair.to_server()
    pair.server.session.accept(update_id, Parameters(largest_object=Location(1, 1)))
    ok = RequestOk(rid(draft, update_id), Parameters(largest_object=Location(1, 1)))
    assert pair.to_client() == [UpdateAccepted(request_id=0, update_id=2, message=ok)]
    with pytest.raises(StateError, match="request 2 does not exist"):
        pair.server.session.accept(update_id)


@BOTH
def test_a_subscription_does_not_survive_a_failed_update(draft: Draft) -> None:
    pair = established(draft)
    client, server = pair.client.session, pair.server.session
    update_id = client.update(0, Parameters(forward=False))
    pair.to_server()
    server.reject(update_id, RequestErrorCode.INVALID_RANGE, "no")
    assert server.request_state(0) is State.FAILING
    error = RequestError(rid(draft, update_id), RequestErrorCode.INVALID_RANGE, 0, "no")
    assert pair.to_client() == [UpdateRejected(request_id=0, update_id=2, message=error)]
    assert client.request_state(0) is State.FAILING
    failed = PUBLISH_DONE_CODES[draft].UPDATE_FAILED
    server.publish_done(0, failed, 0)
    (event,) = pair.to_client()
    assert isinstance(event, PublishEnded)
    check_baseline(pair)


@BOTH
def test_our_own_update_is_not_ours_to_answer(draft: Draft) -> None:
    pair = established(draft)
    update_id = pair.client.session.update(0, NO_PARAMETERS)
    with pytest.raises(StateError, match="update 2 is ours"):
        pair.client.session.accept(update_id)
    with pytest.raises(StateError, match="update 2 is ours"):
        pair.client.session.reject(update_id, 0)


def test_answers_have_an_order_in_draft_18_only() -> None:
    for draft in (D16, D18):
        pair = established(draft)
        first, second = (pair.client.session.update(0, NO_PARAMETERS) for _ in range(2))
        pair.to_server()
        if draft is D18:
            with pytest.raises(StateError, match=f"update {first} must be answered first"):
                pair.server.session.accept(second)
        else:
            pair.server.session.accept(second)
            (event,) = pair.to_client()
            assert isinstance(event, UpdateAccepted)
            assert event.update_id == second
        pair.server.session.accept(first)
        (event,) = pair.to_client()
        assert isinstance(event, UpdateAccepted)
        assert event.update_id == first


def test_one_refusal_answers_all_updates_in_draft_18() -> None:
    pair = established(D18)
    for _ in range(3):
        pair.client.session.update(0, NO_PARAMETERS)
    pair.to_server()
    pair.server.session.reject(2, 0, "no")
    (event,) = pair.to_client()
    assert isinstance(event, UpdateRejected)
    assert event.update_id == 2
    for end in (pair.client, pair.server):
        assert end.session._core.updates == {}


def test_an_update_before_our_reply_waits_for_it() -> None:
    lone = Lone.established(D18, Role.SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.on(stream_id, RequestUpdate(2))
    with pytest.raises(StateError, match="'update ok'"):
        lone.session.accept(2)
    lone.session.accept_subscribe(0, 7)
    lone.session.accept(2)
    assert lone.sent() == {stream_id: [SubscribeOk(None, 7), RequestOk()]}


# Cancelling


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.subscribe(TRACK), Unsubscribe(0)),
        (lambda s: s.fetch(RANGE), FetchCancel(0)),
        (lambda s: s.publish_namespace(NS), PublishNamespaceDone(0)),
    ],
)
def test_draft_16_cancels_with_a_message(ask: Any, message: Any) -> None:
    pair = Pair.established(D16)
    ask(pair.client.session)
    pair.to_server()
    pair.client.session.cancel(0)
    lone = Lone.established(D16, Role.CLIENT)
    ask(lone.session)
    lone.sent()
    lone.session.cancel(0)
    assert lone.sent() == {0: [message]}
    assert pair.to_server() == [RequestCancelled(request_id=0)]
    check_baseline(pair)


@pytest.mark.parametrize(("code", "sent"), [(None, 0x20), (0x1, 0x1)])
def test_draft_16_revokes_a_namespace_with_a_code(code: int | None, sent: int) -> None:
    pair = Pair.established(D16)
    pair.client.session.publish_namespace(NS)
    pair.to_server()
    with pytest.raises(StateError, match="'cancel'"):
        pair.server.session.cancel(0)
    pair.server.session.accept(0)
    pair.server.session.cancel(0, code=code, reason="expired")
    assert pair.to_client()[-1] == RequestCancelled(request_id=0, code=sent, reason="expired")
    check_baseline(pair)
    lone = Lone.established(D16, Role.SERVER)
    lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.session.cancel(0)
    assert lone.sent() == {0: [RequestOk(0), PublishNamespaceCancel(0, 0x20)]}


def test_draft_16_stops_listening_for_a_track_status() -> None:
    lone = Lone.established(D16, Role.CLIENT)
    lone.session.track_status(TRACK)
    lone.sent()
    lone.session.cancel(0)
    assert lone.sent() == {}
    lone.control(RequestOk(0))
    assert lone.events() == []
    assert lone.close_code is None


def test_draft_16_closes_the_stream_of_a_namespace_subscription() -> None:
    pair = Pair.established(D16)
    pair.client.session.subscribe_namespace(NS)
    pair.to_server()
    pair.server.session.accept(0)
    pair.to_client()
    pair.client.session.cancel(0)
    assert pair.to_server() == [
        RequestCancelled(request_id=0, code=None, reason="its stream was closed")
    ]
    check_baseline(pair)


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("code", [None, 0x9])
def test_draft_18_cancels_with_the_stream(by: str, accepted: bool, code: int | None) -> None:
    pair = Pair.established(D18)
    pair.client.session.publish_namespace(NS)
    pair.to_server()
    if accepted:
        pair.server.session.accept(0)
        pair.to_client()
    session, hop = (
        (pair.client.session, pair.to_server)
        if by == "client"
        else (pair.server.session, pair.to_client)
    )
    session.cancel(0, code=code)
    assert hop() == [RequestCancelled(request_id=0, code=CANCELLED if code is None else code)]
    check_baseline(pair)


@BOTH
def test_only_a_publisher_is_done(draft: Draft) -> None:
    pair = established(draft)
    with pytest.raises(StateError, match="requester cannot 'done'"):
        pair.client.session.publish_done(0, 0, 0)


@BOTH
def test_only_a_fetch_has_an_end_of_data(draft: Draft) -> None:
    pair = established(draft)
    with pytest.raises(StateError, match="'data end'"):
        pair.client.session.fetch_ended(0)
    with pytest.raises(StateError, match="does not exist"):
        pair.client.session.fetch_ended(44)


# Namespaces


def watching(draft: Draft) -> Pair:
    """A pair with SUBSCRIBE_NAMESPACE 0 by the client, accepted."""
    pair = Pair.established(draft)
    pair.client.session.subscribe_namespace(NS)
    pair.to_server()
    pair.server.session.accept(0)
    pair.to_client()
    return pair


@BOTH
def test_namespaces_come_and_go(draft: Draft) -> None:
    pair = watching(draft)
    suffix, whole = Namespace.of(b"c"), Namespace.of(b"a", b"b", b"c")
    pair.server.session.namespace(0, suffix)
    assert pair.to_client() == [NamespaceAdvertised(request_id=0, namespace=whole)]
    pair.server.session.namespace_done(0, suffix)
    assert pair.to_client() == [NamespaceWithdrawn(request_id=0, namespace=whole)]
    with pytest.raises(StateError, match="before its NAMESPACE"):
        pair.server.session.namespace_done(0, suffix)
    with pytest.raises(StateError, match="'namespace'"):
        pair.client.session.namespace(0, suffix)


@BOTH
def test_what_was_advertised_goes_with_the_stream(draft: Draft) -> None:
    pair = watching(draft)
    for name in (b"c", b"d"):
        pair.server.session.namespace(0, Namespace.of(name))
    pair.to_client()
    pair.server.session.cancel(0)
    assert pair.to_client() == [
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"c")),
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"d")),
        # Draft 16 closes the stream, for a reset could take the reply with it.
        RequestCancelled(request_id=0, code=CANCELLED)
        if draft is D18
        else RequestCancelled(request_id=0, reason="its stream was closed"),
    ]
    check_baseline(pair)


def test_suffixes_follow_a_new_prefix() -> None:
    pair = watching(D18)
    server = pair.server.session
    server.namespace(0, Namespace.of(b"c"))
    pair.to_client()
    prefix = Namespace.of(b"a", b"b", b"c")
    pair.client.session.update(0, Parameters(track_namespace_prefix=prefix))
    pair.to_server()
    server.accept(2)
    server.namespace(0, Namespace.of(b"x"))
    server.namespace_done(0, Namespace())
    events = pair.to_client()
    assert [type(event) for event in events] == [
        UpdateAccepted,
        NamespaceAdvertised,
        NamespaceWithdrawn,
    ]
    assert events[1] == NamespaceAdvertised(
        request_id=0, namespace=Namespace.of(b"a", b"b", b"c", b"x")
    )
    # And one that covers nothing of it
    pair.client.session.update(0, Parameters(track_namespace_prefix=Namespace.of(b"z")))
    pair.to_server()
    server.accept(4)
    assert pair.to_client()[1:] == [
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"c", b"x"))
    ]


def test_a_rejected_update_ends_a_namespace_subscription_in_draft_18() -> None:
    for draft in (D16, D18):
        pair = watching(draft)
        pair.client.session.update(0, NO_PARAMETERS)
        pair.to_server()
        pair.server.session.reject(2, 0, "no")
        events = pair.to_client()
        assert isinstance(events[0], UpdateRejected)
        if draft is D18:
            assert events[1:] == [
                RequestCancelled(request_id=0, code=None, reason="an update failed")
            ]
            check_baseline(pair)
        else:
            assert events[1:] == []
            assert pair.client.session.request_state(0) is State.ESTABLISHED


def test_a_track_that_cannot_be_published() -> None:
    pair = Pair.established(D18)
    pair.client.session.subscribe_tracks(NS)
    pair.to_server()
    pair.server.session.accept(0)
    suffix = FullTrackName(Namespace.of(b"c"), b"name")
    pair.server.session.publish_blocked(0, suffix)
    whole = FullTrackName(Namespace.of(b"a", b"b", b"c"), b"name")
    assert pair.to_client()[1:] == [TrackBlocked(request_id=0, track=whole)]
    with pytest.raises(StateError, match="'namespace'"):
        pair.server.session.namespace(0, Namespace.of(b"c"))


# Leaving


@BOTH
def test_a_server_says_where_to_go(draft: Draft) -> None:
    pair = established(draft)
    pair.server.session.goaway("moqt://else", timeout=500 if draft is D18 else 0)
    message = Goaway("moqt://else", 500, 2) if draft is D18 else Goaway("moqt://else")
    assert pair.to_client() == [GoawayReceived(message=message)]
    assert pair.client.session.going_away
    assert pair.server.session.going_away
    with pytest.raises(StateError, match="sent already"):
        pair.server.session.goaway()
    # What is established goes on.
    pair.client.session.cancel(0)
    check_baseline(pair)


@BOTH
def test_a_client_says_only_that_it_goes(draft: Draft) -> None:
    pair = Pair.established(draft)
    with pytest.raises(StateError, match="cannot tell a server"):
        pair.client.session.goaway("moqt://else")
    pair.client.session.goaway()
    message = Goaway("", 0, 1) if draft is D18 else Goaway()
    assert pair.to_server() == [GoawayReceived(message=message)]


@BOTH
def test_goaway_waits_for_setup(draft: Draft) -> None:
    with pytest.raises(StateError, match="must wait"):
        Lone(draft, Role.CLIENT).session.goaway()


def test_one_request_moves_in_draft_18() -> None:
    pair = established(D18)
    pair.server.session.goaway_request(0, "moqt://else", 100)
    message = Goaway("moqt://else", 100)
    assert pair.to_client() == [RequestGoaway(request_id=0, message=message)]
    with pytest.raises(StateError, match="sent for request 0 already"):
        pair.server.session.goaway_request(0)
    with pytest.raises(StateError, match="cannot tell a server"):
        pair.client.session.goaway_request(0, "moqt://else")
    pair.client.session.goaway_request(0)
    (event,) = pair.to_server()
    assert isinstance(event, RequestGoaway)
    with pytest.raises(StateError, match="draft 16"):
        established(D16).server.session.goaway_request(0)


# Every kind ends


@BOTH
@pytest.mark.parametrize(
    "message",
    [
        Subscribe(0, TRACK),
        Publish(0, TRACK, 7),
        Fetch(0, RANGE),
        TrackStatus(0, TRACK),
        PublishNamespace(0, NS),
        SubscribeNamespace(0, NS),
        SubscribeTracks(0, NS),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_kind_can_be_rejected(draft: Draft, message: Any) -> None:
    if draft is D16 and isinstance(message, SubscribeTracks):
        pytest.skip("draft 18 only")
    lone = Lone.established(draft, Role.SERVER)
    stream_id = lone.request(message)
    lone.session.reject(0, RequestErrorCode.NOT_SUPPORTED, "no")
    error = RequestError(rid(draft, 0), RequestErrorCode.NOT_SUPPORTED, 0, "no")
    own_stream = draft is D18 or isinstance(message, SubscribeNamespace)
    assert lone.sent() == {stream_id: [error, "fin"] if own_stream else [error]}
    assert lone.session.open_requests == ()
