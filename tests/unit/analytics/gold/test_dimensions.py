"""Dimensions: their files, and how they are stored in a lake; no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laps_analytics.errors import InputError, LakeError
from laps_analytics.gold.dimensions import (
    CLASSES,
    Dimensions,
    TrackFacts,
    dimensions_for,
    store_dimensions,
    stored_dimensions,
)
from laps_analytics.lake import Lake

GOOD = """
[class.gold]
latency_ms = 250
[class.studio]
startup_ms = 500
[track.00aa]
class = "studio"
tenant = "acme"
[track.00bb]
class = "gold"
[relay."a:1"]
capacity_bps = 1e9
[link."a:1>b:2"]
capacity_bps = 5e8
"""


def read(folder: Path, text: str, name: str = "facts.toml") -> Dimensions:
    path = folder / name
    path.write_text(text)
    return Dimensions.read(path)


def test_a_file_says_what_telemetry_cannot(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.tracks == {"00aa": TrackFacts("studio", "acme"), "00bb": TrackFacts("gold", None)}
    assert found.relays == {"a:1": 1e9}
    assert found.links == {("a:1", "b:2"): 5e8}
    assert found.classes["gold"].latency_ms == 250
    assert found.classes["gold"].startup_ms == CLASSES["gold"].startup_ms
    assert found.classes["studio"].startup_ms == 500
    assert found.classes["silver"] == CLASSES["silver"]
    assert found.as_dict() == read(tmp_path, GOOD).as_dict() != Dimensions().as_dict()


def test_a_list_of_another_system(tmp_path: Path) -> None:
    text = (
        "kind,name,class,tenant,capacity_bps\n"
        "track,00aa,gold,acme,\ntrack,00bb,,,\nrelay,a:1,,,1e9\nlink,a:1>b:2,,,5e8\n"
    )
    found = read(tmp_path, text, "facts.csv")
    assert found.tracks == {"00aa": TrackFacts("gold", "acme"), "00bb": TrackFacts("", None)}
    assert (found.relays, found.links) == ({"a:1": 1e9}, {("a:1", "b:2"): 5e8})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "is not TOML"),
        ("[price.x]\ny = 1", r"\[price\] is unknown; known: class, link, relay, track"),
        ("track = 5", r"\[track.NAME\] must be a table"),
        ("[track.a]\ncolour = 1", r"\[track.a\]: colour is unknown; known: class, tenant"),
        ('[track.a]\nclass = "best"', "unknown class 'best': use one of bronze, gold, silver"),
        (
            "[class.gold]\nlatency_ms = -1",
            r"\[class.gold\] latency_ms: -1 is not a number of at least 0",
        ),
        ('[class.gold]\nlatency_ms = "x"', "latency_ms: 'x' is not a number"),
        ("[class.gold]\nbest = 1", "best is unknown; known: allowed"),
        ('[relay."a:1"]\n', r"\[relay.a:1\] capacity_bps: None is not a number"),
        ("[link.a]\ncapacity_bps = 1", "a link is written as `from>to`, not 'a'"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must name the columns kind and name"),
        ("kind,name\nhouse,a\n", "line 2: kind 'house' is not track, relay or link"),
        ("kind,name,capacity_bps\nrelay,a,\n", "line 2: capacity_bps: '' is not a number"),
        ("kind,name,class\ntrack,a,best\n", "class 'best'"),
    ],
)
def test_a_fault_of_a_list(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(tmp_path, text, "facts.csv")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Dimensions.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "name"),
    [("", "a.toml"), ("# later\n", "a.toml"), ("kind,name,class\n", "a.csv")],
)
def test_a_file_that_says_nothing_is_the_wrong_one(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has no class, track, relay or link"):
        read(tmp_path, text, name)


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
