"""Measure the gain of a plan: two time spans, compared by the same gold tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pandas as pd

from laps_analytics.plan.core.measure import Window, matched
from laps_analytics.report.gold import Gold
from laps_analytics.report.kll import quantiles

__all__ = ["Gain", "measure"]

_WINDOW_US: Final = 300_000_000


@dataclass(frozen=True, slots=True)
class Gain:
    """A figure before and after the plan; less is better."""

    what: str
    before: float
    after: float
    unit: str
    verdict: str = ""
    """better, worse or unclear; empty if windows could not be matched."""

    @property
    def change(self) -> float | None:
        """Change as a share of the value before; None if that is 0."""
        return (self.after - self.before) / self.before if self.before else None


def measure(gold: Gold, before_us: tuple[int, int], after_us: tuple[int, int]) -> list[Gain]:
    """Return the figures of both spans; a figure without rows in one span is left out."""
    found: list[Gain] = []
    for what, unit, table, figure, by_window in _FIGURES:
        parts = [_within(gold[table], span) for span in (before_us, after_us)]
        values = [None if part.empty else figure(part) for part in parts]
        if values[0] is None or values[1] is None:
            continue
        verdict = ""
        if by_window:
            series = [_windows(part, figure) for part in parts]
            # Unlike a real one, this world draws each window anew, so that each is a witness.
            verdict = matched(series[0], series[1], block_us=_WINDOW_US, run=1).word
        found.append(Gain(what, values[0], values[1], unit, verdict))
    return found


def _within(frame: pd.DataFrame, span_us: tuple[int, int]) -> pd.DataFrame:
    first, last = (pd.Timestamp(at, unit="us", tz="UTC") for at in span_us)
    return frame[(frame["window_start"] >= first) & (frame["window_start"] < last)]


def _windows(frame: pd.DataFrame, figure: Callable[[pd.DataFrame], float | None]) -> list[Window]:
    found = []
    for at, part in frame.groupby(frame["window_start"].dt.floor("5min")):
        value = figure(part)
        if value is not None:
            column = "track_bytes" if "track_bytes" in part else "reports"
            demand = float(part[column].sum())
            found.append(Window(int(at.value // 1000), demand, value))
    return found


def _duplication(frame: pd.DataFrame) -> float | None:
    ideal = float(frame["ideal_wan_bytes"].sum())
    wan = float(frame["wan_bytes"].sum())
    return wan / ideal if ideal else None


def _wan_rate(frame: pd.DataFrame) -> float | None:
    seconds = 300.0 * int(frame["window_start"].nunique())
    return float(frame["wan_bytes"].sum()) * 8 / seconds / 1e6


def _stress(frame: pd.DataFrame) -> float | None:
    known = frame["stress_max"].dropna()
    return float(known.max()) if len(known) else None


def _latency(share: float, service: str) -> Callable[[pd.DataFrame], float | None]:
    def figure(frame: pd.DataFrame) -> float | None:
        part = frame[frame["class"] == service]
        found = quantiles([bytes(item) for item in part["latency_kll"].dropna()], (share,))
        return None if found is None else found[0]

    return figure


def _over(frame: pd.DataFrame) -> float | None:
    reports = float(frame["reports"].sum())
    over = float(frame["over_limit"].sum())
    return over / reports * 100 if reports else None


_FIGURES = (
    ("WAN bytes by what a copy for each region needs", "times", "track_fanout_5m",
     _duplication, True),
    ("WAN rate", "Mbit/s", "track_fanout_5m", _wan_rate, True),
    ("most copies of a track between two regions", "copies", "track_fanout_5m", _stress, False),
    ("latency of gold, median", "ms", "qoe_region_1m", _latency(0.5, "gold"), True),
    ("latency of gold, 95th percentile", "ms", "qoe_region_1m", _latency(0.95, "gold"), True),
    ("latency of silver, 95th percentile", "ms", "qoe_region_1m", _latency(0.95, "silver"), True),
    ("reports over the limit of their class", "%", "qoe_region_1m", _over, True),
)  # fmt: skip
