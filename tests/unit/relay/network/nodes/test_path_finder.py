from __future__ import annotations

from laps_relay.network.nodes.path_finder import LinkState, PathFinder
from laps_relay.policy import OPEN_POLICY, RulePolicy
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rules import Fence, Link, Rules
from laps_sdk.peering.events import Refusal
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from testkit.paths import Directory, describe

HASHER = KeyedHasher(bytes(16))
ME, A, B, T = (NodeId(number) for number in (1, 2, 3, 9))


def no_transit(*nodes: NodeId) -> RulePolicy:
    fence = Fence(deny_nodes=tuple(NodePattern.parse(str(node)) for node in nodes))
    return RulePolicy(Rules(transit=fence), HASHER, local=ME)


def test_a_link_is_good_unless_said_otherwise() -> None:
    assert LinkState() == (0.0, 0, False)


def test_policy_sees_ourselves_the_transit_and_the_target() -> None:
    nodes = Directory(describe(ME, region="us"), describe(T, region="eu"))
    nodes.path(T, A, B)
    (path,) = nodes.candidates(T)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    relays = paths.relays(path)
    assert [relay.node_id for relay in relays] == [ME, A, B, T]
    assert [relay.region for relay in relays] == ["us", "", "", "eu"]
    assert paths.self_of(B).node_id == B


def test_without_a_policy_the_best_way_is_the_best() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    best = paths.best(T, "gold")
    assert best is not None
    assert best.peer == B
    assert [path.peer for path in paths.allowed(T, "")] == [B, A]
    assert paths.refusal("", best) is None
    assert paths.refusal_of("", B, T) is None


def test_what_policy_forbids_is_not_taken() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, no_transit(B))
    best = paths.best(T, "")
    assert best is not None
    assert best.peer == A
    assert [path.peer for path in paths.allowed(T, "")] == [A]
    assert paths.refusal_of("", B, T) == Refusal("transit", f"node {B} is denied ({B})")
    assert paths.refusal_of("", A, T) is None
    nodes.cut(T, A)
    assert paths.best(T, "") is None
    assert paths.why_none(T, "") == Refusal("transit", f"node {B} is denied ({B})")
    paths.policy = OPEN_POLICY
    assert paths.best(T, "") is not None


def test_the_way_through_one_peer() -> None:
    nodes = Directory()
    nodes.path(T, A, NodeId(7))
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, no_transit(B))
    path = paths.through(T, "", A)
    assert path is not None
    assert path.peer == A
    assert paths.through(T, "", B) is None  # forbidden
    assert paths.through(T, "", A, NodeId(7)) is None  # it leads back
    assert paths.through(T, "", NodeId(5)) is None


def test_our_own_link_counts() -> None:
    link = Link(
        name="cable",
        between=(NodePattern.parse(str(ME)), NodePattern.parse(str(T))),
        countries=("CA",),
    )
    rules = Rules(links=(link,), transit=Fence(deny_countries=frozenset({"CA"})))
    nodes = Directory()
    nodes.path(T)
    paths = PathFinder(ME, nodes, RulePolicy(rules, HASHER, local=ME))
    assert paths.best(T, "") is None
    nodes.path(T, A)
    assert paths.best(T, "") is not None


def test_nothing_goes_back_to_where_it_came_from() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, A)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    assert paths.best(T, "", A) is None
    assert paths.why_none(T, "", A) == Refusal("", f"the only way to {T} leads back to {A}")
    found = paths.best(T, "", B)
    assert found is not None
    assert found.peer == A
    assert paths.best(T, "", T) is None


def test_what_does_not_forward_is_no_way() -> None:
    nodes = Directory()
    nodes.path(T, A, forwards=False)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    assert paths.best(T, "") is None
    assert paths.allowed(T, "") == []
    assert paths.why_none(T, "") == Refusal("", f"no way to {T}")
