"""Halves of streams: like aioquic's, and they say when there is something to do."""

from __future__ import annotations

import pytest
from aioquic.quic.packet import QuicStreamFrame
from aioquic.quic.packet_builder import QuicDeliveryState
from aioquic.quic.stream import FinalSizeError, QuicStream
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.streams import FastReceiver, FastSender, Ready, adopt, ranges_of

ACKED, LOST = QuicDeliveryState.ACKED, QuicDeliveryState.LOST


def adopted() -> tuple[QuicStream, Ready]:
    stream = QuicStream(stream_id=8, max_stream_data_local=1000, max_stream_data_remote=1000)
    ready = Ready()
    adopt(stream, ready)
    return stream, ready


def took(ready: Ready) -> bool:
    """Whether the stream was said to be busy since the last question."""
    result = 8 in ready
    ready.clear()
    return result


def test_adopting_keeps_the_state_and_changes_the_class() -> None:
    stream, ready = adopted()
    assert isinstance(stream.sender, FastSender)
    assert isinstance(stream.receiver, FastReceiver)
    assert stream.sender.wire_id == b"\x08"
    assert stream.sender.pending is ranges_of(stream.sender._pending)
    assert not ready


def test_everything_to_send_makes_a_stream_busy() -> None:
    stream, ready = adopted()
    stream.sender.write(b"data")
    assert took(ready)
    stream.sender.write(b"", end_stream=True)
    assert took(ready)
    frame = stream.sender.get_frame(100)
    assert frame is not None
    assert frame.fin
    stream.sender.on_data_delivery(LOST, 0, 4, fin=True)
    assert took(ready)
    stream.sender.reset(7)
    assert took(ready)
    stream.sender.on_reset_delivery(LOST)
    assert took(ready)
    stream.receiver.stop(9)
    assert took(ready)
    stream.receiver.on_stop_sending_delivery(LOST)
    assert took(ready)


def test_what_ends_a_half_makes_a_stream_busy_because_it_may_be_discarded() -> None:
    stream, ready = adopted()
    stream.receiver.handle_reset(final_size=0, error_code=1)
    assert took(ready)
    stream.sender.reset(7)
    took(ready)
    stream.sender.on_reset_delivery(ACKED)
    assert took(ready)
    assert stream.is_finished


def test_a_delivered_stop_sending_needs_nothing() -> None:
    stream, ready = adopted()
    stream.receiver.stop(9)
    took(ready)
    stream.receiver.on_stop_sending_delivery(ACKED)
    assert not took(ready)


def test_acknowledged_data_needs_nothing_until_the_last_of_it() -> None:
    stream, ready = adopted()
    stream.sender.write(b"0123456789", end_stream=True)
    stream.sender.get_frame(4)
    stream.sender.get_frame(6)
    took(ready)
    stream.sender.on_data_delivery(ACKED, 0, 4, fin=False)
    assert not took(ready)
    assert bytes(stream.sender._buffer) == b"456789"
    stream.sender.on_data_delivery(ACKED, 4, 10, fin=True)
    assert took(ready)
    assert stream.sender.is_finished


def test_received_data_may_need_a_limit() -> None:
    stream, ready = adopted()
    event = stream.receiver.handle_frame(QuicStreamFrame(data=b"abc", offset=0))
    assert event is not None
    assert event.data == b"abc"
    assert took(ready)


def test_writing_after_the_end_is_refused_as_by_aioquic() -> None:
    stream, _ = adopted()
    stream.sender.write(b"x", end_stream=True)
    with pytest.raises(RuntimeError, match="after FIN"):
        stream.sender.write(b"y")
    stream, _ = adopted()
    stream.sender.reset(1)
    with pytest.raises(RuntimeError, match="reset"):
        stream.sender.write(b"y")


def test_data_beyond_the_end_is_refused_as_by_aioquic() -> None:
    stream, _ = adopted()
    stream.receiver.handle_frame(QuicStreamFrame(data=b"abc", offset=0, fin=True))
    with pytest.raises(FinalSizeError):
        stream.receiver.handle_frame(QuicStreamFrame(data=b"x", offset=3))


def state(stream: QuicStream) -> tuple[object, ...]:
    sender = stream.sender
    return (
        list(sender._pending),
        list(sender._acked),
        sender._buffer_start,
        sender._buffer_stop,
        bytes(sender._buffer),
        sender.is_finished,
        sender._acked_fin,
        sender._pending_eof,
        sender.highest_offset,
    )


@given(st.data())
def test_whatever_happens_a_sender_is_like_aioquics(data: st.DataObject) -> None:
    stock = QuicStream(stream_id=8)
    fast, _ = QuicStream(stream_id=8), adopt
    adopt(fast, Ready())
    under_way: list[tuple[int, int, bool]] = []
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(["write", "send", "ack", "lose"]))
        if step == "write" and stock.sender._buffer_fin is None:
            chunk = bytes(data.draw(st.integers(0, 20)))
            end = data.draw(st.booleans())
            for stream in (stock, fast):
                stream.sender.write(chunk, end_stream=end)
        elif step == "send":
            size = data.draw(st.integers(1, 15))
            frames = [stream.sender.get_frame(size) for stream in (stock, fast)]
            assert frames[0] == frames[1]
            if frames[0] is not None:
                start = frames[0].offset
                under_way.append((start, start + len(frames[0].data), frames[0].fin))
        elif step in ("ack", "lose") and under_way:
            index = data.draw(st.integers(0, len(under_way) - 1))
            start, stop, fin = under_way.pop(index)
            for stream in (stock, fast):
                stream.sender.on_data_delivery(ACKED if step == "ack" else LOST, start, stop, fin)
        assert state(stock) == state(fast)
