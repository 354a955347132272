from __future__ import annotations

from dataclasses import replace

from laps_relay.network.subscriptions.responses import way_back
from laps_sdk.peering.sending import MAX_RECENT, ResponseReplay
from laps_sdk.upstream.bodies import body_for
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeResponse
from testkit.interest_rig import Rig, key_of, subscribe_info, track

NAME = track("a/b")


def response(sequence: int = 1, source: int = 1) -> SubscribeResponse:
    return SubscribeResponse(NodeId(source), key_of(NAME), Stamp(1, sequence), NodeId(3), 0)


def test_a_response_goes_back_where_the_subscribe_came_from() -> None:
    rig = Rig()
    table = rig.subscribes
    table.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME), sequence=5))
    assert way_back(table, 3, response(5)) == 1
    assert way_back(table, 1, response(5)) is None
    assert way_back(table, 3, response(4)) is None
    assert way_back(table, 3, response(6)) is None
    assert way_back(table, 3, response(5, source=2)) is None


def test_responses_of_the_last_hold_time_are_sent_again() -> None:
    recent = ResponseReplay(15.0)
    assert recent.again(0.0, 1) == []
    recent.sent(0.0, 1, response(1))
    recent.sent(10.0, 1, response(2, source=2))
    recent.sent(10.0, 2, response(3))
    assert recent.again(15.0, 1) == [response(1), response(2, source=2)]
    assert recent.again(16.0, 1) == [response(2, source=2)]
    recent.forget(1)
    recent.forget(1)
    assert recent.again(16.0, 1) == []
    assert recent.again(16.0, 2) == [response(3)]
    assert recent.again(26.0, 2) == []


def test_the_last_that_a_relay_said_counts() -> None:
    recent = ResponseReplay(15.0)
    yes, no = response(1), replace(response(1), code=1, reason="over")
    recent.sent(0.0, 1, yes)
    recent.sent(1.0, 1, response(2, source=2))
    recent.sent(2.0, 1, no)
    assert recent.again(3.0, 1) == [response(2, source=2), no]
    other = replace(yes, responder=NodeId(4))
    recent.sent(3.0, 1, other)
    assert recent.again(3.0, 1) == [response(2, source=2), no, other]


def test_without_a_hold_time_everything_is_recent_but_not_without_end() -> None:
    recent = ResponseReplay(0.0)
    for number in range(MAX_RECENT + 10):
        recent.sent(float(number), 1, response(source=number))
    kept = recent.again(1e9, 1)
    assert len(kept) == MAX_RECENT
    assert kept[0] == response(source=10)
