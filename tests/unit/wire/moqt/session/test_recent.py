from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_wire.moqt.session.tables import Recent


def test_the_oldest_is_forgotten() -> None:
    recent: Recent[str] = Recent(2)
    recent.put(1, "a")
    recent.put(2, "b")
    recent.put(3, "c")
    assert [recent.get(key) for key in (1, 2, 3)] == [None, "b", "c"]


def test_what_is_put_again_is_young_again() -> None:
    recent: Recent[str] = Recent(2)
    recent.put(1, "a")
    recent.put(2, "b")
    recent.put(1, "z")
    recent.put(3, "c")
    assert [recent.get(key) for key in (1, 2, 3)] == ["z", None, "c"]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_it_holds_the_latest_and_no_more(keys: list[int], limit: int) -> None:
    recent: Recent[int] = Recent(limit)
    for age, key in enumerate(keys):
        recent.put(key, age)
        assert len(recent) <= limit
    latest = list(dict.fromkeys(reversed(keys)))[:limit]
    for key in range(10):
        assert (recent.get(key) is not None) == (key in latest)
