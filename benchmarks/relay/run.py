"""What a delivered gigabyte costs: ours, a plain aioquic relay and moq-rs, in one run.

    python -m relay.run                       the headline: 1200 B on streams, ten subscribers
    python -m relay.run --shapes              other sizes, datagrams, 1, 50 and 500 subscribers
    python -m relay.run --relays ours plain   only these
    python -m relay.run --json out.json       everything that was measured

The relay has one core, the load the other. CPU is the relay's own (user and system) while objects
flow; delivered objects are verified (order, count, no doubles) in every run. Machines differ and
are shared: compare the ratios inside one run, on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
GIGA = 1e9

RELAYS: dict[str, tuple[list[str], bool, dict[str, str]]] = {
    # name: module and arguments behind certificate and key; whether it is plain; environment
    "plain": (["relay.plain"], True, {}),
    "ours-stock": (["relay.edge", "aioquic-stock"], False, {}),
    "ours": (["relay.edge", "aioquic"], False, {}),
    "ours-qh3": (["relay.edge", "qh3"], False, {}),
    "moq-rs": (["relay.moq_rs"], False, {}),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What is sent to how many."""

    size: int = 1200
    subscribers: int = 10
    datagrams: bool = False
    per_group: int = 50
    push: bool = False
    """Whether the publisher writes on although the relay does not keep up."""

    def __str__(self) -> str:
        kind = "datagrams" if self.datagrams else "streams"
        return f"{self.size} B, {kind}, {self.subscribers} subscribers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run."""

    relay: str
    shape: str
    rate: float
    written: int
    delivered: int
    share: float
    """Delivered of what was written."""
    taken: float
    """Written of what was to be: less than 1 if the relay held the publisher back."""
    disorder: int
    least: int
    most: int
    cpu: float
    cpu_per_gb: float
    us_per_object: float
    delivered_a_second: float
    p50_ms: float | None
    p99_ms: float | None
    rss_idle: int
    rss_loaded: int
    load_busy: float
    """How busy the load's core was: near 1 the load was the limit, not the relay."""
    relay_busy: float


def cpu_of(pid: int) -> float:
    """User and system seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_of(pid: int) -> int:
    """Resident bytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def environment(extra: dict[str, str]) -> dict[str, str]:
    """So that ``-m relay.x`` finds us."""
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **extra, "PYTHONPATH": path}


def pin(core: int) -> list[str]:
    """A command prefix that keeps a process on one core, where that can be done."""
    return ["taskset", "-c", str(core)] if (os.cpu_count() or 1) > 1 else []


