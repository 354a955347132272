"""What the peer's messages do to a session, and how a session and its requests end."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Goaway,
    MaxRequestId,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    RequestError,
    RequestOk,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    TrackStatus,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters, Scope
from laps_wire.moqt.session import (
    AuthToken,
    GoawayReceived,
    Kind,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsBlockedError,
    Role,
    Session,
    SessionConfig,
    SessionLimits,
    SetupReceived,
    State,
    Terminated,
    TrackBlocked,
    Transport,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.core import (
    Core,
    update_scope,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Redirect, RelativeJoiningFetch, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone

D16, D18 = Draft.D16, Draft.D18
CLIENT, SERVER = Role.CLIENT, Role.SERVER
NS = Namespace.of(b"a", b"b")
TRACK = FullTrackName(NS, b"one")
BOTH = pytest.mark.parametrize("draft", [D16, D18])


def rid(draft: Draft, request_id: int) -> int | None:
    return request_id if draft is D16 else None


# The session


@BOTH
def test_a_session_ends_once(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    lone.request(Subscribe(1, TRACK))  # the ids of a client are even
    lone.session.receive_connection_lost(0, "later")
    (end,) = lone.events()
    assert isinstance(end, Terminated)
    assert (end.code, end.by_peer) == (SessionCode.INVALID_REQUEST_ID, False)
    assert (lone.close_code, lone.close_reason) == (end.code, end.reason)
    with pytest.raises(StateError, match="closed"):
        lone.session.subscribe(TRACK)


def test_a_reason_fits_a_packet() -> None:
    lone = Lone.established(D18, SERVER)
    lone.session.close(0, "x" * 5000)
    assert lone.close_reason == "x" * 512


def test_what_the_peer_ended_needs_no_close() -> None:
    lone = Lone.established(D18, SERVER)
    lone.session.receive_connection_lost(0, "bye")
    assert lone.session.poll_transmit() == []
    assert lone.events() == [Terminated(code=0, reason="bye", by_peer=True)]


@BOTH
def test_everything_goes_with_the_session(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0)))
    lone.session.close(SessionCode.UNAUTHORIZED, "no")
    assert lone.session.open_requests == ()
    assert lone.close_code == SessionCode.UNAUTHORIZED


# The end of a request


def test_unanswered_updates_of_both_sides_go_with_the_request() -> None:
    lone = Lone.established(D16, SERVER)
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(1, 7))
    update_id = lone.session.update(1, NO_PARAMETERS)
    lone.control(PublishDone(1, 0, 0))
    # The answer may still come, once.
    lone.control(RequestError(update_id, 0))
    assert lone.close_code is None
    lone.control(RequestError(update_id, 0))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


@BOTH
def test_the_peers_updates_go_with_the_request(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER, limits=SessionLimits(max_requests=3))
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0)), RequestUpdate(4, rid(draft, 0)))
    lone.sent()
    lone.session.cancel(0)
    for update_id in (2, 4):
        with pytest.raises(StateError):
            lone.session.accept(update_id)
    sent = lone.sent()[stream_id]
    if draft is D16:
        assert [item.request_id for item in sent[1:3]] == [2, 4]
        assert sent[3:] == [MaxRequestId(12)], "all three are over"
    else:
        assert sent == [("reset", 1), ("stop", 1)]


@pytest.mark.parametrize(("draft", "overload"), [(D16, 0), (D18, 9)])
def test_giving_up_tells_what_is_lost(draft: Draft, overload: int) -> None:
    lone = Lone.established(draft, CLIENT, limits=SessionLimits(max_namespaces=1))
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.on(stream_id, RequestOk(rid(draft, 0)), NamespaceMessage(Namespace.of(b"c")))
    lone.events()
    lone.on(stream_id, NamespaceMessage(Namespace.of(b"d")))
    assert lone.events() == [
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"c")),
        RequestCancelled(
            request_id=0,
            code=overload,
            reason="too many namespaces are advertised",
            by_peer=False,
        ),
    ]


def test_what_we_advertised_ourselves_is_no_news() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.session.accept(0)
    lone.session.namespace(0, Namespace.of(b"c"))
    lone.events()
    lone.session.receive_stream_reset(stream_id, 1)
    assert lone.events() == [RequestCancelled(request_id=0, code=1)]


def test_a_new_prefix_drops_what_it_does_not_cover() -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    names = [NamespaceMessage(Namespace.of(name)) for name in (b"c", b"d")]
    lone.on(stream_id, RequestOk(), *names)
    lone.session.update(0, Parameters(track_namespace_prefix=Namespace.of(b"a", b"b", b"c")))
    lone.events()
    lone.on(stream_id, RequestOk())
    accepted, withdrawn = lone.events()
    assert isinstance(accepted, UpdateAccepted)
    assert withdrawn == NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"d"))


# Saying no


@BOTH
def test_refusing_an_update(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    lone.events()
    lone.sent()
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    update = RequestUpdate(2, rid(draft, 0), twice)
    lone.on(stream_id, update)
    code, reason = RequestErrorCode.MALFORMED_AUTH_TOKEN, "the same token twice in one message"
    assert lone.events() == [
        RequestRefused(request_id=0, message=update, error_code=code, reason=reason)
    ]
    # A subscription lives on until PUBLISH_DONE says UPDATE_FAILED.
    assert lone.sent() == {stream_id: [RequestError(rid(draft, 2), code, 0, reason)]}
    assert lone.session.request_state(0) is State.FAILING


@BOTH
def test_refusing_an_update_before_the_reply_refuses_the_request(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0), twice))
    assert lone.session.open_requests == ()
    assert lone.sent()[stream_id][0].request_id == rid(draft, 0)


def test_rejecting_an_update_answers_those_behind_it_in_draft_18() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.on(stream_id, RequestUpdate(2), RequestUpdate(4))
    lone.sent()
    lone.session.reject(2, 0, "no")
    assert lone.sent() == {stream_id: [RequestError(None, 0, 0, "no"), "fin"]}
    assert lone.session.open_requests == ()
    with pytest.raises(StateError):
        lone.session.accept(4)


def test_draft_16_answers_updates_one_by_one() -> None:
    lone = Lone.established(D16, SERVER)
    lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.control(RequestUpdate(2, 0), RequestUpdate(4, 0))
    lone.session.reject(4, 0)
    lone.session.accept(2)
    for update_id in (2, 4):
        with pytest.raises(StateError):
            lone.session.accept(update_id)


def test_a_server_of_draft_16_has_no_control_stream_at_first() -> None:
    core = Core(SessionConfig(draft=D16, role=SERVER))
    with pytest.raises(StateError, match="no control stream yet"):
        core.control_stream()


TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(5, 0), Location(9, 0))
VIOLATION = 0x3


def asked(draft: Draft, command: Any) -> tuple[Lone, int]:
    """A client that has made a request, and the stream on which its answers come."""
    lone = Lone.established(draft, CLIENT)
    command(lone.session)
    own_stream = draft is D18 or lone.session.request_kind(0) is Kind.SUBSCRIBE_NAMESPACE
    stream_id = lone.stream_of() if own_stream else lone.control_id
    lone.sent()
    return lone, stream_id


# SETUP and GOAWAY


@BOTH
def test_setup_tells_options_and_tokens(draft: Draft) -> None:
    lone = Lone(draft, SERVER)
    options = SetupOptions(
        path="/p",
        authority="relay",
        moqt_implementation="test",
        authorization_tokens=(Token.register(1, 7, b"secret"), Token.use_value(0, b"x")),
        unknown=(KeyValue(0x40, 5),),
    )
    lone.setup(options)
    tokens = (AuthToken(7, b"secret"), AuthToken(0, b"x"))
    assert lone.events() == [SetupReceived(options=options, tokens=tokens)]
    # What SETUP registered can be used.
    lone.request(Subscribe(0, TRACK, Parameters(authorization_tokens=(Token.use_alias(1),))))
    (event,) = lone.events()
    assert isinstance(event, RequestReceived)
    assert event.tokens == (AuthToken(7, b"secret"),)


@BOTH
def test_setup_without_options_allows_nothing(draft: Draft) -> None:
    lone = Lone.established(draft, CLIENT, SetupOptions())
    register = Parameters(authorization_tokens=(Token.register(1, 0, b""),))
    with pytest.raises(RequestsBlockedError if draft is D16 else StateError):
        lone.session.subscribe(TRACK, register)
    if draft is D18:
        lone.session.subscribe(TRACK)


def test_goaway_reaches_the_application() -> None:
    lone = Lone.established(D18, CLIENT)
    message = Goaway("moqt://else", 100, 0)
    lone.control(message)
    assert lone.events() == [GoawayReceived(message=message)]


def test_goaway_for_a_request_that_is_over_is_checked_and_dropped() -> None:
    lone, stream_id = asked(D18, lambda s: s.fetch(RANGE))
    lone.on(stream_id, FetchOk(None, False, Location(9, 0)))
    lone.session.fetch_ended(0)
    lone.events()
    lone.on(stream_id, Goaway())
    assert lone.events() == []
    lone.on(stream_id, Goaway())
    assert lone.close_code == VIOLATION


def test_goaway_for_a_request() -> None:
    lone, stream_id = asked(D18, lambda s: s.subscribe(TRACK))
    lone.on(stream_id, Goaway("moqt://else"))
    assert lone.events() == [RequestGoaway(request_id=0, message=Goaway("moqt://else"))]
    lone.on(stream_id, SubscribeOk(None, 1))
    assert lone.session.request_state(0) is State.ESTABLISHED


# Replies to what we cancelled


def test_draft_16_drops_what_crossed_our_end() -> None:
    lone, _ = asked(D16, lambda s: s.subscribe(TRACK))
    lone.session.cancel(0)
    lone.control(SubscribeOk(0, 7), PublishDone(0, 0, 0))
    assert lone.events() == []
    assert lone.close_code is None
    # The alias that it would have had is free.
    lone.session.subscribe(OTHER)
    lone.control(SubscribeOk(2, 7))
    assert lone.session.request_state(2) is State.ESTABLISHED


def test_draft_16_drops_a_rejection_of_what_we_cancelled() -> None:
    lone, _ = asked(D16, lambda s: s.subscribe(TRACK))
    lone.session.cancel(0)
    lone.control(RequestError(0, 0))
    assert lone.events() == []
    assert lone.close_code is None


def test_draft_18_hears_nothing_on_a_stream_that_it_gave_up() -> None:
    lone, stream_id = asked(D18, lambda s: s.subscribe(TRACK))
    lone.session.cancel(0)
    lone.on(stream_id, SubscribeOk(None, 7), SubscribeOk(None, 7), fin=True)
    assert lone.events() == []
    assert lone.close_code is None
    assert lone.session.open_streams == 2


# OK


@BOTH
def test_two_subscriptions_to_a_track_may_share_its_alias(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.subscribe(TRACK))
    lone.request(Publish(1, TRACK, 7))
    lone.on(stream_id, SubscribeOk(rid(draft, 0), 7))
    assert lone.close_code is None
    assert lone.session.request_state(0) is State.ESTABLISHED


@BOTH
def test_an_alias_is_free_again_after_the_end(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.subscribe(TRACK))
    lone.on(stream_id, SubscribeOk(rid(draft, 0), 7), PublishDone(rid(draft, 0), 0, 0))
    assert [type(event) for event in lone.events()] == [RequestAccepted, PublishEnded]
    lone.request(Publish(1, OTHER, 7))
    assert lone.close_code is None


def test_draft_16_ignores_parameters_that_do_not_belong() -> None:
    lone, _ = asked(D16, lambda s: s.publish_namespace(NS))
    lone.control(RequestOk(0, Parameters(expires=5)))
    assert lone.close_code is None
    assert lone.session.request_state(0) is State.ESTABLISHED


def test_a_track_status_has_track_properties_in_draft_18() -> None:
    lone, stream_id = asked(D18, lambda s: s.track_status(TRACK))
    ok = RequestOk(None, Parameters(expires=1), (KeyValue(0x04, 9),))
    lone.on(stream_id, ok, fin=True)
    assert lone.events() == [RequestAccepted(request_id=0, message=ok)]
    assert lone.session.open_streams == 2


def test_track_properties_in_an_update_ok() -> None:
    lone, stream_id = asked(D18, lambda s: s.publish_namespace(NS))
    lone.on(stream_id, RequestOk())
    lone.session.update(0, NO_PARAMETERS)
    lone.on(stream_id, RequestOk(None, NO_PARAMETERS, (KeyValue(0x04, 9),)))
    assert lone.close_code == VIOLATION
    assert "track properties in REQUEST_OK to a REQUEST_UPDATE" in lone.close_reason


# Errors and redirects


def test_a_redirect_to_a_client() -> None:
    lone, stream_id = asked(D18, lambda s: s.publish_namespace(NS))
    redirect = Redirect("moqt://else", FullTrackName(NS, b""))
    error = RequestError(None, RequestErrorCode.REDIRECT, 0, "", redirect)
    lone.on(stream_id, error)
    assert lone.events() == [RequestRejected(request_id=0, message=error)]


def test_a_redirect_of_a_server_stays_here() -> None:
    lone = Lone.established(D18, SERVER)
    request_id = lone.session.subscribe(TRACK)
    redirect = Redirect("", OTHER)
    error = RequestError(None, RequestErrorCode.REDIRECT, 0, "", redirect)
    lone.on(lone.stream_of(), error)
    assert lone.events() == [RequestRejected(request_id=request_id, message=error)]


def test_an_unknown_error_code_is_an_error_all_the_same() -> None:
    lone, stream_id = asked(D18, lambda s: s.subscribe(TRACK))
    lone.on(stream_id, RequestError(None, 0x9D))
    (event,) = lone.events()
    assert isinstance(event, RequestRejected)


# Updates of the peer


@BOTH
def test_an_update_changes_what_we_know(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    lone.events()
    tokens = (Token.use_value(0, b"x"),)
    parameters = Parameters(forward=False, authorization_tokens=tokens)
    update = RequestUpdate(2, rid(draft, 0), parameters)
    lone.on(stream_id, update)
    assert lone.events() == [
        UpdateReceived(request_id=0, update_id=2, message=update, tokens=(AuthToken(0, b"x"),))
    ]
    if draft is D18:
        lone.sent()
        joining = lone.request(Fetch(4, RelativeJoiningFetch(0, 1)))
        reason = "the subscription's Forward State is 0"
        refused = RequestError(None, RequestErrorCode.INVALID_RANGE, 0, reason)
        assert lone.sent() == {joining: [refused, "fin"]}


@BOTH
def test_a_bad_token_fails_the_update(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.events()
    lone.sent()
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0), twice))
    (event,) = lone.events()
    assert isinstance(event, RequestRefused)
    assert (event.request_id, event.error_code) == (0, RequestErrorCode.MALFORMED_AUTH_TOKEN)
    error = RequestError(
        rid(draft, 2),
        RequestErrorCode.MALFORMED_AUTH_TOKEN,
        0,
        "the same token twice in one message",
    )
    assert lone.sent() == {stream_id: [error] if draft is D16 else [error, "fin"]}


@BOTH
@pytest.mark.parametrize("ended", [False, True])
def test_a_bad_token_before_our_reply_fails_the_request(draft: Draft, ended: bool) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Fetch(0, RANGE))
    if ended:
        lone.session.fetch_ended(0)
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0), twice))
    assert lone.session.open_requests == ()
    (sent,) = lone.sent().values()
    assert isinstance(sent[0], RequestError)
    assert sent[0].request_id == rid(draft, 0)
    if draft is D16:
        # The update gets its answer too.
        assert sent[1].request_id == 2


def test_two_updates_cannot_ask_for_one_prefix() -> None:
    # Both would be accepted otherwise: neither overlaps with what is established (18: 10.9.2).
    lone = Lone.established(D18, SERVER)
    streams = [lone.request(SubscribeNamespace(i, Namespace.of(b"%d" % i))) for i in (0, 2)]
    for request_id in (0, 2):
        lone.session.accept(request_id)
    lone.events()
    wish = Parameters(track_namespace_prefix=Namespace.of(b"x"))
    lone.on(streams[0], RequestUpdate(4, None, wish))
    lone.on(streams[1], RequestUpdate(6, None, wish))
    first, second = lone.events()
    assert isinstance(first, UpdateReceived)
    assert isinstance(second, RequestRefused)
    assert second.error_code == RequestErrorCode.PREFIX_OVERLAP


def test_a_new_prefix_that_overlaps_ends_the_subscription() -> None:
    lone = Lone.established(D18, SERVER)
    lone.request(SubscribeNamespace(0, Namespace.of(b"x")))
    stream_id = lone.request(SubscribeNamespace(2, NS))
    for request_id in (0, 2):
        lone.session.accept(request_id)
    lone.sent()
    lone.events()
    update = RequestUpdate(4, None, Parameters(track_namespace_prefix=Namespace.of(b"x", b"y")))
    lone.on(stream_id, update)
    (event,) = lone.events()
    assert isinstance(event, RequestRefused)
    assert event.error_code == RequestErrorCode.PREFIX_OVERLAP
    assert lone.session.open_requests == (0,)
    # Its own old prefix is no obstacle.
    lone.on(0, RequestUpdate(6, None, Parameters(track_namespace_prefix=Namespace.of(b"x", b"y"))))
    (event,) = lone.events()
    assert isinstance(event, UpdateReceived)


def test_too_many_updates_end_a_request_in_draft_18() -> None:
    lone = Lone.established(D18, SERVER, limits=SessionLimits(max_updates=2))
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.sent()
    lone.on(stream_id, RequestUpdate(2), RequestUpdate(4))
    assert lone.session.open_requests == (0,)
    lone.on(stream_id, RequestUpdate(6))
    assert lone.events()[-1] == RequestCancelled(
        request_id=0, code=0x9, reason="too many updates wait for an answer", by_peer=False
    )
    assert lone.sent() == {stream_id: [("reset", 0x9), ("stop", 0x9)]}
    with pytest.raises(StateError):
        lone.session.accept(2)


def test_draft_16_limits_updates_by_their_ids() -> None:
    lone = Lone.established(D16, SERVER, limits=SessionLimits(max_updates=1))
    lone.request(PublishNamespace(0, NS))
    lone.control(RequestUpdate(2, 0), RequestUpdate(4, 0))
    assert lone.session.open_requests == (0,)


def test_an_update_of_what_we_ended() -> None:
    for draft in (D16, D18):
        lone = Lone.established(draft, SERVER)
        stream_id = lone.request(Subscribe(0, TRACK))
        lone.session.accept_subscribe(0, 7)
        lone.session.publish_done(0, 0, 0)
        lone.sent()
        lone.events()
        lone.on(stream_id, RequestUpdate(2, rid(draft, 0)))
        assert lone.events() == []
        late = RequestError(2, 0, 0, "the request is over")
        assert lone.sent() == ({stream_id: [late]} if draft is D16 else {})


# Answers to our updates


@BOTH
def test_answers_to_updates_of_what_we_ended_are_dropped(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.fetch(RANGE))
    lone.on(stream_id, FetchOk(rid(draft, 0), False, Location(9, 0)))
    first, second = (lone.session.update(0, NO_PARAMETERS) for _ in range(2))
    lone.session.fetch_ended(0)
    lone.events()
    lone.on(stream_id, RequestOk(rid(draft, first)))
    lone.on(stream_id, RequestError(rid(draft, second), 0))
    assert lone.events() == []
    assert lone.close_code is None


@BOTH
def test_a_failed_update_of_a_fetch_leaves_its_data_to_tell(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.fetch(RANGE))
    lone.on(stream_id, FetchOk(rid(draft, 0), False, Location(9, 0)))
    update_id = lone.session.update(0, NO_PARAMETERS)
    lone.events()
    error = RequestError(rid(draft, update_id), 0)
    lone.on(stream_id, error)
    assert lone.events() == [UpdateRejected(request_id=0, update_id=update_id, message=error)]
    assert lone.session.request_state(0) is State.ESTABLISHED


@BOTH
def test_an_update_ok(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.publish_namespace(NS))
    lone.on(stream_id, RequestOk(rid(draft, 0)))
    update_id = lone.session.update(0, NO_PARAMETERS)
    lone.events()
    ok = RequestOk(rid(draft, update_id))
    lone.on(stream_id, ok)
    assert lone.events() == [UpdateAccepted(request_id=0, update_id=update_id, message=ok)]


# Namespaces


@BOTH
def test_too_many_namespaces_end_our_subscription(draft: Draft) -> None:
    lone = Lone.established(draft, CLIENT, limits=SessionLimits(max_namespaces=2))
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    names = [Namespace.of(name) for name in (b"1", b"2", b"3")]
    lone.sent()
    lone.on(stream_id, RequestOk(rid(draft, 0)), *(NamespaceMessage(name) for name in names))
    code = 0x9 if draft is D18 else 0x0
    assert [type(event) for event in lone.events()] == [
        RequestAccepted,
        NamespaceAdvertised,
        NamespaceAdvertised,
        NamespaceWithdrawn,
        NamespaceWithdrawn,
        RequestCancelled,
    ]
    assert lone.sent() == {stream_id: [("reset", code), ("stop", code)]}


@BOTH
def test_namespaces_for_what_we_cancelled_gracefully_are_dropped(draft: Draft) -> None:
    lone = Lone.established(draft, CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.on(stream_id, RequestOk(rid(draft, 0)))
    lone.session.cancel(0)
    lone.events()
    lone.on(stream_id, NamespaceMessage(Namespace.of(b"c")))
    assert lone.events() == []


def test_namespace_done_needs_its_namespace() -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.on(
        lone.stream_of(), RequestOk(), NamespaceMessage(Namespace()), NamespaceDone(Namespace())
    )
    assert lone.close_code is None
    lone.on(lone.stream_of(), NamespaceDone(Namespace()))
    assert lone.close_code == VIOLATION


def test_publish_blocked_joins_the_prefix() -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.subscribe_tracks(NS)
    lone.on(lone.stream_of(), RequestOk(), PublishBlocked(FullTrackName(Namespace(), b"n")))
    assert lone.events()[-1] == TrackBlocked(request_id=0, track=FullTrackName(NS, b"n"))


@pytest.mark.parametrize(
    "name",
    [
        FullTrackName(Namespace((b"x",) * 31), b""),
        FullTrackName(Namespace.of(b"x" * 2000), b"y" * 2096),
    ],
)
def test_publish_blocked_with_an_impossible_name(name: FullTrackName) -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.subscribe_tracks(NS)
    lone.on(lone.stream_of(), RequestOk(), PublishBlocked(name))
    assert lone.close_code == VIOLATION
    assert "together" in lone.close_reason


# Scopes


def test_which_parameters_an_update_may_carry() -> None:
    assert update_scope(Kind.SUBSCRIBE) is Scope.UPDATE_SUBSCRIPTION
    assert update_scope(Kind.PUBLISH) is Scope.UPDATE_SUBSCRIPTION
    assert update_scope(Kind.FETCH) is Scope.UPDATE_FETCH
    assert update_scope(Kind.SUBSCRIBE_TRACKS) is Scope.UPDATE_PREFIX
    assert update_scope(Kind.PUBLISH_NAMESPACE) is Scope.UPDATE_OTHER


# STOP_SENDING before the request


def test_a_request_that_was_cancelled_before_it_arrived() -> None:
    for draft, message in ((D18, TrackStatus(0, TRACK)), (D16, SubscribeNamespace(0, NS))):
        lone = Lone.established(draft, SERVER)
        stream_id = 0 if draft is D18 else 4
        lone.session.receive_stop_sending(stream_id, 1)
        lone.on(stream_id, message)
        assert lone.events() == []
        assert lone.session.open_requests == ()
        assert lone.close_code is None


# Faults that are found here; test_violations has all of them


def breaks(lone: Lone, *words: str, code: int = VIOLATION) -> None:
    assert lone.close_code == code, lone.close_reason
    for word in words:
        assert word in lone.close_reason


@BOTH
def test_a_control_stream_that_begins_wrong(draft: Draft) -> None:
    lone = Lone.established(draft, CLIENT)
    goaway = Goaway(request_id=None if draft is D16 else 0)
    lone.control(goaway, goaway)
    breaks(lone, "GOAWAY on a control stream that is leaving")


@pytest.mark.parametrize(
    ("message", "code", "word"),
    [
        (Goaway(request_id=2), 0x4, "GOAWAY names request 2"),
        (Goaway("moqt://else", 0, 1), VIOLATION, "new session URI"),
    ],
)
def test_a_goaway_that_cannot_be(message: Goaway, code: int, word: str) -> None:
    lone = Lone.established(D18, SERVER)
    lone.control(message)
    breaks(lone, word, code=code)


def test_a_goaway_of_a_request_that_cannot_be() -> None:
    lone, stream_id = asked(D18, lambda s: s.subscribe(TRACK))
    lone.on(stream_id, Goaway(request_id=1))
    breaks(lone, "with a request id")


@BOTH
def test_an_ok_of_the_wrong_kind(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.subscribe(TRACK))
    lone.on(stream_id, FetchOk(rid(draft, 0), False, Location(9, 0)))
    breaks(lone, "FETCH_OK in reply to SUBSCRIBE 0")


def test_redirects_that_cannot_be() -> None:
    lone = Lone.established(D18, SERVER)
    lone.session.subscribe(TRACK)
    redirect = Redirect("moqt://else", TRACK)
    lone.on(lone.stream_of(), RequestError(None, RequestErrorCode.REDIRECT, 0, "", redirect))
    breaks(lone, "connect URI")
    lone, stream_id = asked(D18, lambda s: s.publish_namespace(NS))
    lone.on(stream_id, RequestError(None, RequestErrorCode.REDIRECT, 0, "", Redirect("", TRACK)))
    breaks(lone, "with a track name")


@BOTH
def test_a_namespace_that_cannot_be(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.subscribe_namespace(NS))
    lone.on(stream_id, RequestOk(rid(draft, 0)), NamespaceMessage(Namespace((b"x",) * 31)))
    breaks(lone, "prefix and suffix together")


@BOTH
def test_a_namespace_comes_and_goes(draft: Draft) -> None:
    lone, stream_id = asked(draft, lambda s: s.subscribe_namespace(NS))
    suffix, whole = Namespace.of(b"c"), Namespace.of(b"a", b"b", b"c")
    lone.on(stream_id, RequestOk(rid(draft, 0)), NamespaceMessage(suffix), NamespaceDone(suffix))
    assert lone.events()[1:] == [
        NamespaceAdvertised(request_id=0, namespace=whole),
        NamespaceWithdrawn(request_id=0, namespace=whole),
    ]


# More ends


def test_a_request_refused_by_the_session_is_not_the_applications() -> None:
    lone = Lone.established(D18, SERVER)
    lone.request(Subscribe(0, TRACK))
    lone.events()
    lone.request(Subscribe(2, TRACK))
    assert [type(event) for event in lone.events()] == [RequestRefused]


def test_a_prefix_moves_with_its_answer() -> None:
    lone, stream_id = asked(D18, lambda s: s.subscribe_namespace(NS))
    lone.on(stream_id, RequestOk(), NamespaceMessage(Namespace.of(b"c")))
    prefix = Namespace.of(b"z")
    lone.session.update(0, Parameters(track_namespace_prefix=prefix))
    lone.events()
    lone.on(stream_id, RequestOk())
    assert lone.events()[1:] == [
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"c"))
    ]


def test_a_failed_update_ends_a_namespace_request() -> None:
    lone, stream_id = asked(D18, lambda s: s.publish_namespace(NS))
    lone.on(stream_id, RequestOk())
    lone.session.update(0, NO_PARAMETERS)
    lone.events()
    lone.on(stream_id, RequestError(None, 0))
    assert [type(event) for event in lone.events()] == [UpdateRejected, RequestCancelled]


@BOTH
def test_the_peer_cancels(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.events()
    lone.session.receive_stream_reset(stream_id, 5)
    assert lone.events() == [RequestCancelled(request_id=0, code=5)]
    stream_id = lone.request(SubscribeNamespace(2, NS))
    lone.events()
    lone.raw(stream_id, b"", fin=True)
    assert lone.events() == [RequestCancelled(request_id=2, reason="its stream was closed")]


def test_a_cancel_that_crosses_our_end_is_dropped() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.request(Fetch(0, RANGE))
    lone.session.accept_fetch(0, Location(9, 0))
    lone.session.fetch_ended(0)
    lone.events()
    lone.session.receive_stop_sending(stream_id, 1)
    assert lone.events() == []


def test_an_answer_frees_the_aliases_of_its_message() -> None:
    for answer in (SubscribeOk(None, 1), RequestError(None, 0)):
        options = SetupOptions(max_auth_token_cache_size=40)
        lone = Lone.established(D18, CLIENT, options)
        register = Parameters(authorization_tokens=(Token.register(1, 0, b"t"),))
        lone.session.subscribe(TRACK, register)
        lone.on(lone.stream_of(), answer)
        use = Parameters(authorization_tokens=(Token.use_alias(1),))
        assert lone.session.subscribe(OTHER, use) == 2


PATH = SetupOptions(path="/live?x=1")
AUTHORITY = SetupOptions(authority="relay.example:443")


@BOTH
@pytest.mark.parametrize("options", [PATH, AUTHORITY, SetupOptions()])
def test_a_client_over_quic_says_where_it_goes(draft: Draft, options: SetupOptions) -> None:
    lone = Lone(draft, SERVER)
    lone.setup(options)
    assert lone.session.established
    assert lone.close_code is None


@pytest.mark.parametrize(
    ("sender", "transport", "where"),
    [
        (SERVER, Transport.QUIC, "from a server"),
        (SERVER, Transport.WEBTRANSPORT, "from a server"),
        (CLIENT, Transport.WEBTRANSPORT, "over WebTransport"),
    ],
)
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (SetupOptions(), None),
        (PATH, SessionCode.INVALID_PATH),
        (AUTHORITY, SessionCode.INVALID_AUTHORITY),
    ],
)
@BOTH
def test_nobody_else_does(
    draft: Draft,
    sender: Role,
    transport: Transport,
    where: str,
    options: SetupOptions,
    code: int | None,
) -> None:
    lone = Lone(draft, sender.peer, transport=transport)
    lone.setup(options)
    assert lone.close_code == code
    assert code is None or where in lone.close_reason


@pytest.mark.parametrize(("draft", "maximum"), [(D16, 20), (D18, None)])
def test_our_setup_tells_our_limits(draft: Draft, maximum: int | None) -> None:
    limits = SessionLimits(max_requests=10, max_token_cache=99)
    lone = Lone(draft, CLIENT, options=PATH, limits=limits)
    ((setup,),) = lone.sent().values()
    assert setup.options == SetupOptions(
        path="/live?x=1", max_request_id=maximum, max_auth_token_cache_size=99
    )


def test_no_cache_is_the_default_and_need_not_be_told() -> None:
    lone = Lone(D18, SERVER, limits=SessionLimits(max_token_cache=0))
    ((setup,),) = lone.sent().values()
    assert setup.options == SetupOptions()


@pytest.mark.parametrize(
    "tokens",
    [
        (Token.use_alias(1),),
        (Token.delete(1),),
        (Token.use_value(0, b"x"), Token.use_value(0, b"x")),
        (Token.register(1, 0, b"x"), Token.register(1, 0, b"y")),
    ],
    ids=["use", "delete", "same token", "same alias"],
)
def test_our_tokens_are_held_to_the_rules(tokens: tuple[Token, ...]) -> None:
    # Our own mistake, so not the error that says that the peer made one.
    options = SetupOptions(authorization_tokens=tokens)
    with pytest.raises(StateError, match="our own SETUP"):
        Session(SessionConfig(draft=D18, role=CLIENT, options=options))


@BOTH
@pytest.mark.parametrize("options", [PATH, AUTHORITY])
def test_our_setup_is_held_to_the_rules(draft: Draft, options: SetupOptions) -> None:
    with pytest.raises(StateError, match="our own SETUP"):
        Session(SessionConfig(draft=draft, role=SERVER, options=options))
