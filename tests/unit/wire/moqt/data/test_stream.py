"""What all data streams share, and the collector of whole objects."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.fetch import FetchParser
from laps_wire.moqt.data.stream import MAX_OBJECT_SIZE, ObjectCollector
from laps_wire.moqt.data.subgroup import SubgroupParser, SubgroupWriter
from laps_wire.moqt.data.types import (
    OBJECT_END,
    MoqObject,
    ObjectHeader,
    ObjectTooLargeError,
    SubgroupHeader,
    TruncatedStreamError,
)
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import (
    DRAFTS,
    chunkings,
    cut,
    encode_fetch,
    fetch_items,
    plain,
    run,
    subgroup_streams,
)
from testkit.properties import check_bounded

D16 = Draft.D16
STREAM = bytes.fromhex("300102 000461626364 00026566")
OBJECTS = [
    MoqObject(ObjectHeader(2, 0, 0, None, 4), b"abcd"),
    MoqObject(ObjectHeader(2, 1, 0, None, 2), b"ef"),
]


def collect(collector: ObjectCollector, chunks: list[bytes]) -> list[Any]:
    return [item for chunk in chunks for item in collector.feed(chunk)]


@given(st.data())
def test_collected_objects_are_those_written(data: st.DataObject) -> None:
    draft = data.draw(DRAFTS)
    header, objects, encoded = data.draw(subgroup_streams(draft))
    collector = ObjectCollector(SubgroupParser(draft))
    cuts = data.draw(chunkings(len(encoded)))
    assert collect(collector, cut(encoded, cuts)) == [header, *objects]
    collector.finish()


@given(st.data(), DRAFTS, st.sampled_from(list(GroupOrder)))
def test_collected_fetches_too(data: st.DataObject, draft: Draft, order: GroupOrder) -> None:
    items = data.draw(fetch_items(draft, order))
    _, body = encode_fetch(items, draft, order)
    collector = ObjectCollector(FetchParser(draft, order))
    assert collect(collector, cut(body, data.draw(chunkings(len(body))))) == list(items)
    collector.finish()


def test_every_cut_of_a_stream() -> None:
    whole = run(SubgroupParser(D16), [STREAM])
    assert whole[1] is None
    for first in range(len(STREAM) + 1):
        for second in range(first, len(STREAM) + 1):
            chunks = cut(STREAM, [first, second])
            assert run(SubgroupParser(D16), chunks) == whole
            collector = ObjectCollector(SubgroupParser(D16))
            assert collect(collector, chunks) == [SubgroupHeader(1, 2), *OBJECTS]


def test_events_are_appended_to_a_given_list() -> None:
    parser = SubgroupParser(D16)
    events: list[Any] = ["before"]
    assert parser.feed(STREAM[:5], events) is events
    assert plain(parser.feed(STREAM[5:], events))[1:3] == [SubgroupHeader(1, 2), OBJECTS[0].header]
    items: list[Any] = ["before"]
    assert ObjectCollector(SubgroupParser(D16)).feed(STREAM, items) is items
    assert items == ["before", SubgroupHeader(1, 2), *OBJECTS]


def test_objects_before_a_fault_are_not_lost() -> None:
    items: list[Any] = []
    collector = ObjectCollector(SubgroupParser(D16))
    with pytest.raises(ProtocolViolation):
        collector.feed(STREAM + bytes.fromhex("000007"), items)
    assert items == [SubgroupHeader(1, 2), *OBJECTS]


def test_a_large_object_is_refused_before_its_payload() -> None:
    items: list[Any] = []
    collector = ObjectCollector(SubgroupParser(D16), limit=3)
    with pytest.raises(ObjectTooLargeError, match="4 bytes is over the limit of 3") as caught:
        collector.feed(STREAM[:5], items)
    assert (caught.value.size, caught.value.limit) == (4, 3)
    assert items == [SubgroupHeader(1, 2)]
    # The stream is given up: nothing piles up behind the refusal.
    for call in (lambda: collector.feed(b"abcd"), collector.finish):
        with pytest.raises(StateError):
            call()
    exactly = ObjectCollector(SubgroupParser(D16), limit=4)
    assert exactly.feed(STREAM) == [SubgroupHeader(1, 2), *OBJECTS]


def test_memory_follows_what_arrived() -> None:
    start = b"\x30\x01\x02\x00" + D16.integers.encode(MAX_OBJECT_SIZE) + bytes(100)
    check_bounded(lambda data: (ObjectCollector(SubgroupParser(D16)).feed(data), 0), start)
    over = b"\x30\x01\x02\x00" + D16.integers.encode(MAX_OBJECT_SIZE + 1)
    with pytest.raises(ObjectTooLargeError):
        ObjectCollector(SubgroupParser(D16)).feed(over)


def test_memory_does_not_follow_how_often_something_arrived() -> None:
    # A peer chooses how a payload is cut: two bytes at a time must not cost an object each.
    size = 1 << 16
    collector = ObjectCollector(SubgroupParser(D16))
    collector.feed(b"\x30\x01\x02\x00" + D16.integers.encode(size))
    tracemalloc.start()
    try:
        for _ in range(size // 2 - 1):
            assert collector.feed(b"xy") == []
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size - 2 <= held < 4 * size
    assert collector.feed(b"zz") == [
        MoqObject(ObjectHeader(2, 0, 0, None, size), b"xy" * (size // 2 - 1) + b"zz")
    ]


def test_a_held_header_is_bounded_and_read_in_linear_time() -> None:
    # 100 kB of extensions, a byte at a time: what is held never gets longer than the header.
    writer = SubgroupWriter(SubgroupHeader(1, 2, has_extensions=True), D16)
    extensions = bytes(100_000)
    data = writer.start + writer.object(0, b"p", extensions=extensions)
    parser = SubgroupParser(D16)
    events = [event for byte in range(len(data)) for event in parser.feed(data[byte : byte + 1])]
    assert [type(event).__name__ for event in events] == [
        "SubgroupHeader",
        "ObjectHeader",
        "memoryview",
        "ObjectEnd",
    ]


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (0, "in the middle of a header"),
        (2, "in the middle of a header"),
        (4, "in the middle of a header"),
        (5, "4 bytes before the end of an object"),
        (8, "1 bytes before the end of an object"),
        (10, "in the middle of a header"),
    ],
)
def test_a_fin_in_the_middle_is_a_violation(size: int, reason: str) -> None:
    parser = SubgroupParser(D16)
    parser.feed(STREAM[:size])
    with pytest.raises(TruncatedStreamError, match=reason):
        parser.finish()
    collector = ObjectCollector(SubgroupParser(D16))
    collector.feed(STREAM[:size])
    with pytest.raises(TruncatedStreamError, match=reason):
        collector.finish()


def test_closing_gives_the_stream_up() -> None:
    parser = SubgroupParser(D16)
    parser.feed(STREAM[:6])
    parser.close()
    with pytest.raises(StateError, match="ended or failed"):
        parser.feed(STREAM[6:])
    with pytest.raises(StateError, match="ended or failed"):
        parser.finish()


def test_a_local_fault_is_not_the_streams() -> None:
    # Only what the peer sent closes a parser.
    parser = SubgroupParser(D16)
    with pytest.raises(TypeError):
        parser.feed(None)  # type: ignore[arg-type]
    assert parser.feed(STREAM)[-1] is OBJECT_END
    parser.finish()
