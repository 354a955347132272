"""What Spark costs: the same questions to Spark (cold, warm), DuckDB, Polars and pandas.

    python -m analytics.cost --rows 1M                        from the folder benchmarks
    python -m analytics.cost --rows 1M 10M 50M --png cost.png --json cost.json

Each measurement is a process of its own. CPU is user and system time of it and its children (the
JVM of Spark), so it holds on a machine that others use too; wall time does not. *Cold* is the first
run with the start of the engine, *warm* the same again in the same process: for Spark the last of a
few times (until they took 150 s of CPU, or four), since the compiler of a JVM works for several.
Peak is the largest resident memory of the process and its children together. Data lies in
``--data``, made once. What ``--json`` has already is not measured again: a run that was cut off
goes on, and tasks and sizes can be added.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from analytics.cost_data import lines, silver
from analytics.cost_tasks import ENGINES, TASKS, task_of, tidy

_TICK = os.sysconf("SC_CLK_TCK")
_ROUNDS = {"spark": 4}
"""Warm runs at most; others have one."""
_LONG = 150.0
"""CPU seconds of warm runs after which there is no other."""
_FOLDER = Path(__file__).resolve().parent.parent


def number(text: str) -> int:
    """``10M`` as a number."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1].lower(), 1)
    return int(float(text[:-1] if scale > 1 else text) * scale)


# Inside of a measured process


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def cpu_of(root: int) -> float:
    """User and system time of a process and its living and dead children."""
    total = 0.0
    for process in _family(root):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / _TICK
    return total


def _resident(root: int) -> float:
    total = 0
    for process in _family(root):
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(engine: str, task: str, folder: Path) -> dict[str, Any]:
    """One engine, one task, in this process: cold and warm."""
    root, peak, over = os.getpid(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], _resident(root))

    threading.Thread(target=watch, daemon=True).start()
    out = Path(tempfile.mkdtemp(prefix="cost-"))
    result: dict[str, Any] = {}
    try:
        # The start of the engine belongs to the cold run: what its modules cost, too.
        work: list[Callable[[], int]] = []
        spent = 0.0
        for name in ("cold", *("warm",) * _ROUNDS.get(engine, 1)):
            if spent > _LONG:
                break
            wall, cpu = time.monotonic(), 0.0 if name == "cold" else cpu_of(root)
            if not work:
                work.append(task_of(engine, task, folder, out))
            rows = work[0]()
            result[name] = {
                "wall": time.monotonic() - wall,
                "cpu": cpu_of(root) - cpu,
                "rows": rows,
            }
            spent += result[name]["cpu"] if name == "warm" else 0.0
    finally:
        over.set()
        tidy(out)
    return result | {"peak_mb": max(peak[0], _resident(root))}


# Outside


