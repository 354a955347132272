"""Frames and capsules: however they are cut, the same records; and what is held stays small."""

from __future__ import annotations

import contextlib

from laps_sdk.quic.webtransport.h3 import (
    CAPSULES,
    CONTROL_FRAMES,
    OPENING,
    REQUEST_FRAMES,
    STREAMED,
    ControlStream,
    H3Error,
    Record,
    RecordReader,
    decode_close,
    encode_close,
    encode_record,
)

KINDS = (REQUEST_FRAMES, CONTROL_FRAMES, CAPSULES)


def _read(reader: RecordReader, chunks: list[bytes]) -> tuple[list[Record], bool]:
    records: list[Record] = []
    try:
        for chunk in chunks:
            records += reader.feed(chunk)
    except H3Error:
        return records, False
    return records, True


def one_input(data: bytes) -> None:
    """The first byte chooses the kind of stream and the size of the chunks."""
    if not data:
        return
    limits, size, data = KINDS[data[0] % 3], 1 + data[0] // 3, data[1:]
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    reader = RecordReader(limits)
    pieces, fine = _read(reader, chunks)
    whole, also_fine = _read(RecordReader(limits), [data])
    assert fine == also_fine
    if fine:
        kept = [kind for kind, limit in limits.items() if limit != STREAMED]
        assert [r for r in pieces if r.type in kept] == [r for r in whole if r.type in kept]
    assert len(reader._held) <= 16 + max(limits.values())
    for record in pieces:
        if limits is CAPSULES:
            with contextlib.suppress(H3Error):
                decode_close(record.value)
    with contextlib.suppress(H3Error):
        ControlStream(from_client=size % 2 == 0).feed(data)


def seeds() -> list[bytes]:
    """Each kind of stream, in small and in large chunks."""
    request = encode_record(0x21, b"grease") + encode_record(1, b"fields") + encode_record(0, b"12")
    capsules = encode_record(0x99, b"x" * 70) + encode_close(3, "reason")
    streams = (request, OPENING[0][1:] + encode_record(7, b"\x04"), capsules)
    return [
        bytes([kind + 3 * size]) + stream
        for kind, stream in enumerate(streams)
        for size in (0, 1, 80)
    ]
