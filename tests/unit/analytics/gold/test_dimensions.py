from __future__ import annotations

from pathlib import Path

import pytest

from laps_analytics.errors import InputError
from laps_analytics.gold.dimensions import CLASSES, Dimensions, TrackFacts

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
