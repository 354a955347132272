"""Estimate links from the reports of relays: which reports count, and a forecast.

**Trust.** Both ends of a link measure it many times. The median over windows of each end counts, so
that a few false records have no effect. Then:

- a round trip time below the speed of light in fibre is raised to that bound;
- an end that disagrees with most of its peers is ignored where the other end has measured;
- if two trusted ends differ, the larger value counts, so that no relay attracts traffic by false
  values.

Failed quality checks *exclude* a few relays from a plan. If every failed check stopped planning,
one relay of a thousand could stop all plans. A failed check about one relay excludes it. A failed
check that compares two relays, such as the bytes of a link, excludes one of them:

- the relay that contradicts more of the others;
- both, counted as one, if they contradict only each other.

::

    failed: L>a, b>L, L>c         failed: a>b
    L contradicts a, b and c      a or b: exclude both

**Forecast.** A link is forecast for the next quarter of an hour, by a seasonal median and a moving
average. These two fail differently. The seasonal median knows the time of day and not the present.
The moving average knows the present only. :func:`backtest` decides on the data whether the forecast
is better than the last value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Final, TypeVar

import numpy as np

from laps_analytics.plan.core.inputs import Floats

__all__ = [
    "DAY",
    "EXCLUDED_ONE_IN",
    "KM_PER_MS",
    "MIN_RELAYS",
    "WINDOWS_USED",
    "WINDOW_US",
    "Backtest",
    "backtest",
    "backtest_links",
    "distance_km",
    "excluded_relays",
    "forecast",
    "inconsistent_ends",
    "max_excluded",
    "median_of",
    "reconcile_loss",
    "reconcile_rtt",
    "window_medians",
]

# Trust

KM_PER_MS: Final = 200.0
_EARTH_KM: Final = 6371.0
_APART: Final = 1.25
"""Factor from which two ends of a link disagree."""
_SLACK_MS: Final = 2.0
"""Difference up to which two ends agree; it allows for queues."""
_LOSS_APART: Final = 5.0
_LOSS_SLACK: Final = 0.01
"""Difference of loss up to which two ends agree. Each end sees one direction only."""

Pair = tuple[int, int]


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the great-circle distance of two places in degrees (longitude, latitude)."""
    lon_a, lat_a, lon_b, lat_b = (float(np.radians(x)) for x in (*a, *b))
    h = (
        np.sin((lat_b - lat_a) / 2) ** 2
        + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    )
    return float(2 * _EARTH_KM * np.arcsin(np.sqrt(min(1.0, float(h)))))


def window_medians(measured: Mapping[Pair, Sequence[float]]) -> dict[Pair, float]:
    """Return the median over windows in milliseconds, by measuring end and other end."""
    return {
        pair: median_of(values)
        for pair, values in measured.items()
        if len(values) and any(map(isfinite, values))
    }


def median_of(values: Sequence[float]) -> float:
    """Return the median. For few values ``statistics`` is much faster than NumPy."""
    return float(median(values)) if all(map(isfinite, values)) else float(np.median(values))


def inconsistent_ends(
    medians: Mapping[Pair, float],
    places: Sequence[tuple[float, float] | None],
    *,
    factor: float = _APART,
    slack: float = _SLACK_MS,
) -> set[int]:
    """Return the ends that disagree with most of their peers, or with the speed of light."""
    against: dict[int, int] = {}
    seen: dict[int, int] = {}
    for (a, b), value in medians.items():
        if a < b and (b, a) in medians:
            other = medians[b, a]
            apart = max(value, other) > factor * min(value, other) + slack
            for end in (a, b):
                seen[end] = seen.get(end, 0) + 1
                against[end] = against.get(end, 0) + apart
        if value < _floor(places, a, b):
            # Too fast is no matter of opinion, but a wrong position looks the same.
            seen[a] = seen.get(a, 0) + 1
            against[a] = against.get(a, 0) + 1
    return {end for end, count in seen.items() if count >= 3 and against[end] > count / 2}


