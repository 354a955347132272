"""Before and after a plan, from the tables of a lake; see ``core.measure``."""

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
"""What is compared, and the column of ``qoe_region_1m``."""

WAN_METRICS: Final = {
    "wan": ("wan_bytes", "delivered"),
    "copies": ("wan_bytes", "ideal_wan_bytes"),
}
"""What plans make small: bytes between regions by bytes that clients got, and by what one copy for
each region would need (the duplication factor). Of everything: a copy serves several regions."""

_HOUR_US: Final = 3_600_000_000
_ALL: Final = Part()


class _Hour(NamedTuple):
    """What was reported in an hour, before or after the plan, of a region and a class."""

    after: bool
    at_us: int
    region: str
    scope: str
    reports: float
    weighed: float
    """Sum of the value, times the reports that it is of."""


def before_and_after(
    lake: Lake,
    at_us: int,
    *,
    days: int = 14,
    settle_us: int = 60_000_000,
    counts: Callable[[int], bool] = lambda _: True,
) -> dict[str, dict[Part, Verdict]]:
    """By metric and part: hours before a moment against those after it.

    Parts are all, each region, and each class in a region that has more than one. With many of them
    one would look worse by chance, so the more regions there are, the surer a verdict about one has
    to be (Bonferroni), and so for the classes in regions. Of the hours after the moment only those
    count for which ``counts`` says so. What goes between regions is judged as a whole.
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
    """The hours after a moment of which viewers reported anything."""
    hours = _hours(lake, "reports", at_us, at_us, settle_us)
    return sorted({hour.at_us for hour in hours if hour.after})


def worse_parts(found: Mapping[str, Mapping[Part, Verdict]]) -> dict[Part, list[str]]:
    """By part, what got worse; but that it got dearer only if viewers have nothing for it."""
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
    """What plans make small, by hours; nothing without the tables that say it."""
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
    """Rows of a table before and after; ``delivered`` is what relays sent to their clients."""
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
    """Sums over the minutes: as many as hours, regions and classes, whatever tenants there are."""

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
    """Hours, each with all reports of its minutes: the mean of the value, weighed by them."""
    sums: dict[int, list[float]] = {}
    for hour in hours:
        part = sums.setdefault(hour.at_us, [0.0, 0.0])
        part[0] += hour.reports
        part[1] += hour.weighed
    return [Window(at, part[0], part[1] / part[0]) for at, part in sorted(sums.items())]
