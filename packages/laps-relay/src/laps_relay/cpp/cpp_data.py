"""Data between us and a C++ relay: headers of the C++ dialect, followed by objects of draft 16.

::

    | 19, 2, SNS id, hash of the track, priority, ttl | subgroup stream
    | 14, 0, SNS id, hash of the track                | object datagram

:class:`CppFeed` writes this data; :class:`CppStreams` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from laps_relay.cpp.cpp_words import CPP_DRAFT
from laps_sdk.forwarding.interfaces import Egress
from laps_sdk.upstream.direct_feed import DirectFeed
from laps_sdk.upstream.interfaces import DataSink
from laps_sdk.upstream.stub_data import TrackStreams
from laps_wire.errors import IncompleteError, ProtocolViolation
from laps_wire.peering.cpp import (
    DatagramHeader,
    StreamHeader,
    decode_datagram_header,
    decode_stream_header,
    encode_datagram_header,
    encode_stream_header,
)
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataHeader, DataKind

__all__ = ["DEFAULT_TTL_MS", "CppFeed", "CppStreams"]

DEFAULT_TTL_MS: Final = 5000
"""The default TTL of C++ relays, written in place of 0: a C++ relay expires TTL 0 at once."""
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)
_CONTEXT: Final = 1
"""A placeholder: the C++ dialect has no data contexts, and the sink does not read them."""


class CppFeed(DirectFeed):
    """A feed that writes one track to a C++ relay."""

    __slots__ = ("_sns_id",)

    def __init__(self, egress: Egress, key: int, sns_id: int) -> None:
        super().__init__(egress, key)
        self._sns_id = sns_id

    def _stream_head(self, priority: int, ttl_ms: int, *, continued: bool) -> bytes:  # noqa: ARG002 - not in the header
        told = ttl_ms or DEFAULT_TTL_MS
        return encode_stream_header(StreamHeader(self._sns_id, self._key, priority, told))

    def _datagram_head(self, priority: int, ttl_ms: int) -> bytes:  # noqa: ARG002 - not in the header
        return encode_datagram_header(DatagramHeader(self._sns_id, self._key))


class CppStreams(TrackStreams):
    """Passes the data streams of a C++ relay to a sink, under local stream numbers."""

    __slots__ = ("_takes",)

    def __init__(
        self,
        egress: Egress,
        sink: DataSink,
        numbers: Iterator[int],
        takes: Callable[[int], bool],
    ) -> None:
        """``takes`` returns whether data with an SNS id is for us."""
        super().__init__(egress, sink, numbers)
        self._takes = takes

    def _begin(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        try:
            header, start = decode_stream_header(data)
        except IncompleteError:
            if fin:
                raise ProtocolViolation("a stream ends inside its header") from None
            self._waiting[stream_id] = data
            return
        if not self._takes(header.sns_id):
            if not fin:
                self._open[stream_id] = None
                self._egress.stop_sending(stream_id, _NO_SUBSCRIBERS)
            return
        number = next(self._numbers)
        if not fin:
            self._began(stream_id, number, header.track_hash)
        whole = DataHeader(
            DataKind.STREAM,
            header.sns_id,
            header.track_hash,
            _CONTEXT,
            header.priority,
            header.ttl_ms,
            CPP_DRAFT.value,
        )
        self._sink.stream_opened(now, number, whole, data[start:], fin)

    def datagram(self, now: float, data: bytes) -> None:
        """Pass a datagram to the sink; raise ``RemoteError`` if the peer broke the protocol."""
        header, start = decode_datagram_header(data)
        if not self._takes(header.sns_id):
            return
        whole = DataHeader(
            DataKind.DATAGRAM,
            header.sns_id,
            header.track_hash,
            _CONTEXT,
            payload_format=CPP_DRAFT.value,
        )
        self._sink.datagram(now, whole, data[start:])
