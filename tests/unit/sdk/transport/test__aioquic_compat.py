from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.quic.recovery import QuicPacketRecovery
from aioquic.tls import Epoch

from laps_sdk.errors import TransportError
from laps_sdk.transport import _aioquic_compat as compat


def test_the_installed_aioquic_has_every_name() -> None:
    assert compat.missing_names() == []
    compat.check()


def test_every_name_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(QuicConnection, "_flush_builder")
    monkeypatch.delattr(QuicPacketRecovery, "congestion_window")
    with pytest.raises(TransportError) as caught:
        compat.check()
    text = str(caught.value)
    assert text.startswith("aioquic 1.7")
    assert "lacks QuicConnection._flush_builder, QuicPacketRecovery.congestion_window;" in text
    assert text.endswith("needs aioquic>=1.7,<1.8")


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
    control = compat.CountingReno(max_datagram_size=1200)
    window = control.congestion_window
    lost = [packet(1200, 1.0), packet(1452, 1.1), packet(40, 1.2)]
    for each in lost:
        control.on_packet_sent(packet=each)
    control.on_packets_lost(now=2.0, packets=iter(lost))
    assert (control.packets_lost, control.large_lost) == (3, 1)
    assert control.bytes_in_flight == 0
    assert control.congestion_window == window // 2


def test_a_trace_keeps_its_newest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "MAX_EVENTS", 3)
    trace = compat.BoundedTrace(is_client=True, odcid=b"\x01")
    for number in range(5):
        trace.log_event(category="test", event=str(number), data={})
    assert [event["name"] for event in trace.to_dict()["events"]] == ["test:2", "test:3", "test:4"]
