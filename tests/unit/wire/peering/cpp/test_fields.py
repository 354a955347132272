"""The C++ relay's own kinds of field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps_cpp  # noqa: F401 - registers the strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.fields import NODE_SET, PATH_ITEM, SHORT_NAMESPACE, NodePathItem
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

CODECS: dict[str, Any] = {
    "PATH_ITEM": PATH_ITEM,
    "SHORT_NAMESPACE": SHORT_NAMESPACE,
    "NODE_SET": NODE_SET,
}


def test_a_path_item_is_little_endian() -> None:
    item = NodePathItem(NodeId.parse("100.2:9001.2001"), 0x0102_0304_0506_0708)
    assert write(PATH_ITEM, item).hex(" ", 8) == "d107292302006400 0807060504030201"
    value, _ = read(PATH_ITEM, write(PATH_ITEM, item))
    assert value == item
    assert type(value.node_id) is NodeId


@pytest.mark.parametrize("srtt", [-1, 1 << 64])
def test_a_time_that_does_not_fit_64_bits_is_refused(srtt: int) -> None:
    with pytest.raises(EncodeError, match=f"f.srtt_us: {srtt} does not fit"):
        write(PATH_ITEM, NodePathItem(NodeId(1), srtt))


def test_a_namespace_with_short_lengths() -> None:
    namespace = Namespace.of(b"abc", b"12345")
    assert write(SHORT_NAMESPACE, namespace) == b"\x02\x00\x03abc\x00\x0512345"
    assert write(SHORT_NAMESPACE, Namespace()) == b"\x00"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\x21", "count 33 is over the limit of 32"),
        (b"\x01\x10\x01", "length 4097 is over the limit of 4096"),
        (b"\x01\x00\x00", "field 0 is empty"),
        (b"\x02\x10\x00" + b"x" * 4096 + b"\x00\x01y", "4097 bytes, at most 4096"),
    ],
)
def test_moqts_limits_hold_for_announced_names(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedError, match=complaint) as caught:
        read(SHORT_NAMESPACE, data)
    assert caught.value.offset is not None
    assert caught.value.offset <= 1


def test_a_node_set_is_read_in_any_order_and_written_ascending() -> None:
    data = b"\x00\x03" + bytes.fromhex("0000000000000009 0000000000000001 0000000000000009")
    nodes, used = read(NODE_SET, data)
    assert (nodes, used) == ((1, 9), 26)
    assert all(type(node) is NodeId for node in nodes)
    assert write(NODE_SET, nodes).hex() == "000200000000000000010000000000000009"


def test_a_node_set_that_its_count_cannot_say_is_refused() -> None:
    nodes = tuple(NodeId(number) for number in range(0x10000))
    with pytest.raises(EncodeError, match="65536 items are over the limit of 65535"):
        write(NODE_SET, nodes)
    assert len(read(NODE_SET, write(NODE_SET, nodes[1:]))[0]) == 65535


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_identity_and_prefixes(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]
    check_codec_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=40))
def test_any_bytes(name: str, data: bytes) -> None:
    check_codec_bytes(CODECS[name], data)


@pytest.mark.parametrize("name", CODECS)
def test_memory_is_bounded_by_the_input(name: str) -> None:
    check_codec_bytes(CODECS[name], b"\xff" * 64)
    check_codec_bytes(CODECS[name], b"\x20" + b"\x0f\xff" * 40)
