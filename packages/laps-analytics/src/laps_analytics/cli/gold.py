"""The commands ``build``, ``report`` and ``bill``: gold tables, and what they answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    check_days,
    parse_day,
    progress_printer,
    session_maker,
)
from laps_analytics.errors import GateError, InputError, UsageError
from laps_analytics.gold.build import Built, build, days_of, read_gold, to_build
from laps_analytics.gold.builders.usage import MUST_BE_EQUAL, latest, reconcile
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.lake import Lake
from laps_analytics.report.gold import Gold
from laps_analytics.report.gold import read_gold as read_plain
from laps_wire.plan import PlanFormatError, loads

__all__ = [
    "TelemetryCoverage",
    "build_gold",
    "coverage_of",
    "report",
    "require_equal",
    "show_bill",
]

# The command build

_Days: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--day", help="A day, yyyy-mm-dd; repeatable.", show_default=False),
]
DimensionFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dimensions",
        help="Classes, tenants and capacities (TOML or CSV); by default those of the last build.",
        show_default=False,
    ),
]


def build_gold(
    lake: LakeFolder,
    *,
    day: _Days = None,
    every_day: Annotated[
        bool,
        typer.Option("--all", help="Every day of the lake; this is the default without --day."),
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; repeatable.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also build days whose input did not change.")
    ] = False,
    dimensions: DimensionFile = None,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Build gold tables from silver tables, for the days whose input changed."""
    if every_day and day:
        raise UsageError("--all and --day exclude each other: give one of them")
    check_days(day)
    maker, progress = session_maker(master, remote, memory), progress_printer(no_progress)
    place = Lake.open(lake)
    facts = None if dimensions is None else Dimensions.read(dimensions)
    # Before Spark is started, which takes a while.
    if not to_build(place, day or None, table)[0]:
        raise UsageError(f"{lake} has no telemetry: run `laps-analytics ingest` first")
    done = build(
        maker(),
        place,
        day or None,
        dimensions=facts,
        tables=table,
        again=again,
        progress=lambda name, step, steps: progress(f"{step}/{steps} {name}".rstrip()),
    )
    typer.echo(
        json.dumps([_plain_result(item) for item in done]) if as_json else _result_text(done)
    )


def _plain_result(item: Built) -> dict[str, Any]:
    return {
        "table": item.table,
        "days": list(item.days),
        "seconds": round(item.seconds, 3),
        "version": item.version,
    }


def _result_text(done: list[Built]) -> str:
    lines = []
    for item in done:
        count = len(item.days)
        days = "as it was"
        if count:
            span = item.days[0] if count == 1 else f"{item.days[0]} to {item.days[-1]}"
            days = f"{count} day{'s' if count > 1 else ''} built, {span}, {item.seconds:.1f} s"
        lines.append(f"{item.table:18} {days}")
    return "\n".join(lines)


# The command report


def report(
    lake: Annotated[Path, typer.Option(help="Folder of the lake; its gold tables must be built.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write the tables as CSV, into this folder.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Also write the tables as JSON, into this folder.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Plan to include; its signature is not checked.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="First day, yyyy-mm-dd; by default the last 24 hours, and the month for usage.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", help="Last day, yyyy-mm-dd; by default the newest.", show_default=False
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Network report",
) -> None:
    """Write an HTML page with answers, plots and tables from the gold tables of a lake.

    The command does not start Spark. It also prints the five main answers.
    """
    # Pictures and tables take a second to load, and the other commands need neither.
    from laps_analytics.plan.effect import history_of  # noqa: PLC0415
    from laps_analytics.report.build import (  # noqa: PLC0415
        export_csv,
        export_json,
        make_report,
        write_page,
    )
    from laps_analytics.report.plans import PlanHistory  # noqa: PLC0415

    shown = None
    if plan is not None:
        try:
            shown = loads(plan.read_bytes()).plan
        except (OSError, PlanFormatError) as error:
            raise InputError(
                f"{plan} is not a readable plan: {error}; name a plan that `laps-analytics"
                " plan --out` wrote"
            ) from None
    first, last = parse_day(since, "--since"), parse_day(until, "--until")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--since {first} is later than --until {last}: name an earlier day")
    place = Lake.open(lake)
    gold = read_plain(place, since=first, until=last)
    moment = gold.until()
    if moment is None:
        before = "" if last is None else f" up to {last}"
        raise UsageError(f"{lake} has no gold tables{before}: run `laps-analytics build` first")
    if first is not None and moment.date() < first:
        raise UsageError(
            f"{lake} has no rows since {first}: its last day is {moment:%Y-%m-%d}, name an"
            " earlier one"
        )
    history = PlanHistory(**history_of(place, gold.span_us()))
    made = make_report(gold, title=title, plan=shown, history=history)
    write_page(made, out)
    written = [out]
    if csv is not None:
        written += export_csv(made, csv)
    if json is not None:
        written += export_json(made, json)
    for _, question, answer in made.answers:
        typer.echo(f"{question} {answer}")
    typer.echo(f"wrote {out} and {len(written) - 1} other files", err=True)


# The command bill


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
    day: _Days = None,
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
        typer.echo(json.dumps(_plain_bill(rows, checks, coverage)))
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


def _plain_bill(
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
