"""What was seen stands beside what is forecast, for relays and for links."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from laps_analytics.report.chapter import Context
from laps_analytics.report.gold import Gold
from laps_analytics.report.operations import _daily_peaks, capacity
from testkit.gold_frames import sample


@pytest.fixture
def rows() -> dict[str, Any]:
    """Two days of traffic to clients and over a link, and the forecast of both."""
    made = sample()
    minutes = made["traffic_1m"]
    link = [{**row, "out_peer": "0.1:0.2", "out_bytes": 2 * 10**8} for row in minutes]
    before = [
        {**row, "dt": "2026-06-17", "window_start": row["window_start"] - pd.Timedelta(days=1),
         "out_bytes": row["out_bytes"] // 2}
        for row in minutes + link
    ]  # fmt: skip
    made["traffic_1m"] = before + minutes + link
    made["capacity_fc"] = [
        {**row, "kind": "link", "peer": "0.1:0.2"} if row["relay"] == "0.2:0.1" else row
        for row in made["capacity_fc"]
    ]
    return made


def gold_of(rows: dict[str, Any]) -> Gold:
    return Gold({name: pd.DataFrame(part) for name, part in rows.items() if part})


def test_links_and_relays_have_a_past(rows: dict[str, Any]) -> None:
    shown = pd.DataFrame(
        [("relay", "0.1:0.1", ""), ("link", "0.2:0.1", "0.1:0.2"), ("link", "0.2:0.1", "x"),
         ("relay", "gone", "")],
        columns=["kind", "relay", "peer"],
    )  # fmt: skip
    peaks = _daily_peaks(Context.of(gold_of(rows)), shown)
    assert set(peaks) == {("relay", "0.1:0.1", ""), ("link", "0.2:0.1", "0.1:0.2")}
    # Five minutes of a gigabyte a minute to clients, and a fifth of that over the link.
    both = peaks["relay", "0.1:0.1", ""]
    assert both.tolist() == pytest.approx([0.5 * 1.2e9 * 5 * 8 / 300, 1.2e9 * 5 * 8 / 300])
    link = peaks["link", "0.2:0.1", "0.1:0.2"]
    assert link.tolist() == pytest.approx([1e8 * 5 * 8 / 300, 2e8 * 5 * 8 / 300])
    assert list(link.index) == [pd.Timestamp("2026-06-17"), pd.Timestamp("2026-06-18")]


def test_the_picture_has_them(rows: dict[str, Any]) -> None:
    (picture,) = capacity(Context.of(gold_of(rows))).pictures
    assert "seen" in picture.svg


def test_an_old_forecast_is_no_forecast(rows: dict[str, Any]) -> None:
    for row in rows["capacity_fc"]:
        row["dt"] = "2026-05-01"
    assert capacity(Context.of(gold_of(rows))).paragraphs[0].startswith("Nothing since 2026-05-01")
