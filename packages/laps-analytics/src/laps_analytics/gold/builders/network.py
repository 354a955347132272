"""The network: topology, quality of links, stretch of paths, and stability of routes.

**Topology** (``topology_snapshot``): nodes and links every five minutes, with changes. A node is
present if the last record about it was an advert, or if it measured a link in the five minutes
before. So a relay that is cut off from others stays. Type and place of a node come from its own
adverts. Those of other relays count only if the node never wrote any, because a relay with false
telemetry could otherwise move all others.

A link is present from the first open or measured session. It ends when the relay closes the
session, restarts, or has not measured the link for a quarter of an hour. There is a snapshot only
for five minutes with at least one record.

**Links** (``link_quality_*``, ``path_stretch``). Transports count from the opening of their
session. A window adds the difference to the sample before, if that is at most an hour old. The
first known sample of a session adds nothing.

**Stability** (``convergence``, ``churn_1h``, ``loops_or_dups``). ``convergence`` is the time that
the network needs to settle after a node left, or after two relays lost their session. Records about
one node within a minute of each other are one change. The last route change, set change and report
of missing objects within a minute after its first record belong to it. Two changes in the same
minute share these records. A change just before midnight ends with the day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    FIVE_MINUTES,
    SECONDS,
    Persist,
    finish,
    five_minutes,
    longer,
    percentile,
    percentile_of_sorted,
    quantile,
    unpersisted,
    window,
)
from laps_analytics.gold.builders.traffic import paths_5m
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = [
    "churn",
    "convergence",
    "link_quality",
    "links_longer",
    "loops_or_dups",
    "path_stretch",
    "topology_snapshot",
]

# Topology

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


# Quality of links

_HOUR: Final = 3600
_MARGIN: Final = 0.1
"""Share beyond the range of the hour before from which a median is a change."""
_ENOUGH: Final = 6
"""Earlier windows needed to detect a change."""


def link_quality(silver: Silver, days: Iterable[str], paths: DataFrame | None = None) -> DataFrame:
    """Build ``link_quality_5m``; ``paths`` is the traffic by path of the days, if already built."""
    wanted = tuple(days)
    if paths is None:
        paths = paths_5m(silver, wanted, Dimensions())
    session = Window.partitionBy("relay", "boot", "session_id").orderBy("ts", "event_seq")
    recent = F.unix_micros("ts") - F.unix_micros(F.lag("ts").over(session)) <= _HOUR * 1_000_000

    def gained(column: str) -> Column:
        difference = F.col(column) - F.lag(column).over(session)
        # A counter that fell belongs to a transport that began again.
        return F.when(recent & (difference >= 0), difference).otherwise(F.lit(0))

    samples = (
        silver.read("quic.sample", wanted, "hour")
        .where("peer IS NOT NULL")
        .select(
            "dt",
            five_minutes().alias("window_start"),
            *("relay", "peer", "srtt_us", "rttvar_us"),
            gained("sent_packets").alias("sent"),
            gained("lost_packets").alias("lost"),
            F.lit(None).cast("bigint").alias("out_bytes"),
        )
    )
    nothing = F.lit(None).cast("bigint")
    # Added up before they meet the samples: what follows keeps lists, and costs more for each row.
    bytes_sent = (
        paths.where("out_peer IS NOT NULL")
        .groupBy("dt", "window_start", "relay", F.col("out_peer").alias("peer"))
        .agg(F.sum("out_bytes").alias("out_bytes"))
        .select(
            *("dt", "window_start", "relay", "peer"),
            *[nothing.alias(name) for name in ("srtt_us", "rttvar_us", "sent", "lost")],
            "out_bytes",
        )
    )
    rows = (
        samples.unionByName(bytes_sent)
        .groupBy("window_start", "relay", "peer", "dt")
        .agg(
            F.sort_array(F.collect_list("srtt_us")).alias("rtts"),
            F.kll_sketch_agg_bigint("srtt_us").alias("kll"),
            F.avg("rttvar_us").alias("jitter_us"),
            F.coalesce(F.sum("sent"), F.lit(0)).alias("sent_packets"),
            F.coalesce(F.sum("lost"), F.lit(0)).alias("lost_packets"),
            F.coalesce(F.sum("out_bytes"), F.lit(0)).alias("out_bytes"),
        )
        .withColumns(
            {
                "samples": F.size("rtts").cast("bigint"),
                "rtt_p50_us": percentile_of_sorted(0.5, "rtts"),
                "rtt_p95_us": percentile_of_sorted(0.95, "rtts"),
            }
        )
        .drop("rtts")
    )
    hour = (
        Window.partitionBy("relay", "peer")
        .orderBy(F.unix_seconds("window_start"))
        .rangeBetween(-_HOUR, -FIVE_MINUTES)
    )
    low, high = F.min("rtt_p50_us").over(hour), F.max("rtt_p50_us").over(hour)
    median = F.col("rtt_p50_us")
    left = (median > high * (1 + _MARGIN)) | (median < low * (1 - _MARGIN))
    enough = F.count("rtt_p50_us").over(hour) >= _ENOUGH
    return finish(
        _rated(rows, FIVE_MINUTES)
        .withColumn("rtt_kll", F.when(F.col("samples") > 0, F.col("kll")))
        .withColumn("change_point", F.coalesce(left & enough, F.lit(False))),
        GOLD["link_quality_5m"],
        wanted,
    )


def links_longer(lower: DataFrame, name: str) -> DataFrame:
    """Build ``link_quality_1h`` from five minutes, or ``link_quality_1d`` from hours."""
    if name == "link_quality_1h":
        lower = lower.withColumns(
            {
                "peak_bps": F.col("rate_bps"),
                "change_points": F.col("change_point").cast("bigint"),
            }
        )
    # A mean of samples; where there are none it is null. What they add up to was whole numbers: as
    # such, the order in which Spark adds them up does not show.
    total = F.round(F.col("jitter_us") * F.col("samples")).cast("bigint")
    rows = longer(lower, name, jitter_us=F.try_divide(F.sum(total), F.sum("samples")))
    return finish(
        _rated(rows, SECONDS[name.rpartition("_")[2]]).withColumns(
            {"rtt_p50_us": quantile("rtt_kll", 0.5), "rtt_p95_us": quantile("rtt_kll", 0.95)}
        ),
        GOLD[name],
    )


def _rated(rows: DataFrame, seconds: int) -> DataFrame:
    """Add the ratios, computed from sums."""
    sent = F.col("sent_packets")
    return rows.withColumns(
        {
            "loss": F.when(sent > 0, F.col("lost_packets") / sent),
            "rate_bps": F.col("out_bytes") * 8 / F.lit(float(seconds)),
        }
    )


def path_stretch(
    silver: Silver, days: Iterable[str], *, persist: Persist = unpersisted
) -> DataFrame:
    """Build ``path_stretch``: the path in use against the best of one or two links."""
    wanted = tuple(days)
    keys = ("dt", "window_start")
    in_use = (
        silver.read("node.adv", wanted)
        .where("best AND node_id <> relay AND sum_srtt_us > 0")
        .groupBy("dt", window("ts", _HOUR).alias("window_start"), "relay", "node_id")
        .agg(F.max(F.struct("ts", "event_seq", "sum_srtt_us")).alias("last"))
        .select(*keys, "relay", F.col("node_id").alias("node"), "last.sum_srtt_us")
    )
    # A round trip is as long from either end, so both ends' samples are one link's.
    link = persist(
        silver.read("quic.sample", wanted)
        .where("peer IS NOT NULL AND peer <> relay")
        .groupBy(
            "dt",
            window("ts", _HOUR).alias("window_start"),
            F.least("relay", "peer").alias("a"),
            F.greatest("relay", "peer").alias("b"),
        )
        .agg(percentile(0.5, "srtt_us").alias("rtt"))
    )
    back = link.select(*keys, F.col("b").alias("a"), F.col("a").alias("b"), "rtt")
    links = link.unionByName(back)
    direct = links.select(
        *keys, F.col("a").alias("relay"), F.col("b").alias("node"), "rtt", F.lit("").alias("over")
    )
    first = links.select(*keys, F.col("a").alias("relay"), F.col("b").alias("over"), "rtt")
    second = links.select(
        *keys, F.col("a").alias("over"), F.col("b").alias("node"), F.col("rtt").alias("rest")
    )
    by_two = (
        first.join(second, [*keys, "over"])
        .where("relay <> node")
        .select(*keys, "relay", "node", (F.col("rtt") + F.col("rest")).alias("rtt"), "over")
    )
    best = (
        direct.unionByName(by_two)
        .groupBy(*keys, "relay", "node")
        .agg(F.min(F.struct("rtt", "over")).alias("best"))
    )
    return finish(
        in_use.join(best, [*keys, "relay", "node"]).select(
            *keys,
            *("relay", "node"),
            F.col("sum_srtt_us").alias("actual_us"),
            F.col("best.rtt").alias("best_us"),
            F.col("best.over").alias("best_over"),
            F.when(F.col("best.rtt") > 0, F.col("sum_srtt_us") / F.col("best.rtt")).alias(
                "stretch"
            ),
        ),
        GOLD["path_stretch"],
        wanted,
    )


# Stability

_MINUTE_US: Final = 60 * 1_000_000


def convergence(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``convergence``."""
    wanted = tuple(days)
    micros = F.unix_micros("ts").alias("us")
    gone = silver.read("node.wd", wanted).select(
        "dt", micros, "relay", F.col("node_id").alias("node")
    )
    lost = (
        silver.read("session.close", wanted)
        .where("kind = 'peer' AND peer IS NOT NULL")
        .select("dt", micros, "relay", F.col("peer").alias("node"))
    )
    of_node = Window.partitionBy("dt", "node").orderBy("us")
    begins = F.coalesce(F.col("us") - F.lag("us").over(of_node) > _MINUTE_US, F.lit(True))
    changes = (
        gone.unionByName(lost)
        .withColumn("begins", begins.cast("int"))
        .withColumn("change", F.sum("begins").over(of_node))
        .groupBy("dt", "node", "change")
        .agg(
            F.min("us").alias("begin"),
            F.max("us").alias("end"),
            F.count_distinct("relay").alias("relays"),
        )
        .withColumn("minute", F.floor(F.col("begin") / _MINUTE_US))
    )
    followers = (
        silver.read("route.change", wanted)
        .select("dt", micros, F.lit("rib").alias("what"))
        .unionByName(
            silver.read("sns.adv", wanted).select("dt", micros, F.lit("fib").alias("what"))
        )
        .unionByName(
            silver.read("client.report", wanted)
            .where("gaps > 0")
            .select("dt", micros, F.lit("gap").alias("what"))
        )
    )
    # What follows within a minute lies in the same minute or the next: that is what joins them.
    minute = F.floor(F.col("us") / _MINUTE_US)
    reached = followers.withColumn("minute", F.explode(F.array(minute, minute - 1)))
    after = (F.col("us") >= F.col("begin")) & (F.col("us") < F.col("begin") + _MINUTE_US)
    last = (
        changes.select("dt", "node", "begin", "minute")
        .join(reached, ["dt", "minute"])
        .where(after)
        .groupBy("dt", "node", "begin")
        .agg(
            *[
                F.max(F.when(F.col("what") == what, F.col("us"))).alias(what)
                for what in ("rib", "fib", "gap")
            ]
        )
    )

    def ms(column: str) -> Column:
        return (F.col(column) - F.col("begin")) / F.lit(1000.0)

    return finish(
        changes.join(last, ["dt", "node", "begin"], "left").select(
            "dt",
            F.timestamp_micros("begin").alias("at"),
            *("node", "relays"),
            ms("end").alias("detect_ms"),
            ms("rib").alias("rib_ms"),
            ms("fib").alias("fib_ms"),
            ms("gap").alias("last_gap_ms"),
        ),
        GOLD["convergence"],
        wanted,
    )


