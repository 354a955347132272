from __future__ import annotations

import pytest

from laps_relay.policy import judges
from laps_relay.policy.facts import Facts
from laps_relay.policy.judges import (
    Finding,
    HashedFilter,
    LinkTable,
    first_refusal,
    node_finding,
    path_findings,
)
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId

NO_CA = Fence(deny_countries=frozenset({"CA"}))


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


def node(text: str, *regions: str, country: str = "", **labels: str) -> Facts:
    return Facts(NodeId.parse(text), regions, country, labels)


def link(one: str, other: str, *countries: str, name: str = "cable") -> Link:
    return Link(
        name=name,
        between=(NodePattern.parse(one), NodePattern.parse(other)),
        countries=countries,
    )


A, B, C = node("1:1", "us", country="US"), node("1:2", country="CA"), node("1:3", "eu")


def test_the_first_refusal_counts() -> None:
    yes = Finding("r1", "s", True, "fine")
    assert first_refusal([]) is None
    assert first_refusal([yes]) is None
    found = [yes, Finding("r2", "s", False, "no"), Finding("r3", "s", False, "never")]
    assert first_refusal(found) == Refusal("r2", "no")


def test_an_open_fence_has_no_say() -> None:
    assert list(node_finding("peers", Fence(), "peer", A)) == []
    assert list(node_finding("peers", NO_CA, "peer", A)) == [
        Finding("peers", "peer", True, "nothing is against it")
    ]
    assert list(node_finding("peers", NO_CA, "peer", B)) == [
        Finding("peers", "peer", False, "country CA is denied")
    ]


def test_links_are_found_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "_MEMO", 2)
    cable, other = link("1:1", "1:*", "US", "CA"), link("1:3", "*", "FR", name="other")
    table = LinkTable([cable, other])
    for _ in range(2):
        assert table.between(A.node_id, B.node_id) == (cable,)
        assert table.between(B.node_id, A.node_id) == (cable,)
        assert table.between(A.node_id, C.node_id) == (cable, other)
        assert table.between(B.node_id, NodeId(0)) == ()
    assert LinkTable([]).between(A.node_id, B.node_id) == ()


def test_transit_is_between_the_ends_and_links_are_everywhere() -> None:
    fences = [("transit", Fence()), ("classes.x.transit", NO_CA)]
    none = LinkTable([])
    assert list(path_findings(fences, none, [B, B])) == [], "ends are not transit"
    denied = Finding("classes.x.transit", "transit 0.1:0.2", False, "country CA is denied")
    assert list(path_findings(fences, none, [A, B, C])) == [denied]
    table = LinkTable([link("1:1", "1:3", "US", "CA"), link("1:1", "1:2", "US")])
    subject = "link 0.1:0.1 to 0.1:0.3 (cable)"
    assert list(path_findings(fences, table, [A, C])) == [
        Finding("classes.x.transit", subject, False, "country CA is denied")
    ]
    assert list(path_findings(fences, table, [A, B])) == [
        Finding("classes.x.transit", "link 0.1:0.1 to 0.1:0.2 (cable)", True, "it passes US")
    ]


def filter_of(*rules: FilterRule, accept: bool = True) -> HashedFilter:
    wanted = Filter(rules=rules, accept=accept)
    return HashedFilter("import.subscribe", wanted, [None] * len(rules))


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (FilterRule(name="r", accept=False), True),
        (FilterRule(name="r", accept=False, peers=patterns("5:5", "1:1")), True),
        (FilterRule(name="r", accept=False, peers=patterns("5:5")), False),
        (FilterRule(name="r", accept=False, peer_regions=frozenset({"us", "x"})), True),
        (FilterRule(name="r", accept=False, peer_regions=frozenset({"eu"})), False),
        (FilterRule(name="r", accept=False, sources=patterns("1:3")), True),
        (FilterRule(name="r", accept=False, sources=patterns("1:1")), False),
        (FilterRule(name="r", accept=False, source_regions=frozenset({"eu"})), True),
        (FilterRule(name="r", accept=False, source_regions=frozenset({"us"})), False),
        (FilterRule(name="r", accept=False, labels=(("tenant", "acme"),)), True),
        (FilterRule(name="r", accept=False, labels=(("tenant", "acme"), ("a", "b"))), False),
        (
            FilterRule(
                name="r", accept=False, peers=patterns("1:1"), source_regions=frozenset({"us"})
            ),
            False,
        ),
    ],
)
def test_all_conditions_must_hold(rule: FilterRule, matches: bool) -> None:
    source = node("1:3", "eu", tenant="acme")
    found = filter_of(rule).finding(A, source, None)
    assert found.allowed is not matches
    assert found.rule == ("import.subscribe.r" if matches else "import.subscribe.default")
    assert found.subject == "0.1:0.3"


def test_the_first_rule_that_matches_decides() -> None:
    first = FilterRule(name="first", accept=True, sources=patterns("1:*"))
    rest = FilterRule(name="rest", accept=False, reason="not here")
    found = filter_of(first, rest)
    assert found.refusal(A, C) is None
    assert found.finding(A, C, None).reason == "accepted by rule 'first' of import.subscribe"
    stranger = node("9:9")
    assert found.refusal(A, stranger) == Refusal("import.subscribe.rest", "not here")


def test_the_default_decides_if_nothing_matches() -> None:
    rule = FilterRule(name="r", accept=True, sources=patterns("1:3"))
    strict = filter_of(rule, accept=False)
    assert strict.refusal(A, C) is None
    reason = "denied: no rule of import.subscribe matches"
    assert strict.refusal(A, B) == Refusal("import.subscribe.default", reason)
    assert "accepted: no rule" in filter_of().finding(A, B, None).reason


def test_a_namespace_is_compared_by_hashes() -> None:
    rule = FilterRule(name="r", accept=False)
    found = HashedFilter("import.announce", Filter(rules=(rule,)), [(1, 2)])
    assert found.refusal(A, B, (1, 2)) is not None
    assert found.refusal(A, B, (1, 2, 3)) is not None
    assert found.refusal(A, B, (1,)) is None
    assert found.refusal(A, B, (2, 1)) is None
    assert found.refusal(A, B) is None


def test_a_filter_that_lets_everything_pass_is_open() -> None:
    accepts = FilterRule(name="r", accept=True)
    assert filter_of().is_open
    assert not filter_of().has_rules
    assert filter_of(accepts).is_open
    assert filter_of(accepts).has_rules
    assert not filter_of(accepts, accept=False).is_open
    assert filter_of(accept=False).has_rules
    assert not filter_of(FilterRule(name="r", accept=False)).is_open
