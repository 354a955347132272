"""Links that are silent, and relays that die: what is still there, and what is not compared.

The cases are on different relays, so one query for each table serves all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from laps_analytics.gold.builders.network import topology_snapshot
from laps_analytics.gold.builders.quality import quality
from laps_analytics.gold.silver import Silver
from laps_analytics.schema import CLOCK, UNFIT
from laps_wire.telemetry import (
    Body,
    Event,
    NodeAdv,
    NodeWd,
    QuicSample,
    SessionClose,
    SessionOpen,
    SnsAdv,
    SnsWd,
)
from unit.analytics.gold.lakes import frames, silver_rows

pytestmark = pytest.mark.spark

DAY = "2026-11-17"
NOON = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()) * 1_000_000


class Diary:
    """What relays wrote, by minutes after noon."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def say(self, relay: str, minute: float, body: Body, *, boot: int = 1) -> None:
        number = len(self._events) + 1
        at = NOON + round(minute * 60_000_000)
        event = Event.of(
            body, relay=relay, boot=boot, seq=number, ts_us=at, tenant=None, region="eu"
        )
        self._events.append(event)

    def silver(self, spark: SparkSession, folder: Path) -> Silver:
        return Silver.of_frames(spark, frames(spark, silver_rows(self._events), folder))


def opened(peer: str) -> SessionOpen:
    return SessionOpen(
        session_id=f"p-{peer}",
        kind="peer",
        direction="out",
        alpn="laps-2",
        handshake_ms=10.0,
        peer=peer,
    )


def sample(peer: str, srtt_us: int) -> QuicSample:
    return QuicSample(
        session_id=f"p-{peer}",
        srtt_us=srtt_us,
        min_rtt_us=srtt_us,
        rttvar_us=0,
        cwnd_bytes=90_000,
        sent_packets=1,
        lost_packets=0,
        pto_count=0,
        peer=peer,
    )


def advert(node: str, kind: str, load: float) -> NodeAdv:
    return NodeAdv(node_id=node, node_type=kind, path=(), sum_srtt_us=0, best=True, load=load)


def closed(peer: str) -> SessionClose:
    return SessionClose(
        session_id=f"p-{peer}",
        kind="peer",
        duration_ms=1.0,
        closed_by="timeout",
        in_bytes=0,
        out_bytes=0,
        peer=peer,
    )


def members_of(peer: str, sns_id: int, way: str, members: int) -> SnsAdv:
    return SnsAdv(
        session_id=f"p-{peer}",
        sns_id=sns_id,
        direction=way,
        added=tuple(f"n{number}" for number in range(members)),
        removed=(),
        members=members,
        track="0" * 16,
    )


