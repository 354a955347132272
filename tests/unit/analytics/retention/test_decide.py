from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from laps_analytics.errors import UsageError
from laps_analytics.lake import Horizon
from laps_analytics.retention.decide import Decision, Periods, decide, period

NOON_US = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()) * 1_000_000
FEW = Periods(bronze=2, silver=4, gold=10)


def decided(periods: Periods = FEW, **more: Any) -> Decision:
    usual: dict[str, Any] = {"days": [], "unbuilt": lambda _: [], "open_hours": []}
    return decide(NOON_US, periods, more.pop("before", Horizon()), **{**usual, **more})


def test_a_time_to_keep_something() -> None:
    assert [period(text) for text in ("1d", "4w", "2y", "forever")] == [1, 28, 730, None]
    for text in ("0d", "d", "7", "7h", "-1d", "1.5d", ""):
        with pytest.raises(UsageError, match="is not a period"):
            period(text)
    assert Periods.of("7d,30d,2y") == Periods()
    with pytest.raises(UsageError, match="is not three periods"):
        Periods.of("7d,30d")


def test_what_is_made_of_something_is_kept_as_long() -> None:
    for wrong in ({"gold": 3}, {"gold": 10, "bills": 9}, {"silver": None}):
        with pytest.raises(UsageError, match="would be kept longer than"):
            Periods(**{"bronze": 2, "silver": 4, **wrong})
    assert Periods(bronze=None, silver=4).bronze is None


def test_whole_days_go_after_their_time() -> None:
    found = decided()
    assert found.kept == ()
    assert found.horizon == Horizon(bronze="2026-11-15", silver="2026-11-13", gold="2026-11-07")
    bills = decided(Periods(bronze=2, silver=4, gold=10, bills=20)).horizon
    assert bills.bills == "2026-10-28"
    for_ever = decided(Periods(bronze=None, silver=None, gold=None)).horizon
    assert for_ever == Horizon()


def test_a_horizon_does_not_move_back() -> None:
    there = Horizon(bronze="2026-11-16", silver="2026-11-01", gold="2026-11-01")
    assert decided(before=there).horizon == Horizon(
        bronze="2026-11-16", silver="2026-11-13", gold="2026-11-07"
    )


def test_a_day_that_gold_is_not_built_from_stays_and_holds_those_after_it() -> None:
    lacking = {
        "2026-11-01": ["blame"],
        "2026-11-05": ["a", "b", "c", "d", "e"],
        "2026-11-06": ["a"],
    }
    days = [f"2026-11-{day:02}" for day in range(1, 18)]
    found = decided(
        before=Horizon(silver="2026-11-02"), days=days, unbuilt=lambda day: lacking.get(day, [])
    )
    assert found.horizon == Horizon(bronze="2026-11-15", silver="2026-11-05", gold="2026-11-05")
    assert [(item.tier, item.first) for item in found.kept] == [
        ("silver", "2026-11-05"),
        ("gold", "2026-11-05"),
    ]
    assert "not built into gold (a, b, c and 2 more): run `laps-analytics build`" in (
        found.kept[0].reason
    )
    # Days that are young enough are not asked about.
    assert not decided(days=["2026-11-13"], unbuilt=lambda _: ["blame"]).kept


def test_an_hour_that_a_stream_left_open_can_still_be_made_whole() -> None:
    found = decided(open_hours=[("2026-11-16", "05"), ("2026-11-10", "01")])
    assert found.horizon == Horizon(bronze="2026-11-09", silver="2026-11-09", gold="2026-11-07")
    assert {item.tier for item in found.kept} == {"bronze", "silver"}
    assert (found.horizon.accepted_from or ("", "")) <= ("2026-11-10", "01")
    young = decided(open_hours=[("2026-11-17", "11")])
    assert young.kept == ()
