from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from laps_analytics.errors import LakeError
from laps_analytics.lake import Lake
from laps_analytics.plan.core.lessons import LASTS_US
from laps_analytics.plan.remembered import remember, remembered
from unit.analytics.plan.core.test_lessons import DAY, NOW, WAY, trial


def test_what_was_tried_is_remembered_as_it_was(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    assert remembered(lake) == []
    remember(lake, [], now_us=NOW)
    assert not (lake.root / "trials.json").exists()
    open_ = trial(way=WAY._replace(region="us"), judged=None, tracks=(1, 2**64 - 1))
    remember(lake, [open_], now_us=NOW)
    remember(lake, [trial()], now_us=NOW)
    assert remembered(lake) == [trial(), open_]
    # The next version goes on with it, and then somebody judges it.
    remember(lake, [replace(open_, last=5)], now_us=NOW)
    assert remembered(lake) == [trial(), replace(open_, last=5)]
    remember(lake, [replace(open_, last=5, judged=trial().judged)], now_us=NOW)
    assert [item.judged for item in remembered(lake)] == [trial().judged] * 2


def test_what_counts_no_longer_is_forgotten(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    remember(lake, [trial()], now_us=NOW)
    new = trial(way=WAY._replace(region="us"), begun_us=NOW + LASTS_US, judged=None)
    remember(lake, [new], now_us=NOW + LASTS_US - DAY)
    assert len(remembered(lake)) == 2
    remember(lake, [new], now_us=NOW + LASTS_US)
    assert remembered(lake) == [new]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2, "trials": []}', '{"format": 1, "trials": [{"plan": "p"}]}']
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    (lake.root / "trials.json").write_text(text)
    with pytest.raises(LakeError, match=r"trials\.json cannot be used.*Remove it to begin anew"):
        remembered(lake)
