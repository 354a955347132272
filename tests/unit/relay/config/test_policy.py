from __future__ import annotations

import tomllib

import pytest
from pydantic import ValidationError

from laps_relay.config.policy import PolicyModel, compiled, namespace_of
from laps_relay.policy.facts import NodeNote, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, TrackRule
from laps_wire.names import Namespace

ALL = """
[regions.us]
nodes = ["100.*:*"]
[regions.eu]
names = ["eu-west"]
countries = ["se"]
labels = { continent = "europe" }
[regions.asia]

[[node]]
nodes = ["150.*:*"]
country = "ca"
labels = { tier = "core" }
[[node]]
nodes = ["*"]

[[link]]
between = ["1:1", "1:2"]
countries = ["US", "CA"]
[[link]]
between = ["1:1", "1:3"]
countries = ["US"]
name = "cable"

[peers]
allow_regions = ["us"]
[transit]
deny_nodes = ["9:*"]
deny_countries = ["ru"]

[classes.gold]
max_rtt = "80ms"
max_loss = 0.01
max_fanout = 4
transit = { allow_regions = ["us", "eu"], need = { tier = "core" } }
[classes.bronze]

[[track]]
namespace = ""
class = "bronze"
[[track]]
namespace = "acme/live%20show"
track = "main"
class = "gold"
deny_regions = ["asia"]
[[track]]
name = "named"
namespace = "acme/%ff"

[[import.node.rule]]
action = "deny"
labels = { test = "yes" }
[import.announce]
default = "deny"
[[import.announce.rule]]
name = "ours"
action = "accept"
namespace = "acme"
peers = ["100.*:*"]
[[export.subscribe.rule]]
action = "deny"
reason = "not for you"
peer_regions = ["asia"]
sources = ["100.*:*"]
source_regions = ["us"]
labels = { tenant = "acme" }
"""


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


def model(text: str) -> PolicyModel:
    return PolicyModel.model_validate(tomllib.loads(text))


def test_an_empty_file_allows_everything() -> None:
    assert compiled(model("")) == Rules()


