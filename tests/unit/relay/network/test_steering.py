from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.settings import NO_PLAN, NetworkSettings, Plan
from laps_relay.network.steering import (
    Choice,
    LinkState,
    Pick,
    RegionChoice,
    SteeredTrack,
    Steering,
)
from laps_relay.policy import OPEN_POLICY, RulePolicy
from laps_relay.policy.facts import NodePattern
from laps_relay.policy.interface import ClassLimits, OpenPolicy, Policy
from laps_relay.policy.rules import Fence, Rules, ServiceClass
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import first_of
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeInfo, NodePathItem, NodeSelf, RelayType
from testkit.paths import Directory, describe

ME, V, W = NodeId(1), NodeId(11), NodeId(12)
TARGETS = [NodeId(number) for number in range(101, 106)]
T1, T2, T3, T4, T5 = TARGETS
KEY = 77
HOLD = 10.0
SETTINGS = NetworkSettings(via_hold=HOLD)


def policy_of(*denied: NodeId, limits: ClassLimits | None = None) -> RulePolicy:
    """A policy with transit that is denied, for all or for the class gold."""
    patterns = tuple(NodePattern.parse(str(node)) for node in denied)
    gold = ServiceClass(
        name="gold", limits=limits or ClassLimits(), transit=Fence(deny_nodes=patterns)
    )
    return RulePolicy(Rules(classes={"gold": gold}), KeyedHasher(bytes(16)), local=ME)


def network(
    *, targets: int = 3, policy: Policy = OPEN_POLICY, own: str = "us", region: str = "eu"
) -> tuple[Directory, Steering]:
    """Direct ways to targets in one region, and two Vias that reach them all, V nearer."""
    nodes = Directory(describe(ME, region=own))
    nodes.put(describe(V, RelayType.VIA), describe(W, RelayType.VIA))
    nodes.path(V)
    nodes.path(W)
    for target in TARGETS[:targets]:
        nodes.put(describe(target, region=region))
        nodes.path(target, link=20_000)
        nodes.path(target, V, rtt=15_000, link=5_000)
        nodes.path(target, W, rtt=30_000, link=5_000)
    return nodes, Steering(ME, nodes, policy, SETTINGS)


def hops(
    steering: Steering, now: float, count: int = 3, scope: str = "", key: int = KEY
) -> list[NodeId]:
    found = steering.assign(now, key, frozenset(TARGETS[:count]), scope, arrived_on=None)
    assert found.next_hop.keys() | found.unreachable.keys() == set(TARGETS[:count])
    return list(found.next_hop.values())


# Transit


def test_a_link_is_good_unless_said_otherwise() -> None:
    assert LinkState() == (0.0, 0, False)


def test_transit_takes_the_best_way_that_does_not_lead_back() -> None:
    nodes, steering = network()
    nodes.cut(T2, T2)
    nodes.cut(T3, T3)
    nodes.cut(T3, W)
    found = steering.assign(0.0, None, TARGETS[:3], "", arrived_on=V)
    assert found.next_hop == {T1: T1, T2: W}
    assert found.unreachable == {T3: Refusal("", f"the only way to {T3} leads back to {V}")}
    assert steering.demanded_peers(0.0) == []
    also = steering.assign(0.0, KEY, TARGETS[:3], "", arrived_on=V)
    assert also == found, "a key does not make transit an origin"


def test_transit_follows_policy_for_the_class() -> None:
    nodes, steering = network(policy=policy_of(V))
    nodes.cut(T1, T1)
    assert steering.assign(0.0, None, [T1], "", arrived_on=None).next_hop == {T1: V}
    assert steering.assign(0.0, None, [T1], "gold", arrived_on=None).next_hop == {T1: W}
    nodes.cut(T1, W)
    found = steering.assign(0.0, None, [T1], "gold", arrived_on=None)
    assert found.unreachable[T1].rule == "classes.gold.transit"


def test_we_are_no_target_of_our_own() -> None:
    _, steering = network()
    found = steering.assign(0.0, None, [ME, T1], "", arrived_on=V)
    assert found.next_hop == {T1: T1}
    assert not found.unreachable


