"""What is known of one ingress."""

from __future__ import annotations

from laps_relay.network.sets.set_records import (
    Block,
    EgressRow,
    IngressRecord,
    OutSet,
    Taken,
    Unserved,
)
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal

A, B, C, PEER, OTHER = (NodeId(number) for number in (1, 2, 3, 8, 9))


def feed() -> IngressRecord:
    return IngressRecord(Ingress(LOCAL, 7), 99, 0, "gold", None)


def transit() -> IngressRecord:
    return IngressRecord(Ingress(4, 7), None, 2, "", PEER)


def test_a_feed_and_a_set_of_a_peer() -> None:
    assert (feed().is_feed, feed().spread) == (True, 99)
    assert (transit().is_feed, transit().spread) == (False, 7)


def test_who_has_moved() -> None:
    record = feed()
    assert not record.has_moved(A, 3)  # it was nowhere before
    record.last[A] = 3
    assert not record.has_moved(A, 3)
    assert record.has_moved(A, 4)
    record.displaced.add(A)
    assert record.has_moved(A, 3)


def test_only_active_refusals_are_avoided() -> None:
    record = feed()
    assert record.avoided(A) == frozenset()
    record.blocks[A] = {PEER: Block(1, 1, 5.0, True), OTHER: Block(1, 1, 5.0, False)}
    assert record.avoided(A) == {PEER}


def test_forgetting_a_target() -> None:
    record = transit()
    record.displaced.add(A)
    record.unserved[A] = Unserved(SnsRefusal.POLICY, "no", 1.0)
    record.refused_targets.add(A)
    record.blocks[A] = {PEER: Block(1, 1, 5.0, True)}
    record.took(A, PEER, 1)
    record.relays[A] = (PEER, A)
    record.waits[A] = 3.0
    record.forget(A)
    record.forget(B)
    left = (record.displaced, record.unserved, record.refused_targets, record.blocks)
    assert not any((*left, record.relays, record.taken, record.waits))


def test_what_a_way_was_like_when_it_was_taken() -> None:
    record = transit()
    record.took(A, PEER, 2)
    record.took(A, PEER, 5)
    assert record.taken == {A: Taken(PEER, 2)}
    record.took(A, OTHER, 5)
    record.took(B, OTHER, None)
    assert record.taken == {A: Taken(OTHER, 5), B: Taken(OTHER, 0)}


def test_what_is_due_next() -> None:
    record = transit()
    assert record.next_due() is None
    record.blocks[A] = {PEER: Block(1, 1, 5.0, True), OTHER: Block(1, 1, 1.0, False)}
    assert record.next_due() == 5.0
    record.unserved[B] = Unserved(SnsRefusal.POLICY, "no", 4.0)
    assert record.next_due() == 4.0
    record.refused_targets.add(B)
    assert record.next_due() == 5.0
    record.waits[A] = 4.25
    assert record.next_due() == 4.25
    ours = feed()
    ours.unserved[B] = Unserved(SnsRefusal.POLICY, "no", 4.0)
    assert ours.next_due() is None  # there is nobody to tell


def test_the_row() -> None:
    record = feed()
    record.targets = frozenset({A, B, C})
    for number, (session, sns_id, retired) in enumerate(
        [(5, 1, False), (3, 2, False), (3, 1, True)]
    ):
        item = OutSet(EgressSet(session, sns_id), frozenset({A, B} if number else {C}), record)
        item.retired = retired
        if retired:
            record.retired[item.egress] = item
        else:
            record.current[session] = item
    record.unserved[B] = Unserved(SnsRefusal.POLICY, "no", 4.0)
    row = record.row(C)
    assert (row.local, row.targets, row.key, row.scope) == (True, (A, B, C), 99, "gold")
    assert row.unserved == ((B, "no"),)
    assert row.egress == (
        EgressRow(EgressSet(3, 2), (A, B), False),
        EgressRow(EgressSet(5, 1), (C,), False),
        EgressRow(EgressSet(3, 1), (A, B), True),
    )
    assert not record.row(PEER).local
