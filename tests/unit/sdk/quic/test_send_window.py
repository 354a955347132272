from __future__ import annotations

import pytest

from laps_sdk.quic.egress import SendWindow
from testkit.scripted_engine import ScriptedEngine


def test_the_window_less_the_backlog() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window = 1_000
    assert window.measure() == 1_000
    engine.held = {0: 400}
    assert window.measure() == 600
    engine.held = {0: 4_000}
    assert window.measure() == 0
    engine.window = 0
    assert window.measure(1.0) == 0
    assert window.recheck is None


def test_backlog_of_stalled_streams_does_not_count() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 4_000, 4: 100}
    window.stalled = 4_000
    assert window.measure() == 900


def test_backlog_that_stands_still_does_not_count_after_a_while() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 4_000}
    assert window.measure(1.0) == 0
    assert window.recheck == pytest.approx(1.1)
    assert window.measure(1.05) == 0
    engine.held = {0: 3_000}  # it moves: pacing
    assert window.measure(1.2) == 0
    assert window.measure(1.25) == 0
    assert window.measure(1.35) == 1_000
    assert window.recheck is None
    engine.held = {0: 3_000, 4: 300}
    assert window.measure() == 700
    engine.held = {}
    assert window.measure(1.4) == 1_000
    engine.held = {0: 3_000}
    assert window.measure(1.5) == 0


def test_an_engine_is_not_filled_without_end() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 1_000_000}
    assert window.measure(1.0) == 0
    assert window.measure(2.0) == 0
    assert window.recheck is not None


def test_what_was_given_last_may_be_stuck_too() -> None:
    """Nothing is in flight then, and no acknowledgement would make anybody look again."""
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 900}
    assert window.measure(1.0) == 100
    assert window.recheck is None
    engine.held = {0: 1_000}
    window.blocked(1.0)
    assert window.recheck == pytest.approx(1.1)
    window.blocked(1.05)
    assert window.recheck == pytest.approx(1.1)
    assert window.measure(1.1) == 1_000
