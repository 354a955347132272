"""The control messages of QuicR: media streams (seed 001), named data (seed 003), and the framing.

**Media streams** have groups and objects, and one control stream each. The subscriber opens it with
SUBSCRIBE_STREAM or SUBSCRIBE_DATAGRAM, the publisher with PUBLISH_INTENT. The answers use the same
control stream::

    subscriber                    relay           publisher                     relay
        | SUBSCRIBE_DATAGRAM -----> |                 | PUBLISH_INTENT ----------> |
        | <------- SUBSCRIBE_REPLY  |                 | <------ PUBLISH_INTENT_OK  |
        | <----------- START_POINT  |                 | START_POINT -------------> |
        | <= = = = datagrams = = =  |                 | FRAGMENT ----------------> |
        | <------------------- FIN  |                 | FRAGMENT ----------------> |

**Named data** has many names in one subscription. Integers are RFC 9000 varints; a name is a
Number128 of 16 bytes. Lists begin with a count. Each name in a list is followed by its number of
significant bits, because "names can be truncated" (seed 003, Wildcarded Names). PUBLISH names one
object, so it has a full name. The seed defines no numbers for these messages; all are ours. Class
names begin with ``Named`` where seed 001 has a message of the same name.

**The control channel** carries messages of both families behind a 16-bit length::

    +-----------------+------------------+------------------------+
    | length          | message_type (i) | the message's fields   |
    | u16, big endian |                  |                        |
    +-----------------+------------------+------------------------+
                      '------------- length bytes ----------------'

Seed 001 defines no message type for SUBSCRIBE_REPLY and RELAY_REDIRECT; we always write one. A
reply without a type can be read on the answering side of a subscription: its first number is 0, 1
or 2, which no other message has there. A redirect without a type cannot be recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import REST, VARINT, Array, Choice, Constrained, Layout, Prefixed, Text
from laps_wire.quicr.codepoints import (
    MAX_MESSAGE,
    MAX_NAMES,
    MAX_ORIGIN,
    MAX_RELAY_ADDRESS,
    Flags,
    MessageType,
    Response,
    SubscribeIntent,
)
from laps_wire.quicr.fields import (
    ACCEPT,
    BOOL,
    DATAGRAM_STREAM_ID,
    FLAGS,
    MASKED_NAME,
    NAME,
    NUMBER128,
    PREFIX,
    REASON,
    REASON_OR_END,
    TRUNCATED_NAME,
    Optional,
)
from laps_wire.quicr.fragments import MAX_FRAGMENT_NUMBER, MIN_FRAGMENT_ID, unpack_place
from laps_wire.quicr.shortname import ShortName

__all__ = [
    "FIN",
    "FRAGMENT",
    "LAYOUTS",
    "NAMED_PUBLISH_INTENT",
    "NAMED_PUBLISH_INTENT_OK",
    "NAMED_SUBSCRIBE_CANCEL",
    "NAMED_SUBSCRIBE_REPLY",
    "NAMED_SUBSCRIPTION_EXPIRY",
    "PUBLISH",
    "PUBLISH_INTENT",
    "PUBLISH_INTENT_OK",
    "RELAY_REDIRECT",
    "START_POINT",
    "SUBSCRIBE",
    "SUBSCRIBE_CANCEL",
    "SUBSCRIBE_DATAGRAM",
    "SUBSCRIBE_REPLY",
    "SUBSCRIBE_STREAM",
    "SUBSCRIPTION_EXPIRY",
    "SYNC_CATCHUP",
    "Fin",
    "Fragment",
    "Message",
    "NamedPublishIntent",
    "NamedPublishIntentOk",
    "NamedSubscribeCancel",
    "NamedSubscribeReply",
    "NamedSubscriptionExpiry",
    "Publish",
    "PublishIntent",
    "PublishIntentOk",
    "RelayRedirect",
    "StartPoint",
    "Subscribe",
    "SubscribeCancel",
    "SubscribeDatagram",
    "SubscribeReply",
    "SubscribeStream",
    "SubscriptionExpiry",
    "SyncCatchup",
    "decode",
    "encode",
    "read_message",
    "type_of",
]

# Media streams (seed 001)

_INTENT: Final = Choice(VARINT, SubscribeIntent)


# Subscribing


@dataclass(frozen=True, slots=True)
class SubscribeStream:
    """Asks for media in stream mode: FRAGMENT messages on this control stream."""

    name: ShortName
    """The name, or a wildcard: a name of which fewer than 128 bits count."""
    intent: SubscribeIntent = SubscribeIntent.IMMEDIATE


SUBSCRIBE_STREAM: Final = Layout(SubscribeStream, ("name", MASKED_NAME), ("intent", _INTENT))


@dataclass(frozen=True, slots=True)
class SubscribeDatagram:
    """Asks for media in datagram mode."""

    name: ShortName
    """The name, or a wildcard: a name of which fewer than 128 bits count."""
    intent: SubscribeIntent
    datagram_stream_id: int
    """The number that the datagrams will carry; not in use for any other media stream."""


SUBSCRIBE_DATAGRAM: Final = Layout(
    SubscribeDatagram,
    ("name", MASKED_NAME),
    ("intent", _INTENT),
    ("datagram_stream_id", DATAGRAM_STREAM_ID),
)


@dataclass(frozen=True, slots=True)
class SubscribeReply:
    """Answers a SUBSCRIBE_STREAM or SUBSCRIBE_DATAGRAM."""

    response: Response
    """``REDIRECT`` announces a RELAY_REDIRECT; if the stream ends without one, it is a ``FAIL``."""
    reason: str = ""
    """Words for people. A ``FAIL`` has some, always: without them it reads as a redirect."""

    def __post_init__(self) -> None:
        if self.response is Response.FAIL and not self.reason:
            raise ValueError("a fail needs a reason phrase: without one it reads as a redirect")


class ReplyLayout(Layout[SubscribeReply]):
    """SUBSCRIBE_REPLY's table, and the reading of the number that seed 001 gives out twice."""

    __slots__ = ()

    def read(self, reader: Reader, field: str) -> SubscribeReply:
        """Read a reply; a 2 without words is the redirect of a peer that writes 2 for it."""
        reader.enter(field)
        response, reason = (codec.read(reader, name) for name, codec in self.table)
        reader.leave()
        if response is Response.FAIL and not reason:
            response = Response.REDIRECT
        return self.cls(response, reason)


