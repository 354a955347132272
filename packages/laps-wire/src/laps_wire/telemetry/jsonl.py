"""One event a line: JSON Lines, the portable form of telemetry.

A line is one JSON object in ASCII, with everything else escaped, so no word of a peer can break a
line or speak to a terminal. Reading refuses what JSON parsers disagree about (two fields of one
name, NaN, half surrogate pairs): such a line means different things to different readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NoReturn

from laps_wire.errors import EncodeError
from laps_wire.telemetry.envelope import Event
from laps_wire.telemetry.errors import TelemetryError

__all__ = ["MAX_DEPTH", "MAX_LINE", "BadLine", "dump_line", "load_line", "load_lines"]

MAX_LINE: Final = 1 << 20
"""The longest line, in bytes or characters, that is read or written."""

MAX_DEPTH: Final = 32
"""How many objects and arrays may stand in each other, the event itself included."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not an event: what :func:`load_lines` gives in its place, for quarantine."""

    line: int
    """The number of the line, from 1."""
    raw: bytes
    """The line as it was, without its end."""
    error: TelemetryError
    """What is wrong with it."""


def dump_line(event: Event) -> str:
    """The event as one line of JSON, without a line end."""
    plain = event.as_dict()
    try:
        _check_values(plain)
        line = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"{event.type}: an unknown field is not JSON: {error}") from None
    if len(line) > MAX_LINE:
        raise EncodeError(f"{event.type}: {len(line)} bytes are over the limit of {MAX_LINE}")
    return line


def load_line(line: str | bytes) -> Event:
    """The event of one line; :class:`TelemetryError` says what is wrong, and where."""
    if len(line) > MAX_LINE:
        raise TelemetryError(f"a line of {len(line)} is over the limit of {MAX_LINE}")
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise TelemetryError(f"not UTF-8 at byte {error.start}: {error.reason}") from None
    try:
        plain = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        # Both can only come from these characters, and most lines have none of them.
        if "\\u" in text or not text.isascii() or text.count("[") + text.count("{") > MAX_DEPTH:
            _check_values(plain)
    except json.JSONDecodeError as error:
        raise TelemetryError(f"not JSON at column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise TelemetryError(str(error)) from None
    except RecursionError:
        raise TelemetryError(f"nested deeper than {MAX_DEPTH}") from None
    return Event.from_dict(plain)


def load_lines(lines: Iterable[str | bytes]) -> Iterator[Event | BadLine]:
    """Every line as an event or as a :class:`BadLine`; empty lines are skipped, but counted."""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            continue
        try:
            yield load_line(stripped)
        except TelemetryError as error:
            raw = stripped.encode(errors="replace") if isinstance(stripped, str) else stripped
            yield BadLine(number, raw, error.at_line(number))


# What JSON parsers disagree about


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"two fields are named {name[:60]!a}")
            seen.add(name)
    return plain


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def _integer(digits: str) -> int:
    # 2**128 and a sign: any column of today or tomorrow, and far from a quadratic conversion.
    if len(digits) > 40:
        raise ValueError(f"the number {digits[:40]}... is too large")
    return int(digits)


def _check_values(plain: object) -> None:
    """``ValueError`` for half a surrogate pair or for too deep a nesting."""
    todo: list[tuple[object, int]] = [(plain, 1)]
    while todo:
        value, depth = todo.pop()
        if depth > MAX_DEPTH and isinstance(value, dict | list | tuple):
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("half a surrogate pair, which is not text") from None
        elif isinstance(value, dict):
            todo += [(key, depth) for key in value]
            todo += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            todo += [(item, depth + 1) for item in value]
