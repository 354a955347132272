"""Field codecs: how one value of a message is read and written, and what is refused.

A field codec is an object with ``read(reader, field)`` and ``write(writer, value, field)``; the
name is for faults. Numbers, bytes and text are here; :mod:`laps_wire.layout` makes structures of
them, and a protocol may have codecs of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from laps_wire.buffer import Reader, Writer

__all__ = [
    "BOOL8",
    "F64",
    "REST",
    "U8",
    "U16",
    "U32",
    "U64",
    "VARINT",
    "Choice",
    "Constrained",
    "FieldCodec",
    "Fixed",
    "Prefixed",
    "Text",
    "Words",
    "readable",
    "reader_of",
    "utf8",
    "writer_of",
]

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)


class FieldCodec(Protocol[T]):
    """How one field is read and written."""

    def read(self, reader: Reader, field: str) -> T:
        """Read the field's value."""
        ...

    def write(self, writer: Writer, value: T, field: str) -> None:
        """Write the field's value."""
        ...


# Numbers


@dataclass(frozen=True, slots=True)
class UInt:
    """An unsigned big-endian integer of 8, 16, 32 or 64 bits."""

    bits: int

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        return _READ_UINT[self.bits](reader, field)

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        _WRITE_UINT[self.bits](writer, value, field)


_READ_UINT: Final[dict[int, Callable[[Reader, str], int]]] = {
    8: lambda reader, field: reader.u8(field),
    16: lambda reader, field: reader.u16(field),
    32: lambda reader, field: reader.u32(field),
    64: lambda reader, field: reader.u64(field),
}
_WRITE_UINT: Final[dict[int, Callable[[Writer, int, str], None]]] = {
    8: Writer.u8,
    16: Writer.u16,
    32: Writer.u32,
    64: Writer.u64,
}

U8: Final = UInt(8)
U16: Final = UInt(16)
U32: Final = UInt(32)
U64: Final = UInt(64)


@dataclass(frozen=True, slots=True)
class VarInt:
    """An integer in the coding that the reader or writer was made with."""

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        return reader.varint(field)

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        writer.varint(value, field)


VARINT: Final = VarInt()


@dataclass(frozen=True, slots=True)
class Double:
    """A big-endian IEEE 754 double; NaN is refused both ways, for nothing compares to it."""

    def read(self, reader: Reader, field: str) -> float:
        """Read it."""
        start = reader.pos
        value = reader.f64(field)
        if value != value:  # noqa: PLR0124 - this is how NaN is seen
            reader.fail(field, "not a number", offset=start)
        return value

    def write(self, writer: Writer, value: float, field: str) -> None:
        """Write it."""
        if value != value:  # noqa: PLR0124 - this is how NaN is seen
            writer.fail(field, "not a number")
        writer.f64(value, field)


F64: Final = Double()


@dataclass(frozen=True, slots=True)
class Bool8:
    """A byte that is 0 or 1; anything else is refused."""

    def read(self, reader: Reader, field: str) -> bool:
        """Read it."""
        start = reader.pos
        value = reader.u8(field)
        if value > 1:
            reader.fail(field, f"{value} is neither 0 nor 1", offset=start)
        return value == 1

    def write(self, writer: Writer, value: bool, field: str) -> None:
        """Write it."""
        writer.u8(int(value), field)


BOOL8: Final = Bool8()


@dataclass(frozen=True, slots=True)
class Choice(Generic[E]):
    """A number that must be one of an enumeration's values."""

    number: FieldCodec[int]
    enum: type[E]

    def read(self, reader: Reader, field: str) -> E:
        """Read it."""
        start = reader.pos
        value = self.number.read(reader, field)
        try:
            return self.enum(value)
        except ValueError:
            known = ", ".join(f"{int(member)} {member.name}" for member in self.enum)
            reader.fail(field, f"{value} is not one of: {known}", offset=start)

    def write(self, writer: Writer, value: E, field: str) -> None:
        """Write it."""
        self.number.write(writer, int(value), field)


