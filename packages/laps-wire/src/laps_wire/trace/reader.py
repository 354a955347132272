"""A reader that remembers: every named read becomes a leaf, every composite a branch.

Decoders that go through :class:`~laps_wire.buffer.Reader` are traced without a change: they get
this reader in its place. A read that fails leaves what was read before it in the record, which is
what a person who looks at bad bytes wants to see.
"""

from __future__ import annotations

from typing import NoReturn, Self

from laps_wire.buffer import Reader
from laps_wire.trace.tree import Record
from laps_wire.varint import QUIC, ByteSource, IntegerCoding

__all__ = ["TracingReader"]


class TracingReader(Reader):
    """Reads as its base does, and writes a :class:`Record`."""

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
        """Begin a new record here: the next message."""
        self.record = Record.start(self.pos)

    def recoded(self, integers: IntegerCoding) -> Self:
        """A reader of all that is left, with another integer coding and the same record.

        For a payload of another protocol behind a header; this reader stands behind it then.
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
        """All that is left, without reading it."""
        return self._view[self.pos : self.end]

    # Every read of the base ends in one of these.

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
        """Take bytes; ``take``, ``rest`` and ``prefixed`` come through here."""
        start = self.pos
        taken = super().view(size, field)
        self.record.leaf(field, start, self.pos, bytes(taken))
        return taken

    def prefixed(self, field: str, limit: int) -> bytes:
        """Take bytes behind their length; the length is a leaf of its own."""
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
        """Refuse bytes left over after ``what``."""
        if self.pos < self.end:
            self.record.ended = (what, self.pos, self.end)
        super().expect_end(what)

    def sub(self, size: int, field: str) -> Self:
        """Read the next ``size`` bytes as a unit, or as many as there are.

        The base waits for all of it. A trace shows what there is: the part is read as far as it
        goes, and ``record.missing`` says that this is not the whole.
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
