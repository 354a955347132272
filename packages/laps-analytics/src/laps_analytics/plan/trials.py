"""What became of trials: the viewers of the tracks that were tried on, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.lake import Lake
from laps_analytics.plan.core.compose import TRIAL
from laps_analytics.plan.core.measure import Verdict, Window, matched
from laps_analytics.plan.reading import batches, between, summed
from laps_wire.plan import Plan, PlanEntry

__all__ = ["judged", "trials_of"]

_HOUR_US: Final = 3_600_000_000
_METRICS: Final = {"latency": ("latency_ms", "heard"), "stalls": ("stall_ms", "window_ms")}
"""Of what and by what the mean of an hour is made."""


def trials_of(plan: Plan) -> list[PlanEntry]:
    """The entries that try something."""
    return [
        entry
        for entry in plan.entries
        if entry.reason.startswith(TRIAL) and entry.tracks is not None
    ]


def judged(
    lake: Lake,
    plan: Plan,
    at_us: int,
    *,
    days: int = 14,
    settle_us: int = 60_000_000,
    counts: Callable[[int], bool] = lambda _: True,
) -> list[tuple[PlanEntry, dict[str, Verdict]]]:
    """Each trial, and by metric: hours before a moment against those after it.

    A trial is about few tracks, so it is measured by their viewers' own reports: the mean delay
    behind live, and the share of time that playback stalled. The more trials there are, the surer
    a verdict about one has to be (Bonferroni). Of the hours after the moment only those count for
    which ``counts`` says so.
    """
    trials = trials_of(plan)
    if not trials:
        return []
    hours = _hours(lake, trials, at_us - days * 24 * _HOUR_US, at_us, settle_us)
    found = []
    for entry in trials:
        keys = {(f"{track:016x}", entry.region) for track in entry.tracks or ()}
        rows = [row for row in hours if (row["track"], row["region"]) in keys]
        verdicts = {
            metric: matched(
                _windows([row for row in rows if not row["after"]], *columns),
                _windows([row for row in rows if row["after"] and counts(row["hour"])], *columns),
                level=1 - 0.05 / len(trials),
            )
            for metric, columns in _METRICS.items()
        }
        found.append((entry, verdicts))
    return found


def _hours(
    lake: Lake, trials: Sequence[PlanEntry], begin: int, at_us: int, settle_us: int
) -> list[dict[str, Any]]:
    """Sums of the reports about tracks that are tried on, by hour and region."""
    tracks = pa.array(sorted({f"{track:016x}" for entry in trials for track in entry.tracks or ()}))
    first = f"{datetime.fromtimestamp(begin / 1e6, UTC):%Y-%m-%d}"

    def parts() -> Iterator[pa.Table]:
        for rows in batches(
            lake.table("silver/client_report"),
            ("ts", "region", "track", "latency_ms", "stall_ms", "window_ms"),
            where=lambda file: file.partition["dt"] >= first,
            times=("ts",),
        ):
            chosen = rows.filter(pc.is_in(rows["track"], tracks))
            for after, part in (
                (False, between(chosen, "ts", begin, at_us - 1)),
                (True, between(chosen, "ts", at_us + settle_us, 1 << 62)),
            ):
                yield pa.table(
                    {
                        "after": pa.repeat(pa.scalar(after), part.num_rows),
                        "hour": pc.multiply(pc.divide(part["ts"], _HOUR_US), _HOUR_US),
                        "region": pc.coalesce(part["region"], ""),
                        "track": part["track"],
                        "latency_ms": pc.coalesce(part["latency_ms"].cast(pa.float64()), 0.0),
                        "heard": pc.is_valid(part["latency_ms"]).cast(pa.float64()),
                        "stall_ms": pc.coalesce(part["stall_ms"].cast(pa.float64()), 0.0),
                        "window_ms": part["window_ms"].cast(pa.float64()),
                        "reports": pa.repeat(pa.scalar(1.0), part.num_rows),
                    }
                )

    keys = ("after", "hour", "region", "track")
    sums = ("latency_ms", "heard", "stall_ms", "window_ms", "reports")
    found = summed(parts(), keys, sums)
    return [] if found is None else found.to_pylist()


def _windows(rows: Sequence[dict[str, Any]], of: str, by: str) -> list[Window]:
    sums: dict[int, list[float]] = {}
    for row in rows:
        part = sums.setdefault(row["hour"], [0.0, 0.0, 0.0])
        for at, name in enumerate(("reports", of, by)):
            part[at] += row[name]
    return [Window(at, part[0], part[1] / part[2]) for at, part in sorted(sums.items()) if part[2]]
