"""Top-N."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.ranking import Change, Ranking


def test_the_first_n_are_in() -> None:
    ranking = Ranking(2)
    assert ranking.update(1, 5) == Change(entered=1)
    assert ranking.update(2, 0) == Change(entered=2)
    assert ranking.update(3, 0) == Change()
    assert ranking.members == (1, 2)
    assert len(ranking) == 3
    assert 3 in ranking
    assert 4 not in ranking
    assert ranking.size == 2


def test_a_larger_value_displaces_the_smallest() -> None:
    ranking = Ranking(2)
    for track, value in ((1, 5), (2, 3), (3, 4)):
        ranking.update(track, value)
    assert ranking.members == (1, 3)
    assert ranking.update(2, 9) == Change(entered=2, left=3)
    assert ranking.members == (2, 1)


def test_equal_values_do_not_change_places() -> None:
    ranking = Ranking(1)
    ranking.update(1, 5)
    assert ranking.update(2, 5) == Change()
    assert ranking.update(1, 5) == Change()
    assert ranking.update(2, 6) == Change(entered=2, left=1)
    assert ranking.update(1, 6) == Change()


def test_of_equal_members_the_youngest_goes() -> None:
    ranking = Ranking(2)
    for track, value in ((1, 1), (2, 1), (3, 0)):
        ranking.update(track, value)
    assert ranking.update(3, 2) == Change(entered=3, left=2)


def test_a_member_that_sinks_goes() -> None:
    ranking = Ranking(1)
    ranking.update(1, 5)
    ranking.update(2, 4)
    assert ranking.update(1, 4) == Change()
    assert ranking.update(1, 3) == Change(entered=2, left=1)


def test_the_margin_holds_a_place() -> None:
    ranking = Ranking(1, margin=10)
    ranking.update(1, 100)
    assert ranking.update(2, 110) == Change()
    assert ranking.update(2, 111) == Change(entered=2, left=1)
    assert ranking.update(1, 115) == Change()


def test_a_track_that_goes_makes_room() -> None:
    ranking = Ranking(1)
    ranking.update(1, 5)
    ranking.update(2, 4)
    ranking.update(3, 6)
    assert ranking.remove(1) == Change()
    assert ranking.remove(1) == Change()
    assert ranking.remove(3) == Change(entered=2, left=3)
    assert ranking.remove(2) == Change(left=2)
    assert ranking.members == ()


def test_nobody_fits_into_a_top_of_none() -> None:
    ranking = Ranking(0)
    assert ranking.update(1, 5) == Change()
    assert ranking.update(1, 6) == Change()


def test_values_that_change_leave_nothing_behind() -> None:
    ranking = Ranking(1)
    ranking.update(1, 10**9)
    for value in range(10_000):
        ranking.update(2, value)
    assert len(ranking._heap) < 100


@given(
    st.integers(1, 4),
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 7), st.one_of(st.none(), st.integers(0, 9))), max_size=80),
)
def test_against_sorting(size: int, margin: int, steps: list[tuple[int, int | None]]) -> None:
    ranking = Ranking(size, margin)
    values: dict[int, int] = {}
    members: set[int] = set()
    for track, value in steps:
        if value is None:
            change = ranking.remove(track)
            values.pop(track, None)
        else:
            change = ranking.update(track, value)
            values[track] = value
        members -= {change.left}
        if change.entered is not None:
            members.add(change.entered)
        assert set(ranking.members) == members
        assert {each for each in values if ranking.in_top(each)} == members
        assert len(members) == min(size, len(values))
        outside = [values[other] for other in values if other not in members]
        lowest = min((values[member] for member in members), default=0)
        assert max(outside, default=0) <= lowest + margin


def test_the_cost_does_not_grow_with_n() -> None:
    """A member whose value changes all the time leaves nothing behind either."""
    ranking = Ranking(2)
    for track in range(5):
        ranking.update(track, 1000)
    for value in range(2000, 5000):
        ranking.update(0, value)
    assert len(ranking._floor) <= 2 * 2 + 64
    assert ranking.members[0] == 0
