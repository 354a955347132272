from __future__ import annotations

import pytest
from fastapi import HTTPException

from laps_relay.admin.paging import paged
from laps_relay.admin.views import LazyRows


def test_some_rows_of_a_table() -> None:
    assert paged([1, 2, 3, 4], 2, 1, 10, str) == {
        "total": 4,
        "offset": 1,
        "limit": 2,
        "items": ["2", "3"],
    }
    assert paged([1], None, 5, 10, str)["items"] == []
    assert paged(range(200), None, 0, 1000, str)["limit"] == 100


def test_only_the_rows_of_a_page_are_made() -> None:
    made = []

    def rows(part: slice) -> list[int]:
        made.append((part.start, part.stop))
        return list(range(part.start, part.stop))

    table = LazyRows(1_000_000, rows)
    assert paged(table, 2, 500_000, 10, str) == {
        "total": 1_000_000,
        "offset": 500_000,
        "limit": 2,
        "items": ["500000", "500001"],
    }
    assert paged(table, 2, 2_000_000, 10, str)["items"] == []
    assert (table[7], table[-1]) == (7, 999_999)
    assert made == [(500_000, 500_002), (1_000_000, 1_000_000), (7, 8), (999_999, 1_000_000)]
    small = LazyRows(4, lambda part: range(4)[part])
    assert (list(small), list(small[::2]), list(reversed(small))) == (
        [0, 1, 2, 3],
        [0, 2],
        [3, 2, 1, 0],
    )
    with pytest.raises(IndexError):
        small[4]


def test_more_than_an_answer_holds() -> None:
    with pytest.raises(HTTPException, match="at most 3"):
        paged([1], 4, 0, 3, str)
