"""Objects, stream types, and the checks that every way of sending objects shares.

Extension headers and properties: what they say, and what makes a track malformed.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laps_wire.moqt.data as public
from laps_wire.buffer import Reader
from laps_wire.errors import (
    EncodeError,
    IncompleteError,
    MalformedError,
    ProtocolViolation,
    RemoteError,
)
from laps_wire.moqt import codepoints
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    Extensions,
    Location,
    MalformedTrackError,
    ObjectExtensions,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    RangeKind,
    StreamKind,
    TruncatedStreamError,
    check_object,
    check_status,
    encode_extensions,
    is_mandatory,
    object_extensions,
    parse_extensions,
    peek_stream_kind,
    read_extensions,
    stream_kind,
)
from laps_wire.moqt.keyvalue import KeyValue, sorted_pairs
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import DRAFTS, own_vectors
from testkit.properties import check_bounded
from testkit.strategies import varints


@pytest.mark.parametrize("vector", own_vectors("stream_type"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "error" in vector:
        with pytest.raises(ProtocolViolation):
            peek_stream_kind(data, Draft.D18)
        return
    assert peek_stream_kind(data, Draft.D18) is StreamKind[vector["kind"]]
    # What follows does not matter, and every prefix waits.
    assert peek_stream_kind(data + b"\xff", Draft.D18) is StreamKind[vector["kind"]]
    for size in range(len(data)):
        with pytest.raises(IncompleteError):
            peek_stream_kind(data[:size], Draft.D18)


def test_draft_16_has_two_kinds_of_streams() -> None:
    kinds = {number: _kind_or_none(number, Draft.D16) for number in range(0x200)}
    subgroups = {*range(0x10, 0x20), *range(0x30, 0x40)}
    assert {number for number, kind in kinds.items() if kind is StreamKind.SUBGROUP} == subgroups
    assert {number for number, kind in kinds.items() if kind is StreamKind.FETCH} == {5}
    for number in (0x2F00, 0x132B3E28):
        assert _kind_or_none(number, Draft.D16) is None


def test_draft_18_adds_bit_6() -> None:
    subgroups = {
        number for number in range(0x200) if _kind_or_none(number, Draft.D18) is StreamKind.SUBGROUP
    }
    assert subgroups == {
        *range(0x10, 0x20),
        *range(0x30, 0x40),
        *range(0x50, 0x60),
        *range(0x70, 0x80),
    }


def _kind_or_none(number: int, draft: Draft) -> StreamKind | None:
    try:
        return stream_kind(number, draft)
    except ProtocolViolation:
        return None


@given(DRAFTS, st.binary(max_size=12))
def test_any_bytes_have_a_kind_wait_or_fail(draft: Draft, data: bytes) -> None:
    try:
        assert isinstance(peek_stream_kind(data, draft), StreamKind)
    except IncompleteError:
        assert len(data) < 9
    except ProtocolViolation:
        pass


def test_a_status_is_known_and_has_no_extensions() -> None:
    assert check_status(0, b"x") is ObjectStatus.NORMAL
    assert check_status(3, b"") is ObjectStatus.END_OF_GROUP
    assert check_status(4, b"") is ObjectStatus.END_OF_TRACK
    for value in (1, 2, 5, 2**62):
        with pytest.raises(ProtocolViolation, match=f"{value:#x} is not one of: 0x0 NORMAL"):
            check_status(value, b"")
    for value in (3, 4):
        with pytest.raises(ProtocolViolation, match="has extensions"):
            check_status(value, b"x")


def test_what_no_peer_would_take_is_not_written() -> None:
    check_object(ObjectStatus.NORMAL, 5, bytes(MAX_EXTENSIONS_SIZE))
    check_object(ObjectStatus.END_OF_GROUP, 0, b"")
    for length, extensions in ((1, b""), (0, b"x")):
        with pytest.raises(EncodeError, match="END_OF_TRACK allows neither"):
            check_object(ObjectStatus.END_OF_TRACK, length, extensions)
    with pytest.raises(EncodeError, match="over 131072"):
        check_object(ObjectStatus.NORMAL, 0, bytes(MAX_EXTENSIONS_SIZE + 1))


def test_an_object_knows_its_location() -> None:
    header = ObjectHeader(7, 9, None, None, 0)
    assert header.location == Location(7, 9) < Location(8, 0)
    assert (header.status, header.extensions) == (ObjectStatus.NORMAL, b"")


def test_a_malformed_track_does_not_borrow_a_session_code() -> None:
    # 0x12 closes a session as DATA_STREAM_TIMEOUT; for tracks it is MALFORMED_TRACK.
    assert MalformedTrackError.code == codepoints.SessionCode.PROTOCOL_VIOLATION
    assert {
        MalformedTrackError.status_code,
        codepoints.RequestErrorCode.MALFORMED_TRACK,
        codepoints.PublishDoneCodeD16.MALFORMED_TRACK,
        codepoints.StreamResetCodeD18.MALFORMED_TRACK,
    } == {0x12}
    assert not issubclass(MalformedTrackError, ProtocolViolation)
    assert issubclass(MalformedTrackError, RemoteError)


def test_faults_say_what_happened() -> None:
    error = ObjectTooLargeError(20, 10)
    assert (error.size, error.limit, error.code) == (20, 10, 0x1)
    assert str(error) == "an object of 20 bytes is over the limit of 10"
    assert not issubclass(ObjectTooLargeError, ProtocolViolation)
    assert TruncatedStreamError.code == 0x3


def test_extensions_are_read_up_to_the_limit() -> None:
    encode = Draft.D18.integers.encode
    block = encode(MAX_EXTENSIONS_SIZE) + bytes(MAX_EXTENSIONS_SIZE)
    reader = Reader(block + b"x", integers=Draft.D18.integers)
    assert read_extensions(reader) == bytes(MAX_EXTENSIONS_SIZE)
    assert reader.pos == len(block)
    # Three values of the largest size are legal; we do not hold them, but blame nobody for it.
    size = 3 * 65535
    reader = Reader(encode(size), integers=Draft.D18.integers, partial=True)
    with pytest.raises(
        ObjectTooLargeError, match="an extension block of 196605 bytes is over the limit of 131072"
    ) as caught:
        read_extensions(reader)
    assert caught.value.code == 0x1


def test_ranges_carry_their_wire_values() -> None:
    assert {kind.name: int(kind) for kind in RangeKind} == {"NON_EXISTENT": 0x8C, "UNKNOWN": 0x10C}


def test_the_package_exports_what_it_names() -> None:
    assert public.__all__ == sorted(public.__all__, key=_isort_order)
    assert all(getattr(public, name) is not None for name in public.__all__)


def _isort_order(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


# Extension blocks

D16, D18 = Draft.D16, Draft.D18
BOTH = pytest.mark.parametrize("draft", [D16, D18])


def header_of(extensions: bytes, group_id: int = 10, object_id: int = 20) -> ObjectHeader:
    return ObjectHeader(group_id, object_id, 0, None, 0, ObjectStatus.NORMAL, extensions)


def pairs_of(draft: Draft) -> st.SearchStrategy[list[KeyValue]]:
    types = varints(draft.integers).filter(lambda type_: type_ != 0x0B)
    return st.lists(
        types.flatmap(
            lambda type_: st.builds(
                KeyValue,
                st.just(type_),
                st.binary(max_size=20) if type_ & 1 else varints(draft.integers),
            )
        ),
        max_size=5,
    )


# Reading and writing


@BOTH
def test_by_hand(draft: Draft) -> None:
    # 0x02 = 5, 0x0B (+9) of 4 bytes: 0x3C = 2 and 0x3E (+2) = 1; then 0x777 (+0x76C) = b"xy".
    far = draft.integers.encode(0x76C)
    data = bytes.fromhex("0205 09 04 3c02 0201") + far + b"\x02xy"
    expected = Extensions(
        (KeyValue(2, 5), KeyValue(0x0B, bytes.fromhex("3c020201")), KeyValue(0x777, b"xy")),
        (KeyValue(0x3C, 2), KeyValue(0x3E, 1)),
    )
    assert parse_extensions(data, draft) == expected
    assert (
        encode_extensions(
            [KeyValue(0x777, b"xy"), KeyValue(2, 5)],
            draft,
            immutable=[KeyValue(0x3E, 1), KeyValue(0x3C, 2)],
        )
        == data
    )
    assert expected.integer(0x3C) == 2
    assert expected.integer(2) == 5
    assert expected.integer(4) is None
    assert expected.types() == [2, 0x777, 0x3C, 0x3E]


@given(st.data(), DRAFTS)
def test_pairs_read_as_written(data: st.DataObject, draft: Draft) -> None:
    pairs, immutable = data.draw(pairs_of(draft)), data.draw(pairs_of(draft))
    encoded = encode_extensions(pairs, draft, immutable=immutable)
    extensions = parse_extensions(encoded, draft)
    assert extensions.immutable == sorted_pairs(immutable)
    own = [pair for pair in extensions.pairs if pair.type != 0x0B]
    assert own == list(sorted_pairs(pairs))
    assert len(own) + bool(immutable) == len(extensions.pairs)
    # Unknown types too are carried as they came.
    assert encode_extensions(extensions.pairs, draft) == encoded


@given(DRAFTS, st.binary(max_size=40))
def test_any_bytes(draft: Draft, data: bytes) -> None:
    check_bounded(lambda given: (object_extensions(header_of(given), draft), 0), data)
    try:
        extensions = parse_extensions(data, draft)
        assert all(type(type_) is int for type_ in extensions.types())
    except RemoteError as error:
        assert isinstance(error, ProtocolViolation | MalformedTrackError)  # noqa: PT017


def test_nothing_says_nothing() -> None:
    assert parse_extensions(b"", D16) == Extensions()
    assert object_extensions(header_of(b""), D18) == ObjectExtensions(Extensions())


@BOTH
def test_outside_the_immutable_block_bad_pairs_close_the_session(draft: Draft) -> None:
    for data in (b"\x3c", b"\x0b\x02\x3c", b"\x01\x03ab"):
        with pytest.raises(MalformedError):
            parse_extensions(data, draft)


def test_writing_refuses_what_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        encode_extensions([KeyValue(2, b"x")], D16)
    with pytest.raises(EncodeError):
        encode_extensions([], D16, immutable=[KeyValue(3, bytes(2**16))])


# Objects


@BOTH
def test_gaps(draft: Draft) -> None:
    data = encode_extensions([KeyValue(0x3C, 10), KeyValue(0x3E, 20)], draft)
    seen = object_extensions(header_of(data), draft)
    assert (seen.prior_group_id_gap, seen.prior_object_id_gap) == (10, 20)
    # Inside the immutable block they count just the same.
    data = encode_extensions([], draft, immutable=[KeyValue(0x3E, 3)])
    assert object_extensions(header_of(data), draft).prior_object_id_gap == 3


@BOTH
@pytest.mark.parametrize(
    ("pairs", "immutable", "reason"),
    [
        ([(0x3C, 1), (0x3C, 1)], [], "2 times PRIOR_GROUP_ID_GAP"),
        ([(0x3E, 1)], [(0x3E, 1)], "2 times PRIOR_OBJECT_ID_GAP"),
        ([(0x3C, 11)], [], "PRIOR_GROUP_ID_GAP of 11 reaches below 0 from 10"),
        ([], [(0x3E, 21)], "PRIOR_OBJECT_ID_GAP of 21 reaches below 0 from 20"),
        ([(0x0B, b""), (0x0B, b"")], [], "2 immutable blocks"),
        ([(0x0B, b"")], [(0x3E, 1)], "2 immutable blocks"),
        ([], [(0x0B, b"")], "inside an immutable block"),
        ([(0x0B, b"\x3c")], [], "immutable block: value: truncated"),
        ([(0x0B, b"\x01\x05a")], [], "immutable block: value: truncated"),
    ],
)
def test_what_makes_a_track_malformed(
    draft: Draft,
    pairs: list[tuple[int, int | bytes]],
    immutable: list[tuple[int, int | bytes]],
    reason: str,
) -> None:
    data = encode_extensions(
        [KeyValue(*pair) for pair in pairs],
        draft,
        immutable=[KeyValue(*pair) for pair in immutable],
    )
    with pytest.raises(MalformedTrackError, match=reason):
        object_extensions(header_of(data), draft)


@pytest.mark.parametrize("type_", [0x4000, 0x4001, 0x7FFE, 0x7FFF])
def test_mandatory_properties_are_for_tracks(type_: int) -> None:
    pair = KeyValue(type_, b"" if type_ & 1 else 0)
    for inside in (False, True):
        pairs, immutable = ([], [pair]) if inside else ([pair], [])
        data = encode_extensions(pairs, D18, immutable=immutable)
        with pytest.raises(MalformedTrackError, match=f"{type_:#x} on an object"):
            object_extensions(header_of(data), D18)
    # Draft 16 has no such range.
    data = encode_extensions([pair], D16)
    assert object_extensions(header_of(data), D16).extensions.types() == [type_]


def test_what_is_mandatory() -> None:
    assert [is_mandatory(type_) for type_ in (0x3FFF, 0x4000, 0x7FFF, 0x8000)] == [
        False,
        True,
        True,
        False,
    ]
