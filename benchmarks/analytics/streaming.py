"""How many events a second a stream takes, and how long an event needs to silver.

    python benchmarks/analytics/streaming.py                        2,000 events/s for 120 s
    python benchmarks/analytics/streaming.py --rate 10000 --seconds 300 --trigger 5
    python benchmarks/analytics/streaming.py --json                 one object

A thread writes a finished file every second, as a relay would, with events of now. The delay of an
event is from the end of its file to the moment when the batch with it is done: in bronze, and in
its silver table. What is kept between batches (numbers of events, Spark's checkpoint) is shown at
the middle and at the end: it must not grow with the number of events.
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
        self.delays: list[float] = []
        self.kept: list[int] = []
        self.stop = threading.Event()

    def write(self) -> None:
        """A file every second, as far as this machine can."""
        random, seqs = Random(1), [0] * RELAYS  # noqa: S311 - data, not a secret
        begin = time.monotonic()
        for second in range(self.seconds):
            text = lines(random, self.rate, seqs)
            name = f"telemetry-1_1-1-{second:06d}.jsonl"
            (self.place / f".{name}").write_text(text)
            (self.place / f".{name}").rename(self.place / name)
            self.written[name] = time.time()
            time.sleep(max(0.0, begin + second + 1 - time.monotonic()))
        self.stop.set()

    def report(self, _: Summary) -> None:
        """A batch is done: what was written and is not in the inbox any more is in tables."""
        now, home = time.time(), self.lake.root / "_ingest"
        waiting = " ".join(path.name for path in (home / "inbox").iterdir())
        meta = Table(home, "_ingest").snapshot().meta
        taken = {Path(key[5:]).name for key in meta if key.startswith("file:")}
        for name in [name for name in self.written if name in taken and name not in waiting]:
            self.delays.append(now - self.written.pop(name))
        state = len(json.dumps(meta.get("seqs", {})))
        state += sum(p.stat().st_size for p in home.glob("checkpoint-*/state/**/*") if p.is_file())
        self.kept.append(state)

    def run(self, trigger: float) -> dict[str, Any]:
        """The figures."""
        spark = spark_session(SessionSettings(master="local[2]", driver_memory="4g"))
        begin = time.monotonic()
        writer = threading.Thread(target=self.write)
        writer.start()
        follow(spark, self.lake, [self.place], trigger=trigger, stop=self.stop, report=self.report)
        writer.join()
        took = time.monotonic() - begin
        spark.stop()
        self.delays.sort()
        times = os.times()
        return {
            "events": self.rate * self.seconds,
            "events_per_s": round(self.rate * self.seconds / took),
            "offered_per_s": self.rate,
            "seconds": round(took, 1),
            "files": len(self.delays),
            "delay_p50_s": round(self.delays[len(self.delays) // 2], 1),
            "delay_p95_s": round(self.delays[int(len(self.delays) * 0.95)], 1),
            "state_bytes_middle": self.kept[len(self.kept) // 2],
            "state_bytes_end": self.kept[-1],
            "python_cpu_s": round(times.user + times.system, 1),
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
