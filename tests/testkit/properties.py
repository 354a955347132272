"""The properties that every codec of ours has, stated once.

``encode(message) -> bytes`` and ``decode(data) -> (message, bytes used)`` are the two directions; a
decoder gets a buffer that may be the beginning of a longer stream.
"""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from laps_wire.errors import IncompleteError, RemoteError

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], tuple[Any, int]]

#: What a decoder may allocate for one byte of input, and for a call; generous, but linear.
BYTES_PER_BYTE = 600
BYTES_PER_CALL = 64 * 1024


def examples(of_sixty: int) -> int:
    """How many for a property whose examples are dear: so many where others have sixty."""
    return max(1, settings().max_examples * of_sixty // 60)


def check_round_trip(encode: Encode, decode: Decode, message: Any, *, suffix: bytes = b"") -> None:
    """What is written is what is read, and bytes behind it are left alone."""
    data = encode(message)
    assert decode(data + suffix) == (message, len(data))


def check_prefixes(encode: Encode, decode: Decode, message: Any) -> None:
    """Every strict prefix of a message is partial: neither a message nor an error."""
    data = encode(message)
    # All of a short message; of a long one both ends and a stride through the middle.
    cuts = range(len(data)) if len(data) <= 200 else [*range(100), *range(100, len(data), 37)]
    for cut in cuts:
        with pytest.raises(IncompleteError) as caught:
            decode(data[:cut])
        assert 1 <= caught.value.needed <= len(data) - cut


def check_any_bytes(decode: Decode, data: bytes) -> None:
    """Random bytes give a message, wait for more, or are the peer's fault; never anything else."""
    try:
        _, used = decode(data)
    except (IncompleteError, RemoteError):
        return
    assert 0 < used <= len(data)


def check_bounded(decode: Decode, data: bytes) -> None:
    """What a decoder allocates is linear in its input, whatever the input claims."""
    tracemalloc.start()
    try:
        with contextlib.suppress(IncompleteError, RemoteError):
            decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= BYTES_PER_CALL + BYTES_PER_BYTE * len(data)
