"""Sent packets: aioquic's, byte by byte, for one busy stream; else a stock peer reads them."""

from __future__ import annotations

from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import CipherSuite, Epoch
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.compat import BURST
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.frames import encode_varint
from laps_sdk.quic.aioquic.fast.selfcheck import ADDRESSES, prepared
from testkit.quic_twins import Twins

NOW = 1000.0


def fresh(*, is_client: bool = True, **options: object) -> Twins[FastQuicConnection]:
    return Twins(FastQuicConnection, is_client=is_client, **options)  # type: ignore[arg-type]


def fast(**options: object) -> FastQuicConnection:
    return prepared(FastQuicConnection, is_client=True, now=NOW, **options)  # type: ignore[arg-type]


def stock_peer() -> QuicConnection:
    return prepared(QuicConnection, is_client=False, now=NOW)


def send(connection: QuicConnection, now: float = NOW) -> list[bytes]:
    return [data for data, _ in connection.datagrams_to_send(now=now)]


def read(peer: QuicConnection, datagrams: list[bytes]) -> dict[int | None, bytes]:
    """What a stock peer reads: by stream, datagrams under None; "." is appended at the end."""
    result: dict[int | None, bytes] = {}
    for data in datagrams:
        peer.receive_datagram(data, ADDRESSES[True], now=NOW)
    while (event := peer.next_event()) is not None:
        if isinstance(event, StreamDataReceived):
            end = b"." if event.end_stream else b""
            result[event.stream_id] = result.get(event.stream_id, b"") + event.data + end
        elif isinstance(event, DatagramFrameReceived):
            result[None] = result.get(None, b"") + event.data
    assert peer._close_event is None
    return result


def ack(*ranges: tuple[int, int]) -> bytes:
    """An ACK frame of these ranges, first and last number, the highest first."""
    (first, last), *others = ranges
    values = [last, 0, len(others), last - first]
    for low, high in others:
        values += [first - high - 2, high - low]
        first = low
    return b"\x02" + b"".join(map(encode_varint, values))


# The same bytes as stock


def test_one_stream_until_the_window_is_full() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, bytes(range(256)) * 30, end_stream=True))
    assert [len(packet) for packet in twins.flush()][:-1] == [1200] * 6
    twins.check()
    assert twins.flush() == []


def test_packets_of_another_size() -> None:
    twins = fresh(max_datagram_size=1452)
    twins.do(lambda each: each.send_stream_data(2, bytes(4000), end_stream=True))
    assert [len(packet) for packet in twins.flush()][:-1] == [1452] * 2
    twins.check()


def test_offsets_of_every_length() -> None:
    twins = fresh()
    position = 0
    for size in (1, 62, 1, 1, 8000, 8000, 318, 1, 1, 500):
        twins.do(lambda each, size=size: each.send_stream_data(0, bytes(size)))  # type: ignore[misc]
        position += size
        while twins.fast._streams[0].sender.highest_offset < position:
            twins.flush()
            twins.now += 0.02
            twins.feed(ack((0, twins.fast._packet_number - 1)))
            twins.check()


def test_an_offset_beyond_a_gigabyte() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, b"x"))
    twins.flush()
    start = 0x4000_0000
    for twin in twins.both:
        stream = twin._streams[0]
        sender = stream.sender
        sender._buffer_start = sender._buffer_stop = sender.highest_offset = start
        sender._buffer.clear()
        stream.max_stream_data_remote = twin._remote_max_data = 1 << 40
    twins.do(lambda each: each.send_stream_data(0, bytes(3000), end_stream=True))
    assert len(twins.flush()) == 3
    assert twins.fast._streams[0].sender.highest_offset == start + 3000


def test_an_end_without_data() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, b"data"))
    twins.flush()
    twins.do(lambda each: each.send_stream_data(0, b"", end_stream=True))
    assert len(twins.flush()) == 1
    twins.check()


def test_datagrams_before_stream_data() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, bytes(500)))
    for size in (0, 10, 63, 64, 700, 900):
        twins.do(lambda each, size=size: each.send_datagram_frame(bytes(size)))  # type: ignore[misc]
    assert len(twins.flush()) == 2
    twins.check()


def test_acknowledgements_of_one_range_and_of_several() -> None:
    twins = fresh()
    twins.feed(b"\x01\x00")
    assert twins.flush() == []
    twins.now += 0.002
    assert len(twins.flush()) == 1
    for number in (3, 4, 9):
        twins.feed(b"\x01\x00", number=number)
    twins.now += 0.002
    for _ in range(10):
        twins.now += 0.002
        twins.feed(b"\x01\x00", number=10 + twins.fast._packet_number)
        twins.now += 0.002
        assert len(twins.flush()) == 1
        twins.check()