def run(engine: str, task: str, folder: Path) -> dict[str, Any]:
    """A measurement in a process of its own."""
    said = subprocess.run(
        [sys.executable, "-m", "analytics.cost", "--measure", engine, task, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=_FOLDER,
        env=os.environ | {"POLARS_MAX_THREADS": "2", "OMP_NUM_THREADS": "2"},
    )
    if said.returncode:
        return {"failed": (said.stderr.strip().splitlines() or ["?"])[-1][:200]}
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


def table(results: list[dict[str, Any]]) -> str:
    """Markdown: CPU seconds and memory, and what a million rows more cost."""
    head = (
        "| task | rows | engine | CPU s cold | CPU s warm | wall s cold | wall s warm | peak MB |"
    )
    out = [head, "|---|---|---|---|---|---|---|---|"]
    for item in results:
        shown = f"| {item['task']} | {item['rows']:,} | {item['engine']} |"
        if "failed" in item:
            out.append(f"{shown} {item['failed']} | | | | |")
            continue
        cold, warm = item["cold"], item["warm"]
        out.append(
            f"{shown} {cold['cpu']:.1f} | {warm['cpu']:.1f} | {cold['wall']:.1f} |"
            f" {warm['wall']:.1f} | {item['peak_mb']:,.0f} |"
        )
    growth = _growth(results)
    if growth:
        out += ["", "| task | engine | from | to | CPU warm, times | µs a row more |"]
        out += ["|---|---|---|---|---|---|", *growth]
    ratios = _ratios(results)
    if ratios:
        out += ["", "| task | rows | Spark warm by DuckDB warm, CPU |", "|---|---|---|", *ratios]
    return "\n".join(out)


def _warm(results: list[dict[str, Any]]) -> dict[tuple[str, str], dict[int, float]]:
    found: dict[tuple[str, str], dict[int, float]] = {}
    for item in results:
        if "failed" not in item:
            key = (item["task"], item["engine"])
            found.setdefault(key, {})[item["rows"]] = item["warm"]["cpu"]
    return found


def _growth(results: list[dict[str, Any]]) -> list[str]:
    lines_out = []
    for (task, engine), by_rows in _warm(results).items():
        sizes = sorted(by_rows)
        for low, high in pairwise(sizes):
            times = by_rows[high] / max(by_rows[low], 1e-3)
            more = (by_rows[high] - by_rows[low]) / (high - low) * 1e6
            lines_out.append(
                f"| {task} | {engine} | {low:,} | {high:,} | {times:.1f} | {more:.2f} |"
            )
    return lines_out


def _ratios(results: list[dict[str, Any]]) -> list[str]:
    warm = _warm(results)
    return [
        f"| {task} | {rows:,} | {cpu / max(other[rows], 1e-3):.1f} |"
        for (task, engine), by_rows in warm.items()
        if engine == "spark" and (other := warm.get((task, "duckdb"))) is not None
        for rows, cpu in sorted(by_rows.items())
        if rows in other
    ]


def _order(item: dict[str, Any]) -> tuple[int, int, int]:
    return TASKS.index(item["task"]), item["rows"], ENGINES.index(item["engine"])


_COLOURS = dict(zip(ENGINES, ("#c1440e", "#2a6f97", "#5a8f3c", "#8a5aa8"), strict=True))


def picture(results: list[dict[str, Any]], path: Path) -> None:
    """CPU, CPU for a row, and memory, against rows; a column for each task."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    results = [item for item in results if "failed" not in item]
    tasks = [task for task in TASKS if any(item["task"] == task for item in results)]
    figure, panels = plt.subplots(
        3, len(tasks), figsize=(3.6 * len(tasks), 8.4), squeeze=False, constrained_layout=True
    )
    measures: list[tuple[str, Callable[[dict[str, Any], str], float]]] = [
        ("CPU seconds", lambda item, run: float(item[run]["cpu"])),
        ("CPU µs for a row", lambda item, run: float(item[run]["cpu"] / item["rows"] * 1e6)),
        ("peak memory, MB", lambda item, _: float(item["peak_mb"])),
    ]
    for (label, value), row in zip(measures, panels, strict=True):
        for panel, task in zip(row, tasks, strict=True):
            mine = [item for item in results if item["task"] == task]
            for engine in ENGINES:
                items = sorted(
                    (item for item in mine if item["engine"] == engine),
                    key=lambda item: int(item["rows"]),
                )
                x = [item["rows"] / 1e6 for item in items]
                colour = _COLOURS[engine]
                if items:
                    warm = [max(value(item, "warm"), 1e-3) for item in items]
                    panel.plot(x, warm, "o-", color=colour, label=engine)
                if items and engine == "spark" and "memory" not in label:
                    cold = [value(item, "cold") for item in items]
                    panel.plot(x, cold, "o--", color=colour, alpha=0.5, label="spark, cold")
            sizes = sorted({item["rows"] / 1e6 for item in mine})
            panel.set(xscale="log", yscale="log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            panel.yaxis.set_minor_locator(NullLocator())
            panel.set_xticks(sizes, [f"{size:g}" for size in sizes])
            panel.set_xticks([], minor=True)
            panel.grid(visible=True, which="major", alpha=0.3)
        row[0].set_ylabel(label)
    for task, top, bottom in zip(tasks, panels[0], panels[-1], strict=True):
        top.set_title(task)
        bottom.set_xlabel("million rows")
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=5, fontsize="small", frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description="What Spark costs beside other engines.")
    parser.add_argument("--rows", nargs="+", type=number, default=[1_000_000])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--lines-at-most", type=number, default=10_000_000, help="for `lines`")
    parser.add_argument("--pandas-at-most", type=number, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "laps-cost")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path, help="or .svg")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        engine, task, folder = given.measure
        print(json.dumps(measure(engine, task, Path(folder))))
        return
    results = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    known = {(item["task"], item["rows"], item["engine"]) for item in results}
    for rows in given.rows:
        folder = given.data / str(rows)
        folder.mkdir(parents=True, exist_ok=True)
        if set(given.tasks) - {"lines"}:
            silver(folder, rows)
        for task in given.tasks:
            if task == "lines":
                if rows > given.lines_at_most:
                    continue
                lines(folder, rows)
            for engine in given.engines:
                if engine in {"polars", "pandas"} and task == "gold":
                    continue
                if engine == "pandas" and rows > given.pandas_at_most:
                    continue
                if (task, rows, engine) in known:
                    continue
                found = run(engine, task, folder)
                results.append({"task": task, "rows": rows, "engine": engine, **found})
                print(f"{task} {rows:,} {engine}: {found}", file=sys.stderr)
                if given.json:
                    given.json.write_text(json.dumps(results, indent=1))
    results = sorted((item for item in results if item["task"] in given.tasks), key=_order)
    print(table(results))
    if given.png:
        picture(results, given.png)


if __name__ == "__main__":
    main()
