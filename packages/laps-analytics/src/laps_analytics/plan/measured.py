"""Before and after a plan, from the tables of a lake; see ``core.measure``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from laps_analytics.errors import PlanError
from laps_analytics.gold.build import gold_name
from laps_analytics.lake import Lake
from laps_analytics.lake.rows import read_rows
from laps_analytics.plan.core.measure import Verdict, Window, matched

__all__ = ["METRICS", "accepted_at", "before_and_after"]

METRICS: Final = {
    "latency": "latency_p95_ms",
    "startup": "startup_p95_ms",
    "stalls": "stall_ratio",
}
"""What is compared, and the column of ``qoe_region_1m``."""

_HOUR_US: Final = 3_600_000_000


def accepted_at(lake: Lake, plan_id: str, version: int) -> int:
    """When the first relay followed a version of a plan, microseconds since 1970."""
    times = [
        _us(row["ts"])
        for row in read_rows(lake.table("silver/policy_applied"))
        if (row["plan_id"], row["plan_version"], row["outcome"]) == (plan_id, version, "accepted")
    ]
    if not times:
        raise PlanError(f"no relay has reported that it follows {plan_id} version {version}")
    return min(times)


def before_and_after(
    lake: Lake, at_us: int, *, days: int = 14, settle_us: int = 60_000_000
) -> dict[str, dict[str, Verdict]]:
    """By metric and region (and "all"): hours before a moment against those after it.

    With many regions one of them would look worse by chance, so the more there are, the surer a
    verdict about one of them has to be (Bonferroni).
    """
    begin = at_us - days * 24 * _HOUR_US
    rows = [
        row
        for row in read_rows(lake.table(gold_name("qoe_region_1m")))
        if _us(row["window_start"]) >= begin
    ]
    found: dict[str, dict[str, Verdict]] = {}
    for metric, column in METRICS.items():
        by_region: dict[str, list[Mapping[str, Any]]] = {"all": []}
        for row in rows:
            if row[column] is not None and row["reports"]:
                by_region["all"].append(row)
                by_region.setdefault(row["region"] or "(none)", []).append(row)
        regions = max(1, len(by_region) - 1)
        found[metric] = {
            region: matched(
                _windows([row for row in part if _us(row["window_start"]) < at_us], column),
                _windows(
                    [row for row in part if _us(row["window_start"]) >= at_us + settle_us], column
                ),
                level=0.95 if region == "all" else 1 - 0.05 / regions,
            )
            for region, part in sorted(by_region.items())
        }
    return found


def _windows(rows: Sequence[Mapping[str, Any]], column: str) -> list[Window]:
    """Hours, each with all reports of its minutes: the mean of the value, weighed by them."""
    sums: dict[int, list[float]] = {}
    for row in rows:
        hour = _us(row["window_start"]) // _HOUR_US * _HOUR_US
        part = sums.setdefault(hour, [0.0, 0.0])
        part[0] += row["reports"]
        part[1] += row["reports"] * float(row[column])
    return [Window(at, part[0], part[1] / part[0]) for at, part in sorted(sums.items())]


def _us(moment: datetime) -> int:
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
