"""Which keys a relay remembers over a restart, and when it writes them down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from laps_relay.config import RelayConfig
from laps_relay.server.known_keys import INTERVAL, KeyKeeper, KeyMemory, key_memory
from laps_relay.server.parts import StartError
from laps_wire.nodeid import NodeId

NODE = NodeId(0x1_0000_0001)
KEYS = {NodeId(0xB): b"a" * 32, NodeId(0xA): b"b" * 32}
MORE = {**KEYS, NodeId(0xC): b"c" * 32}


# The file


def test_what_is_kept_is_read_again_in_its_order_and_nodes_do_not_share_it(tmp_path: Path) -> None:
    memory = KeyMemory.of(tmp_path / "made", NODE)
    assert memory.load() == {}
    assert memory.save(KEYS) is None
    assert list(memory.load().items()) == list(KEYS.items())
    assert KeyMemory.of(tmp_path / "made", NodeId(2)).load() == {}
    assert memory.save({}) is None
    assert memory.load() == {}
    assert [path.name for path in (tmp_path / "made").iterdir()] == [
        "known-keys-0000000100000001.json"
    ]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"0:11": 1}', '{"0:11": "ab"}', '{"0:11": "xy"}', '{"x": ""}', "\u00e9"],
)
def test_a_file_that_is_something_else_stops_the_start(tmp_path: Path, text: str) -> None:
    memory = KeyMemory.of(tmp_path, NODE)
    memory.path.write_text(text, encoding="utf-8")
    with pytest.raises(StartError, match="is not a record of keys: remove it"):
        memory.load()


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = KeyMemory(tmp_path / "file" / "keys.json")
    assert (inside.save(KEYS) or "").startswith(f"{inside.path}: ")
    with pytest.raises(StartError, match="Not a directory"):
        inside.load()


# Who keeps


@pytest.mark.parametrize(
    ("network", "keeps"),
    [
        ({"node_id": "1:1", "port": 0}, True),
        ({"port": 7}, True),
        ({"port": 0}, False),  # the next start has another node id
        ({"node_id": "1:1", "auth": "none"}, False),
        ({"node_id": "1:1", "auth": "certificate", "ca": "ca.pem"}, False),
        ({"node_id": "1:1", "auth": "certificate", "pins": ["0:11=" + "ab" * 32]}, False),
    ],
)
def test_keys_are_kept_where_who_comes_first_holds_a_node_id(
    tmp_path: Path, network: dict[str, Any], keeps: bool
) -> None:
    config = RelayConfig.model_validate({"state_dir": tmp_path, "network": network})
    wanted = KeyMemory.of(tmp_path, NODE) if keeps else None
    assert key_memory(config, NODE) == wanted


# When


class Core:
    """Tells what has changed, once."""

    def __init__(self) -> None:
        self.news: Mapping[NodeId, bytes] | None = None

    def poll(self) -> Mapping[NodeId, bytes] | None:
        news, self.news = self.news, None
        return news


def test_what_is_new_is_written_but_not_at_every_turn(tmp_path: Path) -> None:
    core, memory, warnings = Core(), KeyMemory.of(tmp_path, NODE), list[str]()
    keeper = KeyKeeper(memory, core.poll, warnings.append)
    keeper.look(10.0)
    assert not memory.path.exists()
    core.news = KEYS
    keeper.look(10.0)
    assert memory.load() == KEYS
    core.news = MORE
    keeper.look(10.0 + INTERVAL / 2)
    assert memory.load() == KEYS
    keeper.look(10.0 + INTERVAL)
    assert memory.load() == MORE
    core.news = {}
    assert keeper.write()  # an order
    assert not keeper.write()
    assert memory.load() == {}
    assert warnings == []


def test_what_cannot_be_written_is_said_once_and_tried_again(tmp_path: Path) -> None:
    blocked = tmp_path / "state"
    blocked.touch()
    core, memory, warnings = Core(), KeyMemory.of(blocked, NODE), list[str]()
    keeper = KeyKeeper(memory, core.poll, warnings.append)
    core.news = KEYS
    for second in range(3):
        keeper.look(second * INTERVAL)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{memory.path}: ")
    blocked.unlink()
    keeper.look(3 * INTERVAL)
    assert memory.load() == KEYS


def test_without_a_file_nothing_is_asked() -> None:
    core, warnings = Core(), list[str]()
    core.news = KEYS
    keeper = KeyKeeper(None, core.poll, warnings.append)
    keeper.look(1.0)
    assert not keeper.write()
    assert core.news is KEYS
    assert warnings == []