_RETURN_US: Final = 60 * 1_000_000
"""Longest time from an unsubscribe to the next subscribe that counts as a flap."""
_DAMP: Final = 5
"""Flaps in an hour from which damping is beneficial."""


def churn(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``churn_1h``: subscribes, unsubscribes and flaps of each subscriber."""
    wanted = tuple(days)
    names = ("dt", "ts", "boot", "event_seq", "relay", "track", "source_node")
    came = silver.read("sub.adv", wanted, "hour").select(
        *names, F.lit(True).alias("came"), F.lit(False).alias("delayed")
    )
    went = silver.read("sub.wd", wanted, "hour").select(
        *names, F.lit(False).alias("came"), "delayed"
    )
    same = Window.partitionBy("relay", "track", "source_node").orderBy("ts", "boot", "event_seq")
    soon = F.unix_micros("ts") - F.unix_micros(F.lag("ts").over(same)) <= _RETURN_US
    events = came.unionByName(went).withColumn(
        "flap",
        F.coalesce(F.col("came") & ~F.lag("came").over(same) & soon, F.lit(False)),
    )
    rows = events.groupBy(
        "dt", window("ts", 3600).alias("window_start"), "relay", "track", "source_node"
    ).agg(
        F.count_if(F.col("came")).alias("subscribes"),
        F.count_if(~F.col("came")).alias("unsubscribes"),
        F.count_if(~F.col("came") & F.col("delayed")).alias("held_back"),
        F.count_if(F.col("flap")).alias("flaps"),
    )
    return finish(rows.withColumn("damp", F.col("flaps") >= _DAMP), GOLD["churn_1h"], wanted)


def loops_or_dups(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``loops_or_dups``: objects that travelled a link twice or came back."""
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
