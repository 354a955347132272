"""Faults of aioquic that :class:`Tuned` corrects, over aioquic's own class and the fast path."""

from __future__ import annotations

from typing import Any

import aioquic
import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.tls import Epoch

from laps_sdk.quic.aioquic.compat import Tuned
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.selfcheck import prepared
from laps_sdk.quic.base import ConnectionLimits
from testkit.engines import Link, make_engine

NOW = 1000.0


class TunedStock(Tuned):
    def __init__(self, **options: Any) -> None:
        super().__init__(limits=ConnectionLimits(), **options)


class TunedFast(TunedStock, FastQuicConnection):
    pass


def lost_ends(kind: type[QuicConnection]) -> list[int]:
    """For each amount of data before it: is a FIN neither under way nor waiting?"""
    found = []
    for size in range(1100, 1200):
        connection = prepared(kind, is_client=True, now=NOW)
        connection.send_ping(1)  # the fast path leaves this to its parent
        connection.send_stream_data(0, bytes(size))
        connection.send_stream_data(4, b"", end_stream=True)
        while connection.datagrams_to_send(now=NOW):
            pass
        sender = connection._streams[4].sender
        under_way = any(
            handler == sender.on_data_delivery
            for packet in connection._spaces[Epoch.ONE_RTT].sent_packets.values()
            for handler, _ in packet.delivery_handlers
        )
        if not under_way and not sender._pending_eof:
            found.append(size)
    return found


def test_aioquic_loses_an_end_that_meets_a_full_packet() -> None:
    """1.7.1 does not: ``Tuned`` has one task less when we need that version at least."""
    assert bool(lost_ends(QuicConnection)) == (aioquic.__version__ == "1.7.0")


@pytest.mark.parametrize("kind", [TunedStock, TunedFast])
def test_an_end_that_meets_a_full_packet_is_not_lost(kind: type[QuicConnection]) -> None:
    assert lost_ends(kind) == []


@pytest.mark.parametrize("name", ["aioquic", "aioquic-stock"])
def test_what_was_sent_before_a_retry_is_not_in_flight_for_ever(name: str) -> None:
    link = Link(make_engine(name, server=False), make_engine("qh3", server=True))
    assert link.retry
    link.run(lambda: link.client.connected and link.server.connected)
    link.settle()
    assert link.client.quic.stats().bytes_in_flight == 0
