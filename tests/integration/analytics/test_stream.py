"""A stream that goes on for long keeps little, forgets nothing that counts, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from analytics.streaming import kept
from pyspark.sql import SparkSession

from laps_analytics.ingest import silver_hours
from laps_analytics.ingest.compaction import UpkeepLimits
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.run import Summary, ingest
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake, horizon_of, read_rows
from laps_analytics.lake import table as table_module
from laps_wire.telemetry import CacheStat, Event, dump_line
from testkit.ingest_once import EAGER
from testkit.telemetry_lines import HOUR_US, START_US

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

MINUTE_US = 60_000_000
STAT = CacheStat(
    window_ms=1, hit_bytes=2, miss_bytes=3, expired_bytes=4, evicted_bytes=5, fetch_joins=6
)


def line(seq: int, ts_us: int, *, boot: int = 1, relay: str = "1:1") -> str:
    return dump_line(Event.of(STAT, relay=relay, boot=boot, seq=seq, ts_us=ts_us))


def put(place: Path, name: str, lines: Iterable[str]) -> Path:
    place.mkdir(exist_ok=True)
    (place / f".{name}").write_text("\n".join(lines) + "\n")
    return (place / f".{name}").rename(place / f"{name}.jsonl")


def ids(lake: Lake) -> Counter[str]:
    """How often each event is in silver, without its relay."""
    return Counter(
        f"{row['boot']}:{row['event_seq']}" for row in read_rows(lake.table("silver/cache_stat"))
    )


@pytest.mark.long
def test_what_a_stream_keeps_stays_flat(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours close, relays start again, files come and go: what is kept is that of a few rounds."""
    rounds, step, more = 60, 10, 1.1
    monkeypatch.setattr(table_module, "_SUM_EVERY", 2)
    monkeypatch.setattr(silver_hours, "BOOT_TTL_US", 2 * step * MINUTE_US)
    place, lake = tmp_path / "in", Lake.open(tmp_path / "lake", create=True)
    limits = UpkeepLimits(open_files=2, closed_files=1, look_every=1, readers_s=0.0, renew_every=2)
    now = [START_US + MINUTE_US]
    sizes: list[dict[str, int]] = []
    written: list[Path] = []

    def feed() -> None:
        number = len(written)
        lines = [line(n, now[0] - n, boot=number) for n in range(3)]
        written.append(put(place, f"telemetry-{number:04d}", lines))
        if number >= 3:
            written[number - 3].unlink()

    def report(_: Summary) -> None:
        found = kept(lake.root)
        state = {part: found[part]["files"] for part in ("checkpoint", "lists", "journal", "logs")}
        # Each table keeps one file for each hour that is over, and some of those that are open.
        for part in ("bronze", "silver"):
            hours = sum(1 for _ in (lake.root / part).glob("*/dt=*/hour=*"))
            state[part] = found[part]["files"] - hours
        state["boots"] = len(Journal(lake).state["boots"])
        newest = max((lake.root / "_ingest" / "_log").glob("*.sum"), default=None)
        state["sum"] = newest.stat().st_size if newest else 0
        sizes.append(state)
        now[0] += step * MINUTE_US
        feed()

    feed()
    follow(spark, lake, [place], rounds=rounds, now_us=lambda: now[0], report=report, upkeep=limits)
    assert ids(lake) == Counter({f"{boot}:{n}": 1 for boot in range(rounds) for n in range(3)})
    assert len(sizes) == rounds + 1
    third = rounds // 3
    grown = {}
    for part in sizes[0]:
        found = [size[part] for size in sizes]
        if max(found[2 * third :]) > max(found[third : 2 * third]) * more + 1:
            grown[part] = found
    assert grown == {}
    assert max(size["boots"] for size in sizes) <= 2
    assert max(size["lists"] for size in sizes) <= 3
    assert max(size["checkpoint"] for size in sizes) < 60


def test_each_event_is_there_once_also_of_boots_that_are_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silver_hours, "BOOT_TTL_US", MINUTE_US)
    place, lake = tmp_path / "in", Lake.open(tmp_path / "lake", create=True)
    now = [START_US + 5 * MINUTE_US]

    def at(seqs: range, boot: int) -> list[str]:
        return [line(seq, START_US + seq, boot=boot) for seq in seqs]

    # A run that is no stream: its numbers are not those that a stream knows.
    put(place, "a", at(range(4), 0))
    ingest(lambda: spark, lake, [place], now_us=now[0])
    pieces = [
        ("b", [*at(range(2, 5), 0), *at(range(3), 1)]),
        ("c", at(range(1), 2)),
        ("d", [*at(range(4), 1), *at(range(5, 7), 0), *at(range(4), 0)]),
        ("e", [*at(range(6), 1), *at(range(2), 2)]),
    ]
    seen: list[Counter[str]] = []
    known: list[set[str]] = []

    def report(_: Summary) -> None:
        seen.append(ids(lake))
        known.append(set(Journal(lake).state["boots"]))
        now[0] += 2 * MINUTE_US if len(seen) < 3 else 3 * HOUR_US
        if len(seen) < len(pieces):
            put(place, *pieces[len(seen)])

    put(place, *pieces[0])
    follow(spark, lake, [place], rounds=4, now_us=lambda: now[0], report=report)

    def wanted(*counts: int) -> Counter[str]:
        return Counter(
            {f"{boot}:{n}": 1 for boot, count in enumerate(counts) for n in range(count)}
        )

    # While the hour is open it is not made again: what is doubled would be seen.
    assert seen[:3] == [wanted(5, 3), wanted(5, 3, 1), wanted(7, 4, 1)]
    assert known[:3] == [{"1:1:0", "1:1:1"}, {"1:1:2"}, {"1:1:0", "1:1:1"}]
    # And when it is over: late events, and copies of all kinds.
    assert seen[3] == wanted(7, 6, 2)


