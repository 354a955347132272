"""Node IDs as text: what parses prints a text that gives the same ID, and only that text again."""

from __future__ import annotations

from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId


def one_input(data: bytes) -> None:
    try:
        node_id = NodeId.parse(data.decode("utf-8", "replace"))
    except TextFormError:
        return
    assert 0 <= node_id < 1 << 64
    assert NodeId.parse(str(node_id)) == node_id
    assert NodeId.from_halves(node_id.high, node_id.low) == node_id


def seeds() -> list[bytes]:
    return [b"1.2:1234", b"1:1", b"100.2:9001.2001", b"123456:789.100", b"4294967295:65535.65535"]