# Hub-and-spoke, and Vias


def test_hub_and_spoke_while_copies_are_few() -> None:
    _, steering = network()
    assert hops(steering, 0.0, 2) == [T1, T2]
    assert steering.poll_timeout() is None
    assert hops(steering, 99.0, 2) == [T1, T2]
    assert steering.vias(KEY) == {}
    assert steering.vias(1) == {}


def test_a_via_is_injected_when_it_has_paid_for_a_while() -> None:
    _, steering = network()
    assert hops(steering, 0.0) == [T1, T2, T3]
    assert steering.poll_timeout() == HOLD
    assert first_of(steering.clocks, steering.demand_at) == HOLD
    assert steering.reassess(9.9) == []
    assert hops(steering, 9.9) == [T1, T2, T3]
    assert steering.reassess(HOLD) == [KEY]
    assert hops(steering, HOLD) == [V, V, V]
    assert steering.vias(KEY) == {"eu": (V,)}
    assert steering.poll_timeout() is None
    assert steering.reassess(99.0) == []
    assert steering.demanded_peers(99.0) == [V]


def test_a_via_is_removed_when_it_has_not_paid_for_a_while() -> None:
    _, steering = network()
    hops(steering, 0.0)
    assert hops(steering, 10.0) == [V, V, V]
    assert hops(steering, 11.0, 2) == [V, V], "not at once"
    assert steering.poll_timeout() == 21.0
    assert hops(steering, 15.0) == [V, V, V], "and not if it pays again"
    assert steering.poll_timeout() is None
    assert hops(steering, 16.0, 2) == [V, V]
    assert steering.reassess(26.0) == [KEY]
    assert hops(steering, 26.0, 2) == [T1, T2]
    assert steering.vias(KEY) == {}
    assert steering.demanded_peers(26.0) == []


def test_targets_that_come_later_go_through_it_at_once() -> None:
    nodes, steering = network(targets=4)
    hops(steering, 0.0)
    hops(steering, 10.0)
    assert hops(steering, 11.0, 4) == [V, V, V, V]
    nodes.cut(T4, V)
    assert hops(steering, 12.0, 4) == [V, V, V, T4]


def test_what_pays_only_now_and_then_changes_nothing() -> None:
    _, steering = network()
    for second in range(60):
        assert hops(steering, float(second), 2 + second % 2) == TARGETS[: 2 + second % 2]


def test_a_third_choice_begins_to_wait_anew() -> None:
    nodes, steering = network()
    hops(steering, 0.0)
    for target in TARGETS[:3]:
        nodes.cut(target, V)
    assert hops(steering, 9.0) == [T1, T2, T3]
    assert hops(steering, 10.0) == [T1, T2, T3]
    assert hops(steering, 19.0) == [W, W, W]


def test_a_via_that_drains_or_goes_is_left_at_once() -> None:
    for lost in ("draining", "gone"):
        nodes, steering = network()
        hops(steering, 0.0)
        assert hops(steering, 10.0) == [V, V, V]
        if lost == "draining":
            nodes.put(describe(V, RelayType.VIA, load=LoadClass.DRAINING))
        else:
            for target in TARGETS[:3]:
                nodes.cut(target, V)
        assert hops(steering, 11.0) == [T1, T2, T3]
        assert steering.vias(KEY) == {}
        assert hops(steering, 21.0) == [W, W, W]


def test_an_overloaded_via_is_left_after_a_while() -> None:
    nodes, steering = network()
    hops(steering, 0.0)
    hops(steering, 10.0)
    nodes.put(describe(V, RelayType.VIA, load=LoadClass.OVERLOADED))
    assert hops(steering, 11.0) == [V, V, V]
    assert hops(steering, 21.0) == [W, W, W]


