"""Parameters: the extension point at the end of every message and entry of ``laps-2``.

::

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
