"""What became of trials: the viewers of the tracks that were tried on, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.lake import Lake
from laps_analytics.plan.core.compose import TRIAL
from laps_analytics.plan.core.lessons import Judged, Measured, Way
from laps_analytics.plan.core.measure import Verdict, Window, witnessed
from laps_analytics.plan.reading import by_partition, summed
from laps_analytics.plan.viewers import COLUMNS, SESSION, is_posted, one_viewer
from laps_wire.plan import Plan

__all__ = ["Outcome", "Tried", "judged", "trials_of"]

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
Windows = list[Window]
_SUMS: Final = ("latency_ms", "heard", "stall_ms", "window_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial, and when relays followed a plan that has it."""

    way: Way
    tracks: tuple[int, ...]
    since_us: int
    counts: Callable[[int], bool] = lambda _: True
    """Whether an hour after that counts, by its begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a trial."""

    way: Way
    tracks: tuple[int, ...]
    verdicts: Mapping[str, Verdict]
    """Of the delay behind live, and of the share of time that playback stalled."""
    p50_ms: float | None
    """Median delay while it was tried; None if no player says."""
    until_us: int
    """The end of the last hour that counts; 0 without one."""

    @property
    def judged(self) -> Judged | None:
        """What the next plans can learn from it; None if it is too early to tell."""
        latency, stalls = (self.verdicts[name] for name in ("latency", "stalls"))
        if not (latency.enough or stalls.enough):
            return None
        known = latency if latency.enough else stalls
        return Judged(
            at_us=self.until_us,
            hours=known.pairs,
            witnesses=known.witnesses,
            p50_ms=self.p50_ms,
            latency=_measured(latency),
            stalls=_measured(stalls),
        )


def _measured(verdict: Verdict) -> Measured | None:
    if not verdict.enough:
        return None
    return Measured(verdict.change, verdict.low, verdict.high)


def trials_of(plan: Plan) -> dict[Way, tuple[int, ...]]:
    """What a plan tries, and on which tracks."""
    found: dict[Way, tuple[int, ...]] = {}
    for entry in plan.entries:
        if entry.reason.startswith(TRIAL) and entry.tracks is not None:
            way = Way(str(entry.origin), entry.region, entry.scope, str(entry.via))
            found[way] = (*found.get(way, ()), *entry.tracks)
    return found


def judged(
    lake: Lake, trials: Sequence[Tried], *, days: int = 14, settle_us: int = 60_000_000
) -> list[Outcome]:
    """What came of each trial: hours before against those after relays followed it.

    A trial is about few tracks, so it is measured by their viewers' own reports: the mean delay
    behind live, and the share of time that playback stalled. Each relay is compared with itself,
    by the median of its viewers' delays, and of each hour the median over relays counts: neither a
    viewer nor a relay that lies has more than one vote. The more trials there are, the surer a
    verdict about one has to be (Bonferroni).
    """
    if not trials:
        return []
    seen = [_Seen() for _ in trials]
    _read(lake, trials, seen, days * _DAY_US, settle_us)
    level = 1 - 0.05 / len(trials)
    return [_outcome(trial, part, level) for trial, part in zip(trials, seen, strict=True)]


@dataclass(slots=True)
class _Hour:
    """A relay's hour: what each of its viewers had."""

    delays: list[float] = field(default_factory=list)
    stalled: float = 0.0
    watched: float = 0.0

    def value(self, metric: str) -> float | None:
        if metric == "latency":
            return median(self.delays) if self.delays else None
        return self.stalled / self.watched if self.watched else None


@dataclass(slots=True)
class _Seen:
    """What was reported of a trial."""

    hours: dict[str, dict[tuple[bool, int], _Hour]] = field(default_factory=dict)
    """By relay: before or after, and the begin of an hour."""
    viewers: dict[tuple[bool, int], int] = field(default_factory=dict)

    def windows(self, metric: str, counts: Callable[[int], bool]) -> list[tuple[Windows, Windows]]:
        """By relay: the hours before, and those after that count."""
        found: list[tuple[Windows, Windows]] = []
        for _, hours in sorted(self.hours.items()):
            found.append(([], []))
            for (after, at), hour in sorted(hours.items()):
                value = hour.value(metric)
                if value is not None and (not after or counts(at)):
                    # The demand of all: at one relay a viewer more or less would be much.
                    found[-1][after].append(Window(at, self.viewers[after, at], value))
        return found


