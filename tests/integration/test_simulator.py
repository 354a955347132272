"""The simulator on the real core: many seeds, one large network, and every deliberate break."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laps_relay.cli import app
from laps_relay.sim.mutants import MUTANTS, applied, hunt
from laps_relay.sim.runner import Outcome, run_seeds, simulate_seed
from laps_relay.sim.scenarios.features import STEERING
from laps_relay.sim.scenarios.scenario import STEERED
from laps_sdk.upstream import upstream

STEPS = tuple(range(1, 302, 10))
"""Where batches of seeds begin: 1 to 300."""
SHORT = (
    6, 9, 11, 13, 17, 20, 21, 22, 45, 48, 60, 75, 88, 89, 92,
    94, 95, 101, 105, 120, 124, 133, 134, 137, 141, 142, 153, 154, 155, 157,
    169, 176, 177, 179, 180, 181, 182, 190, 193, 194, 197, 200, 201, 205, 207,
    216, 219, 220, 225, 227, 237, 238, 240, 248, 260, 273, 280, 286, 288, 300,
)  # fmt: skip
"""Sixty of them: of shapes, kinds, faults and settings nearly every two meet here."""
REGRESSIONS = (
    # 119: a node is back just before its entries are forgotten, and just after others forgot them
    # 272: a relay on the way moves before the o-relay: copies for different targets meet
    # These are among the 300; others are played by themselves.
    359,  # a packet with a new target is lost, and the next stream is faster than its repetition
    503,  # relays damped a link that they did not measure, and disagreed about it
    665,  # a node restarts: for a moment a relay has only forbidden ways to it, and refused it
    669,  # a Via drains, and who waits before it takes a longer way is refused meanwhile
    744,  # a control server comes where somebody had lied about it, and the lie was not taken back
    923,  # a relay has a twin, and what its former life had just left still comes
    977,  # policy keeps a node from a relay, whose peers know it all the time
    1407,  # a subscriber that was refused goes when its relay stops asking
    1575,  # a client of MoQT that was refused goes, and its relay still asks for a while
    1597,  # a stream has waited for a receiver that is fast again when it expires
    1640,  # control servers told of relays faster than light, so nobody believed them
    2505,  # a publisher that ends and begins again within a period
    2585,  # a policy of one class comes while streams of another are still on ways that moved
    2528,  # a relay comes back, and an impostor comes before the node whose id it takes
    3003,  # a policy forbids a way that nobody tells any more, and that is still in use
    3045,  # a relay that drains put its own tracks onto a Via, and two copies met behind it
    3125,  # a relay has just lost a subscribe when a policy makes it tell everything again
    3195,  # of two control servers an o-relay loses one, and its subscriber the other
    3860,  # a datagram waits for a slow receiver when a policy comes
    4196,  # a policy comes while a relay stands still, and its publisher goes on
    4333,  # a policy gives a track a class, and streams of it wait behind the next relay
    4455,  # a Stub that was refused goes, and its parent asks as long again
    4639,  # copies that go round a relay meet the others behind it
    4776,  # who passed a lie on tells the truth now, and is not believed, nor asked again
    4866,  # a policy takes a track away, and a relay that has lost the subscribe drops the answer
)

OF_KINDS = (
    (49, "narrow"),  # a stream waits for eight seconds, and the way behind it has moved meanwhile
    (32, "narrow"),  # datagrams wait for longer than a flight when a policy comes
    (16, "planned"),  # a relay of a ring leaves, and the way round it is too long for some
    (74, "planned"),  # who may not have a track does not hear of its publisher either
    (103, "planned"),  # copies that go round a country meet the others behind it
    (38, "faults"),  # a refusal is lost on an old way back, and its subscriber was served before
)
"""The same of seeds that are of another kind by themselves."""


DIGESTS: dict[str, str] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "simulator_digests.json").read_text("utf-8")
)
"""What each seed sent; ``scripts/simulator_digests.py --record`` writes it anew, on purpose."""


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``laps-relay sim`` in a process of its own, without measuring its coverage."""
    clean = {name: value for name, value in os.environ.items() if "COV" not in name}
    call = "from laps_relay.cli.sim import app; app()"
    return subprocess.run(
        [sys.executable, "-c", call, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**clean, **environment},
    )


def hold(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """All of them, none of which broke."""
    found = list(outcomes)
    broken = [outcome.problem for outcome in found if not outcome.ok]
    assert not broken, broken
    return found


# In the process of the test, because a new one reads all modules first, which takes as long as a
# seed; and the longest first, so that both processes have something to do until the end.


@pytest.mark.all_seeds
@pytest.mark.timeout(900)
def test_two_hundred_relays() -> None:
    hold([simulate_seed(1, relays=200)])


def play(seeds: Sequence[int]) -> None:
    """Everything holds in each of them, and what relays sent is what is recorded."""
    outcomes = hold(run_seeds(seeds))
    assert len(outcomes) == len(seeds)
    assert sum(outcome.deliveries for outcome in outcomes) > 1000
    assert sum(outcome.faults for outcome in outcomes) > 0
    recorded = {seed: DIGESTS[str(seed)] for seed in seeds}
    assert {outcome.seed: outcome.digest[:16] for outcome in outcomes} == recorded


@pytest.mark.seeds
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(6))
def test_everything_holds_in_scenarios_of_all_kinds(part: int) -> None:
    play(SHORT[part::6])


@pytest.mark.all_seeds
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("first", "end"), tuple(pairwise(STEPS)))
def test_everything_holds_whatever_happens(first: int, end: int) -> None:
    play(range(first, end))


@pytest.mark.all_seeds
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_broke_once_holds(seed: int) -> None:
    hold([simulate_seed(seed)])


