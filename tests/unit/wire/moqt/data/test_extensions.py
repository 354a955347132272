"""Extension headers and properties: what they say, and what makes a track malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation, RemoteError
from laps_wire.moqt.data.extensions import (
    Extensions,
    ObjectExtensions,
    encode_extensions,
    is_mandatory,
    object_extensions,
    parse_extensions,
)
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader, ObjectStatus
from laps_wire.moqt.keyvalue import KeyValue, sorted_pairs
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import DRAFTS
from testkit.properties import check_bounded
from testkit.strategies import varints

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
