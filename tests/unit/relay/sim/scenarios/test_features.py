"""Narrow links, Vias, Stubs and restarts in scenarios, and what the checks see of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.relay import NetworkRelay
from laps_relay.network.steering import Steering
from laps_relay.sim.checks.drops import AMPLE
from laps_relay.sim.clients.clients import RETRY, Style
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.clients.moqt import SETTINGS
from laps_relay.sim.mutants import MUTANTS, applied
from laps_relay.sim.runner import Run, simulate
from laps_relay.sim.scenarios.features import DRAIN, NARROW, offered_by, settling
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.scenario import STEERED, STUBBED, scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.oracle import used_via
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, RelayType


def test_every_tenth_seed_has_narrow_links_large_objects_and_small_queues() -> None:
    for seed in (7, 17, 27):
        made = scenario(seed)
        assert made.offered > 0
        rates = [
            rate
            for link in made.topology.links
            for rate in (link.bandwidth, link.bandwidth_back)
            if rate is not None
        ]
        assert 0 < len(rates) < 2 * len(made.topology.links)
        one = offered_by(made.style)
        assert min(rates) < 1.6 * one
        assert any(link.bandwidth != link.bandwidth_back for link in made.topology.links)
        assert made.style.padding >= 1000
        assert made.queue <= 32 * 1024
        assert len({priority for priority, _ in made.manners}) == 3
        assert {ttl for _, ttl in made.manners} & {300}
    assert not scenario(8).offered


def test_a_via_leaves_most_of_these_networks() -> None:
    made = [scenario(seed, kind=NARROW) for seed in range(1, 30)]
    drains = [action for each in made for action in each.actions if action.verb == "drain"]
    assert len(made) / 3 < len(drains) < len(made)
    assert {action.value for action in drains} == {2 * DRAIN}
    for each in made:
        ends = [action.when + action.value for action in each.actions if action.verb == "drain"]
        assert max(ends, default=0.0) <= each.healed


def test_some_links_are_wide_enough_for_everything() -> None:
    rates = [
        (link.bandwidth, made.offered)
        for made in (scenario(seed, kind=NARROW) for seed in range(1, 6))
        for link in made.topology.links
        if link.bandwidth is not None
    ]
    assert any(rate >= AMPLE * offered for rate, offered in rates)


def test_slow_receivers_among_faults_have_something_to_be_slow_about() -> None:
    made = [scenario(seed, kind="faults") for seed in range(1, 30)]
    slow = [each for each in made if any(action.verb == "slow" for action in each.actions)]
    assert slow
    for each in made:
        assert (each.style.padding > 0) is (each in slow)
        assert not each.offered


def test_what_a_publisher_offers_is_its_groups() -> None:
    style = Style(period=0.5, objects=3, padding=1000)
    assert offered_by(style) == (24 + 3 * 1024) / 0.5


def test_a_narrow_network_sheds_and_expires_and_everything_else_holds() -> None:
    made = scenario(6, relays=8, topology="random", kind=NARROW)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    drops, ledger = run.checks.drops, run.world.ledger
    assert drops.sent > 100
    assert drops.shed + drops.expired > 0
    assert ledger.given_up > 0
    assert ledger.lost == 0


SEEDS = range(1, 30)


def steered(seed: int) -> Scenario:
    return scenario(seed, kind="steering")


def test_every_sixth_seed_is_of_this_kind() -> None:
    assert [seed for seed in SEEDS if not scenario(seed).exact] == [4, 10, 16, 22, 28]
    assert all(scenario(seed, kind="planned").exact for seed in SEEDS)
    assert all(scenario(seed, relays=6, topology="ring").exact for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_hub_and_spoke_would_be_too_many_copies(seed: int) -> None:
    made = steered(seed)
    assert made == steered(seed)
    regions = {relay.name: relay.region for relay in made.topology.relays}
    direct = {link.b for link in made.topology.links if link.a == "o"}
    wants = {
        action.who[0]
        for action in made.actions
        if action.verb == "subscribe"
        and action.text == "t0"
        and regions[action.who[0]] != regions["o"]
    }
    assert made.settings.max_fanout < len(wants) <= 5
    assert wants <= direct
    assert made.settings.dynamic_peering
    verbs = [action.verb for action in made.actions]
    assert {"unsubscribe", "drain_used", "overload_used"} <= set(verbs)
    assert not made.faults
    assert 12 <= len(made.topology.relays) <= 16


def test_the_kind_has_every_variety() -> None:
    made = [steered(seed) for seed in SEEDS]
    vias = {"x1", "x2", "x3"}
    dialled = {
        not any(link.a == "o" and link.b in vias for link in each.topology.links) for each in made
    }
    assert dialled == {False, True}
    assert {each.parallel for each in made} == {1, 2}
    assert {each.on_bytes for each in made} == {False, True}
    assert {"forbid_used" in [action.verb for action in each.actions] for each in made} == {
        False,
        True,
    }


def test_a_via_is_dialled_and_used_before_anything_happens_to_it() -> None:
    made = next(
        each
        for each in map(steered, SEEDS)
        if not any(link.a == "o" and link.b.startswith("x") for link in each.topology.links)
    )
    run = Run(made, network_relay)
    for process in run.world.processes.values():
        process.start()
    run.actions.plan()
    run.world.clock.run(3.0 + settling(made.settings) - 0.1)
    run.checks.steering.look()
    via = used_via(run.world, run.world.processes["o"], "t0")
    assert via is not None
    assert via.spec.relay_type is RelayType.VIA
    assert via.spec.node_id in run.world.graph()[run.world.node("o")]


def test_a_run_holds_and_spares_copies() -> None:
    outcome, run = simulate(steered(1), network_relay)
    assert outcome.ok, outcome.problem
    assert run.checks.steering.spared > 10
    assert sum("in use: x" in line for line in run.world.story) >= 2


@pytest.mark.parametrize(
    ("name", "seed", "says"),
    [
        ("drain-ignored", 1, "sends t0 through x"),
        ("vias-never-left", 1, "are few enough"),
        ("vias-not-dialled", 2, "would spare some"),
    ],
)
def test_what_steering_does_not_do_is_seen(name: str, seed: int, says: str) -> None:
    with applied(MUTANTS[name]):
        outcome = simulate(steered(seed), network_relay)[0]
    assert outcome.rule == "steering"
    assert says in outcome.problem


def worsened(seeds: range, *, loss: bool) -> Scenario:
    return next(
        each
        for each in map(steered, seeds)
        if each.gauged and (each.max_loss is not None) is loss and each.parallel == 1
    )


LOSS = (True, False)
"""For coverage one of two runs that differ by what is wrong with a link is enough."""


@pytest.mark.parametrize("loss", LOSS)
def test_a_link_that_loses_or_is_full_is_left(loss: bool) -> None:
    made = worsened(range(7, 30), loss=loss)
    assert any(action.verb == "worsen" for action in made.actions)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    assert run.checks.steering.mended > 10


@pytest.mark.parametrize("loss", LOSS)
def test_who_stays_on_a_bad_link_is_seen(loss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steering, "links", lambda *_: None)
    outcome = simulate(worsened(range(7, 30), loss=loss), network_relay)[0]
    assert outcome.rule == "steering"
    assert "over a link that is bad since" in outcome.problem


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


def ring(*actions: Action, healed: float) -> Scenario:
    """A ring of five; 1 publishes and 3 wants it, both ways lead over one relay or two."""
    kinds = (RelayType.EDGE, RelayType.VIA, RelayType.EDGE, RelayType.VIA, RelayType.EDGE)
    relays = tuple(
        RelaySpec(name=f"r{number}", node_id=NodeId(number), relay_type=kind)
        for number, kind in enumerate(kinds, 1)
    )
    links = tuple(
        LinkSpec(a=f"r{number}", b=f"r{number % 5 + 1}", delay=0.01) for number in range(1, 6)
    )
    clients = (
        Action(0.5, "publish", ("r1",), text="t0"),
        Action(0.5, "subscribe", ("r3",), text="t0"),
    )
    made = scenario(1, relays=5, topology="ring", kind="planned")
    return replace(
        made,
        topology=Topology(name="five", relays=relays, links=links),
        spares=(),
        spare_links=(),
        actions=(*clients, *actions),
        healed=healed,
        policies=False,
    )


@pytest.mark.parametrize(("who", "kind"), [("r2", RelayType.EDGE), ("r5", RelayType.VIA)])
def test_a_relay_changes_its_type_and_nothing_is_lost(who: str, kind: RelayType) -> None:
    outcome, run = simulate(ring(Action(4.0, "retype", (who,), 4.0), healed=8.0), network_relay)
    assert (outcome.problem, outcome.lost) == ("", 0)
    process = run.world.processes[who]
    assert (process.spec.relay_type, process.life) == (kind, 2)
    for other in run.world.running():
        if other is not process:
            assert (process.spec.node_id, kind) in other.tables.types()


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.5, 1.5])
@pytest.mark.parametrize("who", ["r2", "r5"])
def test_a_relay_begins_to_leave_and_stays_and_nothing_is_lost(who: str, after: float) -> None:
    """One that is in use, and one that is not."""
    action = Action(4.0, "undrain", (who,), 4.0, str(after))
    outcome, run = simulate(ring(action, healed=8.0), network_relay)
    assert (outcome.problem, outcome.lost) == ("", 0)
    process = run.world.processes[who]
    # Who has left before that has another life.
    assert (run.actions.taken_back, process.life) in ((1, 1), (0, 2))
    assert run.actions.taken_back or after > 0.02
    assert not process.draining
    if run.actions.taken_back:
        for other in run.world.running():
            assert isinstance(other.core, NetworkRelay)
            load = other.core.tables.nodes()
            assert all(row.load_class != "draining" for row in load)


def test_who_turns_round_halfway_is_not_lost() -> None:
    """Over bad links others heard of the drain and of its end at times that were far apart."""
    outcome, run = simulate(scenario(17, kind="busy"), network_relay)
    assert (outcome.problem, run.actions.taken_back) == ("", 1)


def test_who_takes_a_relay_for_what_it_was_is_seen() -> None:
    run = Run(ring(healed=3.0), network_relay)
    run.play()
    run.actions.restarts.at_rest()
    process = run.world.processes["r2"]
    process.spec = replace(process.spec, relay_type=RelayType.EDGE)
    with pytest.raises(BreakError, match="for VIA, it is EDGE"):
        run.actions.restarts.at_rest()


@pytest.mark.parametrize("who", ["r1", "r2", "r3"])
def test_a_twin_is_the_node_and_its_former_life_is_sent_away(who: str) -> None:
    made = ring(Action(4.0, "twin", (who,), 5.0), healed=9.0)
    assert made.faults == 1
    outcome, run = simulate(made, network_relay, tracing=True)
    assert outcome.ok, outcome.problem
    assert run.world.processes[who].life == 2
    story = "\n".join(run.world.story)
    assert "has a twin" in story
    assert "code 0x12" in story  # superseded, where it had dialled
    assert "code 0x6" in story  # a stale epoch, where it dials again


@pytest.mark.parametrize(("verb", "lasts"), [("twin", 5.0), ("crash", 0.1)])
def test_what_a_life_wanted_is_remembered_in_the_next(verb: str, lasts: float) -> None:
    """It may still come: the o-relay has not heard of the new life yet."""
    left = Action(3.9, "unsubscribe", ("r3",), text="t0")
    made = ring(left, Action(4.0, verb, ("r3",), lasts), healed=9.0)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    key = run.world.track("t0")[0]
    assert run.world.processes["r3"].clients.former == {key: 3.9}


def test_who_keeps_the_sessions_of_a_former_life_is_seen() -> None:
    with applied(MUTANTS["twin-ignored"]):
        outcome, _ = simulate(ring(Action(4.0, "twin", ("r2",), 5.0), healed=9.0), network_relay)
    assert outcome.rule == "twin"


def test_some_seeds_have_one_and_others_none() -> None:
    planned = [scenario(seed, kind="planned") for seed in range(1, 40)]
    faults = [scenario(seed, kind="faults") for seed in range(1, 40)]
    for many, verb in ((planned, "retype"), (planned, "undrain"), (faults, "twin")):
        having = [made for made in many if any(action.verb == verb for action in made.actions)]
        assert len(many) / 10 < len(having) < len(many) * 2 / 3
    for made in planned:
        clients = {action.who for action in made.actions if action.verb.startswith(("pub", "sub"))}
        assert not clients & {action.who for action in made.actions if action.verb == "retype"}
