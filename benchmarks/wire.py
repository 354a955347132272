"""How fast laps_wire reads and writes: messages and bytes a second, for each kind of message.

    python benchmarks/wire.py                  every row
    python benchmarks/wire.py moqt-16 varint   rows whose name contains one of the words
    python benchmarks/wire.py --json           one object a row

Machines differ and are shared, so times are CPU times, each the best of several repeats (noise only
ever adds time), and each row is also given as a multiple of a baseline that is measured in turns
with it: unpacking four 64-bit numbers with ``struct`` and making one slotted dataclass of them,
about the least that a decoded message can cost in Python. Compare the multiples, not the times.
"""

from __future__ import annotations

import argparse
import gc
import json
import struct
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import Case, all_cases

REPEATS = 7
SECONDS_A_REPEAT = 0.02

_QUAD = struct.Struct(">QQQQ")
_QUAD_BYTES = _QUAD.pack(1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Quad:
    """Four numbers: what the baseline decodes."""

    a: int
    b: int
    c: int
    d: int


def baseline() -> Quad:
    """The least that decoding a message can cost."""
    return Quad(*_QUAD.unpack_from(_QUAD_BYTES, 0))


def loops_for(timer: timeit.Timer) -> int:
    """How many calls make one repeat long enough to measure."""
    loops = 1
    while (taken := timer.timeit(loops)) < SECONDS_A_REPEAT / 4:
        loops *= 4
    return max(1, int(loops * SECONDS_A_REPEAT / taken))


def best(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds for one call of ``function`` and of the baseline, measured in turns."""
    timers = [timeit.Timer(each, timer=time.process_time) for each in (function, baseline)]
    loops = [loops_for(timer) for timer in timers]
    lowest = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        for index, timer in enumerate(timers):
            lowest[index] = min(lowest[index], timer.timeit(loops[index]) / loops[index])
    return lowest[0], lowest[1]


@dataclass(frozen=True, slots=True)
class Row:
    """One measured direction of one case."""

    name: str
    direction: str
    bytes: int
    microseconds: float
    per_second: float
    megabytes_per_second: float
    baseline_ratio: float


def measure(cases: list[Case]) -> Iterator[Row]:
    """Both directions of every case."""
    for case in cases:
        for direction, function in (("encode", case.encode), ("decode", case.decode)):
            if function is None:
                continue
            seconds, reference = best(function)
            seconds /= case.units
            yield Row(
                name=case.name,
                direction=direction,
                bytes=case.size,
                microseconds=seconds * 1e6,
                per_second=1 / seconds,
                megabytes_per_second=case.size / seconds / 1e6,
                baseline_ratio=seconds / reference,
            )


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    arguments = parser.parse_args(argv)
    cases = [
        case
        for case in all_cases()
        if not arguments.words or any(word in case.name for word in arguments.words)
    ]
    if not cases:
        names = ", ".join(case.name for case in all_cases())
        parser.error(f"no row is called {' or '.join(arguments.words)}; rows: {names}")
    gc.disable()
    if not arguments.json:
        print(f"{'row':44} {'':6} {'bytes':>6} {'us':>8} {'msg/s':>10} {'MB/s':>8} {'x base':>7}")
    for row in measure(cases):
        if arguments.json:
            print(json.dumps({field: getattr(row, field) for field in row.__slots__}))
        else:
            print(
                f"{row.name:44} {row.direction:6} {row.bytes:>6} {row.microseconds:>8.2f}"
                f" {row.per_second:>10,.0f} {row.megabytes_per_second:>8.1f}"
                f" {row.baseline_ratio:>7.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