def _outcome(trial: Tried, seen: _Seen, level: float) -> Outcome:
    by_relay = {metric: seen.windows(metric, trial.counts) for metric in ("latency", "stalls")}
    delays: dict[int, list[float]] = {}
    for _, after in by_relay["latency"]:
        for window in after:
            delays.setdefault(window.start_us, []).append(window.value)
    ends = [part[1][-1].start_us for parts in by_relay.values() for part in parts if part[1]]
    return Outcome(
        way=trial.way,
        tracks=trial.tracks,
        verdicts={metric: witnessed(parts, level=level) for metric, parts in by_relay.items()},
        p50_ms=median(map(median, delays.values())) if delays else None,
        until_us=max(ends, default=-_HOUR_US) + _HOUR_US,
    )


def _read(
    lake: Lake, trials: Sequence[Tried], seen: Sequence[_Seen], before_us: int, settle_us: int
) -> None:
    """Add up the reports about tracks that are tried on, an hour of the lake at a time."""
    number_of = {
        (f"{track:016x}", trial.way.region): number
        for number, trial in enumerate(trials)
        for track in trial.tracks
    }
    tracks = pa.array(sorted({track for track, _ in number_of}))
    since = np.array([trial.since_us for trial in trials])
    first = f"{datetime.fromtimestamp((int(since.min()) - before_us) / 1e6, UTC):%Y-%m-%d}"
    columns = (*COLUMNS, "latency_ms", "stall_ms", "window_ms")

    def wanted(rows: pa.Table) -> pa.Table:
        # What was sent elsewhere may not know which track it is about: its relay does.
        return rows.filter(pc.or_(pc.is_in(rows["track"], tracks), is_posted(rows)))

    def parts() -> Iterator[pa.Table]:
        for rows in by_partition(
            lake.table("silver/client_report"),
            columns,
            where=lambda file: file.partition["dt"] >= first,
            times=("ts",),
            chosen=wanted,
        ):
            yield _numbered(one_viewer(rows), number_of, since, before_us, settle_us)

    for part in parts():
        found = summed(iter([part]), ("trial", "after", "hour", *SESSION), _SUMS)
        for row in [] if found is None else found.to_pylist():
            about, hour = seen[row["trial"]], (row["after"], row["hour"])
            about.viewers[hour] = about.viewers.get(hour, 0) + 1
            own = about.hours.setdefault(row["relay"], {}).setdefault(hour, _Hour())
            own.stalled += row["stall_ms"]
            own.watched += row["window_ms"]
            if row["heard"]:
                own.delays.append(row["latency_ms"] / row["heard"])


def _numbered(
    rows: pa.Table,
    number_of: Mapping[tuple[str, str], int],
    since: np.ndarray[tuple[int], np.dtype[np.int64]],
    before_us: int,
    settle_us: int,
) -> pa.Table:
    """The rows of trials: which one, before or after, and the hour."""
    pairs = zip(rows["track"].to_pylist(), rows["region"].to_pylist(), strict=True)
    trial = np.array(
        [number_of.get((track, region or ""), -1) for track, region in pairs], dtype=np.int64
    )
    at = rows["ts"].to_numpy()
    moment = since[trial]
    after = at >= moment + settle_us
    known = (trial >= 0) & (after | ((at < moment) & (at >= moment - before_us)))
    return pa.table(
        {
            "trial": trial,
            "after": after,
            "hour": at // _HOUR_US * _HOUR_US,
            **{name: rows[name] for name in SESSION},
            "latency_ms": pc.coalesce(rows["latency_ms"].cast(pa.float64()), 0.0),
            "heard": pc.is_valid(rows["latency_ms"]).cast(pa.float64()),
            "stall_ms": pc.coalesce(rows["stall_ms"].cast(pa.float64()), 0.0),
            "window_ms": rows["window_ms"].cast(pa.float64()),
        }
    ).filter(pa.array(known))