def test_everything_arrives_in_the_core() -> None:
    found = compiled(model(ALL))
    assert found.regions == (
        Region(name="us", nodes=patterns("100.*:*")),
        Region(
            name="eu",
            names=frozenset({"eu-west"}),
            countries=frozenset({"SE"}),
            labels=(("continent", "europe"),),
        ),
        Region(name="asia", names=frozenset({"asia"})),
    )
    assert found.notes == (
        NodeNote(nodes=patterns("150.*:*"), country="CA", labels=(("tier", "core"),)),
        NodeNote(nodes=patterns("*")),
    )
    one, two, three = patterns("1:1", "1:2", "1:3")
    assert found.links == (
        Link(name="link 1", between=(one, two), countries=("US", "CA")),
        Link(name="cable", between=(one, three), countries=("US",)),
    )
    assert found.peers == Fence(allow_regions=frozenset({"us"}))
    assert found.transit == Fence(deny_nodes=patterns("9:*"), deny_countries=frozenset({"RU"}))
    gold = found.classes["gold"]
    assert gold.limits == ClassLimits(80_000, 0.01, 4)
    assert gold.transit == Fence(allow_regions=frozenset({"us", "eu"}), need=(("tier", "core"),))
    assert found.classes["bronze"].limits == ClassLimits()
    assert found.tracks == (
        TrackRule(name="everything", service_class="bronze"),
        TrackRule(
            name="acme/live show",
            namespace=Namespace.of(b"acme", b"live show"),
            track=b"main",
            service_class="gold",
            subscribers=Fence(deny_regions=frozenset({"asia"})),
        ),
        TrackRule(name="named", namespace=Namespace.of(b"acme", b"\xff")),
    )
    assert found.import_node == Filter(
        rules=(FilterRule(name="rule 1", accept=False, labels=(("test", "yes"),)),)
    )
    assert found.import_announce == Filter(
        rules=(
            FilterRule(
                name="ours",
                accept=True,
                namespace=Namespace.of(b"acme"),
                peers=patterns("100.*:*"),
            ),
        ),
        accept=False,
    )
    assert found.export_subscribe == Filter(
        rules=(
            FilterRule(
                name="rule 1",
                accept=False,
                reason="not for you",
                peer_regions=frozenset({"asia"}),
                sources=patterns("100.*:*"),
                source_regions=frozenset({"us"}),
                labels=(("tenant", "acme"),),
            ),
        )
    )
    assert list(model(ALL).strays()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[regions.us]\nnodes = [1]", "a node pattern is a text"),
        ("[regions.us]\nnodes = ['1']", "no colon"),
        ("[transit]\ndeny_countries = ['USA']", "two letters"),
        ("[transit]\ndeny_countries = ['ÄÄ']", "two letters"),
        ("[[link]]\nbetween = ['*']\ncountries = ['US']", "at least 2 items"),
        ("[[link]]\nbetween = ['*', '*']\ncountries = []", "at least 1 item"),
        ("[[node]]\nnodes = []", "at least 1 item"),
        ("[[track]]\nnamespace = 5", "a namespace is a text"),
        ("[[track]]\nnamespace = 'a//b'", "field 1 is empty"),
        ("[[track]]", "Field required"),
        ("[[track]]\nnamespace = ''\nservice_class = 'gold'", "Extra inputs"),
        ("[classes.g]\nmax_fanout = 0", "greater than or equal to 1"),
        ("[classes.g]\nmax_fanout = true", "valid integer"),
        ("[classes.g]\nmax_loss = 1.5", "less than or equal to 1"),
        ("[classes.g]\nmax_rtt = 'long'", "a duration is"),
        ("[[import.node.rule]]\naction = 'drop'", "'accept' or 'deny'"),
        ("[[import.node.rule]]\naction = 'deny'\nnamespace = 'a'", "Extra inputs"),
        ("[[import.announce.rule]]\naction = 'deny'\nlabels = {a='b'}", "at most 0 items"),
        ("[export.node]\ndefault = 'maybe'", "'accept' or 'deny'"),
        ("[classes.'']", "at least 1 character"),
    ],
)
def test_what_may_not_stand_in_it(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        model(text)
    assert words in str(caught.value)


def test_names_that_nothing_has_are_found() -> None:
    text = """
[regions.us]
[peers]
allow_regions = ["us", "eu"]
[transit]
deny_regions = ["b"]
[classes.g.transit]
allow_regions = ["c"]
[[track]]
namespace = "x"
class = "gold"
allow_regions = ["d"]
[[import.node.rule]]
action = "deny"
peer_regions = ["e"]
[[export.subscribe.rule]]
action = "deny"
source_regions = ["f"]
"""
    found = list(model(text).strays())
    assert [(place, wrong) for place, wrong, _ in found] == [
        (("peers", "allow_regions"), "there is no region 'eu'"),
        (("transit", "deny_regions"), "there is no region 'b'"),
        (("classes", "g", "transit", "allow_regions"), "there is no region 'c'"),
        (("track", 0, "allow_regions"), "there is no region 'd'"),
        (("track", 0, "class"), "there is no class 'gold'"),
        (("import", "node", "rule", 0, "peer_regions"), "there is no region 'e'"),
        (("export", "subscribe", "rule", 0, "source_regions"), "there is no region 'f'"),
    ]
    assert found[0][2] == "write [regions.NAME], or one that is there: us"
    (lost,) = model("[[track]]\nnamespace = ''\nclass = 'x'").strays()
    assert lost[2] == "write [classes.NAME], or one that is there: none"


def test_namespaces_are_read_as_the_client_reads_them() -> None:
    assert namespace_of("") == Namespace()
    assert namespace_of("a/b%2fc") == Namespace.of(b"a", b"b/c")
