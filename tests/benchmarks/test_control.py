"""The control server's benchmark runs: what measures the code must not rot beside it."""

from __future__ import annotations

import control
import pytest


@pytest.mark.parametrize("traced", [False, True])
def test_a_size_runs(traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "EDGES", 5)
    row = control.run(600, traced=traced)
    assert row.subscribes == 600
    assert (row.traced_bytes > 100) is traced
    assert min(row.decode_us, row.insert_us, row.flush_us, row.withdraw_us) >= 0
