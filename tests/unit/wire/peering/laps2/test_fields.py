"""The shared field codecs: presence, sets in order, flags; and stamps that order restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import U16, VARINT, FieldCodec
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import Bases
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    ELEMENT_HASHES,
    FEATURES,
    LABELS,
    NODE_SET,
    REASON,
    SCHEMES,
    STAMP,
    Ascending,
    Bits,
    Label,
    Maybe,
    Stamp,
)
from laps_wire.peering.laps2.limits import MAX_TARGETS
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

BASES = Bits(Bases, 0xF)
CODECS: dict[str, FieldCodec[Any]] = {
    "maybe": Maybe(U16),
    "ascending": Ascending(VARINT, 5),
    "at least one": SCHEMES,
    "bits": BASES,
    "stamp": STAMP,
    "labels": LABELS,
    "contacts": CONTACTS,
    "reason": REASON,
    "node set": NODE_SET,
    "features": FEATURES,
    "element hashes": ELEMENT_HASHES,
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.data())
def test_identity_and_prefixes(codec: FieldCodec[Any], data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes(codec: FieldCodec[Any], data: bytes) -> None:
    check_codec_bytes(codec, data)


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (Maybe(U16), None, "00"),
        (Maybe(U16), 7, "01 0007"),
        (Ascending(VARINT, 5), (), "00"),
        (Ascending(VARINT, 5), (0, 64), "02 00 4040"),
        (NODE_SET, (NodeId(1), NodeId(2**64 - 1)), "02 0000000000000001 ffffffffffffffff"),
        (BASES, Bases.NODES | Bases.SNS, "09"),
        (STAMP, Stamp(5, 64), "05 4040"),
        (LABELS, (Label("a", "bc"),), "01 0161 026263"),
        (CONTACTS, ("h:1",), "01 03683a31"),
        (ELEMENT_HASHES, (1,), "01 0000000000000001"),
    ],
)
def test_bytes_by_hand(codec: FieldCodec[Any], value: Any, data: str) -> None:
    assert write(codec, value) == bytes.fromhex(data)
    decoded, _ = read(codec, bytes.fromhex(data))
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("codec", "data", "words", "offset"),
    [
        (Maybe(U16), "02", "2 is neither 0 nor 1", 0),
        (Ascending(VARINT, 2), "03", "count 3 is outside 0..2", 0),
        (SCHEMES, "00", "count 0 is outside 1..16", 0),
        (Ascending(VARINT, 2), "02 05 05", "5 after 5: must strictly ascend", 2),
        (Ascending(VARINT, 2), "02 05 04", "4 after 5: must strictly ascend", 2),
        (BASES, "00", "0x0 is not in 1..0xf", 0),
        (BASES, "10", "0x10 is not in 1..0xf", 0),
        (ELEMENT_HASHES, "21", "count 33 is over the limit of 32", 0),
        (CONTACTS, "09", "count 9 is over the limit of 8", 0),
        (CONTACTS, "01 4100", "length 256 is over the limit of 255", 1),
        (LABELS, "21", "count 33 is over the limit of 32", 0),
        (LABELS, "01 4041", "length 65 is over the limit of 64", 1),
        (NODE_SET, "5001", "count 4097 is outside 0..4096", 0),
    ],
)
def test_what_a_reader_refuses(codec: FieldCodec[Any], data: str, words: str, offset: int) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read(codec, bytes.fromhex(data))
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("codec", "value", "words"),
    [
        (Ascending(VARINT, 2), (1, 2, 3), "3 items are outside 0..2"),
        (SCHEMES, (), "0 items are outside 1..16"),
        (Ascending(VARINT, 3), (1, 1), r"f\[1\]: 1 after 1"),
        (Ascending(VARINT, 3), (2, 1), "1 after 2: must strictly ascend"),
        (BASES, Bases(0), "0x0 is not in 1..0xf"),
        (BASES, 0x10, "0x10 is not in 1..0xf"),
        (REASON, "x" * 1025, "1025 bytes are over the limit of 1024"),
    ],
)
def test_what_a_writer_refuses(codec: FieldCodec[Any], value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(codec, value)


def test_the_largest_set_fits() -> None:
    most = tuple(NodeId(number) for number in range(MAX_TARGETS))
    assert read(NODE_SET, write(NODE_SET, most))[0] == most


def test_members_come_back_as_node_ids() -> None:
    (member,), _ = read(NODE_SET, write(NODE_SET, (NodeId(7),)))
    assert isinstance(member, NodeId)


def test_a_restart_beats_every_sequence_of_the_life_before() -> None:
    assert Stamp(5, 2**61) < Stamp(6, 0) < Stamp(6, 1)


def test_words_for_people_never_end_a_session() -> None:
    assert read(REASON, b"\x02\xff\x41")[0] == "?A"
    assert read(REASON, "\x03\ufffd".encode())[0] == "\ufffd"  # legal text stays as it is
