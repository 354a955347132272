"""The same choice everywhere: values that were worked out by hand stay as they are."""

from __future__ import annotations

import itertools

from laps_sdk.peering.rendezvous import mixed


def test_bits_are_spread() -> None:
    assert mixed(0) == 0
    assert mixed(1) == 0x5692161D100B05E5
    assert mixed(1 << 64) == 0  # 64 bits count
    assert mixed(-1) == mixed((1 << 64) - 1)


def test_neighbours_are_far_apart() -> None:
    values = [mixed(number) for number in range(1000)]
    assert len(set(values)) == 1000
    apart = [(left ^ right).bit_count() for left, right in itertools.pairwise(values)]
    assert 28 < sum(apart) / len(apart) < 36
