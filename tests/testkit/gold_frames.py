"""Gold tables made by hand, small, by their contracts; and a lake with them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from laps_analytics.gold.tables import GOLD, GoldTable
from laps_analytics.lake import Lake

__all__ = ["arrow_schema", "kll", "lake_of", "sample"]

_PLAIN: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

_EXPLAINED = pa.list_(
    pa.struct([("dimension", pa.string()), ("value", pa.string()), ("share", pa.float64())])
)


def _type(text: str) -> pa.DataType:
    if text.startswith("map<"):
        key, value = text.removeprefix("map<").removesuffix(">").split(",")
        return pa.map_(_PLAIN[key], _PLAIN[value])
    return _EXPLAINED if text.startswith("array<") else _PLAIN[text]


def arrow_schema(table: GoldTable) -> pa.Schema:
    """A contract as Arrow sees it."""
    return pa.schema([(item.name, _type(item.type)) for item in table.columns])


def lake_of(root: Path, rows: Mapping[str, list[dict[str, Any]]]) -> Lake:
    """A lake with gold tables of these rows, as Spark would have written them."""
    lake = Lake.open(root, create=True)
    for name, items in rows.items():
        table = lake.table(f"gold/{name}")
        staged = table.staging()
        for day in sorted({item["dt"] for item in items}):
            schema = arrow_schema(GOLD[name])
            part = pa.Table.from_pylist([i for i in items if i["dt"] == day], schema=schema)
            folder = staged / f"dt={day}"
            folder.mkdir(parents=True)
            pq.write_table(part.drop_columns(["dt"]), folder / "part-0.parquet")
        table.commit(staged, base=table.snapshot())
    return lake


def kll(values: list[int]) -> bytes:
    """A KLL sketch that kept everything."""
    if not values:
        return bytes([2, 1, 15, 1, 200, 0, 8, 0])
    if len(values) == 1:
        return bytes([2, 2, 15, 4, 200, 0, 8, 0]) + struct.pack("<q", values[0])
    head = bytes([5, 1, 15, 0, 200, 0, 8, 0])
    head += struct.pack("<qHBB", len(values), 200, 1, 0) + struct.pack("<i", 0)
    ends = struct.pack("<qq", min(values), max(values))
    return head + ends + struct.pack(f"<{len(values)}q", *values)


DAY = "2026-06-18"
NODES = {
    "0.1:0.1": ("eu-east", "edge", 21.0, 52.2),
    "0.1:0.2": ("us-west", "edge", -122.4, 37.8),
    "0.1:0.3": ("oceania", "edge", 174.8, -36.8),
    "0.2:0.1": ("us-east", "via", -74.0, 40.7),
}
_PAIRS = [("0.1:0.1", "0.1:0.2"), ("0.1:0.1", "0.1:0.3"), ("0.2:0.1", "0.1:0.2"),
          ("0.1:0.3", "0.1:0.2")]  # fmt: skip


def sample(*, tenant: str = "tenant-1", track: str = "00aa11bb22cc33dd") -> dict[str, Any]:
    """A few rows for every table; rows agree with each other as far as a reader could tell."""
    start = pd.Timestamp(f"{DAY} 18:00", tz="UTC")
    fives = [start + pd.Timedelta(minutes=5 * n) for n in range(8)]
    minutes = [start + pd.Timedelta(minutes=n) for n in range(10)]
    last = fives[-1]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in GOLD}
    for node, (region, kind, lon, lat) in NODES.items():
        rows["topology_snapshot"].append(
            {"dt": DAY, "at": last, "kind": "node", "node": node, "peer": "", "node_type": kind,
             "region": region, "longitude": lon, "latitude": lat, "load": 0.4, "change": "same"}
        )  # fmt: skip
    for number, (one, other) in enumerate(_PAIRS):
        rows["topology_snapshot"].append(
            {"dt": DAY, "at": last, "kind": "link", "node": one, "peer": other,
             "srtt_us": 50_000, "change": "same"}
        )  # fmt: skip
        for step, at in enumerate(fives):
            slow = 180_000 if number == 0 and step > 5 else 0
            rows["link_quality_5m"].append(
                {"dt": DAY, "window_start": at, "relay": one, "peer": other, "samples": 5,
                 "rtt_p50_us": 50_000 + slow, "rtt_p95_us": 52_000 + slow, "rtt_kll": kll([50]),
                 "jitter_us": 2000.0, "sent_packets": 1000, "lost_packets": 1 + 40 * number,
                 "loss": (1 + 40 * number) / 1000, "out_bytes": 10**9, "rate_bps": 2.7e7,
                 "change_point": bool(slow)}
            )  # fmt: skip
        rows["path_stretch"].append(
            {"dt": DAY, "window_start": start, "relay": one, "node": other, "actual_us": 200_000,
             "best_us": 200_000 - 50_000 * number, "best_over": "0.2:0.1" if number else "",
             "stretch": 200 / (200 - 50 * number)}
        )  # fmt: skip
    for at in fives:
        rows["track_fanout_5m"].append(
            {"dt": DAY, "window_start": at, "track": track, "tenant": tenant, "origin": "0.1:0.1",
             "s_relays": 3, "relays": 4, "hops_max": 1, "track_bytes": 10**9,
             "link_bytes": 6 * 10**9, "wan_bytes": 5 * 10**9, "ideal_wan_bytes": 2 * 10**9,
             "dup_factor": 2.5, "stress_max": 3.0, "worst_pair": "eu-east>us-west"}
        )  # fmt: skip
    for at in minutes:
        for number, region in enumerate(("eu-east", "us-west")):
            for service, base in (("gold", 150), ("silver", 600)):
                spread = [base + 40 * number + 10 * n for n in range(10)]
                rows["qoe_region_1m"].append(
                    {"dt": DAY, "window_start": at, "region": region, "tenant": tenant,
                     "class": service, "reports": 10, "sessions": 10, "sessions_hll": b"",
                     "startup_p95_ms": 400, "latency_p50_ms": spread[4],
                     "latency_p95_ms": spread[9], "latency_p99_ms": spread[9],
                     "latency_kll": kll(spread), "stall_ratio": 0.01 * number, "gap_rate": 0.5,
                     "over_limit": 4 * number, "burn": 40.0 * number}
                )  # fmt: skip
        for node in NODES:
            rows["traffic_1m"].append(
                {"dt": DAY, "window_start": at, "relay": node, "out_peer": "", "tenant": tenant,
                 "objects": 100, "in_bytes": 10**8, "out_bytes": 10**9, "drops": 0,
                 "drops_by": [], "queue_counts": [], "tracks_hll": b""}
            )  # fmt: skip
        rows["blame"].append(
            {"dt": DAY, "window_start": at, "track": track, "part": "link", "relay": "0.1:0.1",
             "peer": "0.1:0.2", "objects": 3, "excess_ms": 140.0, "share": 0.75}
        )  # fmt: skip
        rows["blame"].append(
            {"dt": DAY, "window_start": at, "track": track, "part": "publisher", "relay": "",
             "peer": "", "objects": 1, "excess_ms": 20.0, "share": 0.25}
        )  # fmt: skip
    for length in ("1h", "1d"):
        begin = start if length == "1h" else start.normalize()
        rows[f"qoe_region_{length}"] += [
            {**row, "window_start": begin, "reports": 100, "startup_kll": kll([400]),
             "watched_ms": 1_000_000, "stalled_ms": int(1_000_000 * row["stall_ratio"]),
             "gaps": 8, "over_limit": 10 * row["over_limit"]}
            for row in rows["qoe_region_1m"] if row["window_start"] == start
        ]  # fmt: skip
        rows[f"link_quality_{length}"] += [
            {**row, "window_start": begin, "peak_bps": 9e7, "change_points": 2}
            for row in rows["link_quality_5m"] if row["window_start"] == start
        ]  # fmt: skip
    rows["churn_1h"].append(
        {"dt": DAY, "window_start": start, "relay": "0.1:0.2", "track": track,
         "source_node": "0.1:0.2", "subscribes": 41, "unsubscribes": 40, "held_back": 20,
         "flaps": 39, "damp": True}
    )  # fmt: skip
    for node in NODES:
        rows["cache_eff_1h"].append(
            {"dt": DAY, "window_start": start, "relay": node, "hit_bytes": 6 * 10**8,
             "miss_bytes": 4 * 10**8, "hit_rate": 0.6, "expired_bytes": 10**8, "evicted_bytes": 0,
             "fetch_joins": 3, "stored_bytes": 10**8,
             "would_hit": [(1000, 0.3), (5000, 0.6), (30000, 0.8)]}
        )  # fmt: skip
        for ahead in range(1, 15):
            rows["capacity_fc"].append(
                {"dt": DAY, "kind": "relay", "relay": node, "peer": "",
                 "day": date(2026, 6, 18 + ahead) if ahead < 13 else date(2026, 7, ahead - 12),
                 "peak_bps": 6e8 + 2e7 * ahead, "low_bps": 5.5e8 + 1e7 * ahead,
                 "high_bps": 6.5e8 + 3e7 * ahead, "capacity_bps": 1e9,
                 "days_to_80": 10 if node == "0.1:0.1" else None}
            )  # fmt: skip
    for version in (1, 2):
        rows["usage_tenant_day"].append(
            {"dt": DAY, "tenant": tenant, "version": version, "in_bytes": 10**9,
             "out_bytes": 7 * 10**9 * version, "link_bytes": 6 * 10**9, "watched_ms": 600_000,
             "peak_sessions": 40, "p95_bps": 4e7, "events": 100, "closed_us": version}
        )  # fmt: skip
    rows["anomaly"].append(
        {"dt": DAY, "incident": "rtt 18:30", "metric": "rtt", "first": fives[6], "last": last,
         "windows": 2, "series": 1, "peak_z": 40.0, "observed": 230_000.0, "expected": 50_000.0,
         "explained": [{"dimension": "link", "value": "0.1:0.1>0.1:0.2", "share": 1.0}]}
    )  # fmt: skip
    rows["convergence"].append(
        {"dt": DAY, "at": fives[3], "node": "0.1:0.3", "relays": 3, "detect_ms": 900.0,
         "rib_ms": 1900.0, "fib_ms": 2100.0, "last_gap_ms": 5000.0}
    )  # fmt: skip
    for check, ok in (("telemetry_gap", True), ("link_bytes", True), ("clock", False)):
        rows["quality_1h"].append(
            {"dt": DAY, "window_start": start, "check": check, "subject": "0.1:0.1",
             "expected": 100.0, "seen": 100.0 if ok else 93.0, "error": 0.0 if ok else 0.07,
             "limit": 0.001, "ok": ok}
        )  # fmt: skip
    return rows
