"""Messages as tables: what a message looks like is data.

Reading, writing, tracing and the property tests all follow the same table::

    SUBSCRIBE = Layout(
        Subscribe,                      # a frozen dataclass whose fields stand in wire order
        ("request_id", VARINT),         # (attribute, field codec)
        ("namespace", NAMESPACE),
        ("name", Prefixed(4096)),
        ("parameters", PARAMETERS),
    )
    message = SUBSCRIBE.read(reader, "SUBSCRIBE")
    SUBSCRIBE.write(writer, message, "SUBSCRIBE")

A field codec (:mod:`laps_wire.fields`) reads and writes one value. Arrays and layouts are field
codecs too, so structures nest. What runs for every object (data headers) is written by hand next to
its drawing instead; tables are for messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import VARINT, FieldCodec, reader_of, writer_of
from laps_wire.varint import QUIC

__all__ = ["MOST_SHARED", "Array", "Layout", "Many"]

T = TypeVar("T")
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
