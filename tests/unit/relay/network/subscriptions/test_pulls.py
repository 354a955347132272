"""What the takers of a track are told, by the ways that lead to them."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.subscriptions.pulls import Lack, Pull, Word
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode
from laps_wire.peering.laps2.information import NO_DATA
from testkit.interest_rig import subscribe_info, track

ONE = NodeId(1)
NAME = track("a/b")
YES = Word(SubscribeCode.ACCEPTED)
DENIED = Lack(SubscribeCode.POLICY, "not through CA")
AWAY = Lack(SubscribeCode.UNREACHABLE, "no way", 5.0)


def pull() -> Pull:
    made = Pull(NAME)
    made.takers[ONE] = subscribe_info(1, NAME, NO_DATA)
    return made


def again(made: Pull, sequence: int) -> None:
    made.takers[ONE] = replace(made.takers[ONE], stamp=Stamp(1, sequence))


def test_accepted_is_said_once_a_way_leads_there_and_the_publisher_agrees() -> None:
    made = pull()
    made.answer = NO_DATA
    assert made.word(0.0, ONE) is None
    made.led(0.0, [ONE, NodeId(2)], {})
    assert made.word(0.0, ONE) == YES
    assert made.word(0.0, ONE) is None
    again(made, 2)
    assert made.word(9.0, ONE) == YES
    other = pull()
    other.led(0.0, [ONE], {})
    assert other.word(0.0, ONE) is None
    other.answer = NO_DATA
    assert other.word(0.0, ONE) == YES


def test_what_policy_forbids_is_said_at_once_whatever_the_publisher_says() -> None:
    made = pull()
    made.led(0.0, [ONE], {ONE: DENIED})
    assert made.word(0.0, ONE) == Word(SubscribeCode.POLICY, "not through CA")
    assert made.word(0.0, ONE) is None
    again(made, 2)
    assert made.word(0.0, ONE) == Word(SubscribeCode.POLICY, "not through CA")


def test_who_was_told_that_it_gets_the_track_believes_so_until_it_is_told_otherwise() -> None:
    made = pull()
    made.answer = NO_DATA
    assert not made.believes(ONE)
    made.led(0.0, [ONE], {})
    made.word(0.0, ONE)
    made.led(1.0, [ONE], {ONE: DENIED})
    assert made.believes(ONE)
    made.word(1.0, ONE)
    assert not made.believes(ONE)


def test_a_way_may_take_its_time_to_come() -> None:
    made = pull()
    made.answer = NO_DATA
    made.led(1.0, [ONE], {ONE: AWAY})
    assert made.word(1.0, ONE) == 6.0
    made.led(2.0, [ONE], {})
    assert made.word(2.0, ONE) == YES
    made.led(3.0, [ONE], {ONE: AWAY})
    made.led(5.0, [ONE], {ONE: AWAY})
    assert made.word(5.0, ONE) == 8.0
    assert made.word(8.0, ONE) == Word(SubscribeCode.UNREACHABLE, "no way")
    # It turns out that policy is against what is left.
    made.led(9.0, [ONE], {ONE: DENIED})
    assert made.word(9.0, ONE) == Word(SubscribeCode.POLICY, "not through CA")


def test_a_way_that_does_not_last_is_not_spoken_of() -> None:
    made = pull()
    made.answer = NO_DATA
    made.led(0.0, [ONE], {ONE: DENIED})
    made.word(0.0, ONE)
    made.led(30.0, [ONE], {})
    assert made.word(30.0, ONE) == 31.0
    made.led(30.1, [ONE], {ONE: DENIED})
    assert made.word(30.1, ONE) is None
    made.led(60.0, [ONE], {})
    assert made.word(61.0, ONE) == YES


def test_who_leaves_is_forgotten() -> None:
    made = pull()
    made.led(0.0, [ONE], {ONE: DENIED})
    made.word(0.0, ONE)
    assert made.remove(ONE)
    assert not made.remove(ONE)
    made.led(1.0, [ONE], {ONE: DENIED})
    made.takers[ONE] = subscribe_info(1, NAME, NO_DATA)
    assert made.word(1.0, ONE) is None
