from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.silver import ENVELOPE, Silver, partitions_of, wanted
from laps_analytics.lake import read_rows
from laps_analytics.schema import event_types, table_name
from testkit.gold_world import DAYS
from unit.analytics.gold.lakes import GoldLake

pytestmark = pytest.mark.spark


def test_envelopes_of_all_types_are_those_of_each(spark: SparkSession, gold_lake: GoldLake) -> None:
    """One scan over the files of all tables, with the day that their folders say."""
    found = Silver.of_lake(spark, gold_lake.lake).read_envelopes(event_types(), [DAYS[2]], "hour")
    where = wanted([DAYS[2]], "hour")
    each: Counter[Any] = Counter()
    for kind in event_types():
        table = gold_lake.lake.table(f"silver/{table_name(kind)}")
        rows = read_rows(table, where=lambda file: where(*partitions_of(file)))
        each.update(tuple(row[name] for name in ENVELOPE) for row in rows)
    at = ENVELOPE.index("ts")
    ours: Counter[Any] = Counter(
        (*row[:at], row[at].astimezone(UTC), *row[at + 1 :]) for row in found.collect()
    )
    assert isinstance(next(iter(ours))[at], datetime)
    assert {row[0] for row in ours} == {DAYS[1], DAYS[2]}
    assert ours == each


def test_envelopes_of_a_day_without_events_are_none(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    silver = Silver.of_lake(spark, gold_lake.lake)
    nothing = silver.read_envelopes(event_types(), ["2020-01-01"])
    assert nothing.isEmpty()
    assert nothing.schema == silver.read_envelopes(event_types(), [DAYS[0]]).schema
