"""Passes data streams and datagrams of one link to subscriptions and fetches.

::

    subgroup stream --alias------> Sink of a subscription
    datagram -------alias------> /
    fetch stream ---request id--> Sink of a fetch

A stream may overtake the message that defines its alias. It is then held until the alias is known.
If too many streams wait, the oldest is refused.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.codepoints import STREAM_RESET_CODES, GroupOrder
from laps_wire.moqt.data import (
    FetchParser,
    MalformedTrackError,
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    ObjectTooLargeError,
    RangeEnd,
    StreamKind,
    SubgroupHeader,
    SubgroupParser,
    decode_datagram,
    decode_fetch_header,
    decode_subgroup_header,
)
from laps_wire.moqt.data.stream import CollectedItem

if TYPE_CHECKING:
    from laps_sdk.quic.moqt import MoqtPeer

__all__ = ["InStream", "Incoming", "Sink"]

MAX_EARLY_STREAMS: Final = 64
"""Streams that may wait for their alias."""
MAX_EARLY_BYTES: Final = 1024 * 1024
MAX_EARLY_DATAGRAMS: Final = 64


class Sink(Protocol):
    """Receives the objects of a subscription or a fetch."""

    order: GroupOrder
    """The requested order of groups, needed to parse a fetch stream."""

    def stream_opened(self, stream: InStream) -> None:
        """Handle a new stream."""

    def arrived(self, stream: InStream | None, item: MoqObject, received_at: float) -> None:
        """Handle a complete object; ``stream`` is None for a datagram."""

    def absent(self, item: RangeEnd) -> None:
        """Handle a range of a fetch without objects."""

    def stream_closed(self, stream: InStream, code: int | None) -> None:
        """Handle the end of a stream: FIN (None), or a reset and its code."""

    def malformed(self, error: RemoteError) -> None:
        """Handle a malformed track."""


class InStream:
    """One data stream of the peer."""

    __slots__ = ("collector", "early", "fin", "header", "kind", "paused", "sink", "stream_id")

    def __init__(self, stream_id: int, kind: StreamKind) -> None:
        self.stream_id = stream_id
        self.kind = kind
        self.collector: ObjectCollector | None = None
        self.sink: Sink | None = None
        self.header: SubgroupHeader | None = None
        """The header of a subgroup stream, once its sink is known."""
        self.early = bytearray()
        """Bytes held until the header is complete and the alias known."""
        self.fin = False
        self.paused = False


class Incoming:
    """The incoming data streams and datagrams of one link."""

    __slots__ = (
        "_datagrams",
        "_early",
        "_early_bytes",
        "_fetches",
        "_peer",
        "_streams",
        "_subscriptions",
        "discarded",
    )

    def __init__(self, peer: MoqtPeer) -> None:
        self._peer = peer
        self._subscriptions: dict[int, Sink] = {}
        self._fetches: dict[int, Sink] = {}
        self._streams: dict[int, InStream] = {}
        self._early: dict[int, InStream] = {}
        """Streams whose alias is not known yet, by stream id, oldest first."""
        self._early_bytes = 0
        self._datagrams: list[ObjectDatagram] = []
        self.discarded = 0
        """Streams and datagrams that were refused, without a known alias."""

    # Sinks

    def subscribe(self, alias: int, sink: Sink) -> None:
        """Pass objects with this alias to ``sink``, including those that wait."""
        self._subscriptions[alias] = sink
        waiting, self._datagrams = self._datagrams, []
        for datagram in waiting:
            self._take_datagram(datagram)
        for stream in list(self._early.values()):
            self._begin(stream, b"")

    def unsubscribe(self, alias: int, sink: Sink) -> None:
        """Stop passing objects to ``sink`` and refuse its streams."""
        if self._subscriptions.get(alias) is sink:
            del self._subscriptions[alias]
        self._refuse_streams_of(sink)

    def expect_fetch(self, request_id: int, sink: Sink) -> None:
        """Pass the stream of a FETCH to ``sink``."""
        self._fetches[request_id] = sink
        for stream in list(self._early.values()):
            self._begin(stream, b"")

    def forget_fetch(self, request_id: int, sink: Sink) -> None:
        """Refuse the stream of a fetch."""
        self._fetches.pop(request_id, None)
        self._refuse_streams_of(sink)

    def _refuse_streams_of(self, sink: Sink) -> None:
        for stream in [s for s in self._streams.values() if s.sink is sink]:
            del self._streams[stream.stream_id]
            self._stop(stream)

    def pause(self, sink: Sink) -> bool:
        """Pause reading the streams of a sink; False if the transport cannot."""
        able = True
        for stream in self._streams.values():
            if stream.sink is sink and not stream.paused and not stream.fin:
                stream.paused = self._peer.connection.pause_reading(stream.stream_id)
                able = able and stream.paused
        return able

    def resume(self, sink: Sink) -> None:
        """Resume reading after :meth:`pause`."""
        for stream in self._streams.values():
            if stream.sink is sink and stream.paused:
                stream.paused = False
                self._peer.connection.resume_reading(stream.stream_id)

    # Arrivals

    def stream_opened(self, stream_id: int, kind: StreamKind, data: bytes, fin: bool) -> None:
        """Handle a new data stream."""
        stream = self._streams[stream_id] = InStream(stream_id, kind)
        stream.fin = fin
        self._begin(stream, data)

    def stream_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Handle data of a stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.fin = fin
        if stream.sink is None:
            self._begin(stream, data)
        else:
            self._feed(stream, data)

    def stream_reset(self, stream_id: int, code: int) -> None:
        """Handle the reset of a stream."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        if stream.sink is None:
            self._forget_early(stream)
        else:
            stream.sink.stream_closed(stream, code)

    def datagram(self, data: bytes) -> None:
        """Handle a datagram."""
        try:
            datagram = decode_datagram(data, self._peer.session.draft)
        except RemoteError as error:
            self._close(error)
            return
        if isinstance(datagram, ObjectDatagram):
            self._take_datagram(datagram)

    def _take_datagram(self, datagram: ObjectDatagram) -> None:
        sink = self._subscriptions.get(datagram.track_alias)
        if sink is not None:
            sink.arrived(None, datagram.to_object(), time.time())
        elif len(self._datagrams) < MAX_EARLY_DATAGRAMS:
            self._datagrams.append(datagram)
        else:
            self.discarded += 1

    # Streams

    def _begin(self, stream: InStream, data: bytes) -> None:
        """Find the sink of a stream from the data so far."""
        stream.early += data
        if stream.stream_id in self._early:
            self._early_bytes += len(data)
        draft = self._peer.session.draft
        held = bytes(stream.early)
        try:
            if stream.kind is StreamKind.FETCH:
                fetch, used = decode_fetch_header(held, draft)
                sink = self._fetches.get(fetch.request_id)
                held = held[used:]
            else:
                stream.header, _ = decode_subgroup_header(held, draft)
                sink = self._subscriptions.get(stream.header.track_alias)
        except IncompleteError as error:
            if stream.fin:
                self._close(RemoteError(f"a data stream ended inside its header: {error}"))
            return
        except RemoteError as error:
            self._close(error)
            return
        if sink is None:
            self._hold(stream)
            return
        self._forget_early(stream)
        stream.sink = sink
        if stream.kind is StreamKind.FETCH:
            stream.collector = ObjectCollector(FetchParser(draft, sink.order))
        else:
            stream.collector = ObjectCollector(SubgroupParser(draft))
        stream.early = bytearray()
        sink.stream_opened(stream)
        self._feed(stream, held)

    def _feed(self, stream: InStream, data: bytes) -> None:
        sink, collector = stream.sink, stream.collector
        if sink is None or collector is None:
            return
        items: list[CollectedItem] = []
        fault: RemoteError | None = None
        try:
            collector.feed(data, items)
            if stream.fin:
                collector.finish()
        except RemoteError as error:
            fault = error
        received_at = time.time()
        for item in items:
            if isinstance(item, MoqObject):
                sink.arrived(stream, item, received_at)
            elif isinstance(item, RangeEnd):
                sink.absent(item)
        if self._streams.get(stream.stream_id) is not stream:
            return  # the sink gave the stream up
        if fault is not None:
            self._fault(stream, sink, fault)
        elif stream.fin:
            del self._streams[stream.stream_id]
            sink.stream_closed(stream, None)

    def _fault(self, stream: InStream, sink: Sink, error: RemoteError) -> None:
        del self._streams[stream.stream_id]
        if isinstance(error, ObjectTooLargeError):
            # The limit is ours and not the draft's: only this stream ends.
            self._stop(stream)
            sink.stream_closed(stream, self._cancelled)
        elif isinstance(error, MalformedTrackError):
            self._stop(stream)
            sink.malformed(error)
        else:
            self._close(error)

    def _hold(self, stream: InStream) -> None:
        if stream.stream_id not in self._early:
            self._early[stream.stream_id] = stream
            self._early_bytes += len(stream.early)
        while len(self._early) > MAX_EARLY_STREAMS or self._early_bytes > MAX_EARLY_BYTES:
            oldest = next(iter(self._early.values()))
            self._forget_early(oldest)
            self._streams.pop(oldest.stream_id, None)
            self.discarded += 1
            self._stop(oldest)

    def _forget_early(self, stream: InStream) -> None:
        if self._early.pop(stream.stream_id, None) is not None:
            self._early_bytes -= len(stream.early)

    # Refusing

    @property
    def _cancelled(self) -> int:
        return int(STREAM_RESET_CODES[self._peer.session.draft].CANCELLED)

    def _stop(self, stream: InStream) -> None:
        if not stream.fin and not self._peer.connection.closed:
            self._peer.stop_data(stream.stream_id, self._cancelled)

    def _close(self, error: RemoteError) -> None:
        self._peer.session.close(error.code, str(error))
        self._peer.settle()
