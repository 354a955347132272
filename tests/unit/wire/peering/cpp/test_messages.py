"""Messages of the C++ relay: against bytes from its wire and from its own code, in both builds.

The C++ relay's own kinds of field.

The common header, and messages out of a stream that comes in any chunks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps_cpp  # noqa: F401 - registers the strategies
from laps_wire.buffer import QUIC, VI64, IntegerCoding, Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.hashing import endpoint_node_id, track_hashes
from laps_wire.names import FULL_TRACK_NAME, FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.codepoints import (
    DRAFT16,
    DRAFT18,
    MAX_BODY_BYTES,
    Build,
    ConnectError,
    MessageType,
    NodeType,
    PeerMode,
)
from laps_wire.peering.cpp.messages import (
    DEFAULT_SNS_PRIORITY,
    LAYOUTS,
    NODE_INFO,
    NODE_SET,
    PATH_ITEM,
    SHORT_NAMESPACE,
    TYPES,
    AnnounceInfo,
    AnnounceInfoAdvertised,
    AnnounceInfoWithdrawn,
    Connect,
    ConnectResponse,
    Incoming,
    Message,
    MessageStream,
    NodeInfo,
    NodeInfoAdvertise,
    NodeInfoWithdrawn,
    NodePathItem,
    SubscribeInfo,
    SubscribeInfoAdvertised,
    SubscribeInfoWithdrawn,
    SubscribeNodeSetAdvertised,
    SubscribeNodeSetWithdrawn,
    UnknownMessage,
    decode,
    encode,
)
from testkit import fields
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.laps_cpp import VECTORS, coded, live, messages
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip
from testkit.strategies import values_of

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


def write_layout(message: Message, integers: IntegerCoding = QUIC) -> bytes:
    return fields.write(LAYOUTS[TYPES[type(message)]], message, integers)


def read_layout(kind: MessageType, body: bytes, integers: IntegerCoding = QUIC) -> Any:
    return fields.read_whole(LAYOUTS[kind], body, integers)


# Bytes of others


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", MESSAGE_VECTORS)
def test_the_relays_own_code_writes_the_same(name: str, build: str) -> None:
    data, integers = coded(name, build), BUILDS[build].integers
    message = expected(name, build)
    assert write_layout(message, integers) == data[HEADER:]
    assert TYPES[type(message)] == int.from_bytes(data[1:3], "big")
    assert read_layout(TYPES[type(message)], data[HEADER:], integers) == message


def test_the_builds_write_a_long_contact_differently() -> None:
    at = HEADER + 9
    assert coded("node_info_contact_70", "draft16")[at : at + 3] == b"\x40\x46c"
    assert coded("node_info_contact_70", "draft18")[at : at + 2] == b"\x46c"
    assert coded("node_info_contact_200", "draft16")[at : at + 2] == b"\x40\xc8"
    assert coded("node_info_contact_200", "draft18")[at : at + 2] == b"\x80\xc8"
    for name in ("connect", "node_info_advertise"):
        assert coded(name, "draft16") == coded(name, "draft18")


def test_a_live_connect() -> None:
    message = read_layout(MessageType.CONNECT, live("connect")[HEADER:])
    node_id = NodeId(endpoint_node_id("relay-a"))
    assert message == Connect(PeerMode.BOTH, NodeInfo(node_id, NodeType.EDGE, b"relay-a"))
    for integers in (QUIC, VI64):
        assert write_layout(message, integers) == live("connect")[HEADER:]


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
    body = write_layout(SubscribeInfoAdvertised(info))
    assert (
        body
        == bytes.fromhex("0001 0000000100000001 0000000000000002 0000000000000003 0000000000000004")
        + len(data).to_bytes(4, "big")
        + data
    )
    reader = Reader(read_layout(MessageType.SUBSCRIBE_INFO_WITHDRAWN, body).info.subscribe_data)
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
    assert write_layout(AnnounceInfoAdvertised(track))[8:] == live("announce_track")
    assert not track.is_namespace
    namespace = AnnounceInfo(ONE, 0, Namespace.of(b"demo/room2"), b"", 1)
    assert write_layout(AnnounceInfoAdvertised(namespace))[16:] == live("announce_namespace")
    assert namespace.is_namespace


def test_a_live_node_set() -> None:
    message = SubscribeNodeSetAdvertised(2, 2, (NodeId(0x1122_3344_5566_7788),))
    assert write_layout(message) == live("sns_advertised")
    assert write_layout(SubscribeNodeSetWithdrawn(2)) == live("sns_withdrawn")


# What is refused


def test_a_response_has_node_information_if_and_only_if_it_accepts() -> None:
    with pytest.raises(EncodeError, match="error 0 and node_info contradict"):
        ConnectResponse(0, None)
    with pytest.raises(EncodeError, match="error 1 and node_info contradict"):
        ConnectResponse(1, SELF)
    with pytest.raises(MalformedError, match="error 0 and node_info contradict"):
        read_layout(MessageType.CONNECT_RESPONSE, b"\x00\x00")
    with pytest.raises(MalformedError, match="error 2 and node_info contradict"):
        read_layout(
            MessageType.CONNECT_RESPONSE, b"\x00\x02" + write_layout(NodeInfoAdvertise(SELF))
        )


def test_an_unknown_error_is_a_refusal() -> None:
    assert read_layout(MessageType.CONNECT_RESPONSE, b"\x00\x07") == ConnectResponse(7, None)


def test_a_node_set_is_ascending() -> None:
    for nodes in ((NodeId(2), NodeId(1)), (NodeId(1), NodeId(1))):
        with pytest.raises(EncodeError, match="not ascending, each once"):
            SubscribeNodeSetAdvertised(2, 2, nodes)


def test_a_node_set_out_of_order_is_put_in_order() -> None:
    body = bytes.fromhex("00000002 02 0002 0000000000000009 0000000000000001")
    message = read_layout(MessageType.SUBSCRIBE_NODE_SET_ADVERTISED, body)
    assert message.nodes == (1, 9)


def test_unknown_flags_are_kept() -> None:
    info = AnnounceInfo(ONE, 1, TUPLE, b"x", 0x82)
    assert not info.is_namespace
    body = write_layout(AnnounceInfoAdvertised(info))
    assert read_layout(MessageType.ANNOUNCE_INFO_ADVERTISED, body).info.flags == 0x82


def test_an_announced_name_keeps_moqts_limit() -> None:
    with pytest.raises(EncodeError, match="4097 bytes, at most 4096"):
        AnnounceInfo(ONE, 1, Namespace.of(b"x" * 4000), b"y" * 97, 0)
    body = bytes(16) + b"\x01\x0f\xa0" + b"x" * 4000 + b"\x00\x61" + b"y" * 97 + b"\x00"
    with pytest.raises(MalformedError, match="4097 bytes, at most 4096"):
        read_layout(MessageType.ANNOUNCE_INFO_ADVERTISED, body)


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
        read_layout(kind, body)


def test_bodies_as_large_as_the_limits() -> None:
    path = tuple(NodePathItem(NodeId(index), index) for index in range(256))
    largest = NodeInfo(ONE, NodeType.VIA, b"c" * 1024, path=path)
    message = NodeInfoAdvertise(largest)
    assert read_layout(MessageType.NODE_INFO_ADVERTISE, write_layout(message)) == message
    info = SubscribeInfo(0, ONE, 0, 0, 0, b"d" * 0xFFFF)
    data = write_layout(SubscribeInfoAdvertised(info))
    assert read_layout(MessageType.SUBSCRIBE_INFO_ADVERTISED, data).info == info


def test_every_type_has_a_table_and_every_table_a_type() -> None:
    assert set(LAYOUTS) == set(MessageType)
    assert set(TYPES.values()) == set(MessageType)
    assert NODE_INFO.cls is NodeInfo


@pytest.mark.parametrize("build", BUILDS)
@given(message=messages())
def test_what_is_written_is_read(build: str, message: Any) -> None:
    if type(message) in TYPES:
        integers = BUILDS[build].integers
        assert (
            read_layout(TYPES[type(message)], write_layout(message, integers), integers) == message
        )


# Field codecs

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


# Framing

WITHDRAWN = SubscribeNodeSetWithdrawn(2)
TOO_LONG = b"\x01\x00\x0b\x00\x10\x00\x01"


def drain(stream: MessageStream) -> list[Incoming]:
    found: list[Incoming] = []
    while (message := stream.next_message()) is not None:
        found.append(message)
    return found


# One message


def test_the_header() -> None:
    assert encode(WITHDRAWN, DRAFT16) == bytes.fromhex("01 000b 00000004 00000002")
    assert decode(bytes.fromhex("01 000b 00000004 00000002"), DRAFT16) == (WITHDRAWN, 11)


def test_a_live_connect_is_read_and_written_to_the_byte() -> None:
    message, used = decode(live("connect"), DRAFT16)
    assert isinstance(message, Connect)
    assert used == len(live("connect")) == 41
    assert encode(message, DRAFT16) == encode(message, DRAFT18) == live("connect")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    "name", [row["name"] for row in VECTORS["code"] if not row["name"].startswith("data_")]
)
def test_the_relays_own_code_writes_the_same_of_framing(name: str, build: str) -> None:
    data = coded(name, build)
    message, used = decode(data, BUILDS[build])
    assert used == len(data)
    assert encode(message, BUILDS[build]) == data


def test_a_contact_of_one_build_is_not_that_of_the_other() -> None:
    """40 46 is 70 in RFC 9000's coding; in vi64 40 is 64, and the body then ends in the middle."""
    with pytest.raises(MalformedError):
        decode(coded("node_info_contact_70", "draft16"), DRAFT18)


