from __future__ import annotations

import pytest
from aioquic._buffer import Buffer
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.frames import encode_varint

EDGES = [0, 63, 64, 16383, 16384, 2**30 - 1, 2**30, 2**62 - 1]


@pytest.mark.parametrize("value", EDGES)
def test_the_edges_of_each_length_are_as_aioquic_writes_them(value: int) -> None:
    buffer = Buffer(8)
    buffer.push_uint_var(value)
    assert encode_varint(value) == buffer.data


@given(st.integers(0, 2**62 - 1))
def test_any_integer_is_as_aioquic_writes_it(value: int) -> None:
    buffer = Buffer(8)
    buffer.push_uint_var(value)
    assert encode_varint(value) == buffer.data
