"""What is kept and what goes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.cache import (
    CHUNK_COST,
    SEGMENT_BYTES,
    SEGMENT_COST,
    Ages,
    Cache,
    CacheFigures,
    Segment,
)
from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.interfaces import CacheLimits, PlaneLimits
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.track import Group, Track
from laps_wire.moqt.data import ObjectHeader, ObjectStatus, SubgroupHeader
from laps_wire.telemetry import AGE_BOUNDS_MS
from testkit.plane import D16, NAME, Net, bodies, cut, subgroup


def track(number: int = 1, max_age: float | None = None) -> Track:
    return Track(number, NAME, max_age, PlaneLimits(), [])


def put(
    cache: Cache, where: Track, group_id: int, *, size: int = 100, now: float = 0.0, count: int = 1
) -> Segment:
    group = where.groups.get(group_id)
    if group is None:
        group = where.groups[group_id] = Group(where, group_id)
    header = SubgroupHeader(0, group_id)
    segment = Segment(group, header, 0, D16, base=-1, default_priority=1, born=now)
    cache.add(segment)
    for object_id in range(count):
        segment.append_object(0.0, ObjectHeader(group_id, object_id, 0, None, size), bytes(size))
        cache.grew(segment, 1)
        if not segment.cost:
            break
    return segment


def recount(cache: Cache, *tracks: Track) -> None:
    """Every figure is what a count finds."""
    assert cache.bytes == sum(segment.memory for segment in cache.order)
    for each in tracks:
        mine = [segment for segment in cache.order if segment.group.track is each]
        assert list(each.cached) == mine
        assert each.cached_bytes == sum(segment.memory for segment in mine)
        assert each.cached_objects == sum(segment.count for segment in mine)
        assert set(each.cached_groups) == {segment.group for segment in mine}
        for group in each.groups.values():
            assert set(group.segments) == {each for each in mine if each.group is group}


def groups(where: Track) -> list[int]:
    return sorted(group.group_id for group in where.cached_groups)


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (CacheLimits(max_groups=2), [3, 4]),
        (CacheLimits(max_objects=4), [3, 4]),
        (CacheLimits(max_track_bytes=3000), [3, 4]),
        (CacheLimits(max_bytes=3000), [3, 4]),
        (CacheLimits(), [0, 1, 2, 3, 4]),
    ],
)
def test_the_oldest_group_goes(limits: CacheLimits, left: list[int]) -> None:
    cache, one = Cache(limits), track()
    for group_id in range(5):
        put(cache, one, group_id, count=2)
    assert groups(one) == left
    recount(cache, one)


def test_a_group_goes_as_a_whole_unless_it_is_the_only_one() -> None:
    cache, one = Cache(CacheLimits(max_objects=4)), track()
    for group_id in (0, 0, 0, 1, 1):
        put(cache, one, group_id)
    assert groups(one) == [1]
    assert one.cached_objects == 2
    for _ in range(4):
        put(cache, one, 1)
    assert one.cached_objects == 4
    recount(cache, one)


def test_what_is_too_large_for_the_cache_is_not_kept() -> None:
    cache, one = Cache(CacheLimits(max_bytes=1000)), track()
    segment = put(cache, one, 0, size=2000)
    assert segment.cost == 0
    assert cache.bytes == 0
    recount(cache, one)


def test_age() -> None:
    cache, one, two = Cache(CacheLimits(max_age=10)), track(), track(2, max_age=4)
    assert cache.next_expiry() is None
    put(cache, one, 0, now=0)
    put(cache, two, 0, now=1)
    put(cache, one, 1, now=2)
    put(cache, two, 1, now=2)
    assert cache.next_expiry() == 5
    cache.expire(4.9)
    assert groups(two) == [0, 1]
    cache.expire(5)
    assert groups(two) == [1]
    cache.expire(7)
    assert groups(two) == []
    assert groups(one) == [0, 1]
    cache.expire(11)
    assert groups(one) == [1]
    # The latest of a track stays if nobody but us says that it is old.
    cache.expire(100)
    assert groups(one) == [1]
    assert cache.next_expiry() is None
    put(cache, one, 2, now=100)
    cache.expire(101)
    assert groups(one) == [2]
    recount(cache, one, two)


def test_a_publisher_s_limit_holds_to_the_moment() -> None:
    cache, own, strict = Cache(CacheLimits(max_age=10)), track(), track(2, max_age=4)
    mine, theirs = put(cache, own, 0), put(cache, strict, 0)
    assert cache.is_fresh(3.9, theirs)
    assert not cache.is_fresh(4, theirs)
    assert cache.is_fresh(11, mine)
    lax = track(3, max_age=40)
    assert cache.age_of(lax) == 10


def test_segments_are_closed() -> None:
    cache, one = Cache(CacheLimits(max_age=80)), track()
    segment = put(cache, one, 0)
    assert not cache.is_closed(10, segment)
    assert cache.is_closed(10.1, segment)
    assert cache.is_closed(0, put(cache, one, 1, size=SEGMENT_BYTES))


def test_new_limits() -> None:
    cache, one, two = Cache(CacheLimits()), track(), track(2)
    for group_id in range(4):
        put(cache, one, group_id, now=group_id)
        put(cache, two, group_id, now=group_id)
    cache.set_limits(CacheLimits(max_groups=3, max_age=5), [one, two])
    assert groups(one) == [1, 2, 3]
    assert cache.next_expiry() == 5
    cache.expire(7)
    assert groups(one) == [3]
    cache.set_limits(CacheLimits(max_bytes=0), [one, two])
    assert cache.bytes == 0
    recount(cache, one, two)


def test_purging() -> None:
    cache, one, two = Cache(CacheLimits()), track(), track(2)
    put(cache, one, 0)
    put(cache, two, 0)
    held = one.cached_bytes
    assert cache.purge(one) == held
    assert cache.purge(one) == 0
    assert cache.purge() == held
    recount(cache, one, two)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "cut", "expire", "purge", "limits"]),
            st.integers(0, 2),
            st.integers(0, 5),
            st.integers(0, 900),
        ),
        max_size=40,
    )
)
def test_the_figures_are_those_of_a_recount(steps: list[tuple[str, int, int, int]]) -> None:
    limits = CacheLimits(max_bytes=6000, max_track_bytes=4000, max_groups=3, max_objects=6)
    cache = Cache(limits)
    tracks = [track(0), track(1, max_age=3), track(2, max_age=1000)]
    now = 0.0
    for what, index, group_id, size in steps:
        one = tracks[index]
        now += 1
        if what == "put":
            put(cache, one, group_id, size=size, now=now, count=2)
        elif what == "cut":
            segment = next(iter(one.cached), None)
            if segment is not None and segment.count:
                segment.cut()
                cache.grew(segment, -1)
        elif what == "expire":
            cache.expire(now + size / 10)
        elif what == "purge":
            cache.purge(one)
        else:
            cache.set_limits(CacheLimits(max_bytes=5000 + size, max_age=50), tracks)
        recount(cache, *tracks)
        assert cache.bytes <= cache.limits.max_bytes


def test_what_goes_is_counted_by_why() -> None:
    net = Net(CacheLimits(max_groups=1, max_age=10.0))
    publisher = net.publisher()
    for group in range(3):
        net.send(publisher, subgroup(D16, bodies(2), group=group))
    traffic, stored = net.plane.take_cache()
    assert traffic.evicted == 2 * stored > 0
    assert traffic.expired == 0
    net.plane.purge()  # that is nobody's fault
    net.send(publisher, subgroup(D16, bodies(2), group=3))
    net.wait(5)
    net.send(publisher, subgroup(D16, bodies(1), group=4))
    traffic, stored = net.plane.take_cache()
    assert traffic.evicted > 0
    net.plane.set_cache_limits(net.now, CacheLimits(max_age=10.0))
    net.wait(3)
    net.send(publisher, subgroup(D16, bodies(1), group=5))
    net.wait(8)
    traffic, _ = net.plane.take_cache()
    assert traffic.expired > 0


def test_what_is_given_has_an_age_and_what_is_too_old_too() -> None:
    net = Net(CacheLimits(max_age=10.0))
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(2)))
    net.wait(3)
    net.receiver(start=(0, 0))
    traffic, _ = net.plane.take_cache()
    assert (traffic.hits.bytes, traffic.hits.histogram().max_ms) == (20, 3000.0)
    track = net.plane._state.tracks[1]
    cache, group = net.plane._state.cache, track.groups[0]
    cache.missed(net.now, group, 5)  # it was evicted, perhaps
    cache.missed(net.now + 100, group, 7)
    cache.missed(net.now, track.group(9), 9)  # it never was here
    traffic, _ = net.plane.take_cache()
    assert (traffic.missed, traffic.late.bytes) == (21, 7)
    assert traffic.late.histogram().max_ms == 103_000.0


# Runs of cached objects.


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
            segment.append(0.0, run[:end], marks)


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
    segment.append_object(
        0.0, ObjectHeader(4, 3, 2, None, 3, ObjectStatus.NORMAL, b"\x02\x01"), b"abc"
    )
    segment.append_object(0.0, ObjectHeader(4, 8, 2, None, 0, ObjectStatus.END_OF_GROUP), b"")
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
    segment.append(0.0, data[-2:], [])
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


def test_bytes_by_age() -> None:
    ages = Ages()
    assert ages.histogram().max_ms is None
    for age, size in ((0.2, 10), (0.5, 5), (0.6, 7), (9999.0, 1), (-1.0, 2)):
        ages.add(age, size)
    histogram = ages.histogram()
    assert histogram.bounds_ms == AGE_BOUNDS_MS
    assert (histogram.counts[0], histogram.counts[1], histogram.counts[-1]) == (17, 7, 1)
    assert (ages.bytes, histogram.count, histogram.max_ms) == (25, 25, 9_999_000.0)
    assert histogram.sum_ms == 2000 + 2500 + 4200 + 9_999_000


def test_sums_begin_anew_when_they_are_taken() -> None:
    figures = CacheFigures()
    assert figures.take().is_idle
    figures.hit(1.0, 10)
    figures.missed(20)
    figures.missed(30, 90.0)
    figures.expired += 40
    figures.evicted += 50
    taken = figures.take()
    assert not taken.is_idle
    assert (taken.hits.bytes, taken.late.bytes, taken.missed) == (10, 30, 50)
    assert (taken.expired, taken.evicted) == (40, 50)
    assert figures.take().is_idle
