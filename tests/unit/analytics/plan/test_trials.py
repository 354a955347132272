from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from laps_analytics.lake import Lake
from laps_analytics.plan.core.lessons import Way
from laps_analytics.plan.trials import Outcome, Tried, judged
from testkit.plan_lake import END, END_US, write_reports

WAY = Way("0.1:0.1", "eu", "gold", "0.2:0.1")
HOURS = 48
SINCE_US = END_US - HOURS * 3_600_000_000


def reports(
    relay: str, *, after: float, session: str = "1", by: str | None = None, **more: Any
) -> list[dict[str, Any]]:
    """Two weeks of a viewer of a relay; since the trial its delay is so much longer."""
    return [
        {
            "ts": END - timedelta(hours=number + 1) + timedelta(minutes=5),
            "relay": relay,
            "session_id": session,
            "measured_by": by,
            "track": "00000000000000ff",
            "region": "eu",
            "latency_ms": round(200 + number % 5 + (after if number < HOURS else 0)),
            **more,
        }
        for number in range(14 * 24)
    ]


def outcome(folder: Path, rows: list[dict[str, Any]]) -> Outcome:
    lake = Lake.open(folder / "lake", create=True)
    write_reports(lake, rows)
    trial = Tried(way=WAY, tracks=(0xFF,), since_us=SINCE_US)
    (found,) = judged(lake, [trial])
    return found


def test_relays_are_witnesses_each_against_itself(tmp_path: Path) -> None:
    rows = [row for relay in ("a", "b", "c") for row in reports(relay, after=-30)]
    rows += reports("far", after=900, track="00000000000000aa")
    rows += reports("far", after=900, region="us")
    found = outcome(tmp_path, rows)
    latency, stalls = found.verdicts["latency"], found.verdicts["stalls"]
    assert (latency.word, latency.witnesses, latency.pairs) == ("better", 3, HOURS)
    assert latency.change == pytest.approx(-30, abs=2)
    assert (stalls.word, stalls.change) == ("unclear", 0.0)
    assert found.until_us == END_US
    assert found.p50_ms == pytest.approx(172, abs=2)
    learned = found.judged
    assert learned is not None
    assert (learned.hours, learned.witnesses, learned.at_us) == (HOURS, 3, END_US)
    assert learned.latency is not None
    assert learned.latency.change == latency.change


@pytest.mark.parametrize("lie", [-190, 60_000])
def test_neither_a_relay_nor_a_viewer_at_each_relay_can_lie_it_away(
    tmp_path: Path, lie: int
) -> None:
    rows = reports("liar", after=lie)
    for relay in ("a", "b", "c", "d"):
        rows += [row for name in "123" for row in reports(relay, after=-30, session=name)]
        rows += reports(relay, after=lie, session="liar")
    latency = outcome(tmp_path, rows).verdicts["latency"]
    assert latency.word == "better"
    assert latency.change == pytest.approx(-30, abs=2)


def test_who_reports_twice_has_one_voice(tmp_path: Path) -> None:
    """The player of one viewer of two stalls all the time, and its relay does not see it."""
    rows = []
    for relay in ("a", "b", "c"):
        rows += reports(relay, after=0, session="1", by="relay", stall_ms=0, latency_ms=None)
        rows += reports(relay, after=0, session="2", by="relay", stall_ms=0, latency_ms=None)
        said = reports(relay, after=0, session="2", by="player", stall_ms=0)
        rows += [row | {"stall_ms": 10_000 if n < HOURS else 0} for n, row in enumerate(said)]
    stalls = outcome(tmp_path, rows).verdicts["stalls"]
    assert (stalls.word, stalls.change) == ("worse", 0.5)


def test_it_may_be_too_early_to_tell(tmp_path: Path) -> None:
    rows = [row for relay in ("a", "b", "c") for row in reports(relay, after=-30)]
    lake = Lake.open(tmp_path / "lake", create=True)
    write_reports(lake, rows)
    few = [
        Tried(way=WAY, tracks=(0xFF,), since_us=END_US - 4 * 3_600_000_000),
        Tried(way=WAY._replace(region="us"), tracks=(0xFF,), since_us=SINCE_US),
        Tried(way=WAY, tracks=(0xAB,), since_us=SINCE_US, counts=lambda _: False),
    ]
    found = judged(lake, few)
    assert [item.judged for item in found] == [None] * 3
    assert found[1].p50_ms is None
    assert found[1].until_us == 0
    assert judged(lake, []) == []


def test_without_players_stalls_alone_are_judged(tmp_path: Path) -> None:
    rows = []
    for relay in ("a", "b", "c"):
        said = reports(relay, after=0, latency_ms=None, stall_ms=0)
        rows += [row | {"stall_ms": 100 if n < HOURS else 0} for n, row in enumerate(said)]
    found = outcome(tmp_path, rows)
    assert found.p50_ms is None
    learned = found.judged
    assert learned is not None
    assert learned.latency is None
    assert learned.stalls is not None
    assert learned.witnesses == 3
    assert learned.stalls.change == pytest.approx(0.01)