def test_a_via_that_policy_forbids_is_never_used() -> None:
    _, steering = network(policy=policy_of(V))
    hops(steering, 0.0, scope="gold")
    assert hops(steering, 10.0, scope="gold") == [W, W, W]
    steering.set_policy(policy_of(W))
    assert steering.reassess(11.0) == [KEY]
    assert hops(steering, 11.0, scope="gold") == [T1, T2, T3], "at once"
    assert hops(steering, 21.0, scope="gold") == [V, V, V]


def test_copies_count_only_towards_another_region() -> None:
    for own, region in (("eu", "eu"), ("us", ""), ("", "")):
        _, steering = network(targets=5, own=own, region=region)
        hops(steering, 0.0, 5)
        assert hops(steering, 10.0, 5) == TARGETS


def test_an_overloaded_origin_sends_one_copy() -> None:
    nodes, steering = network(own="eu", region="eu")
    nodes.put(describe(ME, region="eu", load=LoadClass.OVERLOADED))
    hops(steering, 0.0)
    assert hops(steering, 10.0) == [V, V, V]


def test_an_origin_that_drains_moves_nothing() -> None:
    nodes, steering = network(own="eu", region="eu")
    nodes.put(describe(ME, region="eu", load=LoadClass.DRAINING))
    hops(steering, 0.0)
    assert hops(steering, 10.0) == [T1, T2, T3]


def test_a_class_has_its_own_maximum() -> None:
    _, steering = network(policy=policy_of(limits=ClassLimits(max_fanout=3)))
    hops(steering, 0.0, scope="gold")
    assert hops(steering, 10.0, scope="gold") == [T1, T2, T3]
    nodes, steering = network(policy=policy_of(limits=ClassLimits(max_fanout=1)))
    nodes.selves.pop(ME)
    hops(steering, 0.0, 2, scope="gold")
    assert hops(steering, 10.0, 2, scope="gold") == [V, V]


def test_regions_are_counted_one_by_one() -> None:
    nodes, steering = network(targets=5)
    nodes.put(describe(T4, region="asia"), describe(T5, region="asia"))
    hops(steering, 0.0, 5)
    assert hops(steering, 10.0, 5) == [V, V, V, T4, T5]
    assert steering.vias(KEY) == {"eu": (V,)}
    assert hops(steering, 11.0, 0) == []
    assert steering.vias(KEY) == {}


# Ways that are not the best ones


def test_only_who_is_short_of_something_looks_at_other_ways() -> None:
    nodes, steering = network(targets=4)
    other = 78
    hops(steering, 0.0)
    hops(steering, 0.0, 2, key=other)
    assert steering.reassess(HOLD) == [KEY]
    assert hops(steering, HOLD) == [V, V, V]
    nodes.put(describe(V, RelayType.VIA, load=LoadClass.DRAINING))
    steering.paths_changed([T4, T1])
    assert steering.reassess(11.0) == [KEY]
    assert hops(steering, 11.0) == [T1, T2, T3]
    steering.release(KEY)
    steering.paths_changed([T1, T2, T3])
    assert steering.reassess(12.0) == []
    steering.release(other)
    assert steering.sizes() == (0, 0)


def test_who_is_kept_from_the_best_way_looks_at_others() -> None:
    nodes, steering = network(policy=policy_of(V))
    nodes.cut(T1, T1)
    assert hops(steering, 0.0, 1, scope="gold") == [W]
    steering.paths_changed([T1])
    assert steering.reassess(1.0) == []
    nodes.cut(T1, W)
    nodes.path(T1, T2)
    steering.paths_changed([T1])
    assert steering.reassess(2.0) == [KEY]
    assert hops(steering, 2.0, 1, scope="gold") == [T2]


def test_a_way_through_a_relay_that_drains_is_no_option() -> None:
    """What it says to its peers comes before what it says to everybody."""
    nodes, steering = network()
    hops(steering, 0.0)
    assert hops(steering, 10.0) == [V, V, V]
    for target in TARGETS[:3]:
        nodes.path(target, V, rtt=15_000, link=5_000, load=1 << 16)
    steering.paths_changed(TARGETS[:3])
    assert steering.reassess(11.0) == [KEY]
    assert hops(steering, 11.0) == [T1, T2, T3]


