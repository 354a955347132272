"""What the takers of a track are told, by the ways that lead to them."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.subscriptions.origin_track import (
    DeliveryFailure,
    OriginTrack,
    PendingResponse,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode
from laps_wire.peering.laps2.information import NO_DATA
from testkit.subscription_rig import subscribe_info, track

ONE = NodeId(1)
NAME = track("a/b")
YES = PendingResponse(SubscribeCode.ACCEPTED)
DENIED = DeliveryFailure(SubscribeCode.POLICY, "not through CA")
AWAY = DeliveryFailure(SubscribeCode.UNREACHABLE, "no way", 5.0)


def pull() -> OriginTrack:
    made = OriginTrack(NAME)
    made.subscribers[ONE] = subscribe_info(1, NAME, NO_DATA)
    return made


def again(made: OriginTrack, sequence: int) -> None:
    made.subscribers[ONE] = replace(made.subscribers[ONE], stamp=Stamp(1, sequence))


def test_accepted_is_said_once_a_way_leads_there_and_the_publisher_agrees() -> None:
    made = pull()
    made.answer = NO_DATA
    assert made.next_response(0.0, ONE) is None
    made.routed(0.0, [ONE, NodeId(2)], {})
    assert made.next_response(0.0, ONE) == YES
    assert made.next_response(0.0, ONE) is None
    again(made, 2)
    assert made.next_response(9.0, ONE) == YES
    other = pull()
    other.routed(0.0, [ONE], {})
    assert other.next_response(0.0, ONE) is None
    other.answer = NO_DATA
    assert other.next_response(0.0, ONE) == YES


def test_what_policy_forbids_is_said_at_once_whatever_the_publisher_says() -> None:
    made = pull()
    made.routed(0.0, [ONE], {ONE: DENIED})
    assert made.next_response(0.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")
    assert made.next_response(0.0, ONE) is None
    again(made, 2)
    assert made.next_response(0.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")


def test_who_was_told_that_it_gets_the_track_believes_so_until_it_is_told_otherwise() -> None:
    made = pull()
    made.answer = NO_DATA
    assert not made.was_accepted(ONE)
    made.routed(0.0, [ONE], {})
    made.next_response(0.0, ONE)
    made.routed(1.0, [ONE], {ONE: DENIED})
    assert made.was_accepted(ONE)
    made.next_response(1.0, ONE)
    assert not made.was_accepted(ONE)


def test_a_way_may_take_its_time_to_come() -> None:
    made = pull()
    made.answer = NO_DATA
    made.routed(1.0, [ONE], {ONE: AWAY})
    assert made.next_response(1.0, ONE) == 6.0
    made.routed(2.0, [ONE], {})
    assert made.next_response(2.0, ONE) == YES
    made.routed(3.0, [ONE], {ONE: AWAY})
    made.routed(5.0, [ONE], {ONE: AWAY})
    assert made.next_response(5.0, ONE) == 8.0
    assert made.next_response(8.0, ONE) == PendingResponse(SubscribeCode.UNREACHABLE, "no way")
    # It turns out that policy is against what is left.
    made.routed(9.0, [ONE], {ONE: DENIED})
    assert made.next_response(9.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")


def test_a_way_that_does_not_last_is_not_spoken_of() -> None:
    made = pull()
    made.answer = NO_DATA
    made.routed(0.0, [ONE], {ONE: DENIED})
    made.next_response(0.0, ONE)
    made.routed(30.0, [ONE], {})
    assert made.next_response(30.0, ONE) == 31.0
    made.routed(30.1, [ONE], {ONE: DENIED})
    assert made.next_response(30.1, ONE) is None
    made.routed(60.0, [ONE], {})
    assert made.next_response(61.0, ONE) == YES


def test_who_leaves_is_forgotten() -> None:
    made = pull()
    made.routed(0.0, [ONE], {ONE: DENIED})
    made.next_response(0.0, ONE)
    assert made.remove(ONE)
    assert not made.remove(ONE)
    made.routed(1.0, [ONE], {ONE: DENIED})
    made.subscribers[ONE] = subscribe_info(1, NAME, NO_DATA)
    assert made.next_response(1.0, ONE) is None
