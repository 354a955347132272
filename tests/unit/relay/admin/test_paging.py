from __future__ import annotations

import pytest
from fastapi import HTTPException

from laps_relay.admin.paging import paged


def test_some_rows_of_a_table() -> None:
    assert paged([1, 2, 3, 4], 2, 1, 10, str) == {
        "total": 4,
        "offset": 1,
        "limit": 2,
        "items": ["2", "3"],
    }
    assert paged([1], None, 5, 10, str)["items"] == []
    assert paged(range(200), None, 0, 1000, str)["limit"] == 100


def test_more_than_an_answer_holds() -> None:
    with pytest.raises(HTTPException, match="at most 3"):
        paged([1], 4, 0, 3, str)
