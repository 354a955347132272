"""What a relay remembers of plans over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.server.parts import StartError
from laps_relay.server.plan_memory import Followed, PlanMemory
from laps_wire.nodeid import NodeId

ROWS = {"world": Followed(7, "ab" * 32), "\u00e9": Followed(2, "")}


def test_what_is_kept_is_read_again_and_nodes_do_not_share_it(tmp_path: Path) -> None:
    memory = PlanMemory.of(tmp_path / "made", NodeId(1))
    assert memory.load() == {}
    assert memory.save(ROWS) is None
    assert memory.load() == ROWS
    assert PlanMemory.of(tmp_path / "made", NodeId(2)).load() == {}
    assert memory.save({}) is None
    assert memory.load() == {}
    assert [path.name for path in (tmp_path / "made").iterdir()] == [memory.path.name]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": {"version": "x", "plan": ""}}', '{"a": {}}', "\u00e9"]
)
def test_a_file_that_is_something_else_stops_the_start(tmp_path: Path, text: str) -> None:
    memory = PlanMemory.of(tmp_path, NodeId(1))
    memory.path.write_text(text, encoding="utf-8")
    with pytest.raises(StartError, match="is not a record of plans: remove it"):
        memory.load()


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    inside = PlanMemory(tmp_path / "file" / "plans.json")
    assert (inside.save(ROWS) or "").startswith(f"{inside.path}: ")
    with pytest.raises(StartError, match="Not a directory"):
        inside.load()
    folder = PlanMemory(tmp_path / "folder")
    folder.path.mkdir()
    assert folder.save(ROWS) is not None
    assert list(tmp_path.glob(".folder*")) == []
