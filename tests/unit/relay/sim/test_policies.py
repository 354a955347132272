from __future__ import annotations

from itertools import product

import pytest

from laps_relay.core.network.interfaces import Refusal
from laps_relay.core.policy.open_policy import OpenPolicy
from laps_relay.core.policy.rule_policy import RulePolicy
from laps_relay.sim.build import network_relay
from laps_relay.sim.policies import rule_policy
from laps_relay.sim.rules import SimPolicy
from laps_relay.sim.scenario import Scenario, scenario
from laps_relay.sim.tracks import track
from laps_relay.sim.world import World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeSelf, RelayType, Stamp, SubscribeInfo

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
POLICIES = {
    "none": SimPolicy(),
    "a relay": SimPolicy().more("", nodes=NAMED, named=NAMED),
    "a relay for a class": SimPolicy().more("t1", nodes=NAMED, named=NAMED),
    "a region": SimPolicy().more("", nodes=NORTH, region="north"),
    "a region for a class": SimPolicy().more("t1", nodes=NORTH, region="north"),
    "subscribers": SimPolicy().more("t1", excluded="south"),
    "all of it": SimPolicy()
    .more("t1", nodes=NORTH, region="north")
    .more("t2", excluded="south")
    .more("", nodes=NAMED, named=NAMED),
}


def scenarios(count: int = 60) -> list[Scenario]:
    return [scenario(seed) for seed in range(1, count)]


def policies(made: Scenario) -> list[str]:
    return [deed.text.partition(" ")[0] for deed in made.deeds if deed.verb == "policy"]


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


def test_the_same_seed_has_the_same_policy() -> None:
    assert scenarios() == scenarios()


def test_all_forms_come_also_among_faults() -> None:
    for has_faults in (False, True):
        made = [each for each in scenarios(120) if bool(each.faults) is has_faults]
        assert {form for each in made for form in policies(each)} == {"relay", "region", "exclude"}
        assert any(not policies(each) for each in made)


def test_who_has_a_policy_has_regions_and_every_second_one_the_real_engine() -> None:
    for made in scenarios():
        relays = made.topology.relays
        if not policies(made):
            # In networks of steering the Via in use is forbidden, whichever that is.
            assert made.policies is any(deed.verb == "forbid_used" for deed in made.deeds)
            continue
        assert made.policies
        assert any(relay.region for relay in relays)
        assert made.rule_engine is (made.seed % 2 == 1)
        last = max(deed.when for deed in made.deeds if deed.verb == "policy")
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
