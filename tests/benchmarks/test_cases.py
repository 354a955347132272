"""The benchmark's cases run: what measures the code must not rot beside it."""

from __future__ import annotations

import cases
import pytest

CASES = cases.all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_runs_both_ways(case: cases.Case) -> None:
    assert case.encode is not None
    assert case.decode is not None
    case.encode()
    case.decode()
    assert case.size > 0


def test_rows_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 100
