"""Parameters: the extension point at the end of every message and entry of ``laps-2``.

::

    +-----------+- - - - - - - - - - - - - - - - - - - - -+
    | count (i) | id (i) | length (i) | value (length) ... |     ids strictly ascending
    +-----------+- - - - - - - - - - - - - - - - - - - - -+

A value that is a number is one varint that fills the value. Nothing here knows what an id means:
unknown entries are kept, and are written again as they came. Strict order gives a list exactly one
encoding, so signatures over structures with parameters stay good when a relay passes them on.

An unknown parameter never ends a session; a poisoned entry that did would walk through the network
and cut every session on its way. When an entry is re-advertised, :meth:`Parameters.carried` says
what goes along: odd ids are end to end, even ids were meant for the neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.peering.laps2.limits import MAX_PARAMETER_BYTES, MAX_PARAMETERS
from laps_wire.varint import QUIC

__all__ = ["NO_PARAMETERS", "PARAMETERS", "Parameters", "ParametersCodec"]


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
        """The value as bytes, or ``None`` if the parameter is absent."""
        for known, value in self.entries:
            if known == identifier:
                return value
        return None

    def number(self, identifier: int) -> int | None:
        """The value as a varint that fills it, or ``None`` if the parameter is absent."""
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
        """A copy in which the parameter has this value."""
        others = (entry for entry in self.entries if entry[0] != identifier)
        return type(self)(tuple(sorted((*others, (identifier, value)))))

    def with_number(self, identifier: int, value: int) -> Self:
        """A copy in which the parameter is this number."""
        return self.with_bytes(identifier, QUIC.encode(value))

    def carried(self) -> Self:
        """What goes along when an entry is re-advertised: the end-to-end (odd) parameters."""
        if not self.entries or all(identifier & 1 for identifier, _ in self.entries):
            return self
        return type(self)(tuple(entry for entry in self.entries if entry[0] & 1))


NO_PARAMETERS: Final = Parameters()
"""The empty list, one byte on the wire."""


@dataclass(frozen=True, slots=True)
class ParametersCodec:
    """A counted parameter list."""

    limit: int = MAX_PARAMETERS
    """The most entries that this place allows."""

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
