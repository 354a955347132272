"""A choice is held until another one was better for long enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.steering.steering_records import Flow, Group
from laps_relay.network.steering.via_choice import Choice, Pick
from laps_wire.nodeid import NodeId

HOLD = 10.0
ONE: Choice = (Pick(NodeId(1)),)
TWO: Choice = (Pick(NodeId(2)),)
SOME: Choice = (Pick(NodeId(1), frozenset({NodeId(7)})),)


def test_what_is_better_for_long_enough_is_taken() -> None:
    group = Group()
    for now in (0.0, 9.9):
        group.aim_at(now, ONE, HOLD)
        assert (group.choice, group.pending) == ((), ONE)
    group.aim_at(10.0, ONE, HOLD)
    assert (group.choice, group.pending) == (ONE, None)


def test_a_break_begins_the_wait_anew() -> None:
    group = Group()
    group.aim_at(0.0, ONE, HOLD)
    group.aim_at(5.0, (), HOLD)
    assert group.pending is None
    group.aim_at(6.0, ONE, HOLD)
    group.aim_at(10.0, ONE, HOLD)
    assert group.choice == ()
    group.aim_at(16.0, ONE, HOLD)
    assert group.choice == ONE


def test_a_third_choice_waits_from_the_beginning_but_other_targets_do_not_count() -> None:
    group = Group()
    group.aim_at(0.0, ONE, HOLD)
    group.aim_at(4.0, TWO, HOLD)
    assert group.since == 4.0
    group.aim_at(6.0, ONE, HOLD)
    # The same Via for some of the targets only is the same wait.
    group.aim_at(9.0, SOME, HOLD)
    assert (group.pending, group.since) == (SOME, 6.0)
    group.aim_at(16.0, SOME, HOLD)
    assert group.choice == SOME


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.sampled_from([(), ONE, TWO])), max_size=20))
def test_a_choice_changes_at_most_once_in_the_time(steps: list[tuple[float, Choice]]) -> None:
    group, now, changed = Group(), 0.0, float("-inf")
    for wait, aim in steps:
        now += wait
        before = group.choice
        group.aim_at(now, aim, HOLD)
        if group.choice != before:
            assert group.choice == aim
            assert now >= changed + HOLD
            changed = now


def test_a_track_begins_with_nothing() -> None:
    flow = Flow()
    assert (flow.targets, flow.scope, flow.groups, flow.next_hop) == ((), "", {}, {})
