"""The field codecs that QuicR's tables need beyond the general ones.

::

    masked name (seed 001, Subscribe)          name (seed 001, Intent and Cancel)
    +-------------+-----------+------+         +-------------+-----------+
    | name_length | name      | mask |         | name_length | name      |
    | (i) 16      | 16 bytes  | u8   |         | (i) 16      | 16 bytes  |
    +-------------+-----------+------+         +-------------+-----------+

    prefix (seed 003, every list)              Number128 (seed 003, PUBLISH)
    +-----------+------+                       +-----------+
    | 16 bytes  | u8   |                       | 16 bytes  |
    +-----------+------+                       +-----------+

A name is a 128-bit short name everywhere (seed 002, Shortname); the byte behind it says how many of
its bits count, 0 to 128. Seed 001 has "mask(7)", which ends at 127: in a byte whose top bit is zero
the two are the same. Bits that do not count are ignored when read and zero when written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.fields import FieldCodec, Words
from laps_wire.quicr.codepoints import MAX_REASON, RESERVED_DATAGRAM_STREAM_ID, Flags
from laps_wire.quicr.shortname import BITS, ShortName

__all__ = [
    "ACCEPT",
    "BOOL",
    "DATAGRAM_STREAM_ID",
    "FLAGS",
    "MASKED_NAME",
    "NAME",
    "NUMBER128",
    "PREFIX",
    "REASON",
    "REASON_OR_END",
    "TRUNCATED_NAME",
    "Optional",
]

_BYTES: Final = BITS // 8


def _bits(reader: Reader, field: str, limit: int = BITS) -> int:
    """Read how many bits of a name count."""
    start = reader.pos
    bits = reader.u8(field)
    if bits > limit:
        reader.fail(field, f"{bits} bits of a name that has {limit}", offset=start)
    return bits


def _name(number: bytes, bits: int) -> ShortName:
    """The short name of which the first ``bits`` bits count; what is behind them is cleared."""
    return ShortName(int.from_bytes(number, "big")).prefix(bits)


def _number(writer: Writer, value: ShortName, field: str) -> bytes:
    """The 16 bytes of a name all of whose bits count."""
    if value.length != BITS:
        writer.fail(field, f"a full name belongs here, not {value.length} bits of one")
    return value.value.to_bytes(_BYTES, "big")


# Names


@dataclass(frozen=True, slots=True)
class Number128:
    """A full name: 16 bytes."""

    def read(self, reader: Reader, field: str) -> ShortName:
        """Read it."""
        return _name(reader.take(_BYTES, field), BITS)

    def write(self, writer: Writer, value: ShortName, field: str) -> None:
        """Write it."""
        writer.raw(_number(writer, value, field))


NUMBER128: Final = Number128()


@dataclass(frozen=True, slots=True)
class Prefix:
    """A name or a wildcard: 16 bytes, and how many bits of them count."""

    def read(self, reader: Reader, field: str) -> ShortName:
        """Read it."""
        number = reader.take(_BYTES, field)
        return _name(number, _bits(reader, f"{field}.length"))

    def write(self, writer: Writer, value: ShortName, field: str) -> None:  # noqa: ARG002
        """Write it."""
        writer.raw(value.value.to_bytes(_BYTES, "big"))
        writer.raw(value.length.to_bytes(1, "big"))


PREFIX: Final = Prefix()


def _counted(reader: Reader, field: str, minimum: int) -> bytes:
    """Read ``name_length`` and ``name``."""
    start = reader.pos
    size = reader.varint(f"{field}_length")
    if not minimum <= size <= _BYTES:
        wanted = f"{minimum}..{_BYTES}" if minimum < _BYTES else f"{_BYTES}"
        reader.fail(field, f"{size} bytes; a short name has {wanted}", offset=start)
    return reader.take(size, field)


@dataclass(frozen=True, slots=True)
class CountedName:
    """A full name behind its length, which is 16.

    ``minimum`` below 16 lets a truncated name be read; its missing bytes are zero.
    """

    minimum: int

    def read(self, reader: Reader, field: str) -> ShortName:
        """Read it."""
        return _name(_counted(reader, field, self.minimum).ljust(_BYTES, b"\0"), BITS)

    def write(self, writer: Writer, value: ShortName, field: str) -> None:
        """Write it."""
        number = _number(writer, value, field)
        writer.varint(_BYTES, field)
        writer.raw(number)


NAME: Final = CountedName(minimum=_BYTES)
TRUNCATED_NAME: Final = CountedName(minimum=0)


@dataclass(frozen=True, slots=True)
class MaskedName:
    """A name or a wildcard: length, bytes, mask.

    A wildcard may come truncated (seed 001, Wildcarded Names); its mask must stay inside the bytes
    that did come.
    """

    def read(self, reader: Reader, field: str) -> ShortName:
        """Read it."""
        number = _counted(reader, field, 0)
        bits = _bits(reader, "mask", limit=8 * len(number))
        return _name(number.ljust(_BYTES, b"\0"), bits)

    def write(self, writer: Writer, value: ShortName, field: str) -> None:
        """Write it."""
        writer.varint(_BYTES, field)
        PREFIX.write(writer, value, field)


MASKED_NAME: Final = MaskedName()


# Small things


@dataclass(frozen=True, slots=True)
class VarBool:
    """A varint that is 0 or 1: seed 001's ``datagram_capable``."""

    def read(self, reader: Reader, field: str) -> bool:
        """Read it."""
        start = reader.pos
        value = reader.varint(field)
        if value > 1:
            reader.fail(field, f"{value} is neither 0 nor 1", offset=start)
        return value == 1

    def write(self, writer: Writer, value: bool, field: str) -> None:
        """Write it."""
        writer.varint(int(value), field)


