"""What is unusual, in plain Python and for one metric at a time: what the frames must equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median
from typing import Any

from laps_analytics.gold.builders.anomaly import BEFORE, Metric

__all__ = ["Point", "incidents"]

_ENOUGH_DAYS = 3
_ENOUGH_WINDOWS = 12
_Z = 6.0
_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class Point:
    """A window of a series."""

    at: datetime
    series: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class _Unusual:
    at: datetime
    series: tuple[str, ...]
    z: float
    value: float
    usual: float


def incidents(metric: Metric, points: Sequence[Point], day: date) -> list[tuple[Any, ...]]:
    """The incidents of a day, as rows of the contract; ``points`` reach back for what is usual."""
    unusual = sorted(_unusual(metric, points, day), key=lambda item: (item.at, item.series))
    length = timedelta(seconds=metric.seconds)
    groups: list[list[_Unusual]] = []
    for item in unusual:
        if groups and item.at <= max(one.at for one in groups[-1]) + length:
            groups[-1].append(item)
        else:
            groups.append([item])
    today = {point.series for point in points if point.at.date() == day}
    return [_row(metric, group, today, day, length) for group in groups]


def _unusual(metric: Metric, points: Sequence[Point], day: date) -> Iterable[_Unusual]:
    by_series: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        by_series.setdefault(point.series, []).append(point)
    for series, known in by_series.items():
        today = [point for point in known if point.at.date() == day]
        before: dict[Any, list[float]] = {}
        for point in known:
            if 0 < (day - point.at.date()).days <= BEFORE:
                before.setdefault(point.at.time(), []).append(point.value)
        values = [point.value for point in today]
        for point in today:
            base = before.get(point.at.time(), [])
            if len(base) < _ENOUGH_DAYS:
                base = values if len(values) >= _ENOUGH_WINDOWS else []
            if not base:
                continue
            usual = median(base)
            spread = _SIGMA * median(abs(value - usual) for value in base)
            spread = max(spread, metric.floor, metric.share * abs(usual))
            z = (point.value - usual) / spread
            if z > _Z or (metric.falls and z < -_Z):
                yield _Unusual(point.at, series, z, point.value, usual)


def _row(
    metric: Metric,
    group: Sequence[_Unusual],
    today: set[tuple[str, ...]],
    day: date,
    length: timedelta,
) -> tuple[Any, ...]:
    peak = max(group, key=lambda item: (abs(item.z), [-ord(c) for c in "|".join(item.series)]))
    first, last = group[0].at, group[-1].at + length
    common = []
    for index, name in enumerate(metric.dimensions):
        if len({series[index] for series in today}) < 2:
            continue  # what all have in common explains nothing
        counts: dict[str, int] = {}
        for item in group:
            counts[item.series[index]] = counts.get(item.series[index], 0) + 1
        value, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if 2 * count > len(group):
            common.append((name, value, count / len(group)))
    common.sort(key=lambda entry: (-entry[2], entry[0]))
    return (
        *(str(day), f"{metric.name}@{first:%Y-%m-%dT%H:%MZ}", metric.name, first, last),
        *(len(group), len({item.series for item in group})),
        *(peak.z, peak.value, peak.usual, common[:3]),
    )
