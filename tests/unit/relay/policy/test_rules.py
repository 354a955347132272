"""Rules as data, and as text."""

from __future__ import annotations

import pytest

from laps_relay.policy.facts import Facts, NodeNote, NodePattern, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.rules import (
    Fence,
    Filter,
    FilterRule,
    Link,
    Rules,
    ServiceClass,
    TrackRule,
    rules_as_text,
)
from laps_wire.names import Namespace
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


ONE, MANY = NodePattern.parse("1:1"), NodePattern.parse("100.*:*")
NEWS = Namespace((b"acme", b"news"))


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        (Rules(), ["everything is allowed"]),
        (
            Rules(
                regions=(
                    Region(
                        name="eu",
                        nodes=(ONE, MANY),
                        names=frozenset({"b", "a"}),
                        countries=frozenset({"FR", "DE"}),
                        labels=(("x", "y"),),
                    ),
                    Region(name="us", names=frozenset({"us"})),
                )
            ),
            [
                "region eu: nodes 1:1, 100.*:* or who says a, b or in DE, FR or with x = y",
                "region us: who says us",
            ],
        ),
        (
            Rules(
                notes=(
                    NodeNote(nodes=(MANY,), country="DE", labels=(("owner", "us"),)),
                    NodeNote(nodes=(ONE, MANY)),
                ),
                links=(Link(name="cable", between=(ONE, MANY), countries=("CA", "US")),),
            ),
            [
                "nodes 100.*:*: in DE, with owner = us",
                "nodes 1:1, 100.*:*: nothing",
                "link cable: between 1:1 and 100.*:* IP packets pass CA, US",
            ],
        ),
        (
            Rules(
                peers=Fence(allow_nodes=(ONE,), deny_nodes=(MANY,), need=(("a", "b"),)),
                transit=Fence(
                    allow_regions=frozenset({"eu"}),
                    deny_regions=frozenset({"us", "ca"}),
                    allow_countries=frozenset({"DE"}),
                    deny_countries=frozenset({"FR"}),
                ),
            ),
            [
                "peers: only nodes 1:1; no nodes 100.*:*; only with a = b",
                "transit: only regions eu; no regions ca, us; only countries DE; no countries FR",
            ],
        ),
        (
            Rules(
                classes={
                    "gold": ServiceClass(
                        name="gold",
                        limits=ClassLimits(80_500, 0.015, 2),
                        transit=Fence(deny_nodes=(ONE,)),
                    ),
                    "plain": ServiceClass(name="plain"),
                }
            ),
            [
                (
                    "class gold: round trip at most 80.5 ms; loss at most 1.5 %;"
                    " at most 2 copies towards a region; transit: no nodes 1:1"
                ),
                "class plain: no limits",
            ],
        ),
        (
            Rules(
                tracks=(
                    TrackRule(name="acme/news", namespace=NEWS, service_class="gold"),
                    TrackRule(
                        name="one",
                        namespace=NEWS,
                        track=b"a\xff",
                        subscribers=Fence(allow_regions=frozenset({"eu"})),
                    ),
                    TrackRule(name="everything"),
                )
            ),
            [
                "tracks below acme/news: class gold",
                "tracks below acme/news with the name a\\xff (one): subscribers: only regions eu",
                "tracks everywhere (everything): no class of its own",
            ],
        ),
        (
            Rules(
                import_node=Filter(
                    rules=(
                        FilterRule(name="rule 1", accept=False, peers=(ONE,), reason="not them"),
                        FilterRule(
                            name="ours",
                            accept=True,
                            peer_regions=frozenset({"eu"}),
                            sources=(MANY,),
                            source_regions=frozenset({"us"}),
                            labels=(("owner", "us"),),
                        ),
                    ),
                    accept=False,
                ),
                export_subscribe=Filter(
                    rules=(
                        FilterRule(name="rule 1", accept=False, namespace=NEWS),
                        FilterRule(name="rule 2", accept=False, namespace=Namespace()),
                        FilterRule(name="rule 3", accept=True),
                    )
                ),
            ),
            [
                "import.node, rule 1: deny peers 1:1 (not them)",
                "import.node, ours: accept peers in eu, from 100.*:*, from us, with owner = us",
                "import.node: deny everything else",
                "export.subscribe, rule 1: deny below acme/news",
                "export.subscribe, rule 2: deny everywhere",
                "export.subscribe, rule 3: accept everything",
            ],
        ),
    ],
    ids=["nothing", "regions", "notes", "fences", "classes", "tracks", "filters"],
)
def test_each_rule_is_a_line(rules: Rules, lines: list[str]) -> None:
    assert rules_as_text(rules) == lines
