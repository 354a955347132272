"""The section of the network: keys, pins, and C++ relays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from laps_relay.config import RelayConfig
from laps_relay.config.mapping import peer_contacts
from laps_relay.config.network import Network
from laps_sdk.peering.dialler import Contact
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Direction, Mode

PIN = "ab" * 32


def section(**more: Any) -> Network:
    return RelayConfig.model_validate({"network": more}).network


def test_cpp_relays_are_named_by_node_or_endpoint() -> None:
    network = section(cpp_peers="relay-a, 1:2")
    assert network.cpp_nodes == {NodeId(0xB97E0EF037B17F89), NodeId.parse("1:2")}
    assert (network.meets_cpp, network.meets_others, network.active) == (True, True, True)
    assert section(auth="none", cpp_contacts=["a:1"]).meets_cpp
    alone = section()
    assert (alone.cpp_nodes, alone.meets_cpp, alone.active) == (frozenset(), False, False)


def test_pins_are_keys_by_node() -> None:
    network = section(auth="certificate", pins=[f"1:2={PIN}", f"1:2={'cd' * 32}", f"3:4={PIN}"])
    assert network.pinned_keys == {
        NodeId.parse("1:2"): {bytes.fromhex(PIN), bytes.fromhex("cd" * 32)},
        NodeId.parse("3:4"): {bytes.fromhex(PIN)},
    }


def test_the_relays_own_key() -> None:
    network = section(node_key="key.pem", node_certificate="cert.pem")
    assert (network.node_key, network.node_certificate) == (Path("key.pem"), Path("cert.pem"))


@pytest.mark.parametrize(
    ("text", "mode", "direction"),
    [
        ("a:1", Mode.BOTH, Direction.BIDIRECTIONAL),
        ("a:1/both", Mode.BOTH, Direction.BIDIRECTIONAL),
        ("a:1/control", Mode.CONTROL, Direction.BIDIRECTIONAL),
        ("a:1/data", Mode.DATA, Direction.BIDIRECTIONAL),
        ("a:1/one-way", Mode.BOTH, Direction.UNIDIRECTIONAL),
        ("a:1/data/one-way", Mode.DATA, Direction.UNIDIRECTIONAL),
        ("a:1/one-way/data", Mode.DATA, Direction.UNIDIRECTIONAL),
    ],
)
def test_what_a_connection_carries(text: str, mode: Mode, direction: Direction) -> None:
    config = RelayConfig.model_validate({"network": {"peers": f"{text}, [::1]:2", "parallel": 2}})
    assert peer_contacts(config) == [
        Contact(address="a:1", mode=mode, direction=direction, parallel=2),
        Contact(address="[::1]:2", parallel=2),
    ]


def test_cpp_relays_are_dialled_with_their_protocol() -> None:
    config = RelayConfig.model_validate({"network": {"cpp_peers": "x", "cpp_contacts": "b:1"}})
    assert peer_contacts(config) == [Contact(address="b:1", alpn="moqt-16")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"peers": ["/control"]}, "is no contact"),
        ({"peers": ["a:1/"]}, "is no peer"),
        ({"peers": ["a:1/fast"]}, "is no peer"),
        ({"peers": ["a:1/data/control"]}, "is no peer"),
        ({"peers": ["a:1/one-way/one-way"]}, "is no peer"),
        ({"peers": ["a:1/control/one-way"]}, "no data: leave /one-way"),
        ({"type": "stub", "peers": ["a:1/one-way"]}, "a stub has everything"),
        ({"type": "control", "peers": ["a:1/data"]}, "carries no data"),
        ({"cpp_peers": ["x:y"]}, "node ID"),
        ({"cpp_contacts": ["a:1"]}, "network.cpp_peers"),
        ({"type": "via", "cpp_peers": ["1:2"]}, "only an edge"),
        ({"pins": ["1:2"]}, "is no pin"),
        ({"pins": ["1:2=zz"]}, "is no pin"),
        ({"pins": [f"here={PIN}"]}, "node ID"),
        ({"node_certificate": "cert.pem"}, "network.node_key"),
        ({"auth": "certificate"}, "network.ca"),
        ({"node_id": "0:0"}, "every Stub has it"),
        ({"policy": "policy.toml"}, "set network.enabled"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        section(**given)
