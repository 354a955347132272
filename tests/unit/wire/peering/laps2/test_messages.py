"""Messages of laps-2: the table, FETCH messages, and framing with the rules for unknown types."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError
from laps_wire.fields import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import MessageTooLargeError, UnknownMessageError
from laps_wire.peering.laps2 import messages
from laps_wire.peering.laps2.codepoints import (
    MAX_MESSAGE_BYTES,
    MIN_MESSAGE_BYTES,
    Bases,
    MessageType,
)
from laps_wire.peering.laps2.fields import NO_PARAMETERS, PARAMETERS, Label, Parameters
from laps_wire.peering.laps2.information import SubscribeData
from laps_wire.peering.laps2.messages import (
    FETCH_CANCEL,
    FETCH_REQUEST,
    FETCH_RESPONSE,
    LAYOUTS,
    TYPES,
    ControlLatch,
    Drain,
    FetchCancel,
    FetchRequest,
    FetchResponse,
    Keepalive,
    Message,
    Probe,
    ProbeResponse,
    Stay,
    SyncBegin,
    SyncEnd,
    SyncRequest,
    UnknownMessage,
    decode,
    encode,
    read_message,
    write_message,
)
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.laps2 import messages as any_message
from testkit.laps2 import named, plain, vectors
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip
from testkit.strategies import values_of

BY_NAME = {kind.name: layout for kind, layout in LAYOUTS.items()}
# The tables of other modules have these properties tested beside them, and whole in test_framing.
OWN = {
    name: layout for name, layout in BY_NAME.items() if layout.cls.__module__ == messages.__name__
}


def test_every_type_has_a_table_and_every_table_a_class() -> None:
    assert set(LAYOUTS) == set(MessageType)
    assert len(TYPES) == len(LAYOUTS)
    assert len(OWN) == 15
    assert set(TYPES) == set(get_args(Message))
    for cls, kind in TYPES.items():
        assert LAYOUTS[kind].cls is cls
        assert cls.__name__ in messages.__all__
        assert cls.__name__.upper() == kind.name.replace("_", "")


@pytest.mark.parametrize("layout", BY_NAME.values(), ids=BY_NAME)
def test_every_message_ends_with_parameters_that_may_be_left_out(layout: Layout[Any]) -> None:
    assert layout.table[-1] == ("parameters", PARAMETERS)
    last = fields(layout.cls)[-1]
    assert (last.name, last.default) == ("parameters", NO_PARAMETERS)


@pytest.mark.parametrize("layout", OWN.values(), ids=OWN)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", OWN.values(), ids=OWN)
@given(data=st.binary(min_size=1, max_size=100))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (ControlLatch(64), "4040 00"),
        (Keepalive(), "00"),
        (Drain(1, "r", ("h",)), "01 0172 01 0168 00"),
        (Stay(), "00"),
        (SyncRequest(Bases.SUBSCRIBES), "04 00"),
        (SyncBegin(Bases.ALL), "0f 00"),
        (SyncEnd(Bases.SNS), "08 00"),
        (Probe(1, NodeId(2), 3, b"pp"), "01 0000000000000002 0000000000000003 027070 00"),
        (
            ProbeResponse(1, NodeId(2), 3, 4),
            "01 0000000000000002 0000000000000003 04 00 00 00",
        ),
        (
            ProbeResponse(1, NodeId(2), 3, 4, 5),
            "01 0000000000000002 0000000000000003 04 01 05 00 00",
        ),
    ],
)
def test_bytes_by_hand(value: Any, data: str) -> None:
    layout = LAYOUTS[TYPES[type(value)]]
    assert write(layout, value) == bytes.fromhex(data)
    assert read(layout, bytes.fromhex(data))[0] == value


# Fetching

A, B = NodeId(1), NodeId(2)
REQUEST = FetchRequest(A, B, 7, 0, (3,), 4, 5, (Label("region", "eu"),), SubscribeData(18, b"\0"))
RESPONSE = FetchResponse(A, 7, B, 16, 0, data=SubscribeData(18, b"\1"))
CANCEL = FetchCancel(A, B, 0xFFFFFFFF, 1)
BY_HAND: dict[str, tuple[Layout[Any], Any, str]] = {
    "request": (
        FETCH_REQUEST,
        REQUEST,
        (
            "0000000000000001 0000000000000002 00000007 00 01 0000000000000003 0000000000000004 "
            "0000000000000005 01 06 726567696f6e 02 6575 12 01 00 00"
        ),
    ),
    "response": (
        FETCH_RESPONSE,
        RESPONSE,
        "0000000000000001 00000007 0000000000000002 10 00 00 00 12 01 01 00",
    ),
    "cancel": (FETCH_CANCEL, CANCEL, "0000000000000001 0000000000000002 ffffffff 01 00"),
}


@pytest.mark.parametrize(("layout", "message", "text"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(layout: Layout[Any], message: Any, text: str) -> None:
    assert write(layout, message) == bytes.fromhex(text)
    assert read(layout, bytes.fromhex(text)) == (message, len(bytes.fromhex(text)))


@pytest.mark.parametrize("wrong", [{"fetch_id": 0}, {"hops": 17}])
def test_what_no_fetch_has(wrong: dict[str, int]) -> None:
    cases: list[tuple[Layout[Any], Any]] = [(FETCH_REQUEST, REQUEST), (FETCH_CANCEL, CANCEL)]
    for layout, message in cases:
        with pytest.raises(EncodeError, match="is outside"):
            write(layout, replace(message, **wrong))
    (value,) = wrong.values()
    number = f"{value:08x}" if "fetch_id" in wrong else "00000007"
    hops = f"{value:02x}" if "hops" in wrong else "00"
    with pytest.raises(MalformedError, match="is outside"):
        read(FETCH_CANCEL, bytes.fromhex(f"{1:016x}{2:016x}{number}{hops}00"))


# Framing


@given(any_message())
def test_identity_and_prefixes_of_framing(message: Any) -> None:
    check_round_trip(encode, decode, message, suffix=b"\x0e")
    check_prefixes(encode, decode, message)


@given(st.binary(min_size=1, max_size=150))
def test_any_bytes_of_framing(data: bytes) -> None:
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
