"""The error tree: who is at fault is in the type, the code is on the class."""

from __future__ import annotations

import pytest

from laps_wire import errors


def test_local_and_remote_faults_never_mix() -> None:
    for name in errors.__all__:
        cls = getattr(errors, name)
        assert issubclass(cls, errors.LapsError)
        assert not (issubclass(cls, errors.LocalError) and issubclass(cls, errors.RemoteError))


def test_the_tree_is_drawn_in_the_module() -> None:
    drawn = errors.__doc__ or ""
    for name in errors.__all__:
        assert name in drawn


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.EncodeError, ValueError),
        (errors.TextFormError, ValueError),
        (errors.StateError, RuntimeError),
    ],
)
def test_local_errors_are_also_the_builtin_kind(cls: type, builtin: type) -> None:
    assert issubclass(cls, builtin)


def test_malformed_says_field_reason_and_place() -> None:
    error = errors.MalformedError("too long", field="SUBSCRIBE.name", offset=12)
    assert str(error) == "SUBSCRIBE.name: too long (at byte 12)"
    assert (error.reason, error.field, error.offset) == ("too long", "SUBSCRIBE.name", 12)
    assert str(errors.MalformedError("bad")) == "bad"
    assert error.code == 0x3


def test_incomplete_says_how_much_is_missing() -> None:
    assert errors.IncompleteError(3).needed == 3
    assert "3 more" in str(errors.IncompleteError(3))
