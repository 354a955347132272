"""Answers of an upstream, passed on and kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchRange,
    SessionFault,
    Subscription,
    TrackMalformed,
    UpstreamEnded,
)
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    FetchHeader,
    FetchWriter,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    RangeEnd,
    RangeKind,
    StreamKind,
    encode_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, cut, subgroup

UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING
PAIRS = [(source, target) for source in (D16, D18) for target in (D16, D18)]
drafts = pytest.mark.parametrize(("source", "target"), PAIRS)
STREAM = 3
LAST = (1 << 62) - 1


def item(group: int, object_id: int, payload: bytes, **options: Any) -> MoqObject:
    values: dict[str, Any] = {"subgroup_id": 0, "priority": 100, "extensions": b"", **options}
    header = ObjectHeader(
        group,
        object_id,
        values["subgroup_id"],
        values["priority"],
        len(payload),
        ObjectStatus.NORMAL,
        values["extensions"],
    )
    return MoqObject(header, payload)


def answer(
    draft: Draft, items: list[MoqObject | RangeEnd], order: GroupOrder = UP, request: int = 8
) -> bytes:
    writer = FetchWriter(FetchHeader(request), draft, order)
    data = writer.start
    for each in items:
        data += writer.range_end(each) if isinstance(each, RangeEnd) else writer.object(*each)
    return data


class Relay(Net):
    """An upstream, a receiver, and a fetch that is passed on between them."""

    def __init__(
        self,
        source: Draft = D16,
        target: Draft = D16,
        *,
        start: tuple[int, int] = (0, 0),
        end: tuple[int, int] = (9, 9),
        order: GroupOrder = UP,
    ) -> None:
        super().__init__()
        self.upstream = self.publisher(source)
        self.target = self.session(target)
        self.key = Subscription(self.target, 6)
        self.wanted = FetchRange(track=1, start=Location(*start), end=Location(*end), order=order)
        self.plane.relay_fetch(self.upstream, 8, self.key, self.wanted)

    def arrive(self, data: bytes, places: list[int] | None = None, *, fin: bool = True) -> None:
        first, *rest = cut(data, places or [])
        self.plane.stream_opened(
            self.now, self.upstream, STREAM, StreamKind.FETCH, first, fin and not rest
        )
        for index, piece in enumerate(rest):
            self.more(self.upstream, STREAM, piece, fin=fin and index == len(rest) - 1)

    def covers(self, start: tuple[int, int], end: tuple[int, int]) -> bool:
        wanted = FetchRange(track=1, start=Location(*start), end=Location(*end))
        return self.plane.covers(self.now, wanted)


@drafts
@pytest.mark.parametrize("order", [UP, DOWN])
@given(places=st.lists(st.integers(1, 500), max_size=10))
def test_an_answer_is_passed_on(
    source: Draft, target: Draft, order: GroupOrder, places: list[int]
) -> None:
    net = Relay(source, target, order=order)
    pairs = [KeyValue(0x200, 99), KeyValue(0x301, b"raw")]
    items: list[MoqObject | RangeEnd] = [
        item(3, 0, b"a" * 90),
        item(3, 1, b"", extensions=encode_extensions(pairs, source)),
        RangeEnd(RangeKind.UNKNOWN, 3, 5),
        item(3, 7, b"c", subgroup_id=4, priority=1),
        item(3, 8, b"d", subgroup_id=None),
    ]
    other = 4 if order is UP else 2
    items += [item(other, 2, b"e" * 200)]
    net.arrive(answer(source, items, order), places)
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=True),
        UpstreamEnded(net.upstream, 8, complete=True),
    ]
    request, got = net.egress[net.target].fetched(order=order)
    assert request == 6
    assert got[0] == items[0]
    assert isinstance(got[1], MoqObject)
    assert got[1].header.extensions == encode_extensions(pairs, target)
    assert got[2:] == items[2:]
    # And all of it was kept.
    assert net.plane.track_counters(1).cached_objects == 5
    assert net.covers((3, 0), (3, 1))
    assert not net.covers((3, 0), (3, 3))
    assert net.covers((3, 6), (3, 8))
    late = net.session(target)
    net.plane.serve_fetch(net.now, Subscription(late, 0), net.wanted, partial=True)
    _, again = net.egress[late].fetched(order=order)
    objects = [each for each in got if isinstance(each, MoqObject)]
    assert [each for each in again if isinstance(each, MoqObject)] == objects


def test_bytes_go_on_as_they_arrive() -> None:
    net = Relay()
    data = answer(D16, [item(0, 0, b"x" * 1000)])
    net.arrive(data[:500], fin=False)
    (out,) = net.egress[net.target].streams
    assert len(out.data) == 500
    net.more(net.upstream, STREAM, data[500:])
    assert out.data == answer(D16, [item(0, 0, b"x" * 1000)], request=6)
    assert not out.fin


def test_what_is_left_out_does_not_exist() -> None:
    net = Relay(start=(1, 0), end=(9, LAST))
    net.plane._state.tracks[1].group(4)
    items: list[MoqObject | RangeEnd] = [
        item(1, 2, b"x"),
        item(4, 1, b"x"),
        RangeEnd(RangeKind.NON_EXISTENT, 4, 4),
        RangeEnd(RangeKind.UNKNOWN, 4, 6),
        item(4, 8, b"x"),
        item(4, 9, b"x"),
    ]
    net.arrive(answer(D16, items))
    track = net.plane._state.tracks[1]
    assert list(track.missing_groups) == [(2, 3)]
    assert list(track.groups[4].missing) == [(0, 0), (2, 4), (7, 7)]
    assert net.covers((2, 0), (3, LAST))
    assert net.covers((4, 0), (4, 4))
    assert not net.covers((4, 0), (4, 5))
    assert net.covers((4, 7), (4, 9))
    # It was an upstream's word, not the publisher's: the object may still come.
    net.send(net.upstream, subgroup(D16, {7: b"late"}, group=4, subgroup_id=7))
    assert net.plane.track_counters(1).objects_in == 1
    notices = net.plane.poll_notices()
    assert not any(isinstance(notice, TrackMalformed) for notice in notices)


def test_what_is_cached_is_not_cached_twice() -> None:
    net = Relay()
    stream = net.open(net.upstream, subgroup(D16, bodies(3)))
    data = answer(D16, [item(0, each, b"0-0-0-0-0-") for each in range(6)])
    net.arrive(data)
    # Objects behind the last one of the stream come by themselves.
    assert net.plane.track_counters(1).cached_objects == 3
    net.more(net.upstream, stream, b"", fin=True)


def test_segments_follow_priority_and_age() -> None:
    net = Relay()
    data = answer(D16, [item(0, 0, b"a", priority=1), item(0, 1, b"b", priority=2)])
    net.arrive(data, fin=False)
    assert len(net.plane._state.cache.order) == 2
    receiver = net.receiver(start=(0, 0))
    assert net.egress[receiver].objects() == {(0, 0): b"a", (0, 1): b"b"}
    net.now += 30
    rest = answer(
        D16,
        [item(0, 0, b"a", priority=1), item(0, 1, b"b", priority=2), item(0, 2, b"c", priority=2)],
    )
    net.more(net.upstream, STREAM, rest[len(data) :], fin=True)
    assert len(net.plane._state.cache.order) == 3


@drafts
def test_a_reset_is_mirrored(source: Draft, target: Draft) -> None:
    net = Relay(source, target)
    net.arrive(answer(source, [item(0, 0, b"x" * 10)])[:-3], fin=False)
    net.reset(net.upstream, STREAM, 2)
    assert net.egress[net.target].streams[0].reset_code == 2
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=False),
    ]
    assert net.plane.track_counters(1).cached_objects == 0


def test_a_broken_answer() -> None:
    net = Relay()
    net.arrive(answer(D16, [item(0, 0, b"x" * 10)])[:-3])
    notices = net.plane.poll_notices()
    assert isinstance(notices[0], SessionFault)
    assert notices[1:] == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=False),
    ]


def test_an_answer_that_makes_the_track_malformed() -> None:
    net = Relay()
    net.send(net.upstream, subgroup(D16, bodies(1), end_of_group=True))
    net.arrive(answer(D16, [item(0, 0, b"0-0-0-0-0-"), item(0, 5, b"no")]))
    assert isinstance(net.plane.poll_notices()[0], TrackMalformed)
    assert net.egress[net.target].streams[0].reset_code == 0x12


def test_a_header_in_pieces_and_a_header_alone() -> None:
    net = Relay()
    net.arrive(answer(D16, []), [1])
    assert net.plane.poll_notices()[0] == FetchEnded(net.key, complete=True)
    other = Relay()
    other.arrive(b"\x05")
    (fault,) = other.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    third = Relay()
    third.arrive(b"\x05", fin=False)
    third.reset(third.upstream, STREAM)
    assert third.plane.poll_notices() == []


def test_an_answer_that_nobody_waits_for() -> None:
    net = Relay()
    net.arrive(answer(D16, [], request=99), fin=False)
    assert net.egress[net.upstream].stopped == [(STREAM, 1)]
    assert net.plane.poll_notices() == []


def test_a_receiver_that_gives_up_does_not_end_the_caching() -> None:
    net = Relay()
    data = answer(D16, [item(0, each, b"x" * 20) for each in range(4)])
    net.arrive(data[:30], fin=False)
    net.drop(net.target, lost=0, stopped=True)
    assert net.plane.poll_notices() == [FetchEnded(net.key, complete=False)]
    net.more(net.upstream, STREAM, data[30:], fin=True)
    assert net.plane.poll_notices() == [UpstreamEnded(net.upstream, 8, complete=True)]
    assert net.plane.track_counters(1).cached_objects == 4


def test_ids_that_the_draft_has_no_integers_for() -> None:
    net = Relay(D18, D16, end=(1 << 63, 0))
    items: list[MoqObject | RangeEnd] = [item(1 << 63, 0, b"x"), item(1 << 63, 1, b"y")]
    net.arrive(answer(D18, items))
    assert net.egress[net.target].streams[0].reset_code == 0
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=True),
    ]
    assert net.plane.track_counters(1).cached_objects == 2
    broken = Relay(D18, D16, end=(1 << 63, 0))
    ranges: list[MoqObject | RangeEnd] = [RangeEnd(RangeKind.UNKNOWN, 1 << 63, 0)]
    broken.arrive(answer(D18, ranges))
    assert broken.egress[broken.target].streams[0].reset_code == 0


def test_extensions_that_cannot_be_read() -> None:
    net = Relay()
    net.arrive(answer(D16, [item(0, 0, b"x", extensions=b"\x03\x05")]))
    assert isinstance(net.plane.poll_notices()[0], SessionFault)
    assert net.plane.track_counters(1).cached_objects == 0
