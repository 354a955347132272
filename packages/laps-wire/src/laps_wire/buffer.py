"""Variable-length integers, and a bounds-checked reader and writer: all offsets are counted here.

Integers have one of two codings::

    QUIC (RFC 9000, 16)                       VI64 (moq-transport-18, 1.4.1)
    first byte   bytes  bits  maximum         first byte   bytes  bits
    00xxxxxx     1       6    63              0xxxxxxx     1       7
    01xxxxxx     2      14    16383           10xxxxxx     2      14
    10xxxxxx     4      30    2**30 - 1       110xxxxx     3      21
    11xxxxxx     8      62    2**62 - 1       ...one more leading 1 a byte...
                                              11111110     8      56
                                              11111111     9      64

Writers use the shortest form; decoders accept every form, as both specifications allow. The
decoders take ``(buffer, position, end)`` and return ``(value, next position)``. They are plain
functions because they run for every field of every object.

A :class:`Reader` reads from a memoryview and never copies more than it returns. Every read names
its field, for error messages and traces. The constructor decides how a reader treats missing bytes:

- ``partial=True``: the buffer is the beginning of a stream. Missing bytes raise
  :class:`~laps_wire.errors.IncompleteError`, and the caller tries again with more bytes.
- ``partial=False``: the buffer is a whole unit (a datagram, a message body of known length).
  Missing bytes raise :class:`~laps_wire.errors.MalformedError`.

``Reader.sub`` turns the first kind into the second: it waits for the whole body and then reads
strictly inside it. Offsets stay those of the outermost buffer, so errors can name them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Self, TypeAlias

from laps_wire.errors import EncodeError, IncompleteError, MalformedError

__all__ = [
    "QUIC",
    "VI64",
    "IntegerCoding",
    "Reader",
    "Writer",
    "decode_quic",
    "decode_vi64",
    "encode_quic",
    "encode_vi64",
]

# Variable-length integers

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


# Reader and writer

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_F64: Final = struct.Struct(">d")


class Reader:
    """Reads fields from a buffer, in order, inside its bounds.

    Reads: ``u8 u16 u32 u64 f64 varint take view prefixed rest``. Structure: ``sub`` for a bounded
    part, ``enter``/``leave`` around a composite (no-ops here; a tracing reader draws them).
    Position: ``pos``, ``end``, ``remaining``, ``at_end``.
    """

    __slots__ = ("_decode", "_one_byte", "_view", "end", "integers", "partial", "pos")

    def __init__(
        self,
        data: ByteSource,
        *,
        integers: IntegerCoding = QUIC,
        partial: bool = False,
        pos: int = 0,
        end: int | None = None,
    ) -> None:
        self._view = data if isinstance(data, memoryview) else memoryview(data)
        self._decode = integers.decode
        self._one_byte = integers.one_byte
        self.integers = integers
        self.partial = partial
        self.pos = pos
        self.end = len(self._view) if end is None else end

    @property
    def remaining(self) -> int:
        """How many bytes are left inside the bounds."""
        return self.end - self.pos

    @property
    def at_end(self) -> bool:
        """Whether everything was read."""
        return self.pos >= self.end

    # Faults

    def fail(self, field: str, reason: str, *, offset: int | None = None) -> NoReturn:
        """Raise :class:`MalformedError` for ``field``, pointing at ``offset`` (default: here)."""
        raise MalformedError(reason, field=field, offset=self.pos if offset is None else offset)

    def _short(self, field: str, needed: int) -> NoReturn:
        """``needed`` more bytes are missing: wait, or refuse."""
        if self.partial:
            raise IncompleteError(needed)
        raise MalformedError(
            f"truncated: {needed} more byte(s) needed, {self.remaining} left",
            field=field,
            offset=self.pos,
        )

    # Fixed-size fields, big endian

    def u8(self, field: str) -> int:
        """Read an unsigned 8-bit integer."""
        pos = self.pos
        if pos >= self.end:
            self._short(field, 1)
        self.pos = pos + 1
        return self._view[pos]

    def u16(self, field: str) -> int:
        """Read an unsigned 16-bit integer."""
        pos = self.pos
        if pos + 2 > self.end:
            self._short(field, pos + 2 - self.end)
        self.pos = pos + 2
        value: int = _U16.unpack_from(self._view, pos)[0]
        return value

    def u32(self, field: str) -> int:
        """Read an unsigned 32-bit integer."""
        pos = self.pos
        if pos + 4 > self.end:
            self._short(field, pos + 4 - self.end)
        self.pos = pos + 4
        value: int = _U32.unpack_from(self._view, pos)[0]
        return value

    def u64(self, field: str) -> int:
        """Read an unsigned 64-bit integer."""
        pos = self.pos
        if pos + 8 > self.end:
            self._short(field, pos + 8 - self.end)
        self.pos = pos + 8
        value: int = _U64.unpack_from(self._view, pos)[0]
        return value

    def f64(self, field: str) -> float:
        """Read an IEEE 754 double."""
        pos = self.pos
        if pos + 8 > self.end:
            self._short(field, pos + 8 - self.end)
        self.pos = pos + 8
        value: float = _F64.unpack_from(self._view, pos)[0]
        return value

    # Variable-size fields

    def varint(self, field: str) -> int:
        """Read an integer in this reader's coding (RFC 9000 or vi64)."""
        pos = self.pos
        if pos < self.end and (first := self._view[pos]) < self._one_byte:
            self.pos = pos + 1
            return first
        try:
            value, self.pos = self._decode(self._view, pos, self.end)
        except IncompleteError as error:
            self._short(field, error.needed)
        return value

    def view(self, size: int, field: str) -> memoryview:
        """Take ``size`` bytes without copying them."""
        stop = self.pos + size
        if stop > self.end:
            self._short(field, stop - self.end)
        taken = self._view[self.pos : stop]
        self.pos = stop
        return taken

    def take(self, size: int, field: str) -> bytes:
        """Take ``size`` bytes as an immutable copy."""
        return bytes(self.view(size, field))

    def prefixed(self, field: str, limit: int) -> bytes:
        """Take bytes whose length stands before them as a varint.

        A length above ``limit`` is refused at once: waiting for bytes that will be refused anyway
        would let a peer make us buffer them.
        """
        start = self.pos
        size = self.varint(field)
        if size > limit:
            self.fail(field, f"length {size} is over the limit of {limit}", offset=start)
        return self.take(size, field)

    def rest(self, field: str) -> bytes:
        """Take everything up to the end of the bounds."""
        return self.take(self.end - self.pos, field)

    # Structure

    def sub(self, size: int, field: str) -> Self:
        """Read the next ``size`` bytes as a strict unit: wait for all of it, then bound it."""
        start, stop = self.pos, self.pos + size
        if stop > self.end:
            self._short(field, stop - self.end)
        self.pos = stop
        return self._bounded(start, stop)

    def _bounded(self, start: int, stop: int) -> Self:
        """Make the strict reader for :meth:`sub`; a tracing reader hands on its record."""
        return type(self)(self._view, integers=self.integers, pos=start, end=stop)

    def expect_end(self, what: str) -> None:
        """Refuse bytes left over after ``what``."""
        if self.pos < self.end:
            self.fail(what, f"{self.remaining} byte(s) left over after the last field")

    def enter(self, field: str) -> None:
        """Begin a composite field; nothing to do unless traced."""

    def leave(self) -> None:
        """End a composite field; nothing to do unless traced."""


