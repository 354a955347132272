"""Short names of 128 bits, and the match of object names to subscribed prefixes (seed 002).

A name has ``length`` significant bits, like an IPv6 prefix::

    0                                     40                    70     84                    128
    +-------------------------------------+---------------------+------+----------------------+
    | resource (40)                       | sender (30)         | src  | media time (44)      |
    |                                     |                     | (14) |                      |
    +-------------------------------------+---------------------+------+----------------------+
    |<----------- significant: length bits ------------>|<----------- wild, all zero -------->|

A name of 128 bits names one object. A shorter one is a wildcard for every name that begins with it;
there is no other kind of wildcard. A relay uses only bits and length. The application divides the
bits with a :class:`NameLayout`; :data:`CONFERENCE` is that of seed 003 for conferences.

The text form is 32 lower-case hex digits, a slash and the length in decimal:
``000000000100000008003000000003e8/128``. Wild bits are zero in values and texts; a text with other
wild bits is refused.

A session may subscribe to a prefix and to others inside it. Only the least specific prefix is
active, so that no session gets an object twice (seed 002, Subscriptions)::

    SUBSCRIBE -> SessionPrefixes.add -> PrefixChange -> RelayPrefixes.apply
    object name -> RelayPrefixes.match -> the sessions that get the object
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

from laps_wire.errors import EncodeError, TextFormError

__all__ = [
    "BITS",
    "CONFERENCE",
    "NameLayout",
    "PrefixChange",
    "RelayPrefixes",
    "SessionPrefixes",
    "ShortName",
]


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


# Subscribed prefixes

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """What a session's change of mind means for the relay's prefixes.

    A session that minds gaps more than duplicates has ``install`` done before ``withdraw``; one
    that minds duplicates more, after it (seed 002, Per Session Subscriber Tree).
    """

    install: tuple[ShortName, ...] = ()
    withdraw: tuple[ShortName, ...] = ()
    covered_by: ShortName | None = None
    """The least specific subscription that makes this one redundant, if there is one."""


class SessionPrefixes:
    """What one session subscribed to; the least specific of it is active, the rest waits."""

    __slots__ = ("_lengths", "_names")

    def __init__(self) -> None:
        # Sorted: all that a prefix covers stands right behind it.
        self._names: list[ShortName] = []
        self._lengths: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: ShortName) -> bool:
        at = bisect_left(self._names, name)
        return at < len(self._names) and self._names[at] == name

    def active(self) -> tuple[ShortName, ...]:
        """The subscriptions that no other covers: what the relay's tree holds of the session."""
        return _least_specific(self._names)

    def add(self, name: ShortName) -> PrefixChange:
        """Subscribe; subscribing again to the same changes nothing."""
        covering = self._covering(name)
        if name in self:
            return PrefixChange(covered_by=covering)
        inside = _least_specific(self._inside(name))
        insort(self._names, name)
        self._lengths[name.length] += 1
        if covering is not None:
            return PrefixChange(covered_by=covering)
        return PrefixChange(install=(name,), withdraw=inside)

    def remove(self, name: ShortName) -> PrefixChange:
        """Unsubscribe; what the name covered becomes active unless something else covers it."""
        covering = self._covering(name)
        if name not in self:
            return PrefixChange(covered_by=covering)
        del self._names[bisect_left(self._names, name)]
        _count_down(self._lengths, name.length)
        if covering is not None:
            return PrefixChange(covered_by=covering)
        return PrefixChange(install=_least_specific(self._inside(name)), withdraw=(name,))

    def _covering(self, name: ShortName) -> ShortName | None:
        """The least specific subscription that covers ``name`` and is not ``name`` itself."""
        for length in sorted(self._lengths):
            if length < name.length and name.prefix(length) in self:
                return name.prefix(length)
        return None

    def _inside(self, name: ShortName) -> list[ShortName]:
        """The subscriptions that ``name`` covers, itself aside."""
        last = ShortName(name.value | (1 << (BITS - name.length)) - 1)
        return self._names[bisect_right(self._names, name) : bisect_right(self._names, last)]


def _least_specific(names: list[ShortName]) -> tuple[ShortName, ...]:
    """Of sorted names those that no other of them covers."""
    kept: list[ShortName] = []
    for name in names:
        if not kept or not kept[-1].covers(name):
            kept.append(name)
    return tuple(kept)


def _count_down(lengths: Counter[int], length: int) -> None:
    """One prefix of this length less; only lengths in use are kept, for each costs a lookup."""
    lengths[length] -= 1
    if not lengths[length]:
        del lengths[length]


class RelayPrefixes(Generic[V]):
    """Every session's active prefixes: an object's name in, the sessions that get it out."""

    __slots__ = ("_lengths", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[ShortName, dict[V, None]] = {}
        self._lengths: Counter[int] = Counter()

    def __len__(self) -> int:
        """How many prefixes have a session or more."""
        return len(self._sessions)

    def install(self, name: ShortName, session: V) -> None:
        """Send what ``name`` covers to ``session``."""
        if name not in self._sessions:
            self._sessions[name] = {}
            self._lengths[name.length] += 1
        self._sessions[name][session] = None

    def withdraw(self, name: ShortName, session: V) -> None:
        """Stop sending what ``name`` covers to ``session``; nothing, if it was not sent."""
        sessions = self._sessions.get(name, {})
        sessions.pop(session, None)
        if name in self._sessions and not sessions:
            del self._sessions[name]
            _count_down(self._lengths, name.length)

    def apply(self, change: PrefixChange, session: V, *, gapless: bool = False) -> None:
        """Do what a session's change asks; ``gapless`` installs before it withdraws."""
        if gapless:
            for name in change.install:
                self.install(name, session)
        for name in change.withdraw:
            self.withdraw(name, session)
        if not gapless:
            for name in change.install:
                self.install(name, session)

    def match(self, name: ShortName) -> list[V]:
        """The sessions that get an object called ``name``, each once."""
        found: dict[V, None] = {}
        for length in self._lengths:
            if length <= name.length:
                found |= self._sessions.get(name.prefix(length), {})
        return list(found)
