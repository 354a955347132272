from __future__ import annotations

from laps_relay.core.network.bodies import body_for
from laps_relay.core.network.responses import MAX_RECENT, RecentResponses, way_back
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
    recent = RecentResponses(15.0)
    assert recent.again(0.0, 1) == []
    recent.sent(0.0, 1, response(1))
    recent.sent(10.0, 1, response(2))
    recent.sent(10.0, 2, response(3))
    assert recent.again(15.0, 1) == [response(1), response(2)]
    assert recent.again(16.0, 1) == [response(2)]
    recent.forget(1)
    recent.forget(1)
    assert recent.again(16.0, 1) == []
    assert recent.again(16.0, 2) == [response(3)]


def test_not_without_end() -> None:
    recent = RecentResponses(15.0)
    for number in range(MAX_RECENT + 10):
        recent.sent(0.0, 1, response(number))
    kept = recent.again(0.0, 1)
    assert len(kept) == MAX_RECENT
    assert kept[0] == response(10)
