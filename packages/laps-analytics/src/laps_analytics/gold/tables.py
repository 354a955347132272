"""Contracts of all gold tables. Builders, tests and the reference page use them.

A contract has the columns of a table, its grain, and the question that it answers. A *link* is a
pair of peer relays, in one direction of the data. *WAN* bytes are those that a relay sent to a peer
in another region. A relay without a region is a region of its own.

Some tables have several window lengths: minutes, hours, days. Only the shortest is built from
records. The others are built from the next shorter one, by the ``merge`` of each column
(:func:`.builders.common.longer`). ``*_kll`` and ``*_hll`` are Spark sketches (Apache DataSketches),
which merge over any range of rows. A percentile of a day is not the mean of the percentiles of its
minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from laps_analytics.schema import event_types

__all__ = [
    "DT",
    "GOLD",
    "LINK_QUALITY",
    "QOE",
    "TOPOLOGY",
    "TRACK_FANOUT",
    "TRAFFIC",
    "WINDOW_START",
    "GoldColumn",
    "GoldTable",
    "Merge",
    "column",
    "sql_type",
]

# Contracts

Merge: TypeAlias = Literal["", "sum", "max", "hll", "kll"]
"""How a longer window computes a column: sum, maximum, or merged sketches.

Empty for a key and for a column that is computed from others.
"""

_PLAIN: Final[dict[str, DataType]] = {
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def sql_type(text: str) -> DataType:
    """Parse the SQL name of a type. Spark's own parser needs a running session."""
    name, _, inside = text.partition("<")
    if not inside:
        return _PLAIN[name]
    parts = _split(inside.removesuffix(">"))
    if name == "array":
        return ArrayType(sql_type(parts[0]))
    if name == "map":
        return MapType(sql_type(parts[0]), sql_type(parts[1]))
    fields = [part.split(":", 1) for part in parts]
    return StructType([StructField(field, sql_type(kind)) for field, kind in fields])


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside another type."""
    parts, depth = [""], 0
    for char in text:
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


@dataclass(frozen=True, slots=True)
class GoldColumn:
    """A column: its name, its SQL type and a description."""

    name: str
    type: str
    doc: str
    key: bool = False
    """Whether it is part of the key of a row."""
    merge: Merge = ""


def column(name: str, kind: str, doc: str, *, key: bool = False, merge: Merge = "") -> GoldColumn:
    """Return a column; keys come first."""
    return GoldColumn(name, kind, doc, key, merge)


DT: Final = column("dt", "string", "Day of the row, UTC, as yyyy-mm-dd; the partition.", key=True)
"""Column of every table."""
WINDOW_START: Final = column("window_start", "timestamp", "Begin of the window, UTC.", key=True)
"""Column of tables whose rows have a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldTable:
    """A table that answers a question."""

    name: str
    question: str
    grain: str
    """What a row stands for."""
    inputs: tuple[str, ...]
    """Event types that it is built from."""
    columns: tuple[GoldColumn, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the key."""
        return tuple(item.name for item in self.columns if item.key)

    def schema(self) -> StructType:
        """Return the Spark schema; keys are not nullable."""
        return StructType(
            [
                StructField(item.name, sql_type(item.type), nullable=not item.key)
                for item in self.columns
            ]
        )


# Tables with several window lengths


def _counted(shortest: bool) -> str:
    """Return the end of a description: whether a sketch is the source."""
    return "." if shortest else "; from the sketch."


def _traffic(name: str, length: str) -> GoldTable:
    return GoldTable(
        name=name,
        question=f"How much went where, by {length}?",
        grain=f"a link or the clients of a relay, a tenant, a {length}",
        inputs=("hop.stat",),
        columns=(
            DT,
            WINDOW_START,
            column("relay", "string", "The relay that sent.", key=True),
            column("out_peer", "string", "The peer; empty for clients of the relay.", key=True),
            column("tenant", "string", "Whose traffic; empty if nobody's.", key=True),
            column("objects", "bigint", "Objects forwarded.", merge="sum"),
            column("in_bytes", "bigint", "Bytes received for them.", merge="sum"),
            column("out_bytes", "bigint", "Bytes sent.", merge="sum"),
            column("drops", "bigint", "Objects dropped, all reasons.", merge="sum"),
            column("drops_by", "map<string,bigint>", "Objects dropped, by reason."),
            column(
                "queue_counts",
                "map<double,bigint>",
                "Time in queues: upper bound in ms (infinity last) to objects.",
            ),
            column("tracks_hll", "binary", "Sketch of the tracks.", merge="hll"),
        ),
    )


def _links(name: str, length: str, question: str, *, shortest: bool = False) -> GoldTable:
    end = _counted(shortest)
    if shortest:
        last: tuple[GoldColumn, ...] = (
            column(
                "change_point",
                "boolean",
                "Whether the median left the range of the hour before (six or more) by over a"
                " tenth.",
            ),
        )
    else:
        last = (
            column("peak_bps", "double", "The most of it in five minutes.", merge="max"),
            column(
                "change_points",
                "bigint",
                "Five minutes in which the round trip time changed (`change_point`).",
                merge="sum",
            ),
        )
    return GoldTable(
        name=name,
        question=question,
        grain=f"a link, {length}",
        inputs=("quic.sample", "hop.stat"),
        columns=(
            DT,
            WINDOW_START,
            column("relay", "string", "The end that measured.", key=True),
            column("peer", "string", "The other end.", key=True),
            column("samples", "bigint", "Samples of the transport.", merge="sum"),
            column("rtt_p50_us", "bigint", f"Median of the smoothed round trip times{end}"),
            column("rtt_p95_us", "bigint", f"95th percentile of them{end}"),
            column("rtt_kll", "binary", "Sketch of them (bigint).", merge="kll"),
            column("jitter_us", "double", "Mean variation of the round trip time."),
            column("sent_packets", "bigint", "Packets sent in the window.", merge="sum"),
            column("lost_packets", "bigint", "Packets lost in the window.", merge="sum"),
            column("loss", "double", "Lost of sent; null if nothing was sent."),
            column("out_bytes", "bigint", "Bytes of tracks sent over it (hop.stat).", merge="sum"),
            column("rate_bps", "double", "The same as bits a second."),
            *last,
        ),
    )


def _qoe(name: str, length: str, question: str, *, shortest: bool = False) -> GoldTable:
    end = _counted(shortest)
    return GoldTable(
        name=name,
        question=question,
        grain=f"a region, a tenant, a class of service, a {length}",
        inputs=("client.report",),
        columns=(
            DT,
            WINDOW_START,
            column("region", "string", "Region of the relay; empty if it has none.", key=True),
            column("tenant", "string", "Empty if nobody's.", key=True),
            column(
                "class", "string", "gold, silver, bronze, or empty (track dimension).", key=True
            ),
            column(
                "reports",
                "bigint",
                "Client reports: of players, where they report; else of relays.",
                merge="sum",
            ),
            column("sessions", "bigint", f"Sessions that reported{end}"),
            column("sessions_hll", "binary", "Sketch of them.", merge="hll"),
            column("startup_p95_ms", "bigint", f"95th percentile of start-up{end}"),
            column("startup_kll", "binary", "Sketch of start-up (bigint).", merge="kll"),
            column("latency_p50_ms", "bigint", f"Median behind live{end}"),
            column("latency_p95_ms", "bigint", f"95th percentile behind live{end}"),
            column("latency_p99_ms", "bigint", f"99th percentile behind live{end}"),
            column("latency_kll", "binary", "Sketch of latency (bigint).", merge="kll"),
            column("watched_ms", "bigint", "Time watched.", merge="sum"),
            column("stalled_ms", "bigint", "Of it, time stalled.", merge="sum"),
            column("stall_ratio", "double", "Time stalled by time watched."),
            column("gaps", "bigint", "Objects missing.", merge="sum"),
            column("gap_rate", "double", "Objects missing, a minute of watching."),
            column("over_limit", "bigint", "Reports over the limit of their class.", merge="sum"),
            column(
                "burn",
                "double",
                "Share over the limit by the share allowed: above 1 the budget shrinks.",
            ),
        ),
    )


TRAFFIC: Final = (
    _traffic("traffic_1m", "minute"),
    _traffic("traffic_1h", "hour"),
    _traffic("traffic_1d", "day"),
)
LINK_QUALITY: Final = (
    _links(
        "link_quality_5m",
        "five minutes",
        "Which link is slow, lossy or full, and since when?",
        shortest=True,
    ),
    _links("link_quality_1h", "an hour", "At which hours is a link slow, lossy or full?"),
    _links("link_quality_1d", "a day", "On which days was a link slow, lossy or full?"),
)
QOE: Final = (
    _qoe(
        "qoe_region_1m",
        "minute",
        "Who hurts, and is the promise to their class kept?",
        shortest=True,
    ),
    _qoe("qoe_region_1h", "hour", "At which hours do viewers hurt, and who?"),
    _qoe("qoe_region_1d", "day", "Was the promise to a class kept, day by day?"),
)


# Other tables

TOPOLOGY: Final = GoldTable(
    name="topology_snapshot",
    question="What did the network look like at a time, and what changed since the one before?",
    grain="a node or a link, every five minutes",
    inputs=("node.adv", "node.wd", "session.open", "session.close", "quic.sample"),
    columns=(
        DT,
        column("at", "timestamp", "The moment: end of a window of five minutes.", key=True),
        column("kind", "string", "node or link.", key=True),
        column("node", "string", "The node; of a link, the one that measured.", key=True),
        column("peer", "string", "Of a link the other end; empty for a node.", key=True),
        column("node_type", "string", "edge, via, stub or control; null for a link."),
        column("region", "string", "Where the node is."),
        column("longitude", "double", "Degrees east."),
        column("latitude", "double", "Degrees north."),
        column("load", "double", "Share of its capacity in use."),
        column("srtt_us", "bigint", "Of a link: the last smoothed round trip time."),
        column("change", "string", "added, removed, moved (other type, region or place) or same."),
    ),
)

TRACK_FANOUT: Final = GoldTable(
    name="track_fanout_5m",
    question="Where do WAN bytes travel twice?",
    grain="a track, five minutes",
    inputs=("hop.stat", "quic.sample", "node.adv"),
    columns=(
        DT,
        WINDOW_START,
        column("track", "string", "Hash of the full track name.", key=True),
        column("tenant", "string", "Whose track; empty if nobody's.", key=True),
        column("origin", "string", "The relay of the publisher: it has no in_peer."),
        column(
            "s_relays", "bigint", "Relays that sent to clients of their own, the origin included."
        ),
        column("relays", "bigint", "Relays that forwarded it."),
        column("hops_max", "bigint", "Links on the longest way from the origin, at most eight."),
        column("track_bytes", "bigint", "Bytes of the track, received by its origin."),
        column("link_bytes", "bigint", "Bytes sent between relays."),
        column("wan_bytes", "bigint", "Of these, between regions."),
        column(
            "ideal_wan_bytes",
            "bigint",
            "Track bytes for each other region that has s-relays, once.",
        ),
        column("dup_factor", "double", "WAN bytes by ideal; null without WAN."),
        column("stress_max", "double", "Most copies between two regions, in one direction."),
        column("worst_pair", "string", "Those regions, as `from>to`."),
    ),
)

PATH_STRETCH: Final = GoldTable(
    name="path_stretch",
    question="Which pairs of relays would be nearer over another one?",
    grain="a pair of relays, an hour",
    inputs=("quic.sample", "node.adv"),
    columns=(
        DT,
        WINDOW_START,
        column("relay", "string", "From.", key=True),
        column("node", "string", "To.", key=True),
        column("actual_us", "bigint", "Round trip time of the way in use (last best node.adv)."),
        column("best_us", "bigint", "Least sum of link medians, directly or over one relay."),
        column("best_over", "string", "That relay; empty if direct."),
        column("stretch", "double", "Actual by best."),
    ),
)

BLAME: Final = GoldTable(
    name="blame",
    question="Whose fault is it?",
    grain="a track, a minute with samples that were too slow, and who held them up",
    inputs=("delivery.sample", "client.report"),
    columns=(
        DT,
        WINDOW_START,
        column("track", "string", "Hash of the full track name.", key=True),
        column("part", "string", "publisher, relay, link or client.", key=True),
        column(
            "relay",
            "string",
            "The relay, or where the link begins; empty for a publisher.",
            key=True,
        ),
        column("peer", "string", "Where the link ends; empty if it is no link.", key=True),
        column(
            "objects",
            "bigint",
            "Slow deliveries (an object at a relay with clients) that this part held up most.",
        ),
        column("excess_ms", "double", "Mean time over its usual (median of the hour)."),
        column("share", "double", "Of the track's slow deliveries in that minute."),
    ),
)

CHURN: Final = GoldTable(
    name="churn_1h",
    question="Who comes and goes too often, and what did holding back save?",
    grain="a track at a relay, an hour",
    inputs=("sub.adv", "sub.wd"),
    columns=(
        DT,
        WINDOW_START,
        column("relay", "string", "The relay that saw it.", key=True),
        column("track", "string", "Hash of the full track name.", key=True),
        column("source_node", "string", "The node with the subscribers.", key=True),
        column("subscribes", "bigint", "Subscribes that came."),
        column("unsubscribes", "bigint", "Subscribes that went."),
        column("held_back", "bigint", "Of these, held back first."),
        column("flaps", "bigint", "Subscribes within 60 s after an unsubscribe of the same."),
        column("damp", "boolean", "Whether damping would pay: five flaps or more."),
    ),
)

CACHE: Final = GoldTable(
    name="cache_eff_1h",
    question="Is the cache worth its memory, and what would another ttl bring?",
    grain="a relay, an hour",
    inputs=("cache.stat",),
    columns=(
        DT,
        WINDOW_START,
        column("relay", "string", "The relay.", key=True),
        column("hit_bytes", "bigint", "Bytes served from the cache."),
        column("miss_bytes", "bigint", "Bytes asked for that were not there."),
        column("hit_rate", "double", "Hits of both; null if nothing was asked for."),
        column("expired_bytes", "bigint", "Removed because their time was over."),
        column("evicted_bytes", "bigint", "Removed to make room."),
        column("fetch_joins", "bigint", "Fetches that joined another."),
        column("stored_bytes", "bigint", "Most bytes held."),
        column(
            "would_hit",
            "map<bigint,double>",
            "Hit rate that another ttl (in ms) would have had; null if relays do not say ages.",
        ),
    ),
)

CAPACITY: Final = GoldTable(
    name="capacity_fc",
    question="What runs out, and when?",
    grain="a relay or a link, a day ahead (fourteen of them)",
    inputs=("hop.stat",),
    columns=(
        DT,
        column("kind", "string", "relay or link.", key=True),
        column("relay", "string", "The relay.", key=True),
        column("peer", "string", "The other end of a link; empty for a relay.", key=True),
        column(
            "day", "date", "The day that is forecast; dt is the last day that was seen.", key=True
        ),
        column("peak_bps", "double", "Forecast of the day's busiest five minutes."),
        column("low_bps", "double", "Lower end of the 80 % interval."),
        column("high_bps", "double", "Upper end of it."),
        column("capacity_bps", "double", "What it can carry (dimension); null if unknown."),
        column(
            "days_to_80",
            "bigint",
            "Days until the forecast passes 80 % of that; null: not within fourteen.",
        ),
    ),
)

USAGE: Final = GoldTable(
    name="usage_tenant_day",
    question="Who pays what?",
    grain="a tenant, a day, a version (a day that changed is stated again, never rewritten)",
    inputs=("hop.stat", "client.report"),
    columns=(
        DT,
        column("tenant", "string", "Who pays; empty: nobody's traffic.", key=True),
        column("version", "bigint", "1, 2, ...; the largest counts.", key=True),
        column("in_bytes", "bigint", "Bytes received from publishers of the tenant."),
        column("out_bytes", "bigint", "Bytes sent to clients of the tenant."),
        column("link_bytes", "bigint", "Bytes between relays for the tenant."),
        column("watched_ms", "bigint", "Time that relays reported on clients."),
        column("peak_sessions", "bigint", "Most clients that relays reported on in one minute."),
        column("p95_bps", "double", "95th percentile of the five-minute rates to clients."),
        column("events", "bigint", "Records that this was made from."),
        column("closed_us", "bigint", "When this version was made, microseconds since 1970."),
    ),
)

ANOMALY: Final = GoldTable(
    name="anomaly",
    question="What is unusual, since when, and what has it in common?",
    grain="an incident",
    inputs=("client.report", "hop.stat", "quic.sample"),
    columns=(
        DT,
        column("incident", "string", "Name of the incident: metric and begin.", key=True),
        column("metric", "string", "latency, stalls, gaps, loss, rtt, drops or traffic."),
        column("first", "timestamp", "Begin of its first window."),
        column("last", "timestamp", "End of its last window."),
        column("windows", "bigint", "Unusual windows, over all series."),
        column("series", "bigint", "Series that were unusual."),
        column(
            "peak_z", "double", "Largest robust z: distance from the usual in its usual spread."
        ),
        column("observed", "double", "What was seen at the peak."),
        column("expected", "double", "What is usual then."),
        column(
            "explained",
            "array<struct<dimension:string,value:string,share:double>>",
            "Up to three dimensions that most of it has in common.",
        ),
    ),
)

CONVERGENCE: Final = GoldTable(
    name="convergence",
    question="How long did it take the network to settle?",
    grain="a change of the topology",
    inputs=("node.wd", "session.close", "route.change", "sns.adv", "client.report"),
    columns=(
        DT,
        column("at", "timestamp", "When the first relay wrote of it.", key=True),
        column("node", "string", "The node that went or lost a session.", key=True),
        column("relays", "bigint", "Relays that wrote of it."),
        column("detect_ms", "double", "First to last relay that noticed."),
        column("rib_ms", "double", "To the last change of a way."),
        column("fib_ms", "double", "To the last change of a set."),
        column("last_gap_ms", "double", "To the last report of missing objects within a minute."),
    ),
)

LOOPS: Final = GoldTable(
    name="loops_or_dups",
    question="Did an object travel a link twice, or come back? (There should be no row.)",
    grain="an object over a link, more than once",
    inputs=("delivery.sample",),
    columns=(
        DT,
        column("track", "string", "Hash of the full track name.", key=True),
        column("group_id", "bigint", "Its group.", key=True),
        column("object_id", "bigint", "The object.", key=True),
        column("relay", "string", "Who sent.", key=True),
        column("out_peer", "string", "To whom.", key=True),
        column("times", "bigint", "How often."),
        column("loop", "boolean", "Whether the peer had sent it to the relay as well."),
    ),
)

QUALITY: Final = GoldTable(
    name="quality_1h",
    question="Can the other tables be believed? A red row stops planning.",
    grain="a check, what it is about, an hour",
    inputs=event_types(),
    columns=(
        DT,
        WINDOW_START,
        column(
            "check",
            "string",
            "telemetry_gap, link_bytes, sets, clock, late, quarantine, unfit or silent.",
            key=True,
        ),
        column("subject", "string", "A relay, or a link as `a>b`.", key=True),
        column("expected", "double", "What should be there."),
        column("seen", "double", "What is there."),
        column("error", "double", "Difference by expected."),
        column("limit", "double", "What is tolerated."),
        column("ok", "boolean", "Whether it is within."),
    ),
)

GOLD: Final[Mapping[str, GoldTable]] = {
    table.name: table
    for table in (
        *TRAFFIC,
        TOPOLOGY,
        *LINK_QUALITY,
        *(TRACK_FANOUT, PATH_STRETCH),
        *QOE,
        *(BLAME, CHURN, CACHE, CAPACITY, USAGE),
        *(ANOMALY, CONVERGENCE, LOOPS, QUALITY),
    )
}
"""Name to contract, in the order of the documentation."""
