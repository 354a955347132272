from __future__ import annotations

import pytest

from laps_relay.policy.facts import NodeNote, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rule_text import rules_as_text
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_wire.names import Namespace

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
