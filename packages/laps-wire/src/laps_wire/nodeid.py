"""Node IDs: 64 bits that name a relay, and their textual form (seed 000, Node ID).

::

    100.2:9001.2001          high : low
    |   | |    |             each 32 bits, as one number or as two of 16 bits with a dot
    |   | |    +-- bits  0..15
    |   | +------- bits 16..31
    |   +--------- bits 32..47
    +------------- bits 48..63

Four forms are read: ``1.2:1234``, ``1:1``, ``100.2:9001.2001`` and ``123456:789.100``. One is
printed: both halves dotted, so ``1:1`` prints as ``0.1:0.1``. The C++ relay's helpers print the
same form, so one node looks the same in the logs of both.

Leading zeros are refused. ``010`` is ten to some readers and eight to others, and a node ID that
two people read differently is two nodes with one name.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Final, Self, SupportsIndex

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, TextFormError

__all__ = ["NODE_ID", "NodeId", "NodeIdCodec"]

_EXAMPLE: Final = "100.2:9001.2001"
_DIGITS: Final = frozenset("0123456789")
_U16_MAX: Final = 0xFFFF
_U32_MAX: Final = 0xFFFF_FFFF
_U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


class NodeId(int):
    """A relay's identity: an integer of 64 bits that prints as ``high:low``.

    It is an ``int``: it compares, sorts and hashes as its number, and is a key beside plain
    integers. "The lowest Node ID wins" (seed 000, simultaneous connects) is ``min(a, b)``.
    ``str()`` gives the canonical text, ``int()`` the number, ``f"{node_id:#x}"`` hexadecimal.
    """

    __slots__ = ()

    def __new__(cls, value: SupportsIndex) -> Self:
        """Check the range; a text is not taken here, that is :meth:`parse`."""
        number = operator.index(value)
        if not 0 <= number <= _U64_MAX:
            raise EncodeError(f"node ID {number} is outside 0 to 2**64 - 1")
        return super().__new__(cls, number)

    @classmethod
    def from_int(cls, value: int) -> Self:
        """Make an ID from its number, as :class:`NodeId` itself does."""
        return cls(value)

    @classmethod
    def from_halves(cls, high: int, low: int) -> Self:
        """Make an ID from its two 32-bit halves."""
        for name, half in (("high", high), ("low", low)):
            if not 0 <= half <= _U32_MAX:
                raise EncodeError(f"node ID: {name} half {half} is outside 0 to 2**32 - 1")
        return cls(high << 32 | low)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read any of the four forms; what is wrong with any other text is said and pointed at."""
        colon = text.find(":")
        if colon < 0:
            raise _fault(text, len(text), "no colon between the high and the low value")
        second = text.find(":", colon + 1)
        if second >= 0:
            raise _fault(text, second, "a second colon")
        return cls(_half(text, 0, colon) << 32 | _half(text, colon + 1, len(text)))

    @property
    def high(self) -> int:
        """The upper 32 bits: the value before the colon."""
        return self >> 32

    @property
    def low(self) -> int:
        """The lower 32 bits: the value after the colon."""
        return self & _U32_MAX

    def __str__(self) -> str:
        high, low = self.high, self.low
        return f"{high >> 16}.{high & _U16_MAX}:{low >> 16}.{low & _U16_MAX}"

    def __repr__(self) -> str:
        return f"NodeId.parse('{self}')"


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("node ID", text, index, reason, example=_EXAMPLE)


def _half(text: str, start: int, stop: int) -> int:
    """Read ``text[start:stop]``: one number of 32 bits, or two of 16 bits with a dot between."""
    dot = text.find(".", start, stop)
    if dot < 0:
        return _number(text, start, stop, _U32_MAX)
    second = text.find(".", dot + 1, stop)
    if second >= 0:
        raise _fault(text, second, "a second dot in one value")
    return _number(text, start, dot, _U16_MAX) << 16 | _number(text, dot + 1, stop, _U16_MAX)


def _number(text: str, start: int, stop: int, maximum: int) -> int:
    """Read a decimal number; int() would take signs, spaces, underscores and foreign digits."""
    if start == stop:
        raise _fault(text, start, "a number is missing")
    for index in range(start, stop):
        if text[index] not in _DIGITS:
            raise _fault(text, index, f"{text[index]!a} is not a decimal digit 0 to 9")
    if text[start] == "0" and stop - start > 1:
        raise _fault(text, start, "a leading zero")
    # Ten digits hold 2**32 - 1: a longer number is too large before it is converted.
    if stop - start > 10 or int(text[start:stop]) > maximum:
        raise _fault(text, start, f"a number above {maximum}")
    return int(text[start:stop])


@dataclass(frozen=True, slots=True)
class NodeIdCodec:
    """A node ID on the wire: 64 bits, big endian."""

    def read(self, reader: Reader, field: str) -> NodeId:
        """Read it."""
        return int.__new__(NodeId, reader.u64(field))  # 64 bits are always in range

    def write(self, writer: Writer, value: NodeId, field: str) -> None:
        """Write it."""
        writer.u64(value, field)


NODE_ID: Final = NodeIdCodec()
