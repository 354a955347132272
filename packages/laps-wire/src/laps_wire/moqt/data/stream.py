"""Incremental parsing of data streams: what subgroup and fetch streams have in common.

::

    feed(chunk)  ->  SubgroupHeader       a subgroup stream begins with one
                     ObjectHeader         ids, extensions, payload length
                     memoryview           a piece of the payload: a slice of the chunk
                     OBJECT_END           the payload is complete
                     RangeEnd             in a fetch: no objects up to here

    chunk 1 [ header | object | payload.. ]    chunk 2 [ ..payload | obj ]    chunk 3 [ ect | ...
                                |                         |           |             |
                              pieces, never joined here <-+           +-- held -----+ at most one
                                                                          object header

The chunk boundaries affect only the boundaries of payload pieces. The parser holds at most one
header (``MAX_EXTENSIONS_SIZE`` and a few integers), whatever lengths a peer announces.

:class:`ObjectCollector` joins the pieces to whole objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, TypeAlias

from laps_wire.buffer import ByteSource
from laps_wire.errors import IncompleteError, RemoteError, StateError
from laps_wire.moqt.data.types import (
    OBJECT_END,
    MoqObject,
    ObjectEnd,
    ObjectHeader,
    ObjectTooLargeError,
    RangeEnd,
    SubgroupHeader,
    TruncatedStreamError,
)

__all__ = [
    "MAX_OBJECT_SIZE",
    "CollectedItem",
    "DataEvent",
    "ObjectCollector",
    "StreamParser",
]

DataEvent: TypeAlias = "SubgroupHeader | ObjectHeader | memoryview | ObjectEnd | RangeEnd"
"""An event of a data stream parser."""

CollectedItem: TypeAlias = "SubgroupHeader | MoqObject | RangeEnd"
"""An item of a data stream, with each object in one piece."""

MAX_OBJECT_SIZE: Final = 1 << 24
"""The default limit for a payload in a collector: 16 MiB."""

_NO_OBJECT: Final = ObjectHeader(0, 0, None, None, 0)
_JOIN_STEP: Final = 64
"""How many bytes of a chunk are first joined to a held header; grows if these are too few."""


class StreamParser(ABC):
    """Parser of one incoming data stream: ``feed``, then ``finish`` at the FIN, or ``close``.

    Subclasses implement ``_begin``, which reads a header.
    """

    __slots__ = ("_closed", "_held", "_left")

    def __init__(self) -> None:
        self._left = 0  # payload bytes that the current object still lacks
        self._held = bytearray()  # the beginning of an incomplete header
        self._closed = False

    def feed(self, data: ByteSource, into: list[DataEvent] | None = None) -> list[DataEvent]:
        """Parse the next bytes and return their events.

        Events are appended to ``into`` if given, which then also holds those before an error. After
        an error the parser accepts no more bytes.
        """
        events: list[DataEvent] = [] if into is None else into
        if self._closed:
            raise StateError("the stream has ended or failed")
        try:
            self._feed(data, events)
        except RemoteError:
            self._closed = True
            raise
        return events

    def finish(self) -> None:
        """Handle a FIN; raise ``TruncatedStreamError`` if it is inside a header or an object.

        The drafts close the session for it (moq-transport-16, 10.4). After a reset, discard the
        parser instead of calling this.
        """
        if self._closed:
            raise StateError("the stream has ended or failed")
        self._closed = True
        if self._left:
            raise TruncatedStreamError(f"FIN {self._left} bytes before the end of an object")
        if self._held or not self._started():
            raise TruncatedStreamError("FIN in the middle of a header")

    def close(self) -> None:
        """Abandon the stream: accept no more bytes."""
        self._closed = True

    @abstractmethod
    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        """Read the header at ``pos``, append its event, and return the position after it.

        At least one byte is available. Sets ``_left`` to the payload length; if that is 0, appends
        OBJECT_END as well. Raises ``IncompleteError`` without any change of state.
        """

    @abstractmethod
    def _started(self) -> bool:
        """Return whether the header of the stream was read."""

    def _feed(self, data: ByteSource, events: list[DataEvent]) -> None:
        pos, end = 0, len(data)
        if self._held:
            pos = self._join(data, end, events)
            if pos < 0:
                return
        view: memoryview | None = None
        append = events.append
        while pos < end:
            left = self._left
            if left:
                if view is None:
                    view = memoryview(data)
                stop = pos + left
                if stop > end:
                    append(view[pos:end])
                    self._left = stop - end
                    return
                append(view[pos:stop])
                append(OBJECT_END)
                self._left = 0
                pos = stop
                if pos >= end:
                    return
            try:
                pos = self._begin(data, pos, end, events)
            except IncompleteError:
                self._held += data[pos:end]
                return

    def _join(self, data: ByteSource, end: int, events: list[DataEvent]) -> int:
        """Complete the held header with the beginning of ``data``.

        Returns the position in ``data`` after the header, or -1 if more bytes are needed.
        """
        held = self._held
        before = len(held)
        used, step = 0, _JOIN_STEP
        while used < end:
            stop = min(used + step, end)
            held += data[used:stop]
            used, step = stop, step * 8
            try:
                pos = self._begin(held, 0, len(held), events)
            except IncompleteError:
                continue
            held.clear()
            return pos - before
        return -1


class ObjectCollector:
    """Collects whole objects from a stream; memory grows with received bytes, not with lengths.

    A header with a payload length over ``limit`` raises an error before its payload is read. The
    rest of the stream is then refused.
    """

    __slots__ = ("_first", "_header", "_more", "limit", "parser")

    def __init__(self, parser: StreamParser, *, limit: int = MAX_OBJECT_SIZE) -> None:
        self.parser = parser
        self.limit = limit
        self._header = _NO_OBJECT
        self._first = b""  # most payloads come in one piece, which is then not copied again
        self._more = bytearray()  # all other pieces: a peer may send them two bytes at a time

    def feed(
        self, data: ByteSource, into: list[CollectedItem] | None = None
    ) -> list[CollectedItem]:
        """Parse the next bytes; return complete items. ``into`` is as in ``StreamParser.feed``."""
        items: list[CollectedItem] = [] if into is None else into
        events: list[DataEvent] = []
        try:
            self.parser.feed(data, events)
        finally:
            for event in events:
                self._take(event, items)
        return items

    def finish(self) -> None:
        """Handle a FIN, as ``StreamParser.finish`` does."""
        self.parser.finish()

    def _take(self, event: DataEvent, items: list[CollectedItem]) -> None:
        if isinstance(event, ObjectHeader):
            if event.payload_length > self.limit:
                self.parser.close()
                raise ObjectTooLargeError(event.payload_length, self.limit)
            self._header = event
        elif isinstance(event, memoryview):
            if self._first:
                self._more += event
            else:
                self._first = bytes(event)
        elif event is OBJECT_END:
            payload, self._first = self._first, b""
            if self._more:
                payload += self._more
                self._more.clear()
            items.append(MoqObject(self._header, payload))
        else:
            items.append(event)