def test_an_acknowledgement_with_data() -> None:
    twins = fresh()
    twins.feed(b"\x01\x00")
    twins.now += 0.002
    twins.do(lambda each: each.send_stream_data(0, b"data"))
    assert len(twins.flush()) == 1
    twins.check()


def test_lost_data_is_sent_again() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, bytes(8000), end_stream=True))
    assert len(twins.flush()) == 7
    twins.now += 0.05
    twins.feed(ack((4, 6), (0, 0)))
    twins.check()
    twins.now += 0.002
    assert twins.flush()
    twins.check()
    assert twins.fast._loss.bytes_in_flight > 2000


def test_a_probe_is_the_parents() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, bytes(3000), end_stream=True))
    twins.flush()
    timer = twins.fast.get_timer()
    assert timer is not None
    twins.wait(timer - twins.now)
    assert twins.fast._probe_pending
    twins.flush()
    twins.check()
    assert not twins.fast._probe_pending


def test_resets_and_stops() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, bytes(100)))
    twins.flush()
    twins.do(lambda each: each.reset_stream(0, 5))
    twins.do(lambda each: each.stop_stream(0, 6))
    assert len(twins.flush()) == 1
    twins.check()
    twins.feed(ack((0, 1)) + b"\x04\x00\x07\x00")
    twins.now += 0.01
    twins.flush()
    twins.check()
    assert twins.fast._streams == {}


def test_limits_are_raised_when_half_is_used() -> None:
    twins = fresh(is_client=False)
    data = bytes(1000)
    for index in range(600):
        twins.feed(b"\x0e\x02" + encode_varint(index * 1000) + encode_varint(1000) + data)
        if index % 50 == 0:
            twins.now += 0.01
            twins.flush()
            twins.check()
    twins.now += 0.01
    twins.flush()
    twins.check()
    assert twins.fast._local_max_data.sent == 2 << 20
    assert twins.fast._streams[2].max_stream_data_local_sent == 2 << 20


def test_lost_limits_are_sent_again() -> None:
    twins = fresh(is_client=False)
    for twin in twins.both:
        twin._local_max_data.value = twin._local_max_data.sent = 1000
        twin._local_max_stream_data_uni = 1000
    twins.feed(b"\x0e\x02\x00" + encode_varint(900) + bytes(900))
    twins.now += 0.01
    assert len(twins.flush()) == 1
    twins.do(lambda each: each.send_stream_data(1, bytes(9000)))
    twins.flush()
    twins.now += 0.05
    twins.feed(ack((3, 5)))
    twins.check()
    assert twins.fast._streams[2].max_stream_data_local_sent == 0
    twins.flush()
    twins.check()
    assert twins.fast._streams[2].max_stream_data_local_sent == 2000


def test_closing() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, b"data"))
    twins.do(lambda each: each.close(error_code=QuicErrorCode.NO_ERROR, reason_phrase="bye"))
    assert len(twins.flush()) == 1
    twins.check()
    assert twins.flush() == []


def test_pings_are_the_parents() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_ping(7))
    twins.do(lambda each: each.send_stream_data(0, b"data"))
    assert len(twins.flush()) == 1
    twins.feed(ack((0, 0)))
    assert len(twins.check()) == 1


def test_a_key_update_of_ours() -> None:
    twins = fresh()
    twins.do(lambda each: each.send_stream_data(0, b"before"))
    twins.flush()
    twins.do(QuicConnection.request_key_update)
    for _ in range(2):
        twins.do(lambda each: each.send_stream_data(0, b"after"))
        twins.flush()
    twins.check()
    assert twins.fast._cryptos[Epoch.ONE_RTT].send.key_phase == 1


def test_chacha_is_always_the_parents() -> None:
    twins = fresh(suite=CipherSuite.CHACHA20_POLY1305_SHA256)
    twins.do(lambda each: each.send_stream_data(0, bytes(5000), end_stream=True))
    assert len(twins.flush()) == 5
    twins.check()
    assert twins.fast._pair is None


