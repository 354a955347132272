"""What a day more costs, and what a month of answers costs: one lake, one session of Spark.

    python -m analytics.days                                   from the folder benchmarks
    python -m analytics.days --days 30 --rows 500k --json days.json
    python -m analytics.days --tables qoe_region_1m qoe_region_1h qoe_region_1d

Silver of ``--days`` days and one more, ``--rows`` of each (``hop.stat``, ``quic.sample`` and
``client.report``; other types have no rows, their tables are built all the same). Then, in one
process and after a build of the first day that warms the JVM:

- ``full``: all tables of all days, built again.
- ``full, warm``: the same once more. In the first Java's compiler has work that a later build does
  not have, so this is what the others are compared with.
- ``a new day``: the day after them comes, and what is stale is built.
- ``a late file``: a file comes to the day before the last, and what is stale is built; that day and
  those that look back at it.
- ``nothing new``: a build that finds nothing to do.
- Questions over all days, by the views of ``laps-analytics sql``, once to warm up and then five
  times: from days, hours and the shortest windows.

CPU is user and system time of Python and the JVM together, so it holds on a machine that others
use; wall time does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics.cost import cpu_of, number
from analytics.cost_data import DAY, VIEWERS_TOO, silver
from laps_analytics.cli.sql import make_views
from laps_analytics.gold.build import build
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake
from laps_analytics.schema import table_name
from laps_analytics.spark.session import SessionSettings, spark_session

__all__ = ["FULL", "QUESTIONS", "Bench", "table"]

FULL = "full, warm"
"""The step that others are compared with."""

DIMENSIONS = Dimensions(
    tracks={f"track{n}": TrackFacts(("gold", "silver", "bronze")[n % 3]) for n in range(5)},
    relays={f"r{n}": 1e9 for n in range(40)},
)

_LATENCY = """
SELECT region, class, kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(latency_kll), 0.95D) AS
    p95, hll_sketch_estimate(hll_union_agg(sessions_hll)) AS sessions,
    sum(stalled_ms) / sum(watched_ms) AS stalled FROM gold_{} GROUP BY ALL
"""
_LINKS = """
SELECT relay, peer, kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(rtt_kll), 0.95D) AS p95,
    sum(lost_packets) / sum(sent_packets) AS loss, sum(out_bytes) AS bytes
