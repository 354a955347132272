"""The queue of busy streams and the way back to the parent."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
from aioquic.quic.connection import QuicConnectionId, QuicNetworkPath
from aioquic.tls import Epoch

from laps_sdk.quic.aioquic.compat import BurstPacer
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.selfcheck import prepared
from laps_sdk.quic.aioquic.fast.streams import FastReceiver, FastSender
from testkit.quic_twins import Twins

NOW = 1000.0


def fast(*, is_client: bool = True) -> FastQuicConnection:
    connection = prepared(FastQuicConnection, is_client=is_client, now=NOW)
    assert connection.datagrams_to_send(now=NOW) == []
    return connection


def test_a_new_connection_has_our_pacer_and_no_keys_yet() -> None:
    connection = prepared(FastQuicConnection, is_client=True, now=NOW)
    assert isinstance(connection._loss._pacer, BurstPacer)
    assert connection._pair is None
    connection.datagrams_to_send(now=NOW)
    assert connection._pair is connection._cryptos[Epoch.ONE_RTT]


def test_every_stream_is_adopted_however_it_comes_about() -> None:
    connection = fast(is_client=False)
    connection.send_stream_data(1, b"x")
    connection._get_or_create_stream(8, 10)  # and with it 2 and 6
    assert sorted(connection._streams) == [1, 2, 6, 10]
    for stream in connection._streams.values():
        assert isinstance(stream.sender, FastSender)
        assert isinstance(stream.receiver, FastReceiver)
    assert connection._streams_queue == []


def test_writing_to_what_is_not_ours_is_refused_as_by_aioquic() -> None:
    twins = Twins(FastQuicConnection)
    twins.feed(b"\x0a\x02\x02ab")
    for stream_id in (2, 0, 4):
        twins.do(lambda each, key=stream_id: each.send_stream_data(key, b"x"))  # type: ignore[misc]
    twins.do(lambda each: each.send_stream_data(1, b"x", end_stream=True))
    twins.do(lambda each: each.send_stream_data(1, b"x"))
    twins.check()


def path_with_challenge(connection: FastQuicConnection) -> None:
    connection._network_paths[0].remote_challenges.append(bytes(8))


def another_path(connection: FastQuicConnection) -> None:
    connection._network_paths.append(QuicNetworkPath(("203.0.113.9", 9)))


def unsent_id(connection: FastQuicConnection) -> None:
    connection._host_cids.append(QuicConnectionId(cid=b"client-1", sequence_number=1))


def session_ticket(connection: FastQuicConnection) -> None:
    connection._crypto_streams[Epoch.ONE_RTT].sender.write(b"ticket")


UNUSUAL: dict[str, Callable[[FastQuicConnection], object]] = {
    "close": lambda each: each.close(),
    "probe": lambda each: each._send_probe(),
    "ping": lambda each: each.send_ping(1),
    "key update": lambda each: each.request_key_update(),
    "handshake done": lambda each: setattr(each, "_handshake_done_pending", True),
    "retired id": lambda each: each._retire_connection_ids.append(3),
    "too many streams": lambda each: each.send_stream_data(4 * 500, b"x"),
    "preferred address": lambda each: setattr(each, "_remote_preferred_address", object()),
    "unvalidated path": lambda each: setattr(each._network_paths[0], "is_validated", False),
    "challenge": path_with_challenge,
    "another path": another_path,
    "unsent id": unsent_id,
    "session ticket": session_ticket,
    "log": lambda each: setattr(each, "_quic_logger", object()),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_the_parents(name: str) -> None:
    connection = fast()
    assert not connection._needs_parent()
    UNUSUAL[name](connection)
    assert connection._needs_parent()


def test_an_old_path_that_is_done_with_does_not_matter() -> None:
    connection = fast()
    connection._network_paths.append(QuicNetworkPath(("203.0.113.9", 9), is_validated=True))
    assert not connection._needs_parent()


def test_the_parent_sees_all_streams_the_busy_ones_first() -> None:
    connection = fast()
    for stream_id in (0, 4, 8):
        connection.send_stream_data(stream_id, b"x")
    connection.datagrams_to_send(now=NOW)
    assert connection._streams_queue == []
    connection.send_stream_data(8, b"y")
    connection.send_ping(1)
    seen: list[int | None] = []
    write = connection._write_stream_frame

    def watched(builder: object, space: object, stream: object, max_offset: int) -> int:
        seen.append(stream.stream_id)  # type: ignore[attr-defined]
        return write(builder, space, stream, max_offset)  # type: ignore[arg-type]

    connection._write_stream_frame = watched  # type: ignore[method-assign]
    assert len(connection.datagrams_to_send(now=NOW)) == 1
    assert set(seen) == {8}  # then once more, to find nothing left
    assert {stream.stream_id for stream in connection._streams_queue} == {0, 4, 8}
    connection.send_stream_data(0, b"z")
    connection.datagrams_to_send(now=NOW)
    assert connection._streams_queue == []


def test_an_end_that_comes_to_a_full_packet_of_the_parent_is_not_lost() -> None:
    connection = fast()
    connection.send_ping(1)  # the parent sends
    connection.send_stream_data(0, bytes(1 << 14))
    connection.send_stream_data(4, b"", end_stream=True)
    sent = 0
    while packets := connection.datagrams_to_send(now=NOW):
        sent += len(packets)
    sender = connection._streams[4].sender
    # In a packet, or still waiting for one: never neither.
    under_way = any(
        handler == sender.on_data_delivery
        for packet in connection._space.sent_packets.values()
        for handler, _ in packet.delivery_handlers
    )
    assert sent >= 10
    assert under_way or sender._pending_eof


def test_streams_that_may_open_now_are_busy_again() -> None:
    connection = fast()
    connection.send_stream_data(4 * 128, b"waiting")
    connection.send_stream_data(4 * 128 + 2, b"waiting too")
    connection.datagrams_to_send(now=NOW)
    connection.datagrams_to_send(now=NOW)
    assert not connection._ready
    connection._remote_max_streams_bidi = 200
    connection._unblock_streams(is_unidirectional=False)
    assert list(connection._ready) == [4 * 128]


def test_nothing_to_do_costs_nothing_however_many_streams_are_open() -> None:
    connection = fast()
    for index in range(100):
        connection.send_stream_data(4 * index, b"x")
    connection.datagrams_to_send(now=NOW)
    assert len(connection._streams) == 100
    assert not connection._ready
    connection.send_stream_data(8, b"y")
    assert list(connection._ready) == [8]


def test_forgotten_streams_need_no_garbage_collector() -> None:
    twins = Twins(FastQuicConnection)
    twins.feed(b"\x0b\x02\x02ab")
    stream = weakref.ref(twins.fast._streams[2])
    gc.disable()
    try:
        twins.fast.datagrams_to_send(now=NOW)
        assert stream() is None
    finally:
        gc.enable()
