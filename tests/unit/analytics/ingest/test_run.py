"""The whole way from files to silver: one run over everything that can be in a folder."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import InputError, UsageError
from laps_analytics.ingest.run import Summary, ingest
from laps_analytics.lake import Lake, read, read_rows
from laps_analytics.schema import BRONZE, silver_type, table_name
from laps_wire.telemetry import BODIES, CacheStat, Event, TelemetryError, dump_line, load_line
from testkit.telemetry_book import lines_of, with_copies, with_skew
from testkit.telemetry_lines import BAD_LINES, HOUR_US, START_US, network
from unit.analytics.equal import differences
from unit.analytics.ingest.oracle import SilverOracle

pytestmark = pytest.mark.spark

NOW_US = START_US + 20 * 60 * 1_000_000
STAT = CacheStat(
    window_ms=1, hit_bytes=2, miss_bytes=3, expired_bytes=4, evicted_bytes=5, fetch_joins=6
)


KINDS = (
    *("cache.stat", "client.report", "delivery.sample", "future.thing"),
    *("hop.stat", "node.adv", "quic.sample", "sns.adv"),
)
"""Each type is a table, and each table a second; all others are in gold/test_against_duckdb."""


def of_kinds(events: dict[str, list[Event]]) -> dict[str, list[Event]]:
    return {relay: [e for e in mine if e.type in KINDS] for relay, mine in events.items()}


def mutants(random: Random) -> list[str]:
    """Lines with one thing changed: some are still events, some are not."""
    lines = []
    truth = of_kinds(network(9, seconds=70, boot=9))["1:1"]
    for number, line in enumerate(lines_of(truth), 1):
        plain = json.loads(line)
        place: Any = plain
        while True:
            key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
            inner = place[key]
            if isinstance(inner, dict | list) and inner and random.random() < 0.8:
                place = inner
                continue
            break
        value: Any = random.choice(
            [None, 1, -1, 1.0, 2.5, 1e300, True, "1", "x", [], {}, [None], 2**70]
        )
        if isinstance(place, dict) and random.random() < 0.2:
            del place[key]
        elif isinstance(place, dict) and random.random() < 0.3:
            place[random.choice(["new", "späť", "a`b"])] = value
        else:
            place[key] = value
        style = random.choice([(",", ":"), (", ", ": ")])
        lines.append(json.dumps(plain, separators=style, ensure_ascii=number % 2 == 0))
    return lines


@dataclass
class Made:
    place: Path
    lake: Lake
    events: dict[str, list[Event]]
    mutants: list[str]
    summary: Summary


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    random = Random(1)
    root = tmp_path_factory.mktemp("run")
    place = root / "telemetry"
    place.mkdir()
    events = of_kinds(network(1, seconds=120))
    events["2:2"] = with_skew(events["2:2"], 250_000)
    for relay, mine in events.items():
        lines = with_copies(lines_of(mine), random)
        name = place / f"telemetry-{relay.replace(':', '_')}-7-000000.jsonl"
        name.write_text("\n".join(lines) + "\n")
    (place / "bad.jsonl").write_bytes(b"\n".join(BAD_LINES.values()) + b"\n\n")
    packed = gzip.compress(("\n".join(lines_of(events["3:3"])) + "\n").encode())
    (place / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    changed = mutants(random)
    (place / "mutants.jsonl").write_text("\n".join(changed) + "\n", encoding="utf-8")
    clocks = [("5:5", 60_000_000), ("6:6", NOW_US + 5 * HOUR_US), ("7:7", NOW_US - 5)]
    broken = [
        dump_line(Event.of(STAT, relay=relay, boot=1, seq=1, ts_us=at)) for relay, at in clocks
    ]
    (place / "clocks.jsonl").write_text("\n".join(broken) + "\n")
    trace = {"name": "moqt:x", "time": 1, "data": {"n": 5}}
    (place / "a.qlog").write_text(json.dumps({"traces": [{"events": [trace]}]}))
    (place / "b.qlog").write_text('{"traces": [')
    lake = Lake.open(root / "lake", create=True)
    summary = ingest(lambda: spark, lake, [place], now_us=NOW_US)
    return Made(place, lake, events, changed, summary)


def silver(lake: Lake, kind: str) -> list[dict[str, Any]]:
    return read_rows(lake.table(f"silver/{table_name(kind)}"))


def test_each_event_is_there_once(made: Made) -> None:
    for kind in BODIES:
        wanted = {e.event_id: e for mine in made.events.values() for e in mine if e.type == kind}
        found = [row for row in silver(made.lake, kind) if row["boot"] == 7]
        assert Counter(row["event_id"] for row in found) == Counter(list(wanted)), kind
        for row in found:
            event = wanted[row["event_id"]]
            assert row["ts_us"] == event.ts_us
            assert row["event_seq"] == event.seq
            assert int(row["ts"].timestamp() * 1e6) // 10 == (row["ts_us"] - row["skew_us"]) // 10
            for name, value in event.as_dict()["body"].items():
                assert row[name] == value or isinstance(value, dict | list), (kind, name)
    assert made.summary.copies > 0


def test_bad_lines_are_kept_with_their_reason(made: Made) -> None:
    refused = read_rows(made.lake.table("bronze/quarantine"))
    for want in BAD_LINES:
        if not want.startswith("body."):
            assert any(want in row["reason"] for row in refused), want
    reasons = Counter(row["reason"] for row in refused if row["source"] != "mutants.jsonl")
    assert reasons["the gzip file is cut off"] == 1
    assert any(reason.startswith("not qlog") for reason in reasons)
    assert made.summary.quarantined == len(refused)
    unfit = read_rows(made.lake.table("silver/quarantine"))
    assert sorted(row["reason"] for row in unfit if row["source"] == "bad.jsonl") == [
        "cache.stat: body.hit_bytes: '7' is not a long",
        "cache.stat: body.window_ms: missing, but the field is never null",
    ]


def test_lines_are_judged_as_laps_wire_judges_them(spark: SparkSession, made: Made) -> None:
    good = []
    for line in made.mutants:
        try:
            event = load_line(line)
        except TelemetryError:
            continue
        # A time before 1970 is refused here: it has no partition.
        if event.ts_us >= 0:
            good.append(event)
    assert len(made.mutants) / 5 < len(good) < len(made.mutants)
    ours = "source = 'mutants.jsonl'"
    bronze = read(spark, made.lake.table("bronze/events"), BRONZE).where(ours)
    unknown = {row.event_id for row in bronze.collect() if row.type not in BODIES}
    found = {row["event_id"] for kind in BODIES for row in silver(made.lake, kind)}
    assert {event.event_id for event in good} == unknown | {
        name for name in found if name.startswith("1:1:9:")
    }
    lines = len(made.mutants)
    refused = read_rows(made.lake.table("bronze/quarantine"))
    unfit = read_rows(made.lake.table("silver/quarantine"))
    bad = [row for row in [*refused, *unfit] if row["source"] == "mutants.jsonl"]
    assert len(bad) == lines - len(good)
    assert not [row for row in bad if row["reason"].endswith("does not fit its schema")]


def test_lines_are_judged_as_duckdb_judges_them(made: Made) -> None:
    """Values too, of all that is an event after all; and what it was refused for."""
    files = sorted(made.place.glob("*.jsonl"))
    oracle = SilverOracle([(NOW_US, files)])
    for kind in KINDS:
        if kind in BODIES:
            columns = [*silver_type(kind).fieldNames(), "dt", "hour"]
            theirs = oracle.silver(kind)
            assert differences(silver(made.lake, kind), theirs, ["event_id"], columns)[:3] == []
    refused = read_rows(made.lake.table("bronze/quarantine"))
    unfit = read_rows(made.lake.table("silver/quarantine"))
    names = {file.name for file in files}
    ours = Counter(row["source"] for row in [*refused, *unfit] if row["source"] in names)
    asked = "SELECT source FROM refused UNION ALL SELECT source FROM unfit"
    assert ours == Counter(row["source"] for row in oracle.ask(asked))


def test_clocks_are_put_right_or_their_events_left_out(made: Made) -> None:
    clocks = {row["relay"]: row for row in read_rows(made.lake.table("silver/clock"))}
    assert abs(clocks["2:2"]["offset_us"] - 250_000) < 1_000
    assert made.summary.broken_clocks == ["5:5", "6:6"]
    stats = {row["relay"] for row in silver(made.lake, "cache.stat")}
    assert "7:7" in stats
    assert not stats & {"5:5", "6:6"}
    unfit = read_rows(made.lake.table("silver/quarantine"))
    reasons = {row["relay"]: row["reason"] for row in unfit if row["source"] == "clocks.jsonl"}
    assert reasons == {
        "5:5": "the clock of the relay is broken: it says 1970",
        "6:6": "the clock of the relay is broken: it was 18000 s ahead",
    }


def test_unknown_types_and_fields_stay_in_bronze(spark: SparkSession, made: Made) -> None:
    bronze = read(spark, made.lake.table("bronze/events"), BRONZE)
    rows = bronze.where("type = 'future.thing' and boot = 7").selectExpr(
        "variant_get(body, '$.depth.a[1]', 'double') x"
    )
    assert {row.x for row in rows.collect()} == {2.5}


@pytest.fixture
def shell(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command, on the session of the tests."""
    for module in ("ingest", "sql"):
        monkeypatch.setattr(f"laps_analytics.cli.{module}.session_maker", lambda *_: lambda: spark)
    return CliRunner()


