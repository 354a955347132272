"""What can be in a group (moq-transport-16, 2.4.2)."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import PlaneLimits
from laps_sdk.forwarding.track import Group, Track
from laps_wire.moqt.data import MalformedTrackError
from testkit.plane import NAME, Net


def make(*seen: int) -> Group:
    group = Group(Track(1, NAME, None, PlaneLimits(), []), 5)
    for each in seen:
        group.seen.add(each)
    return group


def test_objects_that_can_exist() -> None:
    group = make(0, 1)
    group.end_at(4)
    group.end_at(4)
    group.finish_subgroup(2, 3)
    group.finish_subgroup(2, 3)
    group.leave_out(2, 2)
    group.check(4, 1)
    group.check(3, 2)
    group.check(4, None)


@pytest.mark.parametrize(
    ("object_id", "subgroup_id", "words"),
    [(9, 0, "group's last"), (4, 2, "subgroup's last"), (2, 0, "not to exist")],
)
def test_objects_that_cannot(object_id: int, subgroup_id: int, words: str) -> None:
    group = make(0)
    group.end_at(5)
    group.finish_subgroup(2, 3)
    group.leave_out(2, 2)
    with pytest.raises(MalformedTrackError, match=words):
        group.check(object_id, subgroup_id)


def test_ends_that_contradict() -> None:
    group = make(0, 7)
    with pytest.raises(MalformedTrackError, match="7 came"):
        group.end_at(6)
    group.end_at(7)
    with pytest.raises(MalformedTrackError, match="and at 7"):
        group.end_at(8)
    group.finish_subgroup(0, 3)
    with pytest.raises(MalformedTrackError, match="and at 3"):
        group.finish_subgroup(0, 4)
    with pytest.raises(MalformedTrackError, match="some came"):
        group.leave_out(5, 8)
    with pytest.raises(MalformedTrackError, match="below 0"):
        group.leave_out(-1, 3)


def test_completeness() -> None:
    group = make(0, 1, 4)
    assert not group.complete
    group.end_at(4)
    assert not group.complete
    group.leave_out(2, 3)
    assert group.complete


def test_what_is_known_to_be_absent() -> None:
    group = make(0)
    assert list(group.known_absent()) == []
    group.leave_out(2, 3)
    group.missing.add_range(3, 5)
    assert list(group.known_absent()) == [(2, 5)]
    group.end_at(9)
    assert list(group.known_absent()) == [(2, 5), (10, (1 << 62) - 1)]
    marked = make(0)
    marked.end_at(1, marked=True)
    assert list(marked.known_absent()) == [(1, (1 << 62) - 1)]


def test_the_ends_of_many_subgroups_are_bounded() -> None:
    group = make()
    for subgroup_id in range(3000):
        group.finish_subgroup(subgroup_id, subgroup_id)
    assert len(group.finals) == PlaneLimits().id_ranges
    with pytest.raises(MalformedTrackError):
        group.finish_subgroup(2999, 3000)


def test_who_is_gone_is_refused_nothing() -> None:
    net = Net()
    net.publisher()
    one, two = (net.plane._sessions[net.receiver()].receivers[0] for _ in range(2))
    group = make()
    group.refused = {0: {one}, 1: {one, two}}
    group.forget(one)
    assert group.refused == {1: {two}}


def test_only_so_many_subgroups_are_known_to_be_broken_off() -> None:
    group = Group(Track(1, NAME, None, PlaneLimits(id_ranges=2), []), 5)
    for subgroup_id in (1, 2, 1, 3):
        group.break_off(subgroup_id)
    assert list(group.broken) == [2, 3]
