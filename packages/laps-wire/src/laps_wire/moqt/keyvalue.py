"""Key-Value-Pairs, and typed values behind delta-coded types.

Setup options, draft 16's parameters, extension headers and properties are Key-Value-Pairs::

    +------------+------------------+
    | delta type | value (varint)   |   the type is even
    +------------+--------+---------+
    | delta type | length | bytes.. |   the type is odd; at most 65535 bytes
    +------------+--------+---------+

A type is written as the distance from the previous type, the first one from 0. So pairs are in
ascending order of type, and equal types are adjacent (moq-transport-16, 1.4.2). A sum above
2**64 - 1 is a protocol violation.

Pairs are kept as ``tuple[KeyValue, ...]``: immutable, hashable, with received order and duplicates,
because a relay must forward them so. A relay also forwards unknown types, so the pair functions do
not interpret types.

Parameters and setup options have typed values: a table of :class:`Entry` has the codec of each
known type, and the attribute of the model that holds its value. The caller handles any other type:
it gets the reader behind the type, and returns a raw pair or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError
from laps_wire.fields import FieldCodec
from laps_wire.moqt.errors import KeyValueFormattingError

__all__ = [
    "KEY_VALUES",
    "KEY_VALUES_COUNTED",
    "MAX_TYPE",
    "MAX_VALUE_LENGTH",
    "Enclosed",
    "Entry",
    "Flag",
    "KeyValue",
    "KeyValues",
    "KeyValuesCodec",
    "PrefixedKeyValues",
    "first_value",
    "read_entries",
    "read_pairs",
    "read_type",
    "read_value",
    "sorted_pairs",
    "write_entries",
    "write_pairs",
    "write_type",
    "write_value",
]


MAX_VALUE_LENGTH: Final = 2**16 - 1
"""The most bytes that the value of an odd type may have (moq-transport-16, 1.4.2)."""

MAX_TYPE: Final = 2**64 - 1
"""The largest type that deltas may add up to."""


class KeyValue(NamedTuple):
    """One pair. The value is an integer if the type is even and bytes if it is odd."""

    type: int
    value: int | bytes


KeyValues: TypeAlias = tuple[KeyValue, ...]
"""Pairs in wire order."""


def first_value(pairs: Iterable[KeyValue], type_: int) -> int | bytes | None:
    """The value of the first pair of ``type_``, or None."""
    for pair in pairs:
        if pair.type == type_:
            return pair.value
    return None


def sorted_pairs(pairs: Iterable[KeyValue]) -> KeyValues:
    """The pairs in the order in which they can be written; equal types keep their order."""
    return tuple(sorted(pairs, key=lambda pair: pair.type))


def read_type(reader: Reader, previous: int) -> int:
    """Read a delta and give the type that it leads to from ``previous``."""
    start = reader.pos
    type_ = previous + reader.varint("delta type")
    if type_ > MAX_TYPE:
        reader.fail("delta type", f"types add up to {type_}, above 2**64 - 1", offset=start)
    return type_


def read_value(reader: Reader, type_: int) -> int | bytes:
    """Read the value that belongs to a type, by its parity."""
    if type_ & 1:
        return reader.prefixed("value", MAX_VALUE_LENGTH)
    return reader.varint("value")


def write_type(writer: Writer, type_: int, previous: int, field: str) -> None:
    """Write a type as its distance from ``previous``."""
    if type_ < previous:
        writer.fail(field, f"type 0x{type_:X} after 0x{previous:X}: types must ascend")
    if type_ > MAX_TYPE:
        writer.fail(field, f"type 0x{type_:X} is above 2**64 - 1")
    writer.varint(type_ - previous, field)


def write_value(writer: Writer, type_: int, value: int | bytes, field: str) -> None:
    """Write the value that belongs to a type, by its parity."""
    if type_ & 1:
        if isinstance(value, int):
            writer.fail(field, f"type 0x{type_:X} is odd: its value is bytes, not an integer")
        writer.prefixed(value, field, MAX_VALUE_LENGTH)
    else:
        if not isinstance(value, int):
            writer.fail(field, f"type 0x{type_:X} is even: its value is an integer, not bytes")
        writer.varint(value, field)


def read_pairs(reader: Reader, *, count: int | None = None) -> KeyValues:
    """Read ``count`` pairs, or without a count all pairs up to the end of the reader."""
    pairs: list[KeyValue] = []
    type_ = 0
    while not reader.at_end if count is None else len(pairs) < count:
        reader.enter(f"[{len(pairs)}]")
        type_ = read_type(reader, type_)
        pairs.append(KeyValue(type_, read_value(reader, type_)))
        reader.leave()
    return tuple(pairs)


def write_pairs(writer: Writer, pairs: Iterable[KeyValue], field: str) -> None:
    """Write pairs, which must stand in ascending order of type, without count or length."""
    previous = 0
    for type_, value in pairs:
        write_type(writer, type_, previous, field)
        write_value(writer, type_, value, field)
        previous = type_


@dataclass(frozen=True, slots=True)
class KeyValuesCodec:
    """Pairs up to the end of the message, or behind their number."""

    counted: bool

    def read(self, reader: Reader, field: str) -> KeyValues:
        """Read them."""
        reader.enter(field)
        count = reader.varint("count") if self.counted else None
        # A count that lies runs out of bytes, not of memory.
        pairs = read_pairs(reader, count=count)
        reader.leave()
        return pairs

    def write(self, writer: Writer, value: KeyValues, field: str) -> None:
        """Write them."""
        if self.counted:
            writer.varint(len(value), field)
        write_pairs(writer, value, field)


KEY_VALUES: Final = KeyValuesCodec(counted=False)
"""Pairs up to the end of the message: draft 18's setup options, the properties of a track."""