def test_what_counts_for_every_track() -> None:
    nodes, steering = network(own="eu", region="eu")
    hops(steering, 0.0)
    assert not steering.demand_due(0.0)
    nodes.put(describe(ME, region="eu", load=LoadClass.OVERLOADED))
    steering.invalidate()
    assert steering.reassess(0.0) == []
    assert steering.reassess(10.0) == [KEY]
    assert hops(steering, 10.0) == [V, V, V]
    assert steering.demand_due(10.0)
    assert steering.demanded_peers(10.0) == [V]
    assert not steering.demand_due(11.0)
    steering.nodes_changed()
    assert steering.demand_due(11.0)


# Classes


def test_a_way_that_is_too_long_for_its_class_is_replaced() -> None:
    nodes, steering = network(policy=policy_of(limits=ClassLimits(max_rtt_us=30_000)))
    nodes.path(T1, link=90_000)
    hops(steering, 0.0, 2, scope="gold")
    assert hops(steering, 10.0, 2, scope="gold") == [V, T2]
    nodes.path(T2, link=90_000)
    assert hops(steering, 11.0, 2, scope="gold") == [V, T2]
    assert hops(steering, 21.0, 2, scope="gold") == [V, V]


def test_a_link_that_loses_is_left_if_it_goes_on() -> None:
    _, steering = network(policy=policy_of(limits=ClassLimits(max_loss=0.01)))
    hops(steering, 0.0, 2, scope="gold")
    hops(steering, 0.0, 2, key=78)
    steering.links(T1, LinkState(loss=0.005))
    assert steering.reassess(0.0) == []
    steering.links(T1, LinkState(loss=0.05))
    assert steering.reassess(0.0) == []
    assert steering.poll_timeout() == HOLD
    steering.links(T1, LinkState(loss=0.06))
    assert steering.reassess(HOLD) == [KEY]
    assert hops(steering, HOLD, 2, scope="gold") == [V, T2]
    assert hops(steering, HOLD, 2, key=78) == [T1, T2]
    steering.links(T1, None)
    assert steering.reassess(11.0) == []
    assert steering.reassess(21.0) == [KEY]
    assert hops(steering, 21.0, 2, scope="gold") == [T1, T2]


def test_congestion_concerns_every_class() -> None:
    _, steering = network()
    hops(steering, 0.0, 2)
    steering.links(T1, LinkState(congested=True))
    assert steering.reassess(0.0) == []
    assert steering.reassess(HOLD) == [KEY]
    assert hops(steering, HOLD, 2) == [V, T2]


# Plans


def test_a_plan_is_preferred_and_checked_against_policy() -> None:
    _, steering = network(policy=policy_of(V))
    steering.set_plan(Plan(tracks={(KEY, "eu"): W}))
    hops(steering, 0.0, 1)
    assert hops(steering, 10.0, 1) == [W], "though one copy would be no reason"
    steering.set_plan(Plan(classes={("gold", "eu"): V}))
    assert hops(steering, 11.0, 1, scope="gold") == [W]
    assert hops(steering, 21.0, 1, scope="gold") == [T1], "policy forbids V for gold"
    steering.set_plan(Plan(classes={("gold", "eu"): W}))
    assert steering.reassess(22.0) == []
    assert steering.reassess(32.0) == [KEY]
    steering.set_plan(NO_PLAN)
    assert hops(steering, 33.0, 1, scope="gold") == [W]
    assert hops(steering, 43.0, 1, scope="gold") == [T1]


class NotOver(OpenPolicy):
    """The way to one target over one Via is forbidden."""

    def __init__(self, via: NodeId, target: NodeId) -> None:
        self._pair = via, target

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        between, end = [node.node_id for node in nodes[1:-1]], nodes[-1].node_id
        shut = self._pair[0] in between and end == self._pair[1]
        return Refusal("rule", "not there") if shut else None


def test_a_plan_counts_for_the_targets_that_policy_allows() -> None:
    _, steering = network(policy=NotOver(W, T2))
    steering.set_plan(Plan(tracks={(KEY, "eu"): W}))
    hops(steering, 0.0, 2)
    assert hops(steering, 10.0, 2) == [W, T2]


