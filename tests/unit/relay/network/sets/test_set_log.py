"""What telemetry is told of sets: differences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.events import SetChanged, SetGone
from laps_relay.network.sets.set_log import SetLog
from laps_wire.nodeid import NodeId

A, B, C = NodeId(1), NodeId(2), NodeId(3)


def test_a_set_is_told_when_it_is_made_and_when_its_targets_change() -> None:
    log = SetLog()
    made = log.changed(7, 1, [B, A], incoming=False, key=99)
    assert made == SetChanged(
        session=7, sns_id=1, incoming=False, added=(A, B), removed=(), members=2, key=99
    )
    assert log.changed(7, 1, (A, B), incoming=False) is None
    assert log.changed(7, 1, (B, C), incoming=False) == SetChanged(
        session=7, sns_id=1, incoming=False, added=(C,), removed=(A,), members=2, key=99
    )
    assert len(log) == 1


def test_the_end_of_a_set_tells_what_it_had() -> None:
    log = SetLog()
    log.changed(7, 1, (B, A), incoming=True)
    log.changed(7, 1, (C,), incoming=False, key=5)
    assert log.gone(7, 1, incoming=True) == SetGone(
        session=7, sns_id=1, incoming=True, removed=(A, B)
    )
    assert log.gone(7, 1, incoming=True) is None
    assert log.gone(7, 1, incoming=False) == SetGone(
        session=7, sns_id=1, incoming=False, removed=(C,), key=5
    )
    assert (log.gone(8, 1, incoming=False), len(log)) == (None, 0)


def test_a_session_takes_its_sets_with_it() -> None:
    log = SetLog()
    log.changed(7, 2, (A,), incoming=True)
    log.changed(7, 1, (B,), incoming=False)
    log.changed(8, 1, (C,), incoming=False)
    gone = log.session_gone(7)
    assert [(each.sns_id, each.incoming) for each in gone] == [(1, False), (2, True)]
    assert (log.session_gone(7), len(log)) == ([], 1)


@given(st.lists(st.frozensets(st.integers(1, 6), min_size=1), max_size=12))
def test_added_and_removed_lead_from_each_state_to_the_next(states: list[frozenset[int]]) -> None:
    log, had = SetLog(), frozenset[NodeId]()
    for state in states:
        targets = frozenset(NodeId(number) for number in state)
        news = log.changed(1, 1, targets, incoming=False)
        if news is None:
            assert targets == had
            continue
        assert not had & set(news.added)
        had = had - frozenset(news.removed) | frozenset(news.added)
        assert (had, news.members) == (targets, len(targets))
