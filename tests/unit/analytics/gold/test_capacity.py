from __future__ import annotations

from datetime import date, timedelta

import pytest

from laps_analytics.gold.builders.capacity import AHEAD, forecast

MONDAY = date(2026, 11, 2)


def days(count: int) -> list[date]:
    return [MONDAY + timedelta(days=step) for step in range(count)]


def test_a_line_goes_on_and_its_interval_is_narrow() -> None:
    known = days(10)
    found = forecast(known, [100.0 + 5 * step for step in range(10)], known[-1])
    assert len(found) == AHEAD
    assert [item.peak for item in found] == pytest.approx([150.0 + 5 * s for s in range(AHEAD)])
    assert found[-1].low == pytest.approx(found[-1].high)


def test_noise_makes_the_interval_wide_and_wider_with_distance() -> None:
    known = days(12)
    found = forecast(known, [100.0 + (7 if step % 2 else -7) for step in range(12)], known[-1])
    widths = [item.high - item.low for item in found if item.high and item.low]
    assert len(widths) == AHEAD
    assert widths == sorted(widths)
    # Eight of ten days lie within 1.37 standard deviations, and some more for what is not known.
    assert 2 * 1.37 * 7 < widths[0] < 2 * 1.37 * 10


def test_weekdays_have_their_own_level_after_two_weeks() -> None:
    known = days(21)
    seen = [200.0 if day.weekday() >= 5 else 100.0 for day in known]
    found = forecast(known, seen, known[-1])
    by_day = {(known[-1] + timedelta(days=s)).weekday(): f.peak for s, f in enumerate(found, 1)}
    assert by_day[5] - by_day[2] > 80
    assert forecast(known[:10], seen[:10], known[9])[0].high is not None


def test_of_two_days_only_the_mean_is_said() -> None:
    found = forecast(days(2), [10.0, 30.0], days(2)[-1])
    assert {(item.peak, item.low, item.high) for item in found} == {(20.0, None, None)}


def test_less_than_nothing_is_not_forecast() -> None:
    known = days(5)
    found = forecast(known, [50.0, 40.0, 30.0, 20.0, 10.0], known[-1])
    assert found[-1].peak == 0.0
    assert found[-1].low == 0.0
