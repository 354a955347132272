"""QuicR's numbers: message types, intents, responses, the flags byte and the limits.

Seed 001 numbers seven of its messages; the others, and all of seed 003's, have none. Both families
share one registry, so that one byte tells them apart on any control stream::

    0x01..0x08   seed 001, the numbers that it gives
    0x10..0x1f   seed 001, messages that it names without a number (ours)
    0x20..0x2f   seed 003 (ours)
    0x3f         PUBLISH of seed 003 (ours), the last number that takes one byte

0x04 and 0x09 to 0x0f stay free: the quicrq prototype, whose numbers seed 001 took over, used 0x04
and 0x09 to 0x0e for other messages. Why PUBLISH stands apart is in :mod:`laps_wire.quicr.datagram`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from laps_wire.errors import EncodeError

__all__ = [
    "MAX_MESSAGE",
    "MAX_NAMES",
    "MAX_ORIGIN",
    "MAX_REASON",
    "MAX_RELAY_ADDRESS",
    "RESERVED_DATAGRAM_STREAM_ID",
    "Flags",
    "MessageType",
    "Response",
    "SubscribeIntent",
]

MAX_MESSAGE: Final = 0xFFFF
"""The largest message value: its length is a 16-bit number (seed 001, QUICR Control Messages)."""

MAX_NAMES: Final = 1024
"""How many names one list may hold; two full lists still fit one message."""

MAX_REASON: Final = 1024
"""The longest reason phrase in bytes; the same limit as MoQT's."""

MAX_ORIGIN: Final = 255
"""The longest origin in bytes; a DNS name is never longer."""

MAX_RELAY_ADDRESS: Final = 1024
"""The longest relay address in bytes; room for any URL that a relay has."""


class MessageType(IntEnum):
    """The first varint of every control message."""

    # Seed 001, numbered there
    SUBSCRIBE_STREAM = 0x01
    SUBSCRIBE_DATAGRAM = 0x02
    FIN = 0x03
    FRAGMENT = 0x05
    PUBLISH_INTENT = 0x06
    PUBLISH_INTENT_OK = 0x07
    START_POINT = 0x08
    # Seed 001, numbered by us
    SUBSCRIBE_REPLY = 0x10
    SUBSCRIBE_CANCEL = 0x11
    RELAY_REDIRECT = 0x12
    SUBSCRIPTION_EXPIRY = 0x13
    # Seed 003, numbered by us; NAMED_ marks those whose name seed 001 has too
    SUBSCRIBE = 0x20
    NAMED_SUBSCRIBE_REPLY = 0x21
    NAMED_SUBSCRIBE_CANCEL = 0x22
    NAMED_SUBSCRIPTION_EXPIRY = 0x23
    NAMED_PUBLISH_INTENT = 0x24
    NAMED_PUBLISH_INTENT_OK = 0x25
    SYNC_CATCHUP = 0x26
    PUBLISH = 0x3F


RESERVED_DATAGRAM_STREAM_ID: Final = int(MessageType.PUBLISH)
"""The one datagram stream id that nobody may choose: a datagram that begins so is a PUBLISH."""


class SubscribeIntent(IntEnum):
    """What a relay delivers for a new subscription (seed 001, Subscribe Message)."""

    IMMEDIATE = 0
    """New objects only."""
    CATCH_UP = 1
    """New objects, and those that the relay still has."""
    WAIT_UP = 2
    """Nothing until an object matches the name's object id; then everything that matches."""


class Response(IntEnum):
    """The result in a SUBSCRIBE_REPLY.

    Seed 001 gives 2 to both ``fail`` and ``redirect``. We write 2 for ``fail`` and 3 for
    ``redirect``; a 2 without a reason phrase is read as ``redirect``, because the seed asks for a
    reason with every ``fail``.
    """

    OK = 0
    EXPIRED = 1
    FAIL = 2
    REDIRECT = 3


class Flags(int):
    """The flags byte of a datagram header and of PUBLISH.

    ::

         7   6   5   4   3   2   1   0
        +---+---+---+---+---+---+---+---+
        |  reserved | D | S |  priority |     D is_discardable, S is_sync_point
        +---+---+---+---+---+---+---+---+

    This is seed 003's byte. Seed 001 leaves out S and so has seven bits for eight: we read its byte
    in the same way. Reserved bits are kept, because a relay must not change what it forwards.
    """

    __slots__ = ()

    @classmethod
    def make(
        cls, *, priority: int = 0, is_discardable: bool = False, is_sync_point: bool = False
    ) -> Self:
        """Build the byte, reserved bits zero."""
        if not 0 <= priority <= 7:
            raise EncodeError(f"priority {priority} is outside 0..7")
        return cls(is_discardable << 4 | is_sync_point << 3 | priority)

    @property
    def priority(self) -> int:
        """The relative priority, 0 to 7."""
        return self & 0x07

    @property
    def is_sync_point(self) -> bool:
        """Whether relays must cache the object as a place to join at."""
        return self & 0x08 != 0

    @property
    def is_discardable(self) -> bool:
        """Whether relays may drop the object first."""
        return self & 0x10 != 0

    @property
    def reserved(self) -> int:
        """The three bits without a meaning, as they came."""
        return self >> 5
