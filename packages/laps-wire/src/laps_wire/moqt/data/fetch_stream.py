"""Reads a fetch stream as it arrives, chunk by chunk, without copying payloads.

The group order of the request decides what draft 18's group ids mean, and the request is named by
the FETCH_HEADER. So the header is read first, and the parser gets what follows it::

    header, used = decode_fetch_header(data, draft)      IncompleteError: wait for more
    parser = FetchParser(draft, order_of[header.request_id])
    events = parser.feed(data[used:])

See ``stream`` for the events.
"""

from __future__ import annotations

from laps_wire.buffer import Reader
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.fetch import FetchState, read_fetch_item
from laps_wire.moqt.data.stream import DataEvent, StreamParser
from laps_wire.moqt.data.types import OBJECT_END, ObjectHeader
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = ["FetchParser"]


class FetchParser(StreamParser):
    """One incoming fetch stream, from behind its FETCH_HEADER on. Bytes: ``feed``, ``finish``."""

    __slots__ = ("_integers", "_state")

    def __init__(
        self,
        draft: Draft,
        order: GroupOrder = GroupOrder.ASCENDING,
        *,
        range_length: bool = True,
    ) -> None:
        super().__init__()
        self._integers = draft.integers
        self._state = FetchState(draft, order, range_length=range_length)

    def _started(self) -> bool:
        return True  # the FETCH_HEADER was read before

    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        # Released at once: held bytes cannot grow while a view on them is alive.
        with memoryview(data) as view:
            reader = Reader(view, integers=self._integers, partial=True, pos=pos, end=end)
            item = read_fetch_item(reader, self._state)
            pos = reader.pos
        events.append(item)
        if isinstance(item, ObjectHeader):
            if item.payload_length:
                self._left = item.payload_length
            else:
                events.append(OBJECT_END)
        return pos
