"""Typed values behind delta-coded types: what parameters and setup options have in common.

::

    +------------+-------+------------+-------+- - -
    | delta type | value | delta type | value |          ascending types, 0 or more times
    +------------+-------+------------+-------+- - -

A table of :class:`Entry` says for each type that is understood how its value is written and which
attribute of the model holds it. What happens to any other type differs, so the caller decides: it
gets the reader behind the type and gives back a raw pair, or refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError
from laps_wire.fields import FieldCodec
from laps_wire.moqt.errors import KeyValueFormattingError
from laps_wire.moqt.keyvalue import (
    MAX_VALUE_LENGTH,
    KeyValue,
    KeyValues,
    read_type,
    write_type,
    write_value,
)

__all__ = ["Enclosed", "Entry", "Flag", "read_entries", "write_entries"]

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
