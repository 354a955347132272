"""Compare the digests of simulated runs with the recorded ones, or record them anew.

The digest of a seed covers which bytes the relays sent, over which links and when (see
``laps_relay.sim.net.wires``). ``tests/vectors/simulator_digests.json`` holds the first 16
hexadecimal digits for the seeds 1 to 300. A changed digest is changed behaviour: record it only on
purpose.

::

    python scripts/simulator_digests.py 1:40              # compare; exit code 1 if any differs
    python scripts/simulator_digests.py --record          # write the file for 1:300
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from laps_relay.sim.runner import run_seeds

FILE = Path(__file__).resolve().parent.parent / "tests" / "vectors" / "simulator_digests.json"
DIGITS = 16
LAST = 300


def main() -> int:
    """Play the seeds; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("seeds", nargs="?", default=f"1:{LAST}", help="first:last, or one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--record", action="store_true", help="write the file")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last or first) + 1)
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    different = 0
    for outcome in run_seeds(seeds, jobs=options.jobs):
        if not outcome.ok:
            print(f"seed {outcome.seed} broke: {outcome.problem}", flush=True)
        found, expected = outcome.digest[:DIGITS], recorded.get(str(outcome.seed))
        if found != expected:
            different += 1
            print(f"seed {outcome.seed} ({outcome.topology}): {found}, was {expected}", flush=True)
        recorded[str(outcome.seed)] = found
    print(f"{different} of {len(seeds)} digests differ")
    if not options.record:
        return 1 if different else 0
    rows = {seed: recorded[seed] for seed in sorted(recorded, key=int)}
    FILE.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
