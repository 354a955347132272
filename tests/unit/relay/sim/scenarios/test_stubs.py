"""Stubs in the simulator: what comes with them, and that the checks see what they must see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.sim.clients.clients import RETRY
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.clients.moqt import SETTINGS
from laps_relay.sim.runner import Run, simulate
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.scenario import STEERED, STUBBED, scenario
from laps_relay.sim.world.build import network_relay
from laps_sdk.upstream.interfaces import Answer
from laps_wire.peering.laps2 import AnnounceKind, RelayType


def with_stubs(seed: int, kind: str = "planned") -> Scenario:
    return scenario(seed, relays=5, topology="random+stubs", kind=kind)


def test_there_are_one_to_three_if_they_are_asked_for_or_drawn() -> None:
    def stubs(made: Scenario) -> int:
        return sum(relay.relay_type is RelayType.STUB for relay in made.topology.relays)

    assert {stubs(with_stubs(seed)) for seed in range(1, 12)} == {1, 2, 3}
    drawn = {seed for seed in range(1, 31) if stubs(scenario(seed))}
    assert drawn == {seed for seed in range(1, 31) if not seed % STUBBED and seed % STEERED != 4}
    assert len({seed % 2 for seed in drawn}) == 2
    assert not any(stubs(scenario(seed, relays=6)) for seed in drawn)


@pytest.mark.parametrize("kind", ["planned", "faults"])
def test_the_story_of_the_others_stays(kind: str) -> None:
    for seed in range(1, 6):
        plain = scenario(seed, relays=5, topology="random", kind=kind)
        more = with_stubs(seed, kind)
        for ours, theirs in zip(plain.topology.relays, more.topology.relays, strict=False):
            assert replace(ours, region="") == replace(theirs, region="")
        assert more.topology.links[: len(plain.topology.links)] == plain.topology.links
        # Where Stubs are no relay follows another one, and no policy is about links or filters.
        others = ("policy", "retype", "undrain", "twin")
        assert {action for action in plain.actions if action.verb not in others} < set(more.actions)
        assert not any(action.verb in others[1:] for action in more.actions)
        assert more.style == plain.style
        types = {relay.name: relay.relay_type for relay in more.topology.relays}
        for link in more.topology.links:
            assert types[link.b] is not RelayType.STUB
            if types[link.a] is RelayType.STUB:
                assert types[link.b] is RelayType.EDGE


def test_another_policy_comes_when_parents_have_gone_and_come_back() -> None:
    """Otherwise one that goes may take the last way that policy leaves."""
    made = scenario(15)
    plain = scenario(15, relays=19, topology="random")
    (policy,) = (action for action in made.actions if action.verb == "policy")
    forms = ("relay", "region", "exclude")
    assert policy.who == next(
        action.who
        for action in plain.actions
        if action.verb == "policy" and action.text.partition(" ")[0] in forms
    )
    drains = [
        action
        for action in made.actions
        if action.verb == "drain" and action.who[0] in ("e1", "e2")
    ]
    assert policy.when > max(action.when + action.value for action in drains)
    assert made.healed > policy.when


def test_objects_come_from_stubs_and_to_them_and_nothing_is_lost_when_parents_drain() -> None:
    outcome, run = simulate(with_stubs(2), network_relay)
    assert outcome.problem == ""
    ledger = run.world.ledger
    stubs = {name for name, each in run.world.processes.items() if each.is_stub}
    groups = [group for flow in ledger.flows.all.values() for group in flow.groups.values()]
    assert any(stubs & set(group.got) for group in groups)
    assert any(group.got for group in groups if group.flow.contact in stubs)
    drained = [action.who[0] for action in run.scenario.actions if action.verb == "drain"]
    assert set(drained) >= {"e1", "e2"}
    assert ledger.lost == 0
    # Two runs are the same run.
    assert simulate(with_stubs(2), network_relay)[0].digest == outcome.digest


def test_publishers_that_stay_are_not_blamed_for_what_their_edge_takes_anyway() -> None:
    """A PUBLISH fills the cache of its Edge, whoever listens; a namespace is asked for."""
    outcome, _ = simulate(with_stubs(1), network_relay)
    assert outcome.problem == ""
    run = begun()
    asked = [
        process.contact
        for process in run.world.running()
        if any(
            each.flows and each.kind is AnnounceKind.NAMESPACE
            for each in process.clients.publications
        )
    ]
    pulled = [process.contact for process in run.world.running() if process.clients.pulled]
    assert asked == pulled


def begun(seconds: float = 4.0, made: Scenario | None = None) -> Run:
    """A run in which everything is up."""
    run = Run(made or with_stubs(2), network_relay)
    for process in run.world.processes.values():
        process.start()
    run.actions.plan()
    run.world.clock.run(seconds)
    run.checks.stubs.at_rest()
    assert run.checks.stubs.links_up() == ""
    return run


def test_only_what_parents_alone_ask_for_may_take_longer() -> None:
    run = begun()
    world, stubs = run.world, run.checks.stubs
    wanted = {key for process in stubs.stubs() for key in process.clients.wants}
    key = world.track("t0")[0]
    assert key in wanted
    assert stubs.asked() == set()  # others want all of it, too
    for process in world.running():
        if not process.is_stub:
            for each in list(process.clients.wants):
                process.clients.unsubscribe(each)
    world.clock.run(world.clock.now + 3.0)
    assert key in stubs.asked() <= wanted
    for process in stubs.stubs():
        process.crash()
    world.clock.run(world.clock.now + 3.0 * run.scenario.idle + 3.0)
    assert stubs.asked() == set()


def test_what_may_take_longer_excuses_nothing_else() -> None:
    run = begun()
    pulled = set().union(*(process.clients.pulled for process in run.world.running()))
    assert pulled
    run.checks.nobody_listens(but=pulled)
    for key in pulled:
        with pytest.raises(BreakError, match="still sends what nobody wants"):
            run.checks.nobody_listens(but=pulled - {key})
    with pytest.raises(BreakError, match="still sends what nobody wants"):
        run.checks.nobody_listens()


def test_a_stub_that_is_asked_for_something_else_says_so() -> None:
    run = begun()
    edge = run.world.processes["stub-1"].edge
    assert edge is not None
    edge.check_pull(run.world.clock.now, run.world.track("s0")[1])
    with pytest.raises(BreakError, match="never announced"):
        edge.check_pull(run.world.clock.now, run.world.track("t0")[1])


def test_sessions_that_are_missing_are_seen() -> None:
    run = begun()
    stub, parent = run.world.processes["stub-1"].edge, run.world.processes["e1"].edge
    assert stub is not None
    assert parent is not None
    assert set(stub.parents) == {run.world.node("e1"), run.world.node("e2")}
    assert run.world.place(run.world.processes["stub-1"]) in (
        run.world.processes["e1"],
        run.world.processes["e2"],
    )
    parent.stubs.clear()
    assert "no session with its Stub" in run.checks.stubs.links_up()
    with pytest.raises(BreakError, match="sessions of Stubs"):
        run.checks.stubs.gone()
    with pytest.raises(BreakError, match="left over"):
        run.checks.stubs.empty()
    run.world.processes["e1"].crash()
    run.world.processes["e2"].crash()
    run.world.clock.run(run.world.clock.now + 3)
    run.world.processes["e1"].running = True
    assert "no session with its parent" in run.checks.stubs.links_up()
    assert run.world.place(run.world.processes["stub-1"]) is None


@pytest.mark.parametrize("rule_engine", [False, True])
def test_policy_holds_for_a_stub_whose_parent_has_the_publisher(*, rule_engine: bool) -> None:
    """The network is not asked there, whichever policy relays have."""
    made = with_stubs(79)
    actions = tuple(action for action in made.actions if action.when < 4.0)  # who comes stays
    run = begun(4.0, replace(made, actions=actions, rule_engine=rule_engine))
    world = run.world
    stub, parent = world.processes["stub-3"], world.processes["r1"]
    key, name = world.track("t1")
    assert world.place(stub) is parent
    assert parent.edge is not None
    assert parent.edge.publishes(name)
    assert not parent.edge.publishes(world.track("t2")[1])

    def answer() -> Answer | None:
        return stub.clients.wants[key].answer

    assert answer() is Answer.ACCEPTED
    run.actions.do(Action(0.0, "policy", ("south",), text="exclude t1"))
    world.clock.run(world.clock.now + 1.0)
    assert answer() is Answer.ACCEPTED
    run.actions.do(Action(0.0, "policy", (parent.spec.region,), text="exclude t1"))
    world.clock.run(world.clock.now + SETTINGS.done_delay + 0.1)  # and not when it asks again
    assert answer() is Answer.ENDED
    world.clock.run(world.clock.now + RETRY)
    assert answer() is Answer.REFUSED


def test_a_parent_that_is_no_transit_still_serves_its_stubs() -> None:
    made = scenario(7, relays=8, topology="random+stubs")
    assert any(action.verb == "policy" for action in made.actions)
    outcome, _ = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
