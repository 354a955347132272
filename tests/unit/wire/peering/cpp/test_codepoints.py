"""The numbers: as the C++ relay has them."""

from __future__ import annotations

from laps_wire.buffer import QUIC, VI64
from laps_wire.peering.cpp import codepoints
from laps_wire.peering.cpp.codepoints import (
    DRAFT16,
    DRAFT18,
    ConnectError,
    DataType,
    MessageType,
    NodeType,
    PeerMode,
)


def test_message_types_leave_out_the_reserved_data_object() -> None:
    assert [int(kind) for kind in MessageType] == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert MessageType(10).name == "SUBSCRIBE_NODE_SET_ADVERTISED"


def test_small_enumerations() -> None:
    assert [mode.name for mode in PeerMode] == ["CONTROL", "DATA", "BOTH"]
    assert [kind.name for kind in NodeType] == ["VIA", "EDGE", "STUB"]
    assert [error.value for error in ConnectError] == [0, 1, 2]
    assert (DataType.DATAGRAM, DataType.NEW_STREAM) == (0, 2)


def test_what_the_two_builds_differ_in() -> None:
    assert (DRAFT16.alpn, DRAFT16.integers, DRAFT16.hash_bits) == ("moqt-16", QUIC, 62)
    assert (DRAFT18.alpn, DRAFT18.integers, DRAFT18.hash_bits) == ("moqt-18", VI64, 64)


def test_the_largest_node_set_fits_a_message() -> None:
    assert 7 + 8 * codepoints.MAX_SNS_NODES <= codepoints.MAX_BODY_BYTES
