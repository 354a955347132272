"""Every protocol through the trace: each byte of each message belongs to exactly one field.

This is a check on all codecs: a field that is read past the reader, skipped, or read twice would
leave a gap or an overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.moqt import control as moqt_control
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.datagram import (
    PaddingDatagram,
    encode_datagram,
    encode_padding_stream,
)
from laps_wire.moqt.versions import Draft
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp import codepoints as cpp_codepoints
from laps_wire.peering.cpp import data_header as cpp_data
from laps_wire.peering.cpp import messages as cpp_framing
from laps_wire.peering.cpp import messages as cpp_messages
from laps_wire.peering.cpp.messages import NodePathItem
from laps_wire.peering.laps2 import forwarding as laps2_data
from laps_wire.peering.laps2 import messages as laps2_framing
from laps_wire.peering.laps2.codepoints import DataKind, PayloadFormat
from laps_wire.quicr import datagram as quicr_datagram
from laps_wire.quicr import messages as quicr_control
from laps_wire.quicr import messages as quicr_named
from laps_wire.trace.decode import Decoded, Status, decode
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.text import render
from testkit import laps2, moqt, moqt_data, quicr
from testkit import laps_cpp as _cpp  # noqa: F401 - registers strategies
from testkit.strategies import values_of

BUILD = cpp_codepoints.DRAFT16
D16, D18 = Draft.D16, Draft.D18


# Bytes of each protocol, from the strategies of its own tests


def cpp_control() -> SearchStrategy[bytes]:
    known = st.sampled_from(list(cpp_messages.LAYOUTS.values())).flatmap(values_of)
    return known.map(lambda message: cpp_framing.encode(message, BUILD))


def cpp_streams(draft: Draft) -> SearchStrategy[bytes]:
    header = st.builds(
        cpp_data.StreamHeader,
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**64 - 1),
        st.integers(0, 255),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=3),
    ).map(cpp_data.encode_stream_header)
    body = st.just(b"") | moqt_data.subgroup_streams(draft).map(lambda drawn: drawn[2])
    return st.tuples(header, body).map(b"".join)


def cpp_datagrams(draft: Draft) -> SearchStrategy[bytes]:
    header = st.builds(
        cpp_data.DatagramHeader, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
    ).map(cpp_data.encode_datagram_header)
    return st.tuples(header, moqt_datagrams(draft)).map(b"".join)


def laps2_control() -> SearchStrategy[bytes]:
    return laps2.messages().map(laps2_framing.encode)


@st.composite
def laps2_units(draw: st.DrawFn) -> bytes:
    header = draw(laps2.data_headers())
    is_stream = header.kind is DataKind.STREAM
    body = draw(st.binary(max_size=30))
    for payload_format, draft in ((PayloadFormat.MOQT_16, D16), (PayloadFormat.MOQT_18, D18)):
        if header.payload_format == payload_format:
            body = draw(moqt_unis(draft) if is_stream else moqt_datagrams(draft))
    return laps2_data.encode_data_header(header) + body


@st.composite
def laps2_moqt_units(draw: st.DrawFn) -> bytes:
    """The formats that are looked into, which random numbers seldom hit."""
    draft = draw(st.sampled_from(Draft))
    number = PayloadFormat.MOQT_16 if draft is D16 else PayloadFormat.MOQT_18
    header = draw(laps2.data_headers())._replace(payload_format=number)
    is_stream = header.kind is DataKind.STREAM
    body = draw(st.just(b"") | (moqt_unis(draft) if is_stream else moqt_datagrams(draft)))
    return laps2_data.encode_data_header(header) + body


def moqt_messages(draft: Draft) -> SearchStrategy[bytes]:
    return moqt.messages(draft).map(lambda message: moqt_control.encode(message, draft))


def moqt_unis(draft: Draft) -> SearchStrategy[bytes]:
    subgroups = moqt_data.subgroup_streams(draft).map(lambda drawn: drawn[2])
    fetches = moqt_data.fetch_items(draft, GroupOrder.ASCENDING).map(
        lambda items: b"".join(moqt_data.encode_fetch(items, draft, GroupOrder.ASCENDING))
    )
    if draft is D16:
        return subgroups | fetches
    padding = st.integers(0, 20).map(lambda size: encode_padding_stream(size, draft))
    return subgroups | fetches | padding


def moqt_datagrams(draft: Draft) -> SearchStrategy[bytes]:
    objects: SearchStrategy[Any] = moqt_data.datagrams(draft)
    if draft is D18:
        objects |= st.builds(PaddingDatagram, st.integers(0, 20))
    return objects.map(lambda datagram: encode_datagram(datagram, draft))


def quicr_units() -> SearchStrategy[bytes]:
    fragments = st.tuples(
        quicr.datagram_headers().map(quicr_datagram.encode_header), st.binary(max_size=30)
    ).map(b"".join)
    published = values_of(quicr_named.PUBLISH).map(quicr_datagram.encode_publish)
    return fragments | published


BYTES: dict[str, Callable[[], SearchStrategy[bytes]]] = {
    "laps-cpp": cpp_control,
    "laps-cpp-data": lambda: cpp_streams(D16) | cpp_datagrams(D16) | cpp_streams(D18),
    "laps-2": laps2_control,
    "laps-2-data": lambda: laps2_units() | laps2_moqt_units(),
    "moqt-16": lambda: moqt_messages(D16),
    "moqt-16-uni": lambda: moqt_unis(D16),
    "moqt-16-datagram": lambda: moqt_datagrams(D16),
    "moqt-18": lambda: moqt_messages(D18),
    "moqt-18-uni": lambda: moqt_unis(D18),
    "moqt-18-datagram": lambda: moqt_datagrams(D18),
    "quicr": lambda: quicr.messages.map(quicr_control.encode),
    "quicr-datagram": quicr_units,
}


def leaves(decoded: Decoded) -> list[tuple[int, int]]:
    return [
        (leaf.start, leaf.end) for traced in decoded.messages for _, leaf in traced.root.leaves()
    ]


def check_tiles(decoded: Decoded, upto: int) -> None:
    """Every byte up to ``upto`` is under one leaf, in order."""
    pos = 0
    for start, end in leaves(decoded):
        assert start == pos, f"a gap or an overlap at {pos}: the next field begins at {start}"
        assert end >= start
        pos = end
    assert pos == upto


def test_every_protocol_is_here() -> None:
    assert list(BYTES) == list(PROTOCOLS)
    assert all(name == protocol.name for name, protocol in PROTOCOLS.items())


@pytest.mark.parametrize("name", BYTES)
def test_fields_tile_every_message(name: str) -> None:
    @given(BYTES[name]())
    def check(data: bytes) -> None:
        decoded = decode(PROTOCOLS[name], data)
        assert decoded.fault is None
        assert decoded.used == len(data)
        check_tiles(decoded, len(data))

    check()


@pytest.mark.parametrize("name", [name for name in BYTES if PROTOCOLS[name].stream_of_messages])
def test_fields_tile_many_messages(name: str) -> None:
    @given(st.lists(BYTES[name](), min_size=2, max_size=4))
    def check(parts: list[bytes]) -> None:
        decoded = decode(PROTOCOLS[name], b"".join(parts))
        assert decoded.status is Status.OK
        assert len(decoded.messages) == len(parts)
        check_tiles(decoded, sum(map(len, parts)))

    check()


@pytest.mark.parametrize("name", [name for name in BYTES if PROTOCOLS[name].stream_of_messages])
def test_a_cut_message_is_incomplete_and_shown_up_to_the_cut(name: str) -> None:
    @given(BYTES[name](), st.data())
    def check(data: bytes, drawn: st.DataObject) -> None:
        cut = drawn.draw(st.integers(1, len(data) - 1))
        decoded = decode(PROTOCOLS[name], data[:cut])
        assert decoded.status is Status.INCOMPLETE
        assert decoded.fault is not None
        assert decoded.fault.missing <= len(data) - cut
        assert decoded.messages[-1].message is None
        pos = 0
        for start, end in leaves(decoded):
            assert start == pos
            pos = end
        # What is not in a field is the beginning of the one that the input ends in.
        assert pos <= decoded.fault.offset <= cut

    check()


@pytest.mark.parametrize("name", BYTES)
def test_any_bytes_are_decoded_or_explained(name: str) -> None:
    @given(st.binary(max_size=80))
    def check(data: bytes) -> None:
        decoded = decode(PROTOCOLS[name], data)
        pos = 0
        for start, end in leaves(decoded):
            assert start == pos
            pos = end
        if decoded.fault is None:
            assert pos == len(data)
        else:
            assert 0 <= decoded.fault.offset <= decoded.fault.end <= len(data)
            assert decoded.fault.reason

    check()


# Units of two parts


def fields(name: str, hexadecimal: str) -> dict[str, Any]:
    decoded = decode(PROTOCOLS[name], bytes.fromhex(hexadecimal))
    assert decoded.fault is None, decoded.fault
    return {
        path: leaf.note or leaf.value
        for traced in decoded.messages
        for path, leaf in traced.root.leaves()
    }


def test_a_captured_stream_of_the_cpp_relay() -> None:
    found = fields(
        "laps-cpp-data",
        "1302000000020656 3237cfe9cbb08000001388 15c6563237cfe9cbb0000080 0000021a1b",
    )
    assert found["STREAM_HEADER.sns_id"] == 2
    assert found["STREAM_HEADER.track_hash"] == found["SUBGROUP_HEADER.track alias"]
    assert found["STREAM_HEADER.ttl_ms"] == 5000
    assert found["object[0].object payload"] == b"\x1a\x1b"


@pytest.mark.parametrize(("draft", "priority"), [(16, "204080"), (18, "2080")])
def test_the_subscribe_inside_a_message_is_opened(draft: int, priority: str) -> None:
    """The bodies that real relays sent, in both drafts."""
    body = bytes.fromhex(f"00010a64656d6f2f726f6f6d31066576656e747302{priority}0201")
    info = cpp_messages.SubscribeInfo(1, NodeId(7), 8, 9, 10, body)
    data = cpp_framing.encode(cpp_messages.SubscribeInfoAdvertised(info), BUILD)
    decoded = decode(PROTOCOLS["laps-cpp"], data)
    check_tiles(decoded, len(data))
    assert f"subscribe_data (MoQT draft {draft})" in "\n".join(render(decoded))
    found = fields("laps-cpp", data.hex())
    prefix = "SUBSCRIBE_INFO_ADVERTISED.info.subscribe_data.SUBSCRIBE"
    assert found[f"{prefix}.track.namespace[0]"] == b"demo/room1"
    assert found[f"{prefix}.track.name"] == b"events"
    assert found[f"{prefix}.parameters[0].SUBSCRIBER_PRIORITY"] == 128
    assert found[f"{prefix}.parameters[1].GROUP_ORDER"] == "ASCENDING"


def test_the_subscribe_inside_a_message_of_laps_2_is_opened() -> None:
    """The first subscribe of the vectors: draft 16, with a scope."""
    vector = next(v for v in laps2.vectors()["messages"] if v["type"] == "SUBSCRIBE_ADVERTISE")
    found = fields("laps-2", vector["hex"])
    prefix = "SUBSCRIBE_ADVERTISE.subscribes[0].data.body.SUBSCRIBE"
    assert found[f"{prefix}.track.namespace[0]"] == b"demo/room1"
    assert found[f"{prefix}.parameters[1].GROUP_ORDER"] == "ASCENDING"


@pytest.mark.parametrize("body", [b"", b"\xff\xff"])
def test_a_subscribe_that_is_none_stays_closed(body: bytes) -> None:
    info = cpp_messages.SubscribeInfo(1, NodeId(7), 8, 9, 10, body)
    data = cpp_framing.encode(cpp_messages.SubscribeInfoWithdrawn(info), BUILD)
    found = fields("laps-cpp", data.hex())
    assert found["SUBSCRIBE_INFO_WITHDRAWN.info.subscribe_data"] == body


def test_bad_bytes_behind_a_cpp_header_are_read_as_draft_16() -> None:
    header = cpp_data.encode_stream_header(cpp_data.StreamHeader(2, 7, 128, 5000))
    decoded = decode(PROTOCOLS["laps-cpp-data"], header + b"\x00")
    assert decoded.status is Status.BAD
    assert "unknown unidirectional stream type 0x0" in str(decoded.fault)


def test_little_endian_numbers_are_numbers() -> None:
    item = NodePathItem(NodeId(0x0102030405060708), 20_000)
    info = cpp_messages.NodeInfo(NodeId(5), cpp_codepoints.NodeType.VIA, b"relay-b", path=(item,))
    data = cpp_framing.encode(cpp_messages.NodeInfoAdvertise(info), BUILD)
    found = fields("laps-cpp", data.hex())
    path = "NODE_INFO_ADVERTISE.node_info.path[0]"
    assert found[f"{path}.srtt_us"] == 20_000
    assert found[f"{path}.node_id"] == "258.772:1286.1800"
    assert found["NODE_INFO_ADVERTISE.node_info.node_type"] == "VIA"


def test_a_set_up_stream_of_draft_18() -> None:
    """SETUP as a C++ relay sends it, with its endpoint id."""
    found = fields("moqt-18-uni", "af00 000a 80f1 07 72656c61792d61")
    assert b"relay-a" in found.values()


def test_published_data_of_quicr_in_a_datagram() -> None:
    @given(values_of(quicr_named.PUBLISH))
    def check(message: Any) -> None:
        decoded = decode(PROTOCOLS["quicr-datagram"], quicr_datagram.encode_publish(message))
        assert decoded.messages[0].name == "PUBLISH"
        assert decoded.messages[0].message == message

    check()


def test_the_extensions_of_an_object_are_opened_and_named() -> None:
    # 0x3c 5, then 0x3d "abc" by a delta of 1 (moq-transport-18, 11.2.1.2).
    data = bytes.fromhex("11070180 00 07 3c05 0103616263 02 6869 00 00 02 796f")
    decoded = decode(PROTOCOLS["moqt-18-uni"], data)
    assert decoded.status is Status.OK
    leaves = dict(decoded.messages[0].root.leaves())
    first = leaves["object[0].extensions[0].delta type"]
    assert (first.start, first.value, first.note) == (6, 0x3C, "PRIOR_GROUP_ID_GAP")
    second = leaves["object[0].extensions[1].delta type"]
    assert (second.start, second.value, second.note) == (8, 1, "0x3d")
    assert leaves["object[0].extensions[1].value"].value == b"abc"
    assert leaves["object[1].extensions"].value == b""


def test_extensions_that_are_no_pairs_stay_closed() -> None:
    data = bytes.fromhex("11070180 00 01 01 02 6869")
    decoded = decode(PROTOCOLS["moqt-18-uni"], data)
    assert decoded.status is Status.OK
    assert dict(decoded.messages[0].root.leaves())["object[0].extensions"].value == b"\x01"
