"""Forecast a link for the next quarter of an hour: seasonal median and moving average.

The forecast combines two estimates that fail differently. The seasonal median knows the time of day
and not the present. The moving average knows the present only. :func:`backtest` decides on the data
whether the forecast is better than the last value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from laps_analytics.plan.core.network import Floats

__all__ = ["DAY", "WINDOWS_USED", "WINDOW_US", "Backtest", "backtest", "backtest_links", "forecast"]

Pair = TypeVar("Pair", tuple[str, str], tuple[int, int])

WINDOW_US: Final = 300_000_000
"""Length of a window: five minutes."""
DAY: Final = 288
"""Windows of a day."""
_ALPHA: Final = 0.3
_DAYS: Final = 7
_RECENT: Final = 48
_AROUND: Final = 3
"""Windows before and after the same time of another day."""
_AHEAD: Final = 3

WINDOWS_USED: Final = frozenset(range(1 - _RECENT, 1)) | frozenset(
    1 + step - day * DAY + near
    for day in range(1, _DAYS + 1)
    for step in range(-1, _AHEAD)
    for near in range(-_AROUND, _AROUND + 1)
)
"""Windows that a forecast uses, relative to the last one, which is 0."""


def forecast(series: Floats, *, ahead: int = _AHEAD, season: int = DAY) -> float:
    """Return the mean of the next ``ahead`` windows. Windows without data are NaN.

    Returns NaN if there is no recent data.
    """
    if not np.isfinite(series).any():
        return float("nan")
    recent = _moving(series)
    if recent is None:
        return float("nan")
    usual = [_usual(series, step, season) for step in range(ahead)]
    known = [value for value in usual if value is not None]
    if not known:
        return recent
    # How much today differs from other days at the same time is part of the forecast.
    base = _usual(series, -1, season)
    shift = 0.0 if base is None else recent - base
    return float(np.mean(known)) + 0.5 * shift


def _moving(series: Floats) -> float | None:
    """Return the exponential moving average at the end."""
    level: float | None = None
    for value in series[-_RECENT:]:
        if np.isfinite(value):
            level = float(value) if level is None else level + _ALPHA * (float(value) - level)
    return level


def _usual(series: Floats, step: int, season: int) -> float | None:
    """Return the median at the same time of other days, with half an hour around it."""
    found: list[float] = []
    for day in range(1, _DAYS + 1):
        at = len(series) + step - day * season
        window = series[max(0, at - _AROUND) : max(0, at + _AROUND + 1)]
        found += [float(value) for value in window if np.isfinite(value)]
    return float(np.median(found)) if found else None


def backtest_links(lengths: Mapping[Pair, int], most: int = 20) -> list[Pair]:
    """Return some links with a history longer than two days, to backtest forecasts."""
    long = [pair for pair in sorted(lengths) if lengths[pair] > 2 * DAY]
    step = max(1, len(long) // most)
    return long[::step][:most]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """Result of a backtest."""

    trials: int
    error: float
    """Mean absolute error of the forecast."""
    last_error: float
    """Mean absolute error of the last value."""

    @property
    def wins(self) -> bool:
        """Whether the forecast is better."""
        return self.trials > 0 and self.error < self.last_error


def backtest(
    links: Sequence[Floats], *, ahead: int = _AHEAD, season: int = DAY, trials: int = 50
) -> Backtest:
    """Forecast from many points in the past of each link, and compare with the data after it."""
    errors: list[float] = []
    last_errors: list[float] = []
    for series in links:
        ends = np.linspace(season, len(series) - ahead, trials).astype(int)
        for end in sorted(set(ends.tolist())):
            if end < season or end + ahead > len(series):
                continue
            past, then = series[:end], series[end : end + ahead]
            finite = past[np.isfinite(past)]
            if not len(finite) or not np.isfinite(then).any():
                continue
            guess = forecast(past, ahead=ahead, season=season)
            if not np.isfinite(guess):
                continue  # behind a long gap there is none, and the last value is used
            truth = float(np.nanmean(then))
            errors.append(abs(guess - truth))
            last_errors.append(abs(float(finite[-1]) - truth))
    return Backtest(
        trials=len(errors),
        error=float(np.mean(errors)) if errors else float("nan"),
        last_error=float(np.mean(last_errors)) if last_errors else float("nan"),
    )
