"""The commands of a session, its answers, getters and polls, in both drafts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import laps_wire.moqt.session as package
from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    RequestErrorCode,
    SessionCode,
    StreamResetCodeD18,
    SubscribeOptions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    Fetch,
    FetchCancel,
    FetchOk,
    Goaway,
    MaxRequestId,
    NamespaceMessage,
    Publish,
    PublishDone,
    PublishNamespace,
    PublishNamespaceCancel,
    PublishNamespaceDone,
    PublishOk,
    RequestError,
    RequestOk,
    RequestsBlocked,
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
    Action,
    CloseSession,
    Event,
    GoawayReceived,
    Kind,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    OpenStream,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestReceived,
    RequestRejected,
    RequestsAllowed,
    RequestsBlockedError,
    Role,
    Session,
    SessionConfig,
    SetupReceived,
    State,
    Terminated,
    TrackBlocked,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.state import MAX_GAPS
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Redirect, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone, Pair

D16, D18 = Draft.D16, Draft.D18
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
PRIORITY = Parameters(subscriber_priority=7)
BOTH = pytest.mark.parametrize("draft", [D16, D18])
TOKEN = Token.register(1, 0, b"t")

COMMANDS: list[Any] = [
    (lambda s: s.subscribe(TRACK, PRIORITY), lambda i: Subscribe(i, TRACK, PRIORITY)),
    (lambda s: s.publish(TRACK, 7), lambda i: Publish(i, TRACK, 7)),
    (lambda s: s.fetch(RANGE, PRIORITY), lambda i: Fetch(i, RANGE, PRIORITY)),
    (lambda s: s.track_status(TRACK), lambda i: TrackStatus(i, TRACK)),
    (lambda s: s.publish_namespace(NS), lambda i: PublishNamespace(i, NS)),
    (lambda s: s.subscribe_namespace(NS), lambda i: SubscribeNamespace(i, NS)),
    (lambda s: s.subscribe_tracks(NS), lambda i: SubscribeTracks(i, NS)),
]
NAMES = ["subscribe", "publish", "fetch", "track_status", "publish_ns", "subscribe_ns", "tracks"]


@BOTH
@pytest.mark.parametrize(("command", "message"), COMMANDS, ids=NAMES)
@pytest.mark.parametrize("role", list(Role))
def test_a_request_reaches_the_peer(
    draft: Draft, role: Role, command: Callable[[Session], int], message: Callable[[int], Any]
) -> None:
    pair = Pair.established(draft)
    end, hop = (
        (pair.client, pair.to_server) if role is Role.CLIENT else (pair.server, pair.to_client)
    )
    if draft is D16 and isinstance(message(0), SubscribeTracks):
        with pytest.raises(EncodeError, match="draft 16 has no message SUBSCRIBE_TRACKS"):
            command(end.session)
        assert end.session.open_requests == ()
        return
    # The command
    request_id = command(end.session)
    assert request_id == role.value
    assert end.session.request_state(request_id) is State.PENDING
    # One hop
    assert hop() == [RequestReceived(request_id=request_id, message=message(request_id))]
    for session in (pair.client.session, pair.server.session):
        assert session.open_requests == (request_id,)
        assert session.request_state(request_id) is State.PENDING
    # The next one has the next id
    assert end.session.track_status(OTHER) == request_id + 2


def test_draft_16_asks_for_more_than_namespaces() -> None:
    pair = Pair.established(D16)
    pair.client.session.subscribe_namespace(NS, SubscribeOptions.BOTH)
    (event,) = pair.to_server()
    assert isinstance(event, RequestReceived)
    assert event.message == SubscribeNamespace(0, NS, SubscribeOptions.BOTH)


# What is refused here


@BOTH
def test_one_subscription_for_each_role(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.subscribe(TRACK)
    with pytest.raises(StateError, match=r"a subscription to .* already"):
        session.subscribe(TRACK)
    session.publish(TRACK, 7)
    with pytest.raises(StateError, match="the peer has a subscription"):
        session.publish(TRACK, 8)
    session.subscribe(OTHER)
    assert session.open_requests == (0, 2, 4)


@BOTH
def test_an_alias_of_ours_stands_for_one_track(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.publish(TRACK, 7)
    with pytest.raises(StateError, match="alias 7 stands for the track of 0"):
        session.publish(OTHER, 7)
    assert session.publish(OTHER, 8) == 2


def test_reserved_namespaces_are_not_asked_for_in_draft_18() -> None:
    namespace = Namespace.of(b".session")
    with pytest.raises(StateError, match="reserved"):
        Lone.established(D18, Role.CLIENT).session.publish_namespace(namespace)
    assert Lone.established(D16, Role.CLIENT).session.publish_namespace(namespace) == 0


@BOTH
def test_no_new_requests_to_a_peer_that_leaves(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.control(Goaway("moqt://else", request_id=None if draft is D16 else 0))
    with pytest.raises(StateError, match="GOAWAY"):
        lone.session.subscribe(TRACK)
    assert lone.session.going_away


@BOTH
def test_what_a_leaving_peer_has_accepted_can_be_changed(draft: Draft) -> None:
    # GOAWAY speaks of new requests, and REQUEST_UPDATE is not in its list (16: 9.4; 18: 10.4).
    pair = Pair.established(draft)
    request_id = pair.client.session.subscribe(TRACK)
    pair.to_server()
    pair.server.session.accept_subscribe(request_id, 7)
    pair.server.session.goaway()
    pair.settle()
    assert pair.client.session.update(request_id, PRIORITY) == 2
    (event,) = pair.to_server()
    assert isinstance(event, UpdateReceived)
    assert pair.violations == []


def test_an_update_to_a_leaving_peer_can_be_blocked_too() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=2))
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7), Goaway())
    lone.sent()
    with pytest.raises(RequestsBlockedError):
        lone.session.update(0, PRIORITY)
    assert lone.sent() == {0: [RequestsBlocked(2)]}


def test_a_cancelled_request_leaves_no_trace_in_the_tokens() -> None:
    lone = Lone.established(D18, Role.CLIENT, SetupOptions(max_auth_token_cache_size=100))
    session = lone.session
    session.subscribe(TRACK, Parameters(authorization_tokens=(TOKEN,)))
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    use = Parameters(authorization_tokens=(Token.use_alias(1),))
    session.cancel(session.subscribe(OTHER, use))
    session.update(0, use)
    session.cancel(0)
    delete = Parameters(authorization_tokens=(Token.delete(1),))
    with pytest.raises(StateError, match="a cancelled request used it"):
        session.subscribe(OTHER, delete)


@BOTH
def test_nothing_after_the_end(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.close()
    with pytest.raises(StateError, match="closed"):
        lone.session.subscribe(TRACK)
    with pytest.raises(StateError, match="closed"):
        lone.session.update(0, NO_PARAMETERS)


@BOTH
def test_what_cannot_be_written_changes_nothing(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    with pytest.raises(EncodeError):
        lone.session.subscribe(TRACK, Parameters(subscriber_priority=256))
    assert lone.session.open_requests == ()
    assert lone.sent() == {}
    assert lone.session.subscribe(TRACK) == 0


# Draft 16 counts


def test_requests_wait_for_max_request_id() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=3))
    session = lone.session
    assert [session.track_status(TRACK), session.track_status(TRACK)] == [0, 2]
    lone.sent()
    for _ in range(2):
        with pytest.raises(RequestsBlockedError, match="request 4 must wait"):
            session.subscribe(TRACK)
    # It is said once.
    assert lone.sent() == {0: [RequestsBlocked(3)]}
    lone.control(MaxRequestId(5))
    assert lone.events() == [RequestsAllowed(max_request_id=5)]
    assert session.subscribe(TRACK) == 4
    with pytest.raises(RequestsBlockedError):
        session.subscribe(OTHER)
    assert lone.sent() == {0: [Subscribe(4, TRACK), RequestsBlocked(5)]}


def test_nothing_is_asked_before_setup_in_draft_16() -> None:
    lone = Lone(D16, Role.CLIENT)
    lone.sent()
    with pytest.raises(RequestsBlockedError):
        lone.session.subscribe(TRACK)
    assert lone.sent() == {}
    lone.setup(SetupOptions())
    with pytest.raises(RequestsBlockedError):
        lone.session.subscribe(TRACK)
    assert lone.sent() == {0: [RequestsBlocked(0)]}


def test_draft_18_asks_before_setup() -> None:
    lone = Lone(D18, Role.CLIENT)
    lone.sent()
    assert lone.session.subscribe(TRACK) == 0
    assert lone.sent() == {0: [Subscribe(0, TRACK)]}


def test_an_update_is_a_request_too() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=2))
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7))
    with pytest.raises(RequestsBlockedError, match="request 2"):
        lone.session.update(0, PRIORITY)
    lone.control(RequestOk(2))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


# Updates


def accepted(draft: Draft) -> Lone:
    """A client whose SUBSCRIBE 0 the peer accepted."""
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.subscribe(TRACK)
    ok = SubscribeOk(0 if draft is D16 else None, 7)
    lone.on(0 if draft is D16 else lone.stream_of(), ok)
    lone.events()
    lone.sent()
    return lone


@BOTH
def test_an_update_reaches_the_peer(draft: Draft) -> None:
    pair = Pair.established(draft)
    request_id = pair.client.session.subscribe(TRACK)
    pair.to_server()
    pair.server.session.accept_subscribe(request_id, 7)
    pair.to_client()
    update_id = pair.client.session.update(request_id, Parameters(forward=False))
    assert update_id == 2
    message = RequestUpdate(2, 0 if draft is D16 else None, Parameters(forward=False))
    assert pair.to_server() == [UpdateReceived(request_id=0, update_id=2, message=message)]


@BOTH
def test_an_update_waits_for_the_reply(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.subscribe(TRACK)
    with pytest.raises(StateError, match="was not accepted yet"):
        session.update(0, PRIORITY)


@BOTH
def test_only_what_exists_and_allows_it_is_updated(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    with pytest.raises(StateError, match="responder cannot 'update'"):
        lone.session.update(0, PRIORITY)
    with pytest.raises(StateError, match="request 5 does not exist"):
        lone.session.update(5, PRIORITY)


@BOTH
def test_an_update_has_the_parameters_of_its_kind(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    request_id = lone.session.publish_namespace(NS)
    stream_id = 0 if draft is D16 else lone.stream_of()
    lone.on(stream_id, RequestOk(request_id if draft is D16 else None))
    lone.sent()
    with pytest.raises(EncodeError, match="SUBSCRIBER_PRIORITY does not belong"):
        lone.session.update(request_id, PRIORITY)
    assert lone.sent() == {}
    assert lone.session.update(request_id, NO_PARAMETERS) == 2


@BOTH
def test_a_subscriber_updates_what_it_was_offered(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    stream_id = lone.request(Publish(1, TRACK, 7))
    lone.session.accept(1)
    assert lone.session.update(1, Parameters(forward=False)) == 0
    reply_id = 1 if draft is D16 else None
    ok = PublishOk(1) if draft is D16 else RequestOk(None)
    update = RequestUpdate(0, reply_id, Parameters(forward=False))
    assert lone.sent() == {stream_id: [ok, update]}


def test_a_new_prefix_waits_for_its_answer() -> None:
    lone = Lone.established(D18, Role.CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.on(lone.stream_of(), RequestOk())
    prefix = Namespace.of(b"c")
    lone.session.update(0, Parameters(track_namespace_prefix=prefix))
    below = NamespaceMessage(Namespace.of(b"x"))
    lone.on(lone.stream_of(), below, RequestOk(), below)
    found = [event.namespace for event in lone.events() if isinstance(event, NamespaceAdvertised)]
    assert found == [Namespace((*NS.fields, b"x")), Namespace.of(b"c", b"x")]


# Tokens


def tokens(*items: Token) -> Parameters:
    return Parameters(authorization_tokens=items)


CACHE = SetupOptions(max_request_id=100, max_auth_token_cache_size=40)
CACHE18 = SetupOptions(max_auth_token_cache_size=40)


def test_a_registration_counts_against_the_peers_cache() -> None:
    lone = Lone.established(D16, Role.CLIENT, CACHE)
    lone.session.subscribe(TRACK, tokens(Token.register(1, 0, b"x" * 24)))
    with pytest.raises(StateError, match="the peer would close the session"):
        lone.session.subscribe(OTHER, tokens(Token.register(2, 0, b"")))
    assert lone.session.subscribe(OTHER, tokens(Token.use_alias(1))) == 2


def test_draft_18_waits_for_the_answer_before_another_stream_uses_an_alias() -> None:
    lone = Lone.established(D18, Role.CLIENT, CACHE18)
    lone.session.subscribe(TRACK, tokens(TOKEN))
    first = lone.stream_of()
    with pytest.raises(StateError, match="unanswered"):
        lone.session.subscribe(OTHER, tokens(Token.use_alias(1)))
    lone.on(first, RequestError(None, 0))
    assert lone.session.subscribe(OTHER, tokens(Token.use_alias(1))) == 2


def test_an_update_on_the_same_stream_needs_no_answer() -> None:
    lone = Lone.established(D18, Role.CLIENT, CACHE18)
    lone.session.subscribe(TRACK)
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    lone.session.update(0, tokens(TOKEN))
    lone.session.update(0, tokens(Token.use_alias(1)))
    with pytest.raises(StateError, match="request 4 uses it"):
        lone.session.update(0, tokens(Token.delete(1)))
    lone.on(lone.stream_of(), RequestOk(), RequestOk())
    lone.session.update(0, tokens(Token.delete(1)))
    lone.on(lone.stream_of(), RequestOk())
    lone.session.update(0, tokens(Token.register(2, 0, b"x" * 24)))  # all of the cache


def test_accepted_leaves_room_for_updates_of_both_drafts() -> None:
    for draft in (D16, D18):
        lone = accepted(draft)
        assert [lone.session.update(0, PRIORITY) for _ in range(3)] == [2, 4, 6]


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
        for update_id in (2, 4, 6):
            with pytest.raises(StateError):
                end.session.accept(update_id)


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


TRACK = FullTrackName(Namespace.of(b"a"), b"one")


@BOTH
def test_two_sessions_meet(draft: Draft) -> None:
    path = SetupOptions(path="/live", moqt_implementation="laps")
    pair = Pair(draft, client={"options": path})
    client, server = pair.client.session, pair.server.session
    assert [session.established for session in (client, server)] == [False, False]
    # The client's SETUP
    (event,) = pair.to_server()
    assert isinstance(event, SetupReceived)
    assert event.options == client.options
    assert (event.options.path, event.options.moqt_implementation) == ("/live", "laps")
    assert [session.established for session in (client, server)] == [False, True]
    # The server's
    (event,) = pair.to_client()
    assert isinstance(event, SetupReceived)
    assert event.options == server.options
    assert [session.established for session in (client, server)] == [True, True]
    assert (client.draft, client.role, server.role) == (draft, Role.CLIENT, Role.SERVER)
    assert not client.going_away


@BOTH
def test_getters_tell_about_requests(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    session = lone.session
    assert (session.request_state(0), session.request_kind(0)) == (None, None)
    session.subscribe(TRACK)
    lone.request(Subscribe(1, TRACK))
    assert session.open_requests == (0, 1)
    assert (session.request_state(0), session.request_kind(1)) == (State.PENDING, Kind.SUBSCRIBE)


@BOTH
def test_polls_take_things_once(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.session.receive_stream_data(2 if draft is Draft.D16 else 6, b"\x10")
    assert not lone.session.is_idle
    assert len(lone.session.poll_events()) == 1
    assert lone.session.poll_events() == []
    lone.session.publish_namespace(Namespace.of(b"a"))
    assert lone.session.poll_transmit() != []
    assert lone.session.poll_transmit() == []


@BOTH
def test_closing(draft: Draft) -> None:
    pair = Pair.established(draft)
    pair.client.session.close(SessionCode.INTERNAL_ERROR, "bug")
    assert pair.client.session.closed
    assert not pair.client.session.established
    assert pair.client.session.poll_events() == [Terminated(code=1, reason="bug", by_peer=False)]
    assert pair.to_server() == [Terminated(code=1, reason="bug", by_peer=True)]
    assert pair.server.session.closed
    assert pair.server.session.poll_transmit() == []
    pair.client.session.close()
    assert pair.client.session.poll_transmit() == []


@BOTH
def test_a_lost_connection(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.receive_connection_lost()
    assert lone.events() == [Terminated(code=0, reason="", by_peer=True)]
    assert lone.session.poll_transmit() == []


def test_ends_of_streams_reach_the_session() -> None:
    lone = Lone.established(Draft.D18, Role.CLIENT)
    for end in (lone.session.receive_stream_reset, lone.session.receive_stop_sending):
        request_id = lone.session.subscribe(TRACK)
        end(lone.stream_of(), 5)
        assert lone.events() == [RequestCancelled(request_id=request_id, code=5)]


def test_streams_are_bound_by_the_shell() -> None:
    session = Session(SessionConfig(draft=Draft.D18, role=Role.SERVER))
    (action, _) = session.poll_transmit()
    assert isinstance(action, OpenStream)
    with pytest.raises(StateError):
        session.stream_id(action.stream)
    session.bind_stream(action.stream, 3)
    assert session.stream_id(action.stream) == 3
    assert session.open_streams == 1


@pytest.mark.parametrize("role", list(Role))
@BOTH
def test_what_setup_cannot_say_is_refused_when_the_session_is_made(
    draft: Draft, role: Role
) -> None:
    options = SetupOptions(moqt_implementation="\ud800")
    with pytest.raises(EncodeError):
        Session(SessionConfig(draft=draft, role=role, options=options))


# The package


def test_the_package_exports_every_action_and_event() -> None:
    names = set(package.__all__)
    assert len(names) == len(package.__all__)
    for cls in (*get_args(Action), *get_args(Event)):
        assert cls.__name__ in names
    for name in names:
        assert hasattr(package, name)


def test_close_is_the_last_action() -> None:
    lone = Lone.established(Draft.D18, Role.SERVER)
    lone.session.publish_namespace(Namespace.of(b"a"))
    lone.session.close()
    assert isinstance(lone.session.poll_transmit()[-1], CloseSession)


# The page about it

PAGE = Path(__file__).parents[5] / "docs" / "explanation" / "moqt-session.md"


class Connection:
    """A transport that notes what it is asked to do."""

    def __init__(self) -> None:
        self.streams = 0
        self.done: list[object] = []

    def open_stream(self, unidirectional: bool) -> int:
        self.streams += 1
        return (self.streams - 1) << 2 | unidirectional << 1

    def send(self, stream_id: int, data: bytes, fin: bool) -> None:
        self.done.append(("send", stream_id, bool(data), fin))

    def reset(self, stream_id: int, code: int) -> None:
        self.done.append(("reset", stream_id, code))

    def stop_sending(self, stream_id: int, code: int) -> None:
        self.done.append(("stop", stream_id, code))

    def close(self, code: int, reason: str) -> None:
        self.done.append(("close", code, reason))

    def take_over(self, stream_id: int, data: bytes, fin: bool) -> None:
        self.done.append(("data", stream_id, data, fin))

    def handle(self, event: Event) -> None:
        self.done.append(type(event).__name__)


def test_the_loop_that_the_page_shows_works() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = dict(vars(package))
    exec(text.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - it is our own page
    after = names["after"]
    connection = Connection()
    session = Session(SessionConfig(draft=Draft.D18, role=Role.CLIENT))
    session.subscribe(TRACK)
    after(session, connection, connection, connection)
    session.receive_stream_data(3, b"\xaf\x00\x00\x00")
    session.receive_stream_data(7, b"\x10x", True)
    session.cancel(0)
    session.close(0, "bye")
    after(session, connection, connection, connection)
    assert connection.done == [
        ("send", 2, True, False),
        ("send", 4, True, False),
        ("reset", 4, 1),
        ("stop", 4, 1),
        ("close", 0, "bye"),
        "SetupReceived",
        ("data", 7, b"\x10x", True),
        "Terminated",
    ]


def test_the_page_names_every_command_event_and_state() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for state in State:
        assert state.name in text
    for name in ("accept_subscribe", "accept_fetch", "fetch_ended", "publish_done", "bind_stream"):
        assert f"`{name}`" in text
    assert "256" in text
    assert SessionConfig(draft=Draft.D16, role=Role.CLIENT).limits.max_ended == 256
    assert f"up to {MAX_GAPS[Draft.D16]} ids" in text
