"""``laps-relay sim``: what is misspelt is not taken for a run that held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from laps_relay.cli import app
from laps_wire.plan import PlanEntry
from testkit.plan_stage import NODES, stage_document
from testkit.signed_plans import Signer, a_plan


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


def files(folder: Path, via: str = "x") -> tuple[str, str, str]:
    signer = Signer()
    entry = PlanEntry(origin=NODES["o"], region="eu", scope="gold", tracks=(0xFF,), via=NODES[via])
    plan, stage = folder / "plan.json", folder / "stage.json"
    plan.write_bytes(signer.sign(a_plan([entry], now_us=1_000_000)))
    stage.write_text(json.dumps(stage_document()), encoding="utf-8")
    return str(plan), str(stage), str(signer.file(folder))


def test_a_plan_that_holds(tmp_path: Path) -> None:
    plan, stage, key = files(tmp_path)
    result = run("plan", plan, "--topology", stage, "--keys", key)
    assert result.exit_code == 0, result.output
    assert "the plan holds" in result.stdout
    assert "3 of 3" in result.stdout


def test_a_plan_that_does_not_hold(tmp_path: Path) -> None:
    plan, stage, _ = files(tmp_path, "lonely")
    result = run("plan", plan, "--topology", stage)
    assert result.exit_code == 1
    assert "WRONG way at o > eu" in result.stdout
    verdict = run("plan", plan, "--topology", stage, "--json")
    assert verdict.exit_code == 1
    found = json.loads(verdict.stdout)
    assert not found["ok"]
    assert [fault["check"] for fault in found["faults"]] == ["way"] * 3


def test_without_a_topology_one_is_made_up(tmp_path: Path) -> None:
    plan, _, _ = files(tmp_path)
    found = json.loads(run("plan", plan, "--json", "--seed", "2").stdout)
    assert (found["ok"], found["relays"], found["seed"]) == (True, 5, 2)


@pytest.mark.parametrize(
    ("text", "says"), [(None, "name the file of a plan"), ("{}", "is not a plan: format: missing")]
)
def test_a_file_that_is_no_plan_is_one_line(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text, encoding="ascii")
    result = run("plan", str(file))
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
