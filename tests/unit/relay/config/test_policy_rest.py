"""Names that nothing has are found beside values that are wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from laps_relay.config.policy_file import load_policy
from laps_relay.config.policy_rest import strays_beside_faults
from laps_relay.config.sources import ConfigError

FAULTY = """
[regions.us]
nodes = ["1:*", 7]

[regions]
eu = "not a table"

[classes.gold]
max_fanout = 0

[[track]]
name = "no namespace"
class = "silver"

[[track]]
namespace = "acme"
class = "bronze"
allow_regions = ["us", "eu", "mars"]

[transit]
deny_regions = ["moon", 5]
deny_countries = ["nowhere"]

[[link]]
between = ["1:*", 9]
countries = ["DE"]

[[export.subscribe.rule]]
action = "perhaps"

[[export.subscribe.rule]]
action = "deny"
peer_regions = ["venus"]
surprise = 1
"""


def test_values_and_names_are_shown_at_once(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(FAULTY.replace('[regions]\neu = "not a table"\n', ""), encoding="ascii")
    with pytest.raises(ConfigError) as caught:
        load_policy(file)
    found = {problem.key: problem.wrong for problem in caught.value.problems}
    for key in ("track.1.namespace", "classes.gold.max_fanout", "transit.deny_countries.1"):
        assert key in found, key
    assert found["track.2.class"] == "there is no class 'bronze'"
    assert found["transit.deny_regions"] == "there is no region 'moon'"
    assert found["export.subscribe.rule.2.peer_regions"] == "there is no region 'venus'"
    assert found["export.subscribe.rule.2.surprise"] == "unknown key"
    regions = [each.wrong for each in caught.value.problems if each.key == "track.2.allow_regions"]
    assert regions == ["there is no region 'eu'", "there is no region 'mars'"]
    lines = [int(problem.where.rsplit(":", 1)[1]) for problem in caught.value.problems]
    assert lines == sorted(lines)


def test_a_name_is_there_whatever_stands_behind_it() -> None:
    data = {
        "regions": {"eu": "not a table"},
        "transit": {"deny_regions": ["eu", "moon"]},
        "track": [{"class": 7}, {"namespace": "acme", "class": "gold"}],
        "classes": {"gold": 5},
    }
    places = [("regions", "eu"), ("classes", "gold"), ("track", 0, "namespace")]
    found = strays_beside_faults(data, places)
    assert [(at, wrong) for at, wrong, _ in found] == [
        (("transit", "deny_regions"), "there is no region 'moon'")
    ]
    assert data["regions"] == {"eu": "not a table"}


def test_what_has_no_good_rest_shows_no_names() -> None:
    data = tomllib.loads('regions = 5\n[transit]\ndeny_regions = ["moon"]\n')
    assert [at for at, _, _ in strays_beside_faults(data, [("regions",)])] == [
        ("transit", "deny_regions")
    ]
    assert strays_beside_faults({"transit": 5}, [()]) == []
    deep = {"link": [{"between": ["1:*", 9], "countries": ["DE"]}], "peers": {"deny_regions": "x"}}
    assert strays_beside_faults(deep, [("peers", "deny_regions"), ("link", 0, "between", 1)]) == []
