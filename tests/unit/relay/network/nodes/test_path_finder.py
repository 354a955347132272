from __future__ import annotations

from laps_relay.network.nodes.path_finder import LinkState, PathFinder
from laps_relay.policy import OPEN_POLICY, RulePolicy
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rules import Fence, Link, Rules
from laps_sdk.peering.events import Refusal
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from testkit.ways import Directory, describe

HASHER = KeyedHasher(bytes(16))
ME, A, B, T = (NodeId(number) for number in (1, 2, 3, 9))


def no_transit(*nodes: NodeId) -> RulePolicy:
    fence = Fence(deny_nodes=tuple(NodePattern.parse(str(node)) for node in nodes))
    return RulePolicy(Rules(transit=fence), HASHER, local=ME)


def test_a_link_is_good_unless_said_otherwise() -> None:
    assert LinkState() == (0.0, 0, False)


def test_policy_sees_ourselves_the_transit_and_the_target() -> None:
    nodes = Directory(describe(ME, region="us"), describe(T, region="eu"))
    nodes.way(T, A, B)
    (way,) = nodes.candidates(T)
    ways = PathFinder(ME, nodes, OPEN_POLICY)
    relays = ways.relays(way)
    assert [relay.node_id for relay in relays] == [ME, A, B, T]
    assert [relay.region for relay in relays] == ["us", "", "", "eu"]
    assert ways.self_of(B).node_id == B


def test_without_a_policy_the_best_way_is_the_best() -> None:
    nodes = Directory()
    nodes.way(T, A)
    nodes.way(T, B, rtt=1)
    ways = PathFinder(ME, nodes, OPEN_POLICY)
    best = ways.best(T, "gold")
    assert best is not None
    assert best.peer == B
    assert [way.peer for way in ways.allowed(T, "")] == [B, A]
    assert ways.refusal("", best) is None
    assert ways.refusal_of("", B, T) is None


def test_what_policy_forbids_is_not_taken() -> None:
    nodes = Directory()
    nodes.way(T, A)
    nodes.way(T, B, rtt=1)
    ways = PathFinder(ME, nodes, no_transit(B))
    best = ways.best(T, "")
    assert best is not None
    assert best.peer == A
    assert [way.peer for way in ways.allowed(T, "")] == [A]
    assert ways.refusal_of("", B, T) == Refusal("transit", f"node {B} is denied ({B})")
    assert ways.refusal_of("", A, T) is None
    nodes.cut(T, A)
    assert ways.best(T, "") is None
    assert ways.why_none(T, "") == Refusal("transit", f"node {B} is denied ({B})")
    ways.policy = OPEN_POLICY
    assert ways.best(T, "") is not None


def test_the_way_through_one_peer() -> None:
    nodes = Directory()
    nodes.way(T, A, NodeId(7))
    nodes.way(T, B, rtt=1)
    ways = PathFinder(ME, nodes, no_transit(B))
    way = ways.through(T, "", A)
    assert way is not None
    assert way.peer == A
    assert ways.through(T, "", B) is None  # forbidden
    assert ways.through(T, "", A, NodeId(7)) is None  # it leads back
    assert ways.through(T, "", NodeId(5)) is None


def test_our_own_link_counts() -> None:
    link = Link(
        name="cable",
        between=(NodePattern.parse(str(ME)), NodePattern.parse(str(T))),
        countries=("CA",),
    )
    rules = Rules(links=(link,), transit=Fence(deny_countries=frozenset({"CA"})))
    nodes = Directory()
    nodes.way(T)
    ways = PathFinder(ME, nodes, RulePolicy(rules, HASHER, local=ME))
    assert ways.best(T, "") is None
    nodes.way(T, A)
    assert ways.best(T, "") is not None


def test_nothing_goes_back_to_where_it_came_from() -> None:
    nodes = Directory()
    nodes.way(T, A)
    nodes.way(T, B, A)
    ways = PathFinder(ME, nodes, OPEN_POLICY)
    assert ways.best(T, "", A) is None
    assert ways.why_none(T, "", A) == Refusal("", f"the only way to {T} leads back to {A}")
    found = ways.best(T, "", B)
    assert found is not None
    assert found.peer == A
    assert ways.best(T, "", T) is None


def test_what_does_not_forward_is_no_way() -> None:
    nodes = Directory()
    nodes.way(T, A, forwards=False)
    ways = PathFinder(ME, nodes, OPEN_POLICY)
    assert ways.best(T, "") is None
    assert ways.allowed(T, "") == []
    assert ways.why_none(T, "") == Refusal("", f"no way to {T}")
