"""Whole messages: the vectors both ways, the rule for unknown types, the size limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError
from laps_wire.peering.errors import MessageTooLargeError, UnknownMessageError
from laps_wire.peering.laps2.codepoints import MessageType
from laps_wire.peering.laps2.framing import (
    UnknownMessage,
    decode,
    encode,
    read_message,
    write_message,
)
from laps_wire.peering.laps2.limits import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.laps2.messages import TYPES, ControlLatch, Keepalive, Probe
from laps_wire.peering.laps2.parameters import Parameters
from testkit.laps2 import messages, named, plain, vectors
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip


@given(messages())
def test_identity_and_prefixes(message: Any) -> None:
    check_round_trip(encode, decode, message, suffix=b"\x0e")
    check_prefixes(encode, decode, message)


@given(st.binary(min_size=1, max_size=150))
def test_any_bytes(data: bytes) -> None:
    check_any_bytes(decode, data)
    check_bounded(decode, data)


@given(st.sampled_from(MessageType), st.binary(max_size=120))
def test_any_body_of_any_type(kind: MessageType, body: bytes) -> None:
    framed = bytes([kind, 0x40 | len(body) >> 8, len(body) & 0xFF]) + body
    check_bounded(decode, framed)
    try:
        message, used = decode(framed)
    except RemoteError:  # the body is whole: nothing may wait for more
        return
    assert used == len(framed)
    assert decode(encode(message))[0] == message


@pytest.mark.parametrize("vector", named("messages"))
def test_vectors_both_ways(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    message, used = decode(data)
    assert used == len(data)
    assert plain(message) == vector["fields"]
    expected = MessageType[vector["type"]] if vector["type"] else None
    assert TYPES.get(type(message)) == expected
    assert encode(message) == data


@pytest.mark.parametrize("vector", named("other_forms"))
def test_what_is_read_in_other_forms_than_we_write(vector: dict[str, Any]) -> None:
    message, _ = decode(bytes.fromhex(vector["hex"]))
    assert plain(message) == vector["fields"]
    assert encode(message) == bytes.fromhex(vector["written"])


@pytest.mark.parametrize("vector", named("errors"))
def test_what_must_be_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(RemoteError) as caught:
        decode(bytes.fromhex(vector["hex"]))
    assert caught.value.code == vector["code"]
    assert vector["words"] in str(caught.value)


def test_there_is_a_vector_for_every_message() -> None:
    named_types = {vector["type"] for vector in vectors()["messages"]}
    assert named_types == {None, *(kind.name for kind in MessageType)}


def test_unknown_odd_types_are_stepped_over_and_kept() -> None:
    data = bytes.fromhex("4123 02 abcd") + encode(Keepalive())
    unknown, after = decode(data)
    assert unknown == UnknownMessage(0x123, b"\xab\xcd")
    assert encode(unknown) == data[:after]
    assert decode(data, pos=after) == (Keepalive(), len(data))


def test_unknown_even_types_end_the_session_before_their_body_comes() -> None:
    with pytest.raises(UnknownMessageError) as caught:
        decode(bytes.fromhex("3e"))
    assert caught.value.message_type == 0x3E
    with pytest.raises(EncodeError, match="0x3e is even: it must be understood"):
        UnknownMessage(0x3E, b"")


def test_unknown_parameters_survive() -> None:
    message = ControlLatch(1, Parameters(((0x2A, b"a"), (0x1FFFFFFF, b"b"))))
    again, _ = decode(encode(message))
    assert again == message
    assert encode(again) == encode(message)


def test_a_body_over_the_limit_is_refused_before_it_is_kept() -> None:
    message = Probe(1, 2, 3, bytes(100))  # type: ignore[arg-type] # any integer is written
    data = encode(message)
    size = len(data) - 3
    assert decode(data, max_size=size)[0] == message
    with pytest.raises(MessageTooLargeError) as caught:
        decode(data[:3], max_size=size - 1)  # type and length are enough
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


def test_the_defaults_of_the_limit() -> None:
    largest = UnknownMessage(0x123, bytes(MIN_MESSAGE_BYTES))
    assert decode(encode(largest))[0] == largest
    larger = encode(UnknownMessage(0x123, bytes(MIN_MESSAGE_BYTES + 1)))
    with pytest.raises(MessageTooLargeError):
        decode(larger)
    assert decode(larger, max_size=MIN_MESSAGE_BYTES + 1)[1] == len(larger)
    with pytest.raises(EncodeError, match="0x123: a body of 1048577 bytes is over the limit"):
        encode(UnknownMessage(0x123, bytes(MAX_MESSAGE_BYTES + 1)))


def test_what_the_peer_would_refuse_is_not_written() -> None:
    writer = Writer()
    with pytest.raises(EncodeError, match="KEEPALIVE: a body of 4 bytes is over the limit of 3"):
        write_message(writer, Keepalive(Parameters(((1, b"x"),))), max_size=3)
    assert len(writer) == 0
    write_message(writer, Keepalive(Parameters(((1, b"x"),))), max_size=4)
    assert writer.getvalue() == bytes.fromhex("0e 04 01 01 01 78")


def test_a_whole_buffer_that_is_too_short_is_malformed() -> None:
    with pytest.raises(MalformedError, match="truncated"):
        read_message(Reader(bytes.fromhex("0e 02 00")))
    with pytest.raises(IncompleteError):
        decode(bytes.fromhex("0e 02 00"))


def test_a_fault_names_message_and_field() -> None:
    with pytest.raises(MalformedError) as caught:
        decode(bytes.fromhex("0c 02 01 4041"))
    assert caught.value.field == "parameters.count"
    assert caught.value.offset == 3
