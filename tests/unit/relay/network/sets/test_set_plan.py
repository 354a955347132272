"""Which sets are changed in place, and which are replaced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.sets.set_plan import Step, plan
from laps_wire.nodeid import NodeId

NODES = [NodeId(number) for number in range(1, 7)]
HOMES = st.dictionaries(st.sampled_from(NODES), st.integers(1, 3))
SOME = st.frozensets(st.sampled_from(NODES))


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


NONE = ids()


def test_targets_that_come_and_go() -> None:
    steps = plan({1: ids(1, 2), 2: ids(3)}, {1: ids(1, 4), 3: ids(5)}, wanted=NONE, moved=NONE)
    assert steps == [
        Step(1, ids(1, 4), False, NONE),
        Step(2, NONE, False, NONE),
        Step(3, NONE, False, ids(5)),
    ]


def test_nothing_to_do() -> None:
    same = {1: ids(1, 2)}
    assert plan(same, same, wanted=ids(1, 2), moved=NONE) == []
    assert plan({1: NONE}, {1: NONE}, wanted=NONE, moved=NONE) == []


def test_a_target_that_moves_replaces_both_sets() -> None:
    """The figure of laps-2, 6.3."""
    steps = plan({1: ids(1, 2), 2: ids(3)}, {1: ids(2), 2: ids(1, 3)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(1, ids(1, 2), True, ids(2)), Step(2, ids(3), True, ids(1, 3))]


def test_the_last_target_of_a_set_moves_while_another_goes() -> None:
    steps = plan({1: ids(1, 2)}, {2: ids(1)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(1, ids(1), True, NONE), Step(2, NONE, False, ids(1))]


def test_a_target_that_arrives_where_all_others_have_gone() -> None:
    steps = plan({2: ids(3)}, {2: ids(1)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(2, NONE, False, ids(1))]


def test_everything_anew() -> None:
    same = {1: ids(1), 2: ids(2)}
    assert plan(same, same, wanted=ids(1, 2), moved=NONE, renew=True) == [
        Step(1, ids(1), True, ids(1)),
        Step(2, ids(2), True, ids(2)),
    ]


def by_session(homes: dict[NodeId, int]) -> dict[int, frozenset[NodeId]]:
    return {
        session: frozenset(node for node, home in homes.items() if home == session)
        for session in homes.values()
    }


@given(before=HOMES, after=HOMES, wanted=SOME, came_back=SOME, renew=st.booleans())
def test_what_holds_for_every_plan(
    before: dict[NodeId, int],
    after: dict[NodeId, int],
    wanted: frozenset[NodeId],
    came_back: frozenset[NodeId],
    renew: bool,
) -> None:
    moved = came_back | {node for node in after if before.get(node, after[node]) != after[node]}
    old, new = by_session(before), by_session(after)
    steps = plan(old, new, wanted=wanted, moved=moved, renew=renew)
    assert [step.session for step in steps] == sorted({step.session for step in steps})
    begins = dict(old)  # with what streams begin from now on
    for step in steps:
        was, is_to_be = old.get(step.session, NONE), new.get(step.session, NONE)
        goes_on = NONE if step.retire else step.keep
        begins[step.session] = step.make or goes_on
        # The set that is there loses exactly those that nobody wants here.
        if was and (step.retire or step.make or not step.keep):
            assert was - step.keep == (was - is_to_be) - wanted
        # Who changes its place, or comes back to one, is not added in place.
        assert not (goes_on - was) & moved
        assert not (step.make and goes_on)
    assert {session: nodes for session, nodes in begins.items() if nodes} == new
    # Nobody who is still wanted is cut off.
    for node in wanted & before.keys():
        assert all(node in each.keep for each in steps if each.session == before[node])
