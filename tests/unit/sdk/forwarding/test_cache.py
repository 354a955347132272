"""What is kept and what goes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.cache import SEGMENT_BYTES, Cache, Segment
from laps_sdk.forwarding.interfaces import CacheLimits, PlaneLimits
from laps_sdk.forwarding.track import Group, Track
from laps_wire.moqt.data import ObjectHeader, SubgroupHeader
from testkit.plane import D16, NAME, Net, bodies, subgroup


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
        segment.append_object(ObjectHeader(group_id, object_id, 0, None, size), bytes(size))
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
