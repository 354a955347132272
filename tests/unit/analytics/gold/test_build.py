"""Only what changed is built, and how often or in which order does not matter."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import GateError, UsageError
from laps_analytics.gold.build import build, read_gold
from laps_analytics.gold.builders.common import finish
from laps_analytics.gold.builders.network import churn, link_quality, topology_snapshot
from laps_analytics.gold.builders.traffic import track_fanout, traffic_1m, traffic_longer
from laps_analytics.gold.builders.viewers import blame
from laps_analytics.gold.dimensions import stored_dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, read_rows
from laps_analytics.schema import table_name
from laps_wire.telemetry import ClientReport
from testkit.gold_world import DAYS
from unit.analytics.gold.lakes import DIMENSIONS, STATED_US, GoldLake, fill, frames, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture
def copy(gold_lake: GoldLake, tmp_path: Path) -> Lake:
    """The same lake, to be changed."""
    shutil.copytree(gold_lake.lake.root, tmp_path / "lake")
    return Lake.open(tmp_path / "lake")


def collected(frame: DataFrame, name: str) -> list[dict[str, Any]]:
    """Rows without sketches, in the order of their keys, times as text."""
    plain = [item for item in GOLD[name].columns if item.type != "binary"]
    columns = [
        F.col(item.name).cast("string" if item.type in {"timestamp", "date"} else item.type)
        for item in plain
    ]
    rows = [row.asDict() for row in frame.select(*columns).collect()]
    return sorted(rows, key=lambda row: [str(row[key]) for key in GOLD[name].keys])


def test_what_did_not_change_is_not_built(spark: SparkSession, gold_lake: GoldLake) -> None:
    steps: list[tuple[str, int, int]] = []
    done = build(
        spark,
        gold_lake.lake,
        dimensions=DIMENSIONS,
        progress=lambda *step: steps.append(step),
    )
    assert [item.table for item in done] == list(GOLD)
    assert not [item for item in done if item.days]
    assert steps[0][1:] == (0, len(GOLD))
    assert steps[-1] == ("", len(GOLD), len(GOLD))


def test_late_data_makes_its_day_stale_and_a_bill_is_stated_again(
    usual_spark: SparkSession, gold_lake: GoldLake, copy: Lake
) -> None:
    """With the settings that users have."""
    spark = usual_spark
    last = max(
        (e for e in gold_lake.files.events if e.type == "client.report" and e.relay == "e0:1"),
        key=lambda event: event.ts_us,
    )
    assert isinstance(last.body, ClientReport)
    body = replace(last.body, window_ms=4_000)
    late = replace(last, event_id=f"e0:1:{last.boot}:999999", body=body, tenant="acme")
    fill(copy, [late])
    before = rows_of(copy, "usage_tenant_day")
    tables = ["traffic_1m", "traffic_1h", "qoe_region_1m", "qoe_region_1h", "usage_tenant_day"]
    hours = rows_of(copy, "qoe_region_1h")
    done = build(spark, copy, dimensions=DIMENSIONS, tables=tables, now_us=STATED_US + 1)
    assert {item.table: item.days for item in done} == {
        "traffic_1m": (),
        "traffic_1h": (),
        "qoe_region_1m": (DAYS[2],),
        "qoe_region_1h": (DAYS[2],),
        "usage_tenant_day": (DAYS[2],),
    }
    watched = [sum(r["watched_ms"] for r in some) for some in (hours, rows_of(copy, tables[3]))]
    assert watched[1] - watched[0] == 4_000
    after = rows_of(copy, "usage_tenant_day")
    assert [row for row in after if row["version"] == 1] == before
    (new,) = [row for row in after if row["version"] > 1]
    (old,) = [r for r in before if (r["dt"], r["tenant"]) == (DAYS[2], "acme")]
    assert new == {
        **old,
        "version": 2,
        "watched_ms": old["watched_ms"] + 4_000,
        "events": old["events"] + 1,
        "closed_us": STATED_US + 1,
    }
    # Once more, and nothing is new: neither a version nor a day.
    again = build(
        spark,
        copy,
        [DAYS[2]],
        dimensions=DIMENSIONS,
        tables=["traffic_1m", "qoe_region_1m", "usage_tenant_day"],
        again=True,
        now_us=STATED_US + 2,
    )
    assert [item.days for item in again] == [(DAYS[2],)] * 3
    assert rows_of(copy, "usage_tenant_day") == after
    assert rows_of(copy, "traffic_1m") == rows_of(gold_lake.lake, "traffic_1m")


def test_other_dimensions_make_only_those_tables_stale_that_use_them(
    spark: SparkSession, copy: Lake
) -> None:
    other = replace(DIMENSIONS, relays={})
    done = build(spark, copy, [DAYS[0]], dimensions=other, tables=["capacity_fc", "churn_1h"])
    assert {item.table: item.days for item in done} == {
        "churn_1h": (),
        "capacity_fc": (DAYS[0],),
    }
    first = [row for row in rows_of(copy, "capacity_fc") if row["dt"] == DAYS[0]]
    assert not [row for row in first if row["kind"] == "relay" and row["capacity_bps"]]


def test_dimensions_stay_in_the_lake_until_others_are_given(
    spark: SparkSession, copy: Lake
) -> None:
    (without,) = build(spark, copy, [DAYS[0]], tables=["capacity_fc"])
    assert without.days == ()
    assert stored_dimensions(copy) == DIMENSIONS
    other = replace(DIMENSIONS, relays={})
    (changed,) = build(spark, copy, [DAYS[0]], dimensions=other, tables=["capacity_fc"])
    (again,) = build(spark, copy, [DAYS[0]], tables=["capacity_fc"])
    assert (changed.days, again.days) == ((DAYS[0],), ())


@pytest.mark.long
def test_shuffled_input_gives_the_same(
    usual_spark: SparkSession, gold_lake: GoldLake, tmp_path: Path
) -> None:
    """Also compiled, as users have it: the scene was made without."""
    spark = usual_spark
    kinds = ("hop.stat", "quic.sample", "node.adv", "delivery.sample", "client.report")
    rows = {kind: read_rows(gold_lake.lake.table(f"silver/{table_name(kind)}")) for kind in kinds}
    for mine in rows.values():
        Random(5).shuffle(mine)
    found = frames(spark, rows, tmp_path)
    silver = Silver.of_frames(spark, {kind: frame.cache() for kind, frame in found.items()})
    for name, frame in {
        "track_fanout_5m": track_fanout(silver, DAYS, DIMENSIONS),
        "blame": blame(silver, DAYS, DIMENSIONS, persist=DataFrame.cache),
    }.items():
        assert collected(frame, name) == collected(read_gold(spark, gold_lake.lake, name), name)


def test_a_day_alone_is_what_it_is_among_others(
    usual_spark: SparkSession, gold_lake: GoldLake
) -> None:
    """Also compiled."""
    spark = usual_spark
    silver = Silver.of_lake(spark, gold_lake.lake)
    day = [DAYS[2]]
    for name, frame in {
        "link_quality_5m": link_quality(silver, day),
        "churn_1h": churn(silver, day),
        "topology_snapshot": topology_snapshot(silver, day, persist=DataFrame.cache),
    }.items():
        built = read_gold(spark, gold_lake.lake, name, day)
        assert collected(frame, name) == collected(built, name)


def test_a_rollup_is_what_a_direct_build_would_be_and_its_sketches_are_near(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    """Sums are compared with DuckDB; here it is the sketches, which only Spark can read."""
    estimate = F.hll_sketch_estimate("tracks_hll").alias("tracks")
    hour = read_gold(spark, gold_lake.lake, "traffic_1h").where("relay = 'e2:1' AND out_peer = ''")
    counts = [row["tracks"] for row in hour.select(estimate).collect()]
    assert set(counts) == {1}  # a tenant has one track in this world
    whole = read_gold(spark, gold_lake.lake, "traffic_1d").agg(
        F.hll_union_agg("tracks_hll").alias("u")
    )
    assert whole.select(F.hll_sketch_estimate("u")).collect()[0][0] == 3

    links = read_gold(spark, gold_lake.lake, "link_quality_5m").where("rtt_kll IS NOT NULL")
    merged = links.groupBy("relay", "peer").agg(
        F.kll_merge_agg_bigint("rtt_kll").alias("k"), F.sum("samples").alias("samples")
    )
    guess = merged.select(
        *("relay", "peer", "samples"),
        F.kll_sketch_get_n_bigint("k").alias("n"),
        F.kll_sketch_get_quantile_bigint("k", F.lit(0.95)).alias("p95"),
    )
    samples = Silver.of_lake(spark, gold_lake.lake).read("quic.sample", DAYS)
    ranks = (
        samples.join(guess, ["relay", "peer"])
        .groupBy("relay", "peer")
        .agg(
            F.avg((F.col("srtt_us") <= F.col("p95")).cast("double")).alias("rank"),
            F.first(F.col("n") == F.col("samples")).alias("all"),
        )
        .collect()
    )
    assert len(ranks) == 10
    assert all(row["all"] and abs(row["rank"] - 0.95) < 0.02 for row in ranks)


def test_histograms_with_other_bounds_add_up_in_a_longer_window(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    """Bounds that are all usual ones, but not all of the usual ones."""
    minutes = read_gold(spark, gold_lake.lake, "traffic_1m", [DAYS[0]]).limit(3)
    few = F.expr("map(1.0D, 2L, double('infinity'), 5L)")
    same = minutes.withColumn("relay", F.lit("x")).withColumn("out_peer", F.lit(""))
    hour = traffic_longer(
        same.withColumn("tenant", F.lit("")).withColumn("queue_counts", few), "traffic_1h"
    )
    (row,) = hour.select("queue_counts").collect()
    assert row[0] == {1.0: 6, float("inf"): 15}
    nothing = same.withColumn("queue_counts", F.lit(None).cast("map<double,bigint>"))
    empty = traffic_longer(nothing, "traffic_1h").where("queue_counts IS NOT NULL")
    assert empty.isEmpty()


def test_a_minute_table_can_be_made_without_dimensions(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    silver = Silver.of_lake(spark, gold_lake.lake)
    bare = replace(DIMENSIONS, tracks={})
    frame = traffic_1m(silver, [DAYS[0]], bare)
    assert {row[0] for row in frame.select("tenant").distinct().collect()} == {"", "acme", "globex"}
    assert frame.schema == finish(frame, GOLD["traffic_1m"]).schema


def test_strange_days_and_tables_are_refused(spark: SparkSession, gold_lake: GoldLake) -> None:
    with pytest.raises(UsageError, match="no telemetry of 2020-01-01: the lake has 2026-11-16 to"):
        build(spark, gold_lake.lake, ["2020-01-01"])
    with pytest.raises(UsageError, match="gold_digger is not a gold table"):
        build(spark, gold_lake.lake, tables=["gold_digger"])


def test_the_commands(
    usual_spark: SparkSession, gold_lake: GoldLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laps_analytics.cli.gold.session_maker", lambda *_: lambda: usual_spark)
    facts = tmp_path / "facts.csv"
    facts.write_text("kind,name,class,tenant,capacity_bps\nrelay,e0:1,,,1e6\n")
    lake = str(gold_lake.lake.root)
    run = CliRunner()
    told = run.invoke(app, ["build", "--lake", lake, "--table", "churn_1h", "--json"])
    (item,) = json.loads(told.stdout)
    assert (item["table"], item["days"]) == ("churn_1h", [])
    told = run.invoke(
        app, ["build", "--lake", lake, "--table", "churn_1h", "--dimensions", str(facts)]
    )
    assert told.stdout == "churn_1h           as it was\n"
    both = run.invoke(app, ["build", "--lake", lake, "--all", "--day", DAYS[0]])
    assert isinstance(both.exception, UsageError)

    told = run.invoke(app, ["bill", "--lake", lake, "--tenant", "acme"], catch_exceptions=False)
    assert told.stdout.splitlines()[0].split()[:3] == ["dt", "tenant", "version"]
    assert len(told.stdout.splitlines()) == 4
    told = run.invoke(app, ["bill", "--lake", lake, "--json", "--day", DAYS[1]])
    checks = json.loads(told.stdout)["reconciled"]
    exact = [row for row in checks if row["check"] != "clients to session.close"]
    assert exact
    assert all(row["equal"] for row in exact)
    assert {row["dt"] for row in json.loads(told.stdout)["telemetry"]} == {DAYS[1]}
    nobody = run.invoke(app, ["bill", "--lake", lake, "--tenant", "nobody"])
    assert isinstance(nobody.exception, UsageError)


def test_a_bill_that_is_not_what_relays_counted_is_no_success(
    usual_spark: SparkSession, gold_lake: GoldLake, copy: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telemetry that came after the bill was stated, and nobody built again."""
    monkeypatch.setattr("laps_analytics.cli.gold.session_maker", lambda *_: lambda: usual_spark)
    last = max(
        (event for event in gold_lake.files.events if event.type == "hop.stat"),
        key=lambda event: event.ts_us,
    )
    fill(copy, [replace(last, event_id=f"{last.event_id}9")])
    told = CliRunner().invoke(app, ["bill", "--lake", str(copy.root), "--day", DAYS[2]])
    assert isinstance(told.exception, GateError)
    assert told.exception.exit_code == 3
    assert "counters differ" in str(told.exception)
    assert told.stdout.splitlines()[0].split()[0] == "dt"
