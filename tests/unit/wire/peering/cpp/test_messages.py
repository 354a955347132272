"""Messages of the C++ relay: against bytes from its wire and from its own code, in both builds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.hashing import endpoint_node_id, track_hashes
from laps_wire.names import FULL_TRACK_NAME, FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.codepoints import (
    DRAFT16,
    DRAFT18,
    ConnectError,
    MessageType,
    NodeType,
    PeerMode,
)
from laps_wire.peering.cpp.fields import NodePathItem
from laps_wire.peering.cpp.messages import (
    DEFAULT_SNS_PRIORITY,
    LAYOUTS,
    NODE_INFO,
    TYPES,
    AnnounceInfo,
    AnnounceInfoAdvertised,
    AnnounceInfoWithdrawn,
    Connect,
    ConnectResponse,
    Message,
    NodeInfo,
    NodeInfoAdvertise,
    NodeInfoWithdrawn,
    SubscribeInfo,
    SubscribeInfoAdvertised,
    SubscribeInfoWithdrawn,
    SubscribeNodeSetAdvertised,
    SubscribeNodeSetWithdrawn,
)
from laps_wire.varint import QUIC, VI64, IntegerCoding
from testkit import fields
from testkit.laps_cpp import VECTORS, coded, live, messages

BUILDS = {"draft16": DRAFT16, "draft18": DRAFT18}
HEADER = 7  # bytes of the common header, which test_framing is about

ONE = NodeId.parse("1:1")
SELF = NodeInfo(
    NodeId.parse("1.2:1234"), NodeType.STUB, b"relay.example:33434", -122.5327124, 47.6482974
)
PATH = (
    NodePathItem(ONE, 54321),
    NodePathItem(NodeId.parse("100.2:9001.2001"), 0x0102_0304_0506_0708),
)
DEMO = FullTrackName(Namespace.of(b"demo/room1"), b"events")
TUPLE = Namespace.of(b"abc", b"12345", b"third tuple")


def node(contact: bytes = SELF.contact, path: tuple[NodePathItem, ...] = PATH) -> NodeInfo:
    return NodeInfo(SELF.node_id, SELF.node_type, contact, SELF.longitude, SELF.latitude, path)


def fullname(namespace: Namespace, name: bytes, build: str) -> int:
    return track_hashes(namespace.fields, name, BUILDS[build].hash_bits).fullname


def subscribe(build: str) -> SubscribeInfo:
    hashes = track_hashes(DEMO.namespace.fields, DEMO.name, BUILDS[build].hash_bits)
    data = live("subscribe_data_draft16")  # carried as it is, whatever the build
    return SubscribeInfo(0x1234, ONE, hashes.namespace, hashes.name, hashes.fullname, data)


def expected(name: str, build: str) -> Message:
    """What the C++ code was given when it wrote the vector called ``name``."""
    announce = AnnounceInfo(
        ONE, fullname(DEMO.namespace, DEMO.name, build), DEMO.namespace, DEMO.name, 0
    )
    everything: dict[str, Message] = {
        "connect": Connect(PeerMode.BOTH, SELF),
        "connect_response": ConnectResponse(0, SELF),
        "connect_refused": ConnectResponse(ConnectError.NOT_AUTHORIZED, None),
        "node_info_advertise": NodeInfoAdvertise(node()),
        "node_info_withdraw": NodeInfoWithdrawn(node()),
        "node_info_contact_70": NodeInfoAdvertise(node(b"c" * 70)),
        "node_info_contact_200": NodeInfoAdvertise(node(b"c" * 200)),
        "subscribe_info_advertise": SubscribeInfoAdvertised(subscribe(build)),
        "subscribe_info_withdraw": SubscribeInfoWithdrawn(subscribe(build)),
        "announce_track": AnnounceInfoAdvertised(announce),
        "announce_track_withdraw": AnnounceInfoWithdrawn(announce),
        "announce_namespace": AnnounceInfoAdvertised(
            AnnounceInfo(ONE, fullname(TUPLE, b"", build), TUPLE, b"", 1)
        ),
        "sns_advertise": SubscribeNodeSetAdvertised(
            2,
            DEFAULT_SNS_PRIORITY,
            (NodeId(5), NodeId(0x1122_3344_5566_7788), NodeId(2**64 - 1)),
        ),
        "sns_withdraw": SubscribeNodeSetWithdrawn(2),
    }
    return everything[name]


MESSAGE_VECTORS = [row["name"] for row in VECTORS["code"] if not row["name"].startswith("data_")]


def write(message: Message, integers: IntegerCoding = QUIC) -> bytes:
    return fields.write(LAYOUTS[TYPES[type(message)]], message, integers)


def read(kind: MessageType, body: bytes, integers: IntegerCoding = QUIC) -> Any:
    return fields.read_whole(LAYOUTS[kind], body, integers)


# Bytes of others


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", MESSAGE_VECTORS)
def test_the_relays_own_code_writes_the_same(name: str, build: str) -> None:
    data, integers = coded(name, build), BUILDS[build].integers
    message = expected(name, build)
    assert write(message, integers) == data[HEADER:]
    assert TYPES[type(message)] == int.from_bytes(data[1:3], "big")
    assert read(TYPES[type(message)], data[HEADER:], integers) == message


def test_the_builds_write_a_long_contact_differently() -> None:
    at = HEADER + 9
    assert coded("node_info_contact_70", "draft16")[at : at + 3] == b"\x40\x46c"
    assert coded("node_info_contact_70", "draft18")[at : at + 2] == b"\x46c"
    assert coded("node_info_contact_200", "draft16")[at : at + 2] == b"\x40\xc8"
    assert coded("node_info_contact_200", "draft18")[at : at + 2] == b"\x80\xc8"
    for name in ("connect", "node_info_advertise"):
        assert coded(name, "draft16") == coded(name, "draft18")


def test_a_live_connect() -> None:
    message = read(MessageType.CONNECT, live("connect")[HEADER:])
    node_id = NodeId(endpoint_node_id("relay-a"))
    assert message == Connect(PeerMode.BOTH, NodeInfo(node_id, NodeType.EDGE, b"relay-a"))
    for integers in (QUIC, VI64):
        assert write(message, integers) == live("connect")[HEADER:]


@pytest.mark.parametrize(
    ("name", "integers", "parameters"),
    [
        ("subscribe_data_draft16", QUIC, "022040800201"),
        ("subscribe_data_draft18", VI64, "0220800201"),
    ],
)
def test_a_live_subscription_names_its_track(
    name: str, integers: IntegerCoding, parameters: str
) -> None:
    data = live(name)
    info = SubscribeInfo(1, ONE, 2, 3, 4, data)
    body = write(SubscribeInfoAdvertised(info))
    assert (
        body
        == bytes.fromhex("0001 0000000100000001 0000000000000002 0000000000000003 0000000000000004")
        + len(data).to_bytes(4, "big")
        + data
    )
    reader = Reader(read(MessageType.SUBSCRIBE_INFO_WITHDRAWN, body).info.subscribe_data)
    assert reader.varint("request_id") == 0
    inner = Reader(data, integers=integers, pos=reader.pos)
    assert FULL_TRACK_NAME.read(inner, "track") == DEMO
    assert inner.rest("parameters").hex() == parameters


def test_live_announces() -> None:
    track = AnnounceInfo(
        ONE,
        track_hashes([b"demo/room1"], b"clk").fullname,
        Namespace.of(b"demo/room1"),
        b"clk",
        0,
    )
    assert write(AnnounceInfoAdvertised(track))[8:] == live("announce_track")
    assert not track.is_namespace
    namespace = AnnounceInfo(ONE, 0, Namespace.of(b"demo/room2"), b"", 1)
    assert write(AnnounceInfoAdvertised(namespace))[16:] == live("announce_namespace")
    assert namespace.is_namespace


def test_a_live_node_set() -> None:
    message = SubscribeNodeSetAdvertised(2, 2, (NodeId(0x1122_3344_5566_7788),))
    assert write(message) == live("sns_advertised")
    assert write(SubscribeNodeSetWithdrawn(2)) == live("sns_withdrawn")


# What is refused


def test_a_response_has_node_information_if_and_only_if_it_accepts() -> None:
    with pytest.raises(EncodeError, match="error 0 and node_info contradict"):
        ConnectResponse(0, None)
    with pytest.raises(EncodeError, match="error 1 and node_info contradict"):
        ConnectResponse(1, SELF)
    with pytest.raises(MalformedError, match="error 0 and node_info contradict"):
        read(MessageType.CONNECT_RESPONSE, b"\x00\x00")
    with pytest.raises(MalformedError, match="error 2 and node_info contradict"):
        read(MessageType.CONNECT_RESPONSE, b"\x00\x02" + write(NodeInfoAdvertise(SELF)))


def test_an_unknown_error_is_a_refusal() -> None:
    assert read(MessageType.CONNECT_RESPONSE, b"\x00\x07") == ConnectResponse(7, None)


def test_a_node_set_is_ascending() -> None:
    for nodes in ((NodeId(2), NodeId(1)), (NodeId(1), NodeId(1))):
        with pytest.raises(EncodeError, match="not ascending, each once"):
            SubscribeNodeSetAdvertised(2, 2, nodes)


def test_a_node_set_out_of_order_is_put_in_order() -> None:
    body = bytes.fromhex("00000002 02 0002 0000000000000009 0000000000000001")
    message = read(MessageType.SUBSCRIBE_NODE_SET_ADVERTISED, body)
    assert message.nodes == (1, 9)


def test_unknown_flags_are_kept() -> None:
    info = AnnounceInfo(ONE, 1, TUPLE, b"x", 0x82)
    assert not info.is_namespace
    body = write(AnnounceInfoAdvertised(info))
    assert read(MessageType.ANNOUNCE_INFO_ADVERTISED, body).info.flags == 0x82


def test_an_announced_name_keeps_moqts_limit() -> None:
    with pytest.raises(EncodeError, match="4097 bytes, at most 4096"):
        AnnounceInfo(ONE, 1, Namespace.of(b"x" * 4000), b"y" * 97, 0)
    body = bytes(16) + b"\x01\x0f\xa0" + b"x" * 4000 + b"\x00\x61" + b"y" * 97 + b"\x00"
    with pytest.raises(MalformedError, match="4097 bytes, at most 4096"):
        read(MessageType.ANNOUNCE_INFO_ADVERTISED, body)


@pytest.mark.parametrize(
    ("kind", "body", "complaint"),
    [
        (MessageType.CONNECT, b"\x03", "mode: 3 is not one of"),
        (MessageType.CONNECT, b"\x02" + bytes(8) + b"\x03", "node_type: 3 is not one of"),
        (MessageType.CONNECT, b"\x02" + bytes(9) + b"\x44\x01", "length 1025 is over"),
        (MessageType.CONNECT, b"\x02" + bytes(10) + b"\x7f\xf8" + bytes(14), "not a number"),
        (MessageType.CONNECT, b"\x02" + bytes(26) + bytes(15), "srtt_us: truncated: 1 more"),
        (MessageType.NODE_INFO_ADVERTISE, bytes(26 + 257 * 16), "more than 256 items"),
        (MessageType.SUBSCRIBE_INFO_ADVERTISED, bytes(34) + b"\x00\x01\x00\x00", "length 65536"),
        (MessageType.SUBSCRIBE_INFO_ADVERTISED, bytes(37) + b"\x01", "truncated"),
        (MessageType.SUBSCRIBE_NODE_SET_ADVERTISED, bytes(5) + b"\x00\x01", "truncated"),
        (MessageType.SUBSCRIBE_NODE_SET_WITHDRAWN, bytes(5), "1 byte.s. left over"),
    ],
)
def test_bodies_that_cannot_be(kind: MessageType, body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedError, match=complaint):
        read(kind, body)


def test_bodies_as_large_as_the_limits() -> None:
    path = tuple(NodePathItem(NodeId(index), index) for index in range(256))
    largest = NodeInfo(ONE, NodeType.VIA, b"c" * 1024, path=path)
    message = NodeInfoAdvertise(largest)
    assert read(MessageType.NODE_INFO_ADVERTISE, write(message)) == message
    info = SubscribeInfo(0, ONE, 0, 0, 0, b"d" * 0xFFFF)
    data = write(SubscribeInfoAdvertised(info))
    assert read(MessageType.SUBSCRIBE_INFO_ADVERTISED, data).info == info


def test_every_type_has_a_table_and_every_table_a_type() -> None:
    assert set(LAYOUTS) == set(MessageType)
    assert set(TYPES.values()) == set(MessageType)
    assert NODE_INFO.cls is NodeInfo


@pytest.mark.parametrize("build", BUILDS)
@given(message=messages())
def test_what_is_written_is_read(build: str, message: Any) -> None:
    if type(message) in TYPES:
        integers = BUILDS[build].integers
        assert read(TYPES[type(message)], write(message, integers), integers) == message
