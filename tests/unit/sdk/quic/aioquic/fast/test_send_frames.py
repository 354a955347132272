"""Frames to send: what fits into a packet, what waits for the next one, what is asked for."""

from __future__ import annotations

from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StopSendingReceived, StreamDataReceived, StreamReset

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.frames import encode_varint
from laps_sdk.quic.aioquic.fast.selfcheck import ADDRESSES, prepared
from testkit.quic_twins import Twins

NOW = 1000.0


def fast(**options: object) -> FastQuicConnection:
    return prepared(FastQuicConnection, is_client=True, now=NOW, **options)  # type: ignore[arg-type]


def exchange(connection: QuicConnection, peer: QuicConnection) -> list[object]:
    """The peer, stock, gets what is sent now; gives its events."""
    for data, _ in connection.datagrams_to_send(now=NOW):
        assert len(data) <= 1200
        peer.receive_datagram(data, ADDRESSES[True], now=NOW)
    events: list[object] = []
    while (event := peer.next_event()) is not None:
        events.append(event)
    assert peer._close_event is None
    return events


def test_control_frames_of_many_streams_go_on_in_the_next_packet() -> None:
    connection = fast()
    peer = prepared(QuicConnection, is_client=False, now=NOW)
    ids = [4 * index for index in range(120)]
    for stream_id in ids:
        connection.send_stream_data(stream_id, b"x")
    exchange(connection, peer)
    for stream_id in ids:
        connection.reset_stream(stream_id, 1)
        connection.stop_stream(stream_id, 2)
    events = exchange(connection, peer)
    assert not connection._ready
    for stream_id in ids:
        assert StreamReset(error_code=1, stream_id=stream_id) in events
        assert StopSendingReceived(error_code=2, stream_id=stream_id) in events


def test_a_frame_that_finds_no_room_is_the_first_of_the_next_packet() -> None:
    connection = fast()
    peer = prepared(QuicConnection, is_client=False, now=NOW)
    # Fills a packet but for three bytes, which are too few for any other frame.
    connection.send_stream_data(0, bytes(1200 - 27 - 4 - 3))
    connection.send_stream_data(4, b"next")
    connection.send_stream_data(8, b"", end_stream=True)
    packets = [data for data, _ in connection.datagrams_to_send(now=NOW)]
    assert len(packets) == 2
    assert len(packets[0]) == 1197
    connection._packet_number = 0  # the same again, to a peer
    for data in packets:
        peer.receive_datagram(data, ADDRESSES[True], now=NOW)
    assert {
        event.stream_id: event.data
        for event in iter(peer.next_event, None)
        if isinstance(event, StreamDataReceived)
    } == {0: bytes(1166), 4: b"next", 8: b""}


def test_a_stream_that_was_held_for_busy_by_mistake_costs_one_look() -> None:
    connection = fast()
    connection.send_stream_data(0, b"x")
    connection.datagrams_to_send(now=NOW)
    sender = connection._streams[0].sender
    sender.buffer_is_empty = False
    connection._ready.update({0: None, 400: None})
    assert connection.datagrams_to_send(now=NOW) == []
    assert sender.buffer_is_empty
    assert not connection._ready


def test_a_subclass_with_a_window_is_asked_when_half_of_it_is_used() -> None:
    asked: list[int | None] = []

    class Sliding(FastQuicConnection):
        _stream_window = 1000
        _data_window = 1000

        def _write_stream_limits(self, builder: object, space: object, stream: object) -> None:
            asked.append(stream.stream_id)  # type: ignore[attr-defined]

        def _write_connection_limits(self, builder: object, space: object) -> None:
            asked.append(None)

    twins = Twins(Sliding)
    connection = twins.fast
    connection.datagrams_to_send(now=NOW)
    connection._local_max_data.value = connection._local_max_data.sent = 1000
    connection._local_max_stream_data_uni = 1000
    for offset in (0, 400, 600):
        size = 400 if not offset else 200
        frame = b"\x0e\x02" + encode_varint(offset) + encode_varint(size) + bytes(size)
        packet = twins.seal(frame)
        connection.receive_datagram(packet, twins.source, now=NOW)
        connection.datagrams_to_send(now=NOW)
        assert asked == ([] if not offset else [None, 2] * (2 if offset == 600 else 1))


def test_streams_that_end_let_the_peer_open_more() -> None:
    twins = Twins(FastQuicConnection)
    for index in range(128):
        twins.feed(b"\x0b" + encode_varint(2 + 4 * index) + b"\x01x")
    twins.flush()
    twins.check()
    assert twins.fast._streams == {}
    assert twins.fast._local_max_streams_uni.sent == 256
