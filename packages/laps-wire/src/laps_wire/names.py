"""Track names: the namespace tuple and the full track name, on the wire and as safe text.

A name is a tuple of byte strings and one more byte string. Nothing here knows a character set:
two names are equal if their bytes are equal (moq-transport-18, Track Naming).

::

    on the wire                                    as text
    +-------+--------+--------+- - -+              example.2enet-team2--report
    | count | length | field  |     |              '------------' '---'  '----'
    | (i)   | (i)    | bytes  |     |                 field 0    field 1  name
    +-------+--------+--------+- - -+

The text form is safe in file names, URLs and logs. Letters, digits and ``_`` stand for themselves,
every other byte is ``.`` and two lower-case hex digits, ``-`` parts the fields and ``--`` goes
before the track name. Parsing follows draft 18's canonical rules, so each name has exactly one
text and texts can be compared in place of names. Draft 16 has the same form without the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, TextFormError

__all__ = [
    "FULL_TRACK_NAME",
    "MAX_FIELDS",
    "MAX_NAME_BYTES",
    "NAMESPACE",
    "NAMESPACE_PREFIX",
    "FullTrackName",
    "FullTrackNameCodec",
    "Namespace",
    "NamespaceCodec",
]

MAX_FIELDS: Final = 32
"""The most fields that a namespace may have (moq-transport-18, Track Naming)."""

MAX_NAME_BYTES: Final = 4096
"""The most bytes in a namespace, and in a namespace and a track name together."""

_NAMESPACE_FORM: Final = ("namespace", "example.2enet-team2")
_FULL_NAME_FORM: Final = ("track name", "example.2enet-team2--report")
_LITERAL: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_LOWER_HEX: Final = frozenset("0123456789abcdef")
_TO_TEXT: Final = tuple(chr(byte) if byte in _LITERAL else f".{byte:02x}" for byte in range(256))


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """An ordered tuple of 0 to 32 non-empty byte strings, 4096 bytes in all.

    No field at all is a legal value: it is the prefix of every namespace. Where a message needs at
    least one, its field codec says so (:data:`NAMESPACE`).
    """

    fields: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.fields) > MAX_FIELDS:
            raise EncodeError(f"namespace: {len(self.fields)} fields, at most {MAX_FIELDS} fit")
        for index, field in enumerate(self.fields):
            if not field:
                raise EncodeError(f"namespace: field {index} is empty; each needs a byte or more")
        if self.size > MAX_NAME_BYTES:
            raise EncodeError(f"namespace: {self.size} bytes, at most {MAX_NAME_BYTES} fit")

    @classmethod
    def of(cls, *fields: bytes) -> Self:
        """Make a namespace from its fields: ``Namespace.of(b"example.net", b"team2")``."""
        return cls(fields)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form; an empty text is the namespace without fields."""
        fields = _parse_fields(_NAMESPACE_FORM, text, 0, len(text)) if text else ()
        try:
            return cls(fields)
        except EncodeError as error:
            raise _fault(_NAMESPACE_FORM, text, len(text), str(error)) from None

    @property
    def size(self) -> int:
        """The bytes of all fields together: what the limit of 4096 counts."""
        return sum(map(len, self.fields))

    def is_prefix_of(self, other: Namespace) -> bool:
        """Whether ``other`` begins with these fields, whole and in order; equal counts."""
        return other.fields[: len(self.fields)] == self.fields

    def __str__(self) -> str:
        return "-".join(map(_to_text, self.fields))