SUBSCRIBE_REPLY: Final = ReplyLayout(
    SubscribeReply, ("response", Choice(VARINT, Response)), ("reason", REASON_OR_END)
)


@dataclass(frozen=True, slots=True)
class SubscribeCancel:
    """The subscriber wants no more."""

    name: ShortName
    """The 128 bits of the subscription's name; there is no mask here, so all of them count."""
    reason: str = ""


SUBSCRIBE_CANCEL: Final = Layout(SubscribeCancel, ("name", TRUNCATED_NAME), ("reason", REASON))


@dataclass(frozen=True, slots=True)
class SubscriptionExpiry:
    """The relay ended a subscription that was not renewed, or that its policy ended.

    The seeds name this message and give it no layout; ours is SUBSCRIBE_CANCEL's with the mask, so
    that it names the subscription exactly.
    """

    name: ShortName
    reason: str = ""


SUBSCRIPTION_EXPIRY: Final = Layout(SubscriptionExpiry, ("name", MASKED_NAME), ("reason", REASON))


@dataclass(frozen=True, slots=True)
class RelayRedirect:
    """Go to another relay: an answer to a subscription or to a publish intent, of either family."""

    relay_address: str
    """Where to go, as text; never empty."""

    def __post_init__(self) -> None:
        if not self.relay_address:
            raise ValueError("a redirect needs an address")


RELAY_REDIRECT: Final = Layout(RelayRedirect, ("relay_address", Text(MAX_RELAY_ADDRESS)))


# Publishing


@dataclass(frozen=True, slots=True)
class PublishIntent:
    """The publisher will send a media stream of this name, if it may."""

    name: ShortName
    datagram_capable: bool = False
    """Whether the publisher can send datagrams too, and not only fragments on the stream."""


PUBLISH_INTENT: Final = Layout(PublishIntent, ("name", NAME), ("datagram_capable", BOOL))


