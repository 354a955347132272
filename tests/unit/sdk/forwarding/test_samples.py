from __future__ import annotations

import pytest

from laps_sdk.forwarding.samples import Sample, Samples

SAMPLE = Sample(1, 2, 0, 10, came=99.0)


class Asked:
    """Says whether something was sent, and counts who asks."""

    def __init__(self, answer: bool | None = False) -> None:
        self.answer = answer
        self.times = 0

    def __call__(self) -> bool | None:
        self.times += 1
        return self.answer


def watched(answer: bool | None) -> tuple[Samples, Asked]:
    samples, asked = Samples(1, lambda _: 0), Asked(answer)
    samples.watch(100.0, SAMPLE, asked)
    return samples, asked


def test_one_in_so_many() -> None:
    assert Samples(1, lambda _: 0).wants(5, 6)
    chosen = sum(Samples(10, lambda _: 0).wants(5, group) for group in range(1000))
    assert 50 < chosen < 200


def test_what_is_gone_at_once_left_when_it_was_written() -> None:
    samples, _ = watched(True)
    assert samples.poll_timeout() == 100.0
    samples.handle_timeout(99.9)
    assert samples.take() == []
    samples.handle_timeout(100.02)
    assert samples.take() == [SAMPLE._replace(sent=100.0)]
    assert samples.take() == []
    assert samples.poll_timeout() is None
    samples.handle_timeout(101.0)  # nothing to do


def test_what_waits_is_asked_ever_more_rarely() -> None:
    samples, asked = watched(False)
    looks = []
    while asked.times < 10:
        due = samples.poll_timeout()
        assert due is not None
        looks.append(due)
        samples.handle_timeout(due)
    assert looks[1] - looks[0] == pytest.approx(0.001)
    assert looks[2] - looks[1] == pytest.approx(0.002)
    assert looks[-1] - looks[-2] == pytest.approx(0.05)
    asked.answer = True
    due = samples.poll_timeout()
    assert due is not None
    samples.handle_timeout(due)
    assert samples.take() == [SAMPLE._replace(sent=due)]


def test_what_is_lost_or_waits_for_ever_is_no_measure() -> None:
    samples, _ = watched(None)
    samples.handle_timeout(100.0)
    assert (samples.take(), samples.poll_timeout()) == ([], None)
    samples, _ = watched(False)
    samples.handle_timeout(200.0)
    assert (samples.take(), samples.poll_timeout()) == ([], None)


def test_others_are_not_asked_before_their_time() -> None:
    samples, first = watched(False)
    samples.handle_timeout(100.0)
    second = Asked(True)
    samples.watch(100.0005, SAMPLE, second)
    samples.handle_timeout(100.0005)
    assert (first.times, second.times) == (1, 1)
    samples.watch(100.002, SAMPLE, second)
    assert samples.poll_timeout() == 100.001


def test_there_is_a_limit() -> None:
    samples, asked = watched(False)
    for _ in range(2000):
        samples.watch(100.0, SAMPLE, asked)
    samples.handle_timeout(100.0)
    assert asked.times == 1000


def test_where_a_group_came_from() -> None:
    samples = Samples(1, lambda _: 0)
    assert samples.arrival(1, 2) is None
    samples.arrived(1, 2, 7, 50.0)
    assert samples.arrival(1, 2) == (7, 50.0)
    for group in range(1000):
        samples.arrived(2, group, 7, 50.0)
    assert samples.arrival(1, 2) is None
