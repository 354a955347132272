from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laps_sdk.tokens.cbor import MAX_DEPTH, Tagged, decode, encode
from laps_sdk.tokens.errors import TokenMalformedError
from laps_wire.errors import EncodeError
from testkit.tokens import fault_of

SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=300)
    | st.text(max_size=40)
)
KEYS = st.integers(-(2**64), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(KEYS, inner, max_size=5)
        | st.builds(Tagged, st.integers(0, 2**64 - 1), inner)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    data = encode(value)
    words = fault_of(lambda: decode(data))
    assume("deeper" not in words)
    assert not words
    assert decode(data) == value
    assert encode(decode(data)) == data


@given(VALUES, st.data())
def test_a_strict_prefix_is_refused(value: Any, data: st.DataObject) -> None:
    raw = encode(value)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(TokenMalformedError):
        decode(raw[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_fault(data: bytes) -> None:
    assert fault_of(lambda: decode(data)).isprintable()


def test_floats_of_three_sizes() -> None:
    assert decode(bytes.fromhex("f93c00")) == 1.0
    assert decode(bytes.fromhex("fa3fc00000")) == 1.5
    assert decode(bytes.fromhex("fb3ff8000000000000")) == 1.5
    number = decode(bytes.fromhex("f97e00"))
    assert isinstance(number, float)
    assert math.isnan(number)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "ends too early"),
        ("0000", "after the end"),
        ("9f00ff", "indefinite"),
        ("5f4100ff", "indefinite"),
        ("1c", "indefinite or reserved"),
        ("9b7fffffffffffffff", "ends too early"),
        ("bb7fffffffffffffff", "ends too early"),
        ("5b7fffffffffffffff", "ends too early"),
        ("62ffff", "UTF-8"),
        ("a201000100", "same key twice"),
        ("a1f500", "strange type"),
        ("a18000", "strange type"),
        ("f7", "simple value"),
        ("f800", "simple value"),
        ("81" * (MAX_DEPTH + 2) + "00", "deeper"),
        ("c1" * (MAX_DEPTH + 2) + "00", "deeper"),
    ],
)
def test_what_has_no_place_in_a_token_is_refused(data: str, words: str) -> None:
    with pytest.raises(TokenMalformedError, match=words):
        decode(bytes.fromhex(data))


def test_the_deepest_that_is_taken() -> None:
    assert encode(decode(bytes.fromhex("81" * MAX_DEPTH + "00"))) == bytes.fromhex(
        "81" * MAX_DEPTH + "00"
    )


def test_numbers_beyond_64_bits_are_not_written() -> None:
    with pytest.raises(EncodeError, match="64 bits"):
        encode(1 << 64)