@dataclass(frozen=True, slots=True)
class PublishIntentOk:
    """The origin allows the name. A refusal has no message: the control stream is closed."""

    datagram_stream_id: int | None = None
    """The number to put on the datagrams; None asks for stream mode (``use_datagram`` 0)."""


PUBLISH_INTENT_OK: Final = Layout(PublishIntentOk, ("datagram_stream_id", ACCEPT))


# The media stream


@dataclass(frozen=True, slots=True)
class StartPoint:
    """The first object that will be sent; without this message it is 0 of group 0."""

    start_group_id: int
    start_object_id: int


START_POINT: Final = Layout(StartPoint, ("start_group_id", VARINT), ("start_object_id", VARINT))


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some bytes of an object, in stream mode."""

    group_id: int
    object_id: int
    offset_and_fin: int
    """Twice the offset, plus one for the last: :func:`laps_wire.quicr.pack_offset_and_fin`."""
    data: bytes

    @property
    def offset(self) -> int:
        """Where the bytes begin in the object."""
        return unpack_place(self.offset_and_fin)[0]

    @property
    def is_last_fragment(self) -> bool:
        """Whether the object ends with these bytes."""
        return unpack_place(self.offset_and_fin)[1]


FRAGMENT: Final = Layout(
    Fragment,
    ("group_id", VARINT),
    ("object_id", VARINT),
    ("offset_and_fin", VARINT),
    ("data", Prefixed(MAX_MESSAGE)),
)


@dataclass(frozen=True, slots=True)
class Fin:
    """The end of a media stream in datagram mode."""

    final_group_id: int
    """The group of the last fragment."""
    final_object_id: int
    """One more than the object of the last fragment."""


FIN: Final = Layout(Fin, ("final_group_id", VARINT), ("final_object_id", VARINT))


# Named data (seed 003)

_NAMES: Final = Array(PREFIX, MAX_NAMES)


# Subscribing


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Asks for all data whose name begins like one of these; renews if it is there already."""

    subscription_id: int
    """The subscriber's number for it."""
    names: tuple[ShortName, ...]


SUBSCRIBE: Final = Layout(Subscribe, ("subscription_id", VARINT), ("names", _NAMES))


@dataclass(frozen=True, slots=True)
class NamedSubscribeReply:
    """Says for which names of a SUBSCRIBE data will come."""

    subscription_id: int
    names_success: tuple[ShortName, ...]
    names_fail: tuple[ShortName, ...]

    def __post_init__(self) -> None:
        if not set(self.names_success).isdisjoint(self.names_fail):
            raise ValueError("a name is in names_success and in names_fail")


NAMED_SUBSCRIBE_REPLY: Final = Layout(
    NamedSubscribeReply,
    ("subscription_id", VARINT),
    ("names_success", _NAMES),
    ("names_fail", _NAMES),
)


@dataclass(frozen=True, slots=True)
class NamedSubscribeCancel:
    """The subscriber wants no more of these names."""

    subscription_id: int
    names: tuple[ShortName, ...]
    reason: str = ""


NAMED_SUBSCRIBE_CANCEL: Final = Layout(
    NamedSubscribeCancel,
    ("subscription_id", VARINT),
    ("names", _NAMES),
    ("reason", REASON_OR_END),
)


@dataclass(frozen=True, slots=True)
class NamedSubscriptionExpiry:
    """The relay ended these names of a subscription; the seed's message, in our layout."""

    subscription_id: int
    names: tuple[ShortName, ...]
    reason: str = ""


NAMED_SUBSCRIPTION_EXPIRY: Final = Layout(
    NamedSubscriptionExpiry,
    ("subscription_id", VARINT),
    ("names", _NAMES),
    ("reason", REASON_OR_END),
)


@dataclass(frozen=True, slots=True)
class SyncCatchup:
    """Asks for what a relay has: the latest sync point, or everything after a time."""

    name: ShortName
    aftertime: int | None = None
    """Milliseconds of TAI since 1970, like ``timestamp``; None asks for the sync point."""


SYNC_CATCHUP: Final = Layout(SyncCatchup, ("name", PREFIX), ("aftertime", Optional(VARINT)))


# Publishing


