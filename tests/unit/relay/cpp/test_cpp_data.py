"""Data streams and datagrams with the headers of C++ relays."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from laps_relay.cpp.cpp_data import CppFeed, CppStreams
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.peering import cpp
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataHeader, DataKind
from testkit.laps_cpp import live
from testkit.stubs import Pipe

KEY = 0x06563237CFE9CBB0
STREAM = DataHeader(DataKind.STREAM, 2, KEY, 1, 128, 5000, 16)


class Sink:
    """Remembers what it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        self.calls.append(("opened", stream, header, data, fin))

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        self.calls.append(("data", stream, data, fin))

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        self.calls.append(("reset", stream, code))

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        self.calls.append(("datagram", header, payload))


class Joint:
    """Where pipes lead."""

    def __init__(self) -> None:
        self.written: dict[int, bytes] = {}
        self.sent: list[bytes] = []

    def data(self, pipe: Pipe, number: int, data: bytes, fin: bool) -> None:
        self.written[number] = self.written.get(number, b"") + data

    def datagram(self, pipe: Pipe, data: bytes) -> None:
        self.sent.append(data)


def pipe_to(joint: Joint) -> Pipe:
    return Pipe(joint)  # type: ignore[arg-type]  # only where it leads is of interest


def reader(takes: bool = True) -> tuple[CppStreams, Sink, Pipe]:
    sink, pipe = Sink(), pipe_to(Joint())
    return CppStreams(pipe, sink, count(1), lambda _: takes), sink, pipe


# Writing


def test_streams_begin_as_live_ones_do() -> None:
    joint = Joint()
    pipe = pipe_to(joint)
    feed = CppFeed(pipe, KEY, 2)
    stream = feed.open_stream(10.0, priority=128)
    stream.write(b"payload", fin=True)
    assert joint.written[2] == live("stream")[:19] + b"payload"
    assert pipe.streams[0].deadline is None
    feed.open_stream(10.0, priority=1, ttl_ms=700)
    header, _ = cpp.decode_stream_header(joint.written[6])
    assert header == cpp.StreamHeader(2, KEY, 1, 700)
    assert pipe.streams[1].deadline == 10.7
    feed.open_stream(10.0, priority=1, ttl_ms=700, deadline=10.2)
    assert pipe.streams[2].deadline == 10.2


def test_datagrams_have_a_header() -> None:
    joint = Joint()
    pipe = pipe_to(joint)
    feed = CppFeed(pipe, KEY, 7)
    assert feed.send_datagram(10.0, b"payload", priority=3)
    assert feed.send_datagram(10.0, b"late", priority=3, ttl_ms=5)
    head = bytes.fromhex("0e0000000007") + KEY.to_bytes(8, "big")
    assert joint.sent == [head + b"payload", head + b"late"]
    pipe.max_datagram_size = 20
    assert not feed.send_datagram(10.0, b"payload", priority=3)


# Reading


@pytest.mark.parametrize("size", [1, 5, 18, 19, 20, 34])
def test_streams_are_read_however_they_are_cut(size: int) -> None:
    streams, sink, _ = reader()
    data = live("stream") + b"rest"
    for start in range(0, len(data), size):
        streams.data(1.0, 3, data[start : start + size], False)
    streams.data(1.0, 3, b"", True)
    opened, *rest = sink.calls
    assert opened[:3] == ("opened", 1, STREAM)
    assert opened[3] + b"".join(call[2] for call in rest) == data[19:]
    assert rest[-1] == ("data", 1, b"", True)
    streams.data(1.0, 7, data, True)
    assert sink.calls[-1] == ("opened", 2, STREAM, data[19:], True)


def test_streams_are_reset_and_stopped() -> None:
    streams, sink, pipe = reader()
    streams.data(1.0, 3, live("stream"), False)
    streams.reset(1.0, 3, 9)
    assert sink.calls[-1] == ("reset", 1, 9)
    streams.data(1.0, 7, live("stream"), False)
    streams.stop(2, 4)
    assert pipe.stopped == [(7, 4)]


def test_what_is_not_for_us() -> None:
    streams, sink, pipe = reader(takes=False)
    streams.data(1.0, 3, live("stream"), False)
    streams.data(1.0, 3, b"more", True)
    streams.data(1.0, 7, live("stream"), True)
    streams.datagram(1.0, cpp.encode_datagram_header(cpp.DatagramHeader(2, KEY)) + b"x")
    assert sink.calls == []
    assert pipe.stopped == [(3, StreamCode.NO_SUBSCRIBERS)]


def test_datagrams_are_read() -> None:
    streams, sink, _ = reader()
    streams.datagram(1.0, cpp.encode_datagram_header(cpp.DatagramHeader(2, KEY)) + b"x")
    header = DataHeader(DataKind.DATAGRAM, 2, KEY, 1, payload_format=16)
    assert sink.calls == [("datagram", header, b"x")]


def test_garbage_is_a_fault() -> None:
    streams, _, _ = reader()
    with pytest.raises(ProtocolViolation):
        streams.data(1.0, 3, live("stream")[:9], True)
    with pytest.raises(MalformedError):
        streams.data(1.0, 7, b"\x05\x02garbage of a stream", False)
    with pytest.raises(MalformedError):
        streams.datagram(1.0, b"\x0e\x02")
