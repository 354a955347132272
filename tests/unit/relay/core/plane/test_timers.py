"""What has to be done later."""

from __future__ import annotations

from laps_relay.core.plane.timers import Timers


def test_calls_by_time() -> None:
    timers, calls = Timers(), list[tuple[str, float]]()
    assert timers.next() is None
    timers.at(5.0, lambda now: calls.append(("five", now)))
    timers.at(3.0, lambda now: calls.append(("three", now)))
    timers.at(3.0, lambda now: timers.at(now, lambda then: calls.append(("again", then))))
    assert timers.next() == 3.0
    timers.run(2.9)
    assert calls == []
    timers.run(4.0)
    assert calls == [("three", 4.0)]
    assert timers.next() == 4.0
    timers.run(6.0)
    assert calls == [("three", 4.0), ("again", 6.0), ("five", 6.0)]
    assert timers.next() is None
