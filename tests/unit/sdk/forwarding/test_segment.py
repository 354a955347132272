"""Runs of cached objects."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.cache import CHUNK_COST, SEGMENT_COST, Segment
from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.interfaces import PlaneLimits
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.track import Group, Track
from laps_wire.moqt.data import ObjectHeader, ObjectStatus, SubgroupHeader
from testkit.plane import D16, NAME, bodies, cut, subgroup


def make(priority: int | None = None, *, base: int = -1, extended: bool = False) -> Segment:
    track = Track(1, NAME, None, PlaneLimits(), [])
    header = SubgroupHeader(0, 4, 2, priority, extended)
    return Segment(Group(track, 4), header, 2, D16, base=base, default_priority=77, born=1.0)


def fill(segment: Segment, data: bytes, places: list[int]) -> None:
    parser = RunParser(D16)
    started = parser.start(data)
    assert started is not None
    for piece in cut(started[1], places):
        marks: list[Mark] = []
        run, end = parser.scan(piece, marks)
        if end:
            segment.append(run[:end], marks)


def read(segment: Segment) -> list[tuple[int, bytes]]:
    return [(item.head.object_id, b"".join(item.pieces)) for item in segment.objects()]


@given(st.lists(st.integers(1, 200), max_size=8), st.integers(1, 49))
def test_objects_are_read_back(places: list[int], missing: int) -> None:
    payloads = [*bodies(3, 50), b""]
    segment = make()
    fill(segment, subgroup(D16, payloads), places)
    assert read(segment) == list(enumerate(payloads))
    assert all(item.whole for item in segment.objects())
    assert segment.count == 4
    assert segment.memory == SEGMENT_COST + segment.size + CHUNK_COST * len(segment.chunks)
    assert segment.size == sum(map(len, segment.chunks))

    part = make()
    fill(part, subgroup(D16, bodies(3, 50))[:-missing], places)
    *others, last = part.objects()
    assert [item.whole for item in others] == [True, True]
    assert not last.whole
    part.cut()
    assert read(part) == list(enumerate(bodies(2, 50)))
    assert part.count == 2
    assert part.size == sum(map(len, part.chunks))


def test_heads_say_what_the_stream_implied() -> None:
    for priority, expected in ((None, 77), (3, 3)):
        segment = make(priority)
        fill(segment, subgroup(D16, bodies(1)), [])
        (item,) = segment.objects()
        assert item.head == ObjectHeader(4, 0, 2, expected, 10)
        assert segment.priority == expected


def test_whole_objects_may_be_appended() -> None:
    segment = make(base=-1, extended=True)
    segment.append_object(ObjectHeader(4, 3, 2, None, 3, ObjectStatus.NORMAL, b"\x02\x01"), b"abc")
    segment.append_object(ObjectHeader(4, 8, 2, None, 0, ObjectStatus.END_OF_GROUP), b"")
    first, second = segment.objects()
    assert first.head.extensions == b"\x02\x01"
    assert second.head.status is ObjectStatus.END_OF_GROUP
    assert read(segment) == [(3, b"abc"), (8, b"")]
    assert segment.last_id == 8


def test_an_empty_one() -> None:
    assert list(make().objects()) == []


def test_ids_are_known_without_reading() -> None:
    segment = make()
    data = subgroup(D16, {0: b"a", 1: b"bb", 5: b"c", 9: b"dddd"})
    fill(segment, data[:-2], [])
    assert list(segment.ids) == [(0, 1), (5, 5), (9, 9)]
    assert list(segment.whole_ids) == [(0, 1), (5, 5)]
    assert segment.memory > SEGMENT_COST + segment.size + CHUNK_COST * len(segment.chunks)
    segment.append(data[-2:], [])
    assert list(segment.whole_ids) == [(0, 1), (5, 5), (9, 9)]
    segment.cut()
    assert (segment.last_id, list(segment.whole_ids)) == (5, [(0, 1), (5, 5)])
    for left in (1, 0, -1):
        segment.last_start = 0
        segment.cut()
        assert segment.last_id == left


def test_who_reads_slowly_keeps_nothing() -> None:
    segment = make()
    fill(segment, subgroup(D16, bodies(4, 50)), [60, 120, 180])
    reading = segment.objects()
    assert next(reading).head.object_id == 0
    segment.release()
    assert [item.whole for item in reading] == [False]