def test_a_plan_is_not_followed_to_an_overloaded_via() -> None:
    nodes, steering = network()
    nodes.put(describe(W, RelayType.VIA, load=LoadClass.OVERLOADED))
    steering.set_plan(Plan(tracks={(KEY, "eu"): W}))
    hops(steering, 0.0)
    assert hops(steering, 10.0) == [V, V, V]


def test_a_planned_via_that_is_no_peer_is_wished() -> None:
    nodes, steering = network(targets=1)
    far = NodeId(13)
    nodes.put(describe(far, RelayType.VIA, contacts=("far",)))
    steering.set_plan(Plan(classes={("", "eu"): far}))
    assert hops(steering, 0.0, 1) == [T1]
    assert steering.demanded_peers(0.0) == [far]
    assert hops(steering, 20.0, 1) == [T1]


# Wishes


def test_targets_without_a_way_are_wished() -> None:
    nodes = Directory(describe(ME), describe(T1, contacts=("t1",)), describe(T2))
    steering = Steering(ME, nodes, OPEN_POLICY, SETTINGS)
    found = steering.assign(0.0, KEY, [T1, T2], "", arrived_on=None)
    assert found.unreachable == {target: Refusal("", f"no way to {target}") for target in (T1, T2)}
    assert steering.demanded_peers(0.0) == [T1]
    nodes.path(T1)
    assert hops(steering, 1.0, 2) == [T1]
    assert steering.demanded_peers(1.0) == []
    steering.release(KEY)
    steering.release(KEY)
    assert steering.demanded_peers(2.0) == []


def test_targets_whose_only_way_goes_away_are_wished() -> None:
    nodes = Directory(describe(ME), describe(V, RelayType.VIA), describe(W, RelayType.VIA))
    nodes.put(describe(T1, contacts=("t1",)))
    for via in (V, W):
        nodes.path(via)
        nodes.path(T1, via, rtt=15_000, link=5_000)
    steering = Steering(ME, nodes, OPEN_POLICY, SETTINGS)
    for via, demanded_peers in ((V, []), (W, [T1])):
        nodes.path(T1, via, rtt=15_000, link=5_000, load=1 << 16)
        assert steering.assign(0.0, KEY, [T1], "", arrived_on=None).next_hop[T1] in (V, W)
        assert steering.demanded_peers(0.0) == demanded_peers
    nodes.path(T1)
    assert hops(steering, 1.0, 1) == [T1]
    assert steering.demanded_peers(1.0) == []


def test_a_via_that_would_help_is_wished_and_used_when_it_is_confirmed() -> None:
    nodes = Directory(describe(ME, region="us"))
    for target in TARGETS[:3]:
        nodes.put(describe(target, region="eu"))
        nodes.path(target)
    reached = {101: 1_000, 102: 1_000, 103: 1_000}
    nodes.put(describe(V, RelayType.VIA, contacts=("v",), reachable=reached))
    steering = Steering(ME, nodes, OPEN_POLICY, SETTINGS)
    assert hops(steering, 0.0) == [T1, T2, T3]
    assert steering.demanded_peers(0.0) == [V]
    assert steering.poll_timeout() == HOLD
    nodes.path(V)
    for target in TARGETS[:3]:
        nodes.path(target, V)
    assert hops(steering, 1.0) == [T1, T2, T3]
    assert steering.demanded_peers(1.0) == [V]
    assert hops(steering, 11.0) == [V, V, V]


def test_a_released_track_is_forgotten() -> None:
    _, steering = network()
    hops(steering, 0.0)
    steering.set_plan(NO_PLAN)
    steering.release(KEY)
    assert steering.poll_timeout() is None
    assert steering.reassess(99.0) == []
    assert hops(steering, 100.0) == [T1, T2, T3]


