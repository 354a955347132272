"""The error tree: a class for each code, and the words of those that carry more."""

from __future__ import annotations

import pytest

from laps_wire.errors import LocalError, ProtocolViolation, RemoteError
from laps_wire.moqt import errors
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.errors import (
    BY_CODE,
    KeyValueFormattingError,
    SessionTermination,
    UnknownMessageType,
)


def test_every_session_code_but_no_error_has_a_class() -> None:
    assert set(BY_CODE) == {int(code) for code in SessionCode} - {SessionCode.NO_ERROR}


@pytest.mark.parametrize("code", [code for code in SessionCode if code in BY_CODE])
def test_a_class_is_named_after_its_code(code: SessionCode) -> None:
    cls = BY_CODE[code]
    assert cls.code == code
    assert cls.__name__ == "".join(word.capitalize() for word in code.name.split("_"))
    assert issubclass(cls, RemoteError)
    assert not issubclass(cls, LocalError)


def test_codes_do_not_hide_each_other() -> None:
    classes = SessionTermination.__subclasses__()
    assert len({cls.code for cls in classes}) == len(classes)
    assert not any(issubclass(cls, ProtocolViolation) for cls in classes)


def test_everything_is_exported() -> None:
    exported = set(errors.__all__)
    assert {cls.__name__ for cls in BY_CODE.values()} <= exported


def test_every_class_is_in_the_drawing() -> None:
    assert errors.__doc__ is not None
    for code, cls in BY_CODE.items():
        assert f"{cls.__name__} " in errors.__doc__
        assert f"0x{code:X}" in errors.__doc__


def test_unknown_message_types() -> None:
    error = UnknownMessageType(0x3F, 16)
    assert str(error) == "message type 0x3F is not one of draft 16"
    assert error.code == 0x3
    assert isinstance(error, ProtocolViolation)
    hinted = UnknownMessageType(0x20, 18, "CLIENT_SETUP up to draft 16")
    assert str(hinted).endswith("draft 18: it is CLIENT_SETUP up to draft 16")


def test_formatting_errors_say_where() -> None:
    error = KeyValueFormattingError("too short", field="LARGEST_OBJECT", offset=9)
    assert str(error) == "LARGEST_OBJECT: too short (at byte 9)"
    assert (error.reason, error.field, error.offset) == ("too short", "LARGEST_OBJECT", 9)
    assert error.code == 0x6
    assert str(KeyValueFormattingError("too short")) == "too short"
