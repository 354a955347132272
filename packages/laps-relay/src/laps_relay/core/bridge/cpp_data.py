"""Data between us and a C++ relay: its own headers, and objects of draft 16 behind them.

::

    | 19, 2, SNS id, hash of the track, priority, ttl | subgroup stream
    | 14, 0, SNS id, hash of the track                | object datagram

:class:`CppFeed` writes it, :class:`CppStreams` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from laps_relay.core.bridge.cpp_words import CPP_DRAFT
from laps_relay.core.bridge.stub_data import TrackStreams
from laps_relay.core.interfaces import Egress, OutStream
from laps_relay.core.network.forwarding import LOCAL, DataSink, Ingress
from laps_relay.core.peer_plane.flow import PRIORITIES
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
"""What a C++ relay writes if nobody says otherwise; it takes 0 for no time at all."""
_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)
_CONTEXT: Final = 1
"""There are no data contexts here, and nobody behind the sink looks at them."""


class CppFeed:
    """A :class:`~laps_relay.core.network.forwarding.Feed` of one track to one connection."""

    __slots__ = ("_egress", "_key", "_sns_id")

    def __init__(self, egress: Egress, key: int, sns_id: int) -> None:
        self._egress = egress
        self._key = key
        self._sns_id = sns_id

    @property
    def ingress(self) -> Ingress:
        """It has no place in the FIB."""
        return Ingress(LOCAL, 0)

    def open_stream(
        self, now: float, *, priority: int, ttl_ms: int = 0, deadline: float | None = None
    ) -> OutStream:
        """Begin a stream: its header is written."""
        if deadline is None and ttl_ms:
            deadline = now + ttl_ms / 1000
        stream = self._egress.open_unidirectional(
            priority=PRIORITIES[priority],
            droppable=True,
            drop_code=_EXPIRED if ttl_ms else _OVERLOADED,
            deadline=deadline,
        )
        told = ttl_ms or DEFAULT_TTL_MS
        stream.write(encode_stream_header(StreamHeader(self._sns_id, self._key, priority, told)))
        return stream

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:  # noqa: ARG002 - a Feed
        """Send an object; its header has no room for the priority."""
        data = encode_datagram_header(DatagramHeader(self._sns_id, self._key)) + payload
        if len(data) > self._egress.max_datagram_size:
            return False
        return self._egress.send_datagram(data, now + ttl_ms / 1000 if ttl_ms else None)


class CppStreams(TrackStreams):
    """The data streams of a C++ relay, into a sink that knows them by numbers of ours."""

    __slots__ = ("_takes", "not_for_us")

    def __init__(
        self,
        egress: Egress,
        sink: DataSink,
        numbers: Iterator[int],
        takes: Callable[[int], bool],
    ) -> None:
        """``takes`` says whether data with an SNS id is for us."""
        super().__init__(egress, sink, numbers)
        self._takes = takes
        self.not_for_us = 0
        """Streams and datagrams of sets that do not name us."""

    def _begin(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        try:
            header, start = decode_stream_header(data)
        except IncompleteError:
            if fin:
                raise ProtocolViolation("a stream ends inside its header") from None
            self._waiting[stream_id] = data
            return
        if not self._takes(header.sns_id):
            self.not_for_us += 1
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
        """A datagram. Raises ``RemoteError`` if the peer broke the protocol."""
        header, start = decode_datagram_header(data)
        if not self._takes(header.sns_id):
            self.not_for_us += 1
            return
        whole = DataHeader(
            DataKind.DATAGRAM,
            header.sns_id,
            header.track_hash,
            _CONTEXT,
            payload_format=CPP_DRAFT.value,
        )
        self._sink.datagram(now, whole, data[start:])
