"""Whether a plan helped: windows after it against windows before that are like them.

A window after the plan is compared with those before it of the same hour and kind of day (working
day or weekend) whose demand is nearest. The median of the differences has an interval from a
bootstrap with a seed. A plan is worse only if the whole interval is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["Verdict", "Window", "matched"]

_NEAR: Final = 3
"""How many windows before each one after is compared with."""
_DEMAND: Final = 0.3
"""How much demand of a pair may differ, as a share."""


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
    change: float
    """Median difference: below 0 is better; NaN without pairs."""
    low: float
    """The 95 % interval of that, ..."""
    high: float

    @property
    def word(self) -> str:
        """better, worse, or unclear."""
        if self.pairs and self.high < 0:
            return "better"
        return "worse" if self.pairs and self.low > 0 else "unclear"

    @property
    def revert(self) -> bool:
        """Whether to go back to the plan before is proposed. Nobody does it by himself."""
        return self.word == "worse"


def matched(
    before: Sequence[Window], after: Sequence[Window], *, seed: int = 0, rounds: int = 1000
) -> Verdict:
    """Compare windows; the same arguments give the same verdict."""
    by_kind: dict[tuple[bool, int], list[Window]] = {}
    for window in before:
        by_kind.setdefault(window.kind, []).append(window)
    differences = []
    for window in after:
        like = [
            other
            for other in by_kind.get(window.kind, ())
            if abs(other.demand - window.demand) <= _DEMAND * max(abs(window.demand), 1e-9)
        ]
        like.sort(key=lambda other: (abs(other.demand - window.demand), -other.start_us))
        if like:
            usual = float(np.median([other.value for other in like[:_NEAR]]))
            differences.append(window.value - usual)
    if not differences:
        nothing = float("nan")
        return Verdict(pairs=0, change=nothing, low=nothing, high=nothing)
    values = np.array(differences)
    dice = np.random.default_rng(seed)
    draws = np.median(dice.choice(values, size=(rounds, len(values))), axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return Verdict(
        pairs=len(values), change=float(np.median(values)), low=float(low), high=float(high)
    )
