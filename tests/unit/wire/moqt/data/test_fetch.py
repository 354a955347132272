"""Fetch streams: what flags mean, and the shortest way to write objects and ranges."""

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
    RemoteError,
)
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.fetch import (
    FetchState,
    FetchWriter,
    decode_fetch_header,
    encode_fetch_header,
    read_fetch_item,
    read_fetch_stream,
)
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    FetchHeader,
    MalformedTrackError,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    RangeEnd,
    RangeKind,
)
from laps_wire.moqt.versions import Draft
from testkit.foreign import draft16_vectors, foreign
from testkit.moqt_data import (
    DRAFTS,
    damaged,
    encode_fetch,
    fetch_items,
    own_vectors,
)
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

D16, D18 = Draft.D16, Draft.D18
UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING
ORDERS = st.sampled_from([UP, DOWN])
Items = tuple[MoqObject | RangeEnd, ...]


def read_stream(
    data: bytes, draft: Draft, order: GroupOrder = UP, *, range_length: bool = True
) -> tuple[FetchHeader, Items]:
    state = FetchState(draft, order, range_length=range_length)
    return read_fetch_stream(Reader(data, integers=draft.integers), state)


def an_object(
    group_id: int,
    object_id: int,
    subgroup_id: int | None = 0,
    priority: int | None = 128,
    payload: bytes = b"",
    extensions: bytes = b"",
) -> MoqObject:
    return MoqObject(
        ObjectHeader(
            group_id,
            object_id,
            subgroup_id,
            priority,
            len(payload),
            ObjectStatus.NORMAL,
            extensions,
        ),
        payload,
    )


# Vectors


def item_of(item: dict[str, Any]) -> MoqObject | RangeEnd:
    if "range" in item:
        return RangeEnd(RangeKind[item["range"]], item["group_id"], item["object_id"])
    return an_object(
        item["group_id"],
        item["object_id"],
        item["subgroup_id"],
        item["priority"],
        bytes.fromhex(item["payload"]),
        bytes.fromhex(item.get("extensions", "")),
    )


