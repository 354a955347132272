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


@pytest.mark.parametrize(
    ("field", "outers", "path"),
    [
        ("name", ["SUBSCRIBE"], "SUBSCRIBE.name"),
        ("[1]", ["names", "SUBSCRIBE"], "SUBSCRIBE.names[1]"),
        ("SUBSCRIBE", ["SUBSCRIBE"], "SUBSCRIBE"),
        ("", ["SUBSCRIBE"], "SUBSCRIBE"),
    ],
)
def test_malformed_collects_what_the_field_stands_in(
    field: str, outers: list[str], path: str
) -> None:
    error = errors.MalformedError("bad", field=field)
    for outer in outers:
        error.inside(outer)
    assert (error.field, error.path) == (field, path)
    assert str(error) == f"{path}: bad"


def test_incomplete_says_how_much_is_missing() -> None:
    assert errors.IncompleteError(3).needed == 3
    assert "3 more" in str(errors.IncompleteError(3))


def test_a_bad_text_is_pointed_at_and_a_good_one_shown() -> None:
    error = errors.TextFormError.at("node ID", "1:x", 2, "'x' is no digit", example="1:1")
    assert str(error) == "node ID '1:x': 'x' is no digit, at character 3; a good one is '1:1'"
    error = errors.TextFormError.at("node ID", "1", 1, "no colon", example="1:1")
    assert str(error) == "node ID '1': no colon, at the end; a good one is '1:1'"


def test_a_bad_text_is_shown_short_and_on_one_line() -> None:
    error = errors.TextFormError.at("name", "\n\x1b" + "é" * 100, 0, "no", example="a")
    shown = str(error).split(": no")[0]
    assert shown == "name '\\n\\x1b" + "\\xe9" * 75 + "...'"
    error = errors.TextFormError.at("name", "a" * 80, 0, "no", example="a")
    assert "a" * 80 in str(error)
