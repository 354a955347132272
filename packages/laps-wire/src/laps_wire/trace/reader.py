"""A reader that records a tree of the fields that it reads.

::

    bytes    01 00 04 00 00 00 07 72 65 6c 61 79 2d 61
             |  |---| |---------| |------------------|
    leaves   a  b     c           d                      every byte belongs to one leaf, in order

    CONNECT
    ├── a
    ├── header          a composite: the fields read between enter() and leave()
    │   ├── b
    │   └── c
    └── d

A decoder that uses :class:`~laps_wire.buffer.Reader` is traced by a :class:`TracingReader` in its
place. When a read fails, the record keeps the fields that were read before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

from laps_wire.buffer import QUIC, ByteSource, IntegerCoding, Reader

__all__ = ["Node", "Record", "TracingReader"]

# The tree


@dataclass(slots=True)
class Node:
    """A field: a leaf with a value, or a composite with children."""

    label: str
    start: int
    end: int
    value: Any = None
    """The value of a leaf: an integer, a float, or bytes."""
    note: str = ""
    """An explanation of the value: the name of a code point, the text of a node ID."""
    children: list[Node] | None = None
    """None for a leaf."""

    @property
    def is_leaf(self) -> bool:
        """Whether the field has no children."""
        return self.children is None

    def leaves(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Yield each leaf of the tree with its path, in the order of the bytes."""
        here = join(path, self.label)
        if self.children is None:
            yield here, self
            return
        for child in self.children:
            yield from child.leaves(here)

    def move(self, distance: int) -> None:
        """Add ``distance`` to all offsets, for bytes that are a part of a larger input."""
        self.start += distance
        self.end += distance
        for child in self.children or ():
            child.move(distance)


def join(path: str, label: str) -> str:
    """Return ``a.b`` for ``a`` and ``b``, and ``a[0]`` for ``a`` and ``[0]``."""
    return f"{path}{label}" if not path or label.startswith("[") else f"{path}.{label}"


@dataclass(slots=True)
class Record:
    """The tree of one message while it is read; shared by a reader and the readers of its parts."""

    root: Node
    open: list[Node] = field(init=False)
    """The open composites, outermost first."""
    ended: tuple[str, int, int] | None = None
    """A field with too few bytes, its offset, and the end of the bytes; None if there is none."""
    missing: int = 0
    """The number of missing bytes of a truncated part, which is read as far as possible."""

    _trail: list[tuple[list[Node], Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open = [self.root]

    @classmethod
    def start(cls, pos: int) -> Record:
        """Return an empty record that begins at ``pos``."""
        return cls(Node("", pos, pos, children=[]))

    @property
    def path(self) -> str:
        """The path of the innermost open composite."""
        path = ""
        for node in self.open:
            path = join(path, node.label)
        return path

    def leaf(self, label: str, start: int, end: int, value: Any) -> None:
        """Add a field that was read."""
        self._forget_from(start)
        self._add(Node(label, start, end, value))
        for node in self.open:
            node.end = max(node.end, end)

    def enter(self, label: str, pos: int) -> None:
        """Open a composite."""
        self._forget_from(pos)
        node = Node(label, pos, pos, children=[])
        self._add(node)
        self.open.append(node)

    def leave(self) -> None:
        """Close the innermost composite."""
        if len(self.open) > 1:
            self.open.pop()

    def _add(self, node: Node) -> None:
        siblings = self.open[-1].children
        if siblings is None:
            raise AssertionError("only composites are open")
        siblings.append(node)
        if node.is_leaf:
            self._trail.append((siblings, node))

    def _forget_from(self, pos: int) -> None:
        """Remove the leaves from ``pos`` on: a reader that went back reads these bytes again."""
        while self._trail and self._trail[-1][1].end > pos:
            siblings, node = self._trail.pop()
            siblings[:] = [other for other in siblings if other is not node]


# The reader


class TracingReader(Reader):
    """A :class:`~laps_wire.buffer.Reader` that fills a :class:`Record`."""

    __slots__ = ("record",)

    def __init__(
        self,
        data: ByteSource,
        *,
        integers: IntegerCoding = QUIC,
        partial: bool = False,
        pos: int = 0,
        end: int | None = None,
        record: Record | None = None,
    ) -> None:
        super().__init__(data, integers=integers, partial=partial, pos=pos, end=end)
        self.record = Record.start(pos) if record is None else record

    def restart(self) -> None:
        """Begin a new record at this position, for the next message."""
        self.record = Record.start(self.pos)

    def recoded(self, integers: IntegerCoding) -> Self:
        """Return a reader of the remaining bytes with another integer coding and the same record.

        For the payload of another protocol after a header. This reader moves to its end.
        """
        inner = type(self)(
            self._view,
            integers=integers,
            partial=self.partial,
            pos=self.pos,
            end=self.end,
            record=self.record,
        )
        self.pos = self.end
        return inner

    def peek_rest(self) -> memoryview:
        """Return the remaining bytes without reading them."""
        return self._view[self.pos : self.end]

    # Every read of the base class uses one of these methods.

    def u8(self, field: str) -> int:
        """Read an unsigned 8-bit integer."""
        start = self.pos
        value = super().u8(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def u16(self, field: str) -> int:
        """Read an unsigned 16-bit integer."""
        start = self.pos
        value = super().u16(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def u32(self, field: str) -> int:
        """Read an unsigned 32-bit integer."""
        start = self.pos
        value = super().u32(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def u64(self, field: str) -> int:
        """Read an unsigned 64-bit integer."""
        start = self.pos
        value = super().u64(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def f64(self, field: str) -> float:
        """Read an IEEE 754 double."""
        start = self.pos
        value = super().f64(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def varint(self, field: str) -> int:
        """Read an integer in this reader's coding."""
        start = self.pos
        value = super().varint(field)
        self.record.leaf(field, start, self.pos, value)
        return value

    def view(self, size: int, field: str) -> memoryview:
        """Read bytes; ``take``, ``rest`` and ``prefixed`` use this method."""
        start = self.pos
        taken = super().view(size, field)
        self.record.leaf(field, start, self.pos, bytes(taken))
        return taken

    def prefixed(self, field: str, limit: int) -> bytes:
        """Read a length and that many bytes; the length is a separate leaf."""
        start = self.pos
        size = self.varint(f"{field}.length")
        if size > limit:
            self.fail(field, f"length {size} is over the limit of {limit}", offset=start)
        return self.take(size, field)

    # Structure

    def _short(self, field: str, needed: int) -> NoReturn:
        self.record.ended = (field, self.pos, self.end)
        super()._short(field, needed)

    def expect_end(self, what: str) -> None:
        """Raise if bytes remain after ``what``."""
        if self.pos < self.end:
            self.record.ended = (what, self.pos, self.end)
        super().expect_end(what)

    def sub(self, size: int, field: str) -> Self:
        """Read the next ``size`` bytes as a unit, or as many as are available.

        The base class waits for the whole unit. A trace shows the available part, and
        ``record.missing`` counts the missing bytes.
        """
        missing = self.pos + size - self.end
        if missing <= 0 or not self.partial:
            return super().sub(size, field)
        self.record.missing = max(self.record.missing, missing)
        part = self._bounded(self.pos, self.end)
        part.partial = True
        self.pos = self.end
        return part

    def _bounded(self, start: int, stop: int) -> Self:
        return type(self)(
            self._view, integers=self.integers, pos=start, end=stop, record=self.record
        )

    def enter(self, field: str) -> None:
        """Begin a composite."""
        self.record.enter(field, self.pos)

    def leave(self) -> None:
        """End the innermost composite."""
        self.record.leave()
