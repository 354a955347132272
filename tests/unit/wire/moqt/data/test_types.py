"""Objects, stream types, and the checks that every way of sending objects shares."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laps_wire.moqt.data as public
from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, ProtocolViolation, RemoteError
from laps_wire.moqt import codepoints
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    Location,
    MalformedTrackError,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    RangeKind,
    StreamKind,
    TruncatedStreamError,
    check_object,
    check_status,
    peek_stream_kind,
    read_extensions,
    stream_kind,
)
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import DRAFTS, own_vectors


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
