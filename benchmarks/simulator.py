"""What a simulated network costs, and how that grows with the number of its relays.

    python benchmarks/simulator.py                    30 to 1,000 relays
    python benchmarks/simulator.py 12 60 200          these numbers
    python benchmarks/simulator.py --json             one object a row

Each network is one seed of planned changes on the shape ``dense`` (every relay has four links or
so), in a process of its own. Memory for each relay is what that process had at most, less what a
network of four relays needs. A path vector's work grows with relays x links: every relay hears of
every other one over each of its links.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Final

SIZES: Final = (30, 100, 200, 500, 1000)
EMPTY: Final = 4
"""Relays of the network whose memory counts as that of the program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network."""

    relays: int
    links: int
    events: int
    deliveries: int
    breaks: int
    cpu: float
    """Seconds."""
    rss_kib: float
    """What the process had at most."""
    convergence: float
    """The longest time from a change of sessions to the last route, in virtual seconds."""


def run(relays: int, seed: int = 1) -> Row:
    """Simulate one network in a process of its own."""
    words = ["run", "--seeds", str(seed), "--relays", str(relays), "--kind", "planned", "--json"]
    command = [sys.executable, "-c", "from laps_relay.cli.sim import app; app()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        said = b"" if process.stdout is None else process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    lines = [json.loads(line) for line in said.splitlines()]
    if len(lines) < 2:  # one for the network, one for the sums
        raise SystemExit(f"the simulation of {relays} relays did not run")
    outcome, figures = lines[0], lines[-1]["figures"]
    return Row(
        relays=outcome["relays"],
        links=outcome["links"],
        events=outcome["events"],
        deliveries=outcome["deliveries"],
        breaks=figures["breaks"],
        cpu=outcome["cpu"],
        rss_kib=float(used.ru_maxrss),
        convergence=outcome["convergence"],
    )


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), metavar="RELAYS")
    parser.add_argument("--json", action="store_true", help="one object a row")
    arguments = parser.parse_args()
    program = run(EMPTY).rss_kib
    if not arguments.json:
        print("| relays | links | events | CPU s | ms a relay | events/CPU s | KiB a relay |"
              " longest convergence | breaks |")  # fmt: skip
        print("| --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    broken = 0
    for size in arguments.sizes:
        row = run(size)
        broken += row.breaks
        if arguments.json:
            print(json.dumps(asdict(row)), flush=True)
            continue
        print(
            f"| {row.relays:,} | {row.links:,} | {row.events:,} | {row.cpu:,.1f}"
            f" | {1000 * row.cpu / row.relays:,.0f} | {row.events / row.cpu:,.0f}"
            f" | {(row.rss_kib - program) / row.relays:,.0f} | {1000 * row.convergence:,.0f} ms"
            f" | {row.breaks} |",
            flush=True,
        )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
