"""Seed 003's messages: named data, many names in one subscription.

Every integer is an RFC 9000 varint; a name is a Number128 and stays 16 bytes. The lists have a
count before them, and behind each name how many of its bits count, because "names can be truncated"
(seed 003, Wildcarded Names) and the 16 bytes alone can not say so. PUBLISH names one object and so
always has a full name. All numbers of these messages are ours: the seed gives none.

The class names begin with ``Named`` where seed 001 has a message of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.fields import REST, VARINT, Constrained, Text
from laps_wire.layout import Array, Layout
from laps_wire.quicr.codepoints import MAX_NAMES, MAX_ORIGIN, Flags
from laps_wire.quicr.fields import FLAGS, NUMBER128, PREFIX, REASON_OR_END, Optional
from laps_wire.quicr.fragments import MAX_FRAGMENT_NUMBER, MIN_FRAGMENT_ID, unpack_place
from laps_wire.quicr.shortname import ShortName

__all__ = [
    "NAMED_PUBLISH_INTENT",
    "NAMED_PUBLISH_INTENT_OK",
    "NAMED_SUBSCRIBE_CANCEL",
    "NAMED_SUBSCRIBE_REPLY",
    "NAMED_SUBSCRIPTION_EXPIRY",
    "PUBLISH",
    "SUBSCRIBE",
    "SYNC_CATCHUP",
    "NamedPublishIntent",
    "NamedPublishIntentOk",
    "NamedSubscribeCancel",
    "NamedSubscribeReply",
    "NamedSubscriptionExpiry",
    "Publish",
    "Subscribe",
    "SyncCatchup",
]

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
