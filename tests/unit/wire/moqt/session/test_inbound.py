"""Bytes to messages: chunks, held streams, data streams, ends; and anything at all."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.control import ControlCodec, encode
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.messages import (
    ClientSetup,
    Fetch,
    FetchOk,
    Message,
    PublishNamespace,
    RequestOk,
    RequestUpdate,
    Setup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    TrackStatus,
)
from laps_wire.moqt.session import (
    DataStreamOpened,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    Role,
    SessionLimits,
    SetupReceived,
    Terminated,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone
from testkit.snapshot import snapshot

D16, D18 = Draft.D16, Draft.D18
CLIENT, SERVER = Role.CLIENT, Role.SERVER
NS = Namespace.of(b"a", b"b")
TRACK = FullTrackName(NS, b"one")
RANGE = StandaloneFetch(TRACK, Location(5, 0), Location(9, 0))
BOTH = pytest.mark.parametrize("draft", [D16, D18])


# Chunks


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_arrive_in_any_pieces(draft: Draft, size: int) -> None:
    lone = Lone.established(draft, SERVER)
    messages: list[Message] = [PublishNamespace(0, NS), TrackStatus(2, TRACK)]
    if draft is D18:
        pieces = [(4 * i, encode(message, draft)) for i, message in enumerate(messages)]
    else:
        pieces = [(0, b"".join(encode(message, draft) for message in messages))]
    for stream_id, data in pieces:
        for start in range(0, len(data), size):
            lone.raw(stream_id, data[start : start + size])
    assert [event.message for event in lone.events() if isinstance(event, RequestReceived)] == (
        messages
    )


@BOTH
def test_a_message_counts_with_its_last_byte(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = 0 if draft is D18 else lone.control_id
    whole = encode(PublishNamespace(0, NS), draft)
    lone.raw(stream_id, whole[:-1])
    assert not lone.session.open_requests
    lone.raw(stream_id, whole[-1:] + whole[:2])
    assert lone.session.open_requests == (0,)
    assert lone.close_code is None


@BOTH
def test_what_is_buffered_is_less_than_a_message(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER, limits=SessionLimits(max_ended=1))
    stream_id = 0 if draft is D18 else lone.control_id
    whole = encode(PublishNamespace(0, Namespace.of(b"n" * 4000)), draft)
    empty = len(snapshot(lone.session))
    lone.raw(stream_id, whole[:-1])
    held = len(snapshot(lone.session)) - empty
    assert len(whole) - 1 <= held < len(whole) + 1000
    lone.raw(stream_id, whole[-1:])
    lone.session.reject(0, RequestErrorCode.NOT_SUPPORTED)
    if draft is D18:
        lone.raw(stream_id, b"", fin=True)
    # Only the last request that ended is remembered.
    lone.raw(4 if draft is D18 else stream_id, encode(PublishNamespace(2, NS), draft))
    lone.session.reject(2, RequestErrorCode.NOT_SUPPORTED)
    lone.events()
    lone.sent()
    assert len(snapshot(lone.session)) - empty < 1000


def test_a_message_is_not_looked_at_before_it_can_be_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lone = Lone.established(D16, SERVER)
    track = FullTrackName(NS, b"n" * 4000)
    data = encode(Subscribe(0, track), D16)
    looks = 0
    decode = ControlCodec.decode

    def counting(self: ControlCodec, *args: Any, **kwargs: Any) -> object:
        nonlocal looks
        looks += 1
        return decode(self, *args, **kwargs)

    monkeypatch.setattr(ControlCodec, "decode", counting)
    for byte in data:
        lone.session.receive_stream_data(0, bytes([byte]))
    assert lone.session.open_requests == (0,)
    assert looks < 10


# Data streams


@BOTH
@pytest.mark.parametrize("fin", [False, True])
@pytest.mark.parametrize(
    ("first", "kind"), [(b"\x10", StreamKind.SUBGROUP), (b"\x05", StreamKind.FETCH)]
)
def test_streams_of_objects_are_handed_over(
    draft: Draft, first: bytes, kind: StreamKind, fin: bool
) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.peer.next_id(unidirectional=True)
    streams = lone.session.open_streams
    lone.raw(stream_id, first + b"rest", fin=fin)
    assert lone.events() == [
        DataStreamOpened(stream_id=stream_id, kind=kind, data=first + b"rest", fin=fin)
    ]
    assert lone.session.open_streams == streams


def test_a_stream_type_may_come_in_pieces() -> None:
    lone = Lone.established(D18, SERVER)
    lone.raw(6, b"\x80")
    assert lone.events() == []
    lone.raw(6, b"\x10x")
    assert lone.events() == [
        DataStreamOpened(stream_id=6, kind=StreamKind.SUBGROUP, data=b"\x80\x10x", fin=False)
    ]


@BOTH
def test_objects_may_come_before_setup(draft: Draft) -> None:
    lone = Lone(draft, SERVER)
    lone.raw(2, b"\x10abc")
    assert [type(event) for event in lone.events()] == [DataStreamOpened]


def test_padding_is_thrown_away() -> None:
    lone = Lone.established(D18, SERVER)
    padding = D18.integers.encode(0x132B3E28)
    lone.raw(6, padding + bytes(100))
    before = snapshot(lone.session)
    lone.raw(6, bytes(1000))
    assert snapshot(lone.session) == before
    lone.raw(6, b"", fin=True)
    assert lone.events() == []
    assert lone.session.open_streams == 2


def test_draft_16_has_no_padding() -> None:
    lone = Lone.established(D16, SERVER)
    lone.raw(2, D16.integers.encode(0x132B3E28))
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION


# Streams without a message


@BOTH
def test_a_stream_that_ends_before_it_begins(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    streams = lone.session.open_streams
    lone.raw(40, b"", fin=True)
    lone.raw(42, b"", fin=True)
    lone.session.receive_stream_reset(44, 1)
    lone.session.receive_stream_reset(46, 1)
    assert lone.sent() == {40: ["fin"], 44: [("reset", 1)]}
    assert lone.session.open_streams == streams
    assert lone.events() == []
    # Late words about them are ignored.
    lone.session.receive_stop_sending(40, 1)
    lone.session.receive_stream_reset(46, 1)
    lone.session.receive_stream_data(40, b"late")
    assert lone.session.open_streams == streams


@BOTH
def test_streams_of_the_data_plane_are_none_of_our_business(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    lone.session.receive_stop_sending(43, 1)
    lone.session.receive_stream_reset(41, 1)
    assert lone.sent() == {}
    with pytest.raises(StateError, match="bind_stream was not called"):
        lone.session.receive_stream_data(41, b"x")


# Before SETUP


def test_held_bytes_are_bounded() -> None:
    lone = Lone(D18, SERVER, limits=SessionLimits(max_early_bytes=100))
    first = lone.bidi(PublishNamespace(0, NS))
    big = FullTrackName(NS, b"n" * 100)
    second = lone.bidi(Subscribe(2, big))
    lone.raw(second, b"more")
    third = lone.peer.next_id(unidirectional=False)
    lone.raw(third, encode(Subscribe(4, big), D18), fin=True)
    sent = lone.sent()
    assert sent[second] == [("reset", 0x9), ("stop", 0x9)]
    assert sent[third][0] == ("reset", 0x9)
    lone.setup(SetupOptions())
    assert [type(event) for event in lone.events()] == [SetupReceived, RequestReceived]
    assert lone.session.open_requests == (0,)
    assert first == 0


def test_bytes_that_are_let_go_make_room() -> None:
    lone = Lone(D18, SERVER, limits=SessionLimits(max_early_bytes=20))
    one = encode(Subscribe(0, TRACK), D18)
    assert 10 < len(one) <= 20
    lone.sent()
    for stream_id in (0, 4, 8):
        # Byte by byte, so that what was counted before must not count again.
        for byte in one:
            lone.raw(stream_id, bytes([byte]))
        assert lone.sent() == {}
        lone.session.receive_stream_reset(stream_id, 1)
        lone.sent()
    lone.raw(12, one)
    lone.raw(16, one)
    assert set(lone.sent()) == {16}
    lone.setup(SetupOptions())
    assert lone.session.open_requests == (0,)


def test_bytes_of_a_cancelled_request_make_room() -> None:
    lone = Lone(D18, CLIENT, limits=SessionLimits(max_early_bytes=20))
    reply = encode(SubscribeOk(None, 7), D18)
    lone.session.subscribe(TRACK)
    first = lone.stream_of()
    lone.raw(first, reply * 3, fin=True)
    lone.session.cancel(0)
    lone.session.subscribe(TRACK)
    lone.raw(lone.stream_of(), reply * 3)
    assert 3 * len(reply) > 10
    lone.raw(lone.stream_of(), reply)
    assert list(lone.session.open_requests) == [2]
    lone.raw(lone.stream_of(), reply)
    assert list(lone.session.open_requests) == []
    lone.setup(SetupOptions())
    # The end of the first stream was held too, and is not lost.
    lone.session.receive_stream_reset(lone.stream_of(), 0)
    assert lone.session.open_streams == 2


def test_draft_16_holds_little_too() -> None:
    lone = Lone(D16, SERVER, limits=SessionLimits(max_early_bytes=3))
    lone.on(4, SubscribeNamespace(0, NS))
    assert lone.sent() == {4: [("reset", 0x0), ("stop", 0x0)]}


def test_a_reply_that_is_too_early_and_too_long_ends_its_request() -> None:
    lone = Lone(D18, CLIENT, limits=SessionLimits(max_early_bytes=3))
    lone.session.subscribe(TRACK)
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    assert lone.events() == [
        RequestCancelled(request_id=0, code=0x9, reason="its replies overtook SETUP", by_peer=False)
    ]
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    assert lone.events() == []


def test_a_held_stream_may_be_reset() -> None:
    lone = Lone(D18, SERVER)
    stream_id = lone.bidi(Subscribe(0, TRACK))
    lone.session.receive_stream_reset(stream_id, 1)
    lone.setup(SetupOptions())
    assert [type(event) for event in lone.events()] == [SetupReceived]
    assert lone.session.open_streams == 2


def test_a_held_stream_ends_behind_its_messages() -> None:
    lone = Lone(D18, SERVER)
    lone.bidi(PublishNamespace(0, NS), fin=True)
    lone.setup(SetupOptions())
    assert [type(event) for event in lone.events()] == [
        SetupReceived,
        RequestReceived,
        RequestCancelled,
    ]


def test_a_violation_on_one_held_stream_ends_it_all() -> None:
    lone = Lone(D18, SERVER)
    lone.bidi(Subscribe(1, TRACK))
    lone.bidi(Subscribe(0, TRACK))
    lone.setup(SetupOptions())
    assert lone.close_code == SessionCode.INVALID_REQUEST_ID
    assert [type(event) for event in lone.events()] == [SetupReceived, Terminated]


def test_setup_and_more_in_one_piece() -> None:
    lone = Lone(D16, SERVER)
    lone.on(4, SubscribeNamespace(4, NS))
    data = encode(ClientSetup(), D16) + encode(Subscribe(0, TRACK), D16)
    lone.raw(0, data + encode(TrackStatus(2, TRACK), D16))
    assert lone.session.open_requests == (0, 2, 4)


# Ends


def test_bytes_behind_our_cancel_are_dropped_up_to_the_end() -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.fetch(RANGE)
    stream_id = lone.stream_of()
    lone.session.cancel(0)
    lone.raw(stream_id, b"\xff\xff\xff garbage")
    lone.raw(stream_id, b"\xff", fin=True)
    assert lone.close_code is None
    assert lone.session.open_streams == 2


def test_stop_sending_behind_the_end_is_ignored() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.bidi(Fetch(0, RANGE))
    lone.session.accept_fetch(0, Location(9, 0))
    lone.session.fetch_ended(0)
    lone.events()
    lone.session.receive_stop_sending(stream_id, 1)
    lone.session.receive_stream_reset(stream_id, 1)
    assert lone.events() == []
    assert lone.session.open_streams == 2


def test_a_fin_behind_the_last_word() -> None:
    lone = Lone.established(D18, CLIENT)
    lone.session.fetch(RANGE)
    stream_id = lone.stream_of()
    lone.on(stream_id, FetchOk(None, False, Location(9, 0)))
    lone.session.fetch_ended(0)
    lone.raw(stream_id, b"", fin=True)
    assert lone.session.open_streams == 2
    lone.session.track_status(TRACK)
    stream_id = lone.stream_of()
    lone.on(stream_id, RequestOk(), fin=True)
    assert lone.close_code is None
    assert isinstance(lone.events()[-1], RequestAccepted)


# Anything at all


STREAMS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 10])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), STREAMS, st.binary(max_size=60), st.booleans()),
        st.tuples(st.just("reset"), STREAMS, st.integers(0, 20), st.none()),
        st.tuples(st.just("stop"), STREAMS, st.integers(0, 20), st.none()),
    ),
    max_size=20,
)


@BOTH
@pytest.mark.parametrize("role", list(Role))
@given(steps=STEPS, setup=st.booleans())
def test_nothing_that_a_peer_sends_raises(
    draft: Draft, role: Role, steps: list[tuple[str, int, bytes | int, bool | None]], setup: bool
) -> None:
    lone = Lone.established(draft, role) if setup else Lone(draft, role)
    if setup:
        lone.session.subscribe(TRACK)
        lone.session.subscribe_namespace(NS)
    lone.transmit()
    for what, stream_id, value, fin in steps:
        if stream_id & 1 == role.value and stream_id not in lone.end.streams.values():
            continue  # a stream of ours that was never opened: no transport does that
        if isinstance(value, bytes):
            lone.session.receive_stream_data(stream_id, value, bool(fin))
        elif what == "reset":
            lone.session.receive_stream_reset(stream_id, value)
        else:
            lone.session.receive_stop_sending(stream_id, value)
        lone.transmit()
    events = lone.events()
    ends = [event for event in events if isinstance(event, Terminated)]
    assert len(ends) == (lone.close_code is not None) == lone.session.closed
    if ends:
        assert events[-1] is ends[0]
        assert ends[0].reason


def some_messages(draft: Draft) -> list[bytes]:
    messages: list[Message] = [
        Subscribe(0, TRACK),
        Fetch(2, RANGE),
        PublishNamespace(4, NS),
        SubscribeNamespace(6, NS),
        SubscribeOk(0 if draft is D16 else None, 1),
        RequestOk(2 if draft is D16 else None),
        ClientSetup() if draft is D16 else Setup(),
    ]
    return [encode(message, draft) for message in messages]


@BOTH
@given(data=st.data())
def test_nothing_made_of_messages_raises(draft: Draft, data: st.DataObject) -> None:
    lone = Lone.established(draft, SERVER)
    bits = st.sampled_from(some_messages(draft)) | st.binary(max_size=4)
    for _ in range(data.draw(st.integers(1, 12))):
        stream_id = data.draw(st.sampled_from([0, 2, 4, 8, 12, 16]))
        lone.raw(stream_id, data.draw(bits), fin=data.draw(st.booleans()))
        for request_id in lone.session.open_requests:
            with contextlib.suppress(StateError):
                lone.session.accept(request_id)
    lone.transmit()
    assert lone.session.closed == (lone.close_code is not None)


@BOTH
@given(data=st.binary(min_size=1, max_size=3000))
def test_memory_is_linear_in_what_arrives(draft: Draft, data: bytes) -> None:
    lone = Lone.established(draft, SERVER)
    tracemalloc.start()
    try:
        for stream_id in (lone.control_id, 8, 12):
            lone.session.receive_stream_data(stream_id, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 128 * 1024 + 600 * 3 * len(data)


# Faults that are found here; test_violations has all of them


@BOTH
def test_a_control_stream_stays_open_and_alone(draft: Draft) -> None:
    def closed(lone: Lone) -> None:
        lone.raw(lone.control_id, b"", fin=True)

    def was_reset(lone: Lone) -> None:
        lone.session.receive_stream_reset(lone.control_id, 0)

    def refused(lone: Lone) -> None:
        own = lone.control_id if draft is D16 else lone.stream_of(0)
        lone.session.receive_stop_sending(own, 0)

    def second(lone: Lone) -> None:
        if draft is D16:
            lone.bidi(ClientSetup())
        else:
            lone.on(lone.peer.next_id(unidirectional=True), Setup())

    for fault in (closed, was_reset, refused, second):
        lone = Lone.established(draft, SERVER)
        fault(lone)
        assert lone.close_code == SessionCode.PROTOCOL_VIOLATION, fault


def test_a_control_stream_that_was_refused_before_it_came() -> None:
    lone = Lone(D16, SERVER)
    lone.session.receive_stop_sending(0, 1)
    lone.on(0, ClientSetup())
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION
    assert "STOP_SENDING" in lone.close_reason


@BOTH
def test_a_stream_that_ends_inside_a_message(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    data = encode(SubscribeNamespace(0, NS), draft)
    lone.raw(40, data[:-1], fin=True)
    assert lone.close_code == SessionCode.PROTOCOL_VIOLATION
    assert "middle of a message" in lone.close_reason


def test_a_held_stream_may_come_in_pieces() -> None:
    lone = Lone(D18, SERVER)
    data = encode(Subscribe(0, TRACK), D18)
    for piece in (data[:1], data[1:4], data[4:]):
        lone.raw(0, piece)
    lone.setup(SetupOptions())
    assert lone.session.open_requests == (0,)


def test_what_follows_in_the_same_piece_goes_with_the_request() -> None:
    # The third update is one too many: the request is given up, and so are the bytes behind it.
    lone = Lone.established(D18, SERVER, limits=SessionLimits(max_updates=2))
    updates = [RequestUpdate(number) for number in (2, 4, 6)]
    lone.bidi(PublishNamespace(0, NS), *updates, Subscribe(8, TRACK))
    assert lone.close_code is None
    assert lone.session.open_requests == ()


def test_nothing_is_heard_after_the_end() -> None:
    lone = Lone.established(D18, SERVER)
    lone.session.close()
    lone.events()
    lone.session.receive_stream_data(0, encode(Subscribe(0, TRACK), D18))
    lone.session.receive_stream_reset(0, 0)
    lone.session.receive_stop_sending(0, 0)
    assert lone.events() == []


def test_either_half_given_up_cancels_the_request() -> None:
    for end in ("receive_stream_reset", "receive_stop_sending"):
        lone = Lone.established(D18, SERVER)
        stream_id = lone.bidi(Subscribe(0, TRACK))
        lone.events()
        getattr(lone.session, end)(stream_id, 6)
        assert lone.events() == [RequestCancelled(request_id=0, code=6)]
        assert ("reset", 1) in lone.sent()[stream_id]
