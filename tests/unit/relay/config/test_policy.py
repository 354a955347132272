from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from laps_relay.config import ConfigError
from laps_relay.config.policy import (
    PolicyModel,
    compiled,
    load_policy,
    namespace_of,
    policy_lines,
    strays_beside_faults,
)
from laps_relay.policy.facts import NodeNote, NodePattern, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, TrackRule
from laps_wire.names import Namespace

ALL = """
[regions.us]
nodes = ["100.*:*"]
[regions.eu]
names = ["eu-west"]
countries = ["se"]
labels = { continent = "europe" }
[regions.asia]

[[node]]
nodes = ["150.*:*"]
country = "ca"
labels = { tier = "core" }
[[node]]
nodes = ["*"]

[[link]]
between = ["1:1", "1:2"]
countries = ["US", "CA"]
[[link]]
between = ["1:1", "1:3"]
countries = ["US"]
name = "cable"

[peers]
allow_regions = ["us"]
[transit]
deny_nodes = ["9:*"]
deny_countries = ["ru"]

[classes.gold]
max_rtt = "80ms"
max_loss = 0.01
max_fanout = 4
transit = { allow_regions = ["us", "eu"], need = { tier = "core" } }
[classes.bronze]

[[track]]
namespace = ""
class = "bronze"
[[track]]
namespace = "acme/live%20show"
track = "main"
class = "gold"
deny_regions = ["asia"]
[[track]]
name = "named"
namespace = "acme/%ff"

[[import.node.rule]]
action = "deny"
labels = { test = "yes" }
[import.announce]
default = "deny"
[[import.announce.rule]]
name = "ours"
action = "accept"
namespace = "acme"
peers = ["100.*:*"]
[[export.subscribe.rule]]
action = "deny"
reason = "not for you"
peer_regions = ["asia"]
sources = ["100.*:*"]
source_regions = ["us"]
labels = { tenant = "acme" }
"""


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


def model(text: str) -> PolicyModel:
    return PolicyModel.model_validate(tomllib.loads(text))


def test_an_empty_file_allows_everything() -> None:
    assert compiled(model("")) == Rules()


