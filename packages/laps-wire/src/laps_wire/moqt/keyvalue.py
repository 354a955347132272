"""Key-Value-Pairs: setup options, draft 16's parameters, extension headers and properties.

::

    +------------+------------------+
    | delta type | value (varint)   |   the type is even
    +------------+--------+---------+
    | delta type | length | bytes.. |   the type is odd; at most 65535 bytes
    +------------+--------+---------+

A type is written as the distance from the type before it, the first from 0, so pairs always stand
in ascending order of type and equal types stand together (moq-transport-16, 1.4.2). A sum above
2**64 - 1 is a protocol violation.

Pairs are kept as ``tuple[KeyValue, ...]``: immutable, hashable, order and duplicates as they came,
which is what a relay must forward. A relay forwards types that it does not know, so nothing here
looks at what a type means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from laps_wire.buffer import Reader, Writer

__all__ = [
    "KEY_VALUES",
    "KEY_VALUES_COUNTED",
    "MAX_TYPE",
    "MAX_VALUE_LENGTH",
    "KeyValue",
    "KeyValues",
    "KeyValuesCodec",
    "PrefixedKeyValues",
    "first_value",
    "read_pairs",
    "read_type",
    "read_value",
    "sorted_pairs",
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
