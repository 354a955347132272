"""Delays, and what a connection that is to be knows of itself."""

from __future__ import annotations

import random

from laps_sdk.peering.dial_slots import Backoff, Phase, Slot, SlotTable, Target
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Mode

N20 = NodeId(20)


class Fixed:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def test_delays_are_between_a_quarter_of_a_second_and_half_a_minute() -> None:
    low, high = Backoff(Fixed(0.0)), Backoff(Fixed(0.999999))
    assert low.delay(0) == 0.25
    assert high.delay(0) <= 0.5
    assert low.delay(3) == 2.0
    assert low.delay(1000) == 15.0
    assert 29.9 < high.delay(1000) <= 30.0
    assert low.delay(0, rarely=True) == 15.0


def test_a_peer_may_ask_for_more_but_not_for_ever() -> None:
    backoff = Backoff(random.Random(1))
    assert backoff.delay(0, least=100.0) == 100.0
    assert backoff.delay(0, least=1e12) == 3600.0
    assert backoff.delay(10, least=0.1) >= 15.0


def test_a_slot_goes_round_its_contacts_and_redirects_come_first() -> None:
    target = Target(("a", "b"), N20, Mode.BOTH)
    slot = Slot(1, target, 0, 4)
    assert (slot.address, slot.expected, slot.mode) == ("a", N20, Mode.BOTH)
    slot.next_contact()
    assert slot.address == "b"
    slot.redirects = ["x", "y"]
    assert (slot.address, slot.expected) == ("x", None)
    slot.next_contact()
    assert slot.address == "y"
    slot.next_contact()
    assert (slot.address, slot.expected) == ("b", N20)
    slot.next_contact()
    assert slot.address == "a"


def test_a_wish_means_its_node_wherever_it_is_sent() -> None:
    slot = Slot(1, Target(("a",), N20, Mode.BOTH, dynamic=True), 0, 4)
    slot.redirects = ["x"]
    assert slot.expected == N20


def test_other_connections_carry_data_and_lead_to_the_same_node() -> None:
    slot = Slot(2, Target(("a",), None, Mode.BOTH), 1, 4)
    slot.node = N20
    assert (slot.expected, slot.mode) == (N20, Mode.DATA)
    assert not slot.wants_control


def test_who_should_carry_control_and_does_not() -> None:
    slot = Slot(1, Target(("a",), None, Mode.BOTH), 0, 4)
    assert slot.wants_control
    slot.control = True
    assert not slot.wants_control


def test_contacts_are_struck_until_none_is_left() -> None:
    target = Target(("a", "b"), N20, Mode.BOTH, dynamic=True)
    slot = Slot(1, target, 0, 4)
    assert target.strike("a")
    assert slot.address == "b"
    assert not target.strike("b")
    assert slot.address in ("a", "b")  # still there to be shown
    assert Slot(2, Target((), N20, Mode.BOTH), 0, 4).address == ""


def test_rows_and_reports_say_what_people_want_to_know() -> None:
    slot = Slot(1, Target(("a",), None, Mode.BOTH), 0, 4)
    slot.phase, slot.session, slot.node, slot.failures = Phase.UP, 7, N20, 2
    slot.reason = "gone"
    row = slot.row(5.0)
    assert (row.contact, row.node, row.phase, row.session) == ("a", N20, "up", 7)
    assert (row.failures, row.due, row.last_reason, row.dynamic) == (2, 5.0, "gone", False)
    slot.node = None
    assert slot.row(None).node is None
    report = slot.report("why", 9.0)
    assert (report.contact, report.node, report.reason, report.retry_at) == ("a", None, "why", 9.0)


class Table(SlotTable):
    """Its inside, for a test."""

    __slots__ = ()

    def add(self, slot: Slot) -> None:
        self._slots[slot.key] = slot

    wait, idle, hopeless = SlotTable._wait, SlotTable._idle, SlotTable._hopeless


def test_a_table_knows_when_each_slot_is_due_and_what_is_hopeless() -> None:
    table = Table(random.Random(1))
    first, second = (Slot(key, Target(("a",), N20, Mode.BOTH), 0, 4) for key in (1, 2))
    for slot in (first, second):
        table.add(slot)
        table.wait(slot, float(slot.key))
    assert [(row.phase, row.due) for row in table.rows()] == [("waiting", 1.0), ("waiting", 2.0)]
    table.idle(first)
    table.hopeless(second, "nobody there")
    assert [(row.phase, row.due) for row in table.rows()] == [("idle", None), ("idle", None)]
    (report,) = table.poll_reports()
    assert (report.reason, report.retry_at, report.node) == ("nobody there", None, N20)
    assert table.poll_reports() == []
    assert second.target.contacts == ()


def test_a_table_dials_sooner_whoever_is_heard_of_in_a_new_life() -> None:
    table = Table(Fixed(0.0))
    wish = Slot(1, Target(("a",), N20, Mode.BOTH, dynamic=True), 0, 4)
    other = Slot(2, Target(("b",), None, Mode.BOTH), 0, 4)
    up = Slot(3, Target(("c",), N20, Mode.BOTH), 0, 4)
    other.node, other.epoch, up.phase = NodeId(30), 7, Phase.UP
    for slot in (wish, other, up):
        table.add(slot)
    for slot in (wish, other):
        table.wait(slot, 100.0)
    for node, epoch in ((N20, 3), (NodeId(30), 7), (NodeId(40), 9)):
        table.heard(10.0, node, epoch)
    assert [row.due for row in table.rows()] == [10.25, 100.0, None]
    table.heard(10.0, NodeId(30), 8)
    assert [row.due for row in table.rows()] == [10.25, 10.25, None]
    other.patient = True
    table.wait(other, 100.0)
    table.heard(20.0, NodeId(30), 9)
    assert [row.due for row in table.rows()] == [10.25, 100.0, None]
