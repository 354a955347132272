"""Seed 001's messages: media streams of groups and objects, one control stream for each.

The subscriber opens with SUBSCRIBE_STREAM or SUBSCRIBE_DATAGRAM, the publisher with PUBLISH_INTENT;
the answers come back on the same control stream::

    subscriber                    relay           publisher                     relay
        | SUBSCRIBE_DATAGRAM -----> |                 | PUBLISH_INTENT ----------> |
        | <------- SUBSCRIBE_REPLY  |                 | <------ PUBLISH_INTENT_OK  |
        | <----------- START_POINT  |                 | START_POINT -------------> |
        | <= = = = datagrams = = =  |                 | FRAGMENT ----------------> |
        | <------------------- FIN  |                 | FRAGMENT ----------------> |

Each class is a message, each table below it its bytes behind the message type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import Reader
from laps_wire.fields import VARINT, Choice, Prefixed, Text
from laps_wire.layout import Layout
from laps_wire.quicr.codepoints import (
    MAX_MESSAGE,
    MAX_RELAY_ADDRESS,
    Response,
    SubscribeIntent,
)
from laps_wire.quicr.fields import (
    ACCEPT,
    BOOL,
    DATAGRAM_STREAM_ID,
    MASKED_NAME,
    NAME,
    REASON,
    REASON_OR_END,
    TRUNCATED_NAME,
)
from laps_wire.quicr.fragments import unpack_place
from laps_wire.quicr.shortname import ShortName

__all__ = [
    "FIN",
    "FRAGMENT",
    "PUBLISH_INTENT",
    "PUBLISH_INTENT_OK",
    "RELAY_REDIRECT",
    "START_POINT",
    "SUBSCRIBE_CANCEL",
    "SUBSCRIBE_DATAGRAM",
    "SUBSCRIBE_REPLY",
    "SUBSCRIBE_STREAM",
    "SUBSCRIPTION_EXPIRY",
    "Fin",
    "Fragment",
    "PublishIntent",
    "PublishIntentOk",
    "RelayRedirect",
    "StartPoint",
    "SubscribeCancel",
    "SubscribeDatagram",
    "SubscribeReply",
    "SubscribeStream",
    "SubscriptionExpiry",
]

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
