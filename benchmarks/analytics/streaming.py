"""How many events a second a stream takes, and how long an event needs to silver.

    python -m analytics.streaming        from the folder benchmarks: 2,000 events/s for 120 s
    python -m analytics.streaming --rate 10000 --seconds 300 --trigger 5
    python -m analytics.streaming --rates 1000 2000 5000     until one is not sustained
    python -m analytics.streaming --json                     one object, or a list with --rates

A thread writes a finished file every second, as a relay would, with events of now, and deletes the
oldest, as relays do. The delay of an event is from the end of its file to the moment when the batch
with it is done: in bronze, and in its silver table. Before that, some files warm the JVM.

A rate is sustained if it was really offered (all files were written in their seconds, but for one
in twenty), and the files of the last third wait no longer than those of the first, but for one
trigger. What is kept is counted in files and bytes at the middle and at the end: all of
``_ingest`` (Spark's checkpoint, lists, the journal, what waits), and the files of bronze and silver
with their logs. Rows are there to stay; everything else must not grow with the number of events.
CPU is that of all: Python, the JVM, and this writer; it holds on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from analytics.cost import cpu_of
from laps_analytics.ingest.run import Summary
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake, Table
from laps_analytics.spark.session import SessionSettings, spark_session
from laps_wire.telemetry import (
    Body,
    CacheStat,
    ClientReport,
    Event,
    HopStat,
    MsHistogram,
    QuicSample,
    dump_line,
)

RELAYS = 20
KEEP = 30
"""Files that stay in the folder after they are done."""


def bodies(random: Random) -> list[Body]:
    """A thousand of what relays say: mostly hop.stat."""
    histogram = MsHistogram.of([random.expovariate(0.5) for _ in range(20)])
    reported = ClientReport(
        session_id="c1", window_ms=10_000, gaps=0, stalled=False, latency_ms=200
    )
    measured = QuicSample(
        session_id="p1",
        srtt_us=20_000,
        min_rtt_us=19_000,
        rttvar_us=100,
        cwnd_bytes=120_000,
        sent_packets=100,
        lost_packets=0,
        pto_count=0,
        peer="1:1",
    )
    cached = CacheStat(
        window_ms=10_000,
        hit_bytes=1,
        miss_bytes=1,
        expired_bytes=1,
        evicted_bytes=1,
        fetch_joins=0,
    )
    forwarded = [
        HopStat(
            track=f"{random.randrange(500):016x}",
            window_ms=10_000,
            objects=100,
            in_bytes=100_000,
            out_bytes=100_000,
            drops={},
            queue_ms=histogram,
        )
        for _ in range(580)
    ]
    return [*forwarded, *[measured] * 200, *[reported] * 200, *[cached] * 20]


class Lines:
    """Events of now, of several relays, for next to nothing.

    To make an event and write it as JSON costs as much as the stream needs for it. So a body is
    written once, and each line is one of them with another number and time.
    """

    _SEQ, _TS = 111_111_111_111, 222_222_222_222

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seqs = [0] * RELAYS
        self._parts = [self._split(n % RELAYS, body) for n, body in enumerate(bodies(random))]

    def _split(self, relay: int, body: Body) -> tuple[int, str, str, str]:
        name = f"{relay}:{relay}"
        line = dump_line(Event.of(body, relay=name, boot=1, seq=self._SEQ, ts_us=self._TS))
        head, rest = line.split(str(self._SEQ))
        middle, tail = rest.split(str(self._TS))
        return relay, head, middle, tail

    def make(self, count: int) -> str:
        """So many lines."""
        made, seqs, now = [], self._seqs, time.time_ns() // 1000
        for relay, head, middle, tail in self._random.choices(self._parts, k=count):
            seqs[relay] += 1
            made.append(f"{head}{seqs[relay]}{middle}{now}{tail}\n")
        return "".join(made)


PARTS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("_ingest/checkpoint-*/**/*",),
    "lists": ("_ingest/stream-*/**/*",),
    "journal": ("_ingest/_log/*",),
    "waiting": ("_ingest/inbox/*", "_ingest/spool/*", "_ingest/stage/**/*"),
    "bronze": ("bronze/**/*.parquet",),
    "silver": ("silver/**/*.parquet",),
    "logs": ("bronze/*/_log/*", "silver/*/_log/*"),
}
"""What is kept between batches, and where."""


def kept(root: Path) -> dict[str, dict[str, int]]:
    """Files and bytes of a lake, by part."""
    found = {}
    for part, patterns in PARTS.items():
        sizes = []
        for path in (path for pattern in patterns for path in root.glob(pattern)):
            try:
                if path.is_file():
                    sizes.append(path.stat().st_size)
            except FileNotFoundError:
                continue  # handled since it was found
        found[part] = {"files": len(sizes), "bytes": sum(sizes)}
    return found


class Bench:
    """What is written, and when it was done."""

    def __init__(self, root: Path, rate: int, seconds: int) -> None:
        self.place = root / "in"
        self.place.mkdir()
        self.lake = Lake.open(root / "lake", create=True)
        self.rate = rate
        self.seconds = seconds
        self.written: dict[str, float] = {}
        """Files that are not done yet, and when they were written."""
        self.delays: dict[str, float] = {}
        self.kept: list[dict[str, dict[str, int]]] = []
        self.marks: list[tuple[int, float]] = []
        """After each batch: files that are done, CPU so far."""
        self.last = 0.0
        """When the last file was done."""
        self.offered = 0.0
        """Events a second that were really written."""
        self.over = threading.Event()
        """Set when all is written."""
        self.stop = threading.Event()
        self._lines = Lines(Random(1))  # noqa: S311 - data, not a secret

    def put(self, name: str, count: int) -> None:
        """A finished file."""
        text = self._lines.make(count)
        (self.place / f".{name}").write_text(text)
        self.written[name] = time.time()
        (self.place / f".{name}").rename(self.place / name)

    def write(self) -> None:
        """A file every second, as far as this machine can; what is done goes after a while."""
        begin = time.monotonic()
        for second in range(self.seconds):
            self.put(f"telemetry-1_1-1-{second:06d}.jsonl", self.rate)
            for name in sorted(self.delays)[:-KEEP]:
                (self.place / name).unlink(missing_ok=True)
            time.sleep(max(0.0, begin + second + 1 - time.monotonic()))
        self.offered = self.rate * self.seconds / (time.monotonic() - begin)
        self.over.set()
        if not self.written:
            self.stop.set()

    def report(self, _: Summary) -> None:
        """A batch is done: what was written and does not wait any more is in tables."""
        now, home = time.time(), self.lake.root / "_ingest"
        waiting = {path.name for part in ("spool", "inbox") for path in (home / part).iterdir()}
        taken = self._taken()
        for name in list(self.written):
            # A name in the inbox has that of its file in it.
            if name in taken and not any(name in other for other in waiting):
                self.delays[name] = now - self.written.pop(name)
                self.last = time.monotonic()
        self.kept.append(kept(self.lake.root))
        self.marks.append((len(self.delays), cpu_of(os.getpid())))
        if self.over.is_set() and not self.written:
            self.stop.set()

    def _taken(self) -> set[str]:
        meta = Table(self.lake.root / "_ingest", "_ingest").snapshot().meta
        return {
            Path(key.removeprefix("file:")).name
            for key, value in meta.items()
            if key.startswith("file:") and value is not None
        }

    def warm(self, spark: SparkSession, rounds: int) -> None:
        """Some batches that do not count: the compiler of a JVM works for several."""
        names = iter(range(rounds))

        def feed(_: Summary | None = None) -> None:
            # There is one report more than rounds: that of the hour that is made whole at the end.
            if (name := next(names, None)) is not None:
                self.put(f"telemetry-1_1-0-{name:06d}.jsonl", self.rate)

        if rounds:
            feed()
            follow(spark, self.lake, [self.place], rounds=rounds, report=feed)
        self.written.clear()

    def run(self, spark: SparkSession, trigger: float, *, warm: int) -> dict[str, Any]:
        """The figures."""
        self.warm(spark, warm)
        begin, cpu_before = time.monotonic(), cpu_of(os.getpid())
        writer = threading.Thread(target=self.write)
        writer.start()
        follow(spark, self.lake, [self.place], trigger=trigger, stop=self.stop, report=self.report)
        writer.join()
        in_order = [self.delays[name] for name in sorted(self.delays)]
        third = max(1, len(in_order) // 3)
        took = self.last - begin
        first, end = percentile(in_order[:third], 0.5), percentile(in_order[-third:], 0.5)
        # The last mark of all files: what comes after it makes hours whole.
        done = next(i for i, mark in enumerate(self.marks) if mark[0] == self.marks[-1][0])
        cpu = self.marks[done][1] - cpu_before
        events = self.rate * self.seconds
        return {
            "offered_per_s": self.rate,
            "written_per_s": round(self.offered),
            "events_per_s": round(events / took),
            "sustained": self.offered >= 0.95 * self.rate and end <= first + trigger,
            "events": events,
            "seconds": round(took, 1),
            "trigger_s": trigger,
            "batches": done + 1,
            "delay_p50_s": percentile(in_order, 0.5),
            "delay_p95_s": percentile(in_order, 0.95),
            "delay_p50_first_s": first,
            "delay_p50_last_s": end,
            "cpu_s": round(cpu, 1),
            "cpu_s_a_batch": round(cpu / (done + 1), 2),
            "cpu_s_a_1000_events": round(cpu / events * 1000, 3),
            "cpu_us_an_event": round(cpu / events * 1e6, 1),
            "kept_middle": self.kept[done // 2],
            "kept_end": self.kept[done],
        }


def percentile(delays: list[float], share: float) -> float:
    """The delay that a share of all does not exceed."""
    return round(sorted(delays)[int(len(delays) * share)], 1)


def measure(rate: int, seconds: int, trigger: float, warm: int) -> dict[str, Any]:
    """One rate, in a folder of its own."""
    root = Path(tempfile.mkdtemp(prefix="laps-streaming-"))
    spark = spark_session(SessionSettings(master="local[2]", driver_memory="4g"))
    try:
        return Bench(root, rate, seconds).run(spark, trigger, warm=warm)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def show(figures: Mapping[str, Any]) -> str:
    """Figures as text."""
    out = []
    for name, value in figures.items():
        if isinstance(value, dict):
            out += [
                f"{name + ' ' + part:28} {n['files']:>6,} files {n['bytes'] / 1e3:>12,.1f} kB"
                for part, n in value.items()
            ]
        else:
            shown = str(value) if isinstance(value, bool) else f"{value:,}"
            out.append(f"{name:28} {shown:>12}")
    return "\n".join(out)


def main(words: list[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rate", type=int, default=2_000, help="events a second")
    parser.add_argument(
        "--rates", type=int, nargs="+", help="one after the other, until one is not sustained"
    )
    parser.add_argument("--seconds", type=int, default=120, help="for each rate")
    parser.add_argument("--trigger", type=float, default=5.0, help="seconds between looks")
    parser.add_argument("--warm", type=int, default=8, help="batches before, for each rate")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    found: list[dict[str, Any]] = []
    for rate in sorted(given.rates or [given.rate]):
        found.append(measure(rate, given.seconds, given.trigger, given.warm))
        if not given.json:
            print(show(found[-1]), end="\n\n", flush=True)
        if not found[-1]["sustained"]:
            break
    if given.json:
        print(json.dumps(found if given.rates else found[0]))
    elif given.rates:
        held = [one["offered_per_s"] for one in found if one["sustained"]]
        print(f"{'highest sustained':28} {max(held, default=0):>12,}")


if __name__ == "__main__":
    main()