def reconcile_rtt(
    medians: Mapping[Pair, float],
    places: Sequence[tuple[float, float] | None],
    untrusted: Collection[int] = (),
) -> Floats:
    """Return the table of round trip times; infinite where nothing was measured.

    Values of ``untrusted`` ends are used only if no other end has measured.
    """
    count = len(places)
    table = np.full((count, count), np.inf)
    np.fill_diagonal(table, 0.0)
    suspects = inconsistent_ends(medians, places).union(untrusted)
    for a, b in {(min(pair), max(pair)) for pair in medians if pair[0] != pair[1]}:
        ends = {end: medians[pair] for end, pair in ((a, (a, b)), (b, (b, a))) if pair in medians}
        trusted = [value for end, value in ends.items() if end not in suspects]
        value = max(trusted) if trusted else max(ends.values())
        # A suspect's place may be as wrong as its measurements.
        floor = 0.0 if {a, b} & suspects and trusted else _floor(places, a, b)
        table[a, b] = table[b, a] = max(value, floor)
    return table


def reconcile_loss(medians: Mapping[Pair, float], count: int, suspects: set[int]) -> Floats:
    """Return the table of loss; 0 where nothing was measured.

    Values of ``suspects`` are used only if no other end has measured. Of two trusted ends the
    higher loss counts.
    """
    table = np.zeros((count, count))
    untrusted = suspects | inconsistent_ends(
        medians, [None] * count, factor=_LOSS_APART, slack=_LOSS_SLACK
    )
    for a, b in {(min(pair), max(pair)) for pair in medians if pair[0] != pair[1]}:
        ends = {end: medians[pair] for end, pair in ((a, (a, b)), (b, (b, a))) if pair in medians}
        trusted = [value for end, value in ends.items() if end not in untrusted]
        value = max(trusted) if trusted else max(ends.values())
        table[a, b] = table[b, a] = min(max(value, 0.0), 1.0)
    return table


def _floor(places: Sequence[tuple[float, float] | None], a: int, b: int) -> float:
    """Return the least possible round trip time; 0 if a place is unknown."""
    first, second = places[a], places[b]
    if first is None or second is None:
        return 0.0
    return 2 * distance_km(first, second) / KM_PER_MS


EXCLUDED_ONE_IN: Final = 50
"""One of so many relays may be excluded."""
MIN_RELAYS: Final = 10
"""Smallest network in which a relay may be excluded."""


def max_excluded(relays: int) -> int:
    """Return how many relays of a network may be excluded."""
    return 0 if relays < MIN_RELAYS else max(1, relays // EXCLUDED_ONE_IN)


def excluded_relays(
    red: Iterable[tuple[str, str]], relays: Collection[str]
) -> frozenset[str] | None:
    """Return the relays to exclude, from failed checks and their subjects.

    Returns None if there are too many, or if a check has an unknown subject: then no plan may be
    made.
    """
    known = frozenset(relays)
    alone: set[str] = set()
    against: dict[str, set[str]] = {}
    for _, subject in red:
        ends = subject.split(">")
        if not known.issuperset(ends):
            return None
        if len(ends) == 1:
            alone.add(subject)
        for one, other in ((ends[0], ends[-1]), (ends[-1], ends[0])):
            if one != other:
                against.setdefault(one, set()).add(other)
    found, wrong = set(alone), len(alone)
    for end in alone:
        _drop_contradictions(against, end)
    while against:
        most = max(map(len, against.values()))
        worst = sorted(end for end, others in against.items() if len(others) == most)
        # Who contradict only each other are two for one that is wrong.
        wrong += len(worst) if most > 1 else len(worst) // 2
        found.update(worst)
        for end in worst:
            _drop_contradictions(against, end)
    return frozenset(found) if wrong <= max_excluded(len(known)) else None


def _drop_contradictions(against: dict[str, set[str]], end: str) -> None:
    """Remove the contradictions of an excluded relay."""
    for other in against.pop(end, set()):
        if other in against:
            against[other].discard(end)
            if not against[other]:
                del against[other]


# Forecast

Ends = TypeVar("Ends", tuple[str, str], tuple[int, int])

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


def backtest_links(lengths: Mapping[Ends, int], most: int = 20) -> list[Ends]:
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