BOOL: Final = VarBool()


@dataclass(frozen=True, slots=True)
class FlagsByte:
    """The flags of an object; reserved bits are kept."""

    def read(self, reader: Reader, field: str) -> Flags:
        """Read it."""
        return Flags(reader.u8(field))

    def write(self, writer: Writer, value: Flags, field: str) -> None:
        """Write it."""
        writer.u8(value, field)


FLAGS: Final = FlagsByte()


@dataclass(frozen=True, slots=True)
class DatagramStreamId:
    """The number of a datagram stream; never the one that marks PUBLISH."""

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        start = reader.pos
        value = reader.varint(field)
        if value == RESERVED_DATAGRAM_STREAM_ID:
            reader.fail(field, f"{value} marks PUBLISH and is no stream", offset=start)
        return value

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        if value == RESERVED_DATAGRAM_STREAM_ID:
            writer.fail(field, f"{value} marks PUBLISH and is no stream")
        writer.varint(value, field)


DATAGRAM_STREAM_ID: Final = DatagramStreamId()


@dataclass(frozen=True, slots=True)
class Accept:
    """``use_datagram`` and, if it is 1, the datagram stream id; None for stream mode."""

    def read(self, reader: Reader, field: str) -> int | None:
        """Read it."""
        use_datagram = BOOL.read(reader, "use_datagram")
        return DATAGRAM_STREAM_ID.read(reader, field) if use_datagram else None

    def write(self, writer: Writer, value: int | None, field: str) -> None:
        """Write it."""
        BOOL.write(writer, value is not None, field)
        if value is not None:
            DATAGRAM_STREAM_ID.write(writer, value, field)


ACCEPT: Final = Accept()


@dataclass(frozen=True, slots=True)
class Optional:
    """The last field of a message, there or not; the message's length tells. None if not there."""

    item: FieldCodec[int]

    def read(self, reader: Reader, field: str) -> int | None:
        """Read it."""
        return None if reader.at_end else self.item.read(reader, field)

    def write(self, writer: Writer, value: int | None, field: str) -> None:
        """Write it."""
        if value is not None:
            self.item.write(writer, value, field)


@dataclass(frozen=True, slots=True)
class WordsOrEnd:
    """Words for people as the last field of a message; no words are no bytes at all.

    An empty phrase reads like an absent one.
    """

    words: Words

    def read(self, reader: Reader, field: str) -> str:
        """Read it."""
        return "" if reader.at_end else self.words.read(reader, field)

    def write(self, writer: Writer, value: str, field: str) -> None:
        """Write it."""
        if value:
            self.words.write(writer, value, field)


REASON: Final = Words(MAX_REASON)
REASON_OR_END: Final = WordsOrEnd(REASON)
