from __future__ import annotations

import pytest

from laps_relay.network.nodes.nib import PathFinder
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering import PathDeficit, PathDemand, PeeringDemand
from laps_relay.policy import OPEN_POLICY, RulePolicy
from laps_relay.policy.facts import NodePattern
from laps_relay.policy.interface import ClassLimits, Policy
from laps_relay.policy.rules import Fence, Rules, ServiceClass
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, RelayType
from testkit.paths import Directory, describe

ME, V, W = NodeId(1), NodeId(11), NodeId(12)
T1, T2, T3 = (NodeId(number) for number in (101, 102, 103))
HERE = ("here",)
SETTINGS = NetworkSettings(via_hold=10.0, dynamic_idle=30.0)


def book(
    nodes: Directory, policy: Policy = OPEN_POLICY, settings: NetworkSettings = SETTINGS
) -> PeeringDemand:
    return PeeringDemand(PathFinder(ME, nodes, policy), nodes, settings)


def deny(*nodes: NodeId) -> RulePolicy:
    patterns = tuple(NodePattern.parse(str(node)) for node in nodes)
    return RulePolicy(Rules(transit=Fence(deny_nodes=patterns)), KeyedHasher(bytes(16)), local=ME)


def crowd(nodes: Directory, *, bad: frozenset[NodeId] = frozenset(), most: int = 2) -> PathDeficit:
    """Three targets that are peers."""
    for target in (T1, T2, T3):
        nodes.path(target)
    paths = {target: nodes.candidates(target)[0] for target in (T1, T2, T3)}
    return PathDeficit(paths, bad, most)


REACHED = {101: 1_000, 102: 1_000, 103: 1_000}


def test_nobody_is_wanted_if_nothing_is_needed() -> None:
    peering = book(Directory())
    peering.put(7, PathDemand(""))
    assert peering.nodes(0.0) == []
    assert peering.poll_timeout() is None


def test_targets_without_a_way_are_dialled_if_that_is_possible() -> None:
    nodes = Directory(
        describe(T1, contacts=HERE),
        describe(T2),
        describe(T3, RelayType.CONTROL, contacts=HERE),
        describe(V, RelayType.VIA, contacts=HERE, load=LoadClass.DRAINING),
    )
    peering = book(nodes)
    peering.put(7, PathDemand("", lost=[V, T3, T2, T1, NodeId(999)]))
    assert peering.nodes(0.0) == [T1]
    peering.forget(7)
    assert peering.nodes(0.0) == []


def test_nobody_is_dialled_on_demand_if_that_is_off() -> None:
    nodes = Directory(describe(T1, contacts=HERE))
    peering = book(nodes, settings=NetworkSettings(dynamic_peering=False))
    peering.put(7, PathDemand("", lost=[T1]))
    assert peering.nodes(0.0) == []


def test_vias_in_use_stay_wanted() -> None:
    peering = book(Directory())
    peering.put(7, PathDemand("", vias=[W, V]))
    peering.put(5, PathDemand("", vias=[V]))
    assert peering.nodes(0.0) == [V, W]
    peering.put(7, PathDemand(""))
    assert peering.nodes(0.0) == [V]


def test_a_planned_via_is_dialled_if_policy_allows_it_for_anybody() -> None:
    nodes = Directory(describe(V, RelayType.VIA, contacts=HERE))
    demand = PathDemand("", planned=[(V, (T1,))])
    for policy, wanted in ((OPEN_POLICY, [V]), (deny(V), [])):
        peering = book(nodes, policy)
        peering.put(7, demand)
        assert peering.nodes(0.0) == wanted


def test_the_via_that_would_help_most_is_dialled() -> None:
    nodes = Directory(
        describe(V, RelayType.VIA, contacts=HERE, reachable={101: 1, 102: 1}),
        describe(W, RelayType.VIA, contacts=HERE, reachable=REACHED),
    )
    peering = book(nodes)
    peering.put(7, PathDemand("", deficits=[crowd(nodes, most=1)]))
    assert peering.nodes(0.0) == [W]
    # Nearer, by what others say of the way to it.
    nodes.put(describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED))
    nodes.path(W, T1, rtt=1_000_000)
    assert book_with(nodes).nodes(0.0) == [V]


def book_with(nodes: Directory, policy: Policy = OPEN_POLICY) -> PeeringDemand:
    peering = book(nodes, policy)
    peering.put(7, PathDemand("", deficits=[crowd(nodes, most=1)]))
    return peering