@pytest.mark.parametrize("vector", own_vectors("fetch"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    order = DOWN if vector.get("descending") else UP
    range_length = vector.get("range_length", True)
    if "error" in vector:
        faults = {"protocol_violation": ProtocolViolation, "malformed_track": MalformedTrackError}
        with pytest.raises(faults[vector["error"]]):
            read_stream(data, D18, order, range_length=range_length)
        return
    header, items = read_stream(data, D18, order, range_length=range_length)
    assert header == FetchHeader(vector["request_id"])
    assert list(items) == [item_of(item) for item in vector["items"]]
    again = b"".join(encode_fetch(items, D18, order, range_length=range_length))
    if vector.get("canonical", True):
        assert again == data
    else:
        assert read_stream(again, D18, order) == (header, items)


#: The first object has no prior object whose priority it could have (10.4.4.1).
EXCLUDED = {"fetch-with-explicit-subgroup", "fetch-datagram-forwarding"}


@foreign
def test_draft_16_vectors() -> None:
    seen = set()
    for vector in draft16_vectors("data-streams/fetch-header.json"):
        data = bytes.fromhex(vector["hex"])
        if vector["id"] in EXCLUDED:
            seen.add(vector["id"])
            with pytest.raises(MalformedError, match="publisher priority: refers to a prior"):
                read_stream(data, D16)
            continue
        if "error" in vector:
            assert vector["error"] == "incomplete"
            with pytest.raises(IncompleteError):
                decode_fetch_header(data, D16)
            continue
        header, items = read_stream(data, D16)
        decoded = vector["decoded"]
        assert header.request_id == int(decoded["request_id"])
        for item, expected in zip(items, decoded["objects"], strict=True):
            flags = int(expected["serialization_flags"], 16)
            place = (int(expected["group_id"]), int(expected["object_id"]))
            if isinstance(item, RangeEnd):
                assert (item.kind, item.group_id, item.object_id) == (flags, *place)
                continue
            assert item.header.location == place
            assert item.header.subgroup_id == int(expected["subgroup_id"])
            assert item.header.priority == int(expected["publisher_priority"])
            assert item.payload == bytes.fromhex(expected["payload_hex"])
            timeout = expected.get("extension_headers", {}).get("delivery_timeout")
            # 0x02, then the integer 5000 in two bytes.
            assert item.header.extensions == (b"\x02\x53\x88" if timeout == "5000" else b"")
        assert b"".join(encode_fetch(items, D16, UP)) == data
    assert seen == EXCLUDED


# Properties


@given(DRAFTS, st.integers(0, 2**62 - 1))
def test_headers_read_as_written(draft: Draft, request_id: int) -> None:
    encode = lambda value: encode_fetch_header(value, draft)  # noqa: E731
    decode = lambda data: decode_fetch_header(data, draft)  # noqa: E731
    check_round_trip(encode, decode, FetchHeader(request_id), suffix=b"\x05")
    check_prefixes(encode, decode, FetchHeader(request_id))


@given(st.data(), DRAFTS, ORDERS, st.booleans())
def test_streams_read_as_written(
    data: st.DataObject, draft: Draft, order: GroupOrder, range_length: bool
) -> None:
    items = data.draw(fetch_items(draft, order))
    encoded = b"".join(encode_fetch(items, draft, order, range_length=range_length))
    expected = (FetchHeader(4), items)
    assert read_stream(encoded, draft, order, range_length=range_length) == expected


@given(st.data(), DRAFTS, ORDERS)
def test_a_prefix_of_an_item_changes_nothing(
    data: st.DataObject, draft: Draft, order: GroupOrder
) -> None:
    items = data.draw(fetch_items(draft, order))
    _, body = encode_fetch(items, draft, order)
    state = FetchState(draft, order)
    pos = 0
    for item in items:
        before = [getattr(state, name) for name in FetchState.__slots__]
        size = 0
        while True:
            reader = Reader(body[pos : pos + size], integers=draft.integers, partial=True)
            try:
                read = read_fetch_item(reader, state)
            except IncompleteError:
                assert [getattr(state, name) for name in FetchState.__slots__] == before
                size += 1
                continue
            break
        assert read == (item if isinstance(item, RangeEnd) else item.header)
        assert reader.pos == size
        pos += size + (0 if isinstance(item, RangeEnd) else len(item.payload))


@given(DRAFTS, ORDERS, st.binary(max_size=60))
def test_any_bytes(draft: Draft, order: GroupOrder, data: bytes) -> None:
    check_any_bytes(lambda given: decode_fetch_header(given, draft), data)
    check_bounded(lambda given: (read_stream(given, draft, order), 0), b"\x05\x00" + data)


@given(st.data(), DRAFTS, ORDERS)
def test_damaged_streams_read_or_fail(data: st.DataObject, draft: Draft, order: GroupOrder) -> None:
    items = data.draw(fetch_items(draft, order))
    broken = data.draw(damaged(b"".join(encode_fetch(items, draft, order))))
    try:
        header, read = read_stream(broken, draft, order)
    except RemoteError:
        return
    again = b"".join(encode_fetch(read, draft, order, request_id=header.request_id))
    assert read_stream(again, draft, order) == (header, read)


# Reading


def test_a_fetch_header_has_its_type() -> None:
    with pytest.raises(MalformedError, match="0x10 is not a FETCH_HEADER"):
        decode_fetch_header(b"\x10\x04", D16)


@pytest.mark.parametrize("draft", list(Draft))
def test_first_objects_lean_on_nothing(draft: Draft) -> None:
    for flags in range(0x80):
        # Enough one-byte fields for any flags, and an object without payload.
        data = draft.integers.encode(flags) + bytes(8)
        subgroup = flags & 0x03 if not flags & 0x40 else 0
        legal = flags & 0x1C == 0x1C and subgroup in (0, 3)
        reader = Reader(data, integers=draft.integers, partial=True)
        state = FetchState(draft)
        if legal:
            item = read_fetch_item(reader, state)
            assert isinstance(item, ObjectHeader)
            assert item.subgroup_id == (None if flags & 0x40 else 0)
        else:
            with pytest.raises(ProtocolViolation, match="refers to a prior object"):
                read_fetch_item(reader, state)


@pytest.mark.parametrize("draft", list(Draft))
def test_other_flags_are_refused(draft: Draft) -> None:
    for flags in (0x80, 0x8B, 0x8D, 0x10B, 0x10D, 0x20C, 2**60):
        with pytest.raises(MalformedError, match=f"serialization flags: {flags:#x}"):
            read_fetch_item(
                Reader(draft.integers.encode(flags) + bytes(8), integers=draft.integers),
                FetchState(draft),
            )


@pytest.mark.parametrize("draft", list(Draft))
def test_prior_subgroup_plus_one_stays_in_range(draft: Draft) -> None:
    top = draft.integers.max_value
    writer = FetchWriter(FetchHeader(0), draft)
    start = writer.start + writer.object(*an_object(0, 0, top))
    assert read_stream(start + b"\x01\x00", draft)[1][1] == an_object(0, 1, top)
    with pytest.raises(MalformedError, match="subgroup id"):
        read_stream(start + b"\x02\x00", draft)


def test_draft_16_writes_ids_and_draft_18_distances() -> None:
    items = (an_object(5, 7), an_object(5, 9), an_object(7, 3))
    assert encode_fetch(items, D16, UP)[1] == bytes.fromhex("1c05078000 040900 0c070300")
    assert encode_fetch(items, D18, UP)[1] == bytes.fromhex("1c05078000 040200 0c010300")
    back = (an_object(7, 3), an_object(5, 9))
    assert encode_fetch(back, D16, DOWN)[1] == bytes.fromhex("1c07038000 0c050900")
    assert encode_fetch(back, D18, DOWN)[1] == bytes.fromhex("1c07038000 0c010900")


@pytest.mark.parametrize(
    ("order", "second"), [(UP, (4, 9)), (DOWN, (6, 0)), (UP, (5, 7)), (DOWN, (5, 6))]
)
def test_draft_16_objects_out_of_order_make_the_track_malformed(
    order: GroupOrder, second: tuple[int, int]
) -> None:
    data = bytes.fromhex("0504 1c05078000 0c") + bytes([*second, 0])
    with pytest.raises(MalformedTrackError, match=f"{second[0]}:{second[1]} is out of order"):
        read_stream(data, D16, order)


def test_extensions_over_the_limit_are_refused_before_they_arrive() -> None:
    for size, fault in (
        (MAX_EXTENSIONS_SIZE, IncompleteError),
        (MAX_EXTENSIONS_SIZE + 1, ObjectTooLargeError),
    ):
        data = bytes.fromhex("3c000080") + D16.integers.encode(size)
        with pytest.raises(fault):
            read_fetch_item(Reader(data, partial=True), FetchState(D16))


# Writing


def test_the_writer_leans_on_all_it_can() -> None:
    writer = FetchWriter(FetchHeader(4), D16)
    assert writer.start == b"\x05\x04"

    def write(*values: Any) -> bytes:
        return writer.object(*an_object(*values))

    assert write(0, 0, 5, 1) == bytes.fromhex("1f0005000100")
    assert write(0, 1, 5, 1, b"ab") == b"\x01\x02ab"
    assert write(0, 2, 6, 1) == b"\x02\x00"
    assert write(0, 3, 0, 1) == b"\x00\x00"
    assert write(0, 4, 1, 1) == b"\x02\x00"
    assert write(0, 5, None, 1) == b"\x40\x40\x00"
    # Behind a datagram no subgroup id is known.
    assert write(0, 6, 1, 1) == b"\x03\x01\x00"
    assert write(0, 7, 1, 2) == b"\x11\x02\x00"
    assert write(1, 8, 1, 2) == b"\x09\x01\x00"
    assert write(1, 9, 1, 2, b"", b"\x3c\x00") == b"\x21\x02\x3c\x00\x00"
    assert writer.range_end(RangeEnd(RangeKind.UNKNOWN, 2, 3)) == b"\x41\x0c\x02\x03\x00"
    # Draft 16 does not say what stands prior to an object behind a range: no id leans on it.
    assert write(2, 4, 1, 2) == b"\x0d\x02\x04\x00"
    assert write(2, 5, 1, 2) == b"\x01\x00"


def test_draft_16_has_both_ids_behind_a_range_that_opens_the_stream() -> None:
    writer = FetchWriter(FetchHeader(4), D16)
    assert writer.range_end(RangeEnd(RangeKind.NON_EXISTENT, 2, 3)) == bytes.fromhex("408c020300")
    assert writer.object(*an_object(2, 4, 0, 2)) == bytes.fromhex("1c02040200")


def test_draft_18_says_that_ids_lean_on_a_range() -> None:
    writer = FetchWriter(FetchHeader(4), D18)
    assert writer.object(*an_object(1, 9, 1, 2)) == bytes.fromhex("1f0101090200")
    assert writer.range_end(RangeEnd(RangeKind.UNKNOWN, 2, 3)) == bytes.fromhex("810c020300")
    assert writer.object(*an_object(2, 4, 1, 2)) == b"\x01\x00"


def test_the_writer_refuses_and_remembers_nothing_of_it() -> None:
    writer = FetchWriter(FetchHeader(4), D18)
    writer.object(*an_object(5, 7))
    faults = [
        (an_object(5, 7), "5:7 cannot follow 5:7"),
        (an_object(4, 9), "4:9 cannot follow 5:7"),
        (an_object(6, 0, 0, None), "says its priority"),
        (an_object(6, 0, 0, 256), "publisher priority"),
        (an_object(6, 0, 2**64), "subgroup id"),
        (an_object(2**64, 0), "out of range"),
        (an_object(6, 2**64), "out of range"),
        (an_object(6, -1), "out of range"),
        (an_object(6, 0, extensions=bytes(MAX_EXTENSIONS_SIZE + 1)), "over 131072"),
    ]
    for item, reason in faults:
        with pytest.raises(EncodeError, match=reason):
            writer.object(*item)
    header, _ = an_object(6, 0)
    with pytest.raises(EncodeError, match="no status END_OF_GROUP"):
        writer.object(header._replace(status=ObjectStatus.END_OF_GROUP), b"")
    with pytest.raises(EncodeError, match="payload of 1 bytes, not 0"):
        writer.object(header, b"x")
    with pytest.raises(EncodeError, match="object id"):
        writer.range_end(RangeEnd(RangeKind.UNKNOWN, 6, 2**64))
    with pytest.raises(EncodeError, match="request id"):
        FetchWriter(FetchHeader(2**64), D18)
    assert writer.object(*an_object(5, 8)) == b"\x00\x00"


@pytest.mark.parametrize("place", [(6, 0), (7, 3)])
def test_draft_18_cannot_go_back_behind_a_range(place: tuple[int, int]) -> None:
    for draft in Draft:
        writer = FetchWriter(FetchHeader(4), draft)
        writer.object(*an_object(5, 7))
        writer.range_end(RangeEnd(RangeKind.NON_EXISTENT, 7, 4))
        if draft is D18:
            with pytest.raises(EncodeError, match="before the end of the range"):
                writer.object(*an_object(*place))
        else:
            assert writer.object(*an_object(*place))
