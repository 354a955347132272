"""What relays reported of the last hour: from the tables of a lake, without Spark.

The tables that a plan needs are small: gold rows of an hour, and ``hop.stat`` of the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from laps_analytics.errors import PlanError
from laps_analytics.gold.build import gold_name
from laps_analytics.gold.gate import Gate
from laps_analytics.lake import Lake
from laps_analytics.lake.rows import read_rows

__all__ = ["HopRow", "NodeRow", "Observed", "gate_of", "observe"]

HISTORY_DAYS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A relay as it described itself last."""

    node: str
    kind: str
    region: str = ""
    longitude: float | None = None
    latitude: float | None = None
    load: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HopRow:
    """A track on one way through a relay, a mean over the time that was looked at."""

    relay: str
    track: str
    in_peer: str | None
    out_peer: str | None
    in_bps: float
    out_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that relays said."""

    at_us: int
    """The end of the time that was looked at."""
    nodes: Sequence[NodeRow]
    rtt_ms: Mapping[tuple[str, str], Mapping[int, float]]
    """Who measured, and to whom: begin of a window of five minutes (microseconds) to its median."""
    loss: Mapping[tuple[str, str], Mapping[int, float]] = field(default_factory=dict)
    """The same, as a share of the packets that were sent."""
    hops: Sequence[HopRow] = ()


def observe(lake: Lake, *, minutes: int = 60, at_us: int | None = None) -> Observed:
    """The last ``minutes`` of a lake, up to ``at_us`` or its newest snapshot."""
    days = sorted({dt for (dt,) in _table(lake, "topology_snapshot").partitions("dt")})
    if not days:
        raise PlanError(
            f"{lake.root} has no topology_snapshot: run `laps-analytics ingest` and `build` first"
        )
    topology = _rows(lake, "topology_snapshot", days[-2:])
    moments = [_us(row["at"]) for row in topology]
    end = max(moments) if at_us is None else at_us
    begin = end - minutes * 60_000_000
    nodes = _nodes([row for row in topology if begin <= _us(row["at"]) <= end])
    if not nodes:
        raise PlanError("no relay is known in the time that the plan would be based on")
    first = _day(end - HISTORY_DAYS * 86_400_000_000)
    quality = _rows(lake, "link_quality_5m", [day for day in days if day >= first])
    rtt: dict[tuple[str, str], dict[int, float]] = {}
    lost: dict[tuple[str, str], dict[int, float]] = {}
    for row in quality:
        at, pair = _us(row["window_start"]), (row["relay"], row["peer"])
        if at > end:
            continue
        if row["rtt_p50_us"] is not None:
            rtt.setdefault(pair, {})[at] = row["rtt_p50_us"] / 1000
        if row["loss"] is not None:
            lost.setdefault(pair, {})[at] = row["loss"]
    return Observed(
        at_us=end,
        nodes=nodes,
        rtt_ms=rtt,
        loss=lost,
        hops=_hops(lake, begin, end),
    )


def gate_of(lake: Lake, *, at_us: int, hours: int = 2) -> Gate:
    """Whether the quality of the last hours allows to plan; see ``gold.gate``."""
    last = at_us // 3_600_000_000 * 3_600_000_000
    first = last - (hours - 1) * 3_600_000_000
    rows = [
        row
        for row in _rows(lake, "quality_1h", sorted({_day(first), _day(last)}))
        if first <= _us(row["window_start"]) <= last
    ]
    red = sorted(
        (row for row in rows if not row["ok"]),
        key=lambda row: (
            -(row["error"] - row["limit"]) / (row["limit"] + 1e-3),
            row["window_start"],
            row["check"],
            row["subject"],
        ),
    )
    return Gate(
        len({row["window_start"] for row in rows}),
        [
            f"{row['check']} of {row['subject']} at {row['window_start']:%Y-%m-%d %H:%M}:"
            f" {row['seen']:g} for {row['expected']:g}, off by {row['error']:.2%}"
            for row in red
        ],
    )


def _nodes(rows: Sequence[Mapping[str, Any]]) -> list[NodeRow]:
    last: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: _us(row["at"])):
        if row["kind"] == "node":
            last[row["node"]] = row
    return [
        NodeRow(
            node=name,
            kind=row["node_type"] or "edge",
            region=row["region"] or "",
            longitude=row["longitude"],
            latitude=row["latitude"],
            load=row["load"] or 0.0,
        )
        for name, row in sorted(last.items())
        if row["change"] != "removed"
    ]


def _hops(lake: Lake, begin: int, end: int) -> list[HopRow]:
    """Rates of ``hop.stat``: bytes by the time that a relay's records of the track cover."""
    hours = {(_day(at), f"{_when(at).hour:02}") for at in range(begin, end + 1, 3_600_000_000)}
    hours.add((_day(end), f"{_when(end).hour:02}"))
    rows = read_rows(
        lake.table("silver/hop_stat"),
        where=lambda file: (file.partition["dt"], file.partition["hour"]) in hours,
    )
    sums: dict[tuple[str, str, str | None, str | None], list[float]] = {}
    for row in rows:
        if begin <= _us(row["ts"]) <= end:
            key = row["relay"], row["track"], row["in_peer"], row["out_peer"]
            found = sums.setdefault(key, [0.0, 0.0, 0.0])
            found[0] += row["in_bytes"] * 8
            found[1] += row["out_bytes"] * 8
            found[2] += row["window_ms"] / 1000
    return [
        HopRow(
            relay=relay,
            track=track,
            in_peer=in_peer,
            out_peer=out_peer,
            in_bps=found[0] / found[2],
            out_bps=found[1] / found[2],
        )
        for (relay, track, in_peer, out_peer), found in sorted(sums.items(), key=repr)
        if found[2] > 0
    ]


def _table(lake: Lake, name: str) -> Any:
    return lake.table(gold_name(name)).snapshot()


def _rows(lake: Lake, name: str, days: Sequence[str]) -> list[dict[str, Any]]:
    chosen = set(days)
    return read_rows(lake.table(gold_name(name)), where=lambda file: file.partition["dt"] in chosen)


def _us(moment: datetime) -> int:
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _when(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1e6, UTC)


def _day(at_us: int) -> str:
    return f"{_when(at_us):%Y-%m-%d}"
