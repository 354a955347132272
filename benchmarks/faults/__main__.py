"""Apply faults to a small network of relays, and account for every object.

    python -m faults                                 all kinds, 10 events each: about half an hour
    python -m faults --only drain-via --times 1      one kind, one event: half a minute
    python -m faults --only kill-via --tracks 4      a lighter load
    python -m faults --set network.hold=1s           relays with another configuration
    python -m faults --json faults.json              everything that was measured

Each kind is a run of its own: 3 Edges, 2 Vias and a control server as processes on loopback, 20
tracks at 50 objects/s in groups of 25, and 23 subscriptions at other Edges than the publishers'.
Every subscription must satisfy: delivered + reported missing = published. The exit code is 1 if one
does not, if objects come twice, in a wrong order or damaged, or if a subscription ends before its
track; with --no-loss also if any object is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from faults.kinds import KINDS, Load
from faults.processes import FaultsError
from faults.run import SUBSCRIBERS, Options, Result, run_kind

_USAGE: Final = 2
_TERMINATED: Final = 143
_INTERRUPTED: Final = 130


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as network.hold=1s")
    return key, value


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{number:g} is not more than 0")
    return number


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    kinds = "\n".join(f"  {name:16} {kind.help}" for name, kind in KINDS.items())
    made = argparse.ArgumentParser(
        prog="python -m faults",
        description=__doc__,
        epilog=f"kinds (the load of pause-* is fixed):\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--only", nargs="+", choices=list(KINDS), metavar="KIND", help="only these kinds; see below"
    )
    number: dict[str, Any] = {"type": _at_least_one, "metavar": "N"}
    seconds: dict[str, Any] = {"type": _positive, "metavar": "SECONDS"}
    add = made.add_argument
    add("--times", default=10, help="events of each kind (10)", **number)
    add("--tracks", default=20, help="published tracks (20)", **number)
    add("--subscriptions", help="subscriptions (3 more than tracks)", **number)
    add("--rate", type=_positive, default=50.0, metavar="N", help="objects/s of each track (50)")
    add("--size", default=200, help="bytes of an object (200)", **number)
    add("--pause", default=30.0, help="how long a subscriber pauses (30)", **seconds)
    add("--quiet-every", default=40.0, help="time between quiet objects (40)", **seconds)
    add("--quiet-for", default=120.0, help="length of the quiet run (120)", **seconds)
    made.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="configuration of all relays, such as network.hold=1s; may be repeated",
    )  # fmt: skip
    made.add_argument("--no-loss", action="store_true", help="fail also if any object is lost")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    made.add_argument("--keep", type=Path, metavar="DIR", help="keep histories and logs here")
    return made


def options_for(name: str, arguments: argparse.Namespace, begin: float) -> Options:
    """Return the options of one run."""
    load = KINDS[name].load
    if load is None:
        load = Load(
            tracks=arguments.tracks,
            subscriptions=arguments.subscriptions or arguments.tracks + 3,
            rate=arguments.rate,
            size=arguments.size,
        )

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begin:7.1f} s  {name}: {line}", file=sys.stderr, flush=True)

    return Options(
        load=load,
        times=arguments.times,
        pause=arguments.pause,
        quiet_every=arguments.quiet_every,
        quiet_for=arguments.quiet_for,
        settings=dict(arguments.settings),
        tell=tell,
    )


def table(results: Sequence[Result], *, no_loss: bool) -> str:
    """Return the figures as text."""
    columns = (
        f"{'kind':16} {'events':>6} {'published':>9} {'delivered':>9} {'lost':>7}"
        f" {'unreported':>10} {'doubled':>7} {'reordered':>9} {'corrupt':>7} {'late':>6}"
        f" {'ended':>5} {'pause p50/max s':>16} {'recovery p50/max s':>18}  sum"
    )
    lines = [columns]
    for each in results:
        sums = each.total
        lines.append(
            f"{each.kind:16} {sums.events:6} {sums.published:9} {sums.delivered:9} {sums.lost:7}"
            f" {sums.unreported:10} {sums.doubled:7} {sums.reordered:9} {sums.corrupt:7}"
            f" {sums.late:6} {sums.ended:5}"
            f" {f'{sums.pause_p50:.2f} / {sums.pause_max:.2f}':>16}"
            f" {f'{sums.recovery_p50:.2f} / {sums.recovery_max:.2f}':>18}"
            f"  {'exact' if each.exact else f'BROKEN at {sums.broken} of {sums.subscriptions}'}"
            f"{', ENDED EARLY' if sums.ended else ''}"
        )
    for each in results:
        sums = each.total
        if sums.invented:
            lines.append(f"{each.kind}: {sums.invented} numbers were reported that never existed")
        if each.unrecovered:
            lines.append(f"{each.kind}: no full recovery after {each.unrecovered} events")
        lines += [f"{each.kind}: ended early: {words}" for words in each.ends]
        if no_loss and sums.lost:
            lines.append(f"{each.kind}: {sums.lost} objects were lost")
        late = f"timers of clients fired late: p99 {each.lateness_p99 * 1000:.0f} ms"
        late += f", at most {each.lateness_max * 1000:.0f} ms"
        if each.slow:
            late += ": THE MACHINE WAS TOO SLOW, pauses and recovery times include its own"
        lines.append(f"{each.kind}: {late}")
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> str:
    """Return everything that was measured as JSON."""
    rows = [
        {**asdict(each), "exact": each.exact, "passed": each.passed, "slow": each.slow}
        for each in results
    ]
    return json.dumps(rows, indent=1)


async def run_all(arguments: argparse.Namespace, folder: Path) -> list[Result]:
    """Run the kinds one after the other; SIGTERM stops them as Ctrl-C does."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    begin = time.monotonic()
    results = []
    for name in arguments.only or KINDS:
        options = options_for(name, arguments, begin)
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        result = await run_kind(name, KINDS[name], options, place)
        results.append(result)
        options.tell("passed" if result.passed else "FAILED")
        if arguments.json:
            arguments.json.write_text(as_json(results), encoding="utf-8")
    return results


def main(words: Sequence[str] | None = None) -> int:
    """Run, print the table, and return the exit code."""
    made = parser()
    arguments = made.parse_args(words)
    if (arguments.subscriptions or 0) > SUBSCRIBERS * arguments.tracks:
        made.error(f"--subscriptions: at most {SUBSCRIBERS} for each track")
    with tempfile.TemporaryDirectory(prefix="laps-faults-") as temporary:
        try:
            results = asyncio.run(run_all(arguments, arguments.keep or Path(temporary)))
        except FaultsError as error:
            print(f"faults: {error}", file=sys.stderr)
            return _USAGE
        except KeyboardInterrupt:
            return _INTERRUPTED
        except asyncio.CancelledError:
            return _TERMINATED
    print(table(results, no_loss=arguments.no_loss))
    failed = any(not each.passed for each in results)
    return int(failed or (arguments.no_loss and any(each.total.lost for each in results)))


if __name__ == "__main__":
    raise SystemExit(main())
