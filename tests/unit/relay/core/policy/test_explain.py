from __future__ import annotations

from laps_relay.core.policy.explain import explain
from laps_relay.core.policy.patterns import NodePattern
from laps_relay.core.policy.rule_policy import RulePolicy
from laps_relay.core.policy.rules import (
    Fence,
    Filter,
    FilterRule,
    Rules,
    ServiceClass,
    TrackRule,
)
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from testkit.ways import describe

A, B, C = describe("1:1"), describe("1:2"), describe("1:3")
TRACK = FullTrackName(Namespace.of(b"x"), b"t")


def policy(rules: Rules) -> RulePolicy:
    return RulePolicy(rules, KeyedHasher(bytes(16)), local=A.node_id)


def test_a_policy_without_rules_has_nothing_to_say() -> None:
    assert explain(policy(Rules()), [A, B, C], TRACK) == []


def test_every_rule_has_its_say() -> None:
    fence = Fence(deny_nodes=(NodePattern.parse("1:2"),))
    anything = Filter(rules=(FilterRule(name="any", accept=True),))
    rules = Rules(
        peers=fence,
        classes={"gold": ServiceClass(name="gold", transit=fence)},
        tracks=(TrackRule(name="x", service_class="gold", subscribers=fence),),
        import_node=anything,
        export_announce=anything,
        import_subscribe=Filter(accept=False),
    )
    found = explain(policy(rules), [A, B, C], TRACK)
    assert [(item.check, item.finding.allowed) for item in found] == [
        ("peer", True),
        ("peer", False),
        ("peer", True),
        ("path", False),
        ("subscriber", True),
        ("import.node", True),
        ("import.node", True),
        ("export.announce", True),
        ("export.announce", True),
        ("import.subscribe", False),
        ("import.subscribe", False),
    ]
    assert [item.finding.subject for item in found[-6:]] == [
        "node of 0.1:0.3 at 0.1:0.2, peer 0.1:0.3",
        "node of 0.1:0.3 at 0.1:0.1, peer 0.1:0.2",
        "announce of 0.1:0.1 at 0.1:0.1, peer 0.1:0.2",
        "announce of 0.1:0.1 at 0.1:0.2, peer 0.1:0.3",
        "subscribe of 0.1:0.3 at 0.1:0.2, peer 0.1:0.3",
        "subscribe of 0.1:0.3 at 0.1:0.1, peer 0.1:0.2",
    ]


def test_without_a_track_only_the_way_and_the_node_are_judged() -> None:
    rules = Rules(
        transit=Fence(deny_nodes=(NodePattern.parse("9:9"),)),
        import_subscribe=Filter(accept=False),
        export_node=Filter(accept=False),
    )
    found = explain(policy(rules), [A, B, C])
    assert [item.check for item in found] == ["path", "export.node", "export.node"]


def test_an_explanation_says_what_the_policy_does() -> None:
    rules = Rules(transit=Fence(deny_nodes=(NodePattern.parse("1:2"),)))
    used = policy(rules)
    for way in ([A, B], [A, B, C], [A, C, B]):
        allowed = all(item.finding.allowed for item in explain(used, way))
        assert allowed == (used.path("", way) is None)
