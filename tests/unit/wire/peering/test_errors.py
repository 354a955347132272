"""Close codes: each has exactly one class, and the tree is drawn as it is."""

from __future__ import annotations

import re

import pytest

from laps_wire.errors import LocalError, MalformedError, ProtocolViolation, RemoteError
from laps_wire.peering import errors
from laps_wire.peering.errors import CloseCode, PeeringError, StreamCode, error_class

CLASSES: list[type[PeeringError]] = PeeringError.__subclasses__()


def test_every_code_but_no_error_has_a_class() -> None:
    named = {cls.code for cls in CLASSES}
    assert len(named) == len(CLASSES)
    general = {CloseCode.NO_ERROR, CloseCode.INTERNAL_ERROR, CloseCode.PROTOCOL_VIOLATION}
    assert named | general == set(CloseCode)
    assert named.isdisjoint(general)


def test_codes_that_other_specifications_fix() -> None:
    # 0x0 to 0x3 mean in laps-2 what they mean in MoQT; the shared readers raise 0x3.
    assert int(CloseCode.NO_ERROR) == 0x0
    assert CloseCode.INTERNAL_ERROR == RemoteError.code == PeeringError.code == 0x1
    assert int(CloseCode.NOT_AUTHORIZED) == 0x2
    assert CloseCode.PROTOCOL_VIOLATION == MalformedError.code == 0x3


def test_the_tree_is_drawn_with_its_codes() -> None:
    drawn = dict(re.findall(r"── (\w+) +(0x[0-9a-f]+)", errors.__doc__ or ""))
    expected = {cls.__name__: cls.code for cls in CLASSES}
    expected["PeeringError"] = PeeringError.code
    expected |= {"ProtocolViolation": 3, "MalformedError": 3, "UnknownKindError": 0x4C04}
    assert {name: int(code, 16) for name, code in drawn.items()} == expected


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_is_the_peers_fault_and_public(cls: type[RemoteError]) -> None:
    assert issubclass(cls, RemoteError)
    assert not issubclass(cls, LocalError)
    assert cls.__name__ in errors.__all__
    assert cls.__doc__


def test_a_code_finds_its_class() -> None:
    assert error_class(0) is None
    assert error_class(0x1) is PeeringError
    assert error_class(0x3) is ProtocolViolation
    assert error_class(0xFFFF) is PeeringError
    for cls in CLASSES:
        assert error_class(cls.code) is cls


def test_errors_keep_what_they_saw() -> None:
    unknown = errors.UnknownMessageError(0x3E)
    assert (unknown.message_type, unknown.code) == (0x3E, 9)
    assert str(unknown) == "message type 0x3e is even and unknown"
    large = errors.MessageTooLargeError(70000, 65536)
    assert (large.size, large.limit, large.code) == (70000, 65536, 10)
    assert str(large) == "a message body of 70000 bytes, at most 65536 were agreed"


def test_an_unknown_kind_ends_a_stream_and_not_the_session() -> None:
    # (docs/spec/laps-2.md, 7.1): whoever closes sessions on violations must not close this one.
    error = errors.UnknownKindError(3, {1: "STREAM", 2: "DATAGRAM"})
    assert (error.kind, error.code) == (3, StreamCode.UNKNOWN_KIND)
    assert str(error) == "kind: 3 is not one of: 1 STREAM, 2 DATAGRAM"
    assert isinstance(error, RemoteError)
    assert not isinstance(error, (ProtocolViolation, PeeringError))
    assert "UnknownKindError" in errors.__all__


def test_stream_codes_leave_room_for_those_of_publishers() -> None:
    # A publisher's own reset code passes through; MoQT's are small numbers.
    assert min(StreamCode) == 0x4C00
    assert len(set(StreamCode)) == 7