def test_everything_arrives_in_the_core() -> None:
    found = compiled(model(ALL))
    assert found.regions == (
        Region(name="us", nodes=patterns("100.*:*")),
        Region(
            name="eu",
            names=frozenset({"eu-west"}),
            countries=frozenset({"SE"}),
            labels=(("continent", "europe"),),
        ),
        Region(name="asia", names=frozenset({"asia"})),
    )
    assert found.notes == (
        NodeNote(nodes=patterns("150.*:*"), country="CA", labels=(("tier", "core"),)),
        NodeNote(nodes=patterns("*")),
    )
    one, two, three = patterns("1:1", "1:2", "1:3")
    assert found.links == (
        Link(name="link 1", between=(one, two), countries=("US", "CA")),
        Link(name="cable", between=(one, three), countries=("US",)),
    )
    assert found.peers == Fence(allow_regions=frozenset({"us"}))
    assert found.transit == Fence(deny_nodes=patterns("9:*"), deny_countries=frozenset({"RU"}))
    gold = found.classes["gold"]
    assert gold.limits == ClassLimits(80_000, 0.01, 4)
    assert gold.transit == Fence(allow_regions=frozenset({"us", "eu"}), need=(("tier", "core"),))
    assert found.classes["bronze"].limits == ClassLimits()
    assert found.tracks == (
        TrackRule(name="everything", service_class="bronze"),
        TrackRule(
            name="acme/live show",
            namespace=Namespace.of(b"acme", b"live show"),
            track=b"main",
            service_class="gold",
            subscribers=Fence(deny_regions=frozenset({"asia"})),
        ),
        TrackRule(name="named", namespace=Namespace.of(b"acme", b"\xff")),
    )
    assert found.import_node == Filter(
        rules=(FilterRule(name="rule 1", accept=False, labels=(("test", "yes"),)),)
    )
    assert found.import_announce == Filter(
        rules=(
            FilterRule(
                name="ours",
                accept=True,
                namespace=Namespace.of(b"acme"),
                peers=patterns("100.*:*"),
            ),
        ),
        accept=False,
    )
    assert found.export_subscribe == Filter(
        rules=(
            FilterRule(
                name="rule 1",
                accept=False,
                reason="not for you",
                peer_regions=frozenset({"asia"}),
                sources=patterns("100.*:*"),
                source_regions=frozenset({"us"}),
                labels=(("tenant", "acme"),),
            ),
        )
    )
    assert list(model(ALL).strays()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[regions.us]\nnodes = [1]", "a node pattern is a text"),
        ("[regions.us]\nnodes = ['1']", "no colon"),
        ("[transit]\ndeny_countries = ['USA']", "two letters"),
        ("[transit]\ndeny_countries = ['ÄÄ']", "two letters"),
        ("[[link]]\nbetween = ['*']\ncountries = ['US']", "at least 2 items"),
        ("[[link]]\nbetween = ['*', '*']\ncountries = []", "at least 1 item"),
        ("[[node]]\nnodes = []", "at least 1 item"),
        ("[[track]]\nnamespace = 5", "a namespace is a text"),
        ("[[track]]\nnamespace = 'a//b'", "field 1 is empty"),
        ("[[track]]", "Field required"),
        ("[[track]]\nnamespace = ''\nservice_class = 'gold'", "Extra inputs"),
        ("[classes.g]\nmax_fanout = 0", "greater than or equal to 1"),
        ("[classes.g]\nmax_fanout = true", "valid integer"),
        ("[classes.g]\nmax_loss = 1.5", "less than or equal to 1"),
        ("[classes.g]\nmax_rtt = 'long'", "a duration is"),
        ("[[import.node.rule]]\naction = 'drop'", "'accept' or 'deny'"),
        ("[[import.node.rule]]\naction = 'deny'\nnamespace = 'a'", "Extra inputs"),
        ("[[import.announce.rule]]\naction = 'deny'\nlabels = {a='b'}", "at most 0 items"),
        ("[export.node]\ndefault = 'maybe'", "'accept' or 'deny'"),
        ("[classes.'']", "at least 1 character"),
    ],
)
def test_what_may_not_stand_in_it(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        model(text)
    assert words in str(caught.value)


def test_names_that_nothing_has_are_found() -> None:
    text = """
[regions.us]
[peers]
allow_regions = ["us", "eu"]
[transit]
deny_regions = ["b"]
[classes.g.transit]
allow_regions = ["c"]
[[track]]
namespace = "x"
class = "gold"
allow_regions = ["d"]
[[import.node.rule]]
action = "deny"
peer_regions = ["e"]
[[export.subscribe.rule]]
action = "deny"
source_regions = ["f"]
"""
    found = list(model(text).strays())
    assert [(place, wrong) for place, wrong, _ in found] == [
        (("peers", "allow_regions"), "there is no region 'eu'"),
        (("transit", "deny_regions"), "there is no region 'b'"),
        (("classes", "g", "transit", "allow_regions"), "there is no region 'c'"),
        (("track", 0, "allow_regions"), "there is no region 'd'"),
        (("track", 0, "class"), "there is no class 'gold'"),
        (("import", "node", "rule", 0, "peer_regions"), "there is no region 'e'"),
        (("export", "subscribe", "rule", 0, "source_regions"), "there is no region 'f'"),
    ]
    assert found[0][2] == "write [regions.NAME], or one that is there: us"
    (lost,) = model("[[track]]\nnamespace = ''\nclass = 'x'").strays()
    assert lost[2] == "write [classes.NAME], or one that is there: none"


def test_namespaces_are_read_as_the_client_reads_them() -> None:
    assert namespace_of("") == Namespace()
    assert namespace_of("a/b%2fc") == Namespace.of(b"a", b"b/c")


EXAMPLE = Path(__file__).resolve().parents[4] / "deploy" / "policy.example.toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy.toml"


def problems(file: Path, text: str | bytes) -> list[str]:
    """What is said of a file, without its own name."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_policy(file)
    return [str(problem).removeprefix(str(file)) for problem in caught.value.problems]


def test_the_example_is_good() -> None:
    rules = load_policy(EXAMPLE)
    assert set(rules.classes) == {"gold", "domestic", "bronze"}


def test_an_empty_file_is_a_policy(file: Path) -> None:
    file.touch()
    assert load_policy(file) == Rules()


def test_all_mistakes_are_told_with_their_lines(file: Path) -> None:
    text = """# a comment
[regions.us]
nodes = [
  "100.*:*",
  "1*:5",
]
[transit]
deny_countris = ["CA"]
[[track]]
namespace = "a"
[[track]]
class = "gold"
[[import.announce.rule]]
action = "drop"
[classes.gold]
transit = 5
color = "red"
"""
    assert problems(file, text) == [
        (
            ":3: regions.us.nodes.2: '1*:5': node pattern '1*:5': '*' stands for a whole number,"
            " at character 1; a good one is '100.*:*'; Node IDs."
        ),
        ":8: transit.deny_countris: unknown key; did you mean deny_countries?",
        ':11: track.2.namespace: is missing; Fields parted by slashes; "" is everything.',
        (
            ":14: import.announce.rule.1.action: 'drop': input should be 'accept' or 'deny';"
            " What happens if it matches."
        ),
        (
            ":16: classes.gold.transit: '5': not a table; its keys are allow_countries,"
            " allow_nodes, allow_regions, deny_countries, deny_nodes, deny_regions, need"
        ),
        ":17: classes.gold.color: unknown key; its keys are max_fanout, max_loss, max_rtt, transit",
    ]


def test_names_that_nothing_has_are_told_with_their_lines(file: Path) -> None:
    text = '[[track]]\nnamespace = ""\n[[track]]\nnamespace = "a"\nclass = "gold"\n'
    assert problems(file, text) == [
        (
            ":5: track.2.class: there is no class 'gold'; write [classes.NAME], or one that is"
            " there: none"
        )
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regions = 5", ":1: regions: '5': input should be a valid dictionary; Regions by name;"),
        ("[regions]\n'' = {}", ":2: regions.: '': string should have at least 1 character"),
        ("[regions.us]\nlabels = {a = 5}", ":2: regions.us.labels.a: '5': input should be"),
        ("node = [5]", ":1: node.1: '5': not a table; its keys are country, labels, nodes"),
        ("colour = 5", ":1: colour: unknown key; its keys are classes, export, import, link,"),
        ("[transit]\nneed = 5", ":2: transit.need: '5': input should be a valid dictionary"),
    ],
)
def test_what_is_wrong_is_told_in_its_place(file: Path, text: str, said: str) -> None:
    (problem,) = problems(file, text)
    assert problem.startswith(said)


def test_what_is_no_toml_or_no_file(file: Path, tmp_path: Path) -> None:
    (syntax,) = problems(file, "[transit\n")
    assert syntax.startswith(":1: not TOML: ")
    (early,) = problems(file, "a = ")
    assert "not TOML" in early
    (binary,) = problems(file, b"\xff")
    assert binary == ": is not UTF-8; give the path of a TOML file"
    (large,) = problems(file, b"#" * (1024 * 1024 + 1))
    assert large.startswith(": is larger than 1048576 bytes; use patterns")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_policy(tmp_path)


def test_lines_of_keys_in_tables_and_arrays_of_tables() -> None:
    text = """
top = 1
[a.b]
c = 1
"d e".f = 2
[[x]]
k = 1
[[x]]  # a second one
k = 2
[x.sub]
n = 1
[[x.inner]]
m = 1
"""
    assert policy_lines(text) == {
        ("top",): 2,
        ("a", "b"): 3,
        ("a", "b", "c"): 4,
        ("a", "b", "d e", "f"): 5,
        ("x", 0): 6,
        ("x", 0, "k"): 7,
        ("x", 1): 8,
        ("x", 1, "k"): 9,
        ("x", 1, "sub"): 10,
        ("x", 1, "sub", "n"): 11,
        ("x", 1, "inner", 0): 12,
        ("x", 1, "inner", 0, "m"): 13,
    }


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
