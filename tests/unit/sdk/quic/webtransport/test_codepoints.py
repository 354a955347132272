from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.webtransport.codepoints import from_http_code, to_http_code

CODES = st.integers(0, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("code", "http_code"),
    [
        (0, 0x52E4A40FA8DB),
        (0x1D, 0x52E4A40FA8F8),
        (0x1E, 0x52E4A40FA8FA),  # one number is left out for greasing
        (0xFFFFFFFF, 0x52E5AC983162),
    ],
)
def test_the_ends_of_the_range(code: int, http_code: int) -> None:
    assert to_http_code(code) == http_code
    assert from_http_code(http_code) == code


@given(CODES)
def test_codes_come_back_and_never_are_greasing_values(code: int) -> None:
    http_code = to_http_code(code)
    assert from_http_code(http_code) == code
    assert (http_code - 0x21) % 0x1F != 0


@pytest.mark.parametrize("http_code", [0, 0x100, 0x170D7B68, 0x52E4A40FA8DA, 0x52E5AC983163])
def test_codes_of_others_become_0(http_code: int) -> None:
    assert from_http_code(http_code) == 0


def test_a_greasing_value_becomes_0() -> None:
    assert from_http_code(0x52E4A40FA8F9) == 0


def test_codes_over_32_bits_become_the_greatest() -> None:
    assert to_http_code(1 << 40) == 0x52E5AC983162
