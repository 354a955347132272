"""Matching: the specification's rule, and the indexes against the rule taken literally."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from laps_wire.hashing import KeyedHasher
from laps_wire.matching import (
    Announce,
    AnnounceIndex,
    Subscribe,
    announce_of,
    hashed_announce_of,
    hashed_subscribe_of,
    matches,
    subscribe_of,
)
from laps_wire.names import FullTrackName, Namespace

HASHER = KeyedHasher(b"a key of this network")

# Few elements and short tuples, so that prefixes and equal names are common.
ELEMENTS = st.sampled_from([b"a", b"b", b"ab"])
NAMESPACES = st.lists(ELEMENTS, max_size=3).map(tuple)
ANNOUNCES = st.builds(Announce, NAMESPACES, st.none() | ELEMENTS)
SUBSCRIBES = st.builds(Subscribe, NAMESPACES, ELEMENTS)


@pytest.mark.parametrize(
    ("announce", "name", "namespace", "expected"),
    [
        (("net", "team"), None, ("net", "team"), True),
        (("net", "team"), None, ("net", "team", "x"), True),
        (("net", "team"), None, ("net",), False),
        (("net", "team"), None, ("team", "net"), False),
        (("net", "te"), None, ("net", "team"), False),
        ((), None, ("net",), True),
        (("net", "team"), "report", ("net", "team"), True),
        (("net", "team"), "other", ("net", "team"), False),
        (("net",), "report", ("net", "team"), False),
        (("net", "team", "x"), "report", ("net", "team"), False),
        (("net", "team"), "", ("net", "team"), False),
    ],
)
def test_the_rule(
    announce: tuple[str, ...], name: str | None, namespace: tuple[str, ...], expected: bool
) -> None:
    assert matches(Announce(announce, name), Subscribe(namespace, "report")) is expected
    index: AnnounceIndex[str, int] = AnnounceIndex()
    index.add(Announce(announce, name), 1)
    assert index.match(Subscribe(namespace, "report")) == ([1] if expected else [])


def test_an_empty_name_is_a_name() -> None:
    assert matches(Announce(("a",), ""), Subscribe(("a",), ""))
    assert not matches(Announce(("a",), ""), Subscribe(("a",), "b"))


@given(NAMESPACES, st.none() | ELEMENTS, NAMESPACES, ELEMENTS)
def test_hashes_and_names_match_alike(
    fields: tuple[bytes, ...], name: bytes | None, wanted: tuple[bytes, ...], track: bytes
) -> None:
    namespace, full = Namespace(fields), FullTrackName(Namespace(wanted), track)
    by_name = matches(announce_of(namespace, name), subscribe_of(full))
    by_hash = matches(
        hashed_announce_of(HASHER, namespace, name), hashed_subscribe_of(HASHER, full)
    )
    assert by_name is by_hash
    # A whole-namespace announce is what names.is_prefix_of says.
    if name is None:
        assert by_name is namespace.is_prefix_of(full.namespace)


def test_announces_carry_the_hashes_of_their_names() -> None:
    namespace = Namespace.of(b"a", b"b")
    assert hashed_announce_of(HASHER, namespace) == Announce(HASHER.elements((b"a", b"b")), None)
    assert hashed_announce_of(HASHER, namespace, b"n").name == HASHER.name(b"n")
    assert announce_of(namespace, b"n") == Announce((b"a", b"b"), b"n")


def test_the_least_specific_comes_first_and_everyone_once() -> None:
    index: AnnounceIndex[str, int] = AnnounceIndex()
    index.add(Announce(("a", "b"), "n"), 3)
    index.add(Announce(("a", "b")), 2)
    index.add(Announce(("a", "b")), 1)
    index.add(Announce(("a",)), 1)
    assert index.match(Subscribe(("a", "b"), "n")) == [1, 2, 3]
    assert len(index) == 4


def test_adding_twice_and_removing_what_is_not_there() -> None:
    index: AnnounceIndex[str, int] = AnnounceIndex()
    assert index.add(Announce(("a", "b")), 1)
    assert not index.add(Announce(("a", "b")), 1)
    assert len(index) == 1
    assert not index.remove(Announce(("a", "b")), 2)
    assert not index.remove(Announce(("a",)), 1)
    assert not index.remove(Announce(("a", "b"), "n"), 1)
    assert not index.remove(Announce(("x", "y")), 1)
    assert index.remove(Announce(("a", "b")), 1)
    assert not index.remove(Announce(("a", "b")), 1)
    assert len(index) == 0


class IndexMachine(RuleBasedStateMachine):
    """The index does what a list of pairs and the rule would do, and forgets what it should."""

    def __init__(self) -> None:
        super().__init__()
        self.index: AnnounceIndex[bytes, int] = AnnounceIndex()
        self.pairs: set[tuple[Announce[bytes], int]] = set()

    @rule(announce=ANNOUNCES, value=st.integers(0, 2))
    def add(self, announce: Announce[bytes], value: int) -> None:
        assert self.index.add(announce, value) is ((announce, value) not in self.pairs)
        self.pairs.add((announce, value))

    @rule(announce=ANNOUNCES, value=st.integers(0, 2))
    def remove(self, announce: Announce[bytes], value: int) -> None:
        assert self.index.remove(announce, value) is ((announce, value) in self.pairs)
        self.pairs.discard((announce, value))

    @rule(data=st.data())
    def remove_one_that_is_in(self, data: st.DataObject) -> None:
        if self.pairs:
            known = sorted(self.pairs, key=repr)
            self.remove(*data.draw(st.sampled_from(known)))

    @rule(subscribe=SUBSCRIBES)
    def match(self, subscribe: Subscribe[bytes]) -> None:
        found = self.index.match(subscribe)
        assert len(found) == len(set(found))
        assert set(found) == {value for it, value in self.pairs if matches(it, subscribe)}

    @invariant()
    def size_is_right_and_no_branch_leads_nowhere(self) -> None:
        assert len(self.index) == len(self.pairs)
        nodes = [self.index._root]
        while nodes:
            node = nodes.pop()
            assert node is self.index._root or not node.is_empty
            assert all(node.tracks.values())
            nodes.extend(node.children.values())


TestIndex = IndexMachine.TestCase
