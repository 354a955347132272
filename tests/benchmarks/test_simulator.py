"""The simulator's benchmark runs: what measures the code must not rot beside it."""

from __future__ import annotations

import simulator


def test_a_network_is_measured() -> None:
    row = simulator.run(4)
    assert row.relays >= 4
    assert row.breaks == 0
    assert row.events > 100
    assert row.cpu > 0
    assert row.rss_kib > 1000
