"""``laps-relay sim``: what is misspelt is not taken for a run that held."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from laps_relay.cli import app


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["sim", *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--kind", "foo"), "planned, faults"),
        (("replay", "--seed", "1", "--kind", "foo"), "planned, faults"),
        (("run", "--seeds", "5:3"), "no seeds at all"),
        (("run", "--seeds", "a:b"), "first:last"),
        (("mutants", "--only", "nosuch"), "or-compare"),
    ],
)
def test_a_mistake_is_no_run(words: tuple[str, ...], said: str) -> None:
    ended = run(*words)
    assert ended.exit_code == 2
    assert said in ended.output


def test_a_run_says_what_it_did() -> None:
    ended = run("run", "--seeds", "3", "--relays", "4", "--kind", "planned", "--json")
    assert ended.exit_code == 0
    first, last = (json.loads(line) for line in ended.stdout.splitlines())
    assert (first["seed"], first["problem"], last["figures"]["seeds"]) == (3, "", 1)


def test_a_run_is_the_same_however_much_of_it_is_told() -> None:
    words = ("replay", "--seed", "3", "--relays", "4", "--kind", "planned")
    short, long = (run(*words, *more).stdout.splitlines() for more in ((), ("--trace",)))
    assert len(long) > len(short)
    assert long[-2:] == short[-2:]
    assert short[-2].startswith("trace ")
