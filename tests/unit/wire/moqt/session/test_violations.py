"""One case for each way to break the protocol, and the code that the draft names for it.

Each case is a peer that does one wrong thing to a session that is otherwise in order. The session
must close with that code, say what was wrong, tell the application, and ignore what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from laps_wire.moqt.codepoints import FilterType, RequestErrorCode, SessionCode
from laps_wire.moqt.control import encode
from laps_wire.moqt.messages import (
    ClientSetup,
    Fetch,
    FetchCancel,
    FetchOk,
    Goaway,
    MaxRequestId,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    PublishNamespaceCancel,
    PublishNamespaceDone,
    PublishOk,
    RelativeJoiningFetch,
    RequestError,
    RequestOk,
    RequestUpdate,
    ServerSetup,
    Setup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import Role, SessionLimits, Terminated, Transport
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Redirect, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone

D16, D18 = Draft.D16, Draft.D18
CLIENT, SERVER = Role.CLIENT, Role.SERVER
BOTH = (D16, D18)
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
STANDALONE = StandaloneFetch(TRACK, Location(5, 0), Location(9, 0))

TWO_REQUESTS = SessionLimits(max_requests=2)

Break = Callable[[Lone], object]
CASES: list[Any] = []


def case(
    code: SessionCode,
    *words: str,
    drafts: tuple[Draft, ...] = BOTH,
    role: Role = SERVER,
    setup: bool = True,
    **config: Any,
) -> Callable[[Break], Break]:
    """Register a case: the code and the words that must be seen; ``role`` is who is offended."""

    def register(function: Break) -> Break:
        CASES.extend(
            pytest.param(
                draft, role, setup, config, function, code, words,
                id=f"{draft.name}-{role.name}-{function.__name__}",
            )
            for draft in drafts
        )  # fmt: skip
        return function

    return register


@pytest.mark.parametrize(("draft", "role", "setup", "config", "do", "code", "words"), CASES)
def test_violation(
    draft: Draft,
    role: Role,
    setup: bool,
    config: dict[str, Any],
    do: Break,
    code: SessionCode,
    words: tuple[str, ...],
) -> None:
    lone = Lone.established(draft, role, **config) if setup else Lone(draft, role, **config)
    do(lone)
    assert lone.close_code == code, lone.close_reason
    for word in words:
        assert word in lone.close_reason
    ended = lone.events()[-1]
    assert ended == Terminated(code=code, reason=lone.close_reason, by_peer=False)
    # Nothing is heard any more, and nothing is left.
    session = lone.session
    assert session.closed
    assert session.open_requests == ()
    session.receive_stream_data(400, b"\x01\x02\x03", True)
    session.receive_stream_reset(404, 0)
    session.receive_stop_sending(408, 0)
    session.receive_connection_lost(0, "late")
    session.close(SessionCode.INTERNAL_ERROR, "again")
    assert session.poll_transmit() == []
    assert session.poll_events() == []


def reply(lone: Lone, request_id: int) -> int | None:
    return request_id if lone.draft is D16 else None


def answer(lone: Lone, message: Any, stream_id: int | None = None) -> None:
    """The peer says something about a request of ours."""
    if lone.draft is D16 and stream_id is None:
        lone.control(message)
    else:
        lone.on(lone.stream_of() if stream_id is None else stream_id, message)


# SETUP


@case(SessionCode.PROTOCOL_VIOLATION, "GOAWAY", drafts=(D16,), role=CLIENT, setup=False)
def first_message_is_not_setup(lone: Lone) -> None:
    lone.open_control()
    lone.control(Goaway())


@case(SessionCode.PROTOCOL_VIOLATION, "0x3", drafts=(D16,), setup=False)
def first_stream_begins_with_something_else(lone: Lone) -> None:
    lone.bidi(Subscribe(0, TRACK))


@case(SessionCode.PROTOCOL_VIOLATION, "SERVER_SETUP", drafts=(D16,))
def setup_of_the_wrong_role(lone: Lone) -> None:
    lone.control(ServerSetup())


@case(SessionCode.PROTOCOL_VIOLATION, "CLIENT_SETUP", "open", drafts=(D16,))
def setup_twice_16(lone: Lone) -> None:
    lone.control(ClientSetup())


@case(SessionCode.PROTOCOL_VIOLATION, "SETUP", "open", drafts=(D18,))
def setup_twice_18(lone: Lone) -> None:
    lone.control(Setup())


@case(SessionCode.PROTOCOL_VIOLATION, "0x20", drafts=(D16,))
def second_control_stream_16(lone: Lone) -> None:
    lone.bidi(ClientSetup())


@case(SessionCode.PROTOCOL_VIOLATION, "second control stream", drafts=(D18,))
def second_control_stream_18(lone: Lone) -> None:
    lone.on(lone.peer.next_id(unidirectional=True), Setup())


@case(SessionCode.PROTOCOL_VIOLATION, "0x20", drafts=(D16,), role=CLIENT)
def control_stream_from_a_server(lone: Lone) -> None:
    lone.bidi(ClientSetup())


@case(SessionCode.INVALID_PATH, "from a server", role=CLIENT, setup=False)
def path_from_a_server(lone: Lone) -> None:
    lone.setup(SetupOptions(path="/x"))


@case(SessionCode.INVALID_AUTHORITY, "from a server", role=CLIENT, setup=False)
def authority_from_a_server(lone: Lone) -> None:
    lone.setup(SetupOptions(authority="example.net"))


@case(SessionCode.INVALID_PATH, "WebTransport", setup=False, transport=Transport.WEBTRANSPORT)
def path_over_webtransport(lone: Lone) -> None:
    lone.setup(SetupOptions(path="/x"))


@case(SessionCode.INVALID_AUTHORITY, "WebTransport", setup=False, transport=Transport.WEBTRANSPORT)
def authority_over_webtransport(lone: Lone) -> None:
    lone.setup(SetupOptions(authority="example.net"))


def raw_setup(lone: Lone, *pairs: bytes) -> None:
    """A client's SETUP with pairs that our own encoder would refuse to write."""
    lone.open_control()
    body = b"".join(pairs)
    if lone.draft is D16:
        body = bytes([len(pairs)]) + body
        lone.raw(lone.control_id, b"\x20" + len(body).to_bytes(2, "big") + body)
    else:
        lone.raw(lone.control_id, b"\xaf\x00" + len(body).to_bytes(2, "big") + body)


