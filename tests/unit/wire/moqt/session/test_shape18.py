"""Draft 18 on the wire: which stream carries what, and how a message finds its request."""

from __future__ import annotations

import pytest

from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Goaway,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    RequestError,
    RequestOk,
    RequestUpdate,
    Setup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import NO_PARAMETERS
from laps_wire.moqt.session import (
    OpenStream,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    Role,
    SendData,
    SetupReceived,
    State,
    UpdateAccepted,
    UpdateRejected,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone, Pair

D18 = Draft.D18
CLIENT, SERVER = Role.CLIENT, Role.SERVER
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(5, 0), Location(9, 0))


@pytest.fixture
def client() -> Lone:
    return Lone.established(D18, CLIENT)


@pytest.fixture
def server() -> Lone:
    return Lone.established(D18, SERVER)


# SETUP


@pytest.mark.parametrize("role", list(Role))
def test_both_sides_open_a_control_stream_at_once(role: Role) -> None:
    lone = Lone(D18, role)
    actions = lone.session.poll_transmit()
    assert isinstance(actions[0], OpenStream)
    assert actions[0].unidirectional
    assert isinstance(actions[1], SendData)
    # SETUP 0x2F00 as a vi64, MAX_AUTH_TOKEN_CACHE_SIZE 8192
    assert actions[1].data == bytes.fromhex("af00 0003 04 a000")
    assert len(actions) == 2


def test_setup_comes_on_the_peers_control_stream() -> None:
    lone = Lone(D18, SERVER)
    lone.setup(SetupOptions(path="/p"))
    assert lone.control_id == 2
    assert lone.events() == [SetupReceived(options=SetupOptions(path="/p"))]
    assert lone.session.established


def test_requests_may_arrive_before_setup() -> None:
    lone = Lone(D18, SERVER)
    lone.bidi(Subscribe(0, TRACK))
    lone.bidi(TrackStatus(2, TRACK), fin=True)
    assert lone.events() == []
    lone.setup(SetupOptions())
    assert [type(event) for event in lone.events()] == [
        SetupReceived,
        RequestReceived,
        RequestReceived,
    ]


def test_replies_may_arrive_before_setup() -> None:
    lone = Lone(D18, CLIENT)
    lone.session.subscribe(TRACK)
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    assert lone.events() == []
    lone.setup(SetupOptions())
    assert [type(event) for event in lone.events()] == [SetupReceived, RequestAccepted]


# One stream for each request


def test_each_request_has_its_stream(client: Lone) -> None:
    session = client.session
    session.subscribe(TRACK)
    session.track_status(TRACK)
    session.publish_namespace(NS)
    assert client.sent() == {
        0: [Subscribe(0, TRACK)],
        4: [TrackStatus(2, TRACK), "fin"],  # the only message of its requester
        8: [PublishNamespace(4, NS)],
    }


def test_goaway_goes_on_the_control_stream(server: Lone) -> None:
    server.session.goaway("moqt://else", 9)
    assert server.sent() == {3: [Goaway("moqt://else", 9, 0)]}


def test_replies_end_the_stream_where_nothing_can_follow(server: Lone) -> None:
    for message in (TrackStatus(0, TRACK), Subscribe(2, TRACK), Publish(4, TRACK, 1)):
        server.bidi(message)
    server.session.accept(0)
    server.session.accept_subscribe(2, 7)
    server.session.reject(4, 0)
    assert server.sent() == {
        0: [RequestOk(), "fin"],
        4: [SubscribeOk(None, 7)],
        8: [RequestError(None, 0), "fin"],
    }
    server.session.publish_done(2, 0, 0)
    assert server.sent() == {4: [PublishDone(None, 0, 0), "fin"]}


def test_we_close_our_half_when_the_peer_is_done(client: Lone) -> None:
    client.session.subscribe(TRACK)
    client.sent()
    client.on(0, SubscribeOk(None, 7), PublishDone(None, 0, 0), fin=True)
    assert client.sent() == {0: ["fin"]}
    assert client.session.open_streams == 2


# Which request an answer is for


