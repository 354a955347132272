"""A strict reader and writer for the part of CBOR (RFC 8949) that tokens need.

The reader refuses shared references, big numbers, dates, indefinite lengths and duplicate keys of
a map. It checks depth and length before it allocates memory. The COSE library sees only what
:func:`decode` accepts.

::

    +-----------+---------------+      major 0 unsigned   1 negative   2 bytes   3 text
    | major:3   | argument      |            4 array      5 map        6 tag     7 simple, float
    | info:5    | 0,1,2,4,8 B   |
    +-----------+---------------+
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_sdk.tokens.errors import TokenMalformedError
from laps_wire.errors import EncodeError

__all__ = ["MAX_DEPTH", "Tagged", "Value", "decode", "encode"]

MAX_DEPTH: Final = 12
"""The deepest nesting. A token needs 7: two tags, COSE array, claims, scopes, matches, match."""

Key: TypeAlias = int | str | bytes
Value: TypeAlias = (
    "int | float | bool | bytes | str | list[Value] | Mapping[Key, Value] | Tagged | None"
)

_FLOATS: Final = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_SIMPLE: Final[dict[int, bool | None]] = {20: False, 21: True, 22: None}


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged value."""

    tag: int
    value: Value


def decode(data: bytes) -> Value:
    """Decode the one item in ``data``; raises ``TokenMalformedError``."""
    value, end = _read(data, 0, 0)
    if end != len(data):
        raise TokenMalformedError(f"{len(data) - end} byte(s) after the end of the CBOR item")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    if depth > MAX_DEPTH:
        raise TokenMalformedError(f"CBOR nested deeper than {MAX_DEPTH} (at byte {at})")
    if at >= len(data):
        raise TokenMalformedError("CBOR ends too early")
    start, major, info = at, data[at] >> 5, data[at] & 0x1F
    at += 1
    if major == 7:
        return _read_simple(data, at, info)
    if info < 24:
        argument = info
    elif info < 28:
        width = 1 << (info - 24)
        argument = int.from_bytes(_take(data, at, width), "big")
        at += width
    else:
        raise TokenMalformedError(f"CBOR of indefinite or reserved length (at byte {start})")
    if major == 0:
        return argument, at
    if major == 1:
        return -1 - argument, at
    if major == 2:
        return _take(data, at, argument), at + argument
    if major == 3:
        return _text(_take(data, at, argument), start), at + argument
    if major == 6:
        inner, at = _read(data, at, depth + 1)
        return Tagged(argument, inner), at
    # Every item takes a byte or more: a count that cannot fit is refused before it is walked.
    if argument > len(data) - at:
        raise TokenMalformedError(f"CBOR ends too early: {argument} items (at byte {start})")
    if major == 4:
        items: list[Value] = []
        for _ in range(argument):
            item, at = _read(data, at, depth + 1)
            items.append(item)
        return items, at
    entries: dict[Key, Value] = {}
    for _ in range(argument):
        key_at = at
        key, at = _read(data, at, depth + 1)
        # bool is an int to Python: True would hide a claim with key 1.
        if isinstance(key, bool) or not isinstance(key, int | str | bytes):
            raise TokenMalformedError(f"CBOR map key of a strange type (at byte {key_at})")
        if key in entries:
            raise TokenMalformedError(f"CBOR map with the same key twice (at byte {key_at})")
        entries[key], at = _read(data, at, depth + 1)
    return entries, at


def _read_simple(data: bytes, at: int, info: int) -> tuple[Value, int]:
    if info in _SIMPLE:
        return _SIMPLE[info], at
    form = _FLOATS.get(info)
    if form is None:
        raise TokenMalformedError(f"CBOR simple value {info} has no place here (at byte {at - 1})")
    number: float = form.unpack(_take(data, at, form.size))[0]
    return number, at + form.size


def _take(data: bytes, at: int, length: int) -> bytes:
    if length > len(data) - at:
        raise TokenMalformedError(f"CBOR ends too early: {length} bytes wanted (at byte {at})")
    return data[at : at + length]


def _text(raw: bytes, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise TokenMalformedError(f"CBOR text that is not UTF-8 (at byte {at})") from None


def encode(value: Value) -> bytes:
    """Encode a value with shortest integers, definite lengths, and keys in the order given."""
    out = bytearray()
    _write(out, value)
    return bytes(out)


def _write(out: bytearray, value: Value) -> None:
    if value is None or isinstance(value, bool):
        out.append(0xE0 | {False: 20, True: 21, None: 22}[value])
    elif isinstance(value, int):
        _head(out, 0 if value >= 0 else 1, value if value >= 0 else -1 - value)
    elif isinstance(value, float):
        out += b"\xfb" + struct.pack(">d", value)
    elif isinstance(value, bytes):
        _head(out, 2, len(value))
        out += value
    elif isinstance(value, str):
        raw = value.encode()
        _head(out, 3, len(raw))
        out += raw
    elif isinstance(value, Tagged):
        _head(out, 6, value.tag)
        _write(out, value.value)
    elif isinstance(value, list):
        _head(out, 4, len(value))
        for item in value:
            _write(out, item)
    else:
        _head(out, 5, len(value))
        for key, item in value.items():
            _write(out, key)
            _write(out, item)


def _head(out: bytearray, major: int, argument: int) -> None:
    if argument < 24:
        out.append(major << 5 | argument)
        return
    for info, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument >> (8 * width) == 0:
            out.append(major << 5 | info)
            out += argument.to_bytes(width, "big")
            return
    raise EncodeError(f"{argument} does not fit CBOR's 64 bits")