@dataclass(frozen=True, slots=True, order=True)
class FullTrackName:
    """A namespace and a track name: what identifies a track. The name may be empty."""

    namespace: Namespace
    name: bytes

    def __post_init__(self) -> None:
        if self.size > MAX_NAME_BYTES:
            raise EncodeError(f"full track name: {self.size} bytes, at most {MAX_NAME_BYTES} fit")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form, such as ``example.2enet-team2--report``."""
        # Fields are not empty and hyphens in them are escaped: the first "--" is the only one.
        split = text.find("--")
        if split < 0:
            raise _fault(_FULL_NAME_FORM, text, len(text), "no '--' before the track name")
        fields = _parse_fields(_FULL_NAME_FORM, text, 0, split) if split else ()
        name = _parse_bytes(_FULL_NAME_FORM, text, split + 2, len(text))
        try:
            return cls(Namespace(fields), name)
        except EncodeError as error:
            raise _fault(_FULL_NAME_FORM, text, len(text), str(error)) from None

    @property
    def size(self) -> int:
        """The bytes of namespace and name together: what the limit of 4096 counts."""
        return self.namespace.size + len(self.name)

    def __str__(self) -> str:
        return f"{self.namespace}--{_to_text(self.name)}"


# Text


def _to_text(data: bytes) -> str:
    return "".join([_TO_TEXT[byte] for byte in data])


def _fault(form: tuple[str, str], text: str, index: int, reason: str) -> TextFormError:
    kind, example = form
    return TextFormError.at(kind, text, index, reason, example=example)


def _parse_fields(form: tuple[str, str], text: str, start: int, stop: int) -> tuple[bytes, ...]:
    """Read fields joined by single hyphens from ``text[start:stop]``."""
    fields: list[bytes] = []
    while True:
        split = text.find("-", start, stop)
        end = stop if split < 0 else split
        if start == end:
            raise _fault(form, text, start, "an empty namespace field")
        fields.append(_parse_bytes(form, text, start, end))
        if split < 0:
            return tuple(fields)
        start = split + 1


def _parse_bytes(form: tuple[str, str], text: str, start: int, stop: int) -> bytes:
    """Read one field or name from ``text[start:stop]`` by draft 18's canonical rules."""
    data = bytearray()
    while start < stop:
        char = text[start]
        if char.isascii() and ord(char) in _LITERAL:
            data.append(ord(char))
            start += 1
            continue
        if char != ".":
            raise _fault(
                form, text, start, f"{char!a} must be escaped as '.' and two hex digits a byte"
            )
        for index in (start + 1, start + 2):
            if index >= stop:
                raise _fault(form, text, index, "'.' must be followed by two hex digits")
            if text[index] not in _LOWER_HEX:
                raise _fault(form, text, index, f"{text[index]!a} is not a lower-case hex digit")
        byte = int(text[start + 1 : start + 3], 16)
        if byte in _LITERAL:
            escape = text[start : start + 3]
            raise _fault(form, text, start, f"{escape!r} must be written as {chr(byte)!r}")
        data.append(byte)
        start += 3
    return bytes(data)


# Wire


@dataclass(frozen=True, slots=True)
class NamespaceCodec:
    """A count, then fields behind their lengths; every limit is checked before the bytes come."""

    minimum: int
    """The fewest fields that this place allows: 0 for a prefix, 1 for a namespace."""

    def read(self, reader: Reader, field: str) -> Namespace:
        """Read a namespace."""
        start = reader.pos
        reader.enter(field)
        count = reader.varint("count")
        if not self.minimum <= count <= MAX_FIELDS:
            reader.fail(
                field, f"{count} fields where {self.minimum} to {MAX_FIELDS} belong", offset=start
            )
        fields: list[bytes] = []
        room = MAX_NAME_BYTES
        for index in range(count):
            at = reader.pos
            value = reader.prefixed(f"[{index}]", room)
            if not value:
                reader.fail(f"{field}[{index}]", "an empty namespace field", offset=at)
            room -= len(value)
            fields.append(value)
        reader.leave()
        return Namespace(tuple(fields))

    def write(self, writer: Writer, value: Namespace, field: str) -> None:
        """Write a namespace."""
        if len(value.fields) < self.minimum:
            writer.fail(field, f"{len(value.fields)} fields where at least {self.minimum} belong")
        writer.varint(len(value.fields), field)
        for index, item in enumerate(value.fields):
            writer.prefixed(item, f"{field}[{index}]", MAX_NAME_BYTES)


@dataclass(frozen=True, slots=True)
class FullTrackNameCodec:
    """A namespace, then the track name behind its length: 4096 bytes for both together."""

    namespace: NamespaceCodec

    def read(self, reader: Reader, field: str) -> FullTrackName:
        """Read a full track name."""
        reader.enter(field)
        namespace = self.namespace.read(reader, "namespace")
        name = reader.prefixed("name", MAX_NAME_BYTES - namespace.size)
        reader.leave()
        return FullTrackName(namespace, name)

    def write(self, writer: Writer, value: FullTrackName, field: str) -> None:
        """Write a full track name."""
        self.namespace.write(writer, value.namespace, f"{field}.namespace")
        writer.prefixed(value.name, f"{field}.name", MAX_NAME_BYTES)


NAMESPACE: Final = NamespaceCodec(1)
"""The namespace of a track or a request: 1 to 32 fields."""

NAMESPACE_PREFIX: Final = NamespaceCodec(0)
"""A namespace prefix: 0 to 32 fields, for no field at all matches everything."""

FULL_TRACK_NAME: Final = FullTrackNameCodec(NAMESPACE)
"""A full track name as it stands in requests: namespace, then name."""