@case(SessionCode.MALFORMED_PATH, "no/slash", setup=False)
def path_that_is_none(lone: Lone) -> None:
    raw_setup(lone, b"\x01\x08no/slash")


@case(SessionCode.MALFORMED_AUTHORITY, "two words", setup=False)
def authority_that_is_none(lone: Lone) -> None:
    raw_setup(lone, b"\x05\x09two words")


@case(SessionCode.PROTOCOL_VIOLATION, "USE_ALIAS in", "SETUP", setup=False)
def setup_uses_an_alias(lone: Lone) -> None:
    raw_setup(lone, b"\x03\x02\x02\x01")


@case(SessionCode.PROTOCOL_VIOLATION, "DELETE in", "SETUP", setup=False)
def setup_deletes_an_alias(lone: Lone) -> None:
    raw_setup(lone, b"\x03\x02\x00\x01")


@case(SessionCode.PROTOCOL_VIOLATION, "USE_ALIAS in", "SETUP", role=CLIENT, setup=False)
def setup_of_a_server_uses_an_alias(lone: Lone) -> None:
    lone.setup(SetupOptions(authorization_tokens=(Token.use_alias(1),)))


@case(SessionCode.MALFORMED_AUTH_TOKEN, "twice", setup=False)
def setup_has_the_same_token_twice(lone: Lone) -> None:
    tokens = (Token.use_value(1, b"t"), Token.use_value(1, b"t"))
    lone.setup(SetupOptions(authorization_tokens=tokens))


@case(SessionCode.PROTOCOL_VIOLATION, setup=False)
def setup_option_twice(lone: Lone) -> None:
    raw_setup(lone, b"\x01\x01/", b"\x00\x01/")


# The control stream


@case(SessionCode.PROTOCOL_VIOLATION, "closed")
def control_stream_is_closed(lone: Lone) -> None:
    lone.raw(lone.control_id, b"", fin=True)


@case(SessionCode.PROTOCOL_VIOLATION, "reset")
def control_stream_is_reset(lone: Lone) -> None:
    lone.session.receive_stream_reset(lone.control_id, 0)


@case(SessionCode.PROTOCOL_VIOLATION, "STOP_SENDING", drafts=(D16,))
def control_stream_is_refused_16(lone: Lone) -> None:
    lone.session.receive_stop_sending(lone.control_id, 0)


