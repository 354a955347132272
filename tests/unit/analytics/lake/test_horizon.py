from __future__ import annotations

from pathlib import Path

from laps_analytics.lake import Horizon, Lake, horizon_of, move_horizon


def test_a_lake_from_which_nothing_was_removed_takes_all(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    assert horizon_of(lake) == Horizon()
    assert horizon_of(lake).accepted_from is None


def test_a_horizon_is_one_commit_and_never_moves_back(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    first = Horizon(bronze="2026-11-10", silver="2026-10-18", gold="2024-11-17")
    for _ in range(2):
        move_horizon(lake, first)
    assert horizon_of(Lake.open(lake.root)) == first
    assert lake.table("_retention").snapshot().version == 1
    other = Horizon(bronze="2026-11-09", silver="2026-10-20")
    moved = Horizon(bronze="2026-11-10", silver="2026-10-20", gold="2024-11-17")
    assert first.moved(other) == moved


def test_events_are_taken_from_two_hours_after_what_is_kept() -> None:
    """The hour before, and its neighbour, are needed whole for clocks that were wrong."""
    assert Horizon(bronze="2026-11-10").accepted_from == ("2026-11-10", "02")
    late = Horizon(bronze="2026-11-10", silver="2026-11-12")
    assert late.accepted_from == ("2026-11-12", "02")
