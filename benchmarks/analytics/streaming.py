"""How many events a second a stream takes, and how long an event needs to silver.

    python -m analytics.streaming        from the folder benchmarks: 2,000 events/s for 120 s
    python -m analytics.streaming --rate 10000 --seconds 300 --trigger 5
    python -m analytics.streaming --json                 one object

A thread writes a finished file every second, as a relay would, with events of now. The delay of an
event is from the end of its file to the moment when the batch with it is done: in bronze, and in
its silver table. The rate is sustained if the files of the second half wait no longer than those of
the first (``delay_p50_first_s``, ``delay_p50_second_s``). What is kept between batches (numbers of
events, Spark's checkpoint) is shown at the middle and at the end: it must not grow with the number
of events. CPU is that of all: Python, the JVM, and this writer; by event it is that of all batches
but the first, in which the JVM starts, and it holds on a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from analytics.cost import cpu_of
from laps_analytics.ingest.run import Summary
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake, Table
from laps_analytics.session import SessionSettings, spark_session
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


def lines(random: Random, count: int, seqs: list[int]) -> str:
    """Events of now, of several relays: mostly hop.stat."""
    histogram = MsHistogram.of([random.expovariate(0.5) for _ in range(20)])
    made = []
    for _ in range(count):
        relay = random.randrange(RELAYS)
        seqs[relay] += 1
        body: Body = HopStat(
            track=f"{random.randrange(500):016x}",
            window_ms=10_000,
            objects=100,
            in_bytes=100_000,
            out_bytes=100_000,
            drops={},
            queue_ms=histogram,
        )
        chance = random.random()
        if chance < 0.2:
            body = QuicSample(
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
        elif chance < 0.4:
            body = ClientReport(
                session_id="c1", window_ms=10_000, gaps=0, stalled=False, latency_ms=200
            )
        elif chance < 0.42:
            body = CacheStat(
                window_ms=10_000,
                hit_bytes=1,
                miss_bytes=1,
                expired_bytes=1,
                evicted_bytes=1,
                fetch_joins=0,
            )
        made.append(
            dump_line(
                Event.of(
                    body,
                    relay=f"{relay}:{relay}",
                    boot=1,
                    seq=seqs[relay],
                    ts_us=time.time_ns() // 1000,
                )
            )
        )
    return "\n".join(made) + "\n"


class Bench:
    """What is written, and when it was done."""

    def __init__(self, root: Path, rate: int, seconds: int) -> None:
        self.place = root / "in"
        self.place.mkdir()
        self.lake = Lake.open(root / "lake", create=True)
        self.rate = rate
        self.seconds = seconds
        self.written: dict[str, float] = {}
        self.delays: dict[str, float] = {}
        self.kept: list[int] = []
        self.marks: list[tuple[int, float]] = []
        """After each batch: files that are done, CPU so far."""
        self.last = 0.0
        """When the last file was done."""
        self.over = threading.Event()
        """Set when all is written."""
        self.stop = threading.Event()

    def write(self) -> None:
        """A file every second, as far as this machine can."""
        random, seqs = Random(1), [0] * RELAYS  # noqa: S311 - data, not a secret
        begin = time.monotonic()
        for second in range(self.seconds):
            text = lines(random, self.rate, seqs)
            name = f"telemetry-1_1-1-{second:06d}.jsonl"
            (self.place / f".{name}").write_text(text)
            self.written[name] = time.time()
            (self.place / f".{name}").rename(self.place / name)
            time.sleep(max(0.0, begin + second + 1 - time.monotonic()))
        self.over.set()
        if not self.written:
            self.stop.set()

    def report(self, _: Summary) -> None:
        """A batch is done: what was written and is not in the inbox any more is in tables."""
        now, home = time.time(), self.lake.root / "_ingest"
        waiting = " ".join(path.name for path in (home / "inbox").iterdir())
        meta = Table(home, "_ingest").snapshot().meta
        taken = {Path(key[5:]).name for key in meta if key.startswith("file:")}
        for name in [name for name in list(self.written) if name in taken and name not in waiting]:
            self.delays[name] = now - self.written.pop(name)
            self.last = time.monotonic()
        state = len(json.dumps(meta.get("seqs", {})))
        state += sum(p.stat().st_size for p in home.glob("checkpoint-*/state/**/*") if p.is_file())
        self.kept.append(state)
        self.marks.append((len(self.delays), cpu_of(os.getpid())))
        if self.over.is_set() and not self.written:
            self.stop.set()

    def run(self, trigger: float) -> dict[str, Any]:
        """The figures."""
        spark = spark_session(SessionSettings(master="local[2]", driver_memory="4g"))
        begin = time.monotonic()
        writer = threading.Thread(target=self.write)
        writer.start()
        follow(spark, self.lake, [self.place], trigger=trigger, stop=self.stop, report=self.report)
        writer.join()
        cpu = cpu_of(os.getpid())
        spark.stop()
        in_order = [self.delays[name] for name in sorted(self.delays)]
        half = len(in_order) // 2
        took = self.last - begin

        # The last mark of all files: what comes after it makes hours whole.
        (before, low), (after, high) = self.marks[0], min(self.marks, key=lambda mark: -mark[0])

        def percentile(delays: list[float], share: float) -> float:
            return round(sorted(delays)[int(len(delays) * share)], 1)

        return {
            "events": self.rate * self.seconds,
            "events_per_s": round(self.rate * self.seconds / took),
            "offered_per_s": self.rate,
            "seconds": round(took, 1),
            "batches": len(self.kept),
            "delay_p50_s": percentile(in_order, 0.5),
            "delay_p95_s": percentile(in_order, 0.95),
            "delay_p50_first_s": percentile(in_order[:half], 0.5),
            "delay_p50_second_s": percentile(in_order[half:], 0.5),
            "state_bytes_middle": self.kept[len(self.kept) // 2],
            "state_bytes_end": self.kept[-1],
            "cpu_s": round(cpu, 1),
            "cpu_us_an_event": round((high - low) / max(1, after - before) / self.rate * 1e6, 1),
        }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rate", type=int, default=2_000, help="events a second")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--trigger", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="laps-streaming-"))
    try:
        figures = Bench(root, given.rate, given.seconds).run(given.trigger)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20} {value:>12,}")


if __name__ == "__main__":
    main()
