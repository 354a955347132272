from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.cli.bench_report import (
    WIDTH,
    Sample,
    Summary,
    buckets,
    draw,
    histogram,
    need_plotting,
    percentile,
)
from laps_wire.errors import LapsError

DELAYS = st.lists(st.floats(-1.0, 100.0), min_size=1).map(sorted)


def summary(*delays: float) -> Summary:
    samples = [Sample(), Sample()]
    for delay in delays:
        samples[0].note(100, delay)
    samples[1].note(100, None)
    return Summary.of(samples, written=5, seconds=2.0, size=100)


def test_percentiles_are_values_that_were_there() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert [percentile(hundred, percent) for percent in (0, 50, 99, 99.9, 100)] == [
        1, 50, 99, 100, 100,
    ]  # fmt: skip
    assert percentile([7.0], 50) == 7.0


@given(DELAYS, st.floats(0, 100))
def test_so_many_percent_do_not_exceed_it(ordered: list[float], percent: float) -> None:
    found = percentile(ordered, percent)
    within = sum(delay <= found for delay in ordered)
    assert within >= len(ordered) * percent / 100 - 1e-9
    assert found in ordered


def test_figures() -> None:
    found = summary(0.001, 0.002, 0.010)
    assert found.record() == {
        "written": 5, "delivered": 4, "missing": 6, "least": 1, "subscribers": 2, "size": 100,
        "seconds": 2.0, "written_per_second": 2.5, "delivered_bytes_per_second": 200,
        "delay_ms": {"p50": 2.0, "p90": 10.0, "p99": 10.0, "p99.9": 10.0},
    }  # fmt: skip
    first, second = found.lines()
    assert first.startswith("5 objects of 100 bytes in 2.0 s: 2/s; delivered 4 to 2, ")
    assert first.endswith("missing 6")
    assert second == "delay in ms: p50 2.00, p90 10.00, p99 10.00, p99.9 10.00, worst 10.00"


def test_figures_without_delays() -> None:
    assert "delay_ms" not in summary().record()
    assert len(list(summary().lines())) == 1
    assert list(histogram(())) == []


@given(DELAYS)
def test_every_delay_is_in_a_bucket(delays: list[float]) -> None:
    found = buckets(delays)
    assert sum(count for _, _, count in found) == len(delays)
    for (_, high, _), (low, _, _) in itertools.pairwise(found):
        assert low == pytest.approx(high)
    assert found[-1][1] * 1.0001 >= delays[-1]


def test_bars() -> None:
    lines = list(histogram([0.001] * 4 + [0.0015] * 2 + [0.008]))
    assert lines[0].endswith("#" * WIDTH)
    assert [line.split()[4] for line in lines] == ["4", "2", "0", "0", "0", "0", "1"]
    assert [line.count("#") for line in lines][:3] == [WIDTH, WIDTH // 2, 0]


@pytest.mark.parametrize("delays", [(), (0.001, 0.002, 0.5)])
def test_a_picture(tmp_path: Path, delays: tuple[float, ...]) -> None:
    path = tmp_path / "delays.png"
    need_plotting()
    draw(summary(*delays), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_pictures_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LapsError, match=r'pip install -e "packages/laps-sdk\[plot\]"'):
        need_plotting()
