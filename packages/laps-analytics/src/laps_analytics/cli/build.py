"""``laps-analytics build`` and ``laps-analytics bill``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from pyspark.sql import Row

from laps_analytics.cli.common import (
    AsJson,
    LakeFolder,
    Master,
    Memory,
    NoProgress,
    Remote,
    session_maker,
    teller,
)
from laps_analytics.errors import UsageError
from laps_analytics.gold.build import Built, build, days_of, gold_name, read_gold
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.usage import latest, reconcile
from laps_analytics.lake import Lake

__all__ = ["bill", "build_gold"]

Days: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--day", help="A day, yyyy-mm-dd; may be given again.", show_default=False),
]
DimensionFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dimensions",
        help="Classes, tenants and capacities, TOML or CSV.  [default: those of the last time]",
        show_default=False,
    ),
]


def build_gold(
    lake: LakeFolder,
    *,
    day: Days = None,
    every_day: Annotated[
        bool, typer.Option("--all", help="Every day of the lake; the default without --day.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; may be given again.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Build days too that did not change.")
    ] = False,
    dimensions: DimensionFile = None,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Build gold tables from silver: only days that changed since they were built."""
    if every_day and day:
        raise UsageError("--all and --day exclude each other: every day, or these")
    place = Lake.open(lake)
    facts = None if dimensions is None else Dimensions.read(dimensions)
    tell = teller(no_progress)
    done = build(
        session_maker(master, remote, memory)(),
        place,
        day or None,
        dimensions=facts,
        tables=table,
        again=again,
        progress=lambda name, step, steps: tell(f"{step}/{steps} {name}".rstrip()),
    )
    typer.echo(json.dumps([_plain(item) for item in done]) if as_json else _text(done))


def _plain(item: Built) -> dict[str, Any]:
    return {
        "table": item.table,
        "days": list(item.days),
        "seconds": round(item.seconds, 3),
        "version": item.version,
    }


def _text(done: list[Built]) -> str:
    lines = []
    for item in done:
        count = len(item.days)
        days = "as it was"
        if count:
            span = item.days[0] if count == 1 else f"{item.days[0]} to {item.days[-1]}"
            days = f"{count} day{'s' if count > 1 else ''} built, {span}, {item.seconds:.1f} s"
        lines.append(f"{item.table:18} {days}")
    return "\n".join(lines)


def bill(
    lake: LakeFolder,
    *,
    day: Days = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant.", show_default=False)
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Every version that was stated, not the last.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    as_json: AsJson = False,
) -> None:
    """Show what tenants used, and whether that reconciles with the relays' own counters."""
    place = Lake.open(lake)
    # Bills outlive what they were made from: what silver still has can be compared.
    stated_days = {
        dt for (dt,) in place.table(gold_name("usage_tenant_day")).snapshot().partitions("dt")
    }
    days = day or sorted(stated_days)
    there = sorted({*days} & {*days_of(place)})
    spark = session_maker(master, remote, memory)()
    usage = read_gold(spark, place, "usage_tenant_day", days)
    stated = usage if versions else latest(usage)
    if tenant is not None:
        stated = stated.where(stated["tenant"] == tenant)
    rows = stated.orderBy("dt", "tenant", "version").collect()
    if not rows:
        raise UsageError(f"nothing was stated for that in {lake}: `laps-analytics build` first")
    traffic = read_gold(spark, place, "traffic_1d", there)
    billed = read_gold(spark, place, "usage_tenant_day", there)
    silver = Silver.of_lake(spark, place)
    checks = reconcile(silver, there, billed, traffic).orderBy("dt", "check", "subject").collect()
    if as_json:
        plain = {
            "usage": [row.asDict() for row in rows],
            "reconciled": [row.asDict() for row in checks],
        }
        typer.echo(json.dumps(plain))
        return
    typer.echo(_bill_text(rows))
    sys.stderr.write(_checks_text(checks) + "\n")


def _bill_text(rows: list[Row]) -> str:
    names = (
        *("dt", "tenant", "version", "in_bytes", "out_bytes", "link_bytes"),
        *("watched_ms", "peak_sessions", "p95_bps"),
    )
    shown = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if index < 2 else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (list(names), *shown)
    )


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