@pytest.mark.all_seeds
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "kind"), OF_KINDS)
def test_what_broke_of_a_kind_holds(seed: int, kind: str) -> None:
    hold([simulate_seed(seed, kind=kind)])


@pytest.mark.all_seeds
def test_a_via_that_comes_beside_a_control_server_is_not_faster_than_light() -> None:
    hold([simulate_seed(4033, kind="planned")])


@pytest.mark.all_seeds
def test_a_stub_that_policy_refuses_asks_until_it_has_waited_and_its_parent_waits_then() -> None:
    hold([simulate_seed(22, relays=8, topology="random+stubs")])


@pytest.mark.all_seeds
@pytest.mark.parametrize(("seed", "relays"), [(79, 5), (236, 8)])  # with the real engine, and not
def test_a_stub_at_the_publishers_own_relay_is_told_what_policy_keeps_from_it(
    seed: int, relays: int
) -> None:
    hold([simulate_seed(seed, relays=relays, topology="random+stubs", kind="planned")])


@pytest.mark.all_seeds
def test_a_parent_that_asks_for_longer_than_its_stub_and_itself_may_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other side of seed 4455: both look every 7.5 s whether anybody waits, and not every 5."""
    monkeypatch.setattr(upstream, "_RECHECK", 7.5)
    outcome = simulate_seed(4455)
    assert outcome.rule == "left over", outcome.problem


@pytest.mark.all_seeds
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [seed for seed in range(1, 13) if seed % STEERED != STEERED - 2])
def test_vias_are_injected_and_left(seed: int) -> None:
    """Those of the other seeds are played above."""
    hold([simulate_seed(seed, kind=STEERING)])


@pytest.mark.timeout(300)
def test_an_edge_with_many_tracks_leaves_a_dense_network() -> None:
    """Relays between the others chased it along each other's old ways, without an end."""
    outcome = simulate_seed(4, relays=6, topology="random+stubs", kind="planned")
    assert outcome.ok, outcome.problem


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", ["7", "8"])  # the second one on real bytes
def test_a_seed_is_one_story_in_every_process(seed: str) -> None:
    ends = [
        command("replay", "--seed", seed, "--relays", "8", PYTHONHASHSEED=hash_seed)
        for hash_seed in ("1", "2")
    ]
    assert ends[0].stdout == ends[1].stdout
    traced = command("replay", "--seed", seed, "--relays", "8", "--trace")
    one, other = (
        re.findall(r"^trace (\w+)$", end.stdout, re.MULTILINE) for end in (ends[0], traced)
    )
    assert one == other
    assert len(one) == 1


@pytest.mark.seeds  # with coverage a hunt takes four times as long, and may give up too early
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_break_is_seen(name: str) -> None:
    mutant = MUTANTS[name]
    found = hunt(mutant)
    assert found is not None, f"nobody saw that {mutant.what}"


def test_a_failure_says_how_to_see_it_again() -> None:
    words = ["--relays", "6", "--topology", "ring", "--kind", "planned"]
    with applied(MUTANTS["answers-lost"]):
        ended = CliRunner().invoke(app, ["sim", "run", "--seeds", "3", *words])
        assert ended.exit_code == 1
        assert f"laps-relay sim replay --seed 3 {' '.join(words)}" in ended.stdout
        again = CliRunner().invoke(app, ["sim", "replay", "--seed", "3", "--trace", *words])
    assert again.exit_code == 1
    assert "BROKEN answer" in again.stdout
    assert "bytes" in again.stdout
    good = CliRunner().invoke(app, ["sim", "replay", "--seed", "3", *words])
    assert good.exit_code == 0, good.stdout[-2000:]
    assert "everything held" in good.stdout


def test_the_table_of_breaks_is_printed() -> None:
    ended = CliRunner().invoke(app, ["sim", "mutants", "--only", "or-compare"])
    assert ended.exit_code == 0, ended.stdout
    assert "route" in ended.stdout


def test_figures_are_for_people_too() -> None:
    words = ["sim", "run", "--seeds", "1:10", "--relays", "4", "--kind", "planned"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.stdout
    assert re.search(r"^breaks +0$", ended.stdout, re.MULTILINE)
    assert "10 of 10 seeds" in ended.stderr
    machines = CliRunner().invoke(app, [*words, "--json"])
    assert "10 of 10 seeds" in machines.stderr
    assert json.loads(machines.stdout.splitlines()[-1])["figures"]["memory_per_relay"] >= 0
    bad = CliRunner().invoke(app, ["sim", "run", "--seeds", "many"])
    assert bad.exit_code == 2
    missing = CliRunner().invoke(app, ["sim", "run", "--topology", "none.toml"])
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr


def test_several_processes_give_the_same_outcomes() -> None:
    play = partial(simulate_seed, relays=4, kind="planned")

    def digests(jobs: int) -> list[str]:
        return [each.digest for each in run_seeds([1, 2], play, jobs=jobs)]

    assert digests(1) == digests(2)


def test_a_real_backbone_and_a_file(tmp_path: Path) -> None:
    pytest.importorskip("topohub")
    outcome = simulate_seed(1, topology="topozoo/Abilene")
    assert outcome.ok, outcome.problem
    file = tmp_path / "two.toml"
    file.write_text(
        '[[relay]]\nname = "a"\n[[relay]]\nname = "b"\n[[relay]]\nname = "c"\n'
        '[[link]]\na = "a"\nb = "b"\ndelay_ms = 10\nbandwidth_kbps = 400\n'
        '[[link]]\na = "b"\nb = "c"\ndelay_ms = 10\n',
        encoding="utf-8",
    )
    outcome = simulate_seed(1, topology=str(file))
    assert outcome.ok, outcome.problem
