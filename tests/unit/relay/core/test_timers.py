"""Timers by key."""

from __future__ import annotations

from laps_relay.core.timers import Timers


def test_the_earliest_is_due_first() -> None:
    timers: Timers[str] = Timers()
    assert timers.next() is None
    assert timers.pop(100.0) is None
    timers.set("b", 2.0)
    timers.set("a", 1.0)
    timers.set("c", 2.0)
    assert timers.next() == 1.0
    assert timers.pop(0.5) is None
    assert [timers.pop(2.0) for _ in range(4)] == ["a", "b", "c", None]
    assert len(timers) == 0


def test_setting_again_moves_and_cancelling_forgets() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1.0)
    timers.set("a", 3.0)
    timers.set("b", 2.0)
    timers.cancel("b")
    timers.cancel("never set")
    assert timers.when("a") == 3.0
    assert timers.when("b") is None
    assert timers.pop(2.5) is None
    assert timers.pop(3.0) == "a"
    assert timers.next() is None


def test_moved_timers_leave_nothing_behind() -> None:
    timers: Timers[str] = Timers()
    for at in range(10_000):
        timers.set("a", float(at))
    assert len(timers._heap) < 100
    assert timers.next() == 9999.0
