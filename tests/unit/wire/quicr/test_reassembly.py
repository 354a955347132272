"""Reassembly: any split, order and repetition; every kind of drop; memory; a naive model."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laps_wire.errors import LocalError
from laps_wire.quicr.fragments import (
    OBJECT_COST,
    PIECE_COST,
    Drop,
    NumberedPieces,
    OffsetPieces,
    Reassembler,
    ReassemblyLimits,
    pack_fragment_id,
    pack_offset_and_fin,
    split_numbered,
    split_offsets,
)

BOTH = pytest.mark.parametrize("pieces", [OffsetPieces, NumberedPieces])
Pieces = type[OffsetPieces] | type[NumberedPieces]


def offsets(**limits: Any) -> Reassembler[Any]:
    return Reassembler(OffsetPieces, ReassemblyLimits(**limits))


def numbered(**limits: Any) -> Reassembler[Any]:
    return Reassembler(NumberedPieces, ReassemblyLimits(**limits))


def at(offset: int, *, last: bool = False) -> int:
    return pack_offset_and_fin(offset, last)


def nr(number: int, *, last: bool = False) -> int:
    return pack_fragment_id(number, last)


def dropped(reassembler: Reassembler[Any]) -> dict[str, int]:
    return {drop.name: count for drop, count in reassembler.drops.items() if count}


def test_the_default_limits() -> None:
    limits = ReassemblyLimits()
    assert (limits.max_object, limits.max_pieces, limits.max_total) == (4194304, 32767, 67108864)
    assert (limits.max_age, limits.remember_time, limits.remember_count) == (5.0, 120.0, 4096)
    # What real tables cost is measured below; these prices must stay above it.
    assert (OBJECT_COST, PIECE_COST) == (768, 160)


# Any split, any order, any repetition


@st.composite
def cuts(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, bytes]]]:
    """An object and fragments that cover it, overlapping freely, shuffled and repeated."""
    data = draw(st.binary(max_size=40))
    size = len(data)
    edges = sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=6))})
    spans = list(pairwise(edges)) or [(0, 0)]
    # Each span may grow over its neighbours; some come twice.
    grown = [
        (max(0, start - draw(st.integers(0, 4))), min(size, stop + draw(st.integers(0, 4))))
        for start, stop in spans
    ]
    extra = draw(st.lists(st.sampled_from(grown), max_size=5))
    ends = draw(st.booleans())
    fragments = [
        # One fragment that reaches the end may keep quiet about it, if another says so.
        (at(start, last=stop == size and not (ends and start < size)), data[start:stop])
        for start, stop in [*grown, *extra]
    ]
    if ends:
        fragments.append((at(size, last=True), b""))
    return data, draw(st.permutations(fragments))


@given(cuts())
def test_any_split_any_order_any_repetition_by_offset(
    case: tuple[bytes, list[tuple[int, bytes]]],
) -> None:
    data, fragments = case
    reassembler = offsets()
    got = [reassembler.add(0.0, "k", place, part) for place, part in fragments]
    assert [whole for whole in got if whole is not None] == [data]
    assert reassembler.completed == 1
    assert reassembler.memory == reassembler.incomplete == 0
    assert set(dropped(reassembler)) <= {"DUPLICATE", "LATE", "EMPTY"}


@BOTH
@given(data=st.data())
def test_any_payload_size_any_order_any_repetition(pieces: Pieces, data: st.DataObject) -> None:
    split = split_offsets if pieces is OffsetPieces else split_numbered
    objects = data.draw(st.lists(st.binary(max_size=30), max_size=4))
    sent = []
    for key, whole in enumerate(objects):
        parts = list(split(whole, data.draw(st.integers(1, 31))))
        again = data.draw(st.lists(st.sampled_from(parts), max_size=4))
        sent += [(key, part.place, part.data) for part in [*parts, *again]]
    reassembler: Reassembler[int] = Reassembler(pieces)
    got = []
    for key, place, part in data.draw(st.permutations(sent)):
        whole_or_none = reassembler.add(0.0, key, place, part)
        if whole_or_none is not None:
            got.append((key, whole_or_none))
    assert sorted(got) == list(enumerate(objects))
    assert reassembler.memory == 0
    assert sum(reassembler.drops.values()) == (
        reassembler.drops[Drop.DUPLICATE] + reassembler.drops[Drop.LATE]
    )


def test_in_order_and_out_of_order() -> None:
    reassembler = offsets()
    assert reassembler.add(0.0, "a", at(0), b"abc") is None
    assert reassembler.add(0.0, "a", at(3, last=True), b"de") == b"abcde"
    assert reassembler.add(0.0, "b", at(3, last=True), b"de") is None
    assert reassembler.add(0.0, "b", at(0), b"abc") == b"abcde"
    reassembler = numbered()
    assert reassembler.add(0.0, "a", nr(2, last=True), b"de") is None
    assert reassembler.add(0.0, "a", nr(1), b"abc") == b"abcde"


def test_a_whole_object_in_one_fragment_passes_straight_through() -> None:
    for reassembler, place in (
        (offsets(max_total=0), at(0, last=True)),
        (numbered(), nr(1, last=True)),
    ):
        assert reassembler.add(0.0, "k", place, b"all") == b"all"
        assert reassembler.add(0.0, "k", place, b"all") is None
        assert reassembler.add(0.0, "e", place, b"") == b""
        assert dropped(reassembler) == {"LATE": 1}


def test_the_kept_bytes_are_copies() -> None:
    buffer = bytearray(b"abc")
    reassembler = offsets()
    reassembler.add(0.0, "k", at(0), memoryview(buffer))
    buffer[:] = b"XYZ"
    assert reassembler.add(0.0, "k", at(3, last=True), b"") == b"abc"


# Overlap


@pytest.mark.parametrize(
    ("start", "part", "kept"),
    [
        (0, b"0123456789", 3),  # around both: before, between, behind
        (1, b"12345678", 3),
        (2, b"234567", 1),  # exactly both and the gap
        (3, b"3456", 1),  # from inside one to inside the other
        (4, b"45", 1),  # exactly the gap
        (0, b"012", 1),
        (7, b"789", 1),
        (2, b"23", 0),
        (3, b"3", 0),
        (6, b"67", 0),
    ],
)
def test_of_an_overlap_only_the_new_parts_are_kept(start: int, part: bytes, kept: int) -> None:
    reassembler = offsets()
    reassembler.add(0.0, "k", at(2), b"23")
    reassembler.add(0.0, "k", at(6), b"67")
    before = reassembler.memory
    assert reassembler.add(0.0, "k", at(start), part) is None
    new = set(range(start, start + len(part))) - {2, 3, 6, 7}
    assert reassembler.memory - before == PIECE_COST * kept + len(new)
    assert dropped(reassembler) == ({} if new else {"DUPLICATE": 1})
    # Whatever came, the rest completes it.
    assert reassembler.add(0.0, "k", at(0, last=True), b"0123456789") == b"0123456789"


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (2, b"2x"),
        (2, b"x3"),
        (0, b"01x"),
        (3, b"x45"),
        (0, b"0123456x89"),
        (7, b"x"),
    ],
)
def test_different_bytes_for_the_same_place_end_the_object(start: int, part: bytes) -> None:
    reassembler = offsets()
    reassembler.add(0.0, "k", at(2), b"23")
    reassembler.add(0.0, "k", at(6), b"67")
    assert reassembler.add(0.0, "k", at(start), part) is None
    assert dropped(reassembler) == {"CONFLICT": 1}
    assert reassembler.memory == reassembler.incomplete == 0
    assert reassembler.add(0.0, "k", at(0, last=True), b"0123456789") is None
    assert dropped(reassembler) == {"CONFLICT": 1, "LATE": 1}


# The other faults: (fragments that are fine, the one that is not, the kind)


def check_fault(
    reassembler: Reassembler[Any],
    fine: list[tuple[int, bytes]],
    bad: tuple[int, bytes],
    kind: str,
) -> None:
    """What is fine is kept; what is bad ends the object, and nothing of it stays."""
    for place, part in fine:
        assert reassembler.add(0.0, "k", place, part) is None
    assert not dropped(reassembler)
    assert reassembler.add(0.0, "k", *bad) is None
    assert dropped(reassembler) == {kind: 1}
    assert reassembler.memory == reassembler.incomplete == 0


@pytest.mark.parametrize(
    ("fine", "bad", "kind"),
    [
        ([(at(8, last=True), b"89")], (at(8, last=True), b"8"), "TWO_ENDS"),
        ([(at(8, last=True), b"89")], (at(12, last=True), b""), "TWO_ENDS"),
        ([(at(8, last=True), b"89")], (at(9), b"9a"), "BEYOND_END"),
        ([(at(8, last=True), b"89")], (at(10), b"a"), "BEYOND_END"),
        ([(at(8), b"89")], (at(5, last=True), b"5678"), "BEYOND_END"),
        ([(at(8), b"89")], (at(0, last=True), b""), "BEYOND_END"),
        ([(at(0), b"0")], (at(15), b"xx"), "OVERSIZE"),
        ([], (at(16), b"x"), "OVERSIZE"),
        ([], (at(17, last=True), b""), "OVERSIZE"),
        ([(at(0), b"0"), (at(2), b"2"), (at(4), b"4")], (at(6), b"6"), "TOO_MANY"),
        ([(at(1), b"1"), (at(3), b"3")], (at(0), b"01234"), "TOO_MANY"),
    ],
)
def test_faults_by_offset(fine: list[tuple[int, bytes]], bad: tuple[int, bytes], kind: str) -> None:
    reassembler = offsets(max_object=16, max_pieces=3)
    check_fault(reassembler, fine, bad, kind)
    assert reassembler.add(0.0, "k", at(0, last=True), b"") is None
    assert reassembler.drops[Drop.LATE] == 1


@pytest.mark.parametrize(
    ("fine", "bad", "kind"),
    [
        ([(nr(2), b"b")], (nr(2), b"x"), "CONFLICT"),
        ([(nr(2), b"b")], (nr(2), b""), "CONFLICT"),
        ([(nr(2), b"b")], (nr(2, last=True), b"b"), "TWO_ENDS"),
        ([(nr(2, last=True), b"b")], (nr(2), b"b"), "TWO_ENDS"),
        ([(nr(2, last=True), b"b")], (nr(1, last=True), b"a"), "TWO_ENDS"),
        ([(nr(2, last=True), b"b")], (nr(3, last=True), b"a"), "TWO_ENDS"),
        ([(nr(2, last=True), b"b")], (nr(3), b"c"), "BEYOND_END"),
        ([(nr(3), b"c")], (nr(2, last=True), b"b"), "BEYOND_END"),
        ([(nr(3), b"c"), (nr(1), b"a")], (nr(2, last=True), b"b"), "BEYOND_END"),
        ([(nr(1), b"a" * 10)], (nr(2), b"b" * 7), "OVERSIZE"),
        ([], (nr(1, last=True), b"b" * 17), "OVERSIZE"),
        ([], (nr(5), b""), "TOO_MANY"),
    ],
)
def test_faults_by_number(fine: list[tuple[int, bytes]], bad: tuple[int, bytes], kind: str) -> None:
    reassembler = numbered(max_object=16, max_pieces=4)
    check_fault(reassembler, fine, bad, kind)
    assert reassembler.add(0.0, "k", nr(1), b"") is None
    assert reassembler.drops[Drop.LATE] == 1


def test_at_the_limits_all_is_well() -> None:
    reassembler = offsets(max_object=16, max_pieces=3)
    for place in (0, 2, 4):
        reassembler.add(0.0, "k", at(place), b"x")
    assert reassembler.add(0.0, "l", at(0, last=True), bytes(16)) == bytes(16)
    reassembler = numbered(max_object=16, max_pieces=4)
    assert reassembler.add(0.0, "k", nr(4, last=True), bytes(16)) is None
    assert reassembler.add(0.0, "k", nr(1), b"") is None
    assert reassembler.add(0.0, "k", nr(2), b"") is None
    assert reassembler.add(0.0, "k", nr(3), b"") == bytes(16)
    assert not dropped(reassembler)


def test_an_end_may_come_by_itself_and_a_part_may_keep_quiet_about_it() -> None:
    reassembler = offsets()
    reassembler.add(0.0, "k", at(0), b"abc")
    assert reassembler.add(0.0, "k", at(3, last=True), b"") == b"abc"
    reassembler.add(0.0, "l", at(3, last=True), b"")
    assert reassembler.add(0.0, "l", at(0), b"abc") == b"abc"
    reassembler.add(0.0, "m", at(3, last=True), b"")
    reassembler.add(0.0, "m", at(3, last=True), b"")
    assert dropped(reassembler) == {"DUPLICATE": 1}


def test_a_part_without_bytes_places_nothing() -> None:
    reassembler = offsets()
    assert reassembler.add(0.0, "k", at(5), b"") is None
    assert reassembler.incomplete == reassembler.memory == 0
    assert dropped(reassembler) == {"EMPTY": 1}


def test_a_place_before_the_first_is_our_own_fault() -> None:
    with pytest.raises(LocalError, match="-1 is no fragment's place; the first is 0"):
        offsets().add(0.0, "k", -1, b"")
    with pytest.raises(LocalError, match="0 is no fragment's place; the first is 1"):
        numbered().add(0.0, "k", 1, b"")


# Memory


@BOTH
def test_the_oldest_incomplete_object_goes_first(pieces: Pieces) -> None:
    one = OBJECT_COST + PIECE_COST + 10
    place = at(0) if pieces is OffsetPieces else nr(1)
    end = at(10, last=True) if pieces is OffsetPieces else nr(2, last=True)
    reassembler: Reassembler[str] = Reassembler(pieces, ReassemblyLimits(max_total=3 * one))
    for key in "abc":
        reassembler.add(0.0, key, place, bytes(10))
    assert reassembler.memory == 3 * one
    assert not dropped(reassembler)
    # Growth of a younger one costs the oldest its place, and age is that of the first fragment.
    reassembler.add(0.0, "a", place, bytes(10))
    reassembler.add(0.0, "d", place, bytes(10))
    assert dropped(reassembler) == {"DUPLICATE": 1, "EVICTED": 1}
    assert reassembler.memory == 3 * one
    assert [reassembler.add(0.0, key, end, b"") for key in "abcd"] == [
        None,
        bytes(10),
        bytes(10),
        bytes(10),
    ]
    assert reassembler.drops[Drop.LATE] == 1


def test_an_object_that_alone_is_over_the_cap_goes_too() -> None:
    reassembler = offsets(max_total=OBJECT_COST + PIECE_COST + 9)
    assert reassembler.add(0.0, "k", at(0), bytes(10)) is None
    assert reassembler.memory == reassembler.incomplete == 0
    assert dropped(reassembler) == {"EVICTED": 1}


def test_the_last_missing_part_evicts_nobody() -> None:
    reassembler = offsets(max_total=2 * (OBJECT_COST + PIECE_COST + 10))
    reassembler.add(0.0, "a", at(0), bytes(10))
    reassembler.add(0.0, "b", at(0), bytes(10))
    assert reassembler.add(0.0, "b", at(10, last=True), bytes(1000)) == bytes(1010)
    assert reassembler.incomplete == 1
    assert not dropped(reassembler)


@BOTH
def test_what_is_counted_is_more_than_what_is_used(pieces: Pieces) -> None:
    limits = ReassemblyLimits(max_total=400_000, remember_count=0)
    # One-byte pieces of one object, then one-byte objects: the worst there is for each byte sent.
    for many_objects in (False, True):
        tracemalloc.start()
        try:
            reassembler: Reassembler[tuple[int, int, int]] = Reassembler(pieces, limits)
            for index in range(1, 2000):
                key = (1000, 1000, 1000 + index * many_objects)
                place = at(2 * index) if pieces is OffsetPieces else nr(index)
                reassembler.add(float(index) / 1000, key, place, bytes([index % 256]))
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert 300_000 < reassembler.memory <= limits.max_total
        assert used < reassembler.memory


# Time


def test_what_stays_incomplete_expires() -> None:
    reassembler = offsets(max_age=5.0)
    assert reassembler.poll_timeout() is None
    reassembler.add(1.0, "a", at(0), b"a")
    reassembler.add(2.0, "b", at(0), b"b")
    reassembler.add(4.0, "a", at(1), b"a")
    assert reassembler.poll_timeout() == 6.0
    reassembler.expire(5.9)
    assert reassembler.incomplete == 2
    reassembler.expire(6.0)
    assert reassembler.poll_timeout() == 7.0
    assert dropped(reassembler) == {"EXPIRED": 1}
    # A fragment that comes too late does not complete anything: add() looks at the time first.
    assert reassembler.add(7.0, "b", at(1, last=True), b"") is None
    assert dropped(reassembler) == {"EXPIRED": 2, "LATE": 1}
    assert reassembler.memory == reassembler.incomplete == 0


def test_finished_objects_are_remembered_for_a_while() -> None:
    reassembler = offsets(remember_time=10.0, remember_count=100)
    whole = (at(0, last=True), b"x")
    assert reassembler.add(0.0, "a", *whole) == b"x"
    assert reassembler.add(9.9, "a", *whole) is None
    assert reassembler.add(10.0, "a", *whole) == b"x"
    assert dropped(reassembler) == {"LATE": 1}


def test_only_so_many_are_remembered() -> None:
    reassembler = offsets(remember_count=2)
    whole = (at(0, last=True), b"x")
    for key in "abc":
        assert reassembler.add(0.0, key, *whole) == b"x"
    assert [reassembler.add(0.0, key, *whole) for key in "bc"] == [None, None]
    assert reassembler.add(0.0, "a", *whole) == b"x"


def test_forgetting_gives_a_new_chance() -> None:
    reassembler = offsets()
    whole = (at(0, last=True), b"x")
    assert reassembler.add(0.0, "a", *whole) == b"x"
    reassembler.forget("a")
    assert reassembler.add(0.0, "a", *whole) == b"x"
    reassembler.add(0.0, "b", at(0), b"half")
    reassembler.forget("b")
    reassembler.forget("never seen")
    assert reassembler.memory == reassembler.incomplete == 0
    assert not dropped(reassembler)
    assert reassembler.add(0.0, "b", *whole) == b"x"


# A naive model: every byte in a dictionary, every rule spelled out


LIMITS = ReassemblyLimits(
    max_object=12,
    max_pieces=4,
    max_total=3 * OBJECT_COST + 6 * PIECE_COST + 20,
    max_age=5.0,
    remember_time=8.0,
    remember_count=3,
)


@dataclass
class Naive:
    """One object of the model: its bytes by offset."""

    born: float
    octets: dict[int, int] = field(default_factory=dict)
    runs: int = 0
    end: int | None = None

    @property
    def cost(self) -> int:
        return OBJECT_COST + PIECE_COST * self.runs + len(self.octets)


class ReassemblyMachine(RuleBasedStateMachine):
    """Random fragments of a few keys, right and wrong ones, against the model."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.real: Reassembler[int] = Reassembler(OffsetPieces, LIMITS)
        self.open: dict[int, Naive] = {}
        self.done: list[tuple[int, float]] = []
        self.drops = dict.fromkeys(Drop, 0)
        self.completed = 0

    def finish(self, key: int) -> None:
        self.open.pop(key, None)
        self.done.append((key, self.now))
        self.done = self.done[-LIMITS.remember_count :]

    def lose(self, key: int, drop: Drop) -> None:
        self.drops[drop] += 1
        self.finish(key)

    def tidy(self) -> None:
        for key, naive in list(self.open.items()):
            if naive.born + LIMITS.max_age <= self.now:
                self.lose(key, Drop.EXPIRED)
        self.done = [(k, t) for k, t in self.done if self.now < t + LIMITS.remember_time]

    def fault(self, naive: Naive, start: int, data: bytes, last: bool) -> Drop | None:
        stop = start + len(data)
        span = range(start, stop)
        new = [offset for offset in span if offset not in naive.octets]
        runs = sum(offset - 1 not in new for offset in new)
        if not data and not last:
            return Drop.EMPTY
        if stop > LIMITS.max_object:
            return Drop.OVERSIZE
        if last and naive.end is not None and naive.end != stop:
            return Drop.TWO_ENDS
        if last and naive.octets and max(naive.octets) >= stop:
            return Drop.BEYOND_END
        if not last and naive.end is not None and stop > naive.end:
            return Drop.BEYOND_END
        if any(
            naive.octets.get(offset, data[offset - start]) != data[offset - start]
            for offset in span
        ):
            return Drop.CONFLICT
        if not new and not (last and naive.end is None):
            return Drop.DUPLICATE
        if naive.runs + runs > LIMITS.max_pieces:
            return Drop.TOO_MANY
        naive.runs += runs
        naive.octets.update({offset: data[offset - start] for offset in new})
        naive.end = stop if last else naive.end
        return None

    def model(self, key: int, start: int, data: bytes, last: bool) -> bytes | None:
        self.tidy()
        if key in [k for k, _ in self.done]:
            self.drops[Drop.LATE] += 1
            return None
        naive = self.open.get(key, Naive(self.now))
        drop = self.fault(naive, start, data, last)
        if drop in (Drop.EMPTY, Drop.DUPLICATE):
            self.drops[drop] += 1
            return None
        if drop is not None:
            self.lose(key, drop)
            return None
        if len(naive.octets) == naive.end:
            self.finish(key)
            self.completed += 1
            return bytes(naive.octets[offset] for offset in range(naive.end))
        self.open[key] = naive
        while sum(one.cost for one in self.open.values()) > LIMITS.max_total:
            self.lose(min(self.open, key=lambda k: self.open[k].born), Drop.EVICTED)
        return None

    @rule(
        key=st.integers(0, 5),
        start=st.integers(0, 13),
        size=st.integers(0, 6),
        last=st.booleans(),
        flaw=st.sampled_from([0, 0, 0, 0, 0, 1]),
    )
    def fragment(self, key: int, start: int, size: int, last: bool, flaw: int) -> None:
        # The bytes follow from the place, so that most overlaps agree.
        data = bytes((17 * offset + key + flaw) % 256 for offset in range(start, start + size))
        self.now += 0.001  # so that no two are of the same age
        expected = self.model(key, start, data, last)
        assert self.real.add(self.now, key, at(start, last=last), data) == expected

    @rule(key=st.integers(0, 5), cut=st.integers(1, 11))
    def whole_object_in_two_parts(self, key: int, cut: int) -> None:
        for start, stop in ((cut, 12), (0, cut)):
            data = bytes((17 * offset + key) % 256 for offset in range(start, stop))
            self.now += 0.001
            expected = self.model(key, start, data, stop == 12)
            assert self.real.add(self.now, key, at(start, last=stop == 12), data) == expected

    @rule(seconds=st.floats(0.0, 6.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tidy()
        self.real.expire(self.now)

    @precondition(lambda self: bool(self.open or self.done))
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted({*self.open, *(key for key, _ in self.done)})))
        self.open.pop(key, None)
        self.done = [(k, t) for k, t in self.done if k != key]
        self.real.forget(key)

    @invariant()
    def the_same_state(self) -> None:
        assert self.real.drops == self.drops
        assert self.real.completed == self.completed
        assert self.real.incomplete == len(self.open)
        assert self.real.memory == sum(naive.cost for naive in self.open.values())

    @invariant()
    def memory_stays_under_the_cap(self) -> None:
        assert 0 <= self.real.memory <= LIMITS.max_total

    @invariant()
    def the_timeout_is_that_of_the_oldest(self) -> None:
        births = [naive.born for naive in self.open.values()]
        assert self.real.poll_timeout() == (min(births) + LIMITS.max_age if births else None)


TestReassemblyAgainstTheModel = ReassemblyMachine.TestCase
TestReassemblyAgainstTheModel.settings = settings(stateful_step_count=40)


@BOTH
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(2, 20), st.binary(max_size=6)), max_size=40),
    st.integers(0, 4000),
)
def test_total_memory_never_passes_the_cap(
    pieces: Pieces, fragments: list[tuple[int, int, bytes]], cap: int
) -> None:
    reassembler: Reassembler[int] = Reassembler(pieces, ReassemblyLimits(max_total=cap))
    for key, place, part in fragments:
        reassembler.add(0.0, key, place, part)
        assert 0 <= reassembler.memory <= cap
        assert (reassembler.memory == 0) == (reassembler.incomplete == 0)
