from __future__ import annotations

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.packet_builder import QuicPacketBuilderStop, QuicSentPacket
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.frames import FrameCollector, SentPacket, encode_varint


def test_frames_are_kept_in_order_with_their_handlers() -> None:
    collector = FrameCollector()
    collector.begin(5, 100, 100)
    collector.start_frame(QuicFrameType.MAX_DATA, 9, print, (1,)).push_uint_var(1000)
    collector.start_frame(QuicFrameType.PING)
    collector.take()
    assert collector.parts == [b"\x10\x43\xe8", b"\x01"]
    assert collector.handlers == [(print, (1,))]
    assert collector.room == 96
    assert collector.ack_eliciting
    assert collector.packet_number == 5


def test_a_frame_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    collector = FrameCollector()
    collector.begin(0, 5, 100)
    with pytest.raises(QuicPacketBuilderStop):
        collector.start_frame(QuicFrameType.MAX_DATA, 9, print)
    collector.take()
    assert collector.parts == []
    assert collector.handlers == []


def test_an_ack_does_not_count_against_the_window() -> None:
    collector = FrameCollector()
    collector.begin(0, -50, 100)
    collector.start_frame(QuicFrameType.ACK, 33).push_uint_var(1)
    assert collector.remaining_buffer_space == 98
    assert collector.remaining_flight_space == -52
    collector.take()
    assert collector.parts == [b"\x02\x01"]
    assert not collector.ack_eliciting
    with pytest.raises(QuicPacketBuilderStop):
        collector.start_frame(QuicFrameType.ACK, 99)


def test_a_collector_begins_anew() -> None:
    collector = FrameCollector()
    collector.begin(0, 100, 100)
    collector.start_frame(QuicFrameType.PING)
    collector.take()
    collector.begin(1, 100, 100)
    assert collector.parts == []
    assert not collector.ack_eliciting


@pytest.mark.parametrize("eliciting", [True, False])
def test_a_record_has_what_aioquics_has(eliciting: bool) -> None:
    ours = SentPacket(7, 12.5, 1200, [], eliciting)
    theirs = QuicSentPacket(
        epoch=ours.epoch,
        in_flight=eliciting,
        is_ack_eliciting=eliciting,
        is_crypto_packet=False,
        packet_number=7,
        packet_type=ours.packet_type,
        sent_time=12.5,
        sent_bytes=1200,
    )
    for name in QuicSentPacket.__dataclass_fields__:
        expected = getattr(theirs, name)
        found = getattr(ours, name)
        assert (list(found) if isinstance(expected, list) else found) == expected


# Integers


EDGES = [0, 63, 64, 16383, 16384, 2**30 - 1, 2**30, 2**62 - 1]


@pytest.mark.parametrize("value", EDGES)
def test_the_edges_of_each_length_are_as_aioquic_writes_them(value: int) -> None:
    buffer = Buffer(8)
    buffer.push_uint_var(value)
    assert encode_varint(value) == buffer.data


@given(st.integers(0, 2**62 - 1))
def test_any_integer_is_as_aioquic_writes_it(value: int) -> None:
    buffer = Buffer(8)
    buffer.push_uint_var(value)
    assert encode_varint(value) == buffer.data
