"""Dimensions that stay in a lake; no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laps_analytics.errors import LakeError
from laps_analytics.gold.dimensions import (
    Dimensions,
    TrackFacts,
    dimensions_for,
    store_dimensions,
    stored_dimensions,
)
from laps_analytics.lake import Lake

SOME = Dimensions(
    tracks={"00000000000000aa": TrackFacts("gold", "acme"), "00000000000000bb": TrackFacts()},
    relays={"0.1:0.1": 1e10},
    links={("0.1:0.1", "0.2:0.1"): 2.5e9},
)


def number(count: int) -> Dimensions:
    return Dimensions(relays={"0.1:0.1": float(count)})


def test_what_was_kept_is_read_again_and_others_replace_it(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    assert stored_dimensions(lake) is None
    store_dimensions(lake, SOME)
    assert stored_dimensions(lake) == SOME == stored_dimensions(Lake.open(lake.root))
    note = json.loads((lake.root / "lake.json").read_text(encoding="ascii"))
    assert note["laps_lake"] == 1
    (path,) = lake.root.glob("dimensions-*.json")
    assert note["dimensions"]["sha256"].startswith(path.stem.partition("-")[2])
    written = (lake.root / "lake.json").stat().st_mtime_ns
    store_dimensions(lake, SOME)
    assert (lake.root / "lake.json").stat().st_mtime_ns == written
    for count in range(4):
        store_dimensions(lake, number(count))
        assert stored_dimensions(lake) == number(count)
    # The last one stays beside it, for who is about to read it.
    assert len(list(lake.root.glob("dimensions-*.json"))) == 2


def test_a_file_that_is_named_counts_instead(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    assert dimensions_for(lake, None) is None
    store_dimensions(lake, SOME)
    (tmp_path / "d.toml").write_text('[relay."0.1:0.1"]\ncapacity_bps = 7\n', encoding="ascii")
    assert dimensions_for(lake, None) == SOME
    assert dimensions_for(lake, tmp_path / "d.toml") == number(7)
    assert stored_dimensions(lake) == SOME


def test_dimensions_that_are_lost_or_changed_are_an_error(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    store_dimensions(lake, SOME)
    (path,) = lake.root.glob("dimensions-*.json")
    path.write_text("{}", encoding="ascii")
    with pytest.raises(LakeError, match=r"not what was written; give them to .* --dimensions"):
        stored_dimensions(lake)
    path.unlink()
    with pytest.raises(LakeError, match="No such file"):
        stored_dimensions(lake)
    store_dimensions(lake, SOME)
    assert stored_dimensions(lake) == SOME
    (lake.root / "lake.json").unlink()
    with pytest.raises(LakeError, match="cannot be read"):
        stored_dimensions(lake)