@dataclass(frozen=True, slots=True)
class Constrained:
    """A number inside limits that the specification sets; refused both ways outside them."""

    number: FieldCodec[int]
    minimum: int
    maximum: int

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        start = reader.pos
        value = self.number.read(reader, field)
        if not self.minimum <= value <= self.maximum:
            reader.fail(field, f"{value} is outside {self.minimum}..{self.maximum}", offset=start)
        return value

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        if not self.minimum <= value <= self.maximum:
            writer.fail(field, f"{value} is outside {self.minimum}..{self.maximum}")
        self.number.write(writer, value, field)


# Bytes and text


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly ``size`` bytes."""

    size: int

    def read(self, reader: Reader, field: str) -> bytes:
        """Read them."""
        return reader.take(self.size, field)

    def write(self, writer: Writer, value: bytes, field: str) -> None:
        """Write them."""
        if len(value) != self.size:
            writer.fail(field, f"{len(value)} bytes where exactly {self.size} belong")
        writer.raw(value)


@dataclass(frozen=True, slots=True)
class Prefixed:
    """Bytes behind their length; a length over ``limit`` is refused before any byte of it."""

    limit: int
    length: FieldCodec[int] = VARINT

    def read(self, reader: Reader, field: str) -> bytes:
        """Read them."""
        return _read_prefixed(reader, field, self.limit, self.length)

    def write(self, writer: Writer, value: bytes, field: str) -> None:
        """Write them."""
        _write_prefixed(writer, value, field, self.limit, self.length)


def _read_prefixed(reader: Reader, field: str, limit: int, length: FieldCodec[int]) -> bytes:
    start = reader.pos
    size = length.read(reader, f"{field}.length")
    if size > limit:
        reader.fail(field, f"length {size} is over the limit of {limit}", offset=start)
    return reader.take(size, field)


def _write_prefixed(
    writer: Writer, value: bytes, field: str, limit: int, length: FieldCodec[int]
) -> None:
    if len(value) > limit:
        writer.fail(field, f"{len(value)} bytes are over the limit of {limit}")
    length.write(writer, len(value), field)
    writer.raw(value)


def utf8(writer: Writer, value: str, field: str) -> bytes:
    """The bytes of a text; lone surrogates are not text."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        writer.fail(field, f"not encodable as UTF-8: {error.reason}")


def readable(data: bytes) -> str:
    """Words for people out of any bytes: ``?`` stands for what is not UTF-8.

    The result never needs more bytes than it came from, so a relay can always pass it on.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").replace("\N{REPLACEMENT CHARACTER}", "?")


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 text behind its length in bytes; anything else is refused."""

    limit: int
    length: FieldCodec[int] = VARINT

    def read(self, reader: Reader, field: str) -> str:
        """Read it."""
        start = reader.pos
        data = _read_prefixed(reader, field, self.limit, self.length)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            reader.fail(field, f"not UTF-8: {error.reason}", offset=start)

    def write(self, writer: Writer, value: str, field: str) -> None:
        """Write it."""
        data = utf8(writer, value, field)
        _write_prefixed(writer, data, field, self.limit, self.length)


@dataclass(frozen=True, slots=True)
class Words:
    """Text that only people read, such as a reason phrase: bad UTF-8 does not end a session."""

    limit: int
    length: FieldCodec[int] = VARINT

    def read(self, reader: Reader, field: str) -> str:
        """Read it."""
        return readable(_read_prefixed(reader, field, self.limit, self.length))

    def write(self, writer: Writer, value: str, field: str) -> None:
        """Write it."""
        data = utf8(writer, value, field)
        _write_prefixed(writer, data, field, self.limit, self.length)


@dataclass(frozen=True, slots=True)
class Rest:
    """Every byte up to the end of the message."""

    def read(self, reader: Reader, field: str) -> bytes:
        """Read them."""
        return reader.rest(field)

    def write(self, writer: Writer, value: bytes, field: str) -> None:  # noqa: ARG002
        """Write them."""
        writer.raw(value)


REST: Final = Rest()


# For whoever runs through many fields


def reader_of(codec: FieldCodec[Any]) -> Callable[[Reader, str], Any]:
    """What reads a field, without a step in between for numbers."""
    return _READ_UINT[codec.bits] if isinstance(codec, UInt) else codec.read


def writer_of(codec: FieldCodec[Any]) -> Callable[[Writer, Any, str], None]:
    """What writes one."""
    return _WRITE_UINT[codec.bits] if isinstance(codec, UInt) else codec.write
