"""Who is set aside: few, and never half of a network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_analytics.plan.core.trust import MIN_RELAYS, excluded_relays, max_excluded

NAMES = [f"0.1:0.{number}" for number in range(1, 121)]
A, B, C, D, E = NAMES[:5]


def links(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    return [("link_bytes", f"{a}>{b}") for a, b in pairs]


@pytest.mark.parametrize(
    ("relays", "most"),
    [(1, 0), (MIN_RELAYS - 1, 0), (MIN_RELAYS, 1), (99, 1), (100, 2), (1000, 20)],
)
def test_how_many_may_be_wrong(relays: int, most: int) -> None:
    assert max_excluded(relays) == most


def test_who_contradicts_the_others_is_set_aside() -> None:
    assert excluded_relays([], NAMES) == frozenset()
    assert excluded_relays(links((A, B), (C, A), (A, D), (D, A)), NAMES[:50]) == frozenset({A})
    assert excluded_relays([("late", A), *links((A, B))], NAMES[:50]) == frozenset({A})
    # It may say so of itself.
    assert excluded_relays([*links((A, A)), *links((A, B), (A, C))], NAMES[:50]) == frozenset({A})


def test_two_that_contradict_only_each_other_are_both() -> None:
    assert excluded_relays(links((A, B), (B, A)), NAMES[:50]) == frozenset({A, B})
    assert excluded_relays(links((A, B), (C, D)), NAMES[:50]) is None
    assert excluded_relays(links((A, B), (C, D)), NAMES[:100]) == frozenset({A, B, C, D})


def test_too_many_or_nobody_stops() -> None:
    assert excluded_relays([("clock", A)], NAMES[: MIN_RELAYS - 1]) is None
    assert excluded_relays([("clock", A), ("late", B)], NAMES[:50]) is None
    assert excluded_relays([("quarantine", "unknown")], NAMES) is None
    assert excluded_relays(links((A, "0.9:0.9")), NAMES) is None
    # A ring in which all contradict two others: nobody knows who is wrong.
    assert excluded_relays(links((A, B), (B, C), (C, D), (D, A)), NAMES[:50]) is None


@given(
    liar=st.sampled_from(NAMES[:50]),
    others=st.lists(st.sampled_from(NAMES[:50]), min_size=2, max_size=20, unique=True),
)
def test_one_liar_never_takes_an_honest_relay_with_it(liar: str, others: list[str]) -> None:
    honest = [name for name in others if name != liar]
    found = excluded_relays(links(*((liar, name) for name in honest)), NAMES[:50])
    assert found is not None
    assert liar in found
    assert len(found) == (1 if len(honest) > 1 else 2)
