from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.sim.runner import Figures, Outcome, peak_memory, program_memory, run_seeds


@pytest.fixture
def workers_find_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that starts anew imports this module by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4]))


def outcome(seed: int, relays: int, memory: float) -> Outcome:
    return Outcome(
        seed=seed, topology="t", relays=relays, links=relays, cpu=2.0, memory=memory, program=40.0
    )


def played(seed: int) -> Outcome:
    """What a worker process does, without a network."""
    before = program_memory()
    held = bytearray(b"x") * (seed * 30 * 1024 * 1024)
    assert held
    return Outcome(
        seed=seed, topology="t", relays=10, links=9, memory=peak_memory(), program=before
    )


def test_memory_is_that_of_the_process_that_needed_the_most() -> None:
    figures = Figures.of([outcome(1, 10, 60.0), outcome(2, 30, 100.0), outcome(3, 20, 50.0)])
    assert (figures.memory, figures.grown, figures.largest) == (100.0, 60.0, 30)
    assert figures.memory_per_relay == 2.0
    assert figures.cpu_per_relay == 0.1
    rows = dict(figures.rows())
    assert rows["memory of a process at most"] == "100 MiB"
    assert rows["memory for each relay"] == "2048 KiB"
    assert rows["CPU for each relay"] == "100.0 ms"
    assert figures.as_dict()["memory_per_relay"] == 2.0


def test_nothing_was_run() -> None:
    assert Figures().memory_per_relay == 0.0
    assert Figures().cpu_per_relay == 0.0


@pytest.mark.usefixtures("workers_find_tests")
def test_workers_say_what_they_needed() -> None:
    figures = Figures.of(run_seeds([1, 2], played, jobs=2))
    assert figures.seeds == 2
    assert figures.grown > 30.0
    assert program_memory() <= peak_memory()


@pytest.mark.usefixtures("workers_find_tests")
def test_a_large_parent_does_not_hide_what_its_workers_need() -> None:
    held = bytearray(b"x") * (400 * 1024 * 1024)
    figures = Figures.of(run_seeds([1, 2], played, jobs=2))
    assert held
    assert 30.0 < figures.grown < 200.0
    assert figures.memory < 350.0
