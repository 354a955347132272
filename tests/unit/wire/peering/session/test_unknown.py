"""Data before its set: time, bytes, order, and a count for everything that is dropped."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laps_wire.peering.session.unknown import HELD_ITEM_COST, Drop, Dropped, UnknownBuffer


def buffer(items: int = 3, *, seconds: float = 1.0, size: int = 100) -> UnknownBuffer[str]:
    """A buffer with room for ``items`` items of ``size`` bytes."""
    return UnknownBuffer(seconds=seconds, max_bytes=items * (size + HELD_ITEM_COST))


def test_released_in_order_of_arrival_and_only_once() -> None:
    held = buffer()
    assert held.hold(0.0, 7, "a", 100) == ()
    assert held.hold(0.1, 8, "other", 100) == ()
    assert held.hold(0.2, 7, "b", 100) == ()
    assert held.ids == {7, 8}
    assert held.release(7) == ("a", "b")
    assert held.release(7) == ()
    assert held.ids == {8}
    assert held.used_bytes == 100 + HELD_ITEM_COST
    assert not held.dropped


def test_dropped_when_time_is_over_and_not_before() -> None:
    held = buffer(seconds=2.0)
    held.hold(10.0, 7, "a", 5)
    held.hold(11.0, 8, "b", 6)
    assert held.deadline == 12.0
    assert held.expire(11.999) == ()
    assert held.expire(12.0) == (Dropped(7, "a", Drop.TIME),)
    assert held.deadline == 13.0
    assert held.ids == {8}
    assert held.expire(13.0) == (Dropped(8, "b", Drop.TIME),)
    assert held.dropped == {Drop.TIME: 2}
    assert held.dropped_bytes == {Drop.TIME: 11}
    assert held.used_bytes == 0


def test_an_empty_buffer_has_no_deadline() -> None:
    assert buffer().deadline is None


def test_oldest_leaves_first_when_room_runs_out() -> None:
    held = buffer(3)
    for index, name in enumerate("abc"):
        assert held.hold(0.0, index + 1, name, 100) == ()
    assert held.hold(0.0, 1, "d", 100) == (Dropped(1, "a", Drop.SPACE),)
    # One large item needs the room of two.
    assert held.hold(0.0, 9, "e", 100 + HELD_ITEM_COST + 100) == (
        Dropped(2, "b", Drop.SPACE),
        Dropped(3, "c", Drop.SPACE),
    )
    assert held.release(1) == ("d",)
    assert held.release(9) == ("e",)
    assert held.dropped == {Drop.SPACE: 3}
    assert held.dropped_bytes == {Drop.SPACE: 300}


def test_an_item_larger_than_the_buffer_drives_nothing_else_out() -> None:
    held = buffer(1)
    held.hold(0.0, 1, "a", 100)
    assert held.hold(0.0, 2, "huge", 101) == (Dropped(2, "huge", Drop.SPACE),)
    assert held.release(1) == ("a",)


def test_what_is_due_leaves_before_anything_is_driven_out() -> None:
    held = buffer(2, seconds=1.0)
    held.hold(0.0, 1, "a", 100)
    held.hold(0.5, 2, "b", 100)
    assert held.hold(1.2, 3, "c", 100) == (Dropped(1, "a", Drop.TIME),)
    assert held.ids == {2, 3}


def test_empty_items_take_room_too() -> None:
    held: UnknownBuffer[int] = UnknownBuffer(seconds=1.0, max_bytes=10 * HELD_ITEM_COST)
    for number in range(25):
        held.hold(0.0, 1, number, 0)
    assert len(held) == 10
    assert held.dropped == {Drop.SPACE: 15}


@pytest.mark.parametrize("reason", [Drop.GONE, Drop.TIME])
def test_discard_drops_one_set_with_its_reason(reason: Drop) -> None:
    held = buffer()
    held.hold(0.0, 1, "a", 3)
    held.hold(0.0, 2, "b", 4)
    assert held.discard(1, reason) == (Dropped(1, "a", reason),)
    assert held.discard(1) == ()
    assert held.dropped == {reason: 1}
    assert held.release(2) == ("b",)


def test_refused_items_are_counted_though_they_never_waited() -> None:
    held = buffer()
    assert held.refuse(4, "late", 50) == Dropped(4, "late", Drop.GONE)
    assert held.dropped_bytes == {Drop.GONE: 50}
    assert len(held) == 0


def test_clear_gives_everything_back() -> None:
    held = buffer()
    held.hold(0.0, 1, "a", 1)
    held.hold(0.0, 2, "b", 1)
    assert held.clear() == (Dropped(1, "a", Drop.CLOSED), Dropped(2, "b", Drop.CLOSED))
    assert (len(held), held.used_bytes, held.ids, held.deadline) == (0, 0, frozenset(), None)
    assert held.clear() == ()


class BufferMachine(RuleBasedStateMachine):
    """Against a plain list of (id, item, size, arrival) that is searched from the front."""

    def __init__(self) -> None:
        super().__init__()
        self.real: UnknownBuffer[int] = UnknownBuffer(seconds=3.0, max_bytes=600)
        self.model: list[tuple[int, int, int, float]] = []
        self.counts: Counter[Drop] = Counter()
        self.now = 0.0
        self.number = 0

    def leave(self, gone: list[tuple[int, int, int, float]], reason: Drop) -> list[Dropped[int]]:
        self.model = [each for each in self.model if each not in gone]
        self.counts[reason] += len(gone)
        return [Dropped(sns_id, item, reason) for sns_id, item, _, _ in gone]

    def due(self) -> list[Dropped[int]]:
        return self.leave([each for each in self.model if each[3] + 3.0 <= self.now], Drop.TIME)

    @rule(sns_id=st.integers(1, 5), size=st.integers(0, 700))
    def hold(self, sns_id: int, size: int) -> None:
        expected = self.due()
        self.number += 1
        entry = (sns_id, self.number, size, self.now)
        if size + HELD_ITEM_COST > 600:
            expected += self.leave([entry], Drop.SPACE)
        else:
            self.model.append(entry)
            while sum(each[2] + HELD_ITEM_COST for each in self.model) > 600:
                expected += self.leave(self.model[:1], Drop.SPACE)
        assert list(self.real.hold(self.now, sns_id, self.number, size)) == expected

    @rule(sns_id=st.integers(1, 5))
    def release(self, sns_id: int) -> None:
        expected = [each for each in self.model if each[0] == sns_id]
        self.model = [each for each in self.model if each[0] != sns_id]
        assert list(self.real.release(sns_id)) == [item for _, item, _, _ in expected]

    @rule(sns_id=st.integers(1, 5))
    def discard(self, sns_id: int) -> None:
        gone = [each for each in self.model if each[0] == sns_id]
        assert list(self.real.discard(sns_id)) == self.leave(gone, Drop.GONE)

    @rule(step=st.floats(0, 4))
    def time(self, step: float) -> None:
        self.now += step
        assert list(self.real.expire(self.now)) == self.due()

    @precondition(lambda self: self.model)
    @rule()
    def until_the_deadline(self) -> None:
        deadline = self.real.deadline
        assert deadline is not None
        self.now = max(self.now, deadline)
        dropped = list(self.real.expire(self.now))
        assert dropped
        assert dropped == self.due()

    @invariant()
    def agrees(self) -> None:
        assert len(self.real) == len(self.model)
        assert self.real.ids == {each[0] for each in self.model}
        assert self.real.used_bytes == sum(each[2] + HELD_ITEM_COST for each in self.model) <= 600
        assert self.real.dropped == self.counts


TestBufferMachine = BufferMachine.TestCase