KEY_VALUES_COUNTED: Final = KeyValuesCodec(counted=True)
"""Pairs behind their number: draft 16's parameters."""


@dataclass(frozen=True, slots=True)
class PrefixedKeyValues:
    """Pairs behind their length in bytes, as objects carry them; over ``limit`` is refused."""

    limit: int

    def read(self, reader: Reader, field: str) -> KeyValues:
        """Read them; waits for all of the block, then reads strictly inside it."""
        start = reader.pos
        reader.enter(field)
        size = reader.varint("length")
        if size > self.limit:
            reader.fail(field, f"length {size} is over the limit of {self.limit}", offset=start)
        pairs = read_pairs(reader.sub(size, field))
        reader.leave()
        return pairs

    def write(self, writer: Writer, value: KeyValues, field: str) -> None:
        """Write them."""
        block = Writer(integers=writer.integers)
        write_pairs(block, value, field)
        writer.prefixed(block.getvalue(), field, self.limit)


# Typed values

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """A number that is 0 or 1, kept as a bool; anything else is refused."""

    number: FieldCodec[int]

    def read(self, reader: Reader, field: str) -> bool:
        """Read it."""
        start = reader.pos
        value = self.number.read(reader, field)
        if value > 1:
            reader.fail(field, f"{value} is neither 0 nor 1", offset=start)
        return value == 1

    def write(self, writer: Writer, value: bool, field: str) -> None:
        """Write it."""
        self.number.write(writer, int(value), field)


@dataclass(frozen=True, slots=True)
class Enclosed(Generic[T]):
    """A value behind its length, which it must fill exactly.

    A value that does not have its form is KEY_VALUE_FORMATTING_ERROR (moq-transport-16, 1.4.2);
    ``violation`` is for the one that the text makes a PROTOCOL_VIOLATION instead.
    """

    inner: FieldCodec[T]
    violation: bool = False

    def read(self, reader: Reader, field: str) -> T:
        """Read it."""
        start = reader.pos
        reader.enter(field)
        size = reader.varint("length")
        if size > MAX_VALUE_LENGTH:
            reader.fail(
                field, f"length {size} is over the limit of {MAX_VALUE_LENGTH}", offset=start
            )
        body = reader.sub(size, field)
        try:
            value = self.inner.read(body, field)
            body.expect_end(field)
        except MalformedError as error:
            if self.violation:
                raise
            raise KeyValueFormattingError(error.reason, field=field, offset=error.offset) from None
        reader.leave()
        return value

    def write(self, writer: Writer, value: T, field: str) -> None:
        """Write it."""
        body = Writer(integers=writer.integers)
        self.inner.write(body, value, field)
        writer.prefixed(body.getvalue(), field, MAX_VALUE_LENGTH)


@dataclass(frozen=True, slots=True)
class Entry:
    """One type that is understood."""

    type: int
    name: str
    """As the drafts have it."""
    attribute: str
    """Where the model keeps it."""
    codec: FieldCodec[Any]
    repeats: bool = False
    """Whether it may stand more than once; then the attribute is a tuple."""


def read_entries(
    reader: Reader,
    entries: Mapping[int, Entry],
    count: int | None,
    other: Callable[[Reader, int], KeyValue],
) -> tuple[dict[str, Any], KeyValues]:
    """Read ``count`` values, or all up to the end; give attributes, and what ``other`` gave."""
    values: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    others: list[KeyValue] = []
    type_ = index = 0
    while not reader.at_end if count is None else index < count:
        start = reader.pos
        reader.enter(f"[{index}]")
        type_ = read_type(reader, type_)
        entry = entries.get(type_)
        if entry is None:
            others.append(other(reader, type_))
        elif entry.repeats:
            value = entry.codec.read(reader, entry.name)
            repeated.setdefault(entry.attribute, []).append(value)
        elif entry.attribute in values:
            reader.fail(entry.name, "stands twice, but may not repeat", offset=start)
        else:
            values[entry.attribute] = entry.codec.read(reader, entry.name)
        reader.leave()
        index += 1
    for attribute, items in repeated.items():
        values[attribute] = tuple(items)
    return values, tuple(others)


def write_entries(
    writer: Writer,
    model: object,
    entries: Iterable[Entry],
    others: KeyValues,
    field: str,
    *,
    counted: bool,
) -> None:
    """Write what ``model`` holds and the raw pairs ``others``, all in ascending order of type."""
    items: list[tuple[int, Entry | None, Any]] = [(pair.type, None, pair.value) for pair in others]
    for entry in entries:
        value = getattr(model, entry.attribute)
        if entry.repeats:
            items.extend((entry.type, entry, item) for item in value)
        elif value is not None:
            items.append((entry.type, entry, value))
    items.sort(key=_type_of)
    if counted:
        writer.varint(len(items), field)
    previous = 0
    for type_, found, value in items:
        write_type(writer, type_, previous, field)
        if found is None:
            write_value(writer, type_, value, field)
        else:
            found.codec.write(writer, value, f"{field}.{found.name}")
        previous = type_


def _type_of(item: tuple[int, Entry | None, Any]) -> int:
    return item[0]
