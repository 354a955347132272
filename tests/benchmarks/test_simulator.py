"""The simulator's benchmark runs: what measures the code must not rot beside it."""

from __future__ import annotations

import simulator


def test_a_network_is_measured() -> None:
    row = simulator.network(4)
    assert row.number >= 4
    assert row.links >= 3
    assert row.breaks == 0
    assert row.events > 100
    assert row.cpu > 0
    assert row.memory_kib > 1000
    assert len(row.cells()) == len(simulator.HEADS)


def test_a_table_of_subscribes_is_measured() -> None:
    (row,) = simulator.rows((), (300,))
    assert (row.what, row.number, row.events, row.links) == ("subscribes", 300, 600, 0)
    assert row.cpu > 0
    cells = row.cells()
    assert cells[0] == "300 subscribes"
    assert len(cells) == len(simulator.HEADS)
