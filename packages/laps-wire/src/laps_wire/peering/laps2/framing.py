"""Framing of messages on the control stream: type, length, body.

::

    +----------+------------+-----------------------------------+
    | type (i) | length (i) | body (length bytes)               |
    +----------+------------+-----------------------------------+
      even: must be            fields in order, then parameters;
      understood               nothing may be left over
      odd: may be ignored

The frame is the same for all versions and all types, so a relay can skip an unknown message. It
does so only if the type is odd. An unknown even type may change the meaning of later messages, and
ends the session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.peering.errors import MessageTooLargeError, UnknownMessageError
from laps_wire.peering.laps2.codepoints import MessageType
from laps_wire.peering.laps2.limits import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.laps2.messages import LAYOUTS, TYPES, Message
from laps_wire.varint import ByteSource

__all__ = ["Incoming", "UnknownMessage", "decode", "encode", "read_message", "write_message"]


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A message of an unknown odd type, to be ignored; it can be encoded again unchanged."""

    message_type: int
    body: bytes

    def __post_init__(self) -> None:
        if self.message_type & 1 == 0:
            raise EncodeError(f"message type {self.message_type:#x} is even: it must be understood")


Incoming: TypeAlias = "Message | UnknownMessage"
"""The result of the decoder."""

_KNOWN = {int(kind): (kind.name, layout) for kind, layout in LAYOUTS.items()}


def read_message(reader: Reader, *, max_size: int = MIN_MESSAGE_BYTES) -> Incoming:
    """Read one message; ``max_size`` is the largest body that this side offered to accept."""
    message_type = reader.varint("type")
    known = _KNOWN.get(message_type)
    if known is None and message_type & 1 == 0:
        raise UnknownMessageError(message_type)
    size = reader.varint("length")
    if size > max_size:
        raise MessageTooLargeError(size, max_size)
    if known is None:
        return UnknownMessage(message_type, reader.take(size, "body"))
    name, layout = known
    body = reader.sub(size, name)
    message: Message = layout.read(body, name)
    body.expect_end(name)
    return message


def write_message(writer: Writer, message: Incoming, *, max_size: int = MAX_MESSAGE_BYTES) -> None:
    """Write one message; raise if its body is over ``max_size``, the limit of the peer."""
    if isinstance(message, UnknownMessage):
        message_type, body = message.message_type, message.body
    else:
        kind = TYPES[type(message)]
        inner = Writer()
        LAYOUTS[kind].write(inner, message, kind.name)
        message_type, body = int(kind), inner.getvalue()
    if len(body) > max_size:
        name = MessageType(message_type).name if message_type in _KNOWN else f"{message_type:#x}"
        writer.fail(name, f"a body of {len(body)} bytes is over the limit of {max_size}")
    writer.varint(message_type, "type")
    writer.varint(len(body), "length")
    writer.raw(body)


def encode(message: Incoming, *, max_size: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return one message as bytes."""
    writer = Writer()
    write_message(writer, message, max_size=max_size)
    return writer.getvalue()


def decode(
    data: ByteSource, *, pos: int = 0, max_size: int = MIN_MESSAGE_BYTES
) -> tuple[Incoming, int]:
    """Return the message at ``pos`` of a stream's bytes, and the position after it."""
    reader = Reader(data, partial=True, pos=pos)
    message = read_message(reader, max_size=max_size)
    return message, reader.pos
