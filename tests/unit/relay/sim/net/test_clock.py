from __future__ import annotations

from laps_relay.sim.net.clock import Clock, Rng


def test_events_happen_by_time_and_then_in_the_order_of_planning() -> None:
    clock = Clock()
    seen: list[str] = []
    clock.at(2.0, seen.append, "c")
    clock.at(1.0, seen.append, "a")
    clock.at(1.0, seen.append, "b")
    clock.run(1.5)
    assert seen == ["a", "b"]
    assert clock.now == 1.5
    clock.run(2.0)
    assert seen == ["a", "b", "c"]
    assert clock.events == 3


def test_an_event_may_plan_others_and_the_past_is_now() -> None:
    clock = Clock()
    seen: list[str] = []

    def first() -> None:
        clock.after(0.0, seen.append, "then")
        clock.at(-5.0, seen.append, "late")

    clock.at(1.0, first)
    clock.run(1.0)
    assert seen == ["then", "late"]


def test_an_event_can_be_taken_back() -> None:
    clock = Clock()
    seen: list[str] = []
    entry = clock.at(1.0, seen.append, "never")
    clock.cancel(entry)
    clock.run(2.0)
    assert seen == []
    assert clock.events == 0


def test_each_purpose_has_its_own_numbers_and_they_are_always_the_same() -> None:
    # These numbers are the seeds of everybody's failures: they must never change.
    assert Rng(7).of("links").randrange(1_000_000) == 949_910
    assert Rng(7).of("links").random() == Rng(7).of("links").random()
    assert Rng(7).of("links").random() != Rng(7).of("faults").random()
    assert Rng(7).of("links").random() != Rng(8).of("links").random()
