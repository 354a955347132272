"""The gate is red where the world was spoilt, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.errors import GateError
from laps_analytics.gold.builders.quality import quality
from laps_analytics.gold.silver import Silver
from laps_analytics.plan.observation import Gate, gate_of
from laps_analytics.schema import QUARANTINE
from testkit.gold_world import DAYS, micros
from unit.analytics.gold.lakes import GoldLake, Rows

pytestmark = pytest.mark.spark


def _is_red(row: dict[str, Any], check: str) -> bool:
    return row["check"] == check and not row["ok"]


def test_what_was_spoilt_is_red(gold_lake: GoldLake, rows: Rows) -> None:
    found = gate_of(gold_lake.lake, at_us=micros(f"{DAYS[1]}T23:00:00"), hours=48)
    assert not found.open
    red = {(row["check"], row["subject"]) for row in rows("quality_1h") if not row["ok"]}
    assert ("telemetry_gap", "e3:1") in red
    assert ("sets", "e3:1>e2:1") in red
    assert {subject for check, subject in red if check == "telemetry_gap"} == {"e3:1"}
    # What e3 lost of its telemetry is missing from its links, too; others reconcile.
    assert all("e3:1" in subject for check, subject in red if check == "link_bytes")
    strange = {subject for check, subject in red if check in {"quarantine", "unfit"}}
    assert strange == {"9:9", "x2:1"}
    assert {row["window_start"].hour for row in rows("quality_1h") if _is_red(row, "late")} == {5}
    assert not {check for check, _ in red} & {"clock", "silent"}
    with pytest.raises(GateError, match="the data fails its quality checks: ") as caught:
        found.require()
    assert caught.value.exit_code == 3


def test_a_green_gate_is_open_and_no_data_is_none() -> None:
    found = Gate(1, [])
    assert found.open
    found.require()
    with pytest.raises(GateError, match="not checked"):
        Gate(0, []).require()


def test_reasons_are_cut() -> None:
    with pytest.raises(GateError, match=r"a; b; c \(and 1 more\)"):
        Gate(1, ["a", "b", "c", "d"]).require()


def test_lines_in_quarantine_count(spark: SparkSession, gold_lake: GoldLake) -> None:
    noon = 1_794_916_800_000_000  # 2026-11-17 12:00
    bad = spark.createDataFrame(
        [("x", "f", "not JSON", None, None, 1, noon, DAYS[1])]
        + [("y", "f", "no body", "e0:1", noon + 5, 1, noon, DAYS[1])] * 400,
        QUARANTINE,
    )
    made = quality(Silver.of_lake(spark, gold_lake.lake), [DAYS[1]], bad).where(
        "check = 'quarantine'"
    )
    found = {row["subject"]: row for row in made.collect()}
    assert found.keys() == {"unknown", "e0:1"}
    assert found["unknown"]["ok"]
    assert not found["e0:1"]["ok"]
    assert found["e0:1"]["seen"] == 400
