"""What the tests of MoQT's data plane share: strategies, chunkings, vectors, plain event lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from laps_wire.errors import RemoteError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    OBJECT_END,
    DataEvent,
    FetchHeader,
    FetchWriter,
    MoqObject,
    ObjectDatagram,
    ObjectHeader,
    ObjectStatus,
    RangeEnd,
    RangeKind,
    SubgroupHeader,
    SubgroupWriter,
)
from laps_wire.moqt.data.stream import StreamParser
from laps_wire.moqt.versions import Draft
from testkit.strategies import varints

REPOSITORY = Path(__file__).parents[2]

DRAFTS = st.sampled_from(list(Draft))
PRIORITIES = st.none() | st.integers(0, 255)
PAYLOADS = st.binary(max_size=80) | st.binary(min_size=60, max_size=300)
EXTENSION_BYTES = st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
ENDS = st.sampled_from([ObjectStatus.END_OF_GROUP, ObjectStatus.END_OF_TRACK])


# Vectors


def own_vectors(kind: str) -> list[Any]:
    """Our vectors of draft 18, as parameters named by their ids."""
    path = REPOSITORY / "tests" / "vectors" / "moqt" / "draft18-data.json"
    return [pytest.param(item, id=item["id"]) for item in json.loads(path.read_text())[kind]]


# Streams


@st.composite
def subgroup_headers(draw: DrawFn, draft: Draft) -> SubgroupHeader:
    """Any SUBGROUP_HEADER of ``draft``."""
    numbers = varints(draft.integers)
    return SubgroupHeader(
        draw(numbers),
        draw(numbers),
        draw(st.none() | st.just(0) | numbers),
        draw(PRIORITIES),
        has_extensions=draw(st.booleans()),
        end_of_group=draw(st.booleans()),
        first_object=draft is not Draft.D16 and draw(st.booleans()),
    )


@st.composite
def subgroup_streams(
    draw: DrawFn, draft: Draft
) -> tuple[SubgroupHeader, tuple[MoqObject, ...], bytes]:
    """A header, the objects behind it, and their bytes."""
    header = draw(subgroup_headers(draft))
    writer = SubgroupWriter(header, draft)
    data = writer.start
    limit = draft.integers.max_value
    objects: list[MoqObject] = []
    next_id = draw(st.just(0) | varints(draft.integers))
    subgroup_id = next_id if header.subgroup_id is None else header.subgroup_id
    for last in draw(st.lists(st.booleans(), max_size=4)):
        if next_id > limit:
            break
        status, payload, extensions = ObjectStatus.NORMAL, draw(PAYLOADS), b""
        if header.has_extensions:
            extensions = draw(EXTENSION_BYTES)
        if last:
            status, payload, extensions = draw(ENDS), b"", b""
        item = ObjectHeader(
            header.group_id, next_id, subgroup_id, header.priority, len(payload), status, extensions
        )
        objects.append(MoqObject(item, payload))
        data += writer.object(next_id, payload, extensions=extensions, status=status)
        next_id += 1 + draw(st.integers(0, 100))
        if last:
            break
    return header, tuple(objects), data


@st.composite
def fetch_items(draw: DrawFn, draft: Draft, order: GroupOrder) -> tuple[MoqObject | RangeEnd, ...]:
    """Objects and ranges, in the order of their fetch."""
    numbers = varints(draft.integers)
    locations = draw(st.sets(st.tuples(numbers, numbers | st.integers(0, 5)), max_size=6))
    sign = -1 if order is GroupOrder.DESCENDING else 1
    items: list[MoqObject | RangeEnd] = []
    for group_id, object_id in sorted(locations, key=lambda place: (sign * place[0], place[1])):
        if draw(st.integers(0, 3)) == 0:
            kind = draw(st.sampled_from(list(RangeKind)))
            items.append(RangeEnd(kind, group_id, object_id))
            continue
        payload = draw(PAYLOADS)
        subgroup = draw(st.none() | st.integers(0, 3) | numbers)
        priority = draw(st.sampled_from([0, 128, 255]))
        extensions = draw(st.just(b"") | EXTENSION_BYTES)
        header = ObjectHeader(
            group_id,
            object_id,
            subgroup,
            priority,
            len(payload),
            ObjectStatus.NORMAL,
            extensions,
        )
        items.append(MoqObject(header, payload))
    return tuple(items)


def encode_fetch(
    items: Iterable[MoqObject | RangeEnd],
    draft: Draft,
    order: GroupOrder,
    *,
    range_length: bool = True,
    request_id: int = 4,
) -> tuple[bytes, bytes]:
    """The FETCH_HEADER, and what follows it."""
    writer = FetchWriter(FetchHeader(request_id), draft, order, range_length=range_length)
    body = b""
    for item in items:
        if isinstance(item, RangeEnd):
            body += writer.range_end(item)
        else:
            body += writer.object(item.header, item.payload)
    return writer.start, body


@st.composite
def datagrams(draw: DrawFn, draft: Draft) -> ObjectDatagram:
    """Any object datagram of ``draft``."""
    numbers = varints(draft.integers)
    status = draw(st.just(ObjectStatus.NORMAL) | ENDS)
    normal = status is ObjectStatus.NORMAL
    return ObjectDatagram(
        draw(numbers),
        draw(numbers),
        draw(st.just(0) | numbers),
        draw(PAYLOADS) if normal else b"",
        draw(PRIORITIES),
        status,
        draw(st.just(b"") | EXTENSION_BYTES) if normal else b"",
        normal and draw(st.booleans()),
    )


# Bytes that are almost right


@st.composite
def damaged(draw: DrawFn, data: bytes) -> bytes:
    """``data`` with a few bytes changed, and perhaps cut short."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        if changed:
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed)


def chunkings(size: int) -> SearchStrategy[list[int]]:
    """Where to cut ``size`` bytes."""
    return st.lists(st.integers(0, size), max_size=12).map(sorted)


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """``data`` in pieces; cuts may repeat, which gives empty pieces."""
    edges = [0, *cuts, len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


# Events


def plain(events: Iterable[DataEvent]) -> list[Any]:
    """Events with the pieces of a payload joined: what does not depend on chunks."""
    out: list[Any] = []
    for event in events:
        if not isinstance(event, memoryview):
            out.append(event)
        elif isinstance(out[-1], bytes):
            out[-1] += bytes(event)
        else:
            out.append(bytes(event))
    return out


def run(parser: StreamParser, chunks: Iterable[bytes]) -> tuple[list[Any], type | None]:
    """Feed chunks and a FIN; what came out, and the fault that ended it."""
    events: list[DataEvent] = []
    try:
        for chunk in chunks:
            parser.feed(chunk, events)
        parser.finish()
    except RemoteError as error:
        return plain(events), type(error)
    return plain(events), None


def events_of(objects: Iterable[MoqObject | RangeEnd]) -> list[Any]:
    """The plain events that belong to ``objects``."""
    out: list[Any] = []
    for item in objects:
        if isinstance(item, RangeEnd):
            out.append(item)
        else:
            out += [item.header, item.payload, OBJECT_END]
            if not item.payload:
                del out[-2]
    return out
