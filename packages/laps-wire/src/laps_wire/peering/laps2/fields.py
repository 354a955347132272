"""Small structures and field codecs that the messages of ``laps-2`` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.fields import BOOL8, U64, VARINT, FieldCodec, Text, Words
from laps_wire.layout import Array, Layout
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.limits import (
    MAX_CONTACT_BYTES,
    MAX_CONTACTS,
    MAX_FEATURES,
    MAX_LABEL_KEY_BYTES,
    MAX_LABEL_VALUE_BYTES,
    MAX_LABELS,
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
    "REASON",
    "SCHEMES",
    "STAMP",
    "Ascending",
    "Bits",
    "Label",
    "Maybe",
    "Stamp",
]

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
