"""The command ``laps-analytics bill``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import Row

from laps_analytics.cli.build import Days
from laps_analytics.cli.common import (
    AsJson,
    LakeFolder,
    Master,
    Memory,
    Remote,
    check_days,
    session_maker,
)
from laps_analytics.errors import GateError, UsageError
from laps_analytics.gold.build import days_of, read_gold
from laps_analytics.gold.builders.usage import MUST_BE_EQUAL, latest, reconcile
from laps_analytics.gold.silver import Silver
from laps_analytics.lake import Lake

if TYPE_CHECKING:
    from laps_analytics.report.gold import Gold

__all__ = ["TelemetryCoverage", "coverage_of", "require_equal", "show_bill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryCoverage:
    """How much of a day's telemetry arrived. A bill does not count missing events."""

    dt: str
    expected: int
    """Events by the sequence numbers of the relays; 0 if no check ran for the day."""
    missing: int
    """Expected events that did not arrive."""
    silent: int
    """Hours in which a relay wrote nothing although peers measured it."""

    @property
    def provisional(self) -> bool:
        """Whether missing telemetry may still change the bill of the day."""
        return self.missing > 0 or self.silent > 0 or self.expected == 0

    @property
    def description(self) -> str:
        """The missing telemetry as text."""
        if self.expected == 0:
            return "not checked"
        parts = []
        if self.missing:
            parts.append(f"{self.missing:,} events missing ({self.missing / self.expected:.2%})")
        if self.silent:
            parts.append(f"relays silent for {self.silent:,} h")
        return ", ".join(parts)


def coverage_of(gold: Gold, days: Sequence[str]) -> dict[str, TelemetryCoverage]:
    """Return the telemetry coverage of each day, read from ``quality_1h``."""
    rows = gold.of_days(
        "quality_1h",
        ("dt", "check", "expected", "seen", "ok"),
        days=days,
        where={"check": ("telemetry_gap", "silent")},
    )
    found = {}
    for day in days:
        part = rows[rows["dt"] == day]
        gaps, silent = (part[part["check"] == name] for name in ("telemetry_gap", "silent"))
        missing = (gaps["expected"] - gaps["seen"]).clip(lower=0)
        found[day] = TelemetryCoverage(
            dt=day,
            expected=int(gaps["expected"].sum()),
            missing=int(missing.sum()),
            silent=int((~silent["ok"].astype(bool)).sum()),
        )
    return found


def show_bill(
    lake: LakeFolder,
    *,
    day: Days = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant.", show_default=False)
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Every version of a bill, not only the last.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    as_json: AsJson = False,
) -> None:
    """Show the usage of each tenant, and check it against the byte counters of the relays.

    A day with missing telemetry is marked provisional. The command exits with code 3 if the bill
    and the counters differ.
    """
    # Pandas takes a second to load, and the other commands do without.
    from laps_analytics.report.gold import read_gold as read_plain  # noqa: PLC0415

    check_days(day)
    maker = session_maker(master, remote, memory)
    place = Lake.open(lake)
    plain = read_plain(place)
    stated_days = plain.all_days("usage_tenant_day")
    days = day or sorted(stated_days)
    # Bills outlive what they were made from: what silver still has can be compared.
    there = sorted({*days} & {*days_of(place)})
    if not set(stated_days) & set(days):
        known = f"{stated_days[0]} to {stated_days[-1]}" if stated_days else "no day"
        raise UsageError(
            f"{lake} has bills of {known}: name another day, or run `laps-analytics build` first"
        )
    spark = maker()
    usage = read_gold(spark, place, "usage_tenant_day", days)
    stated = usage if versions else latest(usage)
    if tenant is not None:
        stated = stated.where(stated["tenant"] == tenant)
    rows = stated.orderBy("dt", "tenant", "version").collect()
    if not rows:
        raise UsageError(f"{lake} has no bill of tenant {tenant}: name another tenant")
    silver = Silver.of_lake(spark, place)
    traffic = read_gold(spark, place, "traffic_1d", there)
    billed = read_gold(spark, place, "usage_tenant_day", there)
    checks = reconcile(silver, there, billed, traffic).orderBy("dt", "check", "subject").collect()
    coverage = coverage_of(plain, sorted({row["dt"] for row in rows}))
    if as_json:
        typer.echo(json.dumps(_plain(rows, checks, coverage)))
    else:
        typer.echo(_bill_text(rows, coverage))
        sys.stderr.write(_checks_text(checks) + "\n")
    require_equal(checks)


def require_equal(checks: Sequence[Any]) -> None:
    """Raise :class:`GateError` if a bill differs from the counters of the relays."""
    apart = [row for row in checks if row["check"] in MUST_BE_EQUAL and not row["equal"]]
    if apart:
        first = apart[0]
        raise GateError(
            f"the bill and the relays' counters differ in {len(apart)} checks, first on"
            f" {first['dt']} ({first['check']}, {first['subject']}, by"
            f" {first['billed'] - first['counted']:,} bytes): run `laps-analytics build` again"
        )


def _plain(
    rows: Sequence[Row], checks: Sequence[Row], coverage: Mapping[str, TelemetryCoverage]
) -> dict[str, list[dict[str, Any]]]:
    return {
        "usage": [{**row.asDict(), "provisional": coverage[row["dt"]].provisional} for row in rows],
        "reconciled": [row.asDict() for row in checks],
        "telemetry": [
            {**asdict(item), "provisional": item.provisional} for item in coverage.values()
        ],
    }


def _bill_text(rows: Sequence[Any], coverage: Mapping[str, TelemetryCoverage]) -> str:
    names = (
        *("dt", "tenant", "version", "in_bytes", "out_bytes", "link_bytes"),
        *("watched_ms", "peak_sessions", "p95_bps"),
    )
    shown = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    state = [_state(coverage[row["dt"]]) for row in rows]
    return "\n".join(
        "  ".join(
            [
                *(
                    text.ljust(width) if index < 2 else text.rjust(width)
                    for index, (text, width) in enumerate(zip(line, widths, strict=True))
                ),
                last,
            ]
        ).rstrip()
        for line, last in zip((list(names), *shown), ("state", *state), strict=True)
    )


def _state(coverage: TelemetryCoverage) -> str:
    return f"provisional: {coverage.description}" if coverage.provisional else "final"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value) or "-"


def _checks_text(checks: list[Row]) -> str:
    lines = []
    for row in checks:
        apart = row["billed"] - row["counted"]
        word = "equal to the byte" if row["equal"] else f"apart by {apart:,}"
        lines.append(
            f"{row['dt']}  {row['check']}, {row['subject']}:"
            f" {row['billed']:,} and {row['counted']:,}, {word}"
        )
    return "\n".join(lines)
