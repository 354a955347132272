"""What the aioquic backend changes in the library, and the check of its release."""

from __future__ import annotations

from typing import cast

import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.quic.recovery import QuicPacketRecovery

from laps_sdk.errors import TransportError
from laps_sdk.quic.aioquic import compat
from laps_sdk.quic.aioquic.compat import BURST, BurstPacer


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


# The pacer


def pacer_at(window: int, rtt: float) -> BurstPacer:
    pacer = BurstPacer(max_datagram_size=1000)
    pacer.update_rate(congestion_window=window, smoothed_rtt=rtt)
    return pacer


def test_before_the_first_round_trip_is_known_nothing_is_paced() -> None:
    pacer = BurstPacer(max_datagram_size=1000)
    assert pacer.allowance(5.0) == BURST
    pacer.spend(BURST)
    assert pacer.allowance(5.0) == BURST
    assert pacer.pause_end(5.0) is None
    assert cast("float | None", pacer.next_send_time(5.0)) is None


def test_a_burst_goes_at_once_then_as_many_as_the_rate_allows() -> None:
    pacer = pacer_at(window=100_000, rtt=0.1)  # a packet a millisecond
    assert pacer.allowance(10.0) == BURST
    pacer.spend(BURST)
    assert pacer.allowance(10.0) == 0
    assert pacer.pause_end(10.0) == pytest.approx(10.001)
    assert pacer.allowance(10.0105) == 11
    pacer.spend(11)
    assert pacer.allowance(10.0105) == 0


def test_the_bucket_never_holds_more_than_a_burst() -> None:
    pacer = pacer_at(window=100_000, rtt=0.1)
    assert pacer.allowance(10.0) == BURST
    assert pacer.allowance(99.0) == BURST


def test_a_pause_is_for_several_packets_but_at_most_a_millisecond() -> None:
    quick = pacer_at(window=1_000_000, rtt=0.02)  # a packet each 20 microseconds
    quick.allowance(10.0)
    quick.spend(BURST)
    assert quick.pause_end(10.0) == pytest.approx(10.0 + 16 * 0.00002)
    slow = pacer_at(window=10_000, rtt=1.0)  # a packet each 100 milliseconds
    slow.allowance(10.0)
    slow.spend(BURST)
    assert slow.pause_end(10.0) == pytest.approx(10.1)


def test_with_something_left_there_is_no_pause() -> None:
    pacer = pacer_at(window=64_000, rtt=0.0625)  # a packet takes 1/1024 s, exactly
    pacer.allowance(10.0)
    pacer.spend(BURST - 1)
    assert pacer.pause_end(10.0) is None
    assert pacer.allowance(10.0) == 1


def test_the_parents_way_of_spending_is_the_same() -> None:
    ours, parents = pacer_at(100_000, 0.1), pacer_at(100_000, 0.1)
    assert ours.allowance(10.0) == parents.allowance(10.0)
    ours.spend(5)
    for _ in range(5):
        parents.update_after_send(now=10.0)
    assert ours.bucket_time == pytest.approx(parents.bucket_time)