def test_the_command_asks_tables(shell: CliRunner, made: Made) -> None:
    def ask(query: str, *more: str) -> str:
        place = str(made.lake.root)
        ended = shell.invoke(app, ["sql", query, "--lake", place, *more], catch_exceptions=False)
        assert ended.exit_code == 0
        return ended.stdout

    query = "SELECT relay, count(*) n, map('x', 2) d FROM silver_hop_stat GROUP BY 1 ORDER BY 1"
    count = sum(e.type == "hop.stat" for e in made.events["1:1"])
    rows = [json.loads(line) for line in ask(query, "--json").splitlines()]
    assert rows[0]["relay"] == "1:1"
    assert rows[0]["n"] >= count
    assert ask(query, "--format", "csv").splitlines()[0] == "relay,n,d"
    # What is text is never a formula; numbers are as they were.
    printed = ask("SELECT '=1+1' AS `@a`, -1.5D AS b, '-2' AS c", "--format", "csv").splitlines()
    assert printed == ["'@a,b,c", "'=1+1,-1.5,-2"]
    assert "relay" in ask(query)
    assert "moqt:x" in ask("SELECT name FROM bronze_qlog")
    joined = "SELECT count(*) FROM IDENTIFIER('silver_' || 'clock')"
    assert int(ask(joined, "--format", "csv").splitlines()[1]) > 0
    with pytest.raises(UsageError, match=r"^the query failed: .*NO_SUCH_TABLE|TABLE_OR_VIEW"):
        ask("SELECT * FROM no_such_table")


def test_a_run_that_is_run_again_does_nothing(shell: CliRunner, made: Made) -> None:
    before = {name: made.lake.table(name).snapshot().version for name in made.lake.tables()}
    arguments = ["ingest", str(made.place), "--lake", str(made.lake.root)]
    ended = shell.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    summary = json.loads(ended.stdout)
    assert (summary["files"], summary["events"], summary["unchanged"]) == (0, 0, 10)
    assert "0 with something new, 10 without" in shell.invoke(app, arguments).stdout
    after = {name: made.lake.table(name).snapshot().version for name in made.lake.tables()}
    assert before == after


def test_a_place_without_telemetry_is_said(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    with pytest.raises(InputError, match=r"no telemetry in .*: name files"):
        ingest(lambda: pytest.fail("no Spark"), lake, [tmp_path])
    (tmp_path / "a.jsonl").touch()
    assert ingest(lambda: pytest.fail("no Spark"), lake, [tmp_path]) == Summary()
