"""Received packets, each to a stock and a fast connection: both end up in the same state."""

from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection, QuicConnectionId, QuicConnectionState
from aioquic.quic.events import StreamDataReceived
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import CipherSuite, Epoch
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.selfcheck import ADDRESSES, prepared
from testkit.quic_twins import Twins


def fresh(
    *, is_client: bool = False, suite: CipherSuite = CipherSuite.AES_128_GCM_SHA256
) -> Twins[FastQuicConnection]:
    return Twins(FastQuicConnection, is_client=is_client, suite=suite)


def data_frame(offset: int) -> bytes:
    """One byte of stream 2, which the peer has opened."""
    return bytes([0x0E, 2, 0x40 | offset >> 8, offset & 0xFF, 1, 0x78])


@pytest.mark.parametrize("is_client", [False, True])
@pytest.mark.parametrize(
    "suite",
    [
        CipherSuite.AES_128_GCM_SHA256,
        CipherSuite.AES_256_GCM_SHA384,
        CipherSuite.CHACHA20_POLY1305_SHA256,
    ],
)
def test_every_cipher_and_role(suite: CipherSuite, is_client: bool) -> None:
    twins = fresh(is_client=is_client, suite=suite)
    twins.feed(b"\x0b\x03\x05hello" if is_client else b"\x0b\x02\x05hello")
    (event,) = twins.check()
    assert isinstance(event, StreamDataReceived)
    twins.now += 0.01
    assert len(twins.flush()) == 1
    twins.check()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_packet_numbers_of_every_length(size: int) -> None:
    twins = fresh()
    flags = 0x40 | (size - 1)
    for number in (0, 1, 5, 4, 120):
        twins.feed(b"\x01\x00\x00\x00", number=number, flags=flags)
        twins.check()
    assert twins.fast._space.expected_packet_number == 121


def test_packet_numbers_go_on_beyond_two_bytes() -> None:
    twins = fresh()
    for number in (0, 0x7FFE, 0xFFF0, 0xFFFF, 0x10000, 0x10005, 0xFFFE, 0x17000):
        twins.feed(b"\x01\x00\x00", number=number)
        twins.check()
    assert twins.fast._space.largest_received_packet == 0x17000


def test_a_packet_that_comes_twice_counts_once() -> None:
    twins = fresh()
    packet = twins.seal(b"\x0a\x02\x02ab")
    twins.feed_datagram(packet)
    assert len(twins.check()) == 1
    twins.feed_datagram(packet)
    assert twins.check() == []


def test_a_packet_far_too_old_counts_as_seen() -> None:
    twins = fresh()
    twins.feed(b"\x01\x00\x00", number=1000)
    twins.feed(b"\x01\x00\x00", number=10)
    twins.check()
    assert list(twins.fast._space.ack_queue) == [range(1000, 1001)]


def test_more_gaps_than_are_remembered() -> None:
    twins = fresh()
    for number in range(0, 300, 2):
        twins.feed(b"\x01\x00\x00", number=number)
    twins.check()
    assert len(list(twins.fast._space.ack_queue)) == 64
    twins.now += 1
    twins.flush()
    twins.check()


@pytest.mark.parametrize("flags", [0x49, 0x51, 0x59])
def test_reserved_bits_close_the_connection(flags: int) -> None:
    twins = fresh()
    twins.feed(b"\x01\x00\x00", flags=flags)
    twins.check()
    assert twins.fast._close_event is not None
    assert twins.fast._close_event.error_code == QuicErrorCode.PROTOCOL_VIOLATION


def test_the_spin_bit_goes_round() -> None:
    for is_client in (False, True):
        twins = fresh(is_client=is_client)
        for flags in (0x61, 0x41, 0x61):
            twins.feed(b"\x01\x00\x00", flags=flags)
            twins.check()
        twins.now += 1
        twins.flush()


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x41",
        bytes(30),
        b"\xff" * 60,
        b"\x41" + bytes(60),
        b"\xc0\x00\x00\x00\x01" + bytes(60),
    ],
)
def test_garbage_changes_nothing(datagram: bytes) -> None:
    twins = fresh()
    twins.feed_datagram(datagram)
    assert twins.check() == []
    twins.feed(b"\x01\x00\x00")
    twins.check()


def test_short_datagrams_in_a_batch_do_not_disturb_the_others() -> None:
    twins = fresh()
    batch = []
    for index in range(6):
        batch += [b"", b"\x41short", twins.seal(data_frame(index)), bytes(25)]
    for datagram in batch:
        twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
    twins.fast.receive_datagrams(batch, twins.source, twins.now)
    assert len(twins.check()) == 6


@given(st.data())
def test_any_batch_is_like_one_by_one(data: st.DataObject) -> None:
    twins = fresh()
    packets = [twins.seal(data_frame(index)) for index in range(10)]
    # A flipped bit, a key phase that does not exist, nothing: whatever comes in between.
    packets += [bytes([packets[0][0] ^ 4]) + packets[0][1:], packets[1][:-1], b"", b"\x41"]
    batch = data.draw(st.lists(st.sampled_from(packets), max_size=20))
    for datagram in batch:
        twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
    twins.fast.receive_datagrams(batch, twins.source, twins.now)
    twins.check()


