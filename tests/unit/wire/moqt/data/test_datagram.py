"""Objects in datagrams, and padding."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation
from laps_wire.moqt.data.datagram import (
    ObjectDatagram,
    PaddingDatagram,
    decode_datagram,
    encode_datagram,
    encode_padding_stream,
    read_datagram,
)
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    StreamKind,
    peek_stream_kind,
)
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import DRAFTS, damaged, datagrams, own_vectors
from testkit.properties import check_bounded

D16, D18 = Draft.D16, Draft.D18
END = ObjectStatus.END_OF_GROUP


@pytest.mark.parametrize("vector", own_vectors("datagram"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "error" in vector:
        with pytest.raises(ProtocolViolation):
            decode_datagram(data, D18)
        return
    datagram = decode_datagram(data, D18)
    if "padding" in vector:
        assert datagram == PaddingDatagram(vector["padding"])
    else:
        fields = dict(vector["datagram"])
        for name in ("payload", "extensions"):
            fields[name] = bytes.fromhex(fields.get(name, ""))
        fields["status"] = ObjectStatus(fields.get("status", 0))
        assert datagram == ObjectDatagram(**fields)
    again = encode_datagram(datagram, D18)
    if vector.get("canonical", True):
        assert again == data
    else:
        assert again != data
        assert decode_datagram(again, D18) == datagram


def test_draft_16_by_hand() -> None:
    # Two-byte varints: 0x4064 is 100; 0x40 and above would be one byte in draft 18.
    data = bytes.fromhex("03 4064 05 4041 80 02 3c02 6869")
    datagram = ObjectDatagram(
        100, 5, 65, b"hi", 128, ObjectStatus.NORMAL, b"\x3c\x02", end_of_group=True
    )
    assert decode_datagram(data, D16) == datagram
    assert encode_datagram(datagram, D16) == data


@given(DRAFTS.flatmap(lambda draft: st.tuples(st.just(draft), datagrams(draft))))
def test_datagrams_read_as_written(case: tuple[Draft, ObjectDatagram]) -> None:
    draft, datagram = case
    assert decode_datagram(encode_datagram(datagram, draft), draft) == datagram


@given(DRAFTS, st.binary(max_size=60))
def test_any_bytes(draft: Draft, data: bytes) -> None:
    check_again(data, draft)
    check_bounded(lambda given: (decode_datagram(given, draft), 0), data)


@given(st.data(), DRAFTS)
def test_damaged_datagrams_read_or_violate(data: st.DataObject, draft: Draft) -> None:
    check_again(data.draw(damaged(encode_datagram(data.draw(datagrams(draft)), draft))), draft)


def check_again(data: bytes, draft: Draft) -> None:
    """Read in place or field by field: the same; written, it reads again as the same."""
    reader = Reader(data, integers=draft.integers)
    try:
        datagram = decode_datagram(data, draft)
    except ProtocolViolation as fault:
        with pytest.raises(type(fault), match=re.escape(str(fault))):
            read_datagram(reader, draft)
        return
    assert read_datagram(reader, draft) == datagram
    assert reader.at_end
    assert decode_datagram(memoryview(data), draft) == datagram
    assert decode_datagram(encode_datagram(datagram, draft), draft) == datagram


@pytest.mark.parametrize("draft", list(Draft))
def test_every_type_means_what_its_bits_say(draft: Draft) -> None:
    legal = {*range(0x10), 0x20, 0x21, 0x24, 0x25, 0x28, 0x29, 0x2C, 0x2D}
    for kind in range(0x200):
        data = draft.integers.encode(kind) + b"\x01\x02"
        data += b"" if kind & 0x04 else b"\x03"
        data += b"" if kind & 0x08 else b"\x04"
        data += b"\x02\x3c\x00" if kind & 0x01 else b""
        data += b"\x00" if kind & 0x20 else b"pay"
        if kind not in legal:
            with pytest.raises(MalformedError, match=f"type: .*{kind:#x}"):
                decode_datagram(data, draft)
            continue
        assert decode_datagram(data, draft) == ObjectDatagram(
            1,
            2,
            0 if kind & 0x04 else 3,
            b"" if kind & 0x20 else b"pay",
            None if kind & 0x08 else 4,
            ObjectStatus.NORMAL,
            b"\x3c\x00" if kind & 0x01 else b"",
            bool(kind & 0x02),
        )


@pytest.mark.parametrize("draft", list(Draft))
def test_every_prefix_is_cut_or_has_a_shorter_payload(draft: Draft) -> None:
    whole = ObjectDatagram(
        300, 400, 500, b"pay", 7, ObjectStatus.NORMAL, bytes(range(70)), end_of_group=True
    )
    data = encode_datagram(whole, draft)
    for size in range(len(data)):
        if size < len(data) - 3:
            with pytest.raises(MalformedError, match="truncated"):
                decode_datagram(data[:size], draft)
        else:
            cut = whole._replace(payload=b"pay"[: size - len(data) + 3])
            assert decode_datagram(data[:size], draft) == cut


def test_extensions_over_the_limit_are_refused() -> None:
    for size in (MAX_EXTENSIONS_SIZE, MAX_EXTENSIONS_SIZE + 1):
        data = b"\x0d\x01\x02" + D18.integers.encode(size) + bytes(size)
        if size > MAX_EXTENSIONS_SIZE:
            with pytest.raises(MalformedError, match="over the limit of 131072"):
                decode_datagram(data, D18)
        else:
            assert decode_datagram(data, D18) == ObjectDatagram(1, 2, 0, extensions=bytes(size))


def test_only_draft_18_has_padding() -> None:
    data = D16.integers.encode(0x132B3E29) + bytes(3)
    with pytest.raises(MalformedError, match="unknown datagram type 0x132b3e29"):
        decode_datagram(data, D16)
    with pytest.raises(EncodeError, match="draft 16 has no padding"):
        encode_datagram(PaddingDatagram(3), D16)
    with pytest.raises(EncodeError, match="draft 16 has no padding"):
        encode_padding_stream(3, D16)


def test_a_padding_stream_is_its_type_and_zeros() -> None:
    data = encode_padding_stream(3, D18)
    assert data == bytes.fromhex("f0132b3e28 000000")
    assert peek_stream_kind(data, D18) is StreamKind.PADDING


def test_what_no_peer_would_take_is_not_written() -> None:
    base = ObjectDatagram(1, 2, 3)
    faults = [
        (base._replace(status=END, payload=b"x"), "neither payload nor extensions"),
        (base._replace(status=END, extensions=b"x"), "neither payload nor extensions"),
        (base._replace(status=END, end_of_group=True), "cannot signal end of group"),
        (base._replace(extensions=bytes(MAX_EXTENSIONS_SIZE + 1)), "over 131072"),
        (base._replace(priority=256), "priority=256, .*too big"),
        (base._replace(priority=-1), "priority=-1, "),
        (base._replace(track_alias=2**62), "4611686018427387904 does not fit"),
        (base._replace(group_id=-1), "-1 does not fit"),
        (base._replace(object_id=2**62), "4611686018427387904 does not fit"),
    ]
    for datagram, reason in faults:
        with pytest.raises(EncodeError, match=reason):
            encode_datagram(datagram, D16)


def test_a_datagram_is_an_object_without_a_subgroup() -> None:
    datagram = ObjectDatagram(1, 2, 3, b"pay", 4, ObjectStatus.NORMAL, b"\x3c\x00")
    assert datagram.to_object() == MoqObject(
        ObjectHeader(2, 3, None, 4, 3, ObjectStatus.NORMAL, b"\x3c\x00"), b"pay"
    )
    assert ObjectDatagram(1, 2, 3, status=END).to_object().header.status is END


def test_a_fault_points_into_the_outer_buffer() -> None:
    # Behind a peering header the offsets are those of the whole datagram.
    reader = Reader(b"\xff" * 14 + b"\x22\x01", pos=14)
    with pytest.raises(MalformedError) as caught:
        read_datagram(reader, D16)
    assert caught.value.offset == 14
