"""The control channel: messages behind a 16-bit length, of both families.

::

    +-----------------+------------------+------------------------+
    | length          | message_type (i) | the message's fields   |
    | u16, big endian |                  |                        |
    +-----------------+------------------+------------------------+
                      '------------- length bytes ----------------'

Seed 001 gives SUBSCRIBE_REPLY and RELAY_REDIRECT no message type at all. We always write one. A
reply without one can still be read where nothing else may stand, on the answering side of a
subscription: its first number is 0, 1 or 2, and these are either no message or messages that only
a subscriber sends. A redirect without a type begins with any length and can not be told apart.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.layout import Layout
from laps_wire.quicr import media, named
from laps_wire.quicr.codepoints import MAX_MESSAGE, MessageType, Response
from laps_wire.varint import ByteSource

__all__ = ["LAYOUTS", "Message", "decode", "encode", "read_message", "type_of"]

Message: TypeAlias = (
    media.SubscribeStream
    | media.SubscribeDatagram
    | media.SubscribeReply
    | media.SubscribeCancel
    | media.SubscriptionExpiry
    | media.RelayRedirect
    | media.PublishIntent
    | media.PublishIntentOk
    | media.StartPoint
    | media.Fragment
    | media.Fin
    | named.Subscribe
    | named.NamedSubscribeReply
    | named.NamedSubscribeCancel
    | named.NamedSubscriptionExpiry
    | named.NamedPublishIntent
    | named.NamedPublishIntentOk
    | named.SyncCatchup
    | named.Publish
)

LAYOUTS: Final[dict[MessageType, Layout[Any]]] = {
    MessageType.SUBSCRIBE_STREAM: media.SUBSCRIBE_STREAM,
    MessageType.SUBSCRIBE_DATAGRAM: media.SUBSCRIBE_DATAGRAM,
    MessageType.FIN: media.FIN,
    MessageType.FRAGMENT: media.FRAGMENT,
    MessageType.PUBLISH_INTENT: media.PUBLISH_INTENT,
    MessageType.PUBLISH_INTENT_OK: media.PUBLISH_INTENT_OK,
    MessageType.START_POINT: media.START_POINT,
    MessageType.SUBSCRIBE_REPLY: media.SUBSCRIBE_REPLY,
    MessageType.SUBSCRIBE_CANCEL: media.SUBSCRIBE_CANCEL,
    MessageType.RELAY_REDIRECT: media.RELAY_REDIRECT,
    MessageType.SUBSCRIPTION_EXPIRY: media.SUBSCRIPTION_EXPIRY,
    MessageType.SUBSCRIBE: named.SUBSCRIBE,
    MessageType.NAMED_SUBSCRIBE_REPLY: named.NAMED_SUBSCRIBE_REPLY,
    MessageType.NAMED_SUBSCRIBE_CANCEL: named.NAMED_SUBSCRIBE_CANCEL,
    MessageType.NAMED_SUBSCRIPTION_EXPIRY: named.NAMED_SUBSCRIPTION_EXPIRY,
    MessageType.NAMED_PUBLISH_INTENT: named.NAMED_PUBLISH_INTENT,
    MessageType.NAMED_PUBLISH_INTENT_OK: named.NAMED_PUBLISH_INTENT_OK,
    MessageType.SYNC_CATCHUP: named.SYNC_CATCHUP,
    MessageType.PUBLISH: named.PUBLISH,
}
"""Every control message's table, by its type."""

_TYPES: Final[dict[type, MessageType]] = {layout.cls: kind for kind, layout in LAYOUTS.items()}


def type_of(message: Message) -> MessageType:
    """The message type that ``message`` is sent with."""
    return _TYPES[type(message)]


def encode(message: Message) -> bytes:
    """Write a whole control message."""
    kind = type_of(message)
    writer = Writer()
    writer.varint(kind, "message_type")
    LAYOUTS[kind].write(writer, message, kind.name)
    if len(writer) > MAX_MESSAGE:
        raise EncodeError(f"{kind.name}: {len(writer)} bytes are over the limit of {MAX_MESSAGE}")
    return len(writer).to_bytes(2, "big") + writer.getvalue()


def decode(data: ByteSource, *, pos: int = 0, untyped_reply: bool = False) -> tuple[Message, int]:
    """Read the control message at ``pos``; give it and where the next one begins.

    ``untyped_reply`` is for the control stream of a subscription that we opened: there a
    SUBSCRIBE_REPLY may come without its message type.
    """
    reader = Reader(data, partial=True, pos=pos)
    return read_message(reader, untyped_reply=untyped_reply), reader.pos


def read_message(reader: Reader, *, untyped_reply: bool = False) -> Message:
    """Read a control message from a reader; :func:`decode` says what ``untyped_reply`` is."""
    body = reader.sub(reader.u16("length"), "value")
    start = body.pos
    number = body.varint("message_type")
    if untyped_reply and number <= Response.FAIL:
        body.pos = start
        number = MessageType.SUBSCRIBE_REPLY
    try:
        kind = MessageType(number)
    except ValueError:
        # The length would let us skip it, but its sender would wait for an answer for ever.
        body.fail("message_type", f"{number:#x} is no message of QuicR", offset=start)
    message: Message = LAYOUTS[kind].read(body, kind.name)
    body.expect_end(kind.name)
    return message