@case(SessionCode.PROTOCOL_VIOLATION, "STOP_SENDING", drafts=(D18,))
def control_stream_is_refused_18(lone: Lone) -> None:
    lone.session.receive_stop_sending(lone.stream_of(0), 0)


@case(SessionCode.PROTOCOL_VIOLATION, "STOP_SENDING", drafts=(D16,), setup=False)
def control_stream_is_refused_before_it_arrives(lone: Lone) -> None:
    lone.session.receive_stop_sending(0, 0)
    lone.setup(SetupOptions())


@case(SessionCode.PROTOCOL_VIOLATION, "0x3F", drafts=(D16,))
def unknown_message_type_16(lone: Lone) -> None:
    lone.raw(lone.control_id, b"\x3f\x00\x00")


@case(SessionCode.PROTOCOL_VIOLATION, "0x3F", drafts=(D18,))
def unknown_message_type_18(lone: Lone) -> None:
    lone.raw(lone.control_id, b"\x3f\x00\x00")


@case(SessionCode.PROTOCOL_VIOLATION, drafts=(D16,))
def message_longer_than_its_fields(lone: Lone) -> None:
    lone.raw(lone.control_id, b"\x15\x00\x02\x05\x05")


@case(SessionCode.PROTOCOL_VIOLATION, "SUBSCRIBE does not belong", drafts=(D18,))
def request_on_the_control_stream(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK))


@case(SessionCode.PROTOCOL_VIOLATION, "SUBSCRIBE_NAMESPACE does not belong", drafts=(D16,))
def subscribe_namespace_on_the_control_stream(lone: Lone) -> None:
    lone.control(SubscribeNamespace(0, NS))


@case(SessionCode.PROTOCOL_VIOLATION, "NAMESPACE does not belong", drafts=(D16,))
def namespace_on_the_control_stream(lone: Lone) -> None:
    lone.control(NamespaceMessage(NS))


@case(SessionCode.PROTOCOL_VIOLATION, "0x2a")
def unknown_unidirectional_stream(lone: Lone) -> None:
    lone.raw(lone.peer.next_id(unidirectional=True), b"\x2a")


# GOAWAY


@case(SessionCode.PROTOCOL_VIOLATION, "leaving")
def goaway_twice(lone: Lone) -> None:
    request_id = None if lone.draft is D16 else 1
    lone.control(Goaway(request_id=request_id), Goaway(request_id=request_id))


@case(SessionCode.PROTOCOL_VIOLATION, "URI")
def goaway_with_a_uri_from_a_client(lone: Lone) -> None:
    lone.control(Goaway("moqt://else", request_id=None if lone.draft is D16 else 1))


@case(SessionCode.INVALID_REQUEST_ID, "GOAWAY names request 2", drafts=(D18,))
def goaway_with_the_wrong_parity(lone: Lone) -> None:
    lone.control(Goaway(request_id=2))


@case(SessionCode.PROTOCOL_VIOLATION, "without a request id", drafts=(D18,))
def goaway_without_a_request_id(lone: Lone) -> None:
    lone.control(Goaway())


@case(SessionCode.PROTOCOL_VIOLATION, "with a request id", drafts=(D18,))
def goaway_of_a_request_with_a_request_id(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), Goaway(request_id=1))


@case(SessionCode.PROTOCOL_VIOLATION, "second GOAWAY", drafts=(D18,))
def goaway_of_a_request_twice(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), Goaway(), Goaway())


@case(SessionCode.PROTOCOL_VIOLATION, "URI", drafts=(D18,))
def goaway_of_a_request_with_a_uri_from_a_client(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), Goaway("moqt://else"))


# Request ids


@case(SessionCode.INVALID_REQUEST_ID, "even")
def request_id_of_the_wrong_parity(lone: Lone) -> None:
    lone.request(Subscribe(1, TRACK))


@case(SessionCode.INVALID_REQUEST_ID, "odd", role=CLIENT)
def request_id_of_the_wrong_parity_from_a_server(lone: Lone) -> None:
    lone.request(Subscribe(0, TRACK))


@case(SessionCode.INVALID_REQUEST_ID, "used before", drafts=(D18,))
def request_id_twice_18(lone: Lone) -> None:
    lone.request(Subscribe(0, TRACK))
    lone.request(Subscribe(0, OTHER))


@case(SessionCode.INVALID_REQUEST_ID, "0 after 0", drafts=(D16,))
def request_id_twice_16(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), Subscribe(0, OTHER))


