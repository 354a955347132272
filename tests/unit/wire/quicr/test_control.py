"""The control channel: framing, both families in one registry, the vectors both ways."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.quicr.codepoints import MAX_MESSAGE, Flags, MessageType, Response
from laps_wire.quicr.messages import (
    LAYOUTS,
    Fin,
    Fragment,
    Message,
    Publish,
    StartPoint,
    SubscribeReply,
    decode,
    encode,
    read_message,
    type_of,
)
from laps_wire.quicr.shortname import ShortName
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip
from testkit.quicr import VECTORS, message_of, messages
from testkit.strategies import values_of

CONTROL = VECTORS["control"]
TYPED = [vector for vector in CONTROL if not vector.get("untyped")]
UNTYPED = [vector for vector in CONTROL if vector.get("untyped")]
WRITTEN = [vector for vector in TYPED if not vector.get("read_only")]


def names(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["name"] for vector in vectors]


def test_every_type_has_a_message_a_table_and_a_vector_that_we_write() -> None:
    assert set(LAYOUTS) == set(MessageType)
    assert {layout.cls for layout in LAYOUTS.values()} == set(get_args(Message))
    assert {MessageType[vector["type"]] for vector in WRITTEN} == set(MessageType)


@pytest.mark.parametrize("vector", TYPED, ids=names(TYPED))
def test_vectors_are_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    message = message_of(vector, MessageType[vector["type"]])
    assert decode(data) == (message, len(data))
    assert decode(data, untyped_reply=vector["type"] == "SUBSCRIBE_REPLY") == (message, len(data))


@pytest.mark.parametrize("vector", WRITTEN, ids=names(WRITTEN))
def test_vectors_are_written(vector: dict[str, Any]) -> None:
    message = message_of(vector, MessageType[vector["type"]])
    assert encode(message) == bytes.fromhex(vector["hex"])
    assert type_of(message).name == vector["type"]


@pytest.mark.parametrize("vector", UNTYPED, ids=names(UNTYPED))
def test_a_reply_without_a_type_is_read_where_only_a_reply_can_stand(
    vector: dict[str, Any],
) -> None:
    data = bytes.fromhex(vector["hex"])
    message = message_of(vector, MessageType.SUBSCRIBE_REPLY)
    assert decode(data, untyped_reply=True) == (message, len(data))
    with pytest.raises(MalformedError):
        decode(data)


def test_a_three_where_a_reply_is_awaited_is_a_fin() -> None:
    # The seed ends at 2: our 3 for redirect is only ever written behind a type.
    assert decode(bytes.fromhex("0003 03 01 02"), untyped_reply=True)[0] == Fin(1, 2)
    assert decode(encode(StartPoint(1, 2)), untyped_reply=True)[0] == StartPoint(1, 2)
    assert decode(encode(SubscribeReply(Response.REDIRECT)), untyped_reply=True)[0] == (
        SubscribeReply(Response.REDIRECT)
    )


@pytest.mark.parametrize("kind", LAYOUTS)
@given(data=st.data())
def test_identity_and_prefixes(kind: MessageType, data: st.DataObject) -> None:
    message = data.draw(values_of(LAYOUTS[kind]))
    check_round_trip(encode, decode, message, suffix=b"\xff")
    check_prefixes(encode, decode, message)


@given(st.lists(messages, max_size=4))
def test_messages_follow_one_another(sent: list[Message]) -> None:
    stream = b"".join(encode(message) for message in sent)
    pos = 0
    got = []
    while pos < len(stream):
        message, pos = decode(stream, pos=pos)
        got.append(message)
    assert got == sent


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes(data: bytes, untyped: bool) -> None:
    framed = len(data).to_bytes(2, "big") + data
    for attempt in (data, framed):
        check_any_bytes(lambda b: decode(b, untyped_reply=untyped), attempt)
        check_bounded(lambda b: decode(b, untyped_reply=untyped), attempt)


@given(kind=st.sampled_from(MessageType), data=st.binary(max_size=60))
def test_any_body_that_reads_can_be_written_and_reads_the_same(
    kind: MessageType, data: bytes
) -> None:
    framed = (len(data) + 1).to_bytes(2, "big") + bytes([kind]) + data
    try:
        message, _ = decode(framed)
    except MalformedError:
        return
    assert decode(encode(message))[0] == message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("0000", r"message_type: truncated"),
        ("0001 00", r"message_type: 0x0 is no message of QuicR \(at byte 2\)"),
        ("0001 04", "0x4 is no message of QuicR"),
        ("0002 7fff", "0x3fff is no message of QuicR"),
        ("0002 0804", r"start_object_id: truncated"),
        ("0004 080409 00", r"START_POINT: 1 byte\(s\) left over"),
        ("0003 2205 40", "count: truncated"),
        # a varint may not borrow bytes from the message behind it
        ("0002 0804 0901", "start_object_id: truncated"),
    ],
)
def test_what_is_refused(data: str, words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        decode(bytes.fromhex(data))


def test_a_type_in_a_longer_varint_is_the_same_type() -> None:
    assert decode(bytes.fromhex("0004 4008 0409"))[0] == StartPoint(4, 9)


def test_the_length_is_waited_for() -> None:
    with pytest.raises(IncompleteError) as caught:
        decode(b"\xff\xff\x08")
    assert caught.value.needed == 0xFFFE


def test_the_largest_message() -> None:
    name = ShortName(1)
    largest = Publish(name, Flags(0), 3, 0, 0, bytes(MAX_MESSAGE - 21))
    data = encode(largest)
    assert len(data) == MAX_MESSAGE + 2
    assert decode(data) == (largest, len(data))
    with pytest.raises(EncodeError, match="PUBLISH: 65536 bytes are over the limit of 65535"):
        encode(Publish(name, Flags(0), 3, 0, 0, bytes(MAX_MESSAGE - 20)))
    with pytest.raises(EncodeError, match=r"FRAGMENT.data: 65536 bytes are over"):
        encode(Fragment(0, 0, 0, bytes(MAX_MESSAGE + 1)))


def test_a_reader_can_be_brought_along() -> None:
    reader = Reader(encode(StartPoint(1, 2)) + encode(Fin(3, 4)), partial=True)
    assert [read_message(reader), read_message(reader)] == [StartPoint(1, 2), Fin(3, 4)]
    assert reader.at_end
