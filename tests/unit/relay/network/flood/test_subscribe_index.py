from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from laps_relay.network.flood.subscribe_index import SubscribeIndex

elements = st.lists(st.integers(0, 2), max_size=3).map(tuple)
pairs = st.tuples(elements, st.integers(0, 3), st.integers(0, 2))


@given(st.lists(st.tuples(st.booleans(), pairs), max_size=40), elements)
def test_it_is_a_set_of_pairs(
    steps: list[tuple[bool, tuple[tuple[int, ...], int, int]]], prefix: tuple[int, ...]
) -> None:
    index: SubscribeIndex[int] = SubscribeIndex()
    model: set[tuple[tuple[int, ...], int, int]] = set()
    for add, pair in steps:
        if add:
            assert index.add(*pair) is (pair not in model)
            model.add(pair)
        else:
            assert index.remove(*pair) is (pair in model)
            model.discard(pair)
    assert len(index) == len(model)
    below = sorted(index.below(prefix))
    assert below == sorted(
        (key, value) for space, key, value in model if space[: len(prefix)] == prefix
    )
    for key in range(4):
        assert sorted(index.track(prefix, key)) == sorted(
            value for space, other, value in model if (space, other) == (prefix, key)
        )
    for pair in sorted(model):
        index.remove(*pair)
    assert index._root.children is None
    assert index._root.tracks is None


def test_order_is_the_order_of_arrival() -> None:
    index: SubscribeIndex[int] = SubscribeIndex()
    for space in ((2,), (1,), (1, 5), ()):
        for value in (9, 3, 7):
            index.add(space, 4, value)
    assert index.track((1,), 4) == (9, 3, 7)
    assert [value for _, value in index.below(())] == [9, 3, 7] * 4
    assert index.track((1, 2), 4) == ()
    assert index.track((1,), 5) == ()
    assert index.track((), 4) == (9, 3, 7)
