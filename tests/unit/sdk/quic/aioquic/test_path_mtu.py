from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE, PathMtu


def search(mtu: PathMtu, path: int) -> list[int]:
    """Probe until nothing more is asked for, on a path that takes packets up to ``path``."""
    probed = []
    while (size := mtu.probe()) is not None:
        mtu.sent(size)
        assert mtu.probe() is None  # one at a time
        probed.append(size)
        if size <= path:
            mtu.acked(size)
        else:
            mtu.lost(size)
        assert len(probed) < 100
    return probed


def test_the_target_is_tried_first_and_one_answer_is_enough() -> None:
    mtu = PathMtu(1452)
    assert mtu.size == BASE_SIZE
    assert search(mtu, 1472) == [1452]
    assert mtu.size == 1452


def test_a_smaller_path_is_found_by_halving() -> None:
    mtu = PathMtu(1452)
    probed = search(mtu, 1400)
    assert probed[:4] == [1452, 1452, 1452, 1326]
    assert 1380 <= mtu.size <= 1400


@given(target=st.integers(1200, 9000), path=st.integers(1200, 9000))
def test_the_search_ends_just_below_what_the_path_takes(target: int, path: int) -> None:
    mtu = PathMtu(target)
    search(mtu, path)
    assert mtu.size <= min(target, path)
    assert mtu.size >= min(target, path) - 20


def test_a_target_below_the_base_needs_no_probe() -> None:
    mtu = PathMtu(600)
    assert mtu.probe() is None
    assert mtu.size == BASE_SIZE


def test_one_lost_probe_is_not_enough() -> None:
    mtu = PathMtu(1452)
    for _ in range(2):
        mtu.sent(1452)
        assert not mtu.lost(1452)
    assert mtu.probe() == 1452
    mtu.sent(1452)
    assert mtu.acked(1452)
    assert mtu.size == 1452


def test_a_suspicion_that_proves_wrong_changes_nothing() -> None:
    mtu = PathMtu(1452)
    search(mtu, 1472)
    mtu.suspect()
    assert mtu.probe() == 1452
    mtu.sent(1452)
    assert not mtu.acked(1452)
    assert (mtu.size, mtu.probe()) == (1452, None)


def test_a_black_hole_goes_back_to_the_base_and_looks_below() -> None:
    mtu = PathMtu(1452)
    search(mtu, 1472)
    mtu.suspect()
    changes = []
    for _ in range(3):
        mtu.sent(1452)
        changes.append(mtu.lost(1452))
    assert changes == [False, False, True]
    assert mtu.size == BASE_SIZE
    probed = search(mtu, 1300)
    assert max(probed) < 1452
    assert 1280 <= mtu.size <= 1300


def test_at_the_base_there_is_nothing_to_suspect() -> None:
    mtu = PathMtu(1200)
    mtu.suspect()
    assert mtu.probe() is None
    assert not mtu.shrink()


@pytest.mark.parametrize("arrived", [True, False])
def test_a_probe_of_a_path_that_was_left_counts_for_nothing(arrived: bool) -> None:
    mtu = PathMtu(1452)
    mtu.sent(1452)
    mtu.reset()
    assert not (mtu.acked(1452) if arrived else mtu.lost(1452))
    assert mtu.size == BASE_SIZE
    assert mtu.probe() == 1452
