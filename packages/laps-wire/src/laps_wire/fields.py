"""Field codecs, and the layouts of messages and structures as tables of them.

A field codec has ``read(reader, field)`` and ``write(writer, value, field)``; the name is for
errors. This module has codecs of numbers, bytes and text; a protocol may have its own.

A layout is a table of field codecs. Reading, writing, tracing and the property tests all follow the
same table::

    SUBSCRIBE = Layout(
        Subscribe,                      # a frozen dataclass whose fields are in wire order
        ("request_id", VARINT),         # (attribute, field codec)
        ("namespace", NAMESPACE),
        ("name", Prefixed(4096)),
        ("parameters", PARAMETERS),
    )
    message = SUBSCRIBE.read(reader, "SUBSCRIBE")
    SUBSCRIBE.write(writer, message, "SUBSCRIBE")

Arrays and layouts are field codecs too, so structures nest. Tables are for messages; data headers,
which are read for every object, have codecs written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from laps_wire.buffer import QUIC, Reader, Writer
from laps_wire.errors import EncodeError, MalformedError

__all__ = [
    "BOOL8",
    "F64",
    "MOST_SHARED",
    "REST",
    "U8",
    "U16",
    "U32",
    "U64",
    "VARINT",
    "Array",
    "Choice",
    "Constrained",
    "FieldCodec",
    "Fixed",
    "Layout",
    "Many",
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


# Structures

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Array(Generic[T]):
    """A count, then that many items; a count over ``limit`` is refused before any item."""

    item: FieldCodec[T]
    limit: int
    count: FieldCodec[int] = VARINT

    def read(self, reader: Reader, field: str) -> tuple[T, ...]:
        """Read them."""
        start = reader.pos
        reader.enter(field)
        count = self.count.read(reader, "count")
        if count > self.limit:
            reader.fail(field, f"count {count} is over the limit of {self.limit}", offset=start)
        # range() is lazy: a count that lies runs out of bytes, not of memory.
        try:
            read = self.item.read
            items = tuple([read(reader, f"[{index}]") for index in range(count)])
        except MalformedError as error:
            error.inside(field)
            raise
        reader.leave()
        return items

    def write(self, writer: Writer, value: tuple[T, ...], field: str) -> None:
        """Write them."""
        if len(value) > self.limit:
            writer.fail(field, f"{len(value)} items are over the limit of {self.limit}")
        self.count.write(writer, len(value), field)
        _write_items(self.item, writer, value, field)


@dataclass(frozen=True, slots=True)
class Many(Generic[T]):
    """Items up to the end of the message, uncounted."""

    item: FieldCodec[T]
    limit: int

    def read(self, reader: Reader, field: str) -> tuple[T, ...]:
        """Read them."""
        reader.enter(field)
        items: list[T] = []
        try:
            while not reader.at_end:
                if len(items) == self.limit:
                    reader.fail(field, f"more than {self.limit} items")
                items.append(self.item.read(reader, f"[{len(items)}]"))
        except MalformedError as error:
            error.inside(field)
            raise
        reader.leave()
        return tuple(items)

    def write(self, writer: Writer, value: tuple[T, ...], field: str) -> None:
        """Write them."""
        if len(value) > self.limit:
            writer.fail(field, f"{len(value)} items are over the limit of {self.limit}")
        _write_items(self.item, writer, value, field)


def _write_items(codec: FieldCodec[T], writer: Writer, items: tuple[T, ...], field: str) -> None:
    """Write items one after the other; a fault names the item."""
    for index, item in enumerate(items):
        try:
            codec.write(writer, item, "")
        except EncodeError as error:
            raise EncodeError(f"{field}[{index}]{error}") from None


MOST_SHARED: Final = 4_096
"""Objects of one layout whose bytes are kept."""


class Layout(Generic[M]):
    """The table of one message or structure: a dataclass and its fields in wire order.

    The table must name every field of the dataclass, in the dataclass's order, so that neither can
    change without the other. A dataclass may refuse a combination of values in ``__post_init__``
    with ``ValueError``; for a reader that is the peer's fault and becomes ``MalformedError``.

    ``shared``: the same object is written many times, such as an entry that goes to all peers. What
    it became is kept with the object, of the last :data:`MOST_SHARED` or so.
    """

    __slots__ = ("_reads", "_shared", "_values", "_writes", "cls", "table")

    def __init__(
        self, cls: type[M], *table: tuple[str, FieldCodec[Any]], shared: bool = False
    ) -> None:
        names = [name for name, _ in table]
        declared = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if names != declared:
            raise TypeError(f"{cls.__name__}: table {names} differs from dataclass {declared}")
        self.cls = cls
        self.table = table
        # Bound once: these run for every field of every message.
        self._reads = tuple((name, reader_of(codec)) for name, codec in table)
        self._writes = tuple((name, writer_of(codec)) for name, codec in table)
        self._values = _values_getter(names)
        # By identity: an object that is kept here has its id for itself.
        self._shared: dict[int, tuple[M, bytes]] | None = {} if shared else None

    def read(self, reader: Reader, field: str) -> M:
        """Read a whole structure."""
        start = reader.pos
        reader.enter(field)
        try:
            values = [read(reader, name) for name, read in self._reads]
        except MalformedError as error:
            error.inside(field)
            raise
        reader.leave()
        try:
            return self.cls(*values)
        except ValueError as error:
            reader.fail(field, str(error), offset=start)

    def write(self, writer: Writer, value: M, field: str) -> None:
        """Write a whole structure."""
        if self._shared is None or writer.integers is not QUIC:
            self._write(writer, value, field)
            return
        known = self._shared.get(id(value))
        if known is None:
            inner = Writer()
            self._write(inner, value, field)
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            known = self._shared[id(value)] = value, inner.getvalue()
        writer.raw(known[1])

    def _write(self, writer: Writer, value: M, field: str) -> None:
        # The path is put together only when something failed: a message has many good fields.
        try:
            for (name, write), item in zip(self._writes, self._values(value), strict=True):
                write(writer, item, name)
        except EncodeError as error:
            raise EncodeError(f"{field}.{error}") from None


def _values_getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """``attrgetter`` that gives a tuple for any number of names."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        single = attrgetter(names[0])
        return lambda value: (single(value),)
    return attrgetter(*names)
