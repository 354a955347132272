"""Gains are what the tables of two stretches of time say."""

from __future__ import annotations

import pandas as pd
import pytest

from laps_analytics.report.gold import Gold
from laps_analytics.synth.gain import Gain, measure
from testkit.gold_frames import sample

DAY_US = 86_400_000_000
START_US = int(pd.Timestamp("2026-06-18 18:00", tz="UTC").value // 1000)
SPAN = (START_US, START_US + 3_600_000_000)
NEXT = (SPAN[0] + DAY_US, SPAN[1] + DAY_US)


def gold_of(*, wan: float, later: bool = True) -> Gold:
    """A day, and the next one with other WAN bytes."""
    tables = {}
    for name in ("track_fanout_5m", "qoe_region_1m"):
        first = pd.DataFrame(sample()[name])
        second = first.assign(window_start=first["window_start"] + pd.Timedelta(days=1))
        if name == "track_fanout_5m":
            second["wan_bytes"] = (second["wan_bytes"] * wan).astype(int)
        tables[name] = pd.concat([first, second]) if later else first
    return Gold(tables)


def by_name(gains: list[Gain]) -> dict[str, Gain]:
    return {gain.what: gain for gain in gains}


def test_less_is_better() -> None:
    gains = by_name(measure(gold_of(wan=0.4), SPAN, NEXT))
    factor = gains["WAN bytes by what a copy for each region needs"]
    assert (factor.before, factor.after) == (2.5, 1.0)
    assert factor.change == pytest.approx(-0.6)
    assert factor.verdict == "better"
    latency = gains["latency of gold, median"]
    assert latency.before == latency.after
    assert latency.verdict == "unclear"
    assert gains["reports over the limit of their class"].before == 20.0
    assert gains["WAN rate"].before == pytest.approx(5e9 * 8 / 300 / 1e6)


def test_more_is_worse() -> None:
    gains = by_name(measure(gold_of(wan=2), SPAN, NEXT))
    assert gains["WAN rate"].verdict == "worse"


def test_without_the_other_day_nothing_is_said() -> None:
    assert measure(gold_of(wan=1, later=False), SPAN, NEXT) == []


def test_no_share_of_nothing() -> None:
    assert Gain("x", 0.0, 1.0, "%").change is None
