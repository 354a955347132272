"""Received frames, each to a stock and a fast connection: same events, same state, same errors."""

from __future__ import annotations

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived, StreamReset
from aioquic.quic.packet import QuicErrorCode
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.frames import encode_varint
from testkit.quic_twins import Twins


def stream_frame(
    stream_id: int, data: bytes, offset: int = 0, *, fin: bool = False, length: bool = True
) -> bytes:
    kind = 8 | 4 * bool(offset) | 2 * length | fin
    return b"".join(
        (
            bytes([kind]),
            encode_varint(stream_id),
            encode_varint(offset) if offset else b"",
            encode_varint(len(data)) if length else b"",
            data,
        )
    )


def varints(*values: int) -> bytes:
    return b"".join(map(encode_varint, values))


def fresh(**options: object) -> Twins[FastQuicConnection]:
    return Twins(FastQuicConnection, **options)  # type: ignore[arg-type]


def test_stream_data_in_order() -> None:
    twins = fresh()
    twins.feed(stream_frame(2, b"hello "))
    twins.feed(stream_frame(2, b"world", 6, fin=True))
    assert twins.check() == [
        StreamDataReceived(data=b"hello ", end_stream=False, stream_id=2),
        StreamDataReceived(data=b"world", end_stream=True, stream_id=2),
    ]


def test_many_frames_in_one_packet_and_one_without_length_at_the_end() -> None:
    twins = fresh()
    twins.feed(
        stream_frame(2, b"a")
        + stream_frame(6, b"b" * 100, fin=True)
        + b"\x31\x03abc"
        + stream_frame(0, b"c" * 70, length=False)
    )
    assert len(twins.check()) == 4


def test_stream_data_late_double_and_overlapping() -> None:
    twins = fresh()
    for offset, size, fin in ((10, 5, True), (0, 4, False), (2, 6, False), (0, 4, False)):
        twins.feed(stream_frame(2, bytes(range(offset, offset + size)), offset, fin=fin))
        twins.check()
    twins.feed(stream_frame(2, bytes(range(8, 12)), 8))
    events = twins.check()
    assert isinstance(events[-1], StreamDataReceived)
    assert events[-1].end_stream
    twins.feed(stream_frame(2, b"\x00", 0))
    assert twins.check() == []


def test_an_end_without_data() -> None:
    twins = fresh()
    twins.feed(stream_frame(2, b"x"))
    twins.feed(stream_frame(2, b"", 1, fin=True))
    assert len(twins.check()) == 2
    twins.feed(stream_frame(6, b"", fin=True))
    assert len(twins.check()) == 1


def test_data_for_a_stream_that_is_over_and_forgotten() -> None:
    twins = fresh()
    twins.feed(stream_frame(2, b"x", fin=True))
    twins.check()
    twins.flush()
    assert 2 not in twins.fast._streams
    twins.feed(stream_frame(2, b"x", fin=True) + stream_frame(6, b"y"))
    assert [event.stream_id for event in twins.check()] == [6]


def test_datagrams_with_and_without_length() -> None:
    twins = fresh()
    twins.feed(b"\x31\x02ab" + b"\x31\x00" + b"\x30rest")
    assert twins.check() == [DatagramFrameReceived(data=each) for each in (b"ab", b"", b"rest")]


def test_padding_and_ping() -> None:
    twins = fresh()
    twins.feed(bytes(40))
    twins.check()
    assert twins.fast._space.ack_at is None
    twins.feed(b"\x00\x01\x00\x00")
    twins.check()
    assert twins.fast._space.ack_at is not None


def test_credit_for_the_connection_and_for_a_stream() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(1, b"x"))
    twins.feed(b"\x10" + varints(1 << 30) + b"\x11" + varints(1, 1 << 31))
    twins.feed(b"\x10\x05" + b"\x11\x01\x05")  # less than before: no effect
    twins.check()
    assert twins.fast._remote_max_data == 1 << 30
    assert twins.fast._streams[1].max_stream_data_remote == 1 << 31


def test_credit_for_a_stream_of_the_peer_that_is_new() -> None:
    twins = fresh()
    twins.feed(b"\x11" + varints(0, 1 << 31))
    twins.check()
    assert twins.fast._streams[0].max_stream_data_remote == 1 << 31