@case(SessionCode.INVALID_REQUEST_ID, "0 after 2", drafts=(D16,))
def request_ids_out_of_order(lone: Lone) -> None:
    lone.control(Subscribe(2, TRACK), Subscribe(0, OTHER))


@case(SessionCode.INVALID_REQUEST_ID, "used before", drafts=(D16,))
def request_id_twice_on_two_streams(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK))
    lone.request(SubscribeNamespace(0, NS))


@case(SessionCode.INVALID_REQUEST_ID, "left out")
def request_ids_left_out(lone: Lone) -> None:
    lone.request(Subscribe(140 if lone.draft is D16 else 4000, TRACK))


@case(SessionCode.INVALID_REQUEST_ID, "used before", drafts=(D18,))
def update_id_used_before(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), RequestUpdate(0))


@case(
    SessionCode.TOO_MANY_REQUESTS,
    "not below 4",
    drafts=(D16,),
    limits=SessionLimits(max_requests=2),
)
def too_many_requests(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), Subscribe(2, OTHER), TrackStatus(4, TRACK))


@case(
    SessionCode.TOO_MANY_REQUESTS,
    "not below 4",
    drafts=(D16,),
    limits=SessionLimits(max_requests=2),
)
def too_many_updates_count_too(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), RequestUpdate(2, 0), RequestUpdate(4, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "must grow", drafts=(D16,))
def max_request_id_stays(lone: Lone) -> None:
    lone.control(MaxRequestId(200))


@case(SessionCode.PROTOCOL_VIOLATION, "must grow", drafts=(D16,))
def max_request_id_shrinks(lone: Lone) -> None:
    lone.control(MaxRequestId(10))


# Replies


def subscribed(lone: Lone) -> int:
    """A subscription of ours that the peer accepted; gives its stream in draft 18."""
    request_id = lone.session.subscribe(TRACK)
    answer(lone, SubscribeOk(reply(lone, request_id), 7))
    return lone.stream_of() if lone.draft is D18 else lone.control_id


@case(SessionCode.PROTOCOL_VIOLATION, "established", role=CLIENT)
def ok_twice(lone: Lone) -> None:
    subscribed(lone)
    answer(lone, SubscribeOk(reply(lone, 0), 7))


@case(SessionCode.PROTOCOL_VIOLATION, role=CLIENT)
def error_after_ok(lone: Lone) -> None:
    subscribed(lone)
    answer(lone, RequestError(reply(lone, 0), 0))


@case(SessionCode.PROTOCOL_VIOLATION, role=CLIENT)
def error_twice(lone: Lone) -> None:
    lone.session.subscribe(TRACK)
    answer(lone, RequestError(reply(lone, 0), 0))
    answer(lone, RequestError(reply(lone, 0), 0))


@case(SessionCode.PROTOCOL_VIOLATION, "'ok'", role=CLIENT)
def ok_twice_after_we_cancelled(lone: Lone) -> None:
    # What comes behind our own end is still checked, where it can be heard.
    if lone.draft is D16:
        lone.session.subscribe(TRACK)
        lone.session.cancel(0)
        lone.control(SubscribeOk(0, 7), SubscribeOk(0, 7))
    else:
        lone.session.fetch(STANDALONE)
        lone.session.fetch_ended(0)
        stream_id = lone.stream_of()
        lone.on(stream_id, FetchOk(None, False, Location(9, 0)))
        lone.on(stream_id, FetchOk(None, False, Location(9, 0)))


@case(SessionCode.PROTOCOL_VIOLATION, "FETCH_OK in reply to SUBSCRIBE", role=CLIENT)
def ok_of_the_wrong_kind(lone: Lone) -> None:
    lone.session.subscribe(TRACK)
    answer(lone, FetchOk(reply(lone, 0), False, Location(9, 0)))


@case(SessionCode.PROTOCOL_VIOLATION, "REQUEST_OK in reply to SUBSCRIBE", role=CLIENT)
def request_ok_for_a_subscribe(lone: Lone) -> None:
    lone.session.subscribe(TRACK)
    answer(lone, RequestOk(reply(lone, 0)))


@case(SessionCode.PROTOCOL_VIOLATION, "REQUEST_OK in reply to PUBLISH", drafts=(D16,), role=CLIENT)
def request_ok_for_a_publish(lone: Lone) -> None:
    lone.session.publish(TRACK, 1)
    lone.control(RequestOk(0))


