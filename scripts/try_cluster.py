"""The whole chain on a cluster: a standalone Spark with two workers, spark-submit, Spark Connect.

    python scripts/try_cluster.py                  all of it: local, master, submit and connect
    python scripts/try_cluster.py local connect    some ways; the others are compared with the first
    python scripts/try_cluster.py --short          ingest, some gold tables, sql and bill
    python scripts/try_cluster.py --keep FOLDER    what is made stays; ways that are there are
                                                   compared, and not run again

Everything runs on this machine, from the wheel of pyspark, in up to seven JVMs, about 6 GiB. Each
way has the same files and a lake of its own: ``ingest``, ``build``, ``sql``, ``bill``, ``report``
and ``plan``. Every row of every table, the bill, the numbers of the report and the plan must be the
same. What does not end in time is ended, with the last lines of every log.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from scripts.cluster.chain import SHORT, STEPS, WAYS, Cost, run_chain  # noqa: E402 - after the path
from scripts.cluster.compare import Made, compare, made_by, unmade  # noqa: E402
from scripts.cluster.machines import Cluster, adopt_orphans, cluster  # noqa: E402
from scripts.cluster.sources import Sources, make_sources  # noqa: E402


def show_logs(root: Path) -> None:
    """The end of what every process of the cluster wrote."""
    for log in sorted((*root.glob("*.log"), *root.glob("worker-*/app-*/*/stderr"))):
        lines = log.read_text(errors="replace").splitlines()[-10:]
        print(f"--- {log.relative_to(root)}", *lines, sep="\n", file=sys.stderr)


def once(way: str, root: Path, sources: Sources, on: Cluster, steps: tuple[str, ...]) -> Cost:
    """Run a way, if it was not run before."""
    note = root / f"{way}.json"
    if note.exists():
        return Cost(**json.loads(note.read_text()))
    shutil.rmtree(root / way, ignore_errors=True)
    cost = run_chain(way, root, sources, on, steps)
    note.write_text(json.dumps(asdict(cost)))
    return cost


def try_all(ways: list[str], root: Path, steps: tuple[str, ...]) -> int:
    """Run the ways and compare them with the first; how many lines differ."""
    sources = make_sources(root / "in")
    first: Made = {}
    apart = 0
    with cluster(root) as on:
        for way in ways:
            cost = once(way, root, sources, on, steps)
            found = made_by(root / way)
            first = first or found
            seen = compare(first, found)
            apart += len(seen.differ)
            if steps == STEPS and (lacking := unmade(found)):
                raise SystemExit(f"{way} did not build {', '.join(lacking)}")
            gold = sum(name.startswith("gold/") for name in found)
            took = ", ".join(f"{step} {seconds:.0f}" for step, seconds in cost.seconds.items())
            print(
                f"{way:8} {seen.rows:6,} rows of {len(first)} tables ({gold} gold) and files, "
                f"{len(seen.differ):,} differ  "
                f"{cost.cpu_s:5.0f} s of CPU, {sum(cost.seconds.values()):5.0f} s ({took})",
                flush=True,
            )
            for line in seen.differ[:8]:
                print(f"  {line[:1000]}")
    return apart


def main() -> None:
    """Try them, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--short", action="store_true", help="ingest, some tables, sql and bill")
    parser.add_argument("--keep", type=Path, help="folder for everything; it stays")
    given = parser.parse_args()
    if unknown := set(given.ways) - set(WAYS):
        parser.error(f"{min(unknown)} is none of {', '.join(WAYS)}")
    root = (given.keep or Path(tempfile.mkdtemp(prefix="laps-cluster-"))).resolve()
    root.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    try:
        apart = try_all(given.ways or list(WAYS), root, SHORT if given.short else STEPS)
    except SystemExit:
        show_logs(root)
        raise
    finally:
        if given.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    if apart:
        raise SystemExit(f"{apart:,} rows are not the same")
    print("the rows are the same")


if __name__ == "__main__":
    main()