def test_publish_is_answered_with_request_ok(client: Lone) -> None:
    client.session.publish(TRACK, 7)
    client.on(0, RequestOk())
    assert client.events() == [RequestAccepted(request_id=0, message=RequestOk())]


def test_the_other_number_of_publish_ok_reads_as_request_ok(client: Lone) -> None:
    client.session.publish(TRACK, 7)
    client.transmit()
    client.raw(0, b"\x1e\x00\x01\x00")
    assert client.events() == [RequestAccepted(request_id=0, message=RequestOk())]


def test_answers_come_in_order(client: Lone) -> None:
    client.session.publish_namespace(NS)
    client.on(0, RequestOk())
    first, second = (client.session.update(0, NO_PARAMETERS) for _ in range(2))
    client.events()
    client.on(0, RequestOk())
    client.on(0, RequestOk())
    assert client.events() == [
        UpdateAccepted(request_id=0, update_id=first, message=RequestOk()),
        UpdateAccepted(request_id=0, update_id=second, message=RequestOk()),
    ]


def test_an_error_answers_the_request_while_it_is_pending(client: Lone) -> None:
    client.session.fetch(RANGE)
    client.session.fetch_ended(0)
    client.on(0, RequestError(None, 0))
    assert client.events() == [RequestRejected(request_id=0, message=RequestError(None, 0))]


def test_an_error_answers_an_update_later(client: Lone) -> None:
    client.session.subscribe(TRACK)
    client.on(0, SubscribeOk(None, 7))
    update_id = client.session.update(0, NO_PARAMETERS)
    client.events()
    error = RequestError(None, 0)
    client.on(0, error)
    assert client.events() == [UpdateRejected(request_id=0, update_id=update_id, message=error)]


@pytest.mark.parametrize("answer", [RequestOk(), RequestError(None, 0)])
def test_an_error_may_have_answered_one_update_or_all(
    client: Lone, answer: RequestOk | RequestError
) -> None:
    # Whether the younger update was there when the older one failed, we cannot know (18: 10.9).
    client.session.subscribe(TRACK)
    client.on(0, SubscribeOk(None, 7))
    client.session.update(0, NO_PARAMETERS)
    client.session.update(0, NO_PARAMETERS)
    client.events()
    client.on(0, RequestError(None, 0))
    assert [type(event) for event in client.events()] == [UpdateRejected]
    client.on(0, answer)
    assert client.events() == []
    assert client.close_code is None
    assert client.session.request_state(0) is State.FAILING
    client.on(0, answer)
    assert client.close_code == SessionCode.PROTOCOL_VIOLATION


def test_an_update_that_crosses_the_error_to_another_is_answered() -> None:
    pair = Pair.established(D18)
    client, server = pair.client.session, pair.server.session
    client.subscribe(TRACK)
    pair.to_server()
    server.accept_subscribe(0, 7)
    pair.settle()
    first = client.update(0, NO_PARAMETERS)
    pair.to_server()
    server.reject(first, 0)
    second = client.update(0, NO_PARAMETERS)
    pair.to_client()
    pair.to_server()
    server.reject(second, 0)
    server.publish_done(0, 8, 0)
    pair.settle()
    assert pair.violations == []
    assert client.open_requests == server.open_requests == ()


def test_a_publisher_answers_the_update_of_its_subscriber(client: Lone) -> None:
    # The peer publishes, we subscribe: its REQUEST_OK on its own stream answers our update.
    stream_id = client.bidi(Publish(1, TRACK, 7))
    client.session.accept(1)
    update_id = client.session.update(1, NO_PARAMETERS)
    client.events()
    client.on(stream_id, RequestOk())
    assert client.events() == [
        UpdateAccepted(request_id=1, update_id=update_id, message=RequestOk())
    ]


# Ends


def test_cancelling_ends_both_directions(client: Lone) -> None:
    client.session.fetch(RANGE)
    client.sent()
    client.session.cancel(0, code=0x2)
    assert client.sent() == {0: [("reset", 0x2), ("stop", 0x2)]}
    client.session.receive_stream_reset(0, 0)
    assert client.events() == []
    client.session.poll_transmit()
    assert client.session.open_streams == 2


