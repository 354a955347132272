"""Node IDs: four texts in, one text out, and every other text refused with its reason."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.names  # noqa: F401 - registers the strategies
from laps_wire.errors import EncodeError, TextFormError
from laps_wire.nodeid import NODE_ID, NodeId
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

U64S = st.one_of(st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**64 - 1]), st.integers(0, 2**64 - 1))


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("1.2:1234", 0x0001_0002_0000_04D2, "1.2:0.1234"),
        ("1:1", 0x0000_0001_0000_0001, "0.1:0.1"),
        ("100.2:9001.2001", 0x0064_0002_2329_07D1, "100.2:9001.2001"),
        ("123456:789.100", 0x0001_E240_0315_0064, "1.57920:789.100"),
        ("0:0", 0, "0.0:0.0"),
        ("4294967295:4294967295", 2**64 - 1, "65535.65535:65535.65535"),
        ("65535.65535:65535.65535", 2**64 - 1, "65535.65535:65535.65535"),
        ("4294967295:0", 0xFFFF_FFFF_0000_0000, "65535.65535:0.0"),
    ],
)
def test_the_specifications_four_forms_and_the_edges(text: str, value: int, canonical: str) -> None:
    node_id = NodeId.parse(text)
    assert node_id == value
    assert str(node_id) == canonical
    assert NodeId.parse(canonical) == node_id


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no colon between the high and the low value, at the end"),
        ("1", "no colon between the high and the low value, at the end"),
        ("1.2", "no colon between the high and the low value, at the end"),
        ("1:2:3", "a second colon, at character 4"),
        ("1::2", "a second colon, at character 3"),
        (":1", "a number is missing, at character 1"),
        ("1:", "a number is missing, at the end"),
        (".1:1", "a number is missing, at character 1"),
        ("1.:1", "a number is missing, at character 3"),
        ("1:.2", "a number is missing, at character 3"),
        ("1:2.", "a number is missing, at the end"),
        ("1.2.3:4", "a second dot in one value, at character 4"),
        ("1..2:4", "a second dot in one value, at character 3"),
        ("1:4.5.6", "a second dot in one value, at character 6"),
        ("-1:1", "'-' is not a decimal digit 0 to 9, at character 1"),
        ("1:+1", "'+' is not a decimal digit 0 to 9, at character 3"),
        (" 1:1", "' ' is not a decimal digit 0 to 9, at character 1"),
        ("1:1\n", r"'\n' is not a decimal digit 0 to 9, at character 4"),
        ("1 :1", "' ' is not a decimal digit 0 to 9, at character 2"),
        ("0x1:1", "'x' is not a decimal digit 0 to 9, at character 2"),
        ("a:1", "'a' is not a decimal digit 0 to 9, at character 1"),
        ("1_0:1", "'_' is not a decimal digit 0 to 9, at character 2"),
        ("\u0661:1", r"'\u0661' is not a decimal digit 0 to 9, at character 1"),
        ("1:\xb2", r"'\xb2' is not a decimal digit 0 to 9, at character 3"),
        ("01:1", "a leading zero, at character 1"),
        ("1:00", "a leading zero, at character 3"),
        ("1.02:1", "a leading zero, at character 3"),
        ("65536.0:1", "a number above 65535, at character 1"),
        ("0.65536:1", "a number above 65535, at character 3"),
        ("1:1.65536", "a number above 65535, at character 5"),
        ("4294967296:1", "a number above 4294967295, at character 1"),
        ("1:4294967296", "a number above 4294967295, at character 3"),
        ("1:" + "9" * 5000, "a number above 4294967295, at character 3"),
    ],
)
def test_a_bad_text_is_pointed_at(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        NodeId.parse(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("node ID '")
    assert str(caught.value).endswith("; a good one is '100.2:9001.2001'")


def test_the_cpp_relays_own_examples() -> None:
    assert NodeId.parse("12:34") == 51539607586
    assert NodeId.parse("1.2:34") == 281483566645282
    assert str(NodeId(347364508091815901)) == "1234.5678:100.6109"


@given(U64S)
def test_every_id_prints_a_text_that_gives_it_back(value: int) -> None:
    node_id = NodeId(value)
    assert NodeId.parse(str(node_id)) == node_id
    assert NodeId.from_halves(node_id.high, node_id.low) == node_id
    assert NodeId.parse(f"{node_id.high}:{node_id.low}") == node_id


@given(st.text(st.sampled_from("0123456789.:+ x"), max_size=24))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        node_id = NodeId.parse(text)
    except TextFormError:
        return
    assert NodeId.parse(str(node_id)) == node_id


def test_it_is_its_number() -> None:
    node_id = NodeId(0x0001_0002_0000_04D2)
    assert {0x0001_0002_0000_04D2: "here"}[node_id] == "here"
    assert min(NodeId.parse("2:1"), NodeId.parse("1:9")) == NodeId.parse("1:9")
    assert sorted([NodeId(3), NodeId(1)]) == [1, 3]
    assert (node_id.high, node_id.low) == (0x0001_0002, 0x04D2)
    assert NodeId.from_int(5) == NodeId(5) == 5


def test_how_it_prints() -> None:
    node_id = NodeId(0x0001_0002_0000_04D2)
    assert repr(node_id) == "NodeId.parse('1.2:0.1234')"
    assert f"{node_id}" == "1.2:0.1234"
    assert f"{node_id:#x}" == "0x10002000004d2"


def test_it_survives_copies_and_pickles() -> None:
    node_id = NodeId.parse("1:1")
    for twin in (copy.deepcopy(node_id), pickle.loads(pickle.dumps(node_id))):  # noqa: S301
        assert type(twin) is NodeId
        assert twin == node_id


@pytest.mark.parametrize("value", [-1, 2**64])
def test_an_id_outside_64_bits_is_refused(value: int) -> None:
    with pytest.raises(EncodeError, match="outside 0 to 2"):
        NodeId(value)
    with pytest.raises(EncodeError, match="outside 0 to 2"):
        NodeId.from_int(value)


@pytest.mark.parametrize(
    ("high", "low", "which"),
    [(-1, 0, "high"), (2**32, 0, "high"), (0, -1, "low"), (0, 2**32, "low")],
)
def test_a_half_outside_32_bits_is_refused(high: int, low: int, which: str) -> None:
    with pytest.raises(EncodeError, match=f"{which} half"):
        NodeId.from_halves(high, low)


def test_a_text_or_a_float_is_not_an_id() -> None:
    for value in ("1:1", "5", 1.0):
        with pytest.raises(TypeError):
            NodeId(value)  # type: ignore[arg-type]


def test_eight_bytes_big_endian() -> None:
    node_id = NodeId.parse("100.2:9001.2001")
    assert write(NODE_ID, node_id) == bytes.fromhex("0064 0002 2329 07d1")
    value, used = read(NODE_ID, bytes.fromhex("0064 0002 2329 07d1"))
    assert (value, used) == (node_id, 8)
    assert type(value) is NodeId


@given(values_of(NODE_ID), st.binary(max_size=12))
def test_codec(node_id: NodeId, data: bytes) -> None:
    check_codec_values(NODE_ID, node_id)
    check_codec_bytes(NODE_ID, data)
