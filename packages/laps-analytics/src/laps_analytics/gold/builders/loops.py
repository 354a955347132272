"""Objects that travelled a link twice or came back. There should be none: this is a check."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["loops_or_dups"]


def loops_or_dups(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``loops_or_dups``."""
    wanted = tuple(days)
    object_of = ("dt", "track", "group_id", "object_id", "relay")
    samples = silver.read("delivery.sample", wanted).where(
        "group_id IS NOT NULL AND object_id IS NOT NULL"
    )
    sent = (
        samples.where("out_peer IS NOT NULL")
        .groupBy(*object_of, "out_peer")
        .agg(F.count("*").alias("times"))
    )
    came = (
        samples.where("in_peer IS NOT NULL")
        .groupBy(*object_of)
        .agg(F.collect_set("in_peer").alias("senders"))
    )
    rows = sent.join(came, [*object_of], "left").withColumn(
        "loop", F.coalesce(F.array_contains("senders", F.col("out_peer")), F.lit(False))
    )
    return finish(rows.where("loop OR times > 1"), GOLD["loops_or_dups"], wanted)
