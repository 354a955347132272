from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from laps_relay.config.fields import (
    Duration,
    Section,
    Size,
    format_duration,
    format_size,
    key,
    lifecycle_of,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5.0), ("250ms", 0.25), ("1m", 60.0), ("2 h", 7200.0), ("7d", 604800.0), ("1.5", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1kB", 1000), ("10", 10), ("3 GB", 3 * 10**9), ("7B", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@given(st.integers(0, 10**14))
def test_what_is_written_is_read(value: int) -> None:
    assert parse_size(format_size(value)) == value
    assert parse_duration(format_duration(value)) == value


def test_fractions_and_zero() -> None:
    assert format_duration(0.25) == "250ms"
    assert format_duration(1.5) == "1500ms"
    assert format_duration(0.0001) == "0.0001s"
    assert format_duration(0) == "0s"
    assert format_size(0) == "0B"
    assert format_size(1536) == "1536B"


@pytest.mark.parametrize("value", ["", "fast", "5 parsecs", "-5s", "1e9s", -1, float("inf"), None])
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Duration).validate_python(value)


@pytest.mark.parametrize("value", ["", "big", "1.5MiB", "-5", "64mib", -1, None])
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Size).validate_python(value)


def test_files_get_the_text_again() -> None:
    assert TypeAdapter(Size).dump_json(1 << 20) == b'"1MiB"'
    assert TypeAdapter(Duration).dump_json(5.0) == b'"5s"'


class Example(Section):
    one: int = key(1, "A number.", "at-once", ge=1)
    two: str = key("x", "A secret.", secret=True)


def test_a_key_carries_what_the_page_needs() -> None:
    one, two = Example.model_fields["one"], Example.model_fields["two"]
    assert one.description == "A number."
    assert lifecycle_of(one.json_schema_extra) == "at-once"
    assert lifecycle_of(two.json_schema_extra) == "static"
    assert two.json_schema_extra == {"lifecycle": "static", "secret": True}
    assert lifecycle_of(None) == "static"


def test_sections_take_no_unknown_keys_and_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Example.model_validate({"three": 3})
    with pytest.raises(ValidationError):
        Example.model_validate({"one": 0})
    with pytest.raises(ValidationError):
        Example().one = 5
