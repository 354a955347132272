from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from laps_relay.cli import app

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "deploy" / "policy.example.toml"

NETWORK = """
[[relay]]
name = "sea"
node_id = "100.1:0.1"
[[relay]]
name = "nyc"
node_id = "100.9:0.1"
[[relay]]
name = "den"
node_id = "100.5:0.1"
type = "via"
[[relay]]
name = "yyz"
node_id = "150.5:0.1"
type = "via"
[[relay]]
name = "alone"
region = "eu-west"
node_id = "7:7"
[[link]]
a = "sea"
b = "nyc"
delay_ms = 20
[[link]]
a = "sea"
b = "yyz"
delay_ms = 5
[[link]]
a = "yyz"
b = "nyc"
delay_ms = 5
[[link]]
a = "den"
b = "sea"
delay_ms = 15
[[link]]
a = "den"
b = "nyc"
delay_ms = 15
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["policy", *(str(item) for item in arguments)])


def ask(*arguments: str | Path, file: Path = EXAMPLE) -> Result:
    return run("explain", file, *arguments)


def test_the_example_is_good() -> None:
    ended = run("check", EXAMPLE)
    assert ended.exit_code == 0, ended.stderr
    assert "is good: regions 3" in ended.stdout
    found = json.loads(run("check", EXAMPLE, "--json").stdout)
    assert found["good"]
    assert found["classes"] == 3


def test_a_check_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[transit]\ndeny_nods = []\n", encoding="ascii")
    ended = run("check", file)
    assert ended.exit_code == 2
    assert ended.stderr == (
        f"laps-relay: {file}:2: transit.deny_nods: unknown key; did you mean deny_nodes?\n"
    )
    told = run("check", file, "--json")
    assert told.exit_code == 2
    (problem,) = json.loads(told.stdout)["problems"]
    assert problem["key"] == "transit.deny_nods"


def test_an_explanation_names_the_rule_that_denies() -> None:
    ended = ask("--from", "100.1:0.1", "--to", "100.9:0.1", "--track", "acme/town--main")
    assert ended.exit_code == 1
    lines = ended.stdout.splitlines()
    assert lines[0] == "path       100.1:0.1        region us, country US"
    assert "class      domestic" in lines
    (denied,) = [line for line in lines if line.startswith("DENIES")]
    assert "classes.domestic.transit" in denied
    assert "(northern cable): country CA is denied" in denied
    assert lines[-1] == "verdict    denied"


def test_what_no_rule_is_against_is_allowed(tmp_path: Path) -> None:
    ended = ask("--from", "100.1:0.1", "--to", "100.9:0.1", "--track", "acme/live--a")
    assert ended.exit_code == 0, ended.stdout
    assert "class      gold, max_rtt_us 120000, max_loss 0.01, max_fanout 4" in ended.stdout
    empty = tmp_path / "policy.toml"
    empty.write_text("", encoding="ascii")
    bare = ask("--from", "1:1", "--to", "1:2", "--track", "a", file=empty)
    assert bare.exit_code == 0
    assert "class      none" in bare.stdout
    assert "no rule has anything to say" in bare.stdout


def test_relays_in_between_are_looked_at_too() -> None:
    ends = ("--from", "100.1:0.1", "--to", "100.9:0.1", "--track", "acme/town--main", "--json")
    over = json.loads(ask(*ends, "--via", "100.5:0.1").stdout)
    assert over["allowed"]
    assert [relay["node"] for relay in over["path"]] == ["100.1:0.1", "100.5:0.1", "100.9:0.1"]
    through = ask(*ends, "--via", "150.5:0.1")
    assert through.exit_code == 1
    denied = [row for row in json.loads(through.stdout)["findings"] if not row["allowed"]]
    assert [(row["check"], row["subject"]) for row in denied] == [("path", "transit 150.5:0.1")]


def test_a_topology_gives_names_and_ways(tmp_path: Path) -> None:
    network = tmp_path / "network.toml"
    network.write_text(NETWORK, encoding="ascii")
    ends = ("--from", "sea", "--to", "nyc", "--topology", network, "--json")
    plain = json.loads(ask(*ends).stdout)
    assert [relay["node"] for relay in plain["path"]] == ["100.1:0.1", "100.9:0.1"]
    steered = json.loads(ask(*ends, "--track", "acme/town--main").stdout)
    assert [relay["node"] for relay in steered["path"]] == ["100.1:0.1", "100.5:0.1", "100.9:0.1"]
    named = json.loads(ask(*ends, "--via", "yyz").stdout)
    assert named["path"][1] == {"node": "150.5:0.1", "region": "ca", "country": "CA"}
    place = json.loads(ask("--from", "sea", "--to", "alone", "--via", "nyc", *ends[4:]).stdout)
    assert place["path"][2]["region"] == "eu"


def test_a_way_that_is_denied_everywhere_is_shown_with_the_reason(tmp_path: Path) -> None:
    network = tmp_path / "network.toml"
    network.write_text(NETWORK.split('[[link]]\na = "den"', maxsplit=1)[0], encoding="ascii")
    ended = ask(
        *("--from", "sea", "--to", "nyc", "--topology", network, "--track", "acme/town--main")
    )
    assert ended.exit_code == 1
    assert "country CA is denied" in ended.stdout


def test_a_topology_says_which_countries_relays_and_links_are_in(tmp_path: Path) -> None:
    policy, network = tmp_path / "policy.toml", tmp_path / "network.toml"
    policy.write_text('[transit]\ndeny_countries = ["IE", "CA"]\n', encoding="ascii")
    place = 'name = "yyz"\n'
    through = NETWORK.replace(place, f'{place}country = "ca"\n')
    through = through.replace("delay_ms = 20", 'delay_ms = 20\ncountries = ["US", "ie"]')
    network.write_text(through, encoding="ascii")
    ends = ("--from", "sea", "--to", "nyc", "--topology", network, "--json")
    # Not over the link that passes Ireland, and not through the relay in Canada.
    found = json.loads(ask(*ends, file=policy).stdout)
    assert [relay["node"] for relay in found["path"]] == ["100.1:0.1", "100.5:0.1", "100.9:0.1"]
    named = json.loads(ask(*ends, "--via", "yyz", file=policy).stdout)
    assert named["path"][1]["country"] == "CA"
    direct = through.split('[[link]]\na = "sea"\nb = "yyz"', maxsplit=1)[0]
    network.write_text(direct, encoding="ascii")
    ended = ask(*ends[:-1], file=policy)
    assert ended.exit_code == 1
    assert "(sea - nyc of network.toml): country IE is denied" in ended.stdout
    network.write_text(direct.replace('["US", "ie"]', '["Ireland"]'), encoding="ascii")
    ended = ask(*ends, file=policy)
    assert ended.exit_code == 2
    assert "two letters" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "100.1", "--to", "1:1"), "no colon"),
        (("--from", "1:1", "--to", "1:2", "--topology", "/none.toml"), "cannot be read"),
        (("--from", "1:1", "--to", "1:2", "--track", "a//b"), "field 1 is empty"),
    ],
)
def test_a_question_that_cannot_be_understood(arguments: tuple[str, ...], words: str) -> None:
    ended = ask(*arguments)
    assert ended.exit_code == 2
    assert words in ended.stderr


def test_no_way_at_all(tmp_path: Path) -> None:
    network = tmp_path / "network.toml"
    network.write_text(NETWORK, encoding="ascii")
    ended = ask("--from", "sea", "--to", "alone", "--topology", network)
    assert ended.exit_code == 2
    assert "no path from 100.1:0.1 to 0.7:0.7 in the topology; give --via" in ended.stderr


def test_the_policy_of_a_relays_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAPS_CONFIG", raising=False)
    config = tmp_path / "relay.toml"
    config.write_text(f'[network]\nenabled = true\npolicy = "{EXAMPLE}"\n', encoding="utf-8")
    assert "is good" in run("check", "--config", config).stdout
    assert "verdict" in run("explain", "--config", config, "--from", "1:1", "--to", "1:2").stdout
    for command in (("check",), ("explain", "--from", "1:1", "--to", "1:2")):
        missing = run(*command)
        assert missing.exit_code == 2
        assert "no policy file: name one" in missing.stderr


def test_names_are_escaped_as_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    rule = '[regions.us]\n[[track]]\nname = "one"\nnamespace = "a%2Fb"\ntrack = "x%20y"\n'
    file.write_text(rule + 'allow_regions = ["us"]\n', encoding="ascii")
    ends = ("--from", "1:1", "--to", "1:2", "--track")
    assert "DENIES     track.one" in ask(*ends, "a%2Fb--x%20y", file=file).stdout
    assert "track.one" not in ask(*ends, "a%2Fb--xy", file=file).stdout
