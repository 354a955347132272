"""No answer goes round for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.core.network import passed
from laps_relay.core.network.passed import MAX_TURNS, PassedResponses
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeResponse

YES = SubscribeResponse(NodeId(1), 7, Stamp(1, 1), NodeId(2), SubscribeCode.ACCEPTED, "")
NO = replace(YES, code=SubscribeCode.ENDED)


def test_the_same_answer_does_not_pass_twice() -> None:
    passed = PassedResponses(30.0)
    assert passed.lets(0.0, YES)
    assert not passed.lets(1.0, YES)
    assert passed.lets(1.0, replace(YES, stamp=Stamp(1, 2)))
    assert passed.lets(1.0, replace(YES, responder=NodeId(3)))
    assert passed.lets(1.0, replace(YES, full_name_hash=8))


def test_a_relay_may_change_its_mind_but_not_for_ever() -> None:
    passed = PassedResponses(30.0)
    answers = [YES, NO] * MAX_TURNS
    assert sum(passed.lets(1.0, answer) for answer in answers) == MAX_TURNS


def test_what_is_old_is_forgotten() -> None:
    passed = PassedResponses(30.0)
    passed.lets(0.0, YES)
    passed.lets(10.0, replace(YES, full_name_hash=8))
    assert passed.lets(30.0, replace(YES, full_name_hash=9))
    assert len(passed) == 2
    assert passed.lets(31.0, YES)
    assert passed.lets(100.0, YES)
    assert len(passed) == 1


def test_not_more_is_kept_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed, "MAX_PASSED", 3)
    log = PassedResponses(30.0)
    for number in range(9):
        log.lets(1.0, replace(YES, full_name_hash=number))
    assert len(log) == 3
