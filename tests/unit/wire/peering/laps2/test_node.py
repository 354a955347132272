"""Node information: ranges, the path, and a self part that survives every hop byte for byte."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import LoadClass, RelayType
from laps_wire.peering.laps2.fields import Stamp
from laps_wire.peering.laps2.limits import MAX_HOPS
from laps_wire.peering.laps2.node import (
    MAX_LOAD,
    NODE_INFO,
    NODE_SELF,
    UNSIGNED,
    Degrees,
    Load,
    Location,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
)
from laps_wire.peering.laps2.parameters import Parameters
from testkit.fields import check_codec_bytes, check_codec_values, read, read_whole, write
from testkit.strategies import values_of

BARE = NodeSelf(NodeId.parse("1:1"), RelayType.EDGE, Stamp(3, 9))
PATH = (NodePathItem(NodeId.parse("1:2"), 25_000), NodePathItem(NodeId.parse("1:3"), 50_000))


@given(values_of(NODE_INFO))
def test_identity_and_prefixes(value: NodeInfo) -> None:
    check_codec_values(NODE_INFO, value)


@given(st.binary(min_size=1, max_size=120))
def test_any_bytes(data: bytes) -> None:
    check_codec_bytes(NODE_INFO, data)


def test_the_smallest_node_by_hand() -> None:
    assert write(NODE_INFO, NodeInfo(BARE)) == bytes.fromhex(
        "0000000100000001"  # node ID 1:1
        "01"  # Edge
        "03 09"  # epoch, sequence
        "00"  # no contacts
        "00"  # no location
        "00"  # no region
        "00 00"  # load
        "00"  # nothing reachable
        "00"  # no labels
        "00"  # no parameters
        "00 00 00"  # unsigned
        "00"  # empty path
        "00"  # no parameters
    )


def test_a_location_by_hand() -> None:
    data = write(NODE_SELF, replace(BARE, location=Location(-180.0, 90.0)))
    assert bytes.fromhex("01 c066800000000000 4056800000000000") in data


@given(
    values_of(NODE_INFO),
    values_of(NODE_ID),
    st.integers(0, 2**40),
)
def test_a_hop_changes_nothing_that_the_node_said(
    value: NodeInfo, hop: NodeId, srtt_us: int
) -> None:
    received, _ = read(NODE_INFO, write(NODE_INFO, value))
    passed = received.passed_on(hop, srtt_us)
    assert write(NODE_SELF, passed.node) == write(NODE_SELF, value.node)
    assert passed.signature == value.signature
    assert passed.path == (*value.path, NodePathItem(hop, srtt_us))
    assert passed.sum_srtt_us == value.sum_srtt_us + srtt_us
    assert passed.parameters == value.parameters.carried()


def test_the_example_of_the_seed() -> None:
    # seed 000, Node Path: 1:4 hears 1:1 over 1:2 (25 ms) and 1:3 (50 ms), its own session has 60.
    info = NodeInfo(BARE).passed_on(NodeId.parse("1:2"), 25_000)
    info = info.passed_on(NodeId.parse("1:3"), 50_000)
    assert info.path == PATH
    assert len(info.path) == 2
    assert info.sum_srtt_us + 60_000 == 135_000
    assert NodeInfo(BARE).sum_srtt_us == 0


def test_the_longest_path_fits_and_no_longer() -> None:
    items = tuple(NodePathItem(NodeId(number), 1) for number in range(MAX_HOPS))
    info = NodeInfo(BARE, path=items)
    assert read(NODE_INFO, write(NODE_INFO, info))[0] == info
    with pytest.raises(EncodeError, match="17 items are over the limit of 16"):
        write(NODE_INFO, info.passed_on(NodeId(99), 1))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Degrees(180), 180.0),
        (Degrees(180), -180.0),
        (Degrees(90), 90.0),
        (Degrees(90), -90.0),
        (Degrees(90), -0.0),
    ],
)
def test_the_ends_of_the_world(codec: Degrees, value: float) -> None:
    decoded = read_whole(codec, write(codec, value))
    assert math.copysign(1, decoded) == math.copysign(1, value)
    assert decoded == value


@pytest.mark.parametrize("value", [90.00001, -90.00001, math.inf, -math.inf, math.nan])
def test_beyond_the_ends(value: float) -> None:
    writer = Writer()
    with pytest.raises(EncodeError, match=r"f: .* is outside -90..90"):
        Degrees(90).write(writer, value, "f")
    writer.f64(value, "f")
    with pytest.raises(MalformedError, match=r"outside -90..90|not a number") as caught:
        Degrees(90).read(Reader(writer.getvalue()), "f")
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NodeSignature(2, b"short", b""), "fingerprint: 5 bytes, 0 or 32 belong"),
        (lambda: NodeSignature(0, b"", b"sig"), "a signature without a scheme"),
    ],
)
def test_signatures_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        make()


def test_a_fingerprint_without_a_signature_is_fine() -> None:
    assert NodeSignature(0, bytes(32)).fingerprint == bytes(32)
    assert NodeSignature(2, bytes(32), b"s").signature == b"s"
    assert NodeSignature(0, b"", b"") == UNSIGNED


def test_load_orders_by_class_then_value() -> None:
    assert Load(LoadClass.NORMAL, MAX_LOAD) < Load(LoadClass.BUSY, 0) < Load(LoadClass.BUSY, 1)
    with pytest.raises(EncodeError, match=r"1001 is outside 0..1000"):
        write(NODE_SELF, replace(BARE, load=Load(LoadClass.NORMAL, MAX_LOAD + 1)))


def test_unknown_parameters_of_a_node_survive() -> None:
    node = replace(BARE, parameters=Parameters(((0x40, b"hop"), (0x4545, b"end"))))
    info = NodeInfo(node, parameters=Parameters(((0x3E, b"x"), (0x3F, b"y"))))
    received, _ = read(NODE_INFO, write(NODE_INFO, info))
    assert received == info
    passed = received.passed_on(NodeId(5), 1)
    assert passed.node.parameters == node.parameters  # signed: all of it stays
    assert passed.parameters == Parameters(((0x3F, b"y"),))
