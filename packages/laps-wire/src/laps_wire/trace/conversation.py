"""Recorded conversations: chunks of bytes with time and direction, decoded into messages.

The file is JSON Lines. A line is a chunk of bytes, or the heading of a conversation; a file can
hold several conversations::

    {"title": "Two relays meet", "left": "seattle", "right": "london"}
    {"dir": ">", "t": 0.0, "proto": "laps-2", "stream": 0, "hex": "01 02 03", "note": "hello"}

``>`` is from left to right, ``t`` is in seconds, ``proto`` is a name for ``--as``. ``stream`` is
optional for datagrams, ``note`` is for display. Messages of a control stream may be split at any
byte: chunks of one direction, protocol and stream are joined. A data stream or a datagram is one
line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from laps_wire.errors import TextFormError
from laps_wire.telemetry.privacy import safe_text
from laps_wire.trace.decode import Decoded, Fault, Protocol, Status, decode
from laps_wire.trace.hextext import MAX_BYTES, parse_hex
from laps_wire.trace.text import PLAIN, Paint, as_dicts, render, render_fields

__all__ = [
    "Chunk",
    "Conversation",
    "Step",
    "parse_conversations",
    "play",
    "render_step",
    "step_dicts",
]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that one side sent at one time."""

    line: int
    direction: str
    """``>`` from left to right, ``<`` from right to left."""
    time: float
    """Seconds since the beginning."""
    protocol: Protocol
    stream: int | None
    data: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Two sides and their chunks."""

    chunks: tuple[Chunk, ...]
    title: str = ""
    left: str = "left"
    right: str = "right"


@dataclass(frozen=True, slots=True)
class Step:
    """The messages that one chunk completed."""

    chunk: Chunk
    decoded: Decoded
    waits: Fault | None = None
    """Set if the stream ends with an incomplete message."""


# Reading


def parse_conversations(
    lines: Iterable[str], protocols: Mapping[str, Protocol]
) -> tuple[Conversation, ...]:
    """Parse the lines of a file; raise :class:`TextFormError` with line and reason."""
    scenes: list[tuple[dict[str, str], list[Chunk]]] = []
    size = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        plain = _object(line, number)
        if "hex" not in plain and "dir" not in plain:
            heading = {name: _text(plain, name, number) for name in _HEADING if name in plain}
            scenes.append((heading, []))
            continue
        if not scenes:
            scenes.append(({}, []))
        chunk = _chunk(plain, number, protocols)
        scenes[-1][1].append(chunk)
        size += len(chunk.data)
        if size > MAX_BYTES:
            raise TextFormError(f"line {number}: more than {MAX_BYTES} bytes in all")
    return tuple(Conversation(tuple(chunks), **heading) for heading, chunks in scenes)


_HEADING: Final[tuple[str, ...]] = ("title", "left", "right")


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        plain = json.loads(line)
    except json.JSONDecodeError as error:
        raise TextFormError(f"line {number}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise TextFormError(f"line {number}: a number or a nesting beyond all measure") from None
    if not isinstance(plain, dict):
        raise TextFormError(f"line {number}: not an object in braces")
    return plain


def _text(plain: dict[str, Any], name: str, number: int, default: str | None = None) -> str:
    value = plain.get(name, default)
    if not isinstance(value, str):
        state = "is missing" if value is None else f"is {safe_text(repr(value), 40)}, not a text"
        raise TextFormError(f"line {number}: {name!a} {state}")
    return value


def _chunk(plain: dict[str, Any], number: int, protocols: Mapping[str, Protocol]) -> Chunk:
    direction = _text(plain, "dir", number)
    if direction not in {">", "<"}:
        raise TextFormError(f"line {number}: 'dir' is {direction[:40]!a}, not '>' or '<'")
    name = _text(plain, "proto", number)
    if name not in protocols:
        known = ", ".join(protocols)
        raise TextFormError(f"line {number}: 'proto' is {name[:40]!a}, not one of: {known}")
    time = plain.get("t")
    if not isinstance(time, int | float) or isinstance(time, bool) or not isfinite(time):
        raise TextFormError(f"line {number}: 't' is not a number of seconds")
    stream = plain.get("stream")
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool)):
        raise TextFormError(f"line {number}: 'stream' is not a number")
    try:
        data = parse_hex(_text(plain, "hex", number))
    except TextFormError as error:
        raise TextFormError(f"line {number}: 'hex': {error}") from None
    note = _text(plain, "note", number, "")
    return Chunk(number, direction, float(time), protocols[name], stream, data, note)


# Playing


def play(conversation: Conversation) -> Iterator[Step]:
    """Yield each chunk with the messages that it completed."""
    held: dict[tuple[str, str, int | None], bytes] = {}
    for chunk in conversation.chunks:
        key = (chunk.direction, chunk.protocol.name, chunk.stream)
        decoded = decode(chunk.protocol, held.pop(key, b"") + chunk.data)
        fault = decoded.fault
        if chunk.protocol.stream_of_messages and decoded.status is Status.INCOMPLETE:
            held[key] = decoded.data[decoded.used :]
            # The incomplete message is shown when it is whole.
            whole = tuple(traced for traced in decoded.messages if traced.message is not None)
            decoded = Decoded(chunk.protocol, decoded.data, whole, None, decoded.used)
            yield Step(chunk, decoded, fault)
        else:
            yield Step(chunk, decoded)


# Showing

_MARGIN: Final = " " * 14


def render_step(
    step: Step, conversation: Conversation, paint: Paint = PLAIN, *, with_bytes: bool = False
) -> Iterator[str]:
    """Yield the lines of a step: time, sides and names, then the fields or all bytes."""
    chunk, decoded = step.chunk, step.decoded
    names = [safe_text(conversation.left, 20), safe_text(conversation.right, 20)]
    role = "left" if chunk.direction == ">" else "right"
    arrow = f"{names[0]} -> {names[1]}" if chunk.direction == ">" else f"{names[1]} -> {names[0]}"
    where = "datagram" if chunk.stream is None else f"stream {chunk.stream}"
    what = ", ".join(safe_text(traced.name) for traced in decoded.messages)
    parts = [where, chunk.protocol.name, *([paint("name", what)] if what else [])]
    yield f"{chunk.time:10.3f}  {paint(role, arrow)}  {'  '.join(parts)}"
    if chunk.note:
        yield f"{_MARGIN}{paint('dim', '# ' + safe_text(chunk.note))}"
    if with_bytes or decoded.fault is not None:
        for line in render(decoded, paint):
            yield f"{_MARGIN}{line}" if line else ""
    else:
        for traced in decoded.messages:
            if len(decoded.messages) > 1:
                yield f"{_MARGIN}{paint('name', safe_text(traced.name))}"
            for line in render_fields(traced):
                yield f"{_MARGIN}{line}"
    if step.waits is not None:
        yield f"{_MARGIN}{paint('dim', f'... {step.waits.missing} more byte(s) to come')}"


def step_dicts(step: Step) -> Iterator[dict[str, Any]]:
    """Yield the messages of a step as JSON objects."""
    chunk = step.chunk
    for plain in as_dicts(step.decoded):
        yield {"t": chunk.time, "dir": chunk.direction, "stream": chunk.stream, **plain}
