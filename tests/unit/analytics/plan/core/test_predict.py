from __future__ import annotations

import numpy as np
import pytest

from laps_analytics.plan.core.predict import DAY, WINDOWS_USED, backtest_links, forecast


@pytest.mark.parametrize("length", [40, DAY + 5, 3 * DAY, 8 * DAY + 1])
def test_a_forecast_looks_at_no_other_windows(length: int) -> None:
    rng = np.random.default_rng(length)
    series = rng.uniform(10, 90, size=length)
    series[rng.random(length) < 0.1] = np.nan
    seen = np.full(length, np.nan)
    for step in WINDOWS_USED:
        if length - 1 + step >= 0:
            seen[length - 1 + step] = series[length - 1 + step]
    assert forecast(seen) == forecast(series)
    assert len(WINDOWS_USED) == 48 + 7 * 10


def test_forecasts_are_tried_on_few_links_with_a_history() -> None:
    lengths = {(a, b): 3 * DAY if a % 2 else DAY for a in range(20) for b in range(20)}
    found = backtest_links(lengths)
    assert len(found) == 20
    assert all(a % 2 for a, _ in found)
    assert backtest_links({(1, 2): DAY}) == []