@case(SessionCode.PROTOCOL_VIOLATION, "does not exist", drafts=(D16,), role=CLIENT)
def reply_to_nothing(lone: Lone) -> None:
    lone.control(SubscribeOk(0, 7))


@case(SessionCode.PROTOCOL_VIOLATION, "requester cannot 'ok'", drafts=(D16,))
def reply_to_the_peers_own_request(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), SubscribeOk(0, 7))


@case(SessionCode.PROTOCOL_VIOLATION, "requester cannot 'ok'", drafts=(D18,))
def reply_on_the_peers_own_stream(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), SubscribeOk(None, 7))


@case(SessionCode.PROTOCOL_VIOLATION, "SUBSCRIBE does not belong", drafts=(D18,))
def second_request_on_a_stream(lone: Lone) -> None:
    lone.on(lone.request(Subscribe(0, TRACK)), Subscribe(2, OTHER))


@case(SessionCode.PROTOCOL_VIOLATION, "0x4", drafts=(D18,))
def stream_that_begins_with_a_reply(lone: Lone) -> None:
    lone.bidi(SubscribeOk(None, 7))


@case(SessionCode.PROTOCOL_VIOLATION, "control stream", drafts=(D16,), role=CLIENT)
def reply_to_subscribe_namespace_on_the_control_stream(lone: Lone) -> None:
    lone.session.subscribe_namespace(NS)
    lone.control(RequestOk(0))


@case(SessionCode.PROTOCOL_VIOLATION, "reply to 2 on the stream of 0", drafts=(D16,), role=CLIENT)
def reply_on_the_wrong_namespace_stream(lone: Lone) -> None:
    lone.session.subscribe_namespace(NS)
    lone.on(lone.stream_of(), RequestOk(2))


@case(SessionCode.PROTOCOL_VIOLATION, "EXPIRES", drafts=(D18,), role=CLIENT)
def parameter_that_this_ok_may_not_carry(lone: Lone) -> None:
    lone.session.publish_namespace(NS)
    answer(lone, RequestOk(None, Parameters(expires=5)))


@case(SessionCode.PROTOCOL_VIOLATION, "track properties", drafts=(D18,), role=CLIENT)
def track_properties_in_the_wrong_ok(lone: Lone) -> None:
    lone.session.publish_namespace(NS)
    lone.on(lone.stream_of(), RequestOk(None, Parameters(), ((0x04, 9),)))  # type: ignore[arg-type]


@case(SessionCode.PROTOCOL_VIOLATION, "before", role=CLIENT)
def fetch_ok_that_ends_before_the_start(lone: Lone) -> None:
    lone.session.fetch(STANDALONE)
    answer(lone, FetchOk(reply(lone, 0), False, Location(4, 9)))


@case(SessionCode.PROTOCOL_VIOLATION, "connect URI", drafts=(D18,))
def redirect_of_a_server_elsewhere(lone: Lone) -> None:
    lone.session.subscribe(TRACK)
    redirect = Redirect("moqt://else", TRACK)
    answer(lone, RequestError(None, RequestErrorCode.REDIRECT, 0, "", redirect))


@case(SessionCode.PROTOCOL_VIOLATION, "track name", drafts=(D18,), role=CLIENT)
def redirect_of_a_namespace_to_a_track(lone: Lone) -> None:
    lone.session.publish_namespace(NS)
    answer(lone, RequestError(None, RequestErrorCode.REDIRECT, 0, "", Redirect("", TRACK)))


# Track aliases


@case(SessionCode.DUPLICATE_TRACK_ALIAS, "alias 7", role=CLIENT)
def alias_of_another_subscription(lone: Lone) -> None:
    subscribed(lone)
    request_id = lone.session.subscribe(OTHER)
    answer(lone, SubscribeOk(reply(lone, request_id), 7))


@case(SessionCode.DUPLICATE_TRACK_ALIAS, "alias 7")
def alias_of_another_publish(lone: Lone) -> None:
    lone.request(Publish(0, TRACK, 7))
    lone.session.accept(0)
    lone.request(Publish(2, OTHER, 7))


# Updates


@case(SessionCode.PROTOCOL_VIOLATION, "does not exist", drafts=(D16,))
def update_of_nothing(lone: Lone) -> None:
    lone.control(RequestUpdate(0, 8))


@case(SessionCode.PROTOCOL_VIOLATION, "'update'")
def update_of_a_track_status(lone: Lone) -> None:
    stream_id = lone.request(TrackStatus(0, TRACK))
    lone.on(stream_id, RequestUpdate(2, reply(lone, 0)))


