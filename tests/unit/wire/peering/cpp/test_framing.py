"""The common header, and messages out of a stream that comes in any chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.codepoints import DRAFT16, DRAFT18, MAX_BODY_BYTES, Build
from laps_wire.peering.cpp.framing import Incoming, MessageStream, UnknownMessage, decode, encode
from laps_wire.peering.cpp.messages import (
    Connect,
    SubscribeNodeSetAdvertised,
    SubscribeNodeSetWithdrawn,
)
from testkit.laps_cpp import VECTORS, coded, live, messages
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

BUILDS = {"draft16": DRAFT16, "draft18": DRAFT18}
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
def test_the_relays_own_code_writes_the_same(name: str, build: str) -> None:
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
def test_identity_and_prefixes(build: Build, message: Incoming, suffix: bytes) -> None:
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
def test_any_bytes(build: Build, data: bytes) -> None:
    check_any_bytes(lambda it: decode(it, build), data)


def test_memory_is_bounded_by_the_input() -> None:
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
