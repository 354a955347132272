"""The table ``topology_snapshot``: nodes and links every five minutes, with changes.

A node is present if the last record about it was an advert, or if it measured a link in the five
minutes before. So a relay that is cut off from others stays. Type and place of a node come from its
own adverts. Those of other relays count only if the node never wrote any, because a relay with
false telemetry could otherwise move all others.

A link is present from the first open or measured session. It ends when the relay closes the
session, restarts, or has not measured the link for a quarter of an hour. There is a snapshot only
for five minutes with at least one record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    FIVE_MINUTES,
    Persist,
    finish,
    five_minutes,
    unpersisted,
)
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["topology_snapshot"]

_STATE: Final = ("said", "facts", "heard", "home")
_GONE: Final = "now IS NULL"
_SILENCE: Final = 3
"""Five-minute windows for which a link without records stays, that of the last one included."""


def topology_snapshot(
    silver: Silver, days: Iterable[str], *, persist: Persist = unpersisted
) -> DataFrame:
    """Build ``topology_snapshot``."""
    wanted = tuple(days)
    sessions = persist(_session_events(silver, wanted))
    statements = persist(_node_statements(silver, wanted))
    moments = persist(
        sessions.select("at")
        .unionByName(statements.select("at"))
        .distinct()
        .where(_day("at").isin(sorted(wanted)))
    )
    nodes = _nodes(statements, moments, persist)
    links = _links(sessions, moments, persist)
    return finish(nodes.unionByName(links).withColumn("dt", _day("at")), GOLD["topology_snapshot"])


def _day(column: str) -> Column:
    return F.date_format(column, "yyyy-MM-dd")


def _moment() -> Column:
    """Return the end of the five-minute window of a record."""
    return F.timestamp_seconds(F.unix_seconds(five_minutes()) + FIVE_MINUTES)


def _later(column: str, steps: int = 1) -> Column:
    return F.timestamp_seconds(F.unix_seconds(column) + steps * FIVE_MINUTES)


# Nodes


def _node_statements(silver: Silver, days: Sequence[str]) -> DataFrame:
    """Return the last record of each kind about each node in five minutes."""
    facts = ("node_type", "longitude", "latitude", "load")
    nothing = [
        F.lit(None).cast("string" if name == "node_type" else "double").alias(name)
        for name in facts
    ]
    common = ("ts", "event_id", "relay", "region")
    here, gone, unsaid = F.lit(True), F.lit(False), F.lit(None).cast("boolean")
    said = (
        silver.read("node.adv", days, "all")
        .select(*common, F.col("node_id").alias("node"), here.alias("there"), *facts)
        .unionByName(
            silver.read("node.wd", days, "all").select(
                *common, F.col("node_id").alias("node"), gone.alias("there"), *nothing
            )
        )
        .unionByName(
            silver.read("quic.sample", days, "hour").select(
                *common, F.col("relay").alias("node"), unsaid.alias("there"), *nothing
            )
        )
    )
    own = F.col("relay") == F.col("node")
    return said.groupBy("node", _moment().alias("at")).agg(
        F.max(F.when(F.col("there").isNotNull(), F.struct("ts", "event_id", "there"))).alias(
            "said"
        ),
        F.max(F.when(F.col("there") & own, F.struct("ts", "event_id", *facts))).alias("facts"),
        F.max(F.when(F.col("there"), F.struct("ts", "event_id", *facts))).alias("heard"),
        F.max(
            F.when(own & F.col("region").isNotNull(), F.struct("ts", "event_id", "region"))
        ).alias("home"),
        F.bool_or(F.col("there").isNull()).alias("measured"),
    )


def _nodes(statements: DataFrame, moments: DataFrame, persist: Persist) -> DataFrame:
    in_time = Window.partitionBy("node").orderBy("at")
    so_far = in_time.rowsBetween(Window.unboundedPreceding, 0)
    states = statements.select(
        "node",
        F.col("at").alias("since"),
        F.lead("at").over(in_time).alias("until"),
        *[F.last(name, ignorenulls=True).over(so_far).alias(name) for name in _STATE],
        "measured",
    )
    both = moments.unionByName(moments.select(_later("at", -1).alias("at"))).distinct()
    inside = (F.col("at") >= F.col("since")) & (
        F.col("until").isNull() | (F.col("at") < F.col("until"))
    )
    measured = F.col("measured") & (F.col("at") == F.col("since"))
    present = (
        states.join(F.broadcast(both), inside)
        .where(F.coalesce("said.there", F.lit(False)) | measured)
        .withColumn("facts", F.coalesce("facts", "heard"))
        .select(
            *("at", "node"),
            F.col("facts.node_type").alias("node_type"),
            F.col("home.region").alias("region"),
            *[F.col(f"facts.{name}").alias(name) for name in ("longitude", "latitude", "load")],
        )
    )
    like = [
        F.col(f"now.{name}").eqNullSafe(F.col(f"then.{name}"))
        for name in ("node_type", "region", "longitude", "latitude")
    ]
    moved = ~reduce(Column.__and__, like)
    compared = _compared(persist(present), moments, ("node",), moved)
    return compared.select(
        "at",
        F.lit("node").alias("kind"),
        "node",
        F.lit("").alias("peer"),
        *[
            F.when(F.expr(_GONE), F.col(f"then.{name}")).otherwise(F.col(f"now.{name}")).alias(name)
            for name in ("node_type", "region", "longitude", "latitude", "load")
        ],
        F.lit(None).cast("bigint").alias("srtt_us"),
        "change",
    )


# Links


def _session_events(silver: Silver, days: Sequence[str]) -> DataFrame:
    """Return the sessions of peers that were opened, measured or closed."""
    nothing = F.lit(None).cast("bigint").alias("srtt_us")

    def events(kind: str, srtt: Column | str) -> DataFrame:
        return (
            silver.read(kind, days, "hour")
            .where("peer IS NOT NULL")
            .select(
                _moment().alias("at"),
                *("ts", "event_seq", "relay", "boot", "session_id", "peer"),
                F.lit(kind != "session.close").alias("there"),
                srtt,
            )
        )

    return (
        events("quic.sample", "srtt_us")
        .unionByName(events("session.open", nothing))
        .unionByName(events("session.close", nothing))
    )


def _links(sessions: DataFrame, moments: DataFrame, persist: Persist) -> DataFrame:
    srtt = F.when(F.col("srtt_us").isNotNull(), F.struct("ts", "event_seq", "srtt_us"))
    in_time = Window.partitionBy("relay", "boot", "session_id", "peer").orderBy("at")
    boots = sessions.groupBy("relay", "boot").agg(F.min("at").alias("first"))
    later_boot = F.lead("first").over(Window.partitionBy("relay").orderBy("boot"))
    over = boots.select("relay", "boot", later_boot.alias("over"))
    present = (
        sessions.groupBy("at", "relay", "boot", "session_id", "peer")
        .agg(F.max(F.struct("ts", "event_seq", "there")).alias("last"), F.max(srtt).alias("sample"))
        .withColumn("until", F.lead("at").over(in_time))
        .where("last.there")
        .join(F.broadcast(over), ["relay", "boot"])
        .withColumn("step", F.explode(F.sequence(F.lit(0), F.lit(_SILENCE - 1))))
        .withColumn("at", F.timestamp_seconds(F.unix_seconds("at") + F.col("step") * FIVE_MINUTES))
        .where("(until IS NULL OR at < until) AND (over IS NULL OR at < over)")
        .groupBy("at", F.col("relay").alias("node"), "peer")
        .agg(F.max("sample").alias("sample"))
        .select("at", "node", "peer", F.col("sample.srtt_us").alias("srtt_us"))
    )
    compared = _compared(persist(present), moments, ("node", "peer"), F.lit(False))
    none = F.lit(None)
    return compared.select(
        "at",
        F.lit("link").alias("kind"),
        *("node", "peer"),
        *[none.cast("string").alias(name) for name in ("node_type", "region")],
        *[none.cast("double").alias(name) for name in ("longitude", "latitude", "load")],
        F.when(F.expr(_GONE), F.col("then.srtt_us"))
        .otherwise(F.col("now.srtt_us"))
        .alias("srtt_us"),
        "change",
    )


def _compared(
    present: DataFrame, moments: DataFrame, keys: tuple[str, ...], moved: Column
) -> DataFrame:
    """Return what is present at each moment, beside what was present at the one before."""
    rest = [name for name in present.columns if name not in {"at", *keys}]
    now = present.join(F.broadcast(moments), "at", "left_semi").select(
        "at", *keys, F.struct(*rest).alias("now")
    )
    then = (
        present.withColumn("at", _later("at"))
        .join(F.broadcast(moments), "at", "left_semi")
        .select("at", *keys, F.struct(*rest).alias("then"))
    )
    change = (
        F.when(F.col("then").isNull(), F.lit("added"))
        .when(F.col("now").isNull(), F.lit("removed"))
        .when(moved, F.lit("moved"))
        .otherwise(F.lit("same"))
    )
    return now.join(then, ["at", *keys], "outer").withColumn("change", change)
