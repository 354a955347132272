"""What a plan believes of what relays report: round trip times, loss, and which relays at all.

A link is measured at both ends, many times. For each end the median over windows counts, so that
some poisoned records do nothing. Then:

- nothing is faster than light between the two places, in fibre and in a straight line;
- an end that disagrees with most of the others that it measures is not believed where the other
  end has measured, too;
- where two believed ends differ, the larger counts: nobody attracts traffic by looking near.

Red checks of data quality set a few relays *aside*: a plan is made without their word. If every red
check stopped planning, one relay of a thousand could stop all plans. A check about one relay sets
that relay aside. Of a check that compares two relays, such as the bytes of a link, one is wrong:

- the relay that contradicts more of the others than they do each other;
- if two contradict only each other, both are set aside, and count as one.

::

    red: L>a, b>L, L>c          red: a>b
    L contradicts a, b and c    a or b: both
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from statistics import median
from typing import Final

import numpy as np

from laps_analytics.plan.core.network import Floats

__all__ = [
    "EXCLUDED_ONE_IN",
    "KM_PER_MS",
    "MIN_RELAYS",
    "distance_km",
    "excluded_relays",
    "inconsistent_ends",
    "max_excluded",
    "median_of",
    "reconcile_loss",
    "reconcile_rtt",
    "window_medians",
]

KM_PER_MS: Final = 200.0
_EARTH_KM: Final = 6371.0
_APART: Final = 1.25
"""Two ends of a link that differ by more than this factor disagree."""
_SLACK_MS: Final = 2.0
"""Differences below this do not count: queues and clocks."""
_LOSS_APART: Final = 5.0
_LOSS_SLACK: Final = 0.01
"""The same of shares that are lost. Each end sees one direction, so more may differ."""

Pair = tuple[int, int]


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Over ground, from degrees east and north."""
    lon_a, lat_a, lon_b, lat_b = (float(np.radians(x)) for x in (*a, *b))
    h = (
        np.sin((lat_b - lat_a) / 2) ** 2
        + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    )
    return float(2 * _EARTH_KM * np.arcsin(np.sqrt(min(1.0, float(h)))))


def window_medians(measured: Mapping[Pair, Sequence[float]]) -> dict[Pair, float]:
    """By measuring end and other end: the median over windows, in milliseconds."""
    return {
        pair: median_of(values)
        for pair, values in measured.items()
        if len(values) and any(map(isfinite, values))
    }


def median_of(values: Sequence[float]) -> float:
    """The median; of the few values that a link has, numpy would take fifty times as long."""
    return float(median(values)) if all(map(isfinite, values)) else float(np.median(values))


def inconsistent_ends(
    medians: Mapping[Pair, float],
    places: Sequence[tuple[float, float] | None],
    *,
    factor: float = _APART,
    slack: float = _SLACK_MS,
) -> set[int]:
    """Ends that disagree with most of the others, or with the speed of light."""
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
    """The table of round trip times; infinite where nobody has measured.

    ``untrusted`` are not believed anyway.
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
    """The table of shares that are lost; 0 where nobody has measured.

    ``suspects`` are not believed anyway. Of two ends that are, the one that loses more counts.
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
    """The least that a round trip can take; 0 if somebody does not say where it is."""
    first, second = places[a], places[b]
    if first is None or second is None:
        return 0.0
    return 2 * distance_km(first, second) / KM_PER_MS


EXCLUDED_ONE_IN: Final = 50
"""Of so many relays one may be set aside."""
MIN_RELAYS: Final = 10
"""In a network of fewer relays none is: too few would be left to contradict it."""


def max_excluded(relays: int) -> int:
    """How many relays of a network may be wrong, and the others are still believed."""
    return 0 if relays < MIN_RELAYS else max(1, relays // EXCLUDED_ONE_IN)


def excluded_relays(
    red: Iterable[tuple[str, str]], relays: Collection[str]
) -> frozenset[str] | None:
    """The relays whose word does not count, from red checks and what they are about.

    None if too many are red, or a check is about no relay of the network: nothing is to be believed
    then.
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
    """Forget whom a relay contradicts that is set aside."""
    for other in against.pop(end, set()):
        if other in against:
            against[other].discard(end)
            if not against[other]:
                del against[other]
