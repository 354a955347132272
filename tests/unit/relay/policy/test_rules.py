from __future__ import annotations

import pytest

from laps_relay.policy.facts import Facts
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rules import Fence, Filter, FilterRule, Rules
from laps_wire.nodeid import NodeId

NODE = NodeId.parse("100.1:0.7")


def facts(*regions: str, country: str = "US", **labels: str) -> Facts:
    return Facts(NODE, regions, country, labels)


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


@pytest.mark.parametrize(
    ("fence", "reason"),
    [
        (Fence(), None),
        (Fence(deny_nodes=patterns("5:*", "100.*:*")), f"node {NODE} is denied (100.*:*)"),
        (Fence(deny_nodes=patterns("5:*")), None),
        (Fence(allow_nodes=patterns("5:*", "100.*:*")), None),
        (Fence(allow_nodes=patterns("5:*")), f"node {NODE} is not allowed"),
        (Fence(deny_regions=frozenset({"west", "us"})), "region us is denied"),
        (Fence(deny_regions=frozenset({"eu"})), None),
        (Fence(allow_regions=frozenset({"eu", "west"})), None),
        (Fence(allow_regions=frozenset({"eu"})), "region us is not allowed"),
        (Fence(deny_countries=frozenset({"US"})), "country US is denied"),
        (Fence(deny_countries=frozenset({"CA"})), None),
        (Fence(allow_countries=frozenset({"CA"})), "country US is not allowed"),
        (Fence(allow_countries=frozenset({"CA", "US"})), None),
        (Fence(need=(("tier", "core"),)), None),
        (Fence(need=(("tier", "edge"),)), f"node {NODE} has no label tier = edge"),
        (Fence(need=(("lock", "on"),)), f"node {NODE} has no label lock = on"),
        (
            Fence(allow_nodes=patterns("100.*:*"), deny_countries=frozenset({"US"})),
            "country US is denied",
        ),
    ],
)
def test_every_list_must_agree(fence: Fence, reason: str | None) -> None:
    assert fence.against(facts("us", "west", tier="core")) == reason


def test_allow_lists_leave_out_what_is_not_known() -> None:
    nowhere = facts(country="")
    assert Fence(deny_regions=frozenset({"us"})).against(nowhere) is None
    assert Fence(deny_countries=frozenset({"US"})).against(nowhere) is None
    reason = Fence(allow_regions=frozenset({"us"})).against(nowhere)
    assert reason == f"node {NODE} is in no region that is allowed"
    reason = Fence(allow_countries=frozenset({"US"})).against(nowhere)
    assert reason == "country unknown is not allowed"


def test_all_countries_of_a_link_count() -> None:
    fence = Fence(deny_countries=frozenset({"CA"}), allow_countries=frozenset({"US", "CA"}))
    assert fence.against_countries(("US",)) is None
    assert fence.against_countries(("US", "CA")) == "country CA is denied"
    assert fence.against_countries(("US", "MX")) == "country MX is not allowed"
    assert fence.against_countries(()) is None


def test_an_open_fence_says_nothing() -> None:
    assert Fence().is_open
    assert not Fence(need=(("a", "b"),)).is_open


def test_there_are_six_filters() -> None:
    one = Filter(rules=(FilterRule(name="r", accept=False),))
    named = dict(Rules(export_node=one).filters())
    assert len(named) == 6
    assert named["export.node"] is one
    assert named["import.subscribe"].accept
