"""Control messages on the wire: framing, and a table of layouts for each draft.

::

    +----------+-------------+----------------+
    | type (i) | length (16) | body, length   |     both drafts (9, 10)
    +----------+-------------+ bytes exactly  +
                             +----------------+

The tables are in :mod:`laps_wire.moqt.layouts`. A body must be filled exactly: bytes left over, or
too few, are a protocol violation, and so is a type that the draft does not have.

``decode`` reads from the beginning of a stream and raises
:class:`~laps_wire.errors.IncompleteError` until the whole message is there. An unknown type is
refused as soon as it is seen, before its body is waited for.
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.moqt.errors import UnknownMessageType
from laps_wire.moqt.layouts import RESERVED, MessageLayout, layouts_of
from laps_wire.moqt.messages import Message, Subscribe
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = [
    "MAX_BODY_LENGTH",
    "ControlCodec",
    "decode",
    "decode_subscribe_body",
    "encode",
    "encode_subscribe_body",
    "message_name",
]

MAX_BODY_LENGTH: Final = 2**16 - 1
"""The most bytes that the body of a control message may have: its length has 16 bits."""


class ControlCodec:
    """Reads and writes the control messages of one draft.

    ``extensions`` are types of draft 16 message parameters that setup parameters negotiated; they
    are kept as raw pairs instead of ending the session. Without any, use :func:`decode` and
    :func:`encode`.
    """

    __slots__ = ("_by_class", "_by_type", "_integers", "_subscribe", "draft")

    def __init__(self, draft: Draft, *, extensions: frozenset[int] = frozenset()) -> None:
        self.draft = draft
        self._integers = draft.integers
        table = layouts_of(draft, extensions)
        self._by_type = {entry.type: entry for entry in table}
        self._by_class: dict[type, tuple[bytes, MessageLayout]] = {}
        for entry in table:
            # Draft 18 has two types that read as REQUEST_OK; the first one is written.
            self._by_class.setdefault(entry.layout.cls, (draft.integers.encode(entry.type), entry))
        self._subscribe = self._by_class[Subscribe][1].layout

    # Reading

    def read(self, reader: Reader) -> Message:
        """Read one message; the reader must have the draft's integer coding."""
        message_type = reader.varint("message type")
        entry = self._by_type.get(message_type)
        if entry is None:
            hint = RESERVED[self.draft].get(message_type, "")
            raise UnknownMessageType(message_type, self.draft.value, hint)
        body = reader.sub(reader.u16("message length"), entry.name)
        message: Message = entry.layout.read(body, entry.name)
        body.expect_end(entry.name)
        return message

    def decode(
        self, data: ByteSource, *, pos: int = 0, end: int | None = None
    ) -> tuple[Message, int]:
        """Read the message that starts at ``pos``; give it and the position behind it."""
        reader = Reader(data, integers=self._integers, partial=True, pos=pos, end=end)
        message = self.read(reader)
        return message, reader.pos

    def decode_subscribe_body(self, data: ByteSource) -> Subscribe:
        """Read a SUBSCRIBE without type and length, as LAPS peering carries it; all of ``data``."""
        reader = Reader(data, integers=self._integers)
        message: Subscribe = self._subscribe.read(reader, "SUBSCRIBE")
        reader.expect_end("SUBSCRIBE")
        return message

    # Writing

    def encode(self, message: Message) -> bytes:
        """Write a message, type and length included."""
        found = self._by_class.get(type(message))
        if found is None:
            raise EncodeError(
                f"draft {self.draft.value} has no message {message_name(type(message))}"
            )
        prefix, entry = found
        body = Writer(integers=self._integers)
        entry.layout.write(body, message, entry.name)
        size = len(body)
        if size > MAX_BODY_LENGTH:
            raise EncodeError(
                f"{entry.name}: a body of {size} bytes, at most {MAX_BODY_LENGTH} fit"
            )
        return b"".join((prefix, size.to_bytes(2, "big"), body.getvalue()))

    def encode_subscribe_body(self, message: Subscribe) -> bytes:
        """Write a SUBSCRIBE without type and length, as LAPS peering carries it."""
        body = Writer(integers=self._integers)
        self._subscribe.write(body, message, "SUBSCRIBE")
        return body.getvalue()


_CODECS: Final = {draft: ControlCodec(draft) for draft in Draft}
_NAMES: Final = {
    entry.layout.cls: entry.name for draft in reversed(Draft) for entry in layouts_of(draft)
}


def message_name(message_class: type[Message]) -> str:
    """The drafts' name of a message class, such as ``SUBSCRIBE_OK``."""
    return _NAMES[message_class]


def decode(
    data: ByteSource, draft: Draft, *, pos: int = 0, end: int | None = None
) -> tuple[Message, int]:
    """Read the control message that starts at ``pos``; give it and the position behind it."""
    return _CODECS[draft].decode(data, pos=pos, end=end)


def encode(message: Message, draft: Draft) -> bytes:
    """Write a control message, type and length included."""
    return _CODECS[draft].encode(message)


def decode_subscribe_body(data: ByteSource, draft: Draft) -> Subscribe:
    """Read a SUBSCRIBE without type and length, as LAPS peering carries it; all of ``data``."""
    return _CODECS[draft].decode_subscribe_body(data)


def encode_subscribe_body(message: Subscribe, draft: Draft) -> bytes:
    """Write a SUBSCRIBE without type and length, as LAPS peering carries it."""
    return _CODECS[draft].encode_subscribe_body(message)
