"""What trials have taught: how far ways were from what was predicted of them, and for how long.

A trial is judged by its viewers (``core.measure``). What they say is one way and behind live, so a
difference of it is half of that of a round trip. If the interval of what was measured leaves out
what was predicted, the prediction was off by at least the way to the nearer end of the interval::

    tried       before       measured: viewers 25 to 35 ms nearer to live, 50 to 70 of a round trip
    170 ms  -   180 ms   =   -10 ms, and not in -70 .. -50: off by 40 ms

Whether the one way is shorter or the other one longer than predicted, nobody has measured. So what
was tried counts as 20 ms shorter, and what it was compared with as 20 ms longer: between the two
the next plan decides by what was measured, and for others neither is better than it may be. If
several were compared with one way, it takes half of the median.

- It moves what a choice is *worth*, never what is allowed: constraints hold by the prediction.
- It is at most half of the prediction, and fades by a seventh a day, until nothing is left of it.
- Fewer than three relays that report teach nothing, and one that lies no more than the others say
  anyway (``core.measure.witnessed``).
- What was tried is not tried again while that lasts, whatever came of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Final, NamedTuple

from laps_analytics.plan.core.measure import WITNESSES

__all__ = [
    "DIRECTLY",
    "LASTS_US",
    "LONGEST_US",
    "NOTHING",
    "Correction",
    "Judged",
    "Lessons",
    "Measured",
    "Trial",
    "Way",
]

_DAY_US: Final = 86_400_000_000
LASTS_US: Final = 7 * _DAY_US
"""For how long it counts that something was tried, and what came of it."""
LONGEST_US: Final = 3 * _DAY_US
"""For how long something is tried that nobody has judged."""
DIRECTLY: Final = "direct"
"""Stands for a Via where there is none."""
_MOST: Final = 0.5
"""Of a prediction, and of all time, that a lesson may change."""


class Way(NamedTuple):
    """From the relay of publishers, for a class, over a Via towards a region."""

    origin: str
    region: str
    scope: str
    via: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A change, and its interval: below 0 is better."""

    change: float
    low: float
    high: float

    def beyond(self, expected: float, scale: float = 1.0) -> float:
        """How far from what was expected it is at least."""
        low, high = self.low * scale, self.high * scale
        return low - expected if expected < low else high - expected if expected > high else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of a trial."""

    at_us: int
    """The end of what was measured."""
    hours: int
    witnesses: int
    """Relays that were compared, each with itself."""
    p50_ms: float | None
    """Median of the time behind live while it was tried; None if no player says."""
    latency: Measured | None
    """Milliseconds behind live; None: not enough hours, or no player says."""
    stalls: Measured | None
    """Share of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is tried, or was, and what was expected of it."""

    plan: str
    first: int
    """The versions of the plan that have it, from ..."""
    last: int
    """... to."""
    begun_us: int
    way: Way
    instead: str
    """The Via that is better by prediction, or :data:`DIRECTLY`."""
    tracks: tuple[int, ...]
    predicted_ms: float
    """Mean round trip of the viewers over the Via, by prediction."""
    against_ms: float
    """The same as it was before."""
    expected_ms: float
    """Median over relays of what their round trips were predicted to differ: relays judge it."""
    judged: Judged | None = None


class Correction(NamedTuple):
    """What is added to the prediction of a way."""

    rtt_ms: float
    stalled: float
    """Share of time that its viewers stand still."""


NOTHING: Final = Correction(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lessons:
    """What is known from trials at a moment."""

    now_us: int
    trials: Mapping[Way, Trial] = field(default_factory=dict)
    corrections: Mapping[Way, Correction] = field(default_factory=dict)
    """What is added to predictions; the Via of a direct way is :data:`DIRECTLY`."""

    @classmethod
    def at(cls, now_us: int, trials: Iterable[Trial]) -> Lessons:
        """Those that still count; of two of one way the later."""
        found: dict[Way, Trial] = {}
        for trial in sorted(trials, key=lambda item: item.begun_us):
            if now_us - _end(trial) < LASTS_US:
                found[trial.way] = trial
        return cls(now_us=now_us, trials=found, corrections=_corrections(now_us, found.values()))

    def going_on(self, way: Way, tracks: Collection[int], plan: tuple[str, int] | None) -> bool:
        """Whether the plan in force tries it, and nobody can say yet what comes of it."""
        trial = self.trials.get(way)
        return (
            trial is not None
            and trial.judged is None
            and (trial.plan, trial.last) == plan
            and not set(trial.tracks).isdisjoint(tracks)
            and self.now_us - trial.begun_us < LONGEST_US
        )

    def words(self, way: Way) -> str:
        """What is known of a way, in one sentence; empty if it was not tried."""
        trial = self.trials.get(way)
        if trial is None:
            return ""
        begun = f"tried on {_day(trial.begun_us)}"
        judged = trial.judged
        if judged is None:
            return f"{begun}, not judged"
        said = [f"{judged.hours} hours, {judged.witnesses} relays"]
        if judged.latency is not None and judged.p50_ms is not None:
            before = judged.p50_ms - judged.latency.change
            said.append(f"p50 {judged.p50_ms:.0f} ms behind live against {before:.0f} ms")
        if judged.stalls is not None and judged.stalls.beyond(0.0):
            said.append(f"{judged.stalls.change:+.2%} of the time stalled")
        if judged.witnesses < WITNESSES:
            said.append(f"fewer than {WITNESSES} relays report, so it counts for nothing")
            return f"{begun}: {', '.join(said)}"
        rtt, stalled = self.corrections.get(way, NOTHING)
        if abs(rtt) >= 0.5:
            said.append(f"counts as {abs(rtt):.0f} ms {'longer' if rtt > 0 else 'shorter'}")
        elif not stalled:
            said.append("as predicted")
        return f"{begun}: {', '.join(said)}"

    def digest(self) -> str:
        """SHA-256 of what they change, hexadecimal; empty if nothing."""
        rows = [(*way, *map(_round, value)) for way, value in sorted(self.corrections.items())]
        return hashlib.sha256(repr(rows).encode()).hexdigest() if rows else ""


def _corrections(now_us: int, trials: Iterable[Trial]) -> dict[Way, Correction]:
    """By way: what trials add to predictions."""
    against: dict[Way, list[tuple[Trial, Correction]]] = {}
    for trial in trials:
        error = _error(now_us, trial)
        if error is not None:
            against.setdefault(trial.way._replace(via=trial.instead), []).append((trial, error))
    found: dict[Way, list[tuple[float, Correction]]] = {}
    for base, compared in against.items():
        rtt, stalled = (median(part) / 2 for part in zip(*(e for _, e in compared), strict=True))
        usual = median(trial.against_ms for trial, _ in compared)
        found.setdefault(base, []).append((usual, Correction(-rtt, -stalled)))
        for trial, error in compared:
            rest = Correction(error.rtt_ms - rtt, error.stalled - stalled)
            found.setdefault(trial.way, []).append((trial.predicted_ms, rest))
    sums = {way: _sum(parts) for way, parts in found.items()}
    return {way: total for way, total in sums.items() if total != NOTHING}


def _sum(parts: Sequence[tuple[float, Correction]]) -> Correction:
    """What one way is told, as one who was tried and as one others were compared with; bounded."""
    most = _MOST * min(predicted for predicted, _ in parts)
    rtt = sum(part.rtt_ms for _, part in parts)
    stalled = sum(part.stalled for _, part in parts)
    return Correction(max(-most, min(most, rtt)), max(-_MOST, min(_MOST, stalled)))


def _error(now_us: int, trial: Trial) -> Correction | None:
    """How far the prediction was off, of what was tried against what it was compared with."""
    judged = trial.judged
    if judged is None or judged.witnesses < WITNESSES:
        return None
    # Whole days: a plan that is made a minute later is made from the same.
    days = max(0, now_us - judged.at_us) // _DAY_US
    fresh = max(0.0, 1 - days * _DAY_US / LASTS_US)
    rtt = stalled = 0.0
    if judged.latency is not None:
        rtt = judged.latency.beyond(trial.expected_ms, 2.0)
    if judged.stalls is not None:
        stalled = judged.stalls.beyond(0.0)
    return Correction(rtt * fresh, stalled * fresh)


def _end(trial: Trial) -> int:
    return trial.begun_us if trial.judged is None else trial.judged.at_us


def _round(value: float) -> float:
    """To what a plan could depend on."""
    return round(value, 3) if math.isfinite(value) else value


def _day(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d}"