class Writer:
    """Appends fields to a growing buffer; the mirror of :class:`Reader`.

    A value that does not fit raises :class:`~laps_wire.errors.EncodeError` naming the field.
    """

    __slots__ = ("_buffer", "_encode", "_one_byte", "integers")

    def __init__(self, *, integers: IntegerCoding = QUIC) -> None:
        self._buffer = bytearray()
        self._encode = integers.encode
        self._one_byte = integers.one_byte
        self.integers = integers

    def __len__(self) -> int:
        return len(self._buffer)

    def getvalue(self) -> bytes:
        """Everything written so far."""
        return bytes(self._buffer)

    def fail(self, field: str, reason: str) -> NoReturn:
        """Raise :class:`EncodeError` for ``field``."""
        raise EncodeError(f"{field}: {reason}")

    def _fixed(self, value: int, size: int, field: str) -> None:
        try:
            self._buffer += value.to_bytes(size, "big")
        except OverflowError:
            self.fail(field, f"{value} does not fit {size} unsigned byte(s)")

    def u8(self, value: int, field: str) -> None:
        """Write an unsigned 8-bit integer."""
        self._fixed(value, 1, field)

    def u16(self, value: int, field: str) -> None:
        """Write an unsigned 16-bit integer."""
        self._fixed(value, 2, field)

    def u32(self, value: int, field: str) -> None:
        """Write an unsigned 32-bit integer."""
        self._fixed(value, 4, field)

    def u64(self, value: int, field: str) -> None:
        """Write an unsigned 64-bit integer."""
        try:  # node ids and hashes: as often as all others
            self._buffer += value.to_bytes(8, "big")
        except OverflowError:
            self.fail(field, f"{value} does not fit 8 unsigned byte(s)")

    def f64(self, value: float, field: str) -> None:  # noqa: ARG002 - every double fits
        """Write an IEEE 754 double."""
        self._buffer += _F64.pack(value)

    def varint(self, value: int, field: str) -> None:
        """Write an integer in this writer's coding, shortest form."""
        if 0 <= value < self._one_byte:
            self._buffer.append(value)
            return
        try:
            self._buffer += self._encode(value)
        except EncodeError as error:
            self.fail(field, str(error))

    def raw(self, data: ByteSource) -> None:
        """Append bytes as they are."""
        self._buffer += data

    def prefixed(self, data: ByteSource, field: str, limit: int) -> None:
        """Write bytes with their length before them as a varint."""
        if len(data) > limit:
            self.fail(field, f"{len(data)} bytes are over the limit of {limit}")
        self.varint(len(data), field)
        self._buffer += data
