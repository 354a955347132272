"""Parameters, small structures and field codecs that the messages of ``laps-2`` share.

Parameters are the extension point at the end of every message and entry::

    +-----------+- - - - - - - - - - - - - - - - - - - - -+
    | count (i) | id (i) | length (i) | value (length) ... |     ids strictly ascending
    +-----------+- - - - - - - - - - - - - - - - - - - - -+

A number is one varint that fills the value. This module does not interpret ids: unknown entries are
kept and written unchanged. The strict order gives a list exactly one encoding, so signatures over
structures with parameters stay valid when a relay forwards them.

An unknown parameter never ends a session; otherwise a flooded entry could end every session in the
network. :meth:`Parameters.carried` returns the parameters of a re-advertised entry: odd ids are end
to end, even ids are hop by hop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

from laps_wire.buffer import QUIC, Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.fields import BOOL8, U64, VARINT, Array, FieldCodec, Layout, Text, Words
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import (
    MAX_CONTACT_BYTES,
    MAX_CONTACTS,
    MAX_FEATURES,
    MAX_LABEL_KEY_BYTES,
    MAX_LABEL_VALUE_BYTES,
    MAX_LABELS,
    MAX_PARAMETER_BYTES,
    MAX_PARAMETERS,
    MAX_REASON_BYTES,
    MAX_SCHEMES,
    MAX_TARGETS,
    MAX_TUPLE_ELEMENTS,
)

__all__ = [
    "CONTACTS",
    "ELEMENT_HASHES",
    "FEATURES",
    "LABEL",
    "LABELS",
    "NODE_SET",
    "NO_PARAMETERS",
    "PARAMETERS",
    "REASON",
    "SCHEMES",
    "STAMP",
    "Ascending",
    "Bits",
    "Label",
    "Maybe",
    "Parameters",
    "ParametersCodec",
    "Stamp",
]

# Parameters


@dataclass(frozen=True, slots=True)
class Parameters:
    """A list of ``(id, value)`` with strictly ascending ids; immutable."""

    entries: tuple[tuple[int, bytes], ...] = ()

    def __post_init__(self) -> None:
        last = -1
        for identifier, _ in self.entries:
            if identifier <= last:
                raise EncodeError(
                    f"parameter {identifier:#x} after {last:#x}: ids must strictly ascend"
                )
            last = identifier

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, identifier: int) -> bool:
        return self.get(identifier) is not None

    def get(self, identifier: int) -> bytes | None:
        """Return the value as bytes, or ``None`` if the parameter is absent."""
        for known, value in self.entries:
            if known == identifier:
                return value
        return None

    def number(self, identifier: int) -> int | None:
        """Return the value as a number, or ``None`` if the parameter is absent."""
        value = self.get(identifier)
        if value is None:
            return None
        try:
            number, used = QUIC.decode(value, 0, len(value))
        except IncompleteError:
            used = -1
            number = 0
        if used != len(value):
            raise MalformedError("not one varint", field=f"parameter {identifier:#x}")
        return number

    def with_bytes(self, identifier: int, value: bytes) -> Self:
        """Return a copy in which the parameter has this value."""
        others = (entry for entry in self.entries if entry[0] != identifier)
        return type(self)(tuple(sorted((*others, (identifier, value)))))

    def with_number(self, identifier: int, value: int) -> Self:
        """Return a copy in which the parameter is this number."""
        return self.with_bytes(identifier, QUIC.encode(value))

    def carried(self) -> Self:
        """Return the parameters of a re-advertised entry: the end-to-end (odd) ones."""
        if not self.entries or all(identifier & 1 for identifier, _ in self.entries):
            return self
        return type(self)(tuple(entry for entry in self.entries if entry[0] & 1))


NO_PARAMETERS: Final = Parameters()
"""The empty list, one byte on the wire."""


@dataclass(frozen=True, slots=True)
class ParametersCodec:
    """A counted parameter list."""

    limit: int = MAX_PARAMETERS
    """The largest number of entries."""

    def read(self, reader: Reader, field: str) -> Parameters:
        """Read a list."""
        start = reader.pos
        count = reader.varint(f"{field}.count")
        if count == 0:
            return NO_PARAMETERS
        if count > self.limit:
            reader.fail(field, f"count {count} is over the limit of {self.limit}", offset=start)
        reader.enter(field)
        entries: list[tuple[int, bytes]] = []
        last = -1
        for _ in range(count):
            at = reader.pos
            identifier = reader.varint("id")
            if identifier <= last:
                reader.fail(
                    field,
                    f"parameter {identifier:#x} after {last:#x}: ids must strictly ascend",
                    offset=at,
                )
            last = identifier
            entries.append((identifier, reader.prefixed("value", MAX_PARAMETER_BYTES)))
        reader.leave()
        return Parameters(tuple(entries))

    def write(self, writer: Writer, value: Parameters, field: str) -> None:
        """Write a list."""
        if len(value) > self.limit:
            writer.fail(field, f"{len(value)} parameters are over the limit of {self.limit}")
        writer.varint(len(value), field)
        for identifier, data in value:
            writer.varint(identifier, f"{field}.id")
            writer.prefixed(data, f"{field}[{identifier:#x}]", MAX_PARAMETER_BYTES)


PARAMETERS: Final = ParametersCodec()
"""The list at the end of a message or an entry."""


T = TypeVar("T")
I = TypeVar("I", bound=int)  # noqa: E741 - the integer type that the items have


# Codecs


@dataclass(frozen=True, slots=True)
class Maybe(Generic[T]):
    """An optional value: a byte 0, or a byte 1 and the value."""

    value: FieldCodec[T]

    def read(self, reader: Reader, field: str) -> T | None:
        """Read the value; return None if it is absent."""
        if BOOL8.read(reader, f"{field}.present"):
            return self.value.read(reader, field)
        return None

    def write(self, writer: Writer, value: T | None, field: str) -> None:
        """Write the value, or a byte 0 for None."""
        BOOL8.write(writer, value is not None, field)
        if value is not None:
            self.value.write(writer, value, field)


@dataclass(frozen=True, slots=True)
class Ascending(Generic[I]):
    """A set of integers: a count, then the members in strictly ascending order.

    The order excludes duplicates and gives every set one encoding.
    """

    item: FieldCodec[I]
    limit: int
    minimum: int = 0
    """The smallest number of members."""

    def read(self, reader: Reader, field: str) -> tuple[I, ...]:
        """Read the members."""
        start = reader.pos
        reader.enter(field)
        count = reader.varint("count")
        if not self.minimum <= count <= self.limit:
            reader.fail(
                field, f"count {count} is outside {self.minimum}..{self.limit}", offset=start
            )
        items: list[I] = []
        last = -1
        for index in range(count):
            at = reader.pos
            item = self.item.read(reader, f"[{index}]")
            if item <= last:
                reader.fail(field, f"{item} after {last}: must strictly ascend", offset=at)
            items.append(item)
            last = item
        reader.leave()
        return tuple(items)

    def write(self, writer: Writer, value: tuple[I, ...], field: str) -> None:
        """Write the members."""
        if not self.minimum <= len(value) <= self.limit:
            writer.fail(field, f"{len(value)} items are outside {self.minimum}..{self.limit}")
        writer.varint(len(value), field)
        last = -1
        for index, item in enumerate(value):
            if item <= last:
                writer.fail(f"{field}[{index}]", f"{item} after {last}: must strictly ascend")
            self.item.write(writer, item, f"{field}[{index}]")
            last = item


@dataclass(frozen=True, slots=True)
class Bits(Generic[I]):
    """Flags in a varint: at least one bit, and none that the specification does not name."""

    flags: type[I]
    mask: int

    def read(self, reader: Reader, field: str) -> I:
        """Read the flags."""
        start = reader.pos
        value = reader.varint(field)
        if value == 0 or value & ~self.mask:
            reader.fail(field, f"{value:#x} is not in 1..{self.mask:#x}", offset=start)
        return self.flags(value)

    def write(self, writer: Writer, value: I, field: str) -> None:
        """Write the flags."""
        if value <= 0 or value & ~self.mask:
            writer.fail(field, f"{int(value):#x} is not in 1..{self.mask:#x}")
        writer.varint(int(value), field)


# Structures


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """The order of a source's entries: stamps compare as a pair, and the higher one is newer.

    A restarted node begins a new epoch, so all its stamps are newer than those before the restart.
    Seed 000 has only the sequence, with which the entries of a restarted relay would be ignored.
    """

    epoch: int
    """The boot epoch of the source, such as its start time in ms: grows with every start."""
    sequence: int
    """Grows by at least 1 with every entry that the source originates in this epoch."""


STAMP: Final = Layout(Stamp, ("epoch", VARINT), ("sequence", VARINT))


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A policy label of a node or a subscribe: a key and a value that the operator chooses."""

    key: str
    value: str


LABEL: Final = Layout(
    Label, ("key", Text(MAX_LABEL_KEY_BYTES)), ("value", Text(MAX_LABEL_VALUE_BYTES))
)

# Fields that several messages have

LABELS: Final = Array(LABEL, MAX_LABELS)
"""Policy labels, in the order in which the source put them."""
CONTACTS: Final = Array(Text(MAX_CONTACT_BYTES), MAX_CONTACTS)
"""``host``, ``host:port`` or ``[IPv6]:port``, the preferred one first; default port 33434."""
REASON: Final = Words(MAX_REASON_BYTES)
"""A reason phrase in plain text."""
NODE_SET: Final[Ascending[NodeId]] = Ascending(NODE_ID, MAX_TARGETS)
"""A set of node IDs, lowest first."""
FEATURES: Final[Ascending[int]] = Ascending(VARINT, MAX_FEATURES)
"""A set of feature numbers."""
SCHEMES: Final[Ascending[int]] = Ascending(VARINT, MAX_SCHEMES, minimum=1)
"""A set of authentication schemes; 0 in it means that no proof is required."""
ELEMENT_HASHES: Final = Array(U64, MAX_TUPLE_ELEMENTS)
"""The hash of each namespace tuple element, in the tuple's order."""