@pytest.mark.long
def test_hours_that_were_to_be_merged_when_a_stream_was_killed_are_merged_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, lake = tmp_path / "in", Lake.open(tmp_path / "lake", create=True)
    now = [START_US + MINUTE_US]
    bronze = lake.table("bronze/events")

    def report(summary: Summary) -> None:
        if summary.hours:
            return
        now[0] += MINUTE_US
        put(place, f"t{now[0]}", [line(1, now[0] - 1, boot=now[0])])

    put(place, "t0", [line(0, START_US, boot=1)])
    limits = UpkeepLimits(open_files=10, closed_files=1, look_every=1, readers_s=0.0)
    follow(spark, lake, [place], rounds=2, now_us=lambda: now[0], report=report, upkeep=limits)
    many = len(bronze.snapshot().files)
    assert many >= 2
    # As if it were killed between the entry of the last batch and the merge.
    journal = Journal(lake)
    with journal.locked():
        journal.note(closed=sorted(bronze.snapshot().partitions("dt", "hour")))
    before = sorted(row["event_id"] for row in read_rows(bronze))
    now[0] += 3 * HOUR_US
    put(place, "late", [line(2, now[0], boot=1)])
    follow(spark, lake, [place], rounds=1, now_us=lambda: now[0], upkeep=limits)
    files = Counter(file.partition["hour"] for file in bronze.snapshot().files.values())
    assert set(files.values()) == {1}
    after = sorted(row["event_id"] for row in read_rows(bronze))
    assert set(before) < set(after)
    assert len(after) == len(set(after))
    assert Journal(lake).state.get("closed") is None


@pytest.mark.long
def test_ctrl_c_ends_a_stream_after_the_batch_under_way(tmp_path: Path) -> None:
    """The command as a user has it: the signal goes to all processes of the terminal."""
    place, lake = tmp_path / "in", tmp_path / "lake"
    now = time.time_ns() // 1000
    put(place, "first", [line(seq, now - seq) for seq in range(50)])
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from laps_analytics.cli import main; main()"),
            *("ingest", place, "--lake", lake, "--follow", "--trigger", "0.2", "--json"),
            *("--master", "local[2]", "--memory", "1g", "--retain", "7d,30d,2y"),
        ],
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        done = [json.loads(process.stdout.readline())]
        assert done[0]["events"] == 50
        put(place, "second", [line(seq, now, boot=2) for seq in range(50)])
        stage = lake / "_ingest" / "stage"
        while not list(stage.glob("2-*")):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors[-2000:]
    done += [json.loads(said) for said in out.splitlines()]
    assert [summary["events"] for summary in done] == [50, 50, 0]
    # The last one made the hours whole.
    assert done[-1]["hours"]
    assert ids(Lake.open(lake)) == Counter(
        {f"{boot}:{seq}": 1 for boot in (1, 2) for seq in range(50)}
    )
    home = lake / "_ingest"
    assert not [*home.glob("inbox/*"), *home.glob("stage/*"), *home.glob("stream-*/*.json")]
    # After its first batch it removed what was older than a week: nothing, this time.
    assert horizon_of(Lake.open(lake)).bronze


def test_a_stream_looks_each_trigger_and_renews_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, lake = tmp_path / "in", Lake.open(tmp_path / "lake", create=True)
    stop = threading.Event()
    names: set[str] = set()
    batches: list[Summary] = []

    def report(summary: Summary) -> None:
        batches.append(summary)
        names.update(path.name for path in (lake.root / "_ingest").glob("checkpoint-*"))
        if len(batches) < 4:
            put(place, f"t{len(batches)}", [line(1, START_US, boot=len(batches))])
        else:
            stop.set()

    put(place, "t0", [line(1, START_US, boot=0)])
    follow(
        spark,
        lake,
        [place],
        trigger=0.1,
        stop=stop,
        now_us=lambda: START_US + MINUTE_US,
        report=report,
        upkeep=EAGER,
    )
    assert [summary.events for summary in batches] == [1, 1, 1, 1, 0]
    assert len(names) >= 2
    assert ids(lake) == Counter({f"{boot}:1": 1 for boot in range(4)})
