from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from testkit.measuring import Measuring


class Coverage:
    """Writes down what it is told, and how many examples there had been."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.examples: list[Any] = []

    def stop(self) -> None:
        self.told.append(("stop", len(self.examples)))

    def start(self) -> None:
        self.told.append(("start", len(self.examples)))

    def switch_context(self, name: str) -> None:
        self.told.append((name, len(self.examples)))


def item(test: object = None, *marks: str, file: str = "tests/test_it.py") -> pytest.Item:
    return cast(
        "pytest.Item",
        SimpleNamespace(
            nodeid=f"{file}::test",
            obj=test,
            get_closest_marker=dict.fromkeys(marks, True).get,
        ),
    )


def property_of(seen: list[Any]) -> Any:
    @settings(max_examples=12, derandomize=True, database=None)
    @given(st.binary(min_size=1))
    def a_property(data: bytes) -> None:
        seen.append(data)

    return a_property


def test_a_file_is_a_context() -> None:
    coverage = Coverage()
    measuring = Measuring(coverage)
    for file in ("a.py", "a.py", "b.py"):
        measuring.begin(item(file=file))
        measuring.end()
    assert coverage.told == [("a.py", 0), ("b.py", 0)]


def test_the_first_examples_are_traced_and_the_same_as_ever() -> None:
    plain: list[Any] = []
    property_of(plain)()
    coverage = Coverage()
    measuring = Measuring(coverage, traced=4)
    test = property_of(coverage.examples)
    for runs in (1, 2):  # a test with parameters is one function, and counts from 0 each time
        measuring.begin(item(test))
        test()
        measuring.end()
        assert coverage.examples == plain * runs
    assert len(plain) == 12
    assert coverage.told == [
        ("tests/test_it.py", 0),
        ("stop", 4),
        ("start", 12),
        ("stop", 16),
        ("start", 24),
    ]


def test_what_is_marked_is_not_traced_at_all() -> None:
    coverage = Coverage()
    measuring = Measuring(coverage, traced=4)
    test = property_of(coverage.examples)
    measuring.begin(item(test, "untraced"))
    test()
    measuring.end()
    assert coverage.told == [("tests/test_it.py", 0), ("stop", 0), ("start", 12)]


def test_state_machines_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuleBasedStateMachine, "__init__", RuleBasedStateMachine.__init__)
    coverage = Coverage()
    measuring = Measuring(coverage, traced=2)
    measuring.count_machines()

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            coverage.examples.append(self)

        @rule()
        def step(self) -> None:
            pass

    measuring.begin(item())
    run_state_machine_as_test(Machine, settings=settings(max_examples=5, database=None))
    measuring.end()
    assert coverage.told == [
        ("tests/test_it.py", 0),
        ("stop", 2),
        ("start", len(coverage.examples)),
    ]
    assert len(coverage.examples) > 2
