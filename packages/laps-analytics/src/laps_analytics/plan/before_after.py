"""Compare the time before a plan with the time after it, from the tables of a lake.

:mod:`.core.measure` has the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.gold.build import gold_name
from laps_analytics.lake import Lake
from laps_analytics.plan.columns import batches, between, summed
from laps_analytics.plan.core.measure import Verdict, Window, matched
from laps_analytics.plan.core.revert import Part

__all__ = ["METRICS", "WAN_METRICS", "before_and_after", "hours_after", "worse_parts"]

METRICS: Final = {
    "latency": "latency_p95_ms",
    "startup": "startup_p95_ms",
    "stalls": "stall_ratio",
}
"""Metric to its column in ``qoe_region_1m``."""

WAN_METRICS: Final = {
    "wan": ("wan_bytes", "delivered"),
    "copies": ("wan_bytes", "ideal_wan_bytes"),
}
"""Metric to numerator and denominator: bytes between regions by delivered bytes, and by the ideal.

The ideal is one copy for each region, so the second is the duplication factor. Both are measured
for the whole network, because a copy serves several regions.
"""

_HOUR_US: Final = 3_600_000_000
_ALL: Final = Part()


class _Hour(NamedTuple):
    """Reports of a region and class in an hour, before or after the plan."""

    after: bool
    at_us: int
    region: str
    scope: str
    reports: float
    weighed: float
    """Sum of the values, each weighted by its number of reports."""


def before_and_after(
    lake: Lake,
    at_us: int,
    *,
    days: int = 14,
    settle_us: int = 60_000_000,
    counts: Callable[[int], bool] = lambda _: True,
) -> dict[str, dict[Part, Verdict]]:
    """Compare hours before and after a moment, by metric and part.

    Parts are the whole network, each region, and each class in a region with several classes. With
    more regions the confidence level of each is higher (Bonferroni), and so for classes. Of the
    hours after the moment only those count for which ``counts`` is true. WAN metrics are compared
    for the whole network.
    """
    begin = at_us - days * 24 * _HOUR_US
    found: dict[str, dict[Part, Verdict]] = {}
    for metric, column in METRICS.items():
        hours = _hours(lake, column, begin, at_us, settle_us)
        parts = _parts([hour for hour in hours if not hour.after or counts(hour.at_us)])
        regions = sum(1 for part in parts if part.region is not None and part.scope is None)
        classes = sum(1 for part in parts if part.scope is not None)
        found[metric] = {
            part: matched(
                _windows([hour for hour in hours if not hour.after]),
                _windows([hour for hour in hours if hour.after]),
                level=0.95
                if part == _ALL
                else 1 - 0.05 / (regions if part.scope is None else classes),
            )
            for part, hours in sorted(parts.items(), key=lambda item: _order(item[0]))
        }
    return found | _wan(lake, begin, at_us, settle_us, counts)


def hours_after(lake: Lake, at_us: int, *, settle_us: int = 60_000_000) -> list[int]:
    """Return the hours after a moment for which viewers reported."""
    hours = _hours(lake, "reports", at_us, at_us, settle_us)
    return sorted({hour.at_us for hour in hours if hour.after})


def worse_parts(found: Mapping[str, Mapping[Part, Verdict]]) -> dict[Part, list[str]]:
    """Return what got worse, by part. Higher WAN cost counts only if viewers gained nothing."""
    better = any(found[metric][_ALL].word == "better" for metric in METRICS)
    worse: dict[Part, list[str]] = {}
    for metric, by_part in found.items():
        for part, verdict in by_part.items():
            if verdict.revert and not (better and metric in WAN_METRICS):
                worse.setdefault(part, []).append(metric)
    return worse


def _wan(
    lake: Lake, begin: int, at_us: int, settle_us: int, counts: Callable[[int], bool]
) -> dict[str, dict[Part, Verdict]]:
    """Compare the WAN metrics by hours; empty without their tables."""
    sums: dict[tuple[bool, int], dict[str, float]] = {}
    fanout = ("track_bytes", "wan_bytes", "ideal_wan_bytes")
    for table, columns in (("track_fanout_5m", fanout), ("traffic_1m", ("delivered",))):
        parts = _bytes(lake, table, columns, begin, at_us, settle_us)
        rows = summed(parts, ("after", "hour"), columns)
        for row in [] if rows is None else rows.to_pylist():
            found = sums.setdefault((row["after"], row["hour"]), {})
            found.update({name: float(row[name] or 0) for name in columns})
    windows: dict[str, dict[bool, list[Window]]] = {}
    for (after, hour), found in sorted(sums.items()):
        for metric, (top, bottom) in WAN_METRICS.items():
            if (after and not counts(hour)) or top not in found or not found.get(bottom):
                continue
            demand = found["track_bytes"]
            window = Window(hour, demand, found[top] / found[bottom])
            windows.setdefault(metric, {}).setdefault(after, []).append(window)
    return {
        metric: {_ALL: matched(by.get(False, []), by.get(True, []))}
        for metric, by in windows.items()
    }


def _bytes(
    lake: Lake, name: str, columns: tuple[str, ...], begin: int, at_us: int, settle_us: int
) -> Iterator[pa.Table]:
    """Yield rows of a table before and after; ``delivered`` is the bytes sent to clients."""
    clients = columns == ("delivered",)
    names = ("window_start", *(("out_peer", "out_bytes") if clients else columns))
    for rows in batches(lake.table(gold_name(name)), names, times=("window_start",)):
        chosen = rows
        if clients:
            chosen = rows.filter(pc.equal(pc.coalesce(rows["out_peer"], ""), ""))
            chosen = chosen.rename_columns(["window_start", "out_peer", "delivered"])
        for after, first, last in (
            (False, begin, at_us - 1),
            (True, at_us + settle_us, 1 << 62),
        ):
            part = between(chosen, "window_start", first, last)
            hour = pc.multiply(pc.divide(part["window_start"], _HOUR_US), _HOUR_US)
            values = {column: pc.coalesce(part[column], 0) for column in columns}
            yield pa.table(
                {"after": pa.repeat(pa.scalar(after), part.num_rows), "hour": hour, **values}
            )


def _order(part: Part) -> tuple[bool, str, str]:
    return part.region is not None, part.region or "", part.scope or ""


def _hours(lake: Lake, column: str, begin: int, at_us: int, settle_us: int) -> list[_Hour]:
    """Return sums of the minutes by hour, region and class."""

    def parts() -> Iterator[pa.Table]:
        names = tuple(dict.fromkeys(("window_start", "region", "class", "reports", column)))
        table = lake.table(gold_name("qoe_region_1m"))
        for rows in batches(table, names, times=("window_start",)):
            known = pc.and_(pc.is_valid(rows[column]), pc.greater(rows["reports"], 0))
            chosen = rows.filter(known)
            for after, part in (
                (False, between(chosen, "window_start", begin, at_us - 1)),
                (True, between(chosen, "window_start", at_us + settle_us, 1 << 62)),
            ):
                reports = part["reports"].cast(pa.float64())
                hour = pc.multiply(pc.divide(part["window_start"], _HOUR_US), _HOUR_US)
                yield pa.table(
                    {
                        "after": pa.repeat(pa.scalar(after), part.num_rows),
                        "hour": hour,
                        "region": pc.coalesce(part["region"], ""),
                        "class": pc.coalesce(part["class"], ""),
                        "reports": reports,
                        "weighed": pc.multiply(reports, part[column].cast(pa.float64())),
                    }
                )

    found = summed(parts(), ("after", "hour", "region", "class"), ("reports", "weighed"))
    return [
        _Hour(
            row["after"], row["hour"], row["region"], row["class"], row["reports"], row["weighed"]
        )
        for row in ([] if found is None else found.to_pylist())
    ]


def _parts(hours: list[_Hour]) -> Mapping[Part, list[_Hour]]:
    found: dict[Part, list[_Hour]] = {_ALL: []}
    classes: dict[str, set[str]] = {}
    for hour in hours:
        classes.setdefault(hour.region, set()).add(hour.scope)
    for hour in hours:
        found[_ALL].append(hour)
        found.setdefault(Part(hour.region), []).append(hour)
        if len(classes[hour.region]) > 1:
            found.setdefault(Part(hour.region, hour.scope), []).append(hour)
    return found


def _windows(hours: list[_Hour]) -> list[Window]:
    """Return one window for each hour, with the mean value weighted by reports."""
    sums: dict[int, list[float]] = {}
    for hour in hours:
        part = sums.setdefault(hour.at_us, [0.0, 0.0])
        part[0] += hour.reports
        part[1] += hour.weighed
    return [Window(at, part[0], part[1] / part[0]) for at, part in sorted(sums.items())]
