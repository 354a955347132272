"""Whether a plan helped: windows after it against windows before that are like them.

A window after the plan is compared with those before it of the same hour and kind of day (working
day or weekend) whose demand is nearest. What is measured in one minute is much like what is
measured in the next, so minutes are no independent witnesses: the differences of a run of hours
count as one. The change is the median of the means of any two of them (Hodges and Lehmann), and its
interval is that of the signed-rank test, which is exact for few and does not ask for normal noise.
A plan is worse only if the whole interval is, and there are runs enough that it cannot be chance.
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
"""How many windows before each one after is compared with."""
_DEMAND: Final = 0.3
"""How much demand of a pair may differ, as a share."""
_HOUR_US: Final = 3_600_000_000
_EXACT: Final = 60
"""With more runs than this the sum of ranks is as good as normal."""


@dataclass(frozen=True, slots=True)
class Window:
    """What was measured in a while."""

    start_us: int
    """Microseconds since 1970."""
    demand: float
    """Viewers, or bits; what the value may depend on."""
    value: float
    """What is to be small, such as the 95th percentile of latency."""

    @property
    def kind(self) -> tuple[bool, int]:
        """Weekend or not, and the hour, UTC."""
        hours = self.start_us // 3_600_000_000
        # The first day of 1970 was a Thursday.
        return (hours // 24 + 3) % 7 >= 5, hours % 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the comparison says."""

    pairs: int
    """Windows after the plan that had something like them before it."""
    runs: int
    """Runs of hours with such windows, each of which counts once."""
    change: float
    """Median difference: below 0 is better; NaN without pairs."""
    low: float
    """The interval of that, ..."""
    high: float
    level: float = 0.95
    """... and how sure that is."""

    @property
    def enough(self) -> bool:
        """Whether there are runs enough to tell anything from chance.

        If a plan did nothing, so many runs would all differ to one side by chance once in
        ``2 ** (runs - 1)`` times.
        """
        return self.runs > 0 and 2.0 ** (1 - self.runs) <= 1 - self.level

    @property
    def word(self) -> str:
        """better, worse, or unclear."""
        if not self.enough:
            return "unclear"
        if self.high < 0:
            return "better"
        return "worse" if self.low > 0 else "unclear"

    @property
    def revert(self) -> bool:
        """Whether to go back to the plan before is proposed. Nobody does it by himself."""
        return self.word == "worse"


def matched(
    before: Sequence[Window],
    after: Sequence[Window],
    *,
    level: float = 0.95,
    block_us: int = _HOUR_US,
    run: int | None = None,
) -> Verdict:
    """Compare windows; the same arguments give the same verdict.

    Windows of one block count once, and so do ``run`` blocks in a row: the cube root of their
    number if nobody says.
    """
    return _verdict(_differences(before, after, block_us), level, run)


def _differences(
    before: Sequence[Window], after: Sequence[Window], block_us: int
) -> dict[int, list[float]]:
    """By block, what its windows differ from those before that are like them."""
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
    """How many of the smallest means of pairs are outside of the interval, and of the largest."""
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