@given(st.data())
def test_anything_on_one_stream_gives_the_same_bytes(data: st.DataObject) -> None:
    twins = fresh()
    for _ in range(data.draw(st.integers(1, 15))):
        step = data.draw(st.sampled_from(["write", "datagram", "ack", "wait", "ping", "end"]))
        fin = twins.fast._streams.get(0)
        if step in ("write", "end") and not (fin and fin.sender._buffer_fin is not None):
            size = data.draw(st.integers(0, 3000))
            end = step == "end"
            twins.do(lambda each, size=size, end=end: each.send_stream_data(0, bytes(size), end))  # type: ignore[misc]
            if end:
                break
        elif step == "datagram":
            size = data.draw(st.integers(0, 1100))
            twins.do(lambda each, size=size: each.send_datagram_frame(bytes(size)))  # type: ignore[misc]
        elif step == "ack" and twins.fast._packet_number:
            last = data.draw(st.integers(0, twins.fast._packet_number - 1))
            first = data.draw(st.integers(0, last))
            twins.feed(ack((first, last)))
        elif step == "ping":
            twins.feed(b"\x01\x00")
        twins.now += data.draw(st.sampled_from([0.0, 0.0005, 0.003, 0.03]))
        control = twins.fast._loss
        if control.congestion_window - control.bytes_in_flight < 4 * 1200:
            return  # here the two differ: see the next section
        twins.flush()
        twins.check()


# Where it differs from stock, on purpose


def test_small_writes_of_many_streams_share_packets() -> None:
    connection, peer = fast(), stock_peer()
    for index in range(100):
        connection.send_stream_data(4 * index, b"%d" % index, end_stream=True)
    packets = send(connection)
    assert len(packets) == 1
    assert read(peer, packets) == {4 * index: b"%d." % index for index in range(100)}


def test_busy_streams_take_turns() -> None:
    connection, peer = fast(), stock_peer()
    for stream_id in (0, 4, 8):
        connection.send_stream_data(stream_id, bytes(20_000))
    sizes = [len(each) for each in read(peer, send(connection)).values()]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) < 1300


def test_a_cut_of_less_than_600_bytes_waits_for_room() -> None:
    connection = fast()
    connection.send_stream_data(0, bytes(50_000))
    control = connection._loss._cc
    control.congestion_window = 3 * 1200 + 300
    assert [len(packet) for packet in send(connection)] == [1200] * 3
    assert connection.get_timer() != NOW
    control.congestion_window += 500
    assert [len(packet) for packet in send(connection)] == [800]


def test_a_window_smaller_than_a_packet_is_used_if_nothing_is_under_way() -> None:
    connection = fast(max_datagram_size=8000)
    connection._loss._cc.congestion_window = 500
    connection.send_stream_data(0, bytes(50_000))
    assert [len(packet) for packet in send(connection)] == [500]


def test_at_most_64_packets_go_at_once_and_the_rest_at_once_after() -> None:
    connection = fast()
    connection._loss._cc.congestion_window = 1 << 20
    connection.send_stream_data(0, bytes(100_000))
    assert len(send(connection)) == BURST
    assert connection.get_timer() == NOW
    assert len(send(connection)) == 86 - BURST
    assert connection._pacing_at is None


def test_pacing_holds_back_data_but_not_acknowledgements() -> None:
    connection = fast()
    peer = stock_peer()
    connection._loss._cc.congestion_window = 1 << 17
    connection._loss._pacer.update_rate(congestion_window=1 << 17, smoothed_rtt=0.5)
    connection.send_stream_data(0, bytes(200_000))
    assert len(send(connection)) == BURST
    timer = connection.get_timer()
    assert timer is not None
    assert NOW < timer < NOW + 0.1
    peer.send_stream_data(1, b"x")
    for packet in send(peer):
        connection.receive_datagram(packet, ADDRESSES[False], now=NOW - 0.002)
    (only,) = send(connection)
    assert len(only) < 100
    assert len(send(connection, NOW + 0.1)) > 10


def test_a_datagram_that_fits_no_packet_is_dropped_and_counted() -> None:
    connection, peer = fast(), stock_peer()
    for size in (10, 1300, 20):
        connection.send_datagram_frame(bytes(size))
    assert read(peer, send(connection)) == {None: bytes(30)}
    assert connection.datagrams_too_long == 1


def test_with_nothing_to_do_nothing_is_sent_and_no_timer_asked_for() -> None:
    connection = fast()
    assert send(connection) == []
    assert connection._pacing_at is None
    assert connection.get_timer() == connection._close_at


def test_the_idle_timer_starts_again_with_the_first_packet_sent() -> None:
    twins = fresh()
    twins.now += 5
    twins.do(lambda each: each.send_stream_data(0, b"x"))
    twins.flush()
    twins.check()
    twins.now += 5
    twins.do(lambda each: each.send_stream_data(0, b"x"))
    twins.flush()
    twins.check()
