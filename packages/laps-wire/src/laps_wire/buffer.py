"""A bounds-checked reader and a writer: the only places where offsets are counted.

A :class:`Reader` looks at a memoryview and never copies more than it returns. Every read names the
field it reads, which costs nothing and gives error messages and traces their words.

Two kinds of "too short" are told apart by how the reader was made:

- ``partial=True``: the buffer is the beginning of a stream; running out raises
  :class:`~laps_wire.errors.IncompleteError`, and the caller tries again with more bytes.
- ``partial=False``: the buffer is a whole unit (a datagram, a message body whose length is known);
  running out means that the unit lies about itself: :class:`~laps_wire.errors.MalformedError`.

``Reader.sub`` goes from the first kind to the second: it waits for the whole body and then reads
strictly inside it. Offsets stay those of the outermost buffer, so an error can be pointed at.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn, Self

from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.varint import QUIC, ByteSource, IntegerCoding

__all__ = ["Reader", "Writer"]

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
