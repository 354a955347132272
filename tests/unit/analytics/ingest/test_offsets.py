from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from laps_analytics.ingest.offsets import Link, solve


def links(errors: dict[str, int], ways: list[tuple[str, str]], delay: int = 10_000) -> list[Link]:
    return [Link(a, b, errors[b] - errors[a] + delay, 10, 2 * delay) for a, b in ways]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=9), st.booleans())
def test_differences_of_clocks_are_found(errors: list[int], both: bool) -> None:
    truth = {f"r{index}": error for index, error in enumerate(errors)}
    names = list(truth)
    ways = [*pairwise(names)]
    if both:
        ways += [(b, a) for a, b in ways]
    found = solve(links(truth, ways))
    for a, b in pairwise(names):
        wanted = truth[b] - truth[a]
        assert abs(found[b].offset_us - found[a].offset_us - wanted) <= 2


def test_one_broken_clock_moves_nobody_else() -> None:
    truth = {"a": 0, "b": 0, "c": 0, "d": 7_200_000_000}
    ways = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "c")]
    found = solve(links(truth, ways))
    assert {name: offset.offset_us for name, offset in found.items()} == truth
    assert found["b"].pairs == 40


def test_without_a_way_back_or_a_round_trip_nothing_is_known() -> None:
    assert solve([Link("a", "b", 5_000, 3)]) == {}
    parts = solve([*links({"a": 0, "b": 9}, [("a", "b")]), *links({"c": 4, "d": 4}, [("c", "d")])])
    assert set(parts) == {"a", "b", "c", "d"}
    assert parts["c"].offset_us == parts["d"].offset_us == 0
