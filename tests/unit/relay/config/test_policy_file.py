from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.config import ConfigError
from laps_relay.config.policy_file import load_policy, policy_lines
from laps_relay.policy.rules import Rules

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
