"""Retention by itself: what is decided, which files no longer count, and being killed at it.

What a build and an ingest do after it is in test_run_after.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import ConflictError, UsageError
from laps_analytics.gold.build import Inputs, days_of, gold_name, note, unbuilt
from laps_analytics.gold.recipes import ORDER
from laps_analytics.ingest.journal import Journal
from laps_analytics.lake import Horizon, Lake, horizon_of
from laps_analytics.retention import Decision, Periods, decide, period, retain

NOON_US = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()) * 1_000_000
FEW = Periods(bronze=2, silver=4, gold=10)


def decided(periods: Periods = FEW, **more: Any) -> Decision:
    usual: dict[str, Any] = {"days": [], "unbuilt": lambda _: [], "open_hours": []}
    return decide(NOON_US, periods, more.pop("before", Horizon()), **{**usual, **more})


def test_a_time_to_keep_something() -> None:
    assert [period(text) for text in ("1d", "4w", "2y", "forever")] == [1, 28, 730, None]
    for text in ("0d", "d", "7", "7h", "-1d", "1.5d", ""):
        with pytest.raises(UsageError, match="is not a period"):
            period(text)
    assert Periods.of("7d,30d,2y") == Periods()
    with pytest.raises(UsageError, match="is not three periods"):
        Periods.of("7d,30d")


def test_what_is_made_of_something_is_kept_as_long() -> None:
    for wrong in ({"gold": 3}, {"gold": 10, "bills": 9}, {"silver": None}):
        with pytest.raises(UsageError, match="would be kept longer than"):
            Periods(**{"bronze": 2, "silver": 4, **wrong})
    assert Periods(bronze=None, silver=4).bronze is None


def test_whole_days_go_after_their_time() -> None:
    found = decided()
    assert found.kept == ()
    assert found.horizon == Horizon(bronze="2026-11-15", silver="2026-11-13", gold="2026-11-07")
    bills = decided(Periods(bronze=2, silver=4, gold=10, bills=20)).horizon
    assert bills.bills == "2026-10-28"
    for_ever = decided(Periods(bronze=None, silver=None, gold=None)).horizon
    assert for_ever == Horizon()


def test_a_horizon_does_not_move_back() -> None:
    there = Horizon(bronze="2026-11-16", silver="2026-11-01", gold="2026-11-01")
    assert decided(before=there).horizon == Horizon(
        bronze="2026-11-16", silver="2026-11-13", gold="2026-11-07"
    )


def test_a_day_that_gold_is_not_built_from_stays_and_holds_those_after_it() -> None:
    lacking = {
        "2026-11-01": ["blame"],
        "2026-11-05": ["a", "b", "c", "d", "e"],
        "2026-11-06": ["a"],
    }
    days = [f"2026-11-{day:02}" for day in range(1, 18)]
    found = decided(
        before=Horizon(silver="2026-11-02"), days=days, unbuilt=lambda day: lacking.get(day, [])
    )
    assert found.horizon == Horizon(bronze="2026-11-15", silver="2026-11-05", gold="2026-11-05")
    assert [(item.tier, item.first) for item in found.kept] == [
        ("silver", "2026-11-05"),
        ("gold", "2026-11-05"),
    ]
    assert "not built into gold (a, b, c and 2 more): run `laps-analytics build`" in (
        found.kept[0].reason
    )
    # Days that are young enough are not asked about.
    assert not decided(days=["2026-11-13"], unbuilt=lambda _: ["blame"]).kept


def test_an_hour_that_a_stream_left_open_can_still_be_made_whole() -> None:
    found = decided(open_hours=[("2026-11-16", "05"), ("2026-11-10", "01")])
    assert found.horizon == Horizon(bronze="2026-11-09", silver="2026-11-09", gold="2026-11-07")
    assert {item.tier for item in found.kept} == {"bronze", "silver"}
    assert (found.horizon.accepted_from or ("", "")) <= ("2026-11-10", "01")
    young = decided(open_hours=[("2026-11-17", "11")])
    assert young.kept == ()


DAYS = [f"2026-11-{day:02}" for day in range(1, 18)]
TABLES = {
    "bronze/events": ("hour=22/type=hop.stat", "hour=23/type=hop.stat"),
    "bronze/quarantine": ("",),
    "silver/hop_stat": ("hour=22", "hour=23"),
    "silver/node_adv": ("hour=23",),
    "silver/clock": ("hour=23",),
}


def put(lake: Lake, name: str, days: list[str], parts: tuple[str, ...] = ("",)) -> None:
    """A file for each day in each of some partitions. Nobody here reads it."""
    table = lake.table(name)
    staged = table.staging()
    for day in days:
        for part in parts:
            folder = staged / f"dt={day}" / part
            folder.mkdir(parents=True)
            (folder / "1.parquet").write_bytes(b"rows")
    table.commit(staged, base=table.snapshot())


def filled(root: Path, days: list[str]) -> Lake:
    """A lake with some days, and gold tables that say they were built from all of them."""
    lake = Lake.open(root, create=True)
    for name, parts in TABLES.items():
        put(lake, name, days, parts)
    for name in ("blame", "usage_tenant_day"):
        put(lake, gold_name(name), days)
    inputs = Inputs(lake)
    for name in ORDER:
        table = lake.table(gold_name(name))
        meta = {
            note(day): {"print": "x", "data": inputs.data_fingerprint(name, day)} for day in days
        }
        table.commit(None, base=table.snapshot(), meta=meta)
    return lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return filled(tmp_path / "lake", DAYS)


def days(lake: Lake, name: str) -> list[str]:
    return sorted({dt for (dt,) in lake.table(name).snapshot().partitions("dt")})


def on_disk(lake: Lake, name: str) -> set[str]:
    root = lake.table(name).root
    return {path.name.removeprefix("dt=") for path in root.glob("dt=*")}


def versions(lake: Lake) -> dict[str, int]:
    names = [name for name in lake.tables() if not name.startswith("_")]
    return {name: lake.table(name).snapshot().version for name in names}


def test_what_is_old_goes_by_one_commit_of_each_table(lake: Lake) -> None:
    before = versions(lake)
    done = retain(lake, FEW, now_us=NOON_US)
    assert done.kept == ()
    assert done.horizon == horizon_of(lake)
    assert done.horizon == Horizon(bronze="2026-11-15", silver="2026-11-13", gold="2026-11-07")
    assert days(lake, "bronze/events") == DAYS[14:]
    # Gold is judged by lines that could not be read for as long as it can be built again.
    assert days(lake, "bronze/quarantine") == DAYS[12:]
    # The day that is kept first looks back at the hour before it.
    hours = lake.table("silver/hop_stat").snapshot().partitions("dt", "hour")
    assert min(hours) == ("2026-11-12", "23")
    assert ("2026-11-12", "22") not in hours
    assert days_of(lake) == DAYS[12:]
    # Where nodes are lasts until they say otherwise.
    assert days(lake, "silver/node_adv") == DAYS
    assert days(lake, "gold/blame") == DAYS[6:]
    assert days(lake, "gold/usage_tenant_day") == DAYS
    after = versions(lake)
    changed = {name for name, version in after.items() if version != before[name]}
    assert changed == {item.table for item in done.removed}
    assert {after[name] - before[name] for name in changed} == {1}
    assert not unbuilt(lake, DAYS[12], Inputs(lake))

    again = retain(lake, FEW, now_us=NOON_US)
    assert (again.removed, versions(lake)) == ((), after)


def test_files_go_when_nobody_reads_them_any_more(lake: Lake) -> None:
    assert retain(lake, FEW, now_us=NOON_US).deleted == 0
    assert on_disk(lake, "bronze/events") == on_disk(lake, "gold/blame") == {*DAYS}
    done = retain(lake, FEW, now_us=NOON_US, readers_s=-1.0)
    assert done.deleted == 2 * 14 + 12 + (12 * 2 - 1) + (12 - 1) + 6
    assert on_disk(lake, "bronze/events") == {*DAYS[14:]}
    assert on_disk(lake, "silver/hop_stat") == {*DAYS[11:]}
    assert on_disk(lake, "gold/blame") == {*DAYS[6:]}
    for name in versions(lake):
        table = lake.table(name)
        assert all((table.root / path).exists() for path in table.snapshot().files)


def test_old_versions_of_gold_that_is_kept_stay(lake: Lake) -> None:
    table = lake.table("gold/blame")
    for day in (DAYS[0], DAYS[-1]):
        base = table.snapshot()
        old = [path for path, file in base.files.items() if file.partition["dt"] == day]
        table.commit(None, base=base, remove=old)
    retain(lake, FEW, now_us=NOON_US, readers_s=-1.0)
    assert on_disk(lake, "gold/blame") == {*DAYS[6:]}


def test_bills_go_if_that_is_said(lake: Lake) -> None:
    retain(lake, Periods(bronze=2, silver=4, gold=10, bills=12), now_us=NOON_US)
    assert days(lake, "gold/usage_tenant_day") == DAYS[4:]
    # A later run that keeps them for longer cannot bring them back.
    retain(lake, FEW, now_us=NOON_US)
    assert horizon_of(lake).bills == DAYS[4]


def test_notes_of_gold_do_not_grow_for_ever(lake: Lake) -> None:
    later = NOON_US + 90 * 86_400_000_000
    retain(lake, FEW, now_us=later)
    assert not [key for key in lake.table("gold/blame").snapshot().meta if key == note(DAYS[0])]
    assert note(DAYS[0]) in lake.table("gold/usage_tenant_day").snapshot().meta


def test_silver_that_is_not_in_gold_stays(lake: Lake) -> None:
    put(lake, "silver/hop_stat", [DAYS[8]], ("hour=05",))
    assert "traffic_1m" in unbuilt(lake, DAYS[8], Inputs(lake))
    done = retain(lake, FEW, now_us=NOON_US)
    assert [(item.tier, item.first) for item in done.kept] == [("silver", DAYS[8])]
    assert days_of(lake) == DAYS[8:]
    done = retain(lake, FEW, now_us=NOON_US, any_built=True)
    assert done.kept == ()
    assert days_of(lake) == DAYS[12:]


def test_notes_of_before_say_that_a_day_was_built(lake: Lake) -> None:
    for name in ORDER:
        table = lake.table(gold_name(name))
        table.commit(None, base=table.snapshot(), meta={note(DAYS[0]): {"print": "old"}})
    assert not unbuilt(lake, DAYS[0], Inputs(lake))


def test_what_an_ingest_still_needs_is_not_taken_from_it(lake: Lake) -> None:
    journal = Journal(lake)
    with journal.locked():
        with pytest.raises(ConflictError, match="another ingest holds the lock"):
            retain(lake, FEW, now_us=NOON_US)
        journal.note(batch={"number": 1})
    with pytest.raises(ConflictError, match="is unfinished"):
        retain(lake, FEW, now_us=NOON_US)
    with journal.locked():
        journal.note(batch=None, dirty=[[DAYS[3], "07"]])
    done = retain(lake, FEW, now_us=NOON_US)
    assert {item.tier for item in done.kept} == {"bronze", "silver", "gold"}
    assert days(lake, "bronze/events") == DAYS[3:]
    assert days_of(lake) == DAYS[3:]


_KILLED = """
import os, signal, sys
from pathlib import Path
from laps_analytics.lake import Lake
from laps_analytics.retention import Periods
from laps_analytics.retention import retain
def at(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
retain(Lake.open(Path(sys.argv[1])), Periods(bronze=2, silver=4, gold=10),
       now_us=int(sys.argv[3]), readers_s=-1.0, progress=at)
"""


@pytest.mark.parametrize("step", ["horizon", "silver/clock"])
def test_a_run_that_is_killed_is_finished_by_the_next(lake: Lake, step: str) -> None:
    words = [sys.executable, "-c", _KILLED, str(lake.root), step, str(NOON_US)]
    ended = subprocess.run(words, env=dict(os.environ), capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    # Half removed is removed, for whoever builds and whoever ingests.
    assert days(lake, "silver/hop_stat") == DAYS
    assert days_of(lake) == DAYS[12:]
    assert horizon_of(lake).accepted_from == (DAYS[14], "02")
    assert days(lake, "bronze/events") == (DAYS if step == "horizon" else DAYS[14:])
    assert on_disk(lake, "bronze/events") == {*DAYS}
    retain(lake, FEW, now_us=NOON_US, readers_s=-1.0)
    assert days(lake, "bronze/events") == DAYS[14:]
    assert on_disk(lake, "silver/hop_stat") == {*DAYS[11:]}
    assert days(lake, "gold/usage_tenant_day") == DAYS


def test_the_command(tmp_path: Path) -> None:
    """By the clock of this machine, so of days that are long over."""
    lake = filled(tmp_path / "lake", ["2021-03-01", "2021-03-02"])
    run = CliRunner()
    words = ["retain", "--lake", str(lake.root), "--gold", "forever"]
    before = versions(lake)
    told = run.invoke(app, [*words, "--dry-run"], catch_exceptions=False)
    assert told.stdout.startswith(
        "bronze/events              2 days would go, 2021-03-01 to 2021-03-02, 4 files, 16 bytes\n"
    )
    assert versions(lake) == before
    assert horizon_of(lake) == Horizon()
    told = run.invoke(app, [*words, "--json", "--at-once"], catch_exceptions=False)
    plain = json.loads(told.stdout)
    assert [item["table"] for item in plain["removed"]] == [
        *("bronze/events", "bronze/quarantine", "silver/clock", "silver/hop_stat"),
    ]
    assert plain["deleted"] == 4 + 2 + 2 + 4
    told = run.invoke(app, words, catch_exceptions=False)
    assert told.stdout == "nothing is old enough to go\n"
    told = run.invoke(app, [*words[:3], "--gold", "40d", "--at-once"], catch_exceptions=False)
    assert told.stdout.splitlines() == [
        "gold/blame                 2 days removed, 2021-03-01 to 2021-03-02, 2 files, 8 bytes",
        "deleted: 2 files",
    ]
    wrong = run.invoke(app, [*words[:3], "--silver", "3y"])
    assert isinstance(wrong.exception, UsageError)


def test_the_command_says_what_it_keeps(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake", ["2021-03-01"])
    put(lake, "silver/hop_stat", ["2021-03-02"], ("hour=05",))
    words = ["retain", "--lake", str(lake.root)]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "kept: silver from 2021-03-02 on, it is not built into gold (traffic_1m, " in told.stdout
