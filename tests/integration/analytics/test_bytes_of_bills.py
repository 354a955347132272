"""A bill says what clients counted themselves, to the byte, though relays were started again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.analytics.relay_lake import FILM, SHOW, RelayLake
from laps_analytics.cli import gold
from laps_analytics.gold.builders.usage import MUST_BE_EQUAL
from laps_wire.telemetry import HopStat
from testkit.logs import restored_logging
from testkit.recorded_network import events_of
from testkit.sold_network import LEFT, RIGHT, TENANTS, Sold, sell

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def sold(relay_lake: RelayLake) -> Sold:
    return relay_lake.sold


def test_a_bill_is_what_clients_counted(
    spark: SparkSession,
    relay_lake: RelayLake,
    sold: Sold,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gold, "session_maker", lambda *_: lambda: spark)
    gold.show_bill(relay_lake.lake.root, as_json=True)
    stated: dict[str, Any] = json.loads(capsys.readouterr().out)
    # Around midnight there are two days.
    billed = {
        column: {
            name: sum(row[column] for row in stated["usage"] if row["tenant"] == name)
            for name in TENANTS
        }
        for column in ("in_bytes", "out_bytes", "link_bytes")
    }
    assert {row["tenant"] for row in stated["usage"]} == {SHOW, FILM, *TENANTS}
    assert billed["in_bytes"] == dict(sold.published)
    for name in TENANTS:
        # To the byte, if listeners missed nothing; else it may have what broke off, and no more.
        beside = billed["out_bytes"][name] - sold.received[name]
        assert 0 <= beside <= sold.missed[name]
    assert all(row["equal"] for row in stated["reconciled"] if row["check"] in MUST_BE_EQUAL)
    # Whole data streams go between relays, their headers too, over two links, with one copy each.
    for name in TENANTS:
        assert billed["link_bytes"][name] > 2 * sold.received[name] / TENANTS[name]


@pytest.mark.long
def test_what_a_dead_via_cuts_off_is_all_that_a_bill_has_beside(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Objects that were under way when their stream broke off were sent, and did not come."""
    with restored_logging():
        cut = asyncio.run(sell(tmp_path_factory.mktemp("cut"), drain=False))
    name_of = {track: name for name, track in cut.tracks.items()}
    sent: Counter[str] = Counter()
    for event in events_of(cut.folder):
        if isinstance(event.body, HopStat) and event.body.out_peer is None:
            sent[name_of[event.body.track]] += event.body.out_bytes
    for name in TENANTS:
        assert cut.received[name] <= sent[name] <= cut.received[name] + cut.missed[name]


def test_relays_were_started_again(sold: Sold) -> None:
    """Else the bill shows less than it says."""
    boots: dict[str, set[int]] = {}
    carried: set[str] = set()
    for event in events_of(sold.folder):
        boots.setdefault(event.relay, set()).add(event.boot)
        if isinstance(event.body, HopStat) and event.body.out_bytes:
            carried.add(event.relay)
    assert len(boots[RIGHT]) == 2
    assert len(boots[LEFT]) == 1
    assert sorted(len(found) for name, found in boots.items() if name not in {LEFT, RIGHT}) == [
        1,
        2,
    ]
    assert carried == boots.keys()
    assert all(sold.objects.values())
