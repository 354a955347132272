"""What a network costs, and how that grows with its relays and with what is subscribed to.

    python benchmarks/simulator.py                       25 to 1,000 relays; to a million subscribes
    python benchmarks/simulator.py --relays 12 60        these networks, and no subscribes
    python benchmarks/simulator.py --subscribes 100000   this number, and no networks
    python benchmarks/simulator.py --json                one object a row

Each network is one seed of planned changes on the shape ``dense`` (every relay has four links or
so), in a process of its own. Memory for each relay is what that process had at most, less what a
network of four relays needs. A path vector's work grows with relays x links: every relay hears of
every other one over each of its links.

Subscribes are held by one table, that of a control server with a hundred Edges
(``benchmarks/control.py``): they come, are passed on, and are withdrawn. Events are both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RELAYS: Final = (25, 50, 100, 200, 400, 1000)
SUBSCRIBES: Final = (10_000, 100_000, 1_000_000)
CONTROL: Final = Path(__file__).with_name("control.py")
EMPTY: Final = 4
"""Relays of the network whose memory counts as that of the program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network, or one table."""

    what: str
    """What there are so many of."""
    number: int
    events: int
    cpu: float
    """Seconds."""
    memory_kib: float
    """All of it, without the program itself."""
    links: int = 0
    convergence: float = 0.0
    """The longest time from a change of sessions to the last route, in virtual seconds."""
    breaks: int = 0

    def cells(self) -> list[str]:
        """For a table."""
        each = 1e6 * self.cpu / self.number
        found = [
            f"{self.number:,} {self.what}",
            f"{self.events:,}",
            f"{self.cpu:,.1f}",
            f"{each / 1000:,.0f} ms" if each >= 1000 else f"{each:,.0f} us",
            f"{self.events / self.cpu:,.0f}",
            f"{self.memory_kib / self.number:,.1f}",
        ]
        if not self.links:
            return [*found, "", "", ""]
        return [*found, f"{self.links:,}", f"{1000 * self.convergence:,.0f} ms", str(self.breaks)]


HEADS: Final = (
    "", "events", "CPU s", "for each", "events/CPU s", "KiB for each", "links",
    "longest convergence", "breaks",
)  # fmt: skip


def network(relays: int, program_kib: float = 0.0, seed: int = 1) -> Row:
    """Simulate one network in a process of its own."""
    words = ["run", "--seeds", str(seed), "--relays", str(relays), "--kind", "planned", "--json"]
    words += ["--topology", "dense"]
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
        what="relays",
        number=outcome["relays"],
        links=outcome["links"],
        events=outcome["events"],
        breaks=figures["breaks"],
        cpu=outcome["cpu"],
        memory_kib=used.ru_maxrss - program_kib,
        convergence=outcome["convergence"],
    )


def table(subscribes: int) -> Row:
    """Fill a table of subscribes and empty it, in a process of its own."""
    command = [sys.executable, str(CONTROL), "--run", str(subscribes)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures = json.loads(done.stdout)
    each = sum(value for name, value in figures.items() if name.endswith("_us"))
    return Row(
        what="subscribes",
        number=subscribes,
        events=2 * subscribes,
        cpu=each * subscribes / 1e6,
        memory_kib=figures["rss_bytes"] * subscribes / 1024,
    )


def rows(relays: Sequence[int], subscribes: Sequence[int]) -> Iterator[Row]:
    """One after the other."""
    if relays:
        program = network(EMPTY).memory_kib
        yield from (network(number, program) for number in relays)
    yield from map(table, subscribes)


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--relays", nargs="+", type=int, metavar="N", help="these networks")
    parser.add_argument("--subscribes", nargs="+", type=int, metavar="N", help="these tables")
    parser.add_argument("--json", action="store_true", help="one object a row")
    options = parser.parse_args()
    everything = options.relays is None and options.subscribes is None
    relays = RELAYS if everything else options.relays or ()
    subscribes = SUBSCRIBES if everything else options.subscribes or ()
    if not options.json:
        print(f"| {' | '.join(HEADS)} |")
        print("| --: " * len(HEADS) + "|")
    broken = 0
    for row in rows(relays, subscribes):
        broken += row.breaks
        print(json.dumps(asdict(row)) if options.json else f"| {' | '.join(row.cells())} |")
        sys.stdout.flush()
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