def test_the_node_information_base_is_such_a_directory() -> None:
    nib = Nib(NodeInfo(describe(ME, region="us")), SETTINGS, policy=OPEN_POLICY)
    steering = Steering(ME, nib, OPEN_POLICY, SETTINGS)
    edges = [describe(target, region="eu") for target in TARGETS[:3]]
    for node in (*edges, describe(V, RelayType.VIA)):
        nib.add_peer(0.0, node.node_id, NodeInfo(node), srtt_us=10_000, forwards=True)
    assert hops(steering, 0.0) == [T1, T2, T3]
    told = [NodeInfo(edge, path=(NodePathItem(V, 10_000),)) for edge in edges]
    assert nib.advertised(1.0, V, told) == []
    hops(steering, 1.0)
    assert hops(steering, 11.0) == [V, V, V]
    found = steering.assign(11.0, None, TARGETS[:3], "", arrived_on=T1)
    assert found.next_hop == {T2: T2, T3: T3}
    nib.remove_peer(12.0, V)
    assert hops(steering, 12.0) == [T1, T2, T3]


# Whatever happens


VIAS = [V, W, NodeId(13)]
LOADS = [LoadClass.NORMAL, LoadClass.BUSY, LoadClass.OVERLOADED, LoadClass.DRAINING]

changes = st.one_of(
    st.tuples(st.just("way"), st.sampled_from(TARGETS), st.sampled_from([None, *VIAS])),
    st.tuples(st.just("cut"), st.sampled_from(TARGETS), st.sampled_from([*TARGETS, *VIAS])),
    st.tuples(st.just("load"), st.sampled_from([ME, *VIAS]), st.sampled_from(LOADS)),
    st.tuples(st.just("link"), st.sampled_from([*TARGETS, *VIAS]), st.sampled_from([0.0, 0.5])),
    st.tuples(st.just("policy"), st.lists(st.sampled_from(VIAS), max_size=2), st.just(None)),
    st.tuples(st.just("plan"), st.sampled_from([None, *VIAS]), st.just(None)),
    st.tuples(st.just("want"), st.sets(st.sampled_from(TARGETS)), st.just(None)),
    st.tuples(st.just("time"), st.sampled_from([0.5, 4.0, 11.0]), st.just(None)),
)


class World:
    """A network that changes, and a track through it."""

    def __init__(self) -> None:
        self.nodes, _ = network(targets=5)
        self.nodes.put(describe(VIAS[2], RelayType.VIA))
        self.nodes.put(describe(T4, region="asia"))
        self.policy: RulePolicy = self.rules([])
        self.steering = Steering(ME, self.nodes, self.policy, SETTINGS)
        self.now = 0.0
        self.targets = frozenset(TARGETS)

    def rules(self, denied: list[NodeId]) -> RulePolicy:
        return policy_of(*denied, limits=ClassLimits(max_rtt_us=60_000, max_loss=0.1))

    def change(self, what: str, one: Any, other: Any) -> None:
        match what:
            case "way":
                self.nodes.path(one, *([] if other is None else [other]), link=1_000 * (one % 7))
            case "cut":
                self.nodes.cut(one, other)
            case "load":
                kind = RelayType.EDGE if one == ME else RelayType.VIA
                self.nodes.put(describe(one, kind, region="us", load=other))
            case "link":
                self.steering.links(one, LinkState(loss=other))
            case "policy":
                self.policy = self.rules(one)
                self.steering.set_policy(self.policy)
            case "plan":
                table = {} if one is None else {("gold", "eu"): one}
                self.steering.set_plan(Plan(classes=table))
            case "want":
                self.targets = frozenset(one)
            case _:
                self.now += one

    def look(self) -> dict[NodeId, NodeId]:
        """Assign, and hold the outcome to what must always be true."""
        found = self.steering.assign(self.now, KEY, self.targets, "gold", arrived_on=None)
        again = self.steering.assign(self.now, KEY, sorted(self.targets), "gold", arrived_on=None)
        assert again == found
        assert list(found.next_hop) == sorted(found.next_hop)
        assert found.next_hop.keys() | found.unreachable.keys() == self.targets
        for target in self.targets:
            allowed = [
                path.peer
                for path in self.nodes.candidates(target)
                if self.policy.path("gold", self.passed(path.relays)) is None
            ]
            assert (target in found.unreachable) == (not allowed)
            assert target in found.unreachable or found.next_hop[target] in allowed
        return dict(found.next_hop)

    def passed(self, relays: tuple[NodeId, ...]) -> list[Any]:
        return [self.nodes.self_of(relay) for relay in (ME, *relays)]


