"""What viewers get is told by what is known, and by no number that is none."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from laps_analytics.report.chapter import Context, Section
from laps_analytics.report.experience import experience
from laps_analytics.report.gold import Gold
from testkit.gold_frames import sample


def chapter(**changes: Any) -> Section:
    """The chapter of rows that differ from the sample."""
    rows = [{**row, **changes} for row in sample()["qoe_region_1m"]]
    return experience(Context.of(Gold({"qoe_region_1m": pd.DataFrame(rows)})))


def said(section: Section) -> str:
    pictures = " ".join(picture.svg for picture in section.pictures)
    return " ".join((*section.paragraphs, section.answer, pictures))


UNTIMED = {"latency_kll": None, "latency_p50_ms": None, "latency_p95_ms": None}


def test_behind_live_where_players_say_so() -> None:
    section = chapter()
    assert "half of them 230 ms or more behind live" in section.answer
    assert len(section.pictures) == 1
    assert "ms behind live" in section.pictures[0].svg


def test_without_a_player_start_up_stalls_and_gaps_are_told() -> None:
    section = chapter(**UNTIMED)
    assert "nan" not in said(section).lower().replace("tenant", "")
    assert (
        "Most of them in us-west, class gold: 40.0 % of its reports, start-up of one in twenty"
        " 400 ms or more in the worst minute, 1.0 % of the time stalled, 0.5 objects missing in a"
        " minute." in section.answer
    )
    assert any("No player says" in words for words in section.paragraphs)
    (picture,) = section.pictures
    assert "% of the time stalled" in picture.svg
    assert "ms behind live" not in picture.svg


def test_so_it_is_where_nobody_has_a_class() -> None:
    section = chapter(**UNTIMED, over_limit=0, burn=None, **{"class": ""}, startup_p95_ms=None)
    assert "0.0 % of 400 client reports" in section.answer
    assert "It was worst in us-west, class (none): 0.5 %" not in section.answer
    assert "It was worst in us-west, class (none): 1.0 % of the time stalled" in section.answer
    assert any("Nothing is promised" in words for words in section.paragraphs)
    assert "not known" in section.pictures[0].svg
    assert "nan" not in said(section).lower()


@pytest.mark.parametrize("stall", [0.0, None])
def test_where_nothing_is_wrong_nobody_has_it_worst(stall: float | None) -> None:
    section = chapter(**UNTIMED, over_limit=0, burn=0.0, stall_ratio=stall, gap_rate=stall,
                      startup_p95_ms=None)  # fmt: skip
    assert "worst in" not in section.answer
    assert "Every promise is kept" in section.paragraphs[1]
    assert "nan" not in said(section).lower()


def test_some_say_it_and_some_do_not() -> None:
    rows = sample()["qoe_region_1m"]
    mixed = [{**row, **UNTIMED} if row["class"] == "silver" else row for row in rows]
    section = experience(Context.of(Gold({"qoe_region_1m": pd.DataFrame(mixed)})))
    behind, felt = section.pictures
    assert "silver" not in behind.svg
    assert "us-west, silver" in felt.svg
    assert "us-west, gold" not in felt.svg
