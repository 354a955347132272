"""What must be said again after its source was away for long."""

from __future__ import annotations

from laps_relay.network.flood.flood_doubts import DOUBTED, Doubts
from laps_relay.network.flood.flood_records import Record
from laps_relay.network.nodes.silences import TOLD_AGAIN
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeInfo, SubscribeWithdrawal
from testkit.flood_net import subscribe


def given(source: int, key: int, bits: int) -> Record[SubscribeInfo, SubscribeWithdrawal]:
    record: Record[SubscribeInfo, SubscribeWithdrawal] = Record(subscribe(source, key), dead=False)
    record.given = bits
    return record


def test_who_tells_again_is_earlier_than_who_waits_for_it() -> None:
    assert 0 < TOLD_AGAIN < DOUBTED < 1


def test_what_was_not_said_again_is_taken() -> None:
    doubts: Doubts[SubscribeInfo, SubscribeWithdrawal] = Doubts()
    one, two, other = given(9, 1, 0b11), given(9, 2, 0b100), given(8, 1, 0b1)
    for record in (one, two, other):
        doubts.note(record)
    doubts.note(given(7, 1, 0))  # nobody gives it: nobody must say it
    assert (len(doubts), doubts.of(NodeId(9))) == (3, False)
    doubts.confirm(one, 0b01)
    for node in (7, 8, 9):
        doubts.returned(NodeId(node), late=True)
    assert [doubts.of(NodeId(node)) for node in (7, 8, 9)] == [False, True, True]
    doubts.confirm(two, 0b100)
    doubts.confirm(two, 0b100)
    doubts.confirm(given(7, 1, 1), 1)
    assert doubts.take(NodeId(9)) == {one: 0b10}
    assert doubts.take(NodeId(9)) == {}
    doubts.confirm(other, 0b1)
    assert (len(doubts), doubts.of(NodeId(8))) == (0, False)


def test_a_source_that_is_back_soon_says_nothing_about_those_who_were_doubted_before() -> None:
    doubts: Doubts[SubscribeInfo, SubscribeWithdrawal] = Doubts()
    record = given(9, 1, 0b111)
    doubts.add(record, 0b001)
    doubts.add(record, 0b010)
    doubts.note(record)
    assert len(doubts) == 2
    doubts.confirm(record, 0b001)
    doubts.returned(NodeId(9), late=False)
    doubts.returned(NodeId(9), late=True)
    assert doubts.take(NodeId(9)) == {record: 0b010}
