"""Announces of other relays, and the index of subscribes."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from laps_relay.network.subscriptions.discovery import Discovery, SubscribeIndex
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind, AnnounceWithdrawal, Stamp
from testkit.subscription_rig import HASHER, US, Rig, announce_info, namespace, track

SPACE = namespace("a/b")
NAME = track("a/b/n")


class Case:
    def __init__(self) -> None:
        self.rig = Rig()
        self.discovery = Discovery(US, HASHER)
        self.discovery.clients = self.rig.clients

    def heard(self, session: int, entry: AnnounceInfo) -> list[AnnounceInfo]:
        self.rig.announces.heard(0.0, session, entry)
        return self.changed()

    def gone(self, session: int, entry: AnnounceInfo, sequence: int = 9) -> None:
        withdrawal = AnnounceWithdrawal(
            entry.source, Stamp(1, sequence), entry.kind, entry.full_name_hash
        )
        self.rig.announces.heard_withdrawal(0.0, session, withdrawal)
        self.changed()

    def changed(self) -> list[AnnounceInfo]:
        return self.discovery.changed(0.0, self.rig.announces.take_changes())

    def announcers(self) -> list[NodeId]:
        elements = HASHER.elements(NAME.namespace.fields)
        return self.discovery.announcers(elements, HASHER.name(NAME.name))


def test_a_name_is_discovered_once_and_vanishes_with_the_last_who_has_it() -> None:
    case = Case()
    one, two = announce_info(1, SPACE), announce_info(2, SPACE)
    assert case.heard(1, one) == [one]
    assert case.heard(2, two) == [two]
    assert case.rig.taken() == [("discovered", SPACE)]
    assert case.announcers() == [1, 2]
    case.gone(1, one)
    assert case.rig.taken() == []
    assert case.announcers() == [2]
    case.gone(2, two)
    assert case.rig.taken() == [("vanished", AnnounceKind.NAMESPACE, SPACE)]
    assert case.announcers() == []


def test_an_announce_that_is_said_again_is_nothing_new_to_clients() -> None:
    case = Case()
    case.heard(1, announce_info(1, SPACE))
    case.heard(1, announce_info(1, SPACE, sequence=2))
    assert case.rig.taken() == [("discovered", SPACE)]
    case.heard(1, announce_info(1, SPACE, sequence=3, plain=False))
    assert case.rig.taken() == [("vanished", AnnounceKind.NAMESPACE, SPACE)]
    assert case.announcers() == [1]


def test_a_track_and_its_namespace_are_two_announces() -> None:
    case = Case()
    case.heard(1, announce_info(1, SPACE))
    case.heard(1, announce_info(1, NAME, AnnounceKind.TRACK))
    assert case.rig.taken() == [("discovered", SPACE), ("discovered", NAME)]
    assert case.announcers() == [1]


def test_our_own_are_not_discovered() -> None:
    case = Case()
    entry = announce_info(100, SPACE)
    case.rig.announces.originate(0.0, entry)
    assert case.changed() == []
    assert case.rig.taken() == []
    assert case.announcers() == []


def test_a_name_that_does_not_have_its_hash_is_not_believed() -> None:
    case = Case()
    other = KeyedHasher(b"the key of another network")
    entry = announce_info(1, SPACE, hasher=other)
    assert case.heard(1, entry) == [entry]
    assert case.rig.taken() == []
    assert case.discovery.false_names == 1
    case.gone(1, entry)
    assert case.rig.taken() == []


elements = st.lists(st.integers(0, 2), max_size=3).map(tuple)
pairs = st.tuples(elements, st.integers(0, 3), st.integers(0, 2))


@given(st.lists(st.tuples(st.booleans(), pairs), max_size=40), elements)
def test_it_is_a_set_of_pairs(
    steps: list[tuple[bool, tuple[tuple[int, ...], int, int]]], prefix: tuple[int, ...]
) -> None:
    index: SubscribeIndex[int] = SubscribeIndex()
    model: set[tuple[tuple[int, ...], int, int]] = set()
    for add, pair in steps:
        if add:
            assert index.add(*pair) is (pair not in model)
            model.add(pair)
        else:
            assert index.remove(*pair) is (pair in model)
            model.discard(pair)
    assert len(index) == len(model)
    below = sorted(index.below(prefix))
    assert below == sorted(
        (key, value) for space, key, value in model if space[: len(prefix)] == prefix
    )
    for key in range(4):
        assert sorted(index.track(prefix, key)) == sorted(
            value for space, other, value in model if (space, other) == (prefix, key)
        )
    for pair in sorted(model):
        index.remove(*pair)
    assert index._root.children is None
    assert index._root.tracks is None


def test_order_is_the_order_of_arrival() -> None:
    index: SubscribeIndex[int] = SubscribeIndex()
    for space in ((2,), (1,), (1, 5), ()):
        for value in (9, 3, 7):
            index.add(space, 4, value)
    assert index.track((1,), 4) == (9, 3, 7)
    assert [value for _, value in index.below(())] == [9, 3, 7] * 4
    assert index.track((1, 2), 4) == ()
    assert index.track((1,), 5) == ()
    assert index.track((), 4) == (9, 3, 7)