def test_a_message_in_the_middle_of_a_buffer() -> None:
    data = b"junk" + encode(WITHDRAWN, DRAFT16) + b"more"
    assert decode(data, DRAFT16, pos=4) == (WITHDRAWN, 15)


def test_unknown_types_are_kept() -> None:
    data = bytes.fromhex("01 0003 00000002 abcd")
    message, used = decode(data, DRAFT16)
    assert (message, used) == (UnknownMessage(3, b"\xab\xcd"), 9)
    assert encode(message, DRAFT16) == data


def test_a_known_type_is_not_unknown() -> None:
    for message_type in (1, 11):
        with pytest.raises(EncodeError, match=f"type {message_type} is known"):
            UnknownMessage(message_type, b"")


def test_a_type_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="type: 65536 does not fit"):
        encode(UnknownMessage(0x10000, b""), DRAFT16)


@pytest.mark.parametrize(
    ("data", "complaint", "offset"),
    [
        (b"\x02", "version: 2 where only 1 is known", 0),
        (b"\x00\x00\x01", "version: 0 where only 1 is known", 0),
        (TOO_LONG, "length: 1048577 is over the limit of 1048576", 3),
        (b"\x01\xff\xff\xff\xff\xff\xff", "length: 4294967295 is over the limit", 3),
        (bytes.fromhex("01 000b 00000005 0000000200"), "1 byte(s) left over", 11),
        (bytes.fromhex("01 000b 00000003 000002"), "truncated: 1 more byte(s)", 7),
    ],
)
def test_frames_that_cannot_be(data: bytes, complaint: str, offset: int) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(data, DRAFT16)
    assert complaint in str(caught.value)
    assert caught.value.offset == offset


