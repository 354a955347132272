from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.policy import facts as module
from laps_relay.policy.facts import FactBook, NodeNote, Region, country_label, scope_of, stranger
from laps_relay.policy.patterns import NodePattern
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
