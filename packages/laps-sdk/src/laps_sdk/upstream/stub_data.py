"""Data between a Stub and its parent: by track, without subscriber node sets (laps-2, 4.5).

::

    | data header, SNS id 0, key of the track | payload: what the publisher's plane wrote

:class:`TrackFeed` writes this data; :class:`TrackStreams` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from laps_sdk.forwarding.interfaces import Egress
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.direct_feed import DirectFeed
from laps_sdk.upstream.interfaces import DataSink
from laps_wire.errors import IncompleteError, ProtocolViolation
from laps_wire.peering.errors import StreamCode, UnknownKindError
from laps_wire.peering.laps2 import (
    FLAG_CONTINUED,
    DataHeader,
    DataKind,
    decode_data_header,
    encode_data_header,
)
from laps_wire.peering.laps2.forwarding import split

__all__ = ["TrackFeed", "TrackStreams"]

_UNKNOWN_KIND: Final = int(StreamCode.UNKNOWN_KIND)


class TrackFeed(DirectFeed):
    """A feed that writes one track to a Stub or to its parent."""

    __slots__ = ("_context",)

    def __init__(self, egress: Egress, key: int, context: int) -> None:
        super().__init__(egress, key)
        self._context = context

    def _stream_head(self, priority: int, ttl_ms: int, *, continued: bool) -> bytes:
        flags = FLAG_CONTINUED if continued else 0
        return self._head(DataKind.STREAM, priority, ttl_ms, flags)

    def _datagram_head(self, priority: int, ttl_ms: int) -> bytes:
        return self._head(DataKind.DATAGRAM, priority, ttl_ms)

    def _head(self, kind: DataKind, priority: int, ttl_ms: int, flags: int = 0) -> bytes:
        return encode_data_header(
            DataHeader(kind, 0, self._key, self._context, priority, ttl_ms, DRAFT.value, flags)
        )


class TrackStreams:
    """Passes the data streams of a peer to a sink, under local stream numbers."""

    __slots__ = ("_egress", "_ids", "_keys", "_numbers", "_open", "_sink", "_waiting")

    def __init__(self, egress: Egress, sink: DataSink, numbers: Iterator[int]) -> None:
        self._egress = egress
        self._sink = sink
        self._numbers = numbers
        self._waiting: dict[int, bytes] = {}
        """Streams with an incomplete header, and their bytes; at most 254 bytes each."""
        self._open: dict[int, int | None] = {}
        """Open streams and their local numbers; None if the rest is discarded."""
        self._ids: dict[int, int] = {}
        """Stream ids by local number."""
        self._keys: dict[int, int] = {}
        """Keys of the tracks of open streams, by local number."""

    def under_way(self, key: int) -> set[int]:
        """Return the local numbers of a track's open streams."""
        return {number for number, track in self._keys.items() if track == key}

    def data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """Take a chunk of a stream; raise ``RemoteError`` if the peer broke the protocol."""
        if stream_id not in self._open:
            self._begin(now, stream_id, self._waiting.pop(stream_id, b"") + data, fin)
            return
        number = self._end(stream_id) if fin else self._open[stream_id]
        if number is not None:
            self._sink.stream_data(now, number, data, fin)

    def _begin(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        try:
            header = decode_data_header(data)
        except IncompleteError:
            if fin:
                raise ProtocolViolation("a stream ends inside its header") from None
            self._waiting[stream_id] = data
            return
        except UnknownKindError:
            if not fin:
                self._open[stream_id] = None
                self._egress.stop_sending(stream_id, _UNKNOWN_KIND)
            return
        if header.kind is not DataKind.STREAM:
            raise ProtocolViolation("the header of a datagram stands at the start of a stream")
        _check(header)
        number = next(self._numbers)
        if not fin:
            self._began(stream_id, number, header.track)
        self._sink.stream_opened(now, number, header, data[header.size :], fin)

    def _began(self, stream_id: int, number: int, key: int) -> None:
        self._open[stream_id] = number
        self._ids[number] = stream_id
        self._keys[number] = key

    def _end(self, stream_id: int) -> int | None:
        number = self._open.pop(stream_id, None)
        if number is not None:
            del self._ids[number], self._keys[number]
        return number

    def reset(self, now: float, stream_id: int, code: int) -> None:
        """Reset a stream that the peer reset."""
        self._waiting.pop(stream_id, None)
        number = self._end(stream_id)
        if number is not None:
            self._sink.stream_reset(now, number, code)

    def stop(self, number: int, code: int) -> None:
        """Stop a stream that the plane no longer takes; ignore unknown numbers."""
        stream_id = self._ids.pop(number, None)
        if stream_id is not None:
            self._open[stream_id] = None
            del self._keys[number]
            self._egress.stop_sending(stream_id, code)

    def datagram(self, now: float, data: bytes) -> None:
        """Pass a datagram to the sink; raise like :meth:`data`."""
        try:
            header, payload = split(data)
        except UnknownKindError:
            return
        _check(header)
        self._sink.datagram(now, header, bytes(payload))

    def close(self, now: float) -> None:
        """Reset all open streams: the session is over."""
        for stream_id in [*self._open]:
            self.reset(now, stream_id, int(StreamCode.NO_SUBSCRIBERS))
        self._waiting.clear()


def _check(header: DataHeader) -> None:
    if header.sns_id:
        raise ProtocolViolation(f"SNS id {header.sns_id} between a Stub and its parent")
