"""Datagrams: the header by hand and by table, the vectors both ways, cutting an object up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, LapsError, MalformedError
from laps_wire.quicr.codepoints import RESERVED_DATAGRAM_STREAM_ID, Flags, MessageType
from laps_wire.quicr.datagram import (
    DatagramFragment,
    DatagramHeader,
    decode_datagram,
    decode_header,
    encode_datagram,
    encode_header,
    encode_publish,
    read_header,
    split_to_datagrams,
)
from laps_wire.quicr.messages import PUBLISH, Publish
from testkit.properties import check_any_bytes, check_bounded
from testkit.quicr import VECTORS, datagram_headers, message_of
from testkit.strategies import values_of

DATAGRAMS = VECTORS["datagrams"]
FIRST = DatagramHeader(7, 1, 0, 0, 0, Flags(0), 30)


def header_of(vector: dict[str, Any]) -> DatagramHeader:
    fields = dict(vector["header"])
    return DatagramHeader(**{**fields, "flags": Flags(fields["flags"])})


@pytest.mark.parametrize("vector", DATAGRAMS, ids=[vector["name"] for vector in DATAGRAMS])
def test_vectors_both_ways(vector: dict[str, Any]) -> None:
    data, payload = bytes.fromhex(vector["hex"]), bytes.fromhex(vector["data"])
    header = header_of(vector)
    assert decode_header(data) == (header, len(data) - len(payload))
    assert decode_datagram(data) == DatagramFragment(header, memoryview(payload))
    assert encode_datagram(header, payload) == data


def test_a_publish_vector_both_ways() -> None:
    for vector in VECTORS["publish_datagrams"]:
        message = message_of(vector, MessageType.PUBLISH)
        assert decode_datagram(bytes.fromhex(vector["hex"])) == message
        assert encode_publish(message) == bytes.fromhex(vector["hex"])


@given(datagram_headers(), st.binary(max_size=20), st.binary(max_size=3))
def test_identity(header: DatagramHeader, payload: bytes, before: bytes) -> None:
    data = encode_header(header)
    assert decode_header(before + data + payload, len(before)) == (header, len(before + data))
    decoded = decode_datagram(encode_datagram(header, payload))
    assert isinstance(decoded, DatagramFragment)
    assert decoded == DatagramFragment(header, memoryview(payload))
    assert isinstance(decoded.header.flags, Flags)


@given(values_of(PUBLISH))
def test_identity_of_publish(message: Publish) -> None:
    assert decode_datagram(encode_publish(message)) == message


@given(datagram_headers())
def test_a_datagram_that_ends_inside_its_header_is_malformed(header: DatagramHeader) -> None:
    data = encode_header(header)
    for cut in range(len(data)):
        with pytest.raises(MalformedError, match=rf"of {cut} byte\(s\) ends inside its header"):
            decode_header(data[:cut])
        with pytest.raises(MalformedError):
            decode_datagram(data[:cut])


@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    check_any_bytes(decode_header, data)
    check_any_bytes(lambda b: (decode_datagram(b), len(b)), data)
    check_bounded(lambda b: (decode_datagram(b), len(b)), data)


@given(st.binary(max_size=40) | datagram_headers().map(encode_header))
def test_the_traced_reader_agrees_with_the_fast_one(data: bytes) -> None:
    def outcome(read: Any) -> Any:
        try:
            return read()
        except LapsError as error:
            return type(error)

    reader = Reader(data)
    traced = outcome(lambda: (read_header(reader), reader.pos))
    assert traced == outcome(lambda: decode_header(data))


@pytest.mark.parametrize(
    ("object_id", "offset_and_fin", "present"),
    [(0, 0, True), (0, 1, True), (0, 2, False), (0, 3, False), (1, 0, False), (1, 1, False)],
)
def test_the_count_of_the_group_before_stands_only_with_the_first_fragment(
    object_id: int, offset_and_fin: int, present: bool
) -> None:
    with_count = DatagramHeader(7, 1, object_id, offset_and_fin, 0, Flags(0), 3)
    without = with_count._replace(nb_objects_previous_group=None)
    right, wrong = (with_count, without) if present else (without, with_count)
    assert right.is_first_of_group is present
    assert len(encode_header(right)) == 6 + present
    assert decode_header(encode_header(right))[0] == right
    words = "the first fragment of a group needs it" if present else "only the first fragment"
    with pytest.raises(EncodeError, match=f"nb_objects_previous_group: {words}"):
        encode_header(wrong)


def test_a_header_knows_its_place() -> None:
    header = FIRST._replace(offset_and_fin=2469)
    assert (header.offset, header.is_last_fragment) == (1234, True)
    assert (FIRST.offset, FIRST.is_last_fragment) == (0, False)


def test_the_number_of_publish_is_no_stream() -> None:
    header = FIRST._replace(datagram_stream_id=RESERVED_DATAGRAM_STREAM_ID)
    with pytest.raises(EncodeError, match="datagram_stream_id: 63 marks PUBLISH and is no stream"):
        encode_header(header)
    for data in (b"\x3f\x01\x01\x00\x00\x00", b"\x40\x3f\x01\x01\x00\x00\x00"):
        with pytest.raises(MalformedError, match=r"63 marks PUBLISH and is no stream \(at byte 0"):
            decode_header(data)
        with pytest.raises(MalformedError, match=r"63 marks PUBLISH and is no stream \(at byte 0"):
            read_header(Reader(data))


def test_a_publish_is_known_in_every_length_of_its_number() -> None:
    vector = VECTORS["publish_datagrams"][0]
    data = bytes.fromhex(vector["hex"])[1:]
    for number in ("3f", "403f", "8000003f", "c00000000000003f"):
        assert decode_datagram(bytes.fromhex(number) + data) == message_of(
            vector, MessageType.PUBLISH
        )
    # and a stream whose number is longer than a byte is a stream
    longer = encode_datagram(FIRST._replace(datagram_stream_id=64), b"x")
    assert isinstance(decode_datagram(longer), DatagramFragment)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (FIRST._replace(flags=Flags(256)), "flags: 256 does not fit"),
        (FIRST._replace(flags=Flags(-1)), "flags: -1 does not fit"),
        (FIRST._replace(group_id=-1), "does not fit a QUIC varint"),
        (FIRST._replace(best_before=2**62), "does not fit a QUIC varint"),
    ],
)
def test_what_does_not_fit(header: DatagramHeader, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        encode_header(header)


@given(datagram_headers(), st.binary(max_size=300), st.integers(0, 120), st.booleans())
def test_an_object_is_cut_into_datagrams(
    header: DatagramHeader, data: bytes, room: int, fin: bool
) -> None:
    first = header._replace(offset_and_fin=int(fin))
    if first.is_first_of_group:
        first = first._replace(nb_objects_previous_group=4)
    longest = len(encode_header(first)) + 3
    datagrams = list(split_to_datagrams(first, data, longest + 1 + room))
    position = 0
    for index, datagram in enumerate(datagrams):
        assert len(datagram) <= longest + 1 + room
        fragment = decode_datagram(datagram)
        assert isinstance(fragment, DatagramFragment)
        is_last = index == len(datagrams) - 1
        assert fragment.header.offset == position
        assert fragment.header.is_last_fragment is is_last
        assert is_last or len(datagram) == longest + 1 + room
        assert fragment.header._replace(
            offset_and_fin=int(fin),
            nb_objects_previous_group=first.nb_objects_previous_group,
        ) == (first)
        assert fragment.data == data[position : position + len(fragment.data)]
        position += len(fragment.data)
    assert position == len(data)


def test_cutting_needs_room_and_a_beginning() -> None:
    # Seven bytes of header with the count of the group before, six without it.
    assert [datagram.hex() for datagram in split_to_datagrams(FIRST, b"abc", 8)] == [
        "07010000" + "00001e" + "61",
        "07010003" + "0000" + "6263",
    ]
    with pytest.raises(EncodeError, match="a datagram of 7 bytes has no room behind its header"):
        split_to_datagrams(FIRST, b"abc", 7)
    later = FIRST._replace(object_id=1, nb_objects_previous_group=None)
    with pytest.raises(EncodeError, match="a datagram of 7 bytes has no room"):
        split_to_datagrams(later, bytes(32), 7)
    # The last offset takes one byte up to 31 and two from 32 on.
    assert len(list(split_to_datagrams(later, bytes(31), 7))) == 31
    with pytest.raises(EncodeError, match="an object is cut from 0 on, not from 5"):
        split_to_datagrams(FIRST._replace(offset_and_fin=10), b"abc", 100)


def test_an_empty_object_is_one_datagram() -> None:
    (only,) = split_to_datagrams(FIRST, b"", 100)
    assert only == bytes.fromhex("07 01 00 01 00 00 1e")
