"""Data between a Stub and its parent."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import pytest

from laps_sdk.upstream.stub_data import TrackFeed, TrackStreams
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataHeader, DataKind, decode_data_header, encode_data_header
from testkit.plane import TimedEgress

KEY = 0xABCD
HEADER = DataHeader(DataKind.STREAM, 0, KEY, 5, 9, 700, 18)
HEAD = encode_data_header(HEADER)


class Sink:
    """Writes down what it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        assert header == HEADER
        self.calls.append(("opened", stream, data, fin))

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        self.calls.append(("data", stream, data, fin))

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        self.calls.append(("reset", stream, code))

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        self.calls.append(("datagram", header.track, payload))


class Rig:
    def __init__(self) -> None:
        self.egress, self.sink = TimedEgress(), Sink()
        self.streams = TrackStreams(self.egress, self.sink, count(1))

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.sink.calls = self.sink.calls, []
        return calls


# Writing


def test_a_stream_begins_with_its_header() -> None:
    egress = TimedEgress()
    stream = TrackFeed(egress, KEY, 5).open_stream(100.0, priority=9, ttl_ms=700)
    stream.write(b"payload", True)
    assert egress.streams[0].data == HEAD + b"payload"


def test_datagrams_have_it_too() -> None:
    egress = TimedEgress()
    assert TrackFeed(egress, KEY, 5).send_datagram(100.0, b"ping", priority=9, ttl_ms=700)
    header = decode_data_header(egress.datagrams[0])
    assert header == HEADER._replace(kind=DataKind.DATAGRAM)
    assert egress.datagrams[0][header.size :] == b"ping"


# Reading


@pytest.mark.parametrize("places", [[], [1], [10, 24], [24, 30], list(range(1, 30))])
def test_a_stream_in_any_pieces(places: list[int]) -> None:
    rig = Rig()
    data = HEAD + b"payload"
    edges = [0, *[place for place in places if place < len(data)], len(data)]
    for start, end in pairwise(edges):
        rig.streams.data(100.0, 6, data[start:end], end == len(data))
    calls = rig.take()
    assert calls[0][:2] == ("opened", 1)
    assert b"".join(call[2] for call in calls) == b"payload"
    assert [call[3] for call in calls] == [False] * (len(calls) - 1) + [True]


def test_streams_of_two_connections_have_different_numbers() -> None:
    sink, numbers = Sink(), count(1)
    first = TrackStreams(TimedEgress(), sink, numbers)
    second = TrackStreams(TimedEgress(), sink, numbers)
    first.data(100.0, 2, HEAD, False)
    second.data(100.0, 2, HEAD, False)
    second.reset(100.0, 2, 5)
    first.data(100.0, 2, b"x", True)
    assert [call[:2] for call in sink.calls] == [
        ("opened", 1),
        ("opened", 2),
        ("reset", 2),
        ("data", 1),
    ]


def test_resets_and_the_end() -> None:
    rig = Rig()
    rig.streams.data(100.0, 2, HEAD[:5], False)
    rig.streams.reset(100.0, 2, 1)
    rig.streams.reset(100.0, 99, 1)
    assert rig.take() == []
    rig.streams.data(100.0, 6, HEAD, False)
    rig.streams.data(100.0, 10, HEAD, False)
    rig.streams.data(100.0, 14, HEAD[:5], False)
    rig.take()
    rig.streams.close(100.0)
    code = int(StreamCode.NO_SUBSCRIBERS)
    assert rig.take() == [("reset", 1, code), ("reset", 2, code)]
    rig.streams.close(100.0)
    assert rig.take() == []


def test_a_stream_that_the_plane_stops() -> None:
    rig = Rig()
    rig.streams.data(100.0, 6, HEAD, False)
    rig.take()
    rig.streams.stop(1, 7)
    rig.streams.stop(1, 7)
    rig.streams.stop(99, 7)
    assert rig.egress.stopped == [(6, 7)]
    rig.streams.data(100.0, 6, b"more", False)
    rig.streams.data(100.0, 6, b"end", True)
    assert rig.take() == []
    # Its id may come again only as a new stream.
    rig.streams.data(100.0, 6, HEAD, True)
    assert rig.take() == [("opened", 2, b"", True)]


def test_an_unknown_kind_is_stopped() -> None:
    rig = Rig()
    unknown = bytes([24, 0x50]) + bytes(22)
    rig.streams.data(100.0, 2, unknown, False)
    rig.streams.data(100.0, 2, b"more", True)
    rig.streams.data(100.0, 6, unknown, True)
    rig.streams.datagram(100.0, unknown)
    assert rig.egress.stopped == [(2, StreamCode.UNKNOWN_KIND)]
    assert rig.take() == []


@pytest.mark.parametrize(
    ("data", "fin", "match"),
    [
        (HEAD[:5], True, "inside its header"),
        (encode_data_header(HEADER._replace(kind=DataKind.DATAGRAM)), False, "of a datagram"),
        (encode_data_header(HEADER._replace(sns_id=4)), False, "SNS id 4"),
        (bytes([23]) + bytes(23), False, "at least 24"),
    ],
)
def test_streams_that_break_the_protocol(data: bytes, fin: bool, match: str) -> None:
    with pytest.raises(ProtocolViolation, match=match):
        Rig().streams.data(100.0, 2, data, fin)


def test_datagrams() -> None:
    rig = Rig()
    head = encode_data_header(HEADER._replace(kind=DataKind.DATAGRAM))
    rig.streams.datagram(100.0, head + b"ping")
    assert rig.take() == [("datagram", KEY, b"ping")]
    with pytest.raises(MalformedError):
        rig.streams.datagram(100.0, head[:20])
    with pytest.raises(ProtocolViolation, match="SNS id"):
        rig.streams.datagram(
            100.0, encode_data_header(HEADER._replace(kind=DataKind.DATAGRAM, sns_id=1))
        )