def test_a_reset_cancels_and_is_returned(server: Lone) -> None:
    server.bidi(Fetch(0, RANGE))
    server.events()
    server.session.receive_stream_reset(0, 0x1)
    assert server.events() == [RequestCancelled(request_id=0, code=0x1)]
    assert server.sent() == {0: [("reset", 1)]}


def test_stop_sending_cancels_and_is_returned(server: Lone) -> None:
    server.bidi(Subscribe(0, TRACK))
    server.events()
    server.session.receive_stop_sending(0, 0x1)
    assert server.events() == [RequestCancelled(request_id=0, code=0x1)]
    assert server.sent() == {0: [("reset", 1), ("stop", 1)]}


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        (Subscribe(0, TRACK), False),
        (Fetch(0, RANGE), False),
        (TrackStatus(0, TRACK), False),
        (Publish(0, TRACK, 1), True),
        (PublishNamespace(0, NS), True),
        (SubscribeNamespace(0, NS), True),
        (SubscribeTracks(0, NS), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_fin_of_a_requester_means(server: Lone, message: Subscribe, ends: bool) -> None:
    server.bidi(message, fin=True)
    cancelled = RequestCancelled(request_id=0, code=None, reason="its stream was closed")
    assert server.events()[1:] == ([cancelled] if ends else [])
    assert server.session.open_requests == (() if ends else (0,))
    assert server.sent() == ({0: ["fin"]} if ends else {})


def test_the_fin_of_a_responder(client: Lone) -> None:
    client.session.fetch(RANGE)
    client.on(0, FetchOk(None, False, Location(9, 0)), fin=True)
    # The objects are elsewhere.
    assert client.session.request_state(0) is State.ESTABLISHED
    client.session.subscribe(TRACK)
    client.on(4, SubscribeOk(None, 1), fin=True)
    assert client.session.request_state(2) is None


# The other messages


def test_namespaces_and_blocked_tracks(client: Lone) -> None:
    client.session.subscribe_namespace(NS)
    client.session.subscribe_tracks(NS)
    client.on(0, RequestOk(), NamespaceMessage(Namespace.of(b"c")))
    client.on(4, RequestOk(), PublishBlocked(TRACK))
    assert len(client.events()) == 4
    assert client.close_code is None


def test_updates_have_ids_of_their_own(server: Lone) -> None:
    server.bidi(Subscribe(0, TRACK), RequestUpdate(2))
    server.bidi(Subscribe(2, OTHER))
    assert server.close_code == SessionCode.INVALID_REQUEST_ID


def test_setup_does_not_belong_on_a_request_stream(server: Lone) -> None:
    stream_id = server.bidi(Subscribe(0, TRACK))
    server.on(stream_id, Setup())
    assert server.close_code == SessionCode.PROTOCOL_VIOLATION
    assert "SETUP does not belong on the stream of a SUBSCRIBE" in server.close_reason


# Faults that are found here; test_violations has all of them


def breaks(lone: Lone, *words: str) -> None:
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION
    for word in words:
        assert word in lone.close_reason


def test_faults_on_the_control_stream(server: Lone, client: Lone) -> None:
    server.control(Subscribe(0, TRACK))
    breaks(server, "SUBSCRIBE does not belong on a control stream")
    client.control(Goaway())
    breaks(client, "without a request id")


def test_goaway_on_both_kinds_of_streams(client: Lone) -> None:
    client.session.subscribe(TRACK)
    client.on(client.stream_of(), Goaway("moqt://else"))
    client.control(Goaway("moqt://else", 5, 2))
    assert len(client.events()) == 2
    assert client.close_code is None


def test_a_stream_that_begins_wrong(server: Lone) -> None:
    server.bidi(RequestOk())
    breaks(server, "begins with message type 0x7")


def test_an_answer_to_nothing(server: Lone) -> None:
    stream_id = server.bidi(Subscribe(0, TRACK))
    server.on(stream_id, RequestOk())
    breaks(server, "REQUEST_OK on the stream of SUBSCRIBE 0, where nothing waits")
