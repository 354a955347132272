from __future__ import annotations

import math

import pytest

from laps_relay.sim.net.clock import Clock
from laps_relay.sim.net.wires import Lane


class Somebody:
    """Has so many packets to send."""

    def __init__(self, sizes: list[int], rate: float | None = 1000.0) -> None:
        self.sizes = sizes
        self.rate = rate
        self.sent = 0

    def send_next(self) -> int | None:
        if not self.sizes:
            return None
        self.sent += 1
        return self.sizes.pop(0)


def test_a_lane_is_used_in_turn_and_stands_still_in_between() -> None:
    clock = Clock()
    lane = Lane(clock)
    one, other = Somebody([60, 60, 60]), Somebody([60])
    lane.want(one)
    lane.want(other)
    lane.want(other)
    assert (one.sent, other.sent) == (1, 0)
    clock.run(0.15)
    assert (one.sent, other.sent) == (2, 0)
    clock.run(0.25)
    assert (one.sent, other.sent) == (2, 1)
    assert lane.rate == 1000.0
    clock.run(1.0)
    assert one.sent == 3
    one.sizes = [60]
    lane.want(one)
    assert one.sent == 4


def test_a_lane_without_a_limit_empties_at_once() -> None:
    lane = Lane(Clock())
    somebody = Somebody([60, 60, 60], None)
    lane.want(somebody)
    assert somebody.sent == 3


def test_a_lane_knows_since_when_it_is_faster() -> None:
    """What waited before waited for somebody who was slow."""
    clock = Clock()
    lane = Lane(clock)
    somebody = Somebody([60, 60, 60, 60, 60])
    lane.want(somebody)
    assert lane.quickened == -math.inf
    somebody.rate = 100.0
    clock.run(0.15)
    assert (lane.rate, lane.quickened) == (100.0, -math.inf)
    assert lane.held_back(0.14)
    somebody.rate = 1000.0
    clock.run(1.05)  # the packet that goes is not faster for that
    assert lane.quickened == -math.inf
    clock.run(1.15)
    assert (lane.rate, lane.quickened) == (1000.0, 1.1)
    somebody.rate = None
    clock.run(1.3)
    assert lane.rate is None
    assert lane.quickened == pytest.approx(1.2)
    assert lane.held_back(1.1)
    assert not lane.held_back(1.25)
