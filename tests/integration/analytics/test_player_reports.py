"""From real players to gold: two viewers are two, and what one of them says of itself counts."""

from __future__ import annotations

import pytest

from integration.analytics.relay_lake import FILM, RelayLake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def test_a_viewer_that_reports_is_counted_once(relay_lake: RelayLake) -> None:
    found = relay_lake.watched
    quality, usage = (
        rows[rows["tenant"] == FILM]
        for rows in (relay_lake.gold["qoe_region_1m"], relay_lake.gold["usage_tenant_day"])
    )
    relays, players = found.reports("relay"), found.reports("player")
    assert quality["sessions"].max() == 2
    # The silent one comes with its relay's reports, the other with its own.
    assert quality["reports"].sum() < len(relays) + len(players)
    assert set(quality["latency_p95_ms"].dropna()) == {900}
    (silent,) = {report.session_id for report in relays} - {report.session_id for report in players}
    began = [r.startup_ms for r in relays if r.session_id == silent and r.startup_ms is not None]
    assert quality["startup_p95_ms"].max() == max(400, *began)
    assert quality["stall_ratio"].max() > 0
    assert usage["watched_ms"].sum() == sum(report.window_ms for report in relays)
    assert usage["peak_sessions"].max() == 2