@dataclass(frozen=True, slots=True)
class NamedPublishIntent:
    """The publisher will send data under these names, if it may."""

    publisher_id: int
    names: tuple[ShortName, ...]
    origin: str
    """Which origin server the relays forward this to."""


NAMED_PUBLISH_INTENT: Final = Layout(
    NamedPublishIntent,
    ("publisher_id", VARINT),
    ("names", _NAMES),
    ("origin", Text(MAX_ORIGIN)),
)


@dataclass(frozen=True, slots=True)
class NamedPublishIntentOk:
    """The names that the origin allows."""

    publisher_id: int
    names: tuple[ShortName, ...]


NAMED_PUBLISH_INTENT_OK: Final = Layout(
    NamedPublishIntentOk, ("publisher_id", VARINT), ("names", _NAMES)
)


@dataclass(frozen=True, slots=True)
class Publish:
    """A fragment of a named object."""

    name: ShortName
    """A full name: every one of its 128 bits counts."""
    flags: Flags
    fragment_id: int
    """Twice the fragment's number (from 1), plus one for the last."""
    best_before: int
    """Until when caches may keep the object, in milliseconds of TAI since 1970; 0 if for ever."""
    timestamp: int
    """When the object was made, in milliseconds of TAI since 1970."""
    data: bytes

    @property
    def fragment_number(self) -> int:
        """Which fragment this is, from 1."""
        return unpack_place(self.fragment_id)[0]

    @property
    def is_last_fragment(self) -> bool:
        """Whether the object ends with this fragment."""
        return unpack_place(self.fragment_id)[1]


PUBLISH: Final = Layout(
    Publish,
    ("name", NUMBER128),
    ("flags", FLAGS),
    ("fragment_id", Constrained(VARINT, MIN_FRAGMENT_ID, MAX_FRAGMENT_NUMBER << 1 | 1)),
    ("best_before", VARINT),
    ("timestamp", VARINT),
    ("data", REST),
)


# The control channel

Message: TypeAlias = (
    SubscribeStream
    | SubscribeDatagram
    | SubscribeReply
    | SubscribeCancel
    | SubscriptionExpiry
    | RelayRedirect
    | PublishIntent
    | PublishIntentOk
    | StartPoint
    | Fragment
    | Fin
    | Subscribe
    | NamedSubscribeReply
    | NamedSubscribeCancel
    | NamedSubscriptionExpiry
    | NamedPublishIntent
    | NamedPublishIntentOk
    | SyncCatchup
    | Publish
)

LAYOUTS: Final[dict[MessageType, Layout[Any]]] = {
    MessageType.SUBSCRIBE_STREAM: SUBSCRIBE_STREAM,
    MessageType.SUBSCRIBE_DATAGRAM: SUBSCRIBE_DATAGRAM,
    MessageType.FIN: FIN,
    MessageType.FRAGMENT: FRAGMENT,
    MessageType.PUBLISH_INTENT: PUBLISH_INTENT,
    MessageType.PUBLISH_INTENT_OK: PUBLISH_INTENT_OK,
    MessageType.START_POINT: START_POINT,
    MessageType.SUBSCRIBE_REPLY: SUBSCRIBE_REPLY,
    MessageType.SUBSCRIBE_CANCEL: SUBSCRIBE_CANCEL,
    MessageType.RELAY_REDIRECT: RELAY_REDIRECT,
    MessageType.SUBSCRIPTION_EXPIRY: SUBSCRIPTION_EXPIRY,
    MessageType.SUBSCRIBE: SUBSCRIBE,
    MessageType.NAMED_SUBSCRIBE_REPLY: NAMED_SUBSCRIBE_REPLY,
    MessageType.NAMED_SUBSCRIBE_CANCEL: NAMED_SUBSCRIBE_CANCEL,
    MessageType.NAMED_SUBSCRIPTION_EXPIRY: NAMED_SUBSCRIPTION_EXPIRY,
    MessageType.NAMED_PUBLISH_INTENT: NAMED_PUBLISH_INTENT,
    MessageType.NAMED_PUBLISH_INTENT_OK: NAMED_PUBLISH_INTENT_OK,
    MessageType.SYNC_CATCHUP: SYNC_CATCHUP,
    MessageType.PUBLISH: PUBLISH,
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
