"""What a relay stores for its next start: keys of other nodes, and its epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from laps_relay.config import RelayConfig
from laps_relay.server.identity import (
    KEYS_INTERVAL,
    KeyKeeper,
    KeyMemory,
    StartError,
    key_memory,
    next_epoch,
    port_key,
)
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
    keeper.look(10.0 + KEYS_INTERVAL / 2)
    assert memory.load() == KEYS
    keeper.look(10.0 + KEYS_INTERVAL)
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
        keeper.look(second * KEYS_INTERVAL)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{memory.path}: ")
    blocked.unlink()
    keeper.look(3 * KEYS_INTERVAL)
    assert memory.load() == KEYS


def test_without_a_file_nothing_is_asked() -> None:
    core, warnings = Core(), list[str]()
    core.news = KEYS
    keeper = KeyKeeper(None, core.poll, warnings.append)
    keeper.look(1.0)
    assert not keeper.write()
    assert core.news is KEYS
    assert warnings == []


# The epoch


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


# The key of stateless resets


def test_a_port_has_the_same_key_at_each_start(tmp_path: Path) -> None:
    state = tmp_path / "made"
    key = port_key(state, "clients 33435")
    assert port_key(state, "clients 33435") == key
    assert port_key(state, "clients 33436") != key
    (file,) = state.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    assert port_key(state, "clients 33435") != key
    file.chmod(0o600)
    assert port_key(state, "clients 33435") == key


def test_a_key_that_cannot_be_kept_is_random(tmp_path: Path) -> None:
    (tmp_path / "reset-key").write_text("no key\n")
    assert port_key(tmp_path, "a") != port_key(tmp_path, "a")
    (tmp_path / "file").touch()
    assert port_key(tmp_path / "file", "a") != port_key(tmp_path / "file", "a")