@case(SessionCode.PROTOCOL_VIOLATION, "responder cannot 'update'", role=CLIENT)
def update_by_the_publisher_of_a_subscribe(lone: Lone) -> None:
    stream_id = subscribed(lone)
    lone.on(stream_id, RequestUpdate(1, reply(lone, 0)))


@case(SessionCode.PROTOCOL_VIOLATION, "FORWARD")
def update_with_a_parameter_of_another_kind(lone: Lone) -> None:
    stream_id = lone.request(Fetch(0, STANDALONE))
    lone.on(stream_id, RequestUpdate(2, reply(lone, 0), Parameters(forward=True)))


@case(SessionCode.PROTOCOL_VIOLATION, "'update'", drafts=(D16,))
def update_behind_unsubscribe(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), Unsubscribe(0), RequestUpdate(2, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "stream of 0", drafts=(D16,))
def update_on_the_wrong_namespace_stream(lone: Lone) -> None:
    lone.control(Subscribe(2, TRACK))
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.on(stream_id, RequestUpdate(4, 2))


@case(SessionCode.PROTOCOL_VIOLATION, "second answer", drafts=(D16,), role=CLIENT)
def update_answered_twice_16(lone: Lone) -> None:
    subscribed(lone)
    update_id = lone.session.update(0, Parameters(forward=True))
    lone.control(RequestOk(update_id), RequestOk(update_id))


@case(SessionCode.PROTOCOL_VIOLATION, "nothing waits", drafts=(D18,), role=CLIENT)
def update_answered_twice_18(lone: Lone) -> None:
    stream_id = subscribed(lone)
    lone.session.update(0, Parameters(forward=True))
    lone.on(stream_id, RequestOk(), RequestOk())


@case(SessionCode.PROTOCOL_VIOLATION, "LARGEST_OBJECT", drafts=(D18,), role=CLIENT)
def update_ok_of_a_publish_is_no_publish_ok(lone: Lone) -> None:
    lone.session.publish(TRACK, 1)
    lone.on(lone.stream_of(), RequestOk(None, Parameters(largest_object=Location(0, 0))))


# Ends


@case(SessionCode.PROTOCOL_VIOLATION, "does not exist", drafts=(D16,))
def unsubscribe_from_nothing(lone: Lone) -> None:
    lone.control(Unsubscribe(0))


@case(SessionCode.PROTOCOL_VIOLATION, "UNSUBSCRIBE for FETCH 0", drafts=(D16,))
def unsubscribe_from_a_fetch(lone: Lone) -> None:
    lone.control(Fetch(0, STANDALONE), Unsubscribe(0))


@case(SessionCode.PROTOCOL_VIOLATION, "terminated", drafts=(D16,))
def unsubscribe_twice(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), Unsubscribe(0), Unsubscribe(0))


@case(SessionCode.PROTOCOL_VIOLATION, "'cancel'", drafts=(D16,))
def unsubscribe_from_what_we_subscribed(lone: Lone) -> None:
    subscribed(lone)
    lone.control(Unsubscribe(1))


@case(SessionCode.PROTOCOL_VIOLATION, "FETCH_CANCEL for SUBSCRIBE 0", drafts=(D16,))
def fetch_cancel_of_a_subscribe(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), FetchCancel(0))


@case(SessionCode.PROTOCOL_VIOLATION, "PUBLISH_NAMESPACE_DONE for SUBSCRIBE 0", drafts=(D16,))
def publish_namespace_done_of_a_subscribe(lone: Lone) -> None:
    lone.control(Subscribe(0, TRACK), PublishNamespaceDone(0))


