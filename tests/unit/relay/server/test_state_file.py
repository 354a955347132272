"""A restart is newer than what was there before, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.server.state_file import next_epoch
from laps_wire.nodeid import NodeId

NODE = NodeId(0x1_0000_0001)


def test_it_is_the_time_and_grows_also_if_the_clock_goes_back(tmp_path: Path) -> None:
    state = tmp_path / "made"
    assert next_epoch(state, NODE, 5_000) == (5_000, None)
    assert next_epoch(state, NODE, 5_000) == (5_001, None)
    assert next_epoch(state, NODE, 3_000) == (5_002, None)
    assert next_epoch(state, NODE, 9_000) == (9_000, None)
    assert next_epoch(state, NodeId(2), 100) == (100, None)


@pytest.mark.parametrize("text", ["", "x", "-5", str(1 << 62), "\u0663"])
def test_what_is_no_epoch_is_written_over(tmp_path: Path, text: str) -> None:
    next_epoch(tmp_path, NODE, 1)
    (file,) = tmp_path.iterdir()
    file.write_text(text, encoding="utf-8")
    assert next_epoch(tmp_path, NODE, 7) == (7, None)
    assert next_epoch(tmp_path, NODE, 6) == (8, None)


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    epoch, fault = next_epoch(tmp_path / "file", NODE, 7)
    assert epoch == 7
    assert "epoch-0000000100000001: " in str(fault)