def test_the_length_cap_both_ways() -> None:
    largest = UnknownMessage(12, bytes(MAX_BODY_BYTES))
    assert decode(encode(largest, DRAFT16), DRAFT16)[0] == largest
    with pytest.raises(EncodeError, match="1048577 bytes are over the limit of 1048576"):
        encode(UnknownMessage(12, bytes(MAX_BODY_BYTES + 1)), DRAFT16)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@given(message=messages(), suffix=st.binary(max_size=3))
def test_identity_and_prefixes_of_framing(build: Build, message: Incoming, suffix: bytes) -> None:
    check_round_trip(
        lambda it: encode(it, build), lambda it: decode(it, build), message, suffix=suffix
    )
    check_prefixes(lambda it: encode(it, build), lambda it: decode(it, build), message)


FRAMES = st.builds(
    lambda kind, body: b"\x01" + kind.to_bytes(2, "big") + len(body).to_bytes(4, "big") + body,
    st.integers(0, 13),
    st.binary(max_size=60),
)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@given(data=st.binary(max_size=60) | FRAMES)
def test_any_bytes_of_framing(build: Build, data: bytes) -> None:
    check_any_bytes(lambda it: decode(it, build), data)


def test_memory_is_bounded_by_the_input_of_framing() -> None:
    count = SubscribeNodeSetAdvertised(2, 2, tuple(NodeId(number) for number in range(2000)))
    for data in (encode(count, DRAFT16), b"\x01\x00\x0a\x00\x0f\xff\xff" + b"\xff" * 100):
        check_bounded(lambda it: decode(it, DRAFT16), data)


