from __future__ import annotations

from pathlib import Path

import pytest

from laps_analytics.errors import InputError
from laps_analytics.plan import constraints
from laps_analytics.plan.constraints import parse_settings, read_settings


def test_the_example_in_the_module_is_one(tmp_path: Path) -> None:
    text = (constraints.__doc__ or "").partition("::\n")[2]
    file = tmp_path / "c.toml"
    file.write_text("\n".join(line[4:] for line in text.splitlines()), encoding="utf-8")
    found = read_settings(file)
    hard = found.policy.hard
    assert (hard.max_fanout, hard.change_budget, hard.headroom_permille) == (2, 20, 800)
    gold = hard.classes["gold"]
    assert (gold.slack_permille, gold.extra_us, gold.limit_us) == (1200, 25_000, 150_000)
    assert gold.disjoint
    assert gold.limit_loss_ppm == 5000
    assert gold.allow_countries == ("DE", "FR")
    assert found.policy.undeclared == {"gold"}
    assert found.nodes["0.1:0.3"].usable is False
    assert found.links["0.1:0.3", "0.2:0.1"].countries == frozenset({"DE", "FR"})
    assert found.lifetime_us == 900_000_000
    assert found.leaving == {"africa": 4.0}


def test_an_empty_file_is_the_defaults() -> None:
    found = parse_settings("", "c.toml")
    assert found.policy.hard.max_fanout == 2
    assert found.policy.hard.change_budget is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", r"c\.toml is not TOML"),
        ("max_fanuot = 2", r"c\.toml: max_fanuot: is unknown; known: change_budget"),
        ("max_fanout = 0", r"max_fanout: 0 is not a whole number from 1"),
        ("max_fanout = true", r"max_fanout: True is not a whole"),
        ("headroom = 1.5", r"headroom: 1\.5 is outside 0\.001 to 1"),
        ("edges_as_vias = 1", r"edges_as_vias: 1 is not true or false"),
        ("class = 1", r"class: 1 is not a table"),
        ("[class]\ngold = 1", r"class\.gold: 1 is not a table"),
        ("[class.gold]\nslak = 1", r"class\.gold\.slak: is unknown"),
        ("[class.gold]\nslack = 'x'", r"class\.gold\.slack: 'x' is not a number"),
        ("[class.gold]\ndeny_countries = 'DE'", r"deny_countries: 'DE' is not a list of strings"),
        ("[class.gold]\ndeny_countries = ['de']", r"deny_countries: 'de' is not a country"),
        ("[class.gold]\nundeclared = true", r"class\.gold\.undeclared: True is not allow or deny"),
        ("[class.gold]\nundeclared = 'deny'", r"class\.gold\.undeclared: needs deny_countries"),
        ("[node.x]", r"node\.x: node ID 'x'"),
        ("[node.'1:1']\ncountry = 'Germany'", r"node\.1:1\.country: 'Germany' is not a country"),
        ("[link.'1:1']", r"link\.1:1: write a link as a>b"),
        ("[link.'1:1>x']", r"link\.1:1>x: node ID 'x'"),
        ("[price]\nfrom = { eu = -1 }", r"price\.from\.eu: -1 is outside"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_settings(text, "c.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")
