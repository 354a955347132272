"""Short names: 128 bits of which the first ``length`` count, as in an IPv6 prefix (seed 002).

::

    0                                     40                    70     84                    128
    +-------------------------------------+---------------------+------+----------------------+
    | resource (40)                       | sender (30)         | src  | media time (44)      |
    |                                     |                     | (14) |                      |
    +-------------------------------------+---------------------+------+----------------------+
    |<----------- significant: length bits ------------>|<----------- wild, all zero -------->|

A name of 128 bits names one object. A shorter one is a wildcard for every name that begins with
it; there is no other kind of wildcard. A relay looks at nothing but bits and length. Which bits
mean what is the application's business: a :class:`NameLayout` says it, and :data:`CONFERENCE` is
the one that seed 003 gives for conferences.

The text form is 32 lower-case hex digits, a slash and the length in decimal:
``000000000100000008003000000003e8/128``. Wild bits are zero, in values and in texts: a text with
others is refused and not masked, because whoever wrote it meant something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from laps_wire.errors import EncodeError, TextFormError

__all__ = ["BITS", "CONFERENCE", "NameLayout", "ShortName"]

BITS: Final = 128
"""The size of every short name."""

_EXAMPLE: Final = "00000000010000000000000000000000/40"
_HEX_DIGITS: Final = BITS // 4
_LOWER_HEX: Final = frozenset("0123456789abcdef")
_DECIMAL: Final = frozenset("0123456789")


@dataclass(frozen=True, slots=True, order=True)
class ShortName:
    """A name, or with a length below 128 the wildcard for all names that begin with it.

    Sorting puts a wildcard before what it covers.
    """

    value: int
    """All 128 bits as a number; those behind ``length`` are zero."""
    length: int = BITS
    """How many bits count, from the most significant on."""

    def __post_init__(self) -> None:
        if not 0 <= self.length <= BITS:
            raise EncodeError(f"short name: length {self.length} is outside 0 to {BITS}")
        if not 0 <= self.value < 1 << BITS:
            raise EncodeError(f"short name: {self.value:#x} does not fit {BITS} bits")
        if self.value & _wild(self.length):
            raise EncodeError(
                f"short name: bits behind length {self.length} are set in {self.value:032x}"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form, and no other way to write the same name."""
        for index, char in enumerate(text[:_HEX_DIGITS]):
            if char not in _LOWER_HEX:
                raise _fault(text, index, f"{char!a} is not a lower-case hex digit")
        if len(text) <= _HEX_DIGITS or text[_HEX_DIGITS] != "/":
            at = min(_HEX_DIGITS, len(text))
            raise _fault(text, at, f"{_HEX_DIGITS} hex digits and a slash must come first")
        digits = text[_HEX_DIGITS + 1 :]
        for index, char in enumerate(digits):
            if char not in _DECIMAL:
                raise _fault(text, _HEX_DIGITS + 1 + index, f"{char!a} is not a decimal digit")
        # Three digits hold 128: a longer number is refused before it is converted.
        if not 1 <= len(digits) <= 3 or int(digits) > BITS:
            raise _fault(text, _HEX_DIGITS + 1, f"the length must be 0 to {BITS}")
        if digits[0] == "0" and len(digits) > 1:
            raise _fault(text, _HEX_DIGITS + 1, "a leading zero")
        value, length = int(text[:_HEX_DIGITS], 16), int(digits)
        if value & _wild(length):
            # Point at the first digit that holds a bit too many.
            first = BITS - (value & _wild(length)).bit_length()
            raise _fault(text, first // 4, f"bit {first} is set, behind length {length}")
        return cls(value, length)

    @property
    def is_wildcard(self) -> bool:
        """Whether the name stands for others than itself."""
        return self.length < BITS

    def prefix(self, length: int) -> Self:
        """The wildcard of ``length`` bits that covers this name."""
        if not 0 <= length <= self.length:
            raise EncodeError(f"short name: no prefix of {length} bits in {self.length}")
        return type(self)(self.value & ~_wild(length), length)

    def covers(self, other: ShortName) -> bool:
        """Whether ``other`` begins with this name's bits; every name covers itself."""
        return self.length <= other.length and not (self.value ^ other.value) >> (
            BITS - self.length
        )

    def overlaps(self, other: ShortName) -> bool:
        """Whether any name is covered by both; of two prefixes one then covers the other."""
        return self.covers(other) or other.covers(self)

    def __contains__(self, other: ShortName) -> bool:
        return self.covers(other)

    def __str__(self) -> str:
        return f"{self.value:032x}/{self.length}"


def _wild(length: int) -> int:
    """The mask of the bits behind ``length``."""
    return (1 << (BITS - length)) - 1


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("short name", text, index, reason, example=_EXAMPLE)


@dataclass(frozen=True, slots=True)
class NameLayout:
    """How an application divides the 128 bits: named fields, most significant first.

    ``NameLayout((("channel", 64), ("message", 64)))`` is a layout as good as the default one. The
    widths must sum to 128, so that a full name is always a name of 128 bits.
    """

    fields: tuple[tuple[str, int], ...]
    """Name and width in bits of each field."""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.fields]
        if len(set(names)) != len(names):
            raise EncodeError(f"name layout: a field name occurs twice in {', '.join(names)}")
        for name, width in self.fields:
            if width < 1:
                raise EncodeError(f"name layout: field {name} is {width} bits wide, not 1 or more")
        total = sum(width for _, width in self.fields)
        if total != BITS:
            raise EncodeError(f"name layout: widths sum to {total} bits, not to {BITS}")

    def prefix_length(self, count: int) -> int:
        """How many bits the first ``count`` fields take."""
        if not 0 <= count <= len(self.fields):
            raise EncodeError(f"name layout: {count} of {len(self.fields)} fields asked for")
        return sum(width for _, width in self.fields[:count])

    def pack(self, *values: int) -> ShortName:
        """Make a name from the values of its fields; fewer values make a wildcard."""
        length = self.prefix_length(len(values))
        packed = 0
        for (name, width), value in zip(self.fields, values, strict=False):
            if not 0 <= value < 1 << width:
                raise EncodeError(f"short name: {name} {value} does not fit {width} bits")
            packed = packed << width | value
        return ShortName(packed << (BITS - length), length)

    def unpack(self, name: ShortName) -> tuple[int, ...]:
        """The values of the fields that lie wholly inside the name's length.

        A prefix may end inside a field; the bits of that field are left out, because as a number
        they would be another field's value.
        """
        values: list[int] = []
        end = 0
        for _, width in self.fields:
            end += width
            if end > name.length:
                break
            values.append(name.value >> (BITS - end) & (1 << width) - 1)
        return tuple(values)


CONFERENCE: Final = NameLayout((("resource", 40), ("sender", 30), ("source", 14), ("time", 44)))
"""The layout of seed 003's conferences: meeting, participant, stream, and time of the media."""
