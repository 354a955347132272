"""Facts of nodes, and patterns of node IDs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.policy import facts as module
from laps_relay.policy.facts import (
    FactBook,
    NodeNote,
    NodePattern,
    Region,
    country_label,
    scope_of,
    stranger,
)
from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label
from testkit.paths import describe


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


US = Region(name="us", nodes=patterns("100.*:*"))
EU = Region(name="eu", names=frozenset({"eu-west"}), countries=frozenset({"SE"}))
CORE = Region(name="core", labels=(("tier", "core"),))


def test_a_stranger_is_known_by_its_id() -> None:
    facts = FactBook().of(stranger(NodeId(7)))
    assert (facts.node_id, facts.region, facts.country) == (7, "", "")
    assert facts.regions == frozenset()
    assert facts.labels == {}


def test_any_condition_makes_a_node_a_member() -> None:
    book = FactBook([US, EU, CORE])
    assert book.of(describe("100.1:1.1")).region == "us"
    assert book.of(describe("1:1", region="eu-west")).region == "eu"
    assert book.of(describe("1:2", labels={"country": "se"})).region == "eu"
    both = book.of(describe("100.1:1.2", labels={"tier": "core"}))
    assert both.regions == {"us", "core"}
    assert both.region == "us", "the first of the policy"


def test_a_region_is_not_entered_by_claiming_it() -> None:
    book = FactBook([US])
    assert book.of(describe("1:1", region="us")).regions == frozenset()
    assert book.of(describe("1:2", region="mars")).region == "mars"


def test_what_the_operator_says_counts_more() -> None:
    book = FactBook(
        [CORE],
        [
            NodeNote(nodes=patterns("100.*:*"), country="US", labels=(("tier", "core"),)),
            NodeNote(nodes=patterns("*"), country="CA", labels=(("tier", "x"), ("by", "note"))),
        ],
    )
    found = book.of(describe("100.1:1.1", labels={"country": "fr", "tier": "edge", "own": "1"}))
    assert found.country == "US"
    assert found.labels == {"country": "fr", "tier": "core", "own": "1", "by": "note"}
    assert found.region == "core"
    assert book.of(describe("5:5", labels={"country": "fr"})).country == "CA"
    assert FactBook().of(describe("5:5", labels={"country": "fr"})).country == "FR"
    assert country_label(describe("5:5", labels={"tier": "x", "country": "fr"})) == "FR"
    assert country_label(describe("5:5")) == ""
    silent = FactBook([], [NodeNote(nodes=patterns("5:5"))])
    assert silent.of(describe("5:5", labels={"country": "fr"})).country == "FR"


def test_facts_are_remembered_until_a_node_says_something_else() -> None:
    book = FactBook([EU])
    node = describe("1:1", region="eu-west")
    first = book.of(node)
    assert book.of(replace(node, contacts=("x",))) is first
    moved = book.of(replace(node, region="asia"))
    assert moved is not first
    assert moved.region == "asia"
    assert book.of(replace(node, labels=(Label("country", "SE"),))).region == "eu"


def test_the_source_of_an_entry_is_known_by_its_id_and_scope() -> None:
    book = FactBook([US, EU])
    assert book.of_source(NodeId.parse("100.1:1.1")).region == "us"
    scope = (Label("tenant", "acme"), Label("region", "eu-west"))
    found = book.of_source(NodeId(5), scope)
    assert found.region == "eu"
    assert found.labels["tenant"] == "acme"
    assert book.of_source(NodeId(5), scope) is found
    assert book.of_source(NodeId(5)).region == ""


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMO", 2)
    book = FactBook([US])
    first = book.of(describe("1:1"))
    source = book.of_source(NodeId(1))
    for number in range(2, 5):
        assert book.of(describe(number)).node_id == number
        assert book.of_source(NodeId(number)).node_id == number
    assert book.of(describe("1:1")) is not first
    assert book.of_source(NodeId(1)) is not source


def test_a_scope_says_the_region_if_there_is_one() -> None:
    assert scope_of("eu") == (Label("region", "eu"),)
    assert scope_of("") == ()


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["0:0", "100.2:9001.2001"], []),
        ("100.*:*", ["100.0:0.0", "100.7:1.2"], ["101.0:0.0", "0.100:1.1"]),
        ("100.2:*", ["100.2:0.0", "100.2:9.9"], ["100.3:0.0"]),
        ("*:0.7", ["1.2:0.7", "9:7"], ["1.2:0.8", "1.2:1.7"]),
        ("*:*", ["1.2:3.4"], []),
        ("6553602:*.5", ["100.2:9.5"], ["100.2:9.6", "100.3:9.5"]),
        ("1:1", ["0.1:0.1"], ["0.1:0.2"]),
    ],
)
def test_a_star_stands_for_any_number(pattern: str, inside: list[str], outside: list[str]) -> None:
    found = NodePattern.parse(pattern)
    assert str(found) == pattern
    assert all(found.matches(NodeId.parse(text)) for text in inside)
    assert not any(found.matches(NodeId.parse(text)) for text in outside)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1*:2", "'*' stands for a whole number, at character 1"),
        ("1.2:3.**", "'*' stands for a whole number, at character 7"),
        ("", "no colon"),
        ("1.2", "no colon"),
        ("1.2.3:*", "a second dot"),
        ("1:2:3", "a second colon"),
        ("70000.1:*", "above 65535"),
        (".:*", "a number is missing"),
        ("x:*", "not a decimal digit"),
    ],
)
def test_what_is_no_pattern(text: str, words: str) -> None:
    with pytest.raises(TextFormError, match="a good one is") as caught:
        NodePattern.parse(text)
    assert words in str(caught.value)


@given(st.integers(0, 2**64 - 1), st.integers(0, 15), st.integers(0, 2**64 - 1))
def test_a_pattern_made_of_a_node_matches_it(number: int, stars: int, other: int) -> None:
    node = NodeId(number)
    high, low = str(node).split(":")
    parts = [*high.split("."), *low.split(".")]
    shown = ["*" if stars >> index & 1 else part for index, part in enumerate(parts)]
    pattern = NodePattern.parse(f"{shown[0]}.{shown[1]}:{shown[2]}.{shown[3]}")
    assert pattern.matches(node)
    words = [(number >> shift & 0xFFFF, other >> shift & 0xFFFF) for shift in (48, 32, 16, 0)]
    agree = all(a == b or stars >> index & 1 for index, (a, b) in enumerate(words))
    assert pattern.matches(NodeId(other)) == agree
