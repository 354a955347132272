"""Statistical comparison of windows before and after a plan.

A window after the plan is compared with earlier windows of the same hour and kind of day whose
demand is nearest. Kinds of day are working days and weekends. Neighbouring minutes are not
independent, so the differences of a run of hours count as one. The change is the Hodges-Lehmann
estimate, and its interval is that of the signed-rank test. That test is exact for few values and
does not assume normal noise. A plan is worse only if the whole interval is, and if there are enough
runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

__all__ = ["Verdict", "Window", "matched"]

_NEAR: Final = 3
"""Number of earlier windows that a later one is compared with."""
_DEMAND: Final = 0.3
"""Largest relative difference of demand within a pair."""
_HOUR_US: Final = 3_600_000_000
_EXACT: Final = 60
"""Number of runs above which the normal approximation is used."""


@dataclass(frozen=True, slots=True)
class Window:
    """A measured value."""

    start_us: int
    """Begin of the window, microseconds since 1970."""
    demand: float
    """Viewers or bits, which the value may depend on."""
    value: float
    """Measured value; less is better."""

    @property
    def kind(self) -> tuple[bool, int]:
        """Whether it is a weekend, and the hour (UTC)."""
        hours = self.start_us // 3_600_000_000
        # The first day of 1970 was a Thursday.
        return (hours // 24 + 3) % 7 >= 5, hours % 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a comparison."""

    pairs: int
    """Windows after the plan with a similar one before it."""
    runs: int
    """Runs of hours with such windows. Each counts once."""
    change: float
    """Median difference; negative is better, NaN without pairs."""
    low: float
    """Lower end of the interval."""
    high: float
    level: float = 0.95
    """Confidence level of the interval."""

    @property
    def enough(self) -> bool:
        """Whether there are enough runs to exclude chance.

        Without an effect all runs differ in one direction with a probability of ``2 ** (1 -
        runs)``.
        """
        return self.runs > 0 and 2.0 ** (1 - self.runs) <= 1 - self.level

    @property
    def word(self) -> str:
        """better, worse or unclear."""
        if not self.enough:
            return "unclear"
        if self.high < 0:
            return "better"
        return "worse" if self.low > 0 else "unclear"

    @property
    def revert(self) -> bool:
        """Whether reverting is proposed. An operator decides."""
        return self.word == "worse"


def matched(
    before: Sequence[Window],
    after: Sequence[Window],
    *,
    level: float = 0.95,
    block_us: int = _HOUR_US,
    run: int | None = None,
) -> Verdict:
    """Compare windows. The same arguments give the same verdict.

    Windows of one block count once, and so do ``run`` consecutive blocks; by default the cube root
    of their number.
    """
    return _verdict(_differences(before, after, block_us), level, run)


def _differences(
    before: Sequence[Window], after: Sequence[Window], block_us: int
) -> dict[int, list[float]]:
    """Return, by block, the differences of its windows to similar earlier ones."""
    by_kind: dict[tuple[bool, int], list[Window]] = {}
    for window in before:
        by_kind.setdefault(window.kind, []).append(window)
    blocks: dict[int, list[float]] = {}
    for window in after:
        like = [
            other
            for other in by_kind.get(window.kind, ())
            if abs(other.demand - window.demand) <= _DEMAND * max(abs(window.demand), 1e-9)
        ]
        like.sort(key=lambda other: (abs(other.demand - window.demand), -other.start_us))
        if like:
            usual = float(np.median([other.value for other in like[:_NEAR]]))
            blocks.setdefault(window.start_us // block_us, []).append(window.value - usual)
    return blocks


def _verdict(blocks: Mapping[int, Sequence[float]], level: float, run: int | None) -> Verdict:
    if not blocks:
        nothing = float("nan")
        return Verdict(pairs=0, runs=0, change=nothing, low=nothing, high=nothing, level=level)
    values = [float(np.median(blocks[at])) for at in sorted(blocks)]
    length = run or max(1, round(len(values) ** (1 / 3)))
    count = max(1, len(values) // length)
    means = np.array([part.mean() for part in np.array_split(np.array(values), count)])
    pairs = np.sort(((means[:, None] + means[None, :]) / 2)[np.triu_indices(count)])
    cut = _cut(count, (1 - level) / 2)
    return Verdict(
        pairs=sum(len(part) for part in blocks.values()),
        runs=count,
        change=float(np.median(pairs)),
        low=float(pairs[cut]),
        high=float(pairs[-1 - cut]),
        level=level,
    )


def _cut(count: int, tail: float) -> int:
    """Return the number of pair means below the interval, which is also that above it."""
    if count > _EXACT:
        mean, square = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return int(NormalDist(mean, math.sqrt(square)).inv_cdf(tail))
    # Of all signs of the ranks 1 to count, how many have each sum of the positive ones.
    share = np.zeros(count * (count + 1) // 2 + 1)
    share[0] = 1.0
    for rank in range(1, count + 1):
        share[rank:] += share[:-rank].copy()
        share /= 2
    below = np.cumsum(share)
    return int(np.searchsorted(below, tail, side="right")) - 1 if below[0] <= tail else 0
