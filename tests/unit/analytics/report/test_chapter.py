"""Axes of time find their ticks, whatever the range."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.figure import Figure

from laps_analytics.report.chapter import draw, time_axis


@pytest.mark.parametrize("minutes", [5, 40, 80, 115, 120, 170, 400, 800, 1440, 10_000, 36_000])
@pytest.mark.parametrize("most", [5, 9])
def test_every_range_has_ticks(minutes: int, most: int) -> None:
    start = pd.Timestamp("2026-06-18 19:15", tz="UTC")

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([start, start + pd.Timedelta(minutes=minutes)], [0, 1])
        time_axis(axes, most)

    # A locator that does not find an interval warns, and that is an error here.
    assert draw("t", "a line", paint, size=(3, 2)).svg.count("<text") >= 4
