"""Before and after a plan, from the tables of a lake; see ``core.measure``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.errors import PlanError
from laps_analytics.gold.build import gold_name
from laps_analytics.lake import Lake
from laps_analytics.plan.core.measure import Verdict, Window, matched
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.reading import batches, between, summed

__all__ = ["METRICS", "accepted_at", "before_and_after"]

METRICS: Final = {
    "latency": "latency_p95_ms",
    "startup": "startup_p95_ms",
    "stalls": "stall_ratio",
}
"""What is compared, and the column of ``qoe_region_1m``."""

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


def accepted_at(lake: Lake, plan_id: str, version: int) -> int:
    """When the first relay followed a version of a plan, microseconds since 1970."""
    columns = ("ts", "plan_id", "plan_version", "outcome")
    times = []
    for rows in batches(lake.table("silver/policy_applied"), columns, times=("ts",)):
        wanted = pc.and_(
            pc.and_(pc.equal(rows["plan_id"], plan_id), pc.equal(rows["plan_version"], version)),
            pc.equal(rows["outcome"], "accepted"),
        )
        first = pc.min(rows.filter(wanted)["ts"]).as_py()
        if first is not None:
            times.append(int(first))
    if not times:
        raise PlanError(f"no relay has reported that it follows {plan_id} version {version}")
    return min(times)


def before_and_after(
    lake: Lake, at_us: int, *, days: int = 14, settle_us: int = 60_000_000
) -> dict[str, dict[Part, Verdict]]:
    """By metric and part: hours before a moment against those after it.

    Parts are all, each region, and each class in a region that has more than one. With many of them
    one would look worse by chance, so the more regions there are, the surer a verdict about one has
    to be (Bonferroni), and so for the classes in regions.
    """
    begin = at_us - days * 24 * _HOUR_US
    found: dict[str, dict[Part, Verdict]] = {}
    for metric, column in METRICS.items():
        parts = _parts(_hours(lake, column, begin, at_us, settle_us))
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
    return found


def _order(part: Part) -> tuple[bool, str, str]:
    return part.region is not None, part.region or "", part.scope or ""


def _hours(lake: Lake, column: str, begin: int, at_us: int, settle_us: int) -> list[_Hour]:
    """Sums over the minutes: as many as hours, regions and classes, whatever tenants there are."""

    def parts() -> Iterator[pa.Table]:
        names = ("window_start", "region", "class", "reports", column)
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