@pytest.fixture(scope="module")
def snapshots(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    diary = Diary()
    # A silent link. Another relay measures all the time.
    for minute in range(0, 40, 5):
        diary.say("w:1", minute + 1, sample("x:1", 500))
    diary.say("a:1", 1, opened("b:1"))
    diary.say("a:1", 2, sample("b:1", 9_000))
    diary.say("a:1", 18, sample("b:1", 8_000))
    diary.say("a:1", 22, closed("b:1"))
    diary.say("c:1", 1, sample("d:1", 7_000))  # dies
    diary.say("e:1", 1, sample("f:1", 7_000))
    diary.say("e:1", 7, opened("g:1"), boot=2)  # starts again, and does not meet f any more
    # A relay with false adverts has the last record in all five minutes.
    diary.say("v:2", 1, advert("v:2", "via", 0.2))
    diary.say("w:2", 1, advert("cpp:2", "via", 0.3))
    for minute in range(0, 15, 5):
        diary.say("v:2", minute + 1.5, sample("w:2", 500))
        diary.say("x:2", minute + 2, advert("v:2", "edge", 1.0))
        diary.say("x:2", minute + 2.5, NodeWd(node_id="v:2", reason="withdrawn"))
        diary.say("x:2", minute + 3, advert("cpp:2", "edge", 1.0))
    silver = diary.silver(spark, tmp_path_factory.mktemp("topology"))
    return topology_snapshot(silver, [DAY], persist=DataFrame.cache).collect()


def test_a_silent_link_is_there_for_a_quarter_of_an_hour(snapshots: list[Row]) -> None:
    found: dict[tuple[str, str], dict[int, tuple[str, int | None]]] = {}
    for row in snapshots:
        if row["kind"] == "link":
            minute = row["at"].hour * 60 + row["at"].minute - 720
            found.setdefault((row["node"], row["peer"]), {})[minute] = row["change"], row["srtt_us"]
    assert found["a:1", "b:1"] == {
        5: ("added", 9_000),
        10: ("same", 9_000),
        15: ("same", 9_000),
        20: ("same", 8_000),
        25: ("removed", 8_000),
    }
    assert [change for change, _ in found["c:1", "d:1"].values()] == [
        *("added", "same", "same", "removed")
    ]
    assert found["e:1", "f:1"] == {5: ("added", 7_000), 10: ("removed", 7_000)}
    assert len(found["w:1", "x:1"]) == 8


def test_what_a_node_is_it_says_itself(snapshots: list[Row]) -> None:
    found = {
        (row["node"], row["node_type"], row["load"], row["change"] == "removed")
        for row in snapshots
        if row["kind"] == "node" and row["node"] in {"v:2", "cpp:2"} and row["at"].minute <= 15
    }
    # Other relays describe a node that writes nothing.
    assert found == {("v:2", "via", 0.2, False), ("cpp:2", "edge", 1.0, False)}


@pytest.fixture(scope="module")
def checks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    diary = Diary()
    for relay, peer in (("a:1", "b:1"), ("b:1", "a:1"), ("c:1", "b:1"), ("b:1", "c:1")):
        diary.say(relay, 1, opened(peer))
    for sender, way, members in (("a:1", 5, 3), ("c:1", 6, 2)):
        diary.say(sender, 2, members_of("b:1", way, "out", members))
        diary.say("b:1", 2.1, members_of(sender, way, "in", members))
    # a dies, b says so, and a comes back with other sets.
    diary.say("b:1", 20, SnsWd(session_id="p-a:1", sns_id=5, direction="in", removed=()))
    diary.say("b:1", 20, closed("a:1"))
    diary.say("a:1", 21, opened("b:1"), boot=2)
    diary.say("a:1", 22, members_of("b:1", 1, "out", 4), boot=2)
    diary.say("b:1", 22.1, members_of("a:1", 1, "in", 4))
    # c and b disagree, and nobody died.
    diary.say("c:1", 30, members_of("b:1", 6, "out", 7))
    for minute in range(10):
        for peer in ("b:2", "c:2", "cpp:2"):
            diary.say("a:2", minute, sample(peer, 500))
        diary.say("b:2", minute, sample("a:2", 500))
    for moment in (20.0, 20.5):  # d has just died: nobody has noticed yet
        diary.say("a:2", moment, sample("d:2", 500))
    # c wrote of another year, and a little of today that does not fit; cpp:2 never wrote.
    wrote = spark.createDataFrame(
        [(name, 0, 0, True, None, 1, 0, 0, 1, DAY, "12") for name in ("a:2", "b:2", "d:2")]
        + [("c:2", 0, 0, False, "in the future", 1, 0, 0, 1, "2031-01-01", "12")],
        CLOCK,
    )
    unfit = spark.createDataFrame(
        [
            (f"{name}:1:9", name, "hop.stat", NOON + 5, "f", "no track", "{}", DAY, "12")
            for name in ("b:2", "c:2")
        ],
        UNFIT,
    )
    silver = diary.silver(spark, tmp_path_factory.mktemp("quality"))
    made = quality(silver, [DAY], unfit=unfit, clocks=wrote, persist=DataFrame.cache)
    return made.collect()


def test_sets_of_a_relay_that_died_are_not_compared(checks: list[Row]) -> None:
    rows = [row for row in checks if row["check"] == "sets"]
    found = {row["subject"]: (row["expected"], row["seen"], row["ok"]) for row in rows}
    assert found == {"a:1>b:1": (4.0, 4.0, True), "c:1>b:1": (7.0, 2.0, False)}


def test_relays_whose_telemetry_is_missing_are_red(checks: list[Row]) -> None:
    rows = [row for row in checks if row["check"] in {"silent", "unfit"}]
    found = {(row["check"], row["subject"]): row for row in rows}
    assert {key: row["ok"] for key, row in found.items()} == {
        ("silent", "a:2"): True,
        ("silent", "b:2"): True,
        ("silent", "c:2"): False,
        ("unfit", "b:2"): False,
        ("unfit", "c:2"): False,
    }
    assert found["unfit", "c:2"]["error"] == 1.0
    assert found["unfit", "b:2"]["error"] == 1 / 11
    assert (found["silent", "c:2"]["expected"], found["silent", "c:2"]["seen"]) == (1.0, 0.0)
