"""A viewer whose relay and player both report is one viewer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.builders.usage import usage_tenant
from laps_analytics.gold.builders.viewers import POSTED, blame, qoe_region, viewers
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver, stored_type
from laps_wire.telemetry import ClientReport, DeliverySample, Event
from testkit.gold_world import DAYS, micros
from unit.analytics.gold.lakes import silver_rows

pytestmark = pytest.mark.spark

DAY = DAYS[0]
SECOND = 1_000_000


def report(second: int, session: str, by: str | None, **values: Any) -> tuple[int, ClientReport]:
    stall = values.get("stall_ms")
    body = ClientReport(
        **{
            "session_id": session,
            "window_ms": 10_000,
            "gaps": 0,
            "stalled": bool(stall),
            "measured_by": by,
            **values,
        }
    )
    return second, body


REPORTS = [
    # Both report; then the player falls silent.
    report(10, "1", "relay", gaps=1),
    report(10, "1", "player", stall_ms=5000, latency_ms=900, gaps=7),
    report(50, "1", "relay", startup_ms=20),
    report(70, "1", "relay", gaps=2),
    # Its start-up is told by the relay a minute before the player's.
    report(59, "2", "relay", startup_ms=30),
    report(61, "2", "relay"),
    report(61, "2", "player", startup_ms=400, stall_ms=0),
    # Nobody but the relay, and before telemetry 1.4; and only the player.
    report(20, "3", None, startup_ms=50),
    report(20, "4", "player", stall_ms=10_000),
    # One says to its relay who it is, and reports to a collector; of another no relay knows.
    report(300, "5", "relay", player_session="aa", track="ff"),
    report(305, "posted:x", "player", player_session="aa", latency_ms=70, startup_ms=9),
    report(700, "posted:x", "player", player_session="aa", latency_ms=71),
    report(300, "posted:y", "player", player_session="bb", latency_ms=72),
]
COLLECTOR = "0.9:0.9"


ZERO = micros(f"{DAY}T12:00:00")
EVENTS = [
    Event.of(
        body,
        relay=COLLECTOR if body.session_id.startswith(POSTED) else "0.1:0.1",
        boot=1,
        seq=number,
        ts_us=ZERO + second * SECOND,
        region=None if body.session_id.startswith(POSTED) else "eu",
    )
    for number, (second, body) in enumerate(REPORTS, 1)
]


def silver_of(spark: SparkSession, events: Iterable[Event]) -> Silver:
    frames = {}
    for kind, rows in silver_rows(events).items():
        schema = stored_type(kind)
        values = [tuple(row[name] for name in schema.fieldNames()) for row in rows]
        frames[kind] = spark.createDataFrame(values, schema)
    return Silver.of_frames(spark, frames)


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Silver:
    return silver_of(spark, EVENTS)


def test_nobody_is_there_twice(silver: Silver) -> None:
    rows = viewers(silver, [DAY]).collect()
    found = sorted(
        (row.session_id, row.window_start.minute, row.measured_by or "", row.startup_ms)
        for row in rows
    )
    assert found == [
        ("1", 0, "player", None),
        ("1", 1, "relay", None),
        ("2", 0, "relay", None),
        ("2", 1, "player", 400),
        ("3", 0, "", 50),
        ("4", 0, "player", None),
        ("5", 5, "player", 9),
        ("5", 11, "player", None),
        ("posted:y", 5, "player", None),
    ]
    placed = {
        row.event_seq: (row.relay, row.region, row.track)
        for row in rows
        if row.latency_ms in (70, 71, 72)
    }
    assert sorted(placed.values(), key=repr) == [
        ("0.1:0.1", "eu", "ff"),
        ("0.1:0.1", "eu", "ff"),
        (COLLECTOR, None, None),
    ]


def test_what_a_region_gets_and_what_is_billed(silver: Silver) -> None:
    nothing = Dimensions()
    first, second, *later = sorted(
        qoe_region(silver, [DAY], nothing).collect(),
        key=lambda row: (row.window_start, row.region),
    )
    assert [(row.region, row.reports, row.sessions, row.latency_p95_ms) for row in later] == [
        ("", 1, 1, 72),
        ("eu", 1, 1, 70),
        ("eu", 1, 1, 71),
    ]
    assert (first.reports, first.sessions, first.startup_p95_ms) == (4, 4, 50)
    assert (first.latency_p95_ms, first.stall_ratio, first.gap_rate) == (900, 0.375, 10.5)
    assert (second.reports, second.sessions, second.startup_p95_ms) == (2, 2, 400)
    (usage,) = usage_tenant(silver, [DAY], nothing, now_us=1).collect()
    assert (usage.watched_ms, usage.peak_sessions, usage.events) == (70_000, 3, 7)


def test_the_relay_of_a_viewer_is_named_and_not_who_collects(spark: SparkSession) -> None:
    """Usual minutes and a bad one, of a viewer that a relay knows and of one that none knows."""

    def event(body: ClientReport | DeliverySample, relay: str, minute: int, seq: int) -> Event:
        return Event.of(
            body, relay=relay, boot=1, seq=seq, ts_us=ZERO + minute * 60 * SECOND, region="eu"
        )

    events = [event(report(0, "5", "relay", player_session="aa", track="ff")[1], "0.1:0.1", 0, 1)]
    for minute in range(26):
        came = ZERO + minute * 60 * SECOND
        sample = DeliverySample(
            track="ff", one_in=1, in_us=came, out_us=came + 10, size_bytes=1, group_id=minute,
            object_id=0, publisher_us=came - 5000,
        )  # fmt: skip
        events.append(event(sample, "0.1:0.1", minute, 10 + minute))
        for number, player in enumerate(("aa", "bb")):
            said = report(
                0, f"posted:{player}", "player", player_session=player, track="ff",
                latency_ms=900 if minute == 7 else 70,
            )[1]  # fmt: skip
            events.append(event(said, COLLECTOR, minute, 100 + 2 * minute + number))
    rows = blame(silver_of(spark, events), [DAY], Dimensions()).collect()
    found = [
        (row.part, row.relay, row.window_start.minute, row.objects, row.excess_ms) for row in rows
    ]
    assert found == [("client", "0.1:0.1", 7, 1, 830.0)]
