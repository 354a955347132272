r"""The chain of commands, from files to a plan, run one way.

::

    ingest --> build --> sql, bill        on Spark: here, --master, spark-submit or --remote
                    \--> report, plan     without Spark, from the tables that the way made

Each command runs in a folder of the way and names its lake without a path: a server of Connect and
workers have other working directories.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.cluster.machines import SPARK, Cluster, connect_server, environment
from scripts.cluster.sources import Sources

__all__ = ["SHORT", "STEPS", "WAYS", "Cost", "run_chain"]

WAYS: Final = ("local", "master", "submit", "connect")
STEPS: Final = ("ingest", "build", "sql", "bill", "report", "plan")
SHORT: Final = ("ingest", "build", "sql", "bill")
PATIENCE: Final = 1800
"""Seconds for one command: a cluster that has no room for an application waits for ever."""

_COMMAND: Final = "from laps_analytics.cli import main; main()"
_WITHOUT_SPARK: Final = frozenset({"report", "plan"})
_OF_BILLS: Final = (
    *("traffic_1m", "traffic_1h", "traffic_1d", "qoe_region_1m", "usage_tenant_day", "quality_1h"),
)
"""What the short chain builds."""
_QUERY: Final = """
WITH said AS (
    SELECT coalesce(region, '') AS region, date_trunc('MINUTE', ts) AS window_start,
        count(*) AS lines
    FROM silver_client_report GROUP BY ALL)
SELECT window_start, region, tenant, class, lines, reports, hll_sketch_estimate(sessions_hll),
    kll_sketch_get_quantile_bigint(latency_kll, 0.5D)
FROM gold_qoe_region_1m JOIN said USING (window_start, region) ORDER BY ALL
"""
"""Silver and gold, times, and what sketches estimate."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a way took."""

    seconds: dict[str, float]
    """By command; ``server`` is the start of Connect."""
    cpu_s: float


def run_chain(
    way: str, root: Path, sources: Sources, on: Cluster, steps: Sequence[str] = STEPS
) -> Cost:
    """Run the commands one way; what they print and write is below the folder of the way."""
    folder = root / way
    folder.mkdir()
    before = on.cpu_seconds()
    took: dict[str, float] = {}
    with ExitStack() as stack:
        options: list[str] = []
        if way == "master":
            options = ["--master", on.url]
        elif way == "connect":
            begin = time.monotonic()
            options = ["--remote", stack.enter_context(connect_server(root, on))]
            took["server"] = time.monotonic() - begin
        for step in steps:
            begin = time.monotonic()
            words = _words(step, sources, short="plan" not in steps)
            if step in _WITHOUT_SPARK:
                started = [sys.executable, "-c", _COMMAND, step, *words]
            elif way == "submit":
                started = [*_submit(folder, on), step, *words]
            else:
                started = [sys.executable, "-c", _COMMAND, step, *words, *options]
            said = _run(started, folder, None if way == "local" else on.conf)
            (folder / f"{step}.out").write_text(said)
            took[step] = time.monotonic() - begin
    return Cost(took, on.cpu_seconds() - before)


def _words(step: str, sources: Sources, *, short: bool) -> list[str]:
    """The arguments of a command."""
    given = {
        "ingest": [str(sources.telemetry), str(sources.late), "--no-progress", "--json"],
        "build": [
            *("--dimensions", str(sources.dimensions), "--no-progress"),
            *(word for name in _OF_BILLS if short for word in ("--table", name)),
        ],
        "sql": [_QUERY, "--format", "csv", "--limit", "0"],
        "bill": ["--json"],
        "report": ["--csv", "numbers", "--json", "numbers"],
        # The world is of a day that is long over, and the simulator knows nothing of Spark.
        "plan": [
            *("--constraints", str(sources.constraints), "--key", str(sources.key)),
            *("--out", "plan.json", "--max-age", "100000000", "--no-simulate", "--json"),
        ],
    }
    return [*given[step], "--lake", "lake"]


def _submit(folder: Path, on: Cluster) -> list[str]:
    program = folder / "analytics.py"
    program.write_text(_COMMAND + "\n")
    return [str(SPARK / "bin" / "spark-submit"), "--master", on.url, str(program)]


def _run(words: list[str], folder: Path, conf: Path | None) -> str:
    """What a command prints that must succeed."""
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            env=environment(conf),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{words} did not end in {PATIENCE} s") from None
    with (folder / "errors.log").open("a") as log:
        log.write(ended.stderr)
    if ended.returncode:
        raise SystemExit(f"{words}:\n{ended.stderr[-6000:]}")
    return ended.stdout