@pytest.mark.parametrize(
    "node",
    [
        describe(V, RelayType.EDGE, contacts=HERE, reachable=REACHED),
        describe(V, RelayType.VIA, reachable=REACHED),
        describe(V, RelayType.VIA, contacts=HERE),
        describe(V, RelayType.VIA, contacts=HERE, reachable={101: 1}),
        describe(V, RelayType.VIA, contacts=HERE, reachable={999: 1}),
        describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED, load=LoadClass.OVERLOADED),
    ],
    ids=["edge", "no contact", "reaches nobody", "one only", "strangers", "overloaded"],
)
def test_a_via_that_would_not_help_is_not_dialled(node: NodeSelf) -> None:
    nodes = Directory(node)
    assert book_with(nodes).nodes(0.0) == []


def test_a_via_that_policy_forbids_is_not_dialled() -> None:
    nodes = Directory(describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED))
    assert book_with(nodes, deny(V)).nodes(0.0) == []


def test_a_via_that_is_a_peer_is_not_dialled_again() -> None:
    nodes = Directory(describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED))
    nodes.path(V)
    assert book_with(nodes).nodes(0.0) == []


def test_a_via_that_does_not_come_lets_others_have_their_turn() -> None:
    nodes = Directory(
        describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED),
        describe(W, RelayType.VIA, contacts=HERE, reachable=REACHED),
    )
    peering = book_with(nodes)
    assert peering.nodes(0.0) == [V]
    assert peering.poll_timeout() == 10.0
    assert peering.nodes(9.0) == [V]
    assert peering.nodes(10.0) == [W]
    assert peering.poll_timeout() == 20.0
    assert peering.nodes(20.0) == []
    assert peering.poll_timeout() == 40.0
    # Rested: it is tried again.
    assert peering.nodes(40.0) == [V]
    # It came: then it is no business of ours any more.
    nodes.path(V)
    nodes.path(W)
    assert peering.nodes(41.0) == []
    assert peering.poll_timeout() is None


def test_a_bad_way_wants_the_target_itself_or_a_better_via() -> None:
    nodes = Directory(
        describe(T1, contacts=HERE),
        describe(V, RelayType.VIA, contacts=HERE, reachable={101: 1_000}),
        describe(W, RelayType.VIA, contacts=HERE, reachable={101: 900_000}),
    )
    nodes.path(T1, 55, rtt=500_000)
    deficit = PathDeficit({T1: nodes.candidates(T1)[0]}, frozenset({T1}), None)
    gold = ServiceClass(name="gold", limits=ClassLimits(max_rtt_us=100_000))
    policy = RulePolicy(Rules(classes={"gold": gold}), KeyedHasher(bytes(16)), local=ME)
    peering = book(nodes, policy)
    peering.put(7, PathDemand("gold", deficits=[deficit]))
    assert peering.nodes(0.0) == [V, T1]
    nodes.cut(T1, 55)
    nodes.path(T1)
    direct = PathDeficit({T1: nodes.candidates(T1)[0]}, frozenset({T1}), None)
    peering.put(7, PathDemand("gold", deficits=[direct]))
    assert peering.nodes(0.0) == [V]


def test_it_is_due_only_when_something_has_happened() -> None:
    nodes = Directory(describe(T1, contacts=HERE))
    peering = book(nodes)
    peering.put(7, PathDemand(""))
    peering.invalidate()
    assert not peering.is_due(0.0), "nobody needs anything"
    peering.put(7, PathDemand("", lost=[T1]))
    assert (7 in peering, 8 in peering) == (True, False)
    assert peering.is_due(0.0)
    assert peering.nodes(0.0) == [T1]
    peering.put(7, PathDemand("", lost=[T1]))
    assert not peering.is_due(1.0), "it needs what it needed"
    peering.invalidate()
    assert peering.is_due(1.0)
    peering.nodes(1.0)
    peering.put(7, PathDemand(""))
    assert peering.is_due(2.0)
    assert peering.nodes(2.0) == []
    nodes.put(describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED))
    peering.put(7, PathDemand("", deficits=[crowd(nodes)]))
    assert peering.nodes(3.0) == [V]
    assert [peering.is_due(at) for at in (3.0, 12.9, 13.0)] == [False, False, True]


def test_probes_say_how_far_a_via_is_and_whether_anybody_reaches_it() -> None:
    nodes = Directory(
        describe(V, RelayType.VIA, contacts=HERE, reachable=REACHED),
        describe(W, RelayType.VIA, contacts=HERE, reachable=REACHED),
    )
    nodes.path(W, T1, rtt=1_000_000)
    known: dict[NodeId, int] = {}
    peering = PeeringDemand(PathFinder(ME, nodes, OPEN_POLICY), nodes, SETTINGS, lambda: known)
    peering.put(7, PathDemand("", deficits=[crowd(nodes, most=1)]))
    assert peering.nodes(0.0) == [V], "its way is the shorter one"
    known[W] = 5_000
    assert peering.nodes(1.0) == [W], "somebody reaches it"
    known[V] = 4_000
    assert peering.nodes(2.0) == [V], "and it is nearer"