@contextmanager
def running(name: str, certificate: str, key: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A relay on the first core; gives it and its port."""
    (module, *arguments), _, extra = RELAYS[name]
    process = subprocess.Popen(
        [*pin(0), sys.executable, "-m", module, certificate, key, *arguments],
        stdout=subprocess.PIPE, text=True, env=environment(extra),
    )  # fmt: skip
    try:
        if process.stdout is None:
            raise SystemExit("no output")
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{name} did not start")
        yield process, int(line)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def measure(name: str, shape: Shape, rate: float, seconds: float, files: tuple[str, str]) -> Result:
    """One run of one relay at one rate."""
    with running(name, *files) as (relay, port):
        time.sleep(0.3)
        rss_idle = rss_of(relay.pid)
        command = [
            *pin(1), sys.executable, "-m", "relay.load",
            "--port", str(port), "--rate", str(rate), "--seconds", str(seconds),
            "--size", str(shape.size), "--subscribers", str(shape.subscribers),
            "--per-group", str(shape.per_group),
            *(["--plain"] if RELAYS[name][1] else []),
            *(["--datagrams"] if shape.datagrams else []),
            *(["--push"] if shape.push else []),
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment({})
        ) as load:
            if load.stdout is None:
                raise SystemExit("no output")
            if not load.stdout.readline():
                raise SystemExit(f"the load for {name} failed")
            before = cpu_of(relay.pid)
            said = json.loads(load.stdout.readline() or "null")
            cpu = cpu_of(relay.pid) - before
            rss_loaded = rss_of(relay.pid)
        if said is None:
            raise SystemExit(f"the load for {name} ended early")
    due = said["written"] * shape.subscribers
    return Result(
        relay=name,
        shape=str(shape),
        rate=rate,
        written=said["written"],
        delivered=said["delivered"],
        share=said["delivered"] / due if due else 0.0,
        taken=said["written"] / max(1, said["wanted"]),
        disorder=said["disorder"],
        least=said["least"],
        most=said["most"],
        cpu=cpu,
        cpu_per_gb=cpu / said["bytes"] * GIGA if said["bytes"] else float("inf"),
        us_per_object=cpu / said["delivered"] * 1e6 if said["delivered"] else float("inf"),
        delivered_a_second=said["delivered"] / said["seconds"],
        p50_ms=said["p50_ms"],
        p99_ms=said["p99_ms"],
        rss_idle=rss_idle,
        rss_loaded=rss_loaded,
        load_busy=said["load_cpu"] / said["seconds"],
        relay_busy=cpu / said["seconds"],
    )


def show(result: Result) -> None:
    """One line for people."""
    delay = "-" if result.p50_ms is None else f"{result.p50_ms:7.1f} {result.p99_ms:8.1f}"
    print(
        f"{result.relay:11} {result.shape:34} {result.rate:8.0f}/s "
        f"{result.delivered_a_second:9.0f} delivered/s "
        f"{result.taken:4.0%} taken {result.share:6.1%} "
        f"{result.cpu_per_gb:7.1f} CPU s/GB {result.us_per_object:7.1f} us "
        f"p50/p99 {delay} ms  RSS {result.rss_loaded >> 20} MiB "
        f"relay {result.relay_busy:.0%} load {result.load_busy:.0%} "
        f"least/most {result.least}/{result.most}"
        + (f"  DISORDER {result.disorder}" if result.disorder else ""),
        flush=True,
    )


def find_limit(
    name: str, shape: Shape, start: float, files: tuple[str, str], seconds: float
) -> list[Result]:
    """Raise the rate until not all is taken and delivered; the last passed row is the limit."""
    rows: list[Result] = []
    rate, step = start, 2.0
    for _ in range(12):
        result = measure(name, shape, rate, seconds, files)
        show(result)
        if result.share >= 0.98 and result.taken >= 0.95:
            rows.append(result)
            rate *= step
        else:
            if step < 1.3:
                break
            step = step**0.5
            rate = (rows[-1].rate if rows else rate / 2) * step
            if not rows and rate < 5:
                break
    return rows


def make_certificate(folder: str) -> tuple[str, str]:
    """A certificate for localhost."""
    from laps_sdk.quic.tls import dev_certificate  # noqa: PLC0415 - slow to import

    made = dev_certificate(["localhost", "127.0.0.1"])
    certificate, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
    certificate.write_bytes(made.certificate_pem)
    key.write_bytes(made.key_pem)
    return str(certificate), str(key)


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--relays", nargs="+", choices=list(RELAYS), default=list(RELAYS))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=250.0, help="the equal load, objects/s")
    parser.add_argument("--limit", action="store_true", help="also search each relay's limit")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--push", action="store_true", help="overload: do not hold back")
    parser.add_argument("--subscribers", type=int, default=10)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        files = make_certificate(folder)
        headline = Shape(subscribers=arguments.subscribers, push=arguments.push)
        shapes = [headline]
        if arguments.shapes:
            shapes += [
                Shape(size=100),
                Shape(size=16384, per_group=10),
                Shape(datagrams=True),
                Shape(size=100, datagrams=True),
                Shape(subscribers=1),
                Shape(subscribers=50),
                Shape(subscribers=500),
            ]
        for shape in shapes:
            rate = arguments.rate if shape.subscribers < 50 else arguments.rate * 2 / 50
            for name in arguments.relays:
                result = measure(name, shape, rate, arguments.seconds, files)
                show(result)
                rows.append(result)
        if arguments.limit:
            for name in arguments.relays:
                found = find_limit(name, headline, arguments.rate, files, arguments.seconds)
                rows += found
                if found:
                    top = found[-1].rate
                    for share in (0.1, 0.5, 0.9):
                        result = measure(name, headline, top * share, arguments.seconds, files)
                        show(result)
                        rows.append(result)
    base = {row.shape: row.cpu_per_gb for row in rows if row.relay == "plain"}
    print("\nCPU per GB against the plain relay at the same rate (first rows):")
    for row in rows[: len(arguments.relays) * len(shapes)]:
        if row.shape in base:
            print(f"  {row.relay:11} {row.shape:34} 1/{base[row.shape] / row.cpu_per_gb:.1f}")
    # A plain relay costs the same at any rate that it can take; ours less, the more there is to do.
    if base:
        print("CPU per GB against the plain relay, each at the highest rate that it delivered:")
        best = {row.relay: row for row in rows if row.shape == str(headline) and row.share >= 0.98}
        plain = best.get("plain") or next(row for row in rows if row.relay == "plain")
        for name, row in best.items():
            print(f"  {name:11} {row.rate:6.0f}/s 1/{plain.cpu_per_gb / row.cpu_per_gb:.1f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if any(row.disorder for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
