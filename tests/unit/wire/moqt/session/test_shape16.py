"""Draft 16 on the wire: which stream carries what, and how a message finds its request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.messages import (
    ClientSetup,
    Fetch,
    FetchCancel,
    Goaway,
    MaxRequestId,
    Message,
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
    ServerSetup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    AuthToken,
    OpenStream,
    PeerBlocked,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestsAllowed,
    Role,
    SendData,
    Session,
    SessionLimits,
    SetupReceived,
    State,
    UpdateReceived,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone

D16 = Draft.D16
CLIENT, SERVER = Role.CLIENT, Role.SERVER
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(5, 0), Location(9, 0))
TWO = SessionLimits(max_requests=2)


def established(role: Role, limits: SessionLimits | None = None) -> Lone:
    return Lone.established(D16, role, limits=limits or SessionLimits())


# SETUP


def test_the_client_opens_the_control_stream_with_client_setup() -> None:
    lone = Lone(D16, CLIENT, limits=TWO)
    actions = lone.session.poll_transmit()
    assert isinstance(actions[0], OpenStream)
    assert not actions[0].unidirectional
    assert isinstance(actions[1], SendData)
    # CLIENT_SETUP, 2 parameters: MAX_REQUEST_ID 4, MAX_AUTH_TOKEN_CACHE_SIZE 8192 (a delta of 2)
    assert actions[1].data == bytes.fromhex("20 0006 02 02 04 02 6000")
    assert len(actions) == 2


def test_the_server_answers_on_the_same_stream() -> None:
    lone = Lone(D16, SERVER)
    assert lone.session.poll_transmit() == []
    lone.setup(SetupOptions(max_request_id=8))
    assert lone.events() == [SetupReceived(options=SetupOptions(max_request_id=8))]
    options = SetupOptions(max_request_id=512, max_auth_token_cache_size=8192)
    assert lone.sent() == {0: [ServerSetup(options)]}
    assert lone.session.established


def test_a_namespace_subscription_may_arrive_before_setup() -> None:
    lone = Lone(D16, SERVER)
    lone.on(4, SubscribeNamespace(0, NS))
    assert lone.events() == []
    assert lone.sent() == {}
    lone.on(0, ClientSetup())
    assert [type(event) for event in lone.events()] == [SetupReceived, RequestReceived]
    assert lone.session.open_requests == (0,)
    lone.session.accept(0)
    assert lone.sent()[4] == [RequestOk(0)]


# Where requests go


def test_a_namespace_subscription_has_a_stream_of_its_own() -> None:
    lone = established(CLIENT)
    lone.session.subscribe(TRACK)
    lone.session.subscribe_namespace(NS)
    lone.session.track_status(TRACK)
    assert lone.sent() == {
        0: [Subscribe(0, TRACK), TrackStatus(4, TRACK)],
        4: [SubscribeNamespace(2, NS)],
    }


def test_its_replies_come_there_and_its_updates_do_not() -> None:
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.sent()
    lone.on(stream_id, RequestOk(0), NamespaceMessage(Namespace.of(b"c")))
    lone.session.update(0, NO_PARAMETERS)
    assert lone.sent() == {0: [RequestUpdate(2, 0)]}
    lone.control(RequestOk(2))
    assert lone.close_code is None
    lone.control(RequestOk(2))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


def test_a_peer_may_update_on_either_stream_and_is_answered_on_the_control_stream() -> None:
    lone = established(SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.session.accept(0)
    lone.sent()
    lone.events()
    lone.on(stream_id, RequestUpdate(4, 0))
    lone.control(RequestUpdate(2, 0))
    assert [type(event) for event in lone.events()] == [UpdateReceived, UpdateReceived]
    lone.session.accept(2)
    lone.session.reject(4, 0)
    assert lone.sent() == {0: [RequestOk(2), RequestError(4, 0)]}


def test_an_error_for_a_namespace_subscription_comes_on_its_stream() -> None:
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.sent()
    lone.on(stream_id, RequestError(0, 0x30), fin=True)
    assert lone.session.open_requests == ()
    assert lone.sent() == {stream_id: ["fin"]}
    assert lone.session.open_streams == 1


def test_a_namespace_stream_ends_with_fin_for_a_reset_could_lose_the_request() -> None:
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.session.cancel(0)
    assert lone.sent() == {stream_id: [SubscribeNamespace(0, NS), "fin", ("stop", 1)]}


def test_the_code_of_a_cancel_is_passed_on() -> None:
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.session.cancel(0, code=5)
    assert lone.sent()[lone.stream_of()][-1] == ("stop", 5)


# Messages about requests that are over


LATE: list[tuple[Message, Message]] = [
    (Subscribe(0, TRACK), Unsubscribe(0)),
    (Fetch(0, RANGE), FetchCancel(0)),
    (PublishNamespace(0, NS), PublishNamespaceDone(0)),
]


@pytest.mark.parametrize(("request_", "last"), LATE)
def test_a_last_word_that_crosses_our_error(request_: Message, last: Message) -> None:
    lone = established(SERVER)
    lone.control(request_)
    lone.session.reject(0, 0)
    lone.events()
    lone.control(last)
    assert lone.events() == []
    assert lone.close_code is None


def test_what_is_long_over_is_ignored() -> None:
    lone = established(SERVER, SessionLimits(max_ended=1))
    for request_id in (0, 2):
        lone.control(Subscribe(request_id, TRACK), Unsubscribe(request_id))
    lone.events()
    lone.sent()
    # 2 is remembered: this is a violation there. 0 is not: it may be anything.
    lone.control(Unsubscribe(0), PublishDone(0, 0, 0), SubscribeOk(0, 1), RequestOk(0))
    assert lone.events() == []
    assert lone.close_code is None
    lone.control(RequestUpdate(4, 0))
    assert lone.sent() == {0: [RequestError(4, 0, 0, "the request is over")]}
    lone.control(Unsubscribe(2))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


def test_tokens_of_a_late_update_are_registered() -> None:
    lone = established(SERVER, SessionLimits(max_ended=1, max_requests=2))
    for request_id in (0, 2):
        lone.control(Subscribe(request_id, TRACK), Unsubscribe(request_id))
    parameters = Parameters(authorization_tokens=(Token.register(1, 0, b"x"),))
    lone.sent()
    lone.control(RequestUpdate(4, 0, parameters))
    assert lone.sent()[0][-1] == MaxRequestId(10), "the late update is over"
    lone.events()
    used = Parameters(authorization_tokens=(Token.use_alias(1),))
    lone.control(Subscribe(6, TRACK, used))
    (event,) = lone.events()
    assert isinstance(event, RequestReceived)
    assert event.tokens == (AuthToken(0, b"x"),)


def test_an_update_may_arrive_behind_the_end_of_its_namespace_stream() -> None:
    lone = established(SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.raw(stream_id, b"", fin=True)
    lone.events()
    lone.sent()
    lone.control(RequestUpdate(2, 0))
    assert lone.close_code is None
    assert lone.sent() == {0: [RequestError(2, 0, 0, "the request is over")]}


def test_an_answer_to_an_update_may_arrive_behind_our_end() -> None:
    lone = established(CLIENT)
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7))
    lone.session.update(0, NO_PARAMETERS)
    lone.session.cancel(0)
    lone.events()
    lone.control(RequestOk(2))
    assert lone.events() == []
    assert lone.close_code is None
    lone.control(RequestOk(2))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


def test_updates_that_wait_are_answered_when_we_end_the_request() -> None:
    lone = established(SERVER, TWO)
    lone.control(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    lone.control(RequestUpdate(2, 0))
    lone.sent()
    lone.session.publish_done(0, 0, 0)
    late = RequestError(2, 0, 0, "the request is over")
    # The maximum allows two more ids: the request and its update are over.
    assert lone.sent() == {0: [PublishDone(0, 0, 0), late, MaxRequestId(8)]}


# How many requests


def test_max_request_id_follows_as_requests_end() -> None:
    lone = established(SERVER, TWO)
    lone.control(TrackStatus(0, TRACK), TrackStatus(2, TRACK))
    lone.session.accept(0)
    assert lone.sent() == {0: [RequestOk(0), MaxRequestId(6)]}
    lone.control(TrackStatus(4, TRACK))
    lone.session.reject(2, 0)
    lone.session.reject(4, 0)
    sent = lone.sent()[0]
    assert sent == [RequestError(2, 0), MaxRequestId(8), RequestError(4, 0), MaxRequestId(10)]


def test_the_peers_own_ends_count_too() -> None:
    lone = established(SERVER, TWO)
    lone.control(Subscribe(0, TRACK), Unsubscribe(0))
    assert lone.sent() == {0: [MaxRequestId(6)]}


def test_a_blocked_peer_is_heard() -> None:
    lone = established(SERVER)
    lone.control(RequestsBlocked(512))
    assert lone.events() == [PeerBlocked(max_request_id=512)]
    assert lone.sent() == {}


# Requests of the server


def test_a_server_asks_too() -> None:
    lone = established(SERVER)
    assert lone.session.publish(TRACK, 7) == 1
    assert lone.sent() == {0: [Publish(1, TRACK, 7)]}
    lone.control(PublishOk(1))
    assert lone.events() == [RequestAccepted(request_id=1, message=PublishOk(1))]
    lone.control(Unsubscribe(1))
    assert lone.events() == [RequestCancelled(request_id=1)]


def test_a_rejection_on_the_control_stream() -> None:
    lone = established(CLIENT)
    lone.session.publish_namespace(NS)
    lone.control(RequestError(0, 0x1))
    assert lone.session.open_requests == ()
    lone.session.publish_namespace(NS)
    lone.control(RequestOk(2))
    assert lone.session.request_state(2) is State.ESTABLISHED


def test_goaway_leaves_the_rest_as_it_is() -> None:
    lone = established(CLIENT)
    lone.session.subscribe(TRACK)
    lone.control(Goaway(), SubscribeOk(0, 7))
    assert lone.session.request_state(0) is State.ESTABLISHED


def test_an_update_that_fails_on_the_control_stream() -> None:
    lone = established(CLIENT)
    lone.session.publish_namespace(NS)
    lone.control(RequestOk(0))
    update_id = lone.session.update(0, NO_PARAMETERS)
    lone.control(RequestError(update_id, 0))
    assert lone.session.request_state(0) is State.ESTABLISHED
    lone.control(RequestError(update_id, 0))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


# Faults that are found here; test_violations has all of them


def breaks(lone: Lone, *words: str) -> None:
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION
    for word in words:
        assert word in lone.close_reason


@pytest.mark.parametrize(
    ("messages", "word"),
    [
        ([NamespaceMessage(NS)], "NAMESPACE does not belong on the control stream"),
        ([SubscribeOk(0, 1)], "SUBSCRIBE_OK for request 0, which does not exist"),
        ([Fetch(0, RANGE), Unsubscribe(0)], "UNSUBSCRIBE for FETCH 0"),
        ([Subscribe(0, TRACK), FetchCancel(0)], "FETCH_CANCEL for SUBSCRIBE 0"),
        ([Fetch(0, RANGE), PublishDone(0, 0, 0)], "PUBLISH_DONE for FETCH 0"),
        ([PublishNamespace(0, NS), PublishNamespaceCancel(0, 0)], "from the wrong side of 0"),
        ([MaxRequestId(5)], "it must grow"),
    ],
)
def test_faults_on_the_control_stream(messages: list[Message], word: str) -> None:
    lone = established(SERVER)
    lone.control(*messages)
    breaks(lone, word)


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (RequestUpdate(2, 8), "REQUEST_UPDATE of 8 on the stream of 0"),
        (Subscribe(2, TRACK), "SUBSCRIBE does not belong"),
        (RequestOk(0), "REQUEST_OK does not belong"),
    ],
)
def test_faults_on_a_namespace_stream(message: Message, word: str) -> None:
    lone = established(SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.on(stream_id, message)
    breaks(lone, word)


def test_a_reply_on_the_wrong_stream() -> None:
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.on(lone.stream_of(), RequestOk(2))
    breaks(lone, "a reply to 2 on the stream of 0")
    lone = established(CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.control(RequestOk(0))
    breaks(lone, "its request has its own")


def test_a_stream_that_begins_wrong() -> None:
    lone = established(SERVER)
    lone.bidi(TrackStatus(0, TRACK))
    breaks(lone, "begins with message type 0xD")


# The rest of the messages


def test_more_requests_are_allowed() -> None:
    lone = established(CLIENT)
    lone.control(MaxRequestId(300))
    assert lone.events() == [RequestsAllowed(max_request_id=300)]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.fetch(RANGE), FetchCancel(0)),
        (lambda s: s.publish_namespace(NS), PublishNamespaceDone(0)),
        (lambda s: s.subscribe(TRACK), Unsubscribe(0)),
        (lambda s: s.track_status(TRACK), None),
    ],
)
def test_the_words_that_cancel(ask: Callable[[Session], int], message: Message | None) -> None:
    lone = established(CLIENT)
    ask(lone.session)
    lone.sent()
    lone.session.cancel(0)
    assert lone.sent() == ({} if message is None else {0: [message]})


def test_a_namespace_is_revoked() -> None:
    lone = established(SERVER)
    lone.control(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.sent()
    lone.session.cancel(0, code=0x1, reason="expired")
    assert lone.sent()[0][0] == PublishNamespaceCancel(0, 0x1, "expired")
    lone = established(SERVER)
    lone.session.publish_namespace(NS)
    lone.control(RequestOk(1), PublishNamespaceCancel(1, 0x20, "bye"))
    assert lone.events()[1:] == [RequestCancelled(request_id=1, code=0x20, reason="bye")]


def test_a_subscription_ends_with_publish_done() -> None:
    lone = established(CLIENT)
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7), PublishDone(0, 0, 0))
    assert lone.session.open_requests == ()
