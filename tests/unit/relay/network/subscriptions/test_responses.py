from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.subscriptions import responses
from laps_relay.network.subscriptions.responses import (
    MAX_REPEATS,
    ResponseLoopFilter,
    return_session,
)
from laps_sdk.upstream.bodies import body_for
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeResponse
from testkit.subscription_rig import Rig, key_of, subscribe_info, track

NAME = track("a/b")


def response(sequence: int = 1, source: int = 1) -> SubscribeResponse:
    return SubscribeResponse(NodeId(source), key_of(NAME), Stamp(1, sequence), NodeId(3), 0)


def test_a_response_goes_back_where_the_subscribe_came_from() -> None:
    rig = Rig()
    table = rig.subscribes
    table.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME), sequence=5))
    assert return_session(table, 3, response(5)) == 1
    assert return_session(table, 1, response(5)) is None
    assert return_session(table, 3, response(4)) is None
    assert return_session(table, 3, response(6)) is None
    assert return_session(table, 3, response(5, source=2)) is None


YES = SubscribeResponse(NodeId(1), 7, Stamp(1, 1), NodeId(2), SubscribeCode.ACCEPTED, "")
NO = replace(YES, code=SubscribeCode.ENDED)


def test_the_same_answer_does_not_pass_twice_so_soon() -> None:
    log = ResponseLoopFilter(30.0)
    assert log.accepts(0.0, YES, 1)
    assert not log.accepts(0.9, YES, 1)
    assert log.accepts(0.9, YES, 2)
    assert log.accepts(0.9, replace(YES, stamp=Stamp(1, 2)), 1)
    assert log.accepts(0.9, replace(YES, responder=NodeId(3)), 1)
    assert log.accepts(0.9, replace(YES, full_name_hash=8), 1)
    assert log.accepts(1.0, YES, 1)


@pytest.mark.parametrize("answers", [[YES, NO], [YES]])
def test_a_relay_may_answer_anew_but_not_for_ever(answers: list[SubscribeResponse]) -> None:
    log = ResponseLoopFilter(30.0)
    passed_on = [log.accepts(1.5 * turn, answers[turn % len(answers)], None) for turn in range(30)]
    assert sum(passed_on) == MAX_REPEATS


def test_what_is_old_is_forgotten() -> None:
    log = ResponseLoopFilter(30.0)
    log.accepts(0.0, YES, 1)
    log.accepts(10.0, replace(YES, full_name_hash=8), 1)
    assert log.accepts(30.0, replace(YES, full_name_hash=9), 1)
    assert len(log) == 2
    assert log.accepts(31.0, YES, 1)
    assert log.accepts(100.0, YES, 1)
    assert len(log) == 1


def test_not_more_is_kept_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_REMEMBERED", 3)
    log = ResponseLoopFilter(30.0)
    for number in range(9):
        log.accepts(1.0, replace(YES, full_name_hash=number), 1)
    assert len(log) == 3