# A stream of them


@given(st.lists(messages(), max_size=5), st.data())
def test_any_chunks_give_the_same_messages(sent: list[Incoming], data: st.DataObject) -> None:
    whole = b"".join(encode(message, DRAFT16) for message in sent)
    stream = MessageStream(DRAFT16)
    found: list[Incoming] = []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        stream.feed(whole[:size])
        whole = whole[size:]
        found += drain(stream)
    assert found == sent
    assert stream.buffered == 0


def test_several_messages_in_one_chunk_are_all_handed_out() -> None:
    """A C++ relay handles one for each chunk and falls behind; we must not."""
    stream = MessageStream(DRAFT18)
    stream.feed(encode(WITHDRAWN, DRAFT18) * 3 + b"\x01\x00")
    assert drain(stream) == [WITHDRAWN] * 3
    assert stream.buffered == 2


def test_the_build_decides_how_a_stream_is_read() -> None:
    for name, build in BUILDS.items():
        stream = MessageStream(build)
        stream.feed(coded("node_info_contact_200", name))
        (message,) = drain(stream)
        assert encode(message, build) == coded("node_info_contact_200", name)


def test_messages_before_a_bad_one_and_behind_it_are_not_lost() -> None:
    stream = MessageStream(DRAFT16)
    good = encode(WITHDRAWN, DRAFT16)
    stream.feed(good + bytes.fromhex("01 000b 00000003 000002") + good)
    assert stream.next_message() == WITHDRAWN
    with pytest.raises(MalformedError):
        stream.next_message()
    assert drain(stream) == [WITHDRAWN]


@pytest.mark.parametrize("header", [TOO_LONG, b"\x02\x00\x0b\x00\x00\x00\x04"])
def test_what_its_header_condemns_is_refused_without_its_body(header: bytes) -> None:
    stream = MessageStream(DRAFT16)
    stream.feed(header[:6])
    assert stream.next_message() is None
    stream.feed(header[6:])
    with pytest.raises(MalformedError):
        stream.next_message()
    assert stream.buffered == 0


def test_a_message_of_exactly_the_cap_is_waited_for() -> None:
    stream = MessageStream(DRAFT16)
    stream.feed(b"\x01\x00\x0c\x00\x10\x00\x00")
    assert stream.next_message() is None
    stream.feed(bytes(MAX_BODY_BYTES))
    assert stream.next_message() == UnknownMessage(12, bytes(MAX_BODY_BYTES))


def test_nothing_gives_nothing() -> None:
    assert MessageStream(DRAFT16).next_message() is None
    with pytest.raises(IncompleteError):
        decode(b"", DRAFT16)
