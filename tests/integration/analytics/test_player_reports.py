"""From real players to gold: two viewers are two, and what one of them says of itself counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.build import build, read_gold
from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake
from testkit.logs import restored_logging
from testkit.reporting_viewers import watch

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def test_a_viewer_that_reports_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    with restored_logging():
        found = asyncio.run(watch(tmp_path))
    lake = Lake.open(tmp_path / "lake", create=True)
    summary = ingest(lambda: spark, lake, [found.folder])
    assert (summary.unfit, summary.copies) == (0, 0)
    assert summary.events == len(found.events())
    tables = ("qoe_region_1m", "usage_tenant_day")
    build(spark, lake, tables=tables)
    gold: dict[str, pd.DataFrame] = {
        name: read_gold(spark, lake, name).toPandas() for name in tables
    }
    quality, usage = (gold[name] for name in tables)
    relays, players = found.reports("relay"), found.reports("player")
    assert quality["sessions"].max() == 2
    # The silent one comes with its relay's reports, the other with its own.
    assert quality["reports"].sum() < len(relays) + len(players)
    assert set(quality["latency_p95_ms"].dropna()) == {900}
    (silent,) = {report.session_id for report in relays} - {report.session_id for report in players}
    began = [r.startup_ms for r in relays if r.session_id == silent and r.startup_ms is not None]
    assert quality["startup_p95_ms"].max() == max(400, *began)
    assert quality["stall_ratio"].max() > 0
    assert usage["watched_ms"].sum() == sum(report.window_ms for report in relays)
    assert usage["peak_sessions"].max() == 2
