"""The plane's benchmark runs: what measures the code must not rot beside it."""

from __future__ import annotations

import plane
import pytest

CASES = [case for case in plane.cases() if case.receivers == 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_runs(case: plane.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane, "OBJECTS", 60)
    assert plane.prepared(case)() >= 0
    assert plane.baseline() >= 0


def test_rows_have_names_of_their_own() -> None:
    names = [case.name for case in plane.cases()]
    assert len(set(names)) == len(names) > 10