def test_acknowledgements_with_and_without_gaps() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(1, bytes(9000), end_stream=True))
    assert len(twins.flush()) == 8
    twins.now += 0.05
    twins.feed(b"\x02" + varints(7, 100, 2, 0, 1, 1, 0, 0))  # 7, 3 to 4, 1
    twins.check()
    assert twins.fast._loss.bytes_in_flight < 9000
    twins.now += 0.01
    twins.feed(b"\x02" + varints(7, 100, 0, 7))
    twins.check()


def test_an_ack_of_the_ack_trims_what_is_acknowledged() -> None:
    twins = fresh()
    twins.feed(b"\x01")
    twins.now += 1
    assert len(twins.flush()) == 1
    twins.feed(b"\x02" + varints(0, 0, 0, 0))
    twins.check()
    assert list(twins.fast._space.ack_queue) == [range(1, 2)]


def test_acknowledgements_with_ecn_counts_are_the_parents() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(1, b"x"))
    twins.flush()
    twins.feed(b"\x03" + varints(0, 0, 0, 0, 1, 2, 3))
    twins.check()
    assert twins.fast._loss.bytes_in_flight == 0


def test_frames_of_the_parent_between_ours() -> None:
    twins = fresh()
    reset = b"\x04" + varints(2, 9, 1)
    twins.feed(stream_frame(2, b"x") + reset + stream_frame(6, b"y"))
    events = twins.check()
    assert StreamReset(error_code=9, stream_id=2) in events
    assert events[-1] == StreamDataReceived(data=b"y", end_stream=False, stream_id=6)


def test_more_streams_allowed_by_the_peer_unblock_ours() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(4 * 128 + 1, b"blocked"))
    twins.flush()
    twins.feed(b"\x12" + varints(200))
    twins.check()
    twins.now += 0.01
    assert twins.flush()
    twins.check()


def test_stop_sending_resets_our_half() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(1, b"data"))
    twins.flush()
    twins.feed(b"\x05" + varints(1, 77))
    twins.check()
    assert len(twins.flush()) == 1
    twins.check()


