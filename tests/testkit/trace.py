"""A small protocol for the tests of the trace, so that they do not move with the real ones.

::

    message   | type (i): 1 GREET | length (i) | count (i) | { length (i), word } ... | mood (8) |
    unit      | size (8) | size bytes |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from laps_wire.errors import ProtocolViolation
from laps_wire.fields import U8, Array, Choice, Layout, Prefixed
from laps_wire.trace.decode import Protocol
from laps_wire.trace.reader import TracingReader


class Mood(IntEnum):
    CALM = 0
    KEEN = 1


@dataclass(frozen=True, slots=True)
class Greet:
    words: tuple[bytes, ...]
    mood: Mood


GREET = Layout(Greet, ("words", Array(Prefixed(8), 4)), ("mood", Choice(U8, Mood)))


def read_greeting(reader: TracingReader) -> Greet:
    kind = reader.varint("type")
    if kind == 9:
        raise ProtocolViolation("nobody says 9")
    body = reader.sub(reader.varint("length"), "GREET")
    message = GREET.read(body, "GREET")
    body.expect_end("GREET")
    return message


def read_unit(reader: TracingReader) -> Any:
    return reader.take(reader.u8("size"), "content")


GREETINGS = Protocol("greet", "greetings", read_greeting, weight=2)
UNIT = Protocol("unit", "a unit", read_unit, stream_of_messages=False)
DATAGRAM = Protocol("datagram", "a datagram", read_unit, stream_of_messages=False, datagram=True)
ALL = {protocol.name: protocol for protocol in (GREETINGS, UNIT, DATAGRAM)}

#: GREET, "hi" and "you", KEEN
HELLO = bytes.fromhex("01 09 02 02 6869 03 796f75 01")
