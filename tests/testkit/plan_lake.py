"""What relays of a synthetic world would have reported, as rows and as a lake; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql.types import StringType, StructField, StructType

from laps_analytics.gold.build import gold_name
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake
from laps_analytics.lake.frames import write_rows
from laps_analytics.plan.observation import HopRow, NodeRow, Observation
from laps_analytics.schema import silver_type
from laps_analytics.synth.backbone import Backbone
from laps_analytics.synth.dataset import TrackDemand

__all__ = [
    "END",
    "add_answers",
    "add_experience",
    "add_node",
    "add_reports",
    "add_traffic",
    "make_lake",
    "observe_backbone",
    "write_reports",
]

END = datetime(2026, 6, 18, 21, 0, tzinfo=UTC)
END_US = int(END.timestamp()) * 1_000_000


def observe_backbone(
    backbone: Backbone,
    demand: Sequence[TrackDemand],
    *,
    spoil: Callable[[str, str, int, float], float] = lambda _a, _b, _window, rtt: rtt,
    claim: Callable[[str, float], float] = lambda _relay, bps: bps,
    lose: Callable[[str, float], float] = lambda _relay, share: share,
    windows: int = 12,
) -> Observation:
    """An hour of honest measurements with some noise; ``spoil`` and ``claim`` change what is said.

    ``spoil`` has the measuring end, the other end, the window and the truth; ``claim`` the relay
    and the bits a second that it sent to its clients; ``lose`` the relay and the share that its
    packets lost on a link.
    """
    rng = np.random.default_rng(backbone.seed)
    names = [relay.node for relay in backbone.relays]
    rtt: dict[tuple[str, str], dict[int, float]] = {}
    loss: dict[tuple[str, str], dict[int, float]] = {}
    for a, one in enumerate(names):
        noise = np.exp(0.02 * rng.standard_normal((windows, len(names))))
        for b, other in enumerate(names):
            if a != b:
                rtt[one, other] = {
                    END_US - (windows - w) * 300_000_000: spoil(
                        one, other, w, float(backbone.rtt_ms[a, b] * noise[w, b])
                    )
                    for w in range(windows)
                }
                loss[one, other] = {
                    at: lose(one, float(backbone.loss[a, b])) for at in rtt[one, other]
                }
    hops = []
    for track in demand:
        origin = names[track.origin]
        rate = track.rate_bps
        for target, heads in sorted(track.viewers.items()):
            name = names[target]
            hops.append(_hop(origin, track.track, None, name, rate, rate))
            hops.append(_hop(name, track.track, origin, None, rate, claim(name, rate * heads)))
    return Observation(
        at_us=END_US,
        nodes=[
            NodeRow(
                node=relay.node,
                kind=relay.kind,
                region=relay.region,
                longitude=relay.longitude,
                latitude=relay.latitude,
            )
            for relay in backbone.relays
        ],
        rtt_ms=rtt,
        loss=loss,
        hops=hops,
    )


def _hop(
    relay: str, track: str, in_peer: str | None, out_peer: str | None, came: float, went: float
) -> HopRow:
    return HopRow(
        relay=relay, track=track, in_peer=in_peer, out_peer=out_peer, in_bps=came, out_bps=went
    )


def make_lake(root: Path, seen: Observation, *, red: int = 0) -> Lake:
    """The tables that planning reads; ``red`` is of how many relays lines are missing."""
    lake = Lake.open(root, create=True)
    day = f"{END:%Y-%m-%d}"
    _gold(
        lake,
        "topology_snapshot",
        [
            {
                "dt": day,
                "at": END,
                "kind": "node",
                "node": row.node,
                "peer": "",
                "node_type": row.kind,
                "region": row.region,
                "longitude": row.longitude,
                "latitude": row.latitude,
                "load": row.load,
                "change": "same",
            }
            for row in seen.nodes
        ],
    )
    _gold(
        lake,
        "link_quality_5m",
        [
            {
                "dt": day,
                "window_start": datetime.fromtimestamp(at / 1e6, UTC),
                "relay": a,
                "peer": b,
                "rtt_p50_us": round(value * 1000),
                "loss": seen.loss[a, b][at],
            }
            for (a, b), values in seen.rtt_ms.items()
            for at, value in values.items()
        ],
    )
    _gold(
        lake,
        "quality_1h",
        [
            {
                "dt": day,
                "window_start": END - timedelta(hours=1),
                "check": "telemetry_gap",
                "subject": row.node,
                "expected": 100.0,
                "seen": 80.0 if number < red else 100.0,
                "error": 0.2 if number < red else 0.0,
                "limit": 0.01,
                "ok": number >= red,
            }
            for number, row in enumerate(seen.nodes)
        ],
    )
    kind = silver_type("hop.stat")
    schema = StructType(
        [*kind.fields, StructField("dt", StringType()), StructField("hour", StringType())]
    )
    rows = []
    for number, row in enumerate(seen.hops):
        values: dict[str, Any] = dict.fromkeys(field.name for field in schema.fields)
        values |= {
            "event_id": f"{row.relay}:1:{number}",
            "relay": row.relay,
            "boot": 1,
            "event_seq": number,
            "ts_us": END_US - 60_000_000,
            "ts": END - timedelta(minutes=1),
            "skew_us": 0,
            "late": False,
            "track": row.track,
            "window_ms": 10_000,
            "objects": 300,
            "in_bytes": round(row.in_bps * 10 / 8),
            "out_bytes": round(row.out_bps * 10 / 8),
            "drops": [],
            "in_peer": row.in_peer,
            "out_peer": row.out_peer,
            "dt": day,
            "hour": f"{(END - timedelta(minutes=1)).hour:02}",
        }
        rows.append(values)
    write_rows(rows, schema, lake.table("silver/hop_stat"), partition_by=("dt", "hour"))
    return lake


def add_node(lake: Lake, node: str, *, days_ago: int) -> None:
    """A relay that was there some days before the end, and is not any more."""
    at = END - timedelta(days=days_ago)
    row = {
        "dt": f"{at:%Y-%m-%d}",
        "at": at,
        "kind": "node",
        "node": node,
        "peer": "",
        "node_type": "via",
        "change": "same",
    }
    _gold(lake, "topology_snapshot", [row])


def add_experience(
    lake: Lake,
    *,
    plan: str,
    after_ms: int,
    version: int = 1,
    regions: Mapping[str, int] | None = None,
    classes: Mapping[tuple[str, str], int] | None = None,
) -> None:
    """Three weeks of viewers, with a plan that was accepted two days before the end.

    ``regions`` are those where it did something else, and ``classes`` those in regions.
    """
    other = regions or {}
    apart = classes or {}
    accepted = END - timedelta(days=2)
    hours = [END - timedelta(hours=hour + 1) for hour in range(21 * 24)]
    rows = [
        {
            "dt": f"{at:%Y-%m-%d}",
            "window_start": at,
            "region": region,
            "tenant": "",
            "class": scope,
            "reports": 100,
            "latency_p95_ms": 300
            + number % 7
            + (apart.get((region, scope), other.get(region, after_ms)) if at >= accepted else 0),
            "stall_ratio": 0.01,
        }
        for number, at in enumerate(hours)
        for region in sorted({"eu-west", "us-east", *other})
        for scope in sorted({"gold", *(name for _, name in apart), *(("other",) if apart else ())})
    ]
    _gold(lake, "qoe_region_1m", rows)
    add_answers(lake, plan, [("0.1:0.1", version, "accepted", 48.0)])


def add_answers(
    lake: Lake, plan: str, answers: Sequence[tuple[str, int, str, float]], reason: str | None = None
) -> None:
    """What relays did with a plan: relay, version, outcome, and hours before the end."""
    kind = silver_type("policy.applied")
    schema = StructType(
        [*kind.fields, StructField("dt", StringType()), StructField("hour", StringType())]
    )
    rows = []
    for number, (relay, version, outcome, hours) in enumerate(answers):
        at = END - timedelta(hours=hours)
        values: dict[str, Any] = dict.fromkeys(field.name for field in schema.fields)
        values |= {
            "event_id": f"{relay}:1:{number}",
            "relay": relay,
            "boot": 1,
            "event_seq": number,
            "ts_us": int(at.timestamp() * 1e6),
            "ts": at,
            "skew_us": 0,
            "late": False,
            "plan_id": plan,
            "plan_version": version,
            "outcome": outcome,
            "reason": reason,
            # All are in one file.
            "dt": f"{END:%Y-%m-%d}",
            "hour": "00",
        }
        rows.append(values)
    write_rows(rows, schema, lake.table("silver/policy_applied"), partition_by=("dt", "hour"))


def add_traffic(lake: Lake, *, wan_after: float) -> None:
    """Three weeks of one track; in the last two days its WAN bytes are so many times as before."""
    fanout, traffic = [], []
    for number in range(21 * 24):
        at = END - timedelta(hours=number + 1)
        wan = (3.0 + number % 5 / 10) * (wan_after if number < 48 else 1.0)
        common = {"dt": f"{at:%Y-%m-%d}", "window_start": at, "tenant": ""}
        fanout.append(
            {
                **common,
                "track": "00000000000000aa",
                "origin": "0.1:0.1",
                "track_bytes": 1_000_000,
                "link_bytes": round(1e6 * wan),
                "wan_bytes": round(1e6 * wan),
                "ideal_wan_bytes": 2_000_000,
            }
        )
        for peer, count in (("", 10_000_000), ("0.2:0.1", 7)):
            traffic.append({**common, "relay": "0.1:0.1", "out_peer": peer, "out_bytes": count})
    _gold(lake, "track_fanout_5m", fanout)
    _gold(lake, "traffic_1m", traffic)


def add_reports(
    lake: Lake,
    tracks: Sequence[str],
    region: str,
    *,
    after_ms: int,
    relays: Sequence[str] = ("0.1:0.1",),
) -> None:
    """What viewers of some tracks reported in three weeks; in the last two days it was longer."""
    rows = [
        {
            "ts": END - timedelta(hours=number + 1),
            "relay": relay,
            "region": region,
            "session_id": str(viewer),
            "track": track,
            "latency_ms": 200 + number % 5 + (after_ms if number < 48 else 0),
        }
        for number in range(21 * 24)
        for relay in relays
        for viewer, track in enumerate((*tracks, "00000000000000aa"))
    ]
    write_reports(lake, rows)


def write_reports(lake: Lake, reports: Sequence[Mapping[str, Any]]) -> None:
    """Reports of viewers: what is not said is as usual."""
    kind = silver_type("client.report")
    schema = StructType(
        [*kind.fields, StructField("dt", StringType()), StructField("hour", StringType())]
    )
    usual: dict[str, Any] = dict.fromkeys(field.name for field in schema.fields)
    usual |= {"boot": 1, "skew_us": 0, "late": False, "window_ms": 10_000, "stalled": False}
    # One file for each hour would be hundreds: all are in one.
    usual |= {"gaps": 0, "dt": f"{END:%Y-%m-%d}", "hour": "00"}
    rows = [
        {
            **usual,
            "event_id": f"{report['relay']}:1:{number}",
            "event_seq": number,
            "ts_us": int(report["ts"].timestamp()) * 1_000_000,
            **report,
        }
        for number, report in enumerate(reports)
    ]
    write_rows(rows, schema, lake.table("silver/client_report"), partition_by=("dt", "hour"))


def _gold(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    columns = [column.name for column in GOLD[name].columns]
    whole = [{column: row.get(column) for column in columns} for row in rows]
    write_rows(whole, GOLD[name].schema(), lake.table(gold_name(name)), partition_by=("dt",))