BAD: dict[str, tuple[bytes, int]] = {
    "nothing at all": (b"", QuicErrorCode.PROTOCOL_VIOLATION),
    "unknown frame": (b"\x01\x40\x99", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut frame type": (b"\x01\x40", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut stream id": (b"\x0e\x40", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut offset": (b"\x0e\x02\xc0\x00", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut stream data": (b"\x0a\x02\x05abc", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut stream": (b"\x0a", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut datagram": (b"\x31\x05abc", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut ack": (b"\x02\x05\x00\x01\x00", QuicErrorCode.FRAME_ENCODING_ERROR),
    "ack of nothing": (b"\x02\x05\x00\x00\x06", QuicErrorCode.FRAME_ENCODING_ERROR),
    "ack with absurdly many ranges": (
        b"\x02\x05\x00" + varints(1 << 40) + b"\x00",
        QuicErrorCode.FRAME_ENCODING_ERROR,
    ),
    "cut credit": (b"\x10", QuicErrorCode.FRAME_ENCODING_ERROR),
    "cut stream credit": (b"\x11\x00", QuicErrorCode.FRAME_ENCODING_ERROR),
    "offset beyond the end of numbers": (
        b"\x0e\x02" + b"\xff" * 8 + b"\x01x",
        QuicErrorCode.FRAME_ENCODING_ERROR,
    ),
    "over the stream's limit": (
        stream_frame(2, b"x", 1 << 20),
        QuicErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a stream that only we may open": (stream_frame(1, b"x"), QuicErrorCode.STREAM_STATE_ERROR),
    "a stream that only sends": (stream_frame(3, b"x"), QuicErrorCode.STREAM_STATE_ERROR),
    "too many streams": (stream_frame(4 * 128 + 2, b"x"), QuicErrorCode.STREAM_LIMIT_ERROR),
    "credit for a stream of theirs": (b"\x11\x02\x05", QuicErrorCode.STREAM_STATE_ERROR),
    "credit for a stream unknown": (b"\x11\x01\x05", QuicErrorCode.STREAM_STATE_ERROR),
    "handshake done from a client": (b"\x1e", QuicErrorCode.PROTOCOL_VIOLATION),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("before", [b"", stream_frame(2, b"fine")])
def test_what_breaks_the_protocol_closes_with_the_parents_code(name: str, before: bytes) -> None:
    if name == "nothing at all":
        before = b""
    twins = fresh()
    payload, code = BAD[name]
    twins.feed(before + payload)
    twins.check()
    assert twins.fast._close_event is not None
    assert twins.fast._close_event.error_code == code
    twins.flush()


def test_data_on_our_own_one_way_stream() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(3, b"x"))
    twins.feed(stream_frame(3, b"x"))
    twins.check()
    assert twins.fast._close_event is not None
    assert twins.fast._close_event.error_code == QuicErrorCode.STREAM_STATE_ERROR


def test_credit_for_a_one_way_stream_of_theirs_that_is_open() -> None:
    twins = fresh()
    twins.feed(stream_frame(2, b"x"))
    twins.feed(b"\x11\x02\x05")
    twins.check()
    assert twins.fast._close_pending


def test_an_end_that_moves() -> None:
    twins = fresh()
    twins.feed(stream_frame(2, b"x", 5, fin=True))
    twins.feed(stream_frame(2, b"x", 8))
    twins.check()
    assert twins.fast._close_event is not None
    assert twins.fast._close_event.error_code == QuicErrorCode.FINAL_SIZE_ERROR


def test_over_the_connections_limit() -> None:
    twins = fresh()
    for twin in twins.both:
        twin._local_max_data.value = twin._local_max_data.sent = 1000
    twins.feed(stream_frame(2, bytes(600)))
    twins.check()
    twins.feed(stream_frame(6, bytes(600)))
    twins.check()
    assert twins.fast._close_event is not None
    assert twins.fast._close_event.error_code == QuicErrorCode.FLOW_CONTROL_ERROR


def test_datagrams_that_were_not_offered() -> None:
    twins = fresh()
    for twin in twins.both:
        twin._configuration.max_datagram_frame_size = None
    twins.feed(b"\x31\x01x")
    twins.check()
    assert twins.fast._close_event is not None


FRAMES = st.one_of(
    st.builds(
        stream_frame,
        st.sampled_from([0, 1, 2, 3, 4, 6, 514]),
        st.binary(max_size=30),
        st.integers(0, 80) | st.sampled_from([1 << 20, (1 << 20) - 5, (1 << 62) - 1]),
        fin=st.booleans(),
    ),
    st.builds(
        lambda last, gaps: b"\x02" + varints(last, 3, len(gaps) // 2, 0, *gaps),
        st.integers(0, 40),
        st.lists(st.integers(0, 5), max_size=6).filter(lambda gaps: len(gaps) % 2 == 0),
    ),
    st.builds(lambda data: b"\x31" + varints(len(data)) + data, st.binary(max_size=20)),
    st.builds(lambda kind, value: bytes([kind]) + varints(value), st.sampled_from([16, 18, 19]),
              st.integers(0, 1 << 21)),
    st.builds(lambda a, b: b"\x11" + varints(a, b), st.integers(0, 5), st.integers(0, 1 << 21)),
    st.builds(lambda a, b, c: b"\x04" + varints(a, b, c), st.integers(0, 6), st.integers(0, 9),
              st.integers(0, 90)),
    st.builds(lambda a, b: b"\x05" + varints(a, b), st.integers(0, 6), st.integers(0, 9)),
    st.sampled_from([b"\x00", b"\x00\x00\x00", b"\x01"]),
    st.binary(max_size=6),
)  # fmt: skip


@given(
    packets=st.lists(st.lists(FRAMES, min_size=1, max_size=4), max_size=12),
    is_client=st.booleans(),
)
def test_any_frames_in_any_order(packets: list[list[bytes]], is_client: bool) -> None:
    twins = fresh(is_client=is_client)
    own = 0 if is_client else 1
    twins.do(lambda each: each.send_stream_data(own, bytes(4000)))
    twins.flush()
    for frames in packets:
        twins.now += 0.001
        twins.feed(b"".join(frames))
        twins.check()


def test_varints_are_read_as_aioquic_reads_them() -> None:
    for value in (0, 63, 64, 16383, 16384, 2**30 - 1, 2**30, 2**62 - 1):
        twins = fresh()
        twins.feed(b"\x10" + varints(value))
        twins.check()
        assert twins.fast._remote_max_data == max(1 << 20, value)
        for size in (2, 4, 8):  # longer than needed is allowed (RFC 9000, 16)
            if value < 1 << (8 * size - 2):
                buffer = Buffer(8)
                bits = {2: 0x4000, 4: 0x8000_0000, 8: 0xC000_0000_0000_0000}[size]
                buffer.push_bytes((value | bits).to_bytes(size, "big"))
                twins.feed(b"\x10" + buffer.data)
                twins.check()
