"""How busy we are: bursts are none, classes have two thresholds, and little is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.load import INTERVAL, LoadMeter, class_of, smoothed
from laps_wire.peering.laps2 import Load, LoadClass

NORMAL, BUSY, OVERLOADED = LoadClass.NORMAL, LoadClass.BUSY, LoadClass.OVERLOADED


@pytest.mark.parametrize(
    ("share", "classes"),
    [
        # After NORMAL, after BUSY, after OVERLOADED.
        (0.0, (NORMAL, NORMAL, NORMAL)),
        (0.69, (NORMAL, NORMAL, NORMAL)),
        (0.70, (NORMAL, BUSY, BUSY)),
        (0.80, (NORMAL, BUSY, BUSY)),
        (0.81, (BUSY, BUSY, BUSY)),
        (0.84, (BUSY, BUSY, BUSY)),
        (0.85, (BUSY, BUSY, OVERLOADED)),
        (0.95, (BUSY, BUSY, OVERLOADED)),
        (0.96, (OVERLOADED, OVERLOADED, OVERLOADED)),
    ],
)
def test_a_class_is_left_later_than_it_is_entered(
    share: float, classes: tuple[LoadClass, ...]
) -> None:
    assert tuple(class_of(share, before) for before in (NORMAL, BUSY, OVERLOADED)) == classes


shares = st.floats(0.0, 1.0)


@given(shares, shares, st.floats(0.0, 100.0))
def test_an_average_is_between_what_was_and_what_is(old: float, new: float, after: float) -> None:
    assert min(old, new) - 1e-9 <= smoothed(old, new, after) <= max(old, new) + 1e-9


@given(shares, shares, st.floats(0.1, 50.0))
def test_it_does_not_matter_how_often_one_looks(old: float, new: float, after: float) -> None:
    twice = smoothed(smoothed(old, new, after / 2), new, after / 2)
    assert twice == pytest.approx(smoothed(old, new, after))


class Run:
    """A meter, and time that passes."""

    def __init__(self) -> None:
        self.meter = LoadMeter()
        self.now, self.busy = 1000.0, 7.0
        assert self.meter.is_due(self.now)
        assert self.meter.sample(self.now, self.busy, 1.0) == Load()

    def go(self, seconds: int, share: float, fill: float = 0.0) -> list[Load]:
        told = []
        for _ in range(seconds):
            self.now += INTERVAL
            self.busy += INTERVAL * share
            assert self.meter.is_due(self.now)
            told.append(self.meter.sample(self.now, self.busy, fill))
            assert not self.meter.is_due(self.now)
        return told


def test_a_burst_is_no_load_and_what_lasts_is() -> None:
    run = Run()
    assert {load.load_class for load in run.go(5, 1.0)} == {NORMAL}
    told = [load.load_class for load in run.go(60, 1.0)]
    assert told == sorted(told)
    assert set(told) == {NORMAL, BUSY, OVERLOADED}
    assert run.go(1, 1.0)[0].value >= 950
    assert [load.load_class for load in run.go(60, 0.0)][-1] is NORMAL
    assert run.go(1, 0.0)[0].value < 50


def test_queues_that_are_full_are_load() -> None:
    run = Run()
    assert run.go(60, 0.1, fill=1.0)[-1].load_class is OVERLOADED


def test_small_steps_are_not_told() -> None:
    run = Run()
    steady = run.go(100, 0.5)[-1]
    assert steady.value == pytest.approx(500, abs=50)
    for share in (0.46, 0.54, 0.48):
        assert set(run.go(30, share)) <= {steady}


def test_a_clock_that_stands_still_teaches_nothing() -> None:
    meter = LoadMeter()
    meter.sample(1.0, 1.0, 0.0)
    assert meter.sample(1.0, 9.0, 1.0) == Load()


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(-1.0, 2.0))))
def test_it_always_fits_the_wire(steps: list[tuple[float, float, float]]) -> None:
    meter, now, busy = LoadMeter(), 0.0, 0.0
    for seconds, spent, fill in steps:
        now, busy = now + seconds, busy + spent
        load = meter.sample(now, busy, fill)
        assert 0 <= load.value <= 1000
        assert load.load_class in (NORMAL, BUSY, OVERLOADED)