def test_before_the_handshake_a_batch_goes_to_the_parent() -> None:
    twins = fresh()
    packets = [twins.seal(data_frame(index)) for index in range(3)]
    for twin in twins.both:
        twin._handshake_confirmed = False
    for datagram in packets:
        twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
    twins.fast.receive_datagrams(packets, twins.source, twins.now)
    assert len(twins.check()) == 3
    assert twins.fast._pair is None


def test_a_key_update_of_the_peer() -> None:
    twins = fresh()
    twins.feed(b"\x0a\x02\x02ab")
    twins.check()
    twins.peer._cryptos[Epoch.ONE_RTT].update_key()
    before = [twins.seal(b"\x0e\x02\x02\x02cd"), twins.seal(b"\x0e\x02\x04\x02ef")]
    twins.stock.receive_datagram(before[0], twins.source, now=twins.now)
    twins.stock.receive_datagram(before[1], twins.source, now=twins.now)
    twins.fast.receive_datagrams(before, twins.source, twins.now)
    assert len(twins.check()) == 2
    assert twins.fast._cryptos[Epoch.ONE_RTT].recv.key_phase == 1
    twins.now += 1
    twins.flush()
    twins.check()


def test_a_packet_while_closing_is_not_recorded() -> None:
    twins = fresh()
    twins.do(lambda each: each.close(error_code=7))
    twins.feed(b"\x0a\x02\x02ab")
    twins.check()
    twins.flush()
    twins.feed(b"\x0a\x02\x02ab")
    twins.check()
    assert twins.fast._state is QuicConnectionState.CLOSING


def test_a_close_of_the_peer_in_the_middle_of_a_batch() -> None:
    twins = fresh()
    batch = [twins.seal(data_frame(0)), twins.seal(b"\x1d\x05\x00"), twins.seal(data_frame(1))]
    for datagram in batch:
        twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
    twins.fast.receive_datagrams(batch, twins.source, twins.now)
    assert len(twins.check()) == 1
    assert twins.fast._state is QuicConnectionState.DRAINING


def test_an_error_in_the_middle_of_a_batch() -> None:
    twins = fresh()
    batch = [twins.seal(data_frame(0)), twins.seal(b"\x21\x21\x21"), twins.seal(data_frame(1))]
    for datagram in batch:
        twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
    twins.fast.receive_datagrams(batch, twins.source, twins.now)
    twins.check()
    assert twins.fast._close_pending


def test_after_the_end_packets_are_ignored() -> None:
    twins = fresh()
    twins.feed(b"\x01\x00\x00")
    twins.wait(100.0)
    twins.feed(b"\x01\x00\x00")
    for twin in twins.both:
        assert twin._state is QuicConnectionState.TERMINATED


def test_a_client_takes_no_packets_from_elsewhere() -> None:
    twins = fresh(is_client=True)
    twins.feed_datagram(twins.seal(b"\x0a\x03\x02ab"), source=("203.0.113.9", 9))
    assert twins.check() == []


def test_a_server_follows_a_client_to_another_address() -> None:
    twins = fresh()
    moved = ("203.0.113.9", 9)
    twins.feed_datagram(twins.seal(b"\x0a\x02\x02ab"), source=moved)
    twins.check()
    assert twins.fast.get_peer_address() == moved
    assert not twins.fast._network_paths[0].is_validated


def test_a_client_is_addressed_by_another_of_its_ids() -> None:
    twins = fresh(is_client=True)
    other = QuicConnectionId(cid=b"client-1", sequence_number=1, was_sent=True)
    for twin in twins.both:
        twin._host_cids.append(other)
    twins.peer._peer_cid = other
    twins.feed(b"\x0a\x03\x02ab")
    assert len(twins.check()) == 1
    twins.feed(b"\x19\x00\x00")  # the peer retires the first one
    twins.check()
    assert next(each.cid for each in twins.fast._host_cids) == b"client-1"


def test_an_unknown_id_is_not_ours() -> None:
    twins = fresh(is_client=True)
    twins.peer._peer_cid = QuicConnectionId(cid=b"nobody's", sequence_number=9)
    twins.feed(b"\x0a\x03\x02ab")
    assert twins.check() == []


def test_a_server_changes_its_id_with_its_client() -> None:
    twins = fresh()
    other = QuicConnectionId(cid=b"server-1", sequence_number=1, was_sent=True)
    for twin in twins.both:
        twin._host_cids.append(other)
    twins.peer._peer_cid = other
    twins.feed(b"\x0a\x02\x02ab")
    assert len(twins.check()) == 1
    assert twins.fast.host_cid == b"server-1"


def test_a_stock_sender_is_understood_by_both() -> None:
    sender = prepared(QuicConnection, is_client=True, now=1000.0)
    twins = fresh()
    sender.send_stream_data(0, bytes(5000), end_stream=True)
    sender.send_datagram_frame(b"datagram")
    for data, _ in sender.datagrams_to_send(now=1000.0):
        twins.feed_datagram(data, source=ADDRESSES[True])
    events = twins.check()
    assert sum(len(event.data) for event in events) == 5008