@case(SessionCode.PROTOCOL_VIOLATION, "wrong side", drafts=(D16,))
def publish_namespace_cancel_of_its_own(lone: Lone) -> None:
    lone.control(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.control(PublishNamespaceCancel(0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "wrong side", drafts=(D16,), role=CLIENT)
def publish_namespace_done_of_ours(lone: Lone) -> None:
    lone.session.publish_namespace(NS)
    lone.control(RequestOk(0), PublishNamespaceDone(0))


@case(SessionCode.PROTOCOL_VIOLATION, "'cancel'", drafts=(D16,), role=CLIENT)
def publish_namespace_cancel_before_ok(lone: Lone) -> None:
    lone.session.publish_namespace(NS)
    lone.control(PublishNamespaceCancel(0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "'done'", role=CLIENT)
def publish_done_before_subscribe_ok(lone: Lone) -> None:
    lone.session.subscribe(TRACK)
    answer(lone, PublishDone(reply(lone, 0), 0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "'done'")
def publish_done_from_the_subscriber(lone: Lone) -> None:
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 1)
    lone.on(stream_id, PublishDone(reply(lone, 0), 0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "PUBLISH_DONE for FETCH 0", drafts=(D16,), role=CLIENT)
def publish_done_of_a_fetch_16(lone: Lone) -> None:
    lone.session.fetch(STANDALONE)
    lone.control(PublishDone(0, 0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "'done'", drafts=(D18,), role=CLIENT)
def publish_done_of_a_fetch_18(lone: Lone) -> None:
    lone.session.fetch(STANDALONE)
    answer(lone, PublishDone(None, 0, 0))


@case(SessionCode.PROTOCOL_VIOLATION, "terminated", role=CLIENT)
def message_behind_publish_done(lone: Lone) -> None:
    stream_id = subscribed(lone)
    done = PublishDone(reply(lone, 0), 0, 0)
    lone.on(stream_id, done, done)


@case(SessionCode.PROTOCOL_VIOLATION, "middle of a message", drafts=(D18,))
def stream_ends_inside_a_message(lone: Lone) -> None:
    data = encode(Subscribe(0, TRACK), D18)
    lone.raw(lone.peer.next_id(unidirectional=False), data[:-1], fin=True)


@case(SessionCode.PROTOCOL_VIOLATION, "middle of a message", drafts=(D16,))
def namespace_stream_ends_inside_a_message(lone: Lone) -> None:
    data = encode(SubscribeNamespace(0, NS), D16)
    lone.raw(lone.peer.next_id(unidirectional=False), data + data[:1], fin=True)


# Fetch


@case(SessionCode.PROTOCOL_VIOLATION, "ABSOLUTE_START", drafts=(D16,))
def joining_fetch_with_another_filter(lone: Lone) -> None:
    filter_ = SubscriptionFilter(FilterType.ABSOLUTE_START, Location(0, 0))
    lone.control(Subscribe(0, TRACK, Parameters(subscription_filter=filter_)))
    lone.control(Fetch(2, RelativeJoiningFetch(0, 1)))


@case(SessionCode.PROTOCOL_VIOLATION, "7 is not", drafts=(D16,))
def unknown_filter_type(lone: Lone) -> None:
    body = b"\x00\x01\x01a\x01n\x01\x21\x01\x07"
    lone.raw(lone.control_id, b"\x03" + len(body).to_bytes(2, "big") + body)


# Namespaces


def namespaces(lone: Lone) -> int:
    """A SUBSCRIBE_NAMESPACE of ours that the peer accepted; gives its stream."""
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.on(stream_id, RequestOk(reply(lone, 0)))
    return stream_id


@case(SessionCode.PROTOCOL_VIOLATION, "before its NAMESPACE", role=CLIENT)
def namespace_done_before_namespace(lone: Lone) -> None:
    lone.on(namespaces(lone), NamespaceDone(Namespace.of(b"x")))


@case(SessionCode.PROTOCOL_VIOLATION, "before its NAMESPACE", role=CLIENT)
def namespace_done_twice(lone: Lone) -> None:
    x = Namespace.of(b"x")
    lone.on(namespaces(lone), NamespaceMessage(x), NamespaceDone(x), NamespaceDone(x))


@case(SessionCode.PROTOCOL_VIOLATION, "pending", role=CLIENT)
def namespace_before_ok(lone: Lone) -> None:
    lone.session.subscribe_namespace(NS)
    lone.on(lone.stream_of(), NamespaceMessage(Namespace.of(b"x")))


@case(SessionCode.PROTOCOL_VIOLATION, "33 fields", role=CLIENT)
def namespace_with_too_many_fields(lone: Lone) -> None:
    lone.on(namespaces(lone), NamespaceMessage(Namespace((b"x",) * 31)))


@case(SessionCode.PROTOCOL_VIOLATION, "SUBSCRIBE does not belong", drafts=(D16,))
def another_request_on_a_namespace_stream(lone: Lone) -> None:
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.on(stream_id, Subscribe(2, TRACK))


@case(SessionCode.PROTOCOL_VIOLATION, "'blocked'", drafts=(D18,), role=CLIENT)
def publish_blocked_for_namespaces(lone: Lone) -> None:
    lone.on(namespaces(lone), PublishBlocked(TRACK))


@case(SessionCode.PROTOCOL_VIOLATION, "together", drafts=(D18,), role=CLIENT)
def publish_blocked_with_too_long_a_name(lone: Lone) -> None:
    lone.session.subscribe_tracks(NS)
    name = FullTrackName(Namespace.of(b"x" * 4000), b"y" * 96)
    lone.on(lone.stream_of(), RequestOk(), PublishBlocked(name))


@case(SessionCode.PROTOCOL_VIOLATION, "REQUEST_OK does not belong", drafts=(D16,))
def reply_on_the_peers_own_namespace_stream(lone: Lone) -> None:
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.on(stream_id, RequestOk(0))


# Tokens


def with_tokens(lone: Lone, request_id: int, *tokens: Token) -> None:
    track = FullTrackName(NS, b"%d" % request_id)
    lone.request(Subscribe(request_id, track, Parameters(authorization_tokens=tokens)))


@case(SessionCode.DUPLICATE_AUTH_TOKEN_ALIAS, "alias 1")
def alias_registered_twice(lone: Lone) -> None:
    with_tokens(lone, 0, Token.register(1, 0, b"x"))
    with_tokens(lone, 2, Token.register(1, 0, b"y"))


@case(SessionCode.UNKNOWN_AUTH_TOKEN_ALIAS, "alias 1")
def alias_that_nobody_registered(lone: Lone) -> None:
    with_tokens(lone, 0, Token.use_alias(1))


@case(SessionCode.UNKNOWN_AUTH_TOKEN_ALIAS, "alias 1")
def alias_used_after_its_deletion(lone: Lone) -> None:
    with_tokens(lone, 0, Token.register(1, 0, b"x"), Token.delete(1))
    with_tokens(lone, 2, Token.use_alias(1))


@case(SessionCode.AUTH_TOKEN_CACHE_OVERFLOW, "20 bytes", limits=SessionLimits(max_token_cache=35))
def tokens_over_the_limit(lone: Lone) -> None:
    with_tokens(lone, 0, Token.register(1, 0, b"x" * 4), Token.use_value(1, b"x" * 400))
    with_tokens(lone, 2, Token.register(2, 0, b"y" * 4))


@case(SessionCode.KEY_VALUE_FORMATTING_ERROR, drafts=(D16,))
def token_that_cannot_be_read(lone: Lone) -> None:
    body = b"\x00\x01\x01a\x01n\x01\x03\x01\x09"
    lone.raw(lone.control_id, b"\x03" + len(body).to_bytes(2, "big") + body)


# Everything that a table does not allow


def test_no_case_is_there_twice() -> None:
    names = [param.id for param in CASES]
    assert len(names) == len(set(names))


def first_messages(draft: Draft) -> Iterator[Any]:
    """A message of every type that is not a request, as the draft has them."""
    some = reply_id = 0 if draft is D16 else None
    yield RequestOk(reply_id)
    yield RequestError(reply_id, 0)
    yield SubscribeOk(reply_id, 1)
    yield FetchOk(reply_id, False, Location(0, 0))
    yield PublishDone(reply_id, 0, 0)
    yield RequestUpdate(0, some)
    yield NamespaceMessage(NS)
    yield NamespaceDone(NS)
    yield Goaway(request_id=None)
    if draft is D16:
        yield PublishOk(0)
        yield Unsubscribe(0)
        yield FetchCancel(0)
        yield MaxRequestId(1)
        yield Subscribe(0, TRACK)
        yield TrackStatus(0, TRACK)
        yield ServerSetup()
    else:
        yield PublishBlocked(TRACK)
        yield Setup()


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        pytest.param(draft, message, id=f"{draft.name}-{type(message).__name__}")
        for draft in BOTH
        for message in first_messages(draft)
    ],
)
def test_a_stream_begins_with_a_request(draft: Draft, message: Any) -> None:
    lone = Lone.established(draft, SERVER)
    lone.bidi(message)
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION
    assert "begins with message type" in lone.close_reason


@pytest.mark.parametrize(
    "message", [SubscribeTracks(0, NS), SubscribeNamespace(0, NS), PublishNamespace(0, NS)]
)
def test_a_stream_of_draft_18_may_begin_with_any_request(message: Any) -> None:
    lone = Lone.established(D18, SERVER)
    lone.bidi(message)
    assert lone.close_code is None
    assert lone.session.open_requests == (0,)
