from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.misbehaviour import (
    MAX_VIOLATIONS,
    PERIOD,
    RecentWithdrawals,
    ViolationCounter,
)
from laps_wire.nodeid import NodeId

P, Q = NodeId(1), NodeId(2)
X, Y, Z = NodeId(7), NodeId(8), NodeId(9)


def test_more_than_a_number_within_a_minute_are_too_many() -> None:
    lies = ViolationCounter()
    assert [lies.add(0.0, 1) for _ in range(MAX_VIOLATIONS + 2)] == [False] * MAX_VIOLATIONS + [
        True
    ] * 2
    assert not lies.add(0.0, 2)
    lies.forget(1)
    lies.forget(1)
    assert not lies.add(0.0, 1)


@given(st.lists(st.floats(0, 2 * PERIOD), max_size=80).map(sorted))
def test_what_is_long_ago_does_not_count(times: list[float]) -> None:
    lies = ViolationCounter()
    for at, now in enumerate(times):
        recent = [time for time in times[: at + 1] if time > now - PERIOD]
        assert lies.add(now, 1) == (len(recent) > MAX_VIOLATIONS)


def test_what_was_taken_back_may_be_believed_for_a_while() -> None:
    told = RecentWithdrawals(30.0)
    told.add(100.0, P, (X, Y))
    assert told.recent(100.0, P, X)
    assert not told.recent(100.0, Q, X)
    assert not told.recent(100.0, P, Z)
    told.add(120.0, P, (X,))
    assert told.recent(129.9, P, Y)
    assert not told.recent(130.0, P, Y)
    assert told.recent(149.9, P, X)
    told.add(130.0, Q, ())
    assert len(told) == 1
    told.add(200.0, Q, (Z,))
    assert len(told) == 1


def test_who_takes_back_more_than_can_be_kept_suspects_nobody() -> None:
    told = RecentWithdrawals(30.0, most=2)
    told.add(100.0, P, (X, Y))
    assert not told.recent(100.0, Q, X)
    told.add(101.0, P, (Z,))
    assert len(told) == 2
    assert told.recent(130.9, P, X)
    assert told.recent(130.9, Q, X)
    assert not told.recent(131.0, Q, X)
