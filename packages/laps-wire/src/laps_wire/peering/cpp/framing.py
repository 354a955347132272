"""Control messages of the C++ relay on the control stream: the common header around each.

::

     0         1              3                          7
    +---------+--------------+--------------------------+---------------------+
    | version | type         | length                   | body                |
    | (8) = 1 | (16)         | (32), without this header| (length bytes)      |
    +---------+--------------+--------------------------+---------------------+

Unknown types are stepped over, as the C++ relay does, but handed out as :class:`UnknownMessage`, so
that somebody can count or log them.

Two things to know when the peer is a C++ relay. It handles one message for each chunk that it
receives, so each message should leave in a packet of its own. And it clears its whole buffer when
one message does not parse. Our receiver takes any number of messages in any number of chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.peering.cpp.codepoints import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    VERSION,
    Build,
)
from laps_wire.peering.cpp.messages import LAYOUTS, TYPES, Message
from laps_wire.varint import ByteSource

__all__ = ["Incoming", "MessageStream", "UnknownMessage", "decode", "encode", "read_message"]


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A message of a type that we do not know, as it came; it can be written again."""

    message_type: int
    body: bytes

    def __post_init__(self) -> None:
        if self.message_type in _KNOWN:
            raise EncodeError(f"message type {self.message_type} is known: use its own class")


Incoming: TypeAlias = "Message | UnknownMessage"
"""What the decoder gives."""

_KNOWN: Final = {int(kind): (kind.name, layout) for kind, layout in LAYOUTS.items()}


def encode(message: Incoming, build: Build) -> bytes:
    """One message with its common header."""
    body = Writer(integers=build.integers)
    if isinstance(message, UnknownMessage):
        message_type = message.message_type
        body.raw(message.body)
    else:
        kind = TYPES[type(message)]
        message_type = int(kind)
        LAYOUTS[kind].write(body, message, kind.name)
    writer = Writer()
    if len(body) > MAX_BODY_BYTES:
        writer.fail("length", f"{len(body)} bytes are over the limit of {MAX_BODY_BYTES}")
    writer.u8(VERSION, "version")
    writer.u16(message_type, "type")
    writer.u32(len(body), "length")
    writer.raw(body.getvalue())
    return writer.getvalue()


def read_message(reader: Reader) -> Incoming:
    """Read one message; the reader's integer coding must be that of the peer's build."""
    start = reader.pos
    version = reader.u8("version")
    if version != VERSION:
        reader.fail("version", f"{version} where only {VERSION} is known", offset=start)
    message_type = reader.u16("type")
    at = reader.pos
    size = reader.u32("length")
    if size > MAX_BODY_BYTES:
        reader.fail("length", f"{size} is over the limit of {MAX_BODY_BYTES}", offset=at)
    known = _KNOWN.get(message_type)
    if known is None:
        return UnknownMessage(message_type, reader.take(size, "body"))
    name, layout = known
    body = reader.sub(size, name)
    message: Message = layout.read(body, name)
    body.expect_end(name)
    return message


def decode(data: ByteSource, build: Build, *, pos: int = 0) -> tuple[Incoming, int]:
    """The message at ``pos`` of a stream's bytes, and the position after it."""
    reader = Reader(data, integers=build.integers, partial=True, pos=pos)
    message = read_message(reader)
    return message, reader.pos


class MessageStream:
    """The receiving side of the control stream: chunks in, whole messages out.

    ::

        stream.feed(chunk)
        while (message := stream.next_message()) is not None:
            ...

    What waits is never more than one unfinished message and its header, which are bounded; a length
    over the limit is refused when its header is there. A message that does not parse is taken out
    of the buffer before its error is raised: the frames behind it are whole, and a caller that does
    not want to close for it may go on.
    """

    __slots__ = ("_buffer", "_build")

    def __init__(self, build: Build) -> None:
        self._build = build
        self._buffer = bytearray()

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their message."""
        return len(self._buffer)

    def feed(self, chunk: ByteSource) -> None:
        """Append what came in."""
        self._buffer += chunk

    def next_message(self) -> Incoming | None:
        """The next whole message; ``None`` if more bytes are needed."""
        if len(self._buffer) < HEADER_BYTES:
            return None
        size = HEADER_BYTES + int.from_bytes(self._buffer[3:HEADER_BYTES], "big")
        hopeless = self._buffer[0] != VERSION or size > HEADER_BYTES + MAX_BODY_BYTES
        if len(self._buffer) < size and not hopeless:
            return None
        # One copy for each message; what its header condemns is refused without the body.
        frame = bytes(self._buffer[:size])
        del self._buffer[:size]
        return decode(frame, self._build)[0]