FROM gold_{} WHERE rtt_kll IS NOT NULL GROUP BY ALL
"""
_TRAFFIC = """
SELECT dt, tenant, sum(out_bytes) AS bytes, hll_sketch_estimate(hll_union_agg(tracks_hll)) AS tracks
FROM gold_{} GROUP BY ALL
"""
QUESTIONS = {
    "who hurts: 95 % of latency, viewers, stalls": (
        _LATENCY,
        ("qoe_region_1d", "qoe_region_1h", "qoe_region_1m"),
    ),
    "links: 95 % of round trips, loss, bytes": (
        _LINKS,
        ("link_quality_1d", "link_quality_1h", "link_quality_5m"),
    ),
    "bytes and tracks by day and tenant": (
        _TRAFFIC,
        ("traffic_1d", "traffic_1h", "traffic_1m"),
    ),
}
"""Question to its text, and the tables that can answer it."""


@dataclass(slots=True)
class Bench:
    """A lake of some days, and what was measured on it."""

    spark: SparkSession
    lake: Lake
    days: int
    rows: int
    tables: tuple[str, ...] = tuple(GOLD)
    """Those that are built."""
    times: int = 5
    """How often each question is asked."""
    steps: list[dict[str, Any]] = field(default_factory=list)

    def day(self, index: int) -> str:
        """A day; the first is 0."""
        return str(date.fromisoformat(DAY) + timedelta(days=index))

    def fill(self, index: int, rows: int) -> None:
        """Add rows of a day to silver."""
        with tempfile.TemporaryDirectory(dir=self.lake.root.parent) as place:
            silver(Path(place), rows, self.day(index), VIEWERS_TOO)
            for kind in VIEWERS_TOO:
                silver_table = self.lake.table(f"silver/{table_name(kind)}")
                silver_table.commit(Path(place) / kind, base=silver_table.snapshot())

    def run(self) -> dict[str, Any]:
        """All of it; figures."""
        for index in range(self.days):
            self.fill(index, self.rows)
        self._step("first day, cold", [self.day(0)])
        self._step("full", again=True)
        full = self._step(FULL, again=True)
        self.fill(self.days, self.rows)
        new = self._step("a new day")
        self.fill(self.days - 1, self.rows // 20)
        late = self._step("a late file")
        self._step("nothing new")
        return {
            "days": self.days,
            "rows": self.rows,
            "steps": self.steps,
            "full_by_new": full["cpu"] / new["cpu"],
            "full_by_late": full["cpu"] / late["cpu"],
            "questions": [
                self.ask(question, text.format(name), name)
                for question, (text, names) in QUESTIONS.items()
                for name in names
                if name in self.tables
            ],
        }

    def _step(
        self, name: str, days: list[str] | None = None, *, again: bool = False
    ) -> dict[str, Any]:
        tables: dict[str, float] = {}
        last: list[tuple[str, float]] = []

        def told(table: str, _done: int, _steps: int) -> None:
            now = cpu_of(os.getpid())
            if last:
                tables[last[-1][0]] = round(now - last[-1][1], 2)
            last.append((table, now))

        made: list[Any] = []
        found = _measured(
            lambda: made.extend(
                build(
                    self.spark,
                    self.lake,
                    days,
                    dimensions=DIMENSIONS,
                    tables=self.tables,
                    again=again,
                    progress=told,
                )
            )
        )
        built = sum(len(item.days) for item in made)
        self.steps.append({"step": name, **found, "built": built, "tables": tables})
        return _told(self.steps[-1])

    def ask(self, question: str, text: str, name: str) -> dict[str, Any]:
        """A question, warm: views and all, as the command asks it."""

        def once() -> None:
            make_views(self.spark, self.lake, text)
            rows.append(len(self.spark.sql(text).collect()))

        rows: list[int] = []
        once()
        runs = [_measured(once) for _ in range(self.times)]
        medians = {unit: statistics.median(run[unit] for run in runs) for unit in ("wall", "cpu")}
        most = max(run["wall"] for run in runs)
        return _told(
            {"question": question, "table": name, "rows": rows[-1], **medians, "wall_most": most}
        )


def _told(figures: dict[str, Any]) -> dict[str, Any]:
    """Said at once: a run takes a while, and may be cut off."""
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def _measured(work: Callable[[], None]) -> dict[str, float]:
    wall, cpu = time.monotonic(), cpu_of(os.getpid())
    work()
    return {"wall": time.monotonic() - wall, "cpu": cpu_of(os.getpid()) - cpu}


def table(figures: dict[str, Any]) -> str:
    """Markdown."""
    full = next(item["cpu"] for item in figures["steps"] if item["step"] == FULL)
    out = [
        f"{figures['days']} days of {figures['rows']:,} rows",
        "",
        "| build | days of tables | CPU s | wall s | warm full build by it, CPU |",
        "|---|---|---|---|---|",
        *[
            f"| {item['step']} | {item['built']} | {item['cpu']:.1f} | {item['wall']:.1f} |"
            f" {full / max(item['cpu'], 0.01):.1f} |"
            for item in figures["steps"]
        ],
        "",
        "| question over all days | from | answers | CPU s | wall s, median (most) |",
        "|---|---|---|---|---|",
        *[
            f"| {item['question']} | `{item['table']}` | {item['rows']} | {item['cpu']:.2f} |"
            f" {item['wall']:.2f} ({item['wall_most']:.2f}) |"
            for item in figures["questions"]
        ],
    ]
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", default="500k", help="of a day")
    parser.add_argument("--tables", nargs="+", choices=list(GOLD), default=list(GOLD))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="days-"))
    try:
        spark = spark_session(SessionSettings(master="local[2]"))
        lake = Lake.open(place / "lake", create=True)
        tables = tuple(given.tables)
        figures = Bench(spark, lake, given.days, number(given.rows), tables).run()
        if given.json is not None:
            given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        print(table(figures))
        spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
