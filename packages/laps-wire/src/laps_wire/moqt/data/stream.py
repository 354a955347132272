"""Reading data streams as they arrive: what subgroup and fetch streams have in common.

::

    feed(chunk)  ->  SubgroupHeader       a subgroup stream begins with one
                     ObjectHeader         ids, extensions, payload length
                     memoryview           a piece of the payload: a slice of the chunk
                     OBJECT_END           all of the payload was given out
                     RangeEnd             in a fetch: no objects up to here

    chunk 1 [ header | object | payload.. ]    chunk 2 [ ..payload | obj ]    chunk 3 [ ect | ...
                                |                         |           |             |
                              pieces, never joined here <-+           +-- held -----+ at most one
                                                                          object header

How the bytes were cut into chunks changes only how payloads are cut into pieces. What is held is
bounded by the longest header (``MAX_EXTENSIONS_SIZE`` and a few integers), whatever a peer claims.

:class:`ObjectCollector` joins the pieces for those who want whole objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, TypeAlias

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
from laps_wire.varint import ByteSource

__all__ = [
    "MAX_OBJECT_SIZE",
    "CollectedItem",
    "DataEvent",
    "ObjectCollector",
    "StreamParser",
]

DataEvent: TypeAlias = "SubgroupHeader | ObjectHeader | memoryview | ObjectEnd | RangeEnd"
"""What a data stream consists of."""

CollectedItem: TypeAlias = "SubgroupHeader | MoqObject | RangeEnd"
"""What a data stream consists of, with objects in one piece."""

MAX_OBJECT_SIZE: Final = 1 << 24
"""The longest payload that a collector holds unless told otherwise: 16 MiB."""

_NO_OBJECT: Final = ObjectHeader(0, 0, None, None, 0)
_JOIN_STEP: Final = 64
"""How much of a chunk is first joined to a held header; it grows if that was not enough."""


class StreamParser(ABC):
    """One incoming data stream. Bytes: ``feed``, then ``finish`` at the FIN, or ``close``.

    A subclass says how a header is read (``_begin``).
    """

    __slots__ = ("_closed", "_held", "_left")

    def __init__(self) -> None:
        self._left = 0  # payload bytes that the current object still lacks
        self._held = bytearray()  # the beginning of a header that is not whole yet
        self._closed = False

    def feed(self, data: ByteSource, into: list[DataEvent] | None = None) -> list[DataEvent]:
        """Take the next bytes and give what they hold.

        Events are appended to ``into`` if given; it then has those before a fault as well. After a
        fault the parser takes nothing more.
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
        """The stream ended with a FIN: refuse one inside a header or object.

        The drafts close the session for it (moq-transport-16, 10.4). A reset is no such fault: drop
        the parser then, and with it what was not whole.
        """
        if self._closed:
            raise StateError("the stream has ended or failed")
        self._closed = True
        if self._left:
            raise TruncatedStreamError(f"FIN {self._left} bytes before the end of an object")
        if self._held or not self._started():
            raise TruncatedStreamError("FIN in the middle of a header")

    def close(self) -> None:
        """Give the stream up: take nothing more."""
        self._closed = True

    @abstractmethod
    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        """Read the header at ``pos`` (there is at least a byte), append it, give the end of it.

        Sets ``_left`` to the payload's length; without payload appends the object's end as well.
        Raises ``IncompleteError`` having changed nothing.
        """

    @abstractmethod
    def _started(self) -> bool:
        """Whether what must stand at the beginning of the stream was read."""

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

        Gives the position in ``data`` behind the header, or -1 if more is needed.
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
    """Gives whole objects from a stream; memory follows what arrived, not what was announced.

    An object whose header says more than ``limit`` is refused before its payload, and with it the
    rest of the stream.
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
        """Take the next bytes and give what became whole; ``into`` as in ``StreamParser.feed``."""
        items: list[CollectedItem] = [] if into is None else into
        events: list[DataEvent] = []
        try:
            self.parser.feed(data, events)
        finally:
            for event in events:
                self._take(event, items)
        return items

    def finish(self) -> None:
        """The stream ended with a FIN."""
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
