"""QUIC's variable-length integers (RFC 9000, 16), for frames that are built as ``bytes``.

aioquic writes them into a ``Buffer``; here frames are joined from parts, for which one ``bytes``
object is cheaper. Tables and ``struct`` are used because these run for every packet.
"""

from __future__ import annotations

import struct

__all__ = ["VARINT_1", "encode_varint", "varint_size"]

VARINT_1 = [bytes((value,)) for value in range(64)]
"""The integers that take one byte."""

_U16 = struct.Struct(">H").pack
_U32 = struct.Struct(">I").pack
_U64 = struct.Struct(">Q").pack


def encode_varint(value: int) -> bytes:
    """The shortest form of an integer below 2**62."""
    if value < 0x40:
        return VARINT_1[value]
    if value < 0x4000:
        return _U16(value | 0x4000)
    if value < 0x4000_0000:
        return _U32(value | 0x8000_0000)
    return _U64(value | 0xC000_0000_0000_0000)


def varint_size(value: int) -> int:
    """How many bytes :func:`encode_varint` gives."""
    if value < 0x40:
        return 1
    if value < 0x4000:
        return 2
    return 4 if value < 0x4000_0000 else 8
