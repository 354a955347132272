"""Fetch streams: the first byte chooses draft, order and whether ranges have a length."""

from __future__ import annotations

from laps_wire.buffer import Reader
from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    FetchHeader,
    FetchParser,
    FetchState,
    FetchWriter,
    MoqObject,
    ObjectCollector,
    ObjectHeader,
    RangeEnd,
    RangeKind,
    decode_fetch_header,
    read_fetch_stream,
)
from laps_wire.moqt.versions import Draft


def setting(first: bytes) -> tuple[Draft, GroupOrder, bool]:
    """What the first byte chooses."""
    bits = first[0] if first else 0
    draft = Draft.D18 if bits & 1 else Draft.D16
    return draft, GroupOrder.DESCENDING if bits & 2 else GroupOrder.ASCENDING, not bits & 4


def one_input(data: bytes) -> None:
    """Read one stream in both ways and write it again."""
    draft, order, range_length = setting(data[:1])
    data = data[1:]
    items: list[object] | None
    try:
        _, used = decode_fetch_header(data, draft)
        collector = ObjectCollector(FetchParser(draft, order, range_length=range_length))
        items = list(collector.feed(data[used:]))
        collector.finish()
    except (IncompleteError, RemoteError):
        items = None
    read = _read(data, draft, order, range_length=range_length)
    if items != (None if read is None else list(read[1])):
        raise AssertionError(f"{items} is not {read}")
    if read is None:
        return
    writer = FetchWriter(read[0], draft, order, range_length=range_length)
    again = writer.start
    for item in read[1]:
        if isinstance(item, RangeEnd):
            again += writer.range_end(item)
        else:
            again += writer.object(item.header, item.payload)
    if _read(again, draft, order, range_length=range_length) != read:
        raise AssertionError(f"{again.hex()} is not {data.hex()}")
    # Behind a range of draft 16 we write both ids, where a peer may have left one out.
    ranges = draft is Draft.D16 and any(isinstance(item, RangeEnd) for item in read[1])
    if len(again) > len(data) and not ranges:
        raise AssertionError(f"{again.hex()} is longer than {data.hex()}")


def _read(
    data: bytes, draft: Draft, order: GroupOrder, *, range_length: bool
) -> tuple[FetchHeader, tuple[MoqObject | RangeEnd, ...]] | None:
    state = FetchState(draft, order, range_length=range_length)
    try:
        return read_fetch_stream(Reader(data, integers=draft.integers), state)
    except (IncompleteError, RemoteError):
        return None


def seeds() -> list[bytes]:
    """A few streams."""
    out = []
    for bits in range(8):
        draft, order, range_length = setting(bytes([bits]))
        writer = FetchWriter(FetchHeader(4), draft, order, range_length=range_length)
        last = 2 if order is GroupOrder.DESCENDING else 80
        stream = writer.start
        for header in (
            ObjectHeader(10, 0, 5, 128, 2, extensions=b"\x3c\x01"),
            ObjectHeader(10, 1, 6, 128, 2),
            ObjectHeader(10, 70, None, 7, 2),
        ):
            stream += writer.object(header, b"xy")
        stream += writer.range_end(RangeEnd(RangeKind.UNKNOWN, last, 3))
        stream += writer.object(ObjectHeader(last, 4, 0, 7, 0), b"")
        out.append(bytes([bits]) + stream)
    return out