@given(st.lists(changes, max_size=25))
def test_policy_holds_always_and_everything_settles(steps: list[tuple[str, Any, Any]]) -> None:
    world = World()
    for step in steps:
        world.change(*step)
        world.look()
    # Nothing changes any more: what is pending comes once, and then there is peace.
    for _ in range(2):
        world.now += HOLD
        world.steering.reassess(world.now)
        world.look()
    settled = world.look()
    for _ in range(4):
        world.now += HOLD
        assert world.steering.reassess(world.now) == []
        assert world.look() == settled
    fresh = Steering(ME, world.nodes, world.policy, replace(SETTINGS, via_hold=0.0))
    first = fresh.assign(0.0, KEY, world.targets, "gold", arrived_on=None)
    assert fresh.assign(0.0, KEY, world.targets, "gold", arrived_on=None) == first


V, W = NodeId(5), NodeId(6)


def test_a_track_counts_more_than_its_class() -> None:
    plan = Plan(tracks={(7, "eu"): V}, classes={("gold", "eu"): W, ("", "us"): W})
    assert plan.via(7, "gold", "eu") == V
    assert plan.via(8, "gold", "eu") == W
    assert plan.via(8, "", "us") == W
    assert plan.via(8, "gold", "us") is None


def test_no_plan_has_no_opinion() -> None:
    assert NO_PLAN.via(7, "", "eu") is None


HOLD = 10.0
ONE: Choice = (Pick(NodeId(1)),)
TWO: Choice = (Pick(NodeId(2)),)
SOME: Choice = (Pick(NodeId(1), frozenset({NodeId(7)})),)


def test_what_is_better_for_long_enough_is_taken() -> None:
    group = RegionChoice()
    for now in (0.0, 9.9):
        group.aim_at(now, ONE, HOLD)
        assert (group.choice, group.pending) == ((), ONE)
    group.aim_at(10.0, ONE, HOLD)
    assert (group.choice, group.pending) == (ONE, None)


def test_a_break_begins_the_wait_anew() -> None:
    group = RegionChoice()
    group.aim_at(0.0, ONE, HOLD)
    group.aim_at(5.0, (), HOLD)
    assert group.pending is None
    group.aim_at(6.0, ONE, HOLD)
    group.aim_at(10.0, ONE, HOLD)
    assert group.choice == ()
    group.aim_at(16.0, ONE, HOLD)
    assert group.choice == ONE


def test_a_third_choice_waits_from_the_beginning_but_other_targets_do_not_count() -> None:
    group = RegionChoice()
    group.aim_at(0.0, ONE, HOLD)
    group.aim_at(4.0, TWO, HOLD)
    assert group.since == 4.0
    group.aim_at(6.0, ONE, HOLD)
    # The same Via for some of the targets only is the same wait.
    group.aim_at(9.0, SOME, HOLD)
    assert (group.pending, group.since) == (SOME, 6.0)
    group.aim_at(16.0, SOME, HOLD)
    assert group.choice == SOME


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.sampled_from([(), ONE, TWO])), max_size=20))
def test_a_choice_changes_at_most_once_in_the_time(steps: list[tuple[float, Choice]]) -> None:
    group, now, changed = RegionChoice(), 0.0, float("-inf")
    for wait, aim in steps:
        now += wait
        before = group.choice
        group.aim_at(now, aim, HOLD)
        if group.choice != before:
            assert group.choice == aim
            assert now >= changed + HOLD
            changed = now


def test_a_track_begins_with_nothing() -> None:
    track = SteeredTrack()
    assert (track.targets, track.scope, track.groups, track.next_hop) == ((), "", {}, {})
