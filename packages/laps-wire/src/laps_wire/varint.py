"""Variable-length integers: RFC 9000 varints and MoQT's vi64, as one strategy with two values.

::

    QUIC (RFC 9000, 16)                       VI64 (moq-transport-18, 1.4.1)
    first byte   bytes  bits  maximum         first byte   bytes  bits
    00xxxxxx     1       6    63              0xxxxxxx     1       7
    01xxxxxx     2      14    16383           10xxxxxx     2      14
    10xxxxxx     4      30    2**30 - 1       110xxxxx     3      21
    11xxxxxx     8      62    2**62 - 1       ...one more leading 1 a byte...
                                              11111110     8      56
                                              11111111     9      64

We write the shortest form and read every form: both specifications allow longer ones.

The decoders take ``(buffer, position, end)`` and return ``(value, next position)``. They are plain
functions because they run for every field of every object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_wire.errors import EncodeError, IncompleteError

__all__ = [
    "QUIC",
    "VI64",
    "IntegerCoding",
    "decode_quic",
    "decode_vi64",
    "encode_quic",
    "encode_vi64",
]

ByteSource: TypeAlias = "bytes | bytearray | memoryview"
"""What the decoders read from; never copied, never written to."""

QUIC_MAX: Final = (1 << 62) - 1
VI64_MAX: Final = (1 << 64) - 1

# By encoded size: 7 bits a byte, but the ninth byte ends at 64 and not at 63.
_VI64_MASK: Final = (0, *((1 << 7 * size) - 1 for size in range(1, 9)), VI64_MAX)


def decode_quic(data: ByteSource, pos: int, end: int) -> tuple[int, int]:
    """Read an RFC 9000 varint at ``pos``; :class:`IncompleteError` if it crosses ``end``."""
    if pos >= end:
        raise IncompleteError(1)
    first = data[pos]
    if first < 0x40:
        return first, pos + 1
    if first < 0x80:
        stop = pos + 2
        if stop > end:
            raise IncompleteError(stop - end)
        return (first & 0x3F) << 8 | data[pos + 1], stop
    if first < 0xC0:
        stop = pos + 4
        if stop > end:
            raise IncompleteError(stop - end)
        return int.from_bytes(data[pos:stop], "big") & 0x3FFF_FFFF, stop
    stop = pos + 8
    if stop > end:
        raise IncompleteError(stop - end)
    return int.from_bytes(data[pos:stop], "big") & QUIC_MAX, stop


def encode_quic(value: int) -> bytes:
    """Write an RFC 9000 varint in its shortest form."""
    if 0 <= value < 0x40:
        return value.to_bytes(1, "big")
    if 0 <= value < 0x4000:
        return (value | 0x4000).to_bytes(2, "big")
    if 0 <= value < 0x4000_0000:
        return (value | 0x8000_0000).to_bytes(4, "big")
    if 0 <= value <= QUIC_MAX:
        return (value | 0xC000_0000_0000_0000).to_bytes(8, "big")
    raise EncodeError(f"{value} does not fit a QUIC varint (0 to 2**62 - 1)")


def decode_vi64(data: ByteSource, pos: int, end: int) -> tuple[int, int]:
    """Read a vi64 at ``pos``; :class:`IncompleteError` if it crosses ``end``."""
    if pos >= end:
        raise IncompleteError(1)
    first = data[pos]
    if first < 0x80:
        return first, pos + 1
    if first < 0xC0:
        stop = pos + 2
        if stop > end:
            raise IncompleteError(stop - end)
        return (first & 0x3F) << 8 | data[pos + 1], stop
    # Leading ones of the first byte: 9 bits of it less those that its complement needs.
    size = 9 - (first ^ 0xFF).bit_length()
    stop = pos + size
    if stop > end:
        raise IncompleteError(stop - end)
    return int.from_bytes(data[pos:stop], "big") & _VI64_MASK[size], stop


def encode_vi64(value: int) -> bytes:
    """Write a vi64 in its shortest form."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "big")
    if 0 <= value < 0x4000:
        return (value | 0x8000).to_bytes(2, "big")
    if value < 0 or value > VI64_MAX:
        raise EncodeError(f"{value} does not fit a vi64 (0 to 2**64 - 1)")
    size = min(-(-value.bit_length() // 7), 9)
    if size == 9:
        return b"\xff" + value.to_bytes(8, "big")
    # size - 1 leading ones, then a zero, then 7 * size value bits.
    prefix = (0xFF << (9 - size)) & 0xFF
    return (prefix << (8 * (size - 1)) | value).to_bytes(size, "big")


@dataclass(frozen=True, slots=True)
class IntegerCoding:
    """One way to write integers: the first of the three strategies in which MoQT drafts differ."""

    name: str
    max_value: int
    one_byte: int
    """Values below this are written as one byte, which is the value itself; most values are."""
    decode: Callable[[ByteSource, int, int], tuple[int, int]]
    encode: Callable[[int], bytes]


QUIC: Final = IntegerCoding("RFC 9000 varint", QUIC_MAX, 0x40, decode_quic, encode_quic)
"""RFC 9000 varints: MoQT up to draft 16, QuicR, the C++ LAPS relay and ``laps-2``."""

VI64: Final = IntegerCoding("vi64", VI64_MAX, 0x80, decode_vi64, encode_vi64)
"""MoQT's own coding from draft 17 on: 7 bits in a byte, all of 64 bits in nine."""
