"""Read the last hour of a lake as input of the planner, without Spark.

Memory grows with the size of the network, not with the number of reports:

- relays: one row for each snapshot of the hour;
- links: some hundred windows of each direction, and a week for at most twenty links;
- tracks: one row for each path through a relay (track, from, to), at most :data:`MAX_PATHS`.

Tables are read in batches and aggregated (:func:`laps_analytics.lake.summed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.errors import GateError, PlanError
from laps_analytics.gold.build import gold_name
from laps_analytics.lake import Lake, batches, between, summed
from laps_analytics.lake.table import DataFile
from laps_analytics.plan.core.estimates import (
    WINDOW_US,
    WINDOWS_USED,
    backtest_links,
    excluded_relays,
)

__all__ = [
    "MAX_PATHS",
    "Gate",
    "HopRow",
    "NodeRow",
    "Observation",
    "gate_of",
    "known_relays",
    "observe",
    "require_fresh",
    "untrusted_relays",
]

HISTORY_DAYS: Final = 8
MAX_PATHS: Final = 2_000_000
"""Most paths of tracks through relays; they need about a gigabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """Last description of a relay."""

    node: str
    kind: str
    region: str = ""
    longitude: float | None = None
    latitude: float | None = None
    load: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HopRow:
    """Mean rate of a track on one path through a relay."""

    relay: str
    track: str
    in_peer: str | None
    out_peer: str | None
    in_bps: float
    out_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Reports of all relays."""

    at_us: int
    """End of the observed time."""
    nodes: Sequence[NodeRow]
    rtt_ms: Mapping[tuple[str, str], Mapping[int, float]]
    """Measuring end and other end to medians of five-minute windows, by their begin."""
    loss: Mapping[tuple[str, str], Mapping[int, float]] = field(default_factory=dict)
    """The same for loss, as a share of the packets sent."""
    hops: Sequence[HopRow] = ()


def observe(lake: Lake, *, minutes: int = 60, at_us: int | None = None) -> Observation:
    """Return the last ``minutes`` of a lake, up to ``at_us`` or its newest snapshot.

    Raises :class:`PlanError` if there is no topology for that time.
    """
    days = sorted({dt for (dt,) in _table(lake, "topology_snapshot").partitions("dt")})
    if not days:
        raise PlanError(
            f"{lake.root} has no topology_snapshot: run `laps-analytics ingest` and `build` first"
        )
    end = _newest(lake, days[-2:]) if at_us is None else at_us
    begin = end - minutes * 60_000_000
    nodes = _nodes(lake, days[-2:], begin, end)
    if not nodes:
        raise PlanError(
            "the lake has no relay in the time of the plan: ingest newer telemetry, or raise"
            " --minutes"
        )
    first = _day(end - HISTORY_DAYS * 86_400_000_000)
    history = [day for day in days if day >= first]
    names = [row.node for row in nodes]
    return Observation(
        at_us=end,
        nodes=nodes,
        rtt_ms=_measured(lake, history, end, names, "rtt_p50_us", 1000),
        loss=_measured(lake, history, end, names, "loss", 1),
        hops=_hops(lake, begin, end),
    )


@dataclass(frozen=True, slots=True)
class Gate:
    """Result of the quality checks of some hours."""

    hours: int
    """Number of hours that were checked; 0 closes the gate."""
    red: list[str]
    """Failed checks as text, worst first."""
    about: list[tuple[str, str]] = field(default_factory=list)
    """Failed checks with their subjects: a relay, or two separated by ``>``."""

    @property
    def open(self) -> bool:
        """Whether all checks passed."""
        return self.hours > 0 and not self.red

    def require(self) -> None:
        """Raise :class:`GateError` with the worst failures unless the gate is open."""
        if self.open:
            return
        if not self.hours:
            raise GateError(
                "the quality of this data was not checked: run `laps-analytics build` first"
            )
        more = f" (and {len(self.red) - 3} more)" if len(self.red) > 3 else ""
        raise GateError(f"the data fails its quality checks: {'; '.join(self.red[:3])}{more}")


def gate_of(lake: Lake, *, at_us: int, hours: int = 2) -> Gate:
    """Return the gate of the last hours, from ``quality_1h``."""
    last = at_us // 3_600_000_000 * 3_600_000_000
    first = last - (hours - 1) * 3_600_000_000
    seen: set[int] = set()
    red: list[dict[str, Any]] = []
    chosen = _of_days(sorted({_day(first), _day(last)}))
    table = lake.table(gold_name("quality_1h"))
    columns = ("window_start", "check", "subject", "expected", "seen", "error", "limit", "ok")
    for part in batches(table, columns, where=chosen, times=("window_start",)):
        rows = between(part, "window_start", first, last)
        seen.update(pc.unique(rows["window_start"]).to_pylist())
        red += rows.filter(pc.invert(rows["ok"])).to_pylist()
    red.sort(
        key=lambda row: (
            -(row["error"] - row["limit"]) / (row["limit"] + 1e-3),
            row["window_start"],
            row["check"],
            row["subject"],
        )
    )
    return Gate(
        len(seen),
        [
            f"{row['check']} of {row['subject']} at {_when(row['window_start']):%Y-%m-%d %H:%M}:"
            f" {row['seen']:g} for {row['expected']:g}, off by {row['error']:.2%}"
            for row in red
        ],
        [(row["check"], row["subject"]) for row in red],
    )


def untrusted_relays(gate: Gate, observed: Observation) -> frozenset[str]:
    """Return the relays to exclude; raise :class:`GateError` if there are too many."""
    if gate.open:
        return frozenset()
    names = [row.node for row in observed.nodes]
    # What is red and about nobody cannot be put down to few.
    found = excluded_relays(gate.about, names) if gate.hours and gate.about else None
    if found is None:
        gate.require()
    return found or frozenset()


def known_relays(lake: Lake, *, at_us: int) -> frozenset[str]:
    """Return the relays that were in the network within :data:`HISTORY_DAYS`."""
    first, last = _day(at_us - HISTORY_DAYS * 86_400_000_000), _day(at_us)
    found: set[str] = set()
    for part in batches(
        lake.table(gold_name("topology_snapshot")),
        ("kind", "node"),
        where=lambda file: first <= file.partition["dt"] <= last,
    ):
        found.update(pc.unique(part.filter(pc.equal(part["kind"], "node"))["node"]).to_pylist())
    return frozenset(found)


def require_fresh(observed: Observation, *, now_us: int, max_age_us: int) -> None:
    """Raise :class:`GateError` if the observation is too old, or in the future.

    Future data means a wrong clock, which would make old data look new.
    """
    age = now_us - observed.at_us
    if abs(age) <= max_age_us:
        return
    until = f"the newest data is of {_when(observed.at_us):%Y-%m-%d %H:%M} UTC"
    if age < 0:
        raise GateError(
            f"{until}, {_long(-age)} in the future: correct the clock of the relay or of this"
            " machine"
        )
    raise GateError(
        f"{until}, {_long(age)} old, and a plan needs data of the last {_long(max_age_us)}:"
        " check that"
        " telemetry arrives, run `laps-analytics ingest` and `build`, or raise --max-age"
    )


def _long(us: int) -> str:
    minutes = us // 60_000_000
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 2880 else f"{minutes // 1440} days"


def _newest(lake: Lake, days: Sequence[str]) -> int:
    table = lake.table(gold_name("topology_snapshot"))
    parts = batches(table, ("at",), where=_of_days(days), times=("at",))
    return max(int(pc.max(rows["at"]).as_py()) for rows in parts if rows.num_rows)


def _nodes(lake: Lake, days: Sequence[str], begin: int, end: int) -> list[NodeRow]:
    table = lake.table(gold_name("topology_snapshot"))
    columns = ("at", "kind", "node", "node_type", "region", "longitude", "latitude", "load")
    last: dict[str, Mapping[str, Any]] = {}
    for part in batches(table, (*columns, "change"), where=_of_days(days), times=("at",)):
        rows = between(part.filter(pc.equal(part["kind"], "node")), "at", begin, end)
        for row in rows.to_pylist():
            if row["node"] not in last or row["at"] >= last[row["node"]]["at"]:
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


def _measured(
    lake: Lake, days: Sequence[str], end: int, nodes: Sequence[str], column: str, unit: float
) -> dict[tuple[str, str], dict[int, float]]:
    """Return the measurements of each end of each link, for the windows that are used.

    Links for a backtest get all windows. Other links get the windows of a forecast, and a NaN at
    their first window, which tells how long the link is known.
    """
    table, chosen = lake.table(gold_name("link_quality_5m")), _of_days(days)
    names = ("relay", "peer", "window_start", column)
    known = pa.array(nodes)

    def parts() -> Iterator[pa.Table]:
        for rows in batches(table, names, where=chosen, times=("window_start",)):
            ends = pc.and_(pc.is_in(rows["relay"], known), pc.is_in(rows["peer"], known))
            useful = rows.filter(pc.and_(ends, pc.is_valid(rows[column])))
            yield between(useful, "window_start", 0, end)

    firsts = summed(parts(), ("relay", "peer"), ("window_start",), how="min")
    found: dict[tuple[str, str], dict[int, float]] = {
        (row["relay"], row["peer"]): {row["window_start"]: math.nan}
        for row in ([] if firsts is None else firsts.to_pylist())
        if row["relay"] != row["peer"]
    }
    last = end // WINDOW_US
    lengths = {pair: last - min(values) // WINDOW_US + 1 for pair, values in found.items()}
    whole = pa.array([f"{a} {b}" for a, b in backtest_links(lengths)], pa.string())
    looked_at = pa.array(sorted(last + step for step in WINDOWS_USED), pa.int64())
    for rows in parts():
        key = pc.binary_join_element_wise(rows["relay"], rows["peer"], " ")
        window = pc.divide(rows["window_start"], WINDOW_US)
        wanted = pc.or_(pc.is_in(window, looked_at), pc.is_in(key, whole))
        for row in rows.filter(wanted).to_pylist():
            pair = row["relay"], row["peer"]
            if pair in found:
                found[pair][row["window_start"]] = row[column] / unit
    return found


def _hops(lake: Lake, begin: int, end: int) -> list[HopRow]:
    """Return the rates of ``hop.stat``: bytes by the time that its records cover."""
    hours = {(_day(at), f"{_when(at).hour:02}") for at in range(begin, end + 1, 3_600_000_000)}
    hours.add((_day(end), f"{_when(end).hour:02}"))
    keys = ("relay", "track", "in_peer", "out_peer")
    sums = ("in_bytes", "out_bytes", "window_ms")

    def parts() -> Iterator[pa.Table]:
        for rows in batches(
            lake.table("silver/hop_stat"),
            (*keys, *sums, "ts"),
            where=lambda file: (file.partition["dt"], file.partition["hour"]) in hours,
            times=("ts",),
        ):
            yield between(rows, "ts", begin, end)

    def too_many(count: int) -> PlanError:
        return PlanError(
            f"tracks take {count} paths through relays in the time of the plan, and a planner can"
            f" handle {MAX_PATHS}: lower --minutes"
        )

    found = summed(parts(), keys, sums, most=MAX_PATHS, fault=too_many)
    rows = [
        HopRow(
            relay=row["relay"],
            track=row["track"],
            in_peer=row["in_peer"],
            out_peer=row["out_peer"],
            in_bps=row["in_bytes"] * 8000 / row["window_ms"],
            out_bps=row["out_bytes"] * 8000 / row["window_ms"],
        )
        for row in ([] if found is None else found.to_pylist())
        if row["window_ms"] > 0
    ]
    return sorted(rows, key=lambda row: repr((row.relay, row.track, row.in_peer, row.out_peer)))


def _table(lake: Lake, name: str) -> Any:
    return lake.table(gold_name(name)).snapshot()


def _of_days(days: Sequence[str]) -> Callable[[DataFile], bool]:
    chosen = frozenset(days)
    return lambda file: file.partition["dt"] in chosen


def _when(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1e6, UTC)


def _day(at_us: int) -> str:
    return f"{_when(at_us):%Y-%m-%d}"
