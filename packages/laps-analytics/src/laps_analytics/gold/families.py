"""Contracts of tables with several window lengths: minutes, hours, days.

Only the shortest is built from records. The others are built from the next shorter one, by the
``merge`` of each column (:mod:`.builders.rollup`). ``*_kll`` and ``*_hll`` are Spark sketches
(Apache DataSketches), which merge over any range of rows. A percentile of a day is not the mean of
the percentiles of its minutes.
"""

from __future__ import annotations

from typing import Final

from laps_analytics.gold.contract import DT, WINDOW_START, GoldColumn, GoldTable, column

__all__ = ["LINK_QUALITY", "QOE", "TRAFFIC"]


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
