"""From real relays to gold: what an Edge, a Via and an Edge write fills the tables, to the byte."""

from __future__ import annotations

import asyncio

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.build import build, read_gold
from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake
from testkit.logs import restored_logging
from testkit.recorded_network import LEFT, RIGHT, VIA, Recorded, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

TABLES = (
    *("traffic_1m", "link_quality_5m", "track_fanout_5m", "blame"),
    *("qoe_region_1m", "cache_eff_1h", "quality_1h", "usage_tenant_day"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A few seconds of a show; the objects of every group are timed."""
    with restored_logging():
        return asyncio.run(record(tmp_path_factory.mktemp("relays"), delivery_sample=1))


@pytest.fixture(scope="module")
def gold(
    spark: SparkSession, recorded: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pd.DataFrame]:
    lake = Lake.open(tmp_path_factory.mktemp("real") / "lake", create=True)
    summary = ingest(lambda: spark, lake, [recorded.folder])
    assert (summary.unfit, summary.copies, summary.late) == (0, 0, 0)
    assert summary.events == len(recorded.events())
    build(spark, lake, tables=TABLES)
    assert read_gold(spark, lake, "quality_1h").where("NOT ok").collect() == []
    return {name: read_gold(spark, lake, name).toPandas() for name in TABLES}


def test_every_table_has_something_to_say(gold: dict[str, pd.DataFrame]) -> None:
    assert [name for name, rows in gold.items() if rows.empty] == []


def test_bytes_are_those_that_the_relays_counted(
    recorded: Recorded, gold: dict[str, pd.DataFrame]
) -> None:
    traffic = gold["traffic_1m"]
    sent = traffic.groupby(["relay", "out_peer"])["out_bytes"].sum().to_dict()
    assert sent[LEFT, VIA] == recorded.network[LEFT].bytes_out
    assert sent[VIA, RIGHT] == recorded.network[VIA].bytes_out
    checks = gold["quality_1h"]
    links = checks[checks["check"] == "link_bytes"].groupby("subject")[["expected", "seen"]].sum()
    assert set(links.index) == {f"{LEFT}>{VIA}", f"{VIA}>{RIGHT}"}
    assert (links["expected"] == links["seen"]).all()
    usage = gold["usage_tenant_day"]
    assert usage["in_bytes"].sum() == recorded.published
    assert usage["link_bytes"].sum() == sent[LEFT, VIA] + sent[VIA, RIGHT]
    assert usage["out_bytes"].sum() == sent[RIGHT, ""] > 0


def test_links_and_the_way_of_the_track(gold: dict[str, pd.DataFrame]) -> None:
    links = gold["link_quality_5m"]
    known = set(zip(links["relay"], links["peer"], strict=True))
    assert known == {(LEFT, VIA), (VIA, LEFT), (VIA, RIGHT), (RIGHT, VIA)}
    assert (links["samples"] > 0).all()
    fanout = gold["track_fanout_5m"]
    assert set(fanout["origin"]) == {LEFT}
    assert fanout["hops_max"].max() == 2
    assert fanout["s_relays"].max() == 1


def test_who_was_slow_and_what_viewers_got(gold: dict[str, pd.DataFrame]) -> None:
    assert set(gold["blame"]["part"]) <= {"relay", "link"}  # publishers and players say nothing
    quality = gold["qoe_region_1m"]
    assert quality["sessions"].max() == 2
    assert quality["gap_rate"].max() == 0
    assert quality["startup_p95_ms"].max() >= 0
    cache = gold["cache_eff_1h"]
    assert set(cache["relay"]) == {LEFT, RIGHT}
    assert (cache["stored_bytes"] > 0).all()
