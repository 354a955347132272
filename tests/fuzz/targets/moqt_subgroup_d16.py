"""Subgroup streams of draft 16: read as they arrive and field by field, and written again."""

from __future__ import annotations

from laps_wire.buffer import Reader
from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.data import (
    MoqObject,
    ObjectCollector,
    ObjectStatus,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    read_subgroup_stream,
)
from laps_wire.moqt.versions import Draft


def check(data: bytes, draft: Draft) -> None:
    """Both readers agree, and what they read is what it becomes when written."""
    collector = ObjectCollector(SubgroupParser(draft))
    items: list[object] | None
    try:
        items = list(collector.feed(data))
        collector.finish()
    except (IncompleteError, RemoteError):
        items = None
    try:
        header, objects = read_subgroup_stream(Reader(data, integers=draft.integers), draft)
    except (IncompleteError, RemoteError):
        if items is not None:
            raise AssertionError(f"only the parser reads {data.hex()}") from None
        return
    if items != [header, *objects]:
        raise AssertionError(f"{items} is not {[header, *objects]}")
    again = _write(header, objects, draft)
    if read_subgroup_stream(Reader(again, integers=draft.integers), draft) != (header, objects):
        raise AssertionError(f"{again.hex()} is not {data.hex()}")
    if len(again) > len(data):
        raise AssertionError(f"{again.hex()} is longer than {data.hex()}")


def _write(header: SubgroupHeader, objects: tuple[MoqObject, ...], draft: Draft) -> bytes:
    writer = SubgroupWriter(header, draft)
    return writer.start + b"".join(
        writer.object(
            item.header.object_id,
            item.payload,
            extensions=item.header.extensions,
            status=item.header.status,
        )
        for item in objects
    )


def streams(draft: Draft) -> list[bytes]:
    """A few streams that use every kind of header."""
    out = []
    for number, subgroup_id in enumerate((0, None, 9)):
        header = SubgroupHeader(
            0x1234,
            70,
            subgroup_id,
            None if number else 128,
            has_extensions=bool(number),
            end_of_group=number > 1,
            first_object=number > 1 and draft >= Draft.D18,
        )
        writer = SubgroupWriter(header, draft)
        extensions = b"\x3c\x01" if number else b""
        stream = writer.start + writer.object(3, b"payload", extensions=extensions)
        stream += writer.object(70, b"") + writer.object(71, bytes(100))
        out.append(stream + writer.object(72, status=ObjectStatus.END_OF_GROUP))
    return out


def one_input(data: bytes) -> None:
    """Read one stream."""
    check(data, Draft.D16)


def seeds() -> list[bytes]:
    """A few streams."""
    return streams(Draft.D16)
