from __future__ import annotations

from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.tls import Epoch

from laps_sdk.quic.aioquic.compat import CountingReno


def packet(size: int, sent: float) -> QuicSentPacket:
    return QuicSentPacket(
        epoch=Epoch.ONE_RTT,
        in_flight=True,
        is_ack_eliciting=True,
        is_crypto_packet=False,
        packet_number=1,
        packet_type=QuicPacketType.ONE_RTT,
        sent_time=sent,
        sent_bytes=size,
    )


def test_congestion_control_counts_and_acts_as_new_reno() -> None:
    control = CountingReno(max_datagram_size=1200)
    window = control.congestion_window
    lost = [packet(1200, 1.0), packet(1452, 1.1), packet(40, 1.2)]
    for each in lost:
        control.on_packet_sent(packet=each)
    control.on_packets_lost(now=2.0, packets=iter(lost))
    assert (control.packets_lost, control.large_lost) == (3, 1)
    assert control.bytes_in_flight == 0
    assert control.congestion_window == window // 2


def fly(control: CountingReno, packets: list[QuicSentPacket], now: float) -> None:
    """Send all, have all acknowledged."""
    for each in packets:
        control.on_packet_sent(packet=each)
    for each in packets:
        control.on_packet_acked(now=now, packet=each)


def test_a_window_that_is_not_used_does_not_grow() -> None:
    control = CountingReno(max_datagram_size=1200)
    window = control.congestion_window
    for turn in range(1000):
        fly(control, [packet(1200, 1.0 + turn)], 1.5 + turn)
    assert control.congestion_window == window
    assert control.bytes_in_flight == 0


def test_a_window_that_is_used_doubles_in_slow_start() -> None:
    control = CountingReno(max_datagram_size=1200)
    window = control.congestion_window
    for turn in range(4):
        count = control.congestion_window // 1200
        fly(control, [packet(1200, 1.0 + turn) for _ in range(count)], 1.5 + turn)
    assert control.congestion_window == 16 * window


def test_a_window_that_was_used_once_grows_to_twice_its_use_at_most() -> None:
    control = CountingReno(max_datagram_size=1200)
    fly(control, [packet(1200, 1.0) for _ in range(10)], 1.5)
    grown = control.congestion_window
    for turn in range(2, 1000):
        fly(control, [packet(1200, turn) for _ in range(3)], turn + 0.5)
    assert control.congestion_window == grown == 20 * 1200


def test_a_burst_counts_like_its_packets() -> None:
    one_by_one, at_once = (CountingReno(max_datagram_size=1200) for _ in range(2))
    packets = [packet(1200, 1.0) for _ in range(10)]
    for each in packets:
        one_by_one.on_packet_sent(packet=each)
    at_once.on_bytes_sent(12_000)
    for control in (one_by_one, at_once):
        for each in packets:
            control.on_packet_acked(now=2.0, packet=each)
        assert control.bytes_in_flight == 0
    assert one_by_one.congestion_window == at_once.congestion_window
