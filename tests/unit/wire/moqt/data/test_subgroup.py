"""SUBGROUP_HEADER and its objects, field by field and written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import (
    EncodeError,
    IncompleteError,
    MalformedError,
    ProtocolViolation,
    StateError,
)
from laps_wire.moqt.data.subgroup import (
    SubgroupWriter,
    decode_subgroup_header,
    encode_subgroup_header,
    read_object_header,
    read_subgroup_stream,
)
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    SubgroupHeader,
)
from laps_wire.moqt.versions import Draft
from testkit.foreign import draft16_vectors, foreign
from testkit.moqt_data import (
    DRAFTS,
    damaged,
    own_vectors,
    subgroup_headers,
    subgroup_streams,
)
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

D16, D18 = Draft.D16, Draft.D18


def read_stream(data: bytes, draft: Draft) -> tuple[SubgroupHeader, tuple[MoqObject, ...]]:
    return read_subgroup_stream(Reader(data, integers=draft.integers), draft)


def write_stream(header: SubgroupHeader, objects: tuple[MoqObject, ...], draft: Draft) -> bytes:
    writer = SubgroupWriter(header, draft)
    return writer.start + b"".join(
        writer.object(
            item.header.object_id,
            item.payload,
            extensions=item.header.extensions,
            status=item.header.status,
        )
        for item in objects
    )


# Vectors


@pytest.mark.parametrize("vector", own_vectors("subgroup"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "error" in vector:
        with pytest.raises(ProtocolViolation):
            read_stream(data, D18)
        return
    header, objects = read_stream(data, D18)
    assert header == SubgroupHeader(**vector["header"])
    assert list(objects) == [object_of(item, header) for item in vector["objects"]]
    if vector.get("canonical", True):
        assert write_stream(header, objects, D18) == data
    else:
        shorter = write_stream(header, objects, D18)
        assert len(shorter) < len(data)
        assert read_stream(shorter, D18) == (header, objects)


def object_of(item: dict[str, Any], header: SubgroupHeader) -> MoqObject:
    payload = bytes.fromhex(item.get("payload", ""))
    status = ObjectStatus(item.get("status", 0))
    extensions = bytes.fromhex(item.get("extensions", ""))
    return MoqObject(
        ObjectHeader(
            header.group_id,
            item["object_id"],
            item["subgroup_id"],
            header.priority,
            len(payload),
            status,
            extensions,
        ),
        payload,
    )


#: Vectors that the text of draft 16 contradicts, and what it says instead.
EXCLUDED = {
    # An object id delta of 1 skips one id (10.4.2); the vectors count the second object as 1.
    "subgroup-extensions-two-objects-empty": [0, 2],
    "subgroup-extensions-two-objects-nonempty": [0, 2],
    # Extensions on an object that is not Normal close the session (10.2.1.2).
    "subgroup-extensions-status-object": ProtocolViolation,
}


@foreign
def test_draft_16_vectors() -> None:
    seen = 0
    for vector in draft16_vectors("data-streams/subgroup.json"):
        data = bytes.fromhex(vector["hex"])
        instead = EXCLUDED.get(vector["id"])
        seen += instead is not None
        if instead is ProtocolViolation:
            with pytest.raises(ProtocolViolation):
                read_stream(data, D16)
            continue
        if "error" in vector:
            assert vector["error"] == "incomplete"
            with pytest.raises(IncompleteError):
                decode_subgroup_header(data, D16)
            continue
        header, objects = read_stream(data, D16)
        decoded = vector["decoded"]
        ids = [int(item["object_id"]) for item in decoded["objects"]]
        assert [item.header.object_id for item in objects] == (instead or ids)
        assert header.track_alias == int(decoded["track_alias"])
        assert header.group_id == int(decoded["group_id"])
        assert header.priority == (
            int(decoded["publisher_priority"]) if "publisher_priority" in decoded else None
        )
        assert header.end_of_group is decoded.get("end_of_group", False)
        for item, expected in zip(objects, decoded["objects"], strict=True):
            assert item.header.subgroup_id == int(decoded["subgroup_id"])
            assert item.header.status == int(expected.get("status", 0))
            assert item.payload == bytes.fromhex(expected["payload_hex"])
            gap = expected.get("extension_headers", {}).get("prior_group_id_gap")
            assert item.header.extensions == (b"\x3c" + bytes([int(gap)]) if gap else b"")
        assert write_stream(header, objects, D16) == data
    assert seen == len(EXCLUDED)


def test_bytes_from_a_cpp_laps_relay() -> None:
    # Seen on the wire behind the 19 bytes of the peering header; the payload is made up.
    data = bytes.fromhex("15c6563237cfe9cbb0000080 00001a") + bytes(range(26))
    header, objects = read_stream(data, D16)
    assert header == SubgroupHeader(0x06563237CFE9CBB0, 0, 0, 128, has_extensions=True)
    assert [item.header.object_id for item in objects] == [0]
    assert objects[0].payload == bytes(range(26))
    # It spells subgroup 0 out; we leave it away and mean the same.
    again = write_stream(header, objects, D16)
    assert again == bytes.fromhex("11c6563237cfe9cbb00080 00001a") + bytes(range(26))
    assert read_stream(again, D16) == (header, objects)


# Properties


@given(DRAFTS.flatmap(lambda draft: st.tuples(st.just(draft), subgroup_headers(draft))))
def test_headers_read_as_written(case: tuple[Draft, SubgroupHeader]) -> None:
    draft, header = case
    encode = lambda value: encode_subgroup_header(value, draft)  # noqa: E731
    decode = lambda data: decode_subgroup_header(data, draft)  # noqa: E731
    check_round_trip(encode, decode, header, suffix=b"\xff")
    check_prefixes(encode, decode, header)


@given(st.data())
def test_streams_read_as_written(data: st.DataObject) -> None:
    draft = data.draw(DRAFTS)
    header, objects, encoded = data.draw(subgroup_streams(draft))
    assert read_stream(encoded, draft) == (header, objects)


@given(DRAFTS, st.binary(max_size=60))
def test_any_bytes(draft: Draft, data: bytes) -> None:
    check_any_bytes(lambda given: decode_subgroup_header(given, draft), data)
    check_bounded(lambda given: (read_stream(given, draft), 0), data)


@given(st.data())
def test_damaged_streams_read_or_violate(data: st.DataObject) -> None:
    draft = data.draw(DRAFTS)
    _, _, encoded = data.draw(subgroup_streams(draft))
    broken = data.draw(damaged(encoded))
    try:
        header, objects = read_stream(broken, draft)
    except (ProtocolViolation, ObjectTooLargeError):
        return
    assert read_stream(write_stream(header, objects, draft), draft) == (header, objects)


# Types


@pytest.mark.parametrize("draft", list(Draft))
def test_every_type_means_what_its_bits_say(draft: Draft) -> None:
    for kind in range(0x80):
        legal = kind & 0x10 and kind & 0x06 != 0x06 and (draft is D18 or kind < 0x40)
        # Enough integers and a priority for the longest form; 0x40 and above take two bytes in 16.
        data = draft.integers.encode(kind) + b"\x01\x02\x03\x04"
        if not legal:
            with pytest.raises(ProtocolViolation, match=f"{kind:#x}"):
                decode_subgroup_header(data, draft)
            continue
        header, used = decode_subgroup_header(data, draft)
        mode = kind >> 1 & 0x03
        assert header.subgroup_id == {0: 0, 1: None, 2: 3}[mode]
        priority = {0: 3, 1: 3, 2: 4}[mode]
        assert header.priority == (None if kind & 0x20 else priority)
        assert header.has_extensions == bool(kind & 0x01)
        assert header.end_of_group == bool(kind & 0x08)
        assert header.first_object == bool(kind & 0x40)
        assert used == 3 + (mode == 2) + (not kind & 0x20)
        assert encode_subgroup_header(header, draft) == data[:used]


def test_a_fetch_is_not_a_subgroup() -> None:
    with pytest.raises(MalformedError, match="0x5 is not a SUBGROUP_HEADER"):
        decode_subgroup_header(b"\x05\x01", D16)


def test_draft_16_has_no_first_object_bit() -> None:
    with pytest.raises(EncodeError, match="draft 16 has no FIRST_OBJECT"):
        encode_subgroup_header(SubgroupHeader(1, 2, first_object=True), D16)


# Objects


def test_a_later_object_alone_does_not_know_a_subgroup_named_by_the_first() -> None:
    header = SubgroupHeader(1, 2, None)
    later = read_object_header(Reader(b"\x00\x01"), header, previous=4)
    assert (later.object_id, later.subgroup_id) == (5, None)
    first = read_object_header(Reader(b"\x04\x01"), header)
    assert (first.object_id, first.subgroup_id) == (4, 4)


@pytest.mark.parametrize("draft", list(Draft))
def test_object_ids_stay_in_range(draft: Draft) -> None:
    top = draft.integers.max_value
    encode = draft.integers.encode
    header = SubgroupHeader(1, 2)

    def read(data: bytes, previous: int) -> ObjectHeader:
        return read_object_header(Reader(data, integers=draft.integers), header, previous)

    assert read(encode(0) + b"\x01", top - 1).object_id == top
    with pytest.raises(MalformedError, match="object id delta"):
        read(encode(0) + b"\x01", top)


def test_extensions_over_the_limit_are_refused_before_they_arrive() -> None:
    header = SubgroupHeader(1, 2, has_extensions=True)
    encode = D16.integers.encode
    with pytest.raises(IncompleteError):
        read_object_header(Reader(b"\x00" + encode(MAX_EXTENSIONS_SIZE), partial=True), header)
    with pytest.raises(ObjectTooLargeError, match="over the limit"):
        read_object_header(Reader(b"\x00" + encode(MAX_EXTENSIONS_SIZE + 1), partial=True), header)


# The writer


def test_the_writer_keeps_the_id_before() -> None:
    writer = SubgroupWriter(SubgroupHeader(1, 2), D16)
    assert writer.start == b"\x30\x01\x02"
    assert writer.object_header(5, 3) == b"\x05\x03"
    assert writer.object(6, b"ab") == b"\x00\x02ab"
    assert writer.object(10, memoryview(b"c")) == b"\x03\x01c"
    assert writer.object(11) == b"\x00\x00\x00"
    states = [writer.ended]
    assert writer.object(12, status=ObjectStatus.END_OF_TRACK) == b"\x00\x00\x04"
    assert [*states, writer.ended] == [False, True]
    assert writer.object_id == 12
    with pytest.raises(StateError, match="object 12 ended"):
        writer.object(13)


def test_the_writer_refuses_and_remembers_nothing_of_it() -> None:
    writer = SubgroupWriter(SubgroupHeader(1, 2, has_extensions=True), D16)
    writer.object(4)
    for object_id in (4, 3, -1, 2**62):
        with pytest.raises(EncodeError, match=f"object id {object_id} cannot follow 4"):
            writer.object(object_id)
    with pytest.raises(EncodeError, match="neither payload nor extensions"):
        writer.object(5, b"x", status=ObjectStatus.END_OF_GROUP)
    with pytest.raises(EncodeError, match="neither payload nor extensions"):
        writer.object(5, extensions=b"x", status=ObjectStatus.END_OF_GROUP)
    with pytest.raises(EncodeError, match="over 131072"):
        writer.object(5, extensions=bytes(MAX_EXTENSIONS_SIZE + 1))
    assert (writer.object_id, writer.ended) == (4, False)
    assert writer.object(5, b"p", extensions=b"\x3c\x01") == b"\x00\x02\x3c\x01\x01p"
    with pytest.raises(EncodeError, match="no object has extensions"):
        SubgroupWriter(SubgroupHeader(1, 2), D16).object(0, extensions=b"x")


@pytest.mark.parametrize(
    "header",
    [
        SubgroupHeader(-1, 0),
        SubgroupHeader(2**62, 0),
        SubgroupHeader(0, 2**62),
        SubgroupHeader(0, 0, 2**62),
        SubgroupHeader(0, 0, 0, 256),
    ],
)
def test_headers_that_do_not_fit_are_refused(header: SubgroupHeader) -> None:
    with pytest.raises(EncodeError):
        SubgroupWriter(header, D16)
