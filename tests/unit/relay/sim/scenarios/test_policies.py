from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from laps_relay.policy.facts import scope_of
from laps_relay.policy.interface import OpenPolicy
from laps_relay.policy.rule_policy import RulePolicy
from laps_relay.sim.clients.clients import HASHER, track
from laps_relay.sim.scenarios.model import Scenario
from laps_relay.sim.scenarios.policies import Border, SimPolicy, rule_policy
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import World
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeInfo,
)

REGIONS = ("north", "south", "west")
NODES = tuple(
    NodeSelf(
        node_id=NodeId(0x64_0000_0000_0000 + number),
        relay_type=RelayType.EDGE,
        stamp=Stamp(epoch=1, sequence=1),
        region=REGIONS[number % 3],
    )
    for number in range(1, 7)
)
NORTH = frozenset(node.node_id for node in NODES if node.region == "north")
NAMED = frozenset({NODES[1].node_id})
LINK = frozenset({NODES[0].node_id, NODES[3].node_id})
POLICIES = {
    "none": SimPolicy(),
    "a relay": SimPolicy().more("", nodes=NAMED, named=NAMED),
    "a relay for a class": SimPolicy().more("t1", nodes=NAMED, named=NAMED),
    "a region": SimPolicy().more("", nodes=NORTH, region="north"),
    "a region for a class": SimPolicy().more("t1", nodes=NORTH, region="north"),
    "subscribers": SimPolicy().more("t1", excluded="south"),
    "the countries of a link": SimPolicy().more("t1", link=LINK),
    "several links and a relay": SimPolicy()
    .more("t1", link=LINK)
    .more("t1", link=frozenset({NODES[2].node_id, NODES[4].node_id}))
    .more("t2", link=LINK)
    .more("t1", nodes=NAMED, named=NAMED),
    "all of it": SimPolicy()
    .more("t1", nodes=NORTH, region="north")
    .more("t2", excluded="south")
    .more("", nodes=NAMED, named=NAMED),
}


def scenarios(count: int = 60) -> list[Scenario]:
    return [scenario(seed) for seed in range(1, count)]


def policies(made: Scenario) -> list[str]:
    return [action.text.partition(" ")[0] for action in made.actions if action.verb == "policy"]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_real_engine_reads_a_policy_as_the_judge_does(policy: SimPolicy) -> None:
    local = NODES[0]
    real = rule_policy(policy, local.node_id)

    def same(one: Refusal | None, other: Refusal | None) -> bool:
        return (one is None) == (other is None)

    for text in ("t0", "t1", "t2"):
        key, name = track(text)
        for way in product(NODES, repeat=3):
            if len({node.node_id for node in way}) == 3:
                ours = policy.path(policy.scope(name), way)
                assert same(real.path(real.scope(name), way), ours), (text, way)
        for source in NODES[1:]:
            entry = SubscribeInfo(
                source=source.node_id,
                stamp=Stamp(epoch=1, sequence=1),
                element_hashes=(),
                name_hash=0,
                full_name_hash=key,
            )
            ours = policy.subscribe(name, entry, source, local)
            assert same(real.subscribe(name, entry, source, local), ours), (text, source)
            assert (
                policy.local_subscribe(name, source) is None
            )  # the o-relay decides, unless we are it
            at_home = replace(policy, home=lambda _: True)
            assert same(
                real.local_subscribe(name, source), at_home.local_subscribe(name, source)
            ), (text, source)


@pytest.mark.parametrize(
    ("side", "what", "whose"),
    list(product(("import", "export"), ("announce", "subscribe"), ("peer", "source"))),
)
def test_the_real_engine_reads_a_filter_as_the_judge_does(side: str, what: str, whose: str) -> None:
    policy = SimPolicy(borders=(Border(side, what, "t1", whose, "north", NORTH),))
    real = rule_policy(policy, NODES[0].node_id)
    stopped = 0
    for text in ("t0", "t1"):
        key, name = track(text)
        for source, peer in product(NODES, repeat=2):
            elements = HASHER.elements(name.namespace.fields)
            stamp = Stamp(epoch=1, sequence=1)
            announce = AnnounceInfo(
                source=source.node_id,
                stamp=stamp,
                kind=AnnounceKind.TRACK,
                element_hashes=elements,
                name_hash=1,
                full_name_hash=key,
            )
            subscribe = SubscribeInfo(
                source=source.node_id,
                stamp=stamp,
                element_hashes=elements,
                name_hash=1,
                full_name_hash=key,
                scope=scope_of(source.region),
            )
            said = [
                (
                    given.import_announce(announce, peer) is None,
                    given.export_announce(announce, peer) is None,
                    given.import_subscribe(subscribe, peer) is None,
                    given.export_subscribe(subscribe, peer) is None,
                )
                for given in (real, policy)
            ]
            assert said[0] == said[1], (text, source, peer)
            stops = policy.stops(side, what, text, source.node_id, peer.node_id)
            assert stops is not all(said[0])
            stopped += stops
    assert stopped == len(NORTH) * len(NODES)


def test_a_way_is_judged_by_its_relays_and_by_its_links() -> None:
    one, two, three, four, *_ = (node.node_id for node in NODES)
    policy = SimPolicy().more("t1", nodes=frozenset({two}), link=frozenset({one, four}))
    assert policy.narrowed == ["t1"]
    assert not policy.permits("t1", (one, two, three))
    assert not policy.permits("t1", (one, four))
    assert not policy.permits("t1", (three, four, one))
    assert policy.permits("t1", (two, three, four))
    assert policy.permits("t0", (one, two, four, one))


def test_the_same_seed_has_the_same_policy() -> None:
    assert scenarios() == scenarios()


def test_all_forms_come_also_among_faults() -> None:
    for has_faults in (False, True):
        made = [each for each in scenarios(120) if bool(each.faults) is has_faults]
        forms = {form for each in made for form in policies(each)}
        assert forms == {"relay", "region", "exclude", "country", "filter"}
        assert any(not policies(each) for each in made)


def test_who_has_a_policy_has_regions_and_every_second_one_the_real_engine() -> None:
    for made in scenarios():
        relays = made.topology.relays
        if not policies(made):
            # In networks of steering the Via in use is forbidden, whichever that is.
            assert made.policies is any(action.verb == "forbid_used" for action in made.actions)
            continue
        assert made.policies
        assert any(relay.region for relay in relays)
        assert made.rule_engine is (made.seed % 2 == 1)
        last = max(action.when for action in made.actions if action.verb == "policy")
        assert made.healed > last


def test_relays_are_given_the_policy_of_the_run() -> None:
    kinds = set()
    for made in scenarios(12):
        world = World(made, network_relay)
        process = next(iter(world.processes.values()))
        given = world.policy_of(process)
        kinds.add(type(given))
        if not made.policies:
            assert isinstance(given, OpenPolicy)
        elif not made.rule_engine:
            assert given is world.policy
    assert kinds == {OpenPolicy, RulePolicy, SimPolicy}
