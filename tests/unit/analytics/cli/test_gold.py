"""A bill says what it is made from, and a wrong one is no success."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from laps_analytics.cli.gold import TelemetryCoverage, _bill_text, coverage_of, require_equal
from laps_analytics.errors import GateError
from laps_analytics.report.gold import Gold

DAYS = ["2026-06-16", "2026-06-17", "2026-06-18", "2026-06-19"]


@pytest.fixture
def gold() -> Gold:
    """A whole day, one with a gap, one with a silent relay; the last was not checked."""
    rows: list[dict[str, Any]] = []
    for day, seen, silent in ((DAYS[0], 100, False), (DAYS[1], 93, False), (DAYS[2], 101, True)):
        at = pd.Timestamp(f"{day} 10:00", tz="UTC")
        for relay in ("a", "b"):
            count = 100.0 if relay == "a" else float(seen)
            rows.append({"dt": day, "window_start": at, "check": "telemetry_gap", "subject": relay,
                         "expected": 100.0, "seen": count, "ok": True})  # fmt: skip
        rows.append({"dt": day, "window_start": at, "check": "silent", "subject": "b",
                     "expected": 1.0, "seen": 0.0, "ok": not silent})  # fmt: skip
        rows.append({"dt": day, "window_start": at, "check": "clock", "subject": "b",
                     "expected": 50.0, "seen": 0.0, "ok": False})  # fmt: skip
    return Gold({"quality_1h": pd.DataFrame(rows)})


def test_what_is_missing_makes_a_day_provisional(gold: Gold) -> None:
    coverage = coverage_of(gold, DAYS)
    assert [item.provisional for item in coverage.values()] == [False, True, True, True]
    assert [item.description for item in coverage.values()] == [
        "",
        "7 events missing (3.50%)",
        "relays silent for 1 h",
        "not checked",
    ]


def test_the_bill_says_so_beside_each_day(gold: Gold) -> None:
    names = ("version", "in_bytes", "out_bytes", "link_bytes", "watched_ms", "peak_sessions")
    rows = [{"dt": day, "tenant": "acme", "p95_bps": 1.5e6, **dict.fromkeys(names, 1234)}
            for day in DAYS[:2]]  # fmt: skip
    head, final, open_ = _bill_text(rows, coverage_of(gold, DAYS)).splitlines()
    assert head.split()[-1] == "state"
    assert final.startswith("2026-06-16  acme")
    assert final.endswith("final")
    assert open_.endswith("provisional: 7 events missing (3.50%)")
    assert head.index("state") == final.index("final") == open_.index("provisional")


def test_a_check_that_must_be_equal_and_is_not_stops() -> None:
    check = {"dt": DAYS[0], "subject": "all relays", "billed": 10, "counted": 12, "equal": False}
    require_equal([{**check, "check": "clients to session.close"}])
    require_equal([{**check, "check": "usage to hop.stat", "equal": True}])
    with pytest.raises(GateError, match=r"2026-06-16 \(usage to hop.stat, all relays, by -2 bytes"):
        require_equal([{**check, "check": "usage to hop.stat"}])
    assert GateError.exit_code == 3


def test_silence_and_gaps_are_both_said() -> None:
    coverage = TelemetryCoverage(dt=DAYS[0], expected=1000, missing=10, silent=2)
    assert coverage.description == "10 events missing (1.00%), relays silent for 2 h"
