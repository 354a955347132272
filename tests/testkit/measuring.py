"""What coverage has to look at, and what it need not: tracing makes Python three times as slow.

Each test file is a context of its own, so that a module can be held to its own test file. Of a
property the first examples are traced, and what follows runs at full speed: they go where the first
ones went, or they show what coverage is not there to show. A test that is marked ``untraced`` runs
at full speed from its beginning.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

TRACED_EXAMPLES = 10
"""Raise it when lines of a property's own module are reached by later examples alone."""


class Measuring:
    """The running coverage of this process, told whose tests run and when enough was seen."""

    def __init__(self, coverage: Any, traced: int = TRACED_EXAMPLES) -> None:
        self._coverage = coverage
        self._traced = traced
        self._context = ""
        self._examples = 0
        self._paused = False

    def example(self) -> None:
        """One more example of the property that runs begins here."""
        self._examples += 1
        if self._examples == self._traced + 1:
            self._pause()

    def leave_to_workers(self) -> None:
        """In the process that only hands out tests and shows what became of them."""
        self._coverage.stop()

    def begin(self, item: pytest.Item) -> None:
        """Before a test. To change the context writes all that was seen: not for each test."""
        file = item.nodeid.partition("::")[0]
        if file != self._context:
            self._coverage.switch_context(file)
            self._context = file
        if item.get_closest_marker("untraced"):
            self._pause()
        self._examples = 0
        self._count_examples_of(getattr(item, "obj", None))

    def end(self) -> None:
        """After a test: the next one is seen from its first line."""
        if self._paused:
            self._coverage.start()
            self._paused = False

    def _pause(self) -> None:
        if not self._paused:
            self._coverage.stop()
            self._paused = True

    def _count_examples_of(self, test: object) -> None:
        handle = getattr(test, "hypothesis", None)
        inner = getattr(handle, "inner_test", None)
        if handle is None or inner is None or hasattr(inner, "counts_examples"):
            return
        if not inspect.iscoroutinefunction(inner):  # those are wrapped by who runs them
            handle.inner_test = self._counted(inner)

    def count_machines(self) -> None:
        """A state machine is made anew for each example."""
        RuleBasedStateMachine.__init__ = self._counted(  # type: ignore[method-assign]
            RuleBasedStateMachine.__init__
        )

    def _counted(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)  # Hypothesis derives its seed from the source and the signature
        def counted(*arguments: Any, **named: Any) -> Any:
            self.example()
            return inner(*arguments, **named)

        counted.counts_examples = True  # type: ignore[attr-defined]
        return counted


def measuring() -> Measuring | None:
    """For this process, if it is measured."""
    coverage = sys.modules.get("coverage")
    running = coverage.Coverage.current() if coverage else None
    if running is None:
        return None
    measured = Measuring(running)
    measured.count_machines()
    return measured
