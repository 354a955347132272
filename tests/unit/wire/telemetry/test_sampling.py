from __future__ import annotations

import pytest

from laps_wire.telemetry import is_sampled

TRACK = 0x1F0E_3DAD_9990_8345


def chosen(one_in: int, track: int = TRACK, groups: int = 20_000) -> set[int]:
    return {group for group in range(groups) if is_sampled(track, group, one_in)}


def test_none_and_all() -> None:
    assert chosen(0, groups=100) == set()
    assert chosen(-1, groups=100) == set()
    assert chosen(1, groups=100) == set(range(100))


@pytest.mark.parametrize("one_in", [2, 10, 100])
def test_as_many_as_were_asked_for(one_in: int) -> None:
    expected = 20_000 / one_in
    assert 0.75 * expected < len(chosen(one_in)) < 1.25 * expected


def test_who_takes_more_takes_those_too() -> None:
    assert chosen(1000) <= chosen(100) <= chosen(99) <= chosen(7)


def test_tracks_are_sampled_apart() -> None:
    assert len(chosen(10) & chosen(10, TRACK + 1)) < 400
    assert len(chosen(10) & {group - 1 for group in chosen(10)}) < 400


def test_the_choice_never_changes() -> None:
    # Relays of different versions must agree.
    assert sorted(chosen(100, groups=400)) == [67, 85, 93, 198, 271, 309, 328, 361, 383]


def test_any_number_will_do() -> None:
    assert is_sampled((1 << 64) - 1, (1 << 64) - 1, 3) in (True, False)
