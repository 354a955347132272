"""Every number that MoQT drafts 16 and 18 assign, as enumerations.

Where the two drafts agree, or one only adds, there is one enumeration; :data:`ONLY` says which
members one draft lacks. Where a number changed its meaning there are two, and a table by draft:
``PUBLISH_DONE_CODES[draft].EXPIRED`` is 0x5 in draft 16 and 0x6 in draft 18.

A peer may send numbers that are not here. Codes for errors are therefore plain integers in
messages; draft 18 says to read an unknown one as INTERNAL_ERROR (moq-transport-18, 14).

:func:`grease` makes numbers without a meaning, which keep receivers tolerant: ``0x7F * N + 0x9D``
(moq-transport-18, 14). They are reserved among setup options, properties, token types and all codes
for errors, but not among messages and message parameters, where every number must be understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from laps_wire.moqt.versions import Draft

__all__ = [
    "ONLY",
    "PUBLISH_DONE_CODES",
    "STREAM_RESET_CODES",
    "AliasType",
    "FetchType",
    "FilterType",
    "GroupOrder",
    "MessageTypeD16",
    "MessageTypeD18",
    "ObjectStatus",
    "ParameterTypeD16",
    "ParameterTypeD18",
    "PropertyTypeD16",
    "PropertyTypeD18",
    "PublishDoneCodeD16",
    "PublishDoneCodeD18",
    "RequestErrorCode",
    "SessionCode",
    "SetupOptionType",
    "StreamResetCodeD16",
    "StreamResetCodeD18",
    "SubscribeOptions",
    "grease",
    "is_grease",
    "registries",
]


# Messages


class MessageTypeD16(IntEnum):
    """Control messages of draft 16 (moq-transport-16, 9)."""

    REQUEST_UPDATE = 0x2
    SUBSCRIBE = 0x3
    SUBSCRIBE_OK = 0x4
    REQUEST_ERROR = 0x5
    PUBLISH_NAMESPACE = 0x6
    REQUEST_OK = 0x7
    NAMESPACE = 0x8
    PUBLISH_NAMESPACE_DONE = 0x9
    UNSUBSCRIBE = 0xA
    PUBLISH_DONE = 0xB
    PUBLISH_NAMESPACE_CANCEL = 0xC
    TRACK_STATUS = 0xD
    NAMESPACE_DONE = 0xE
    GOAWAY = 0x10
    SUBSCRIBE_NAMESPACE = 0x11
    MAX_REQUEST_ID = 0x15
    FETCH = 0x16
    FETCH_CANCEL = 0x17
    FETCH_OK = 0x18
    REQUESTS_BLOCKED = 0x1A
    PUBLISH = 0x1D
    PUBLISH_OK = 0x1E
    CLIENT_SETUP = 0x20
    SERVER_SETUP = 0x21


class MessageTypeD18(IntEnum):
    """Control messages of draft 18 (moq-transport-18, 10)."""

    REQUEST_UPDATE = 0x2
    SUBSCRIBE = 0x3
    SUBSCRIBE_OK = 0x4
    REQUEST_ERROR = 0x5
    PUBLISH_NAMESPACE = 0x6
    REQUEST_OK = 0x7
    NAMESPACE = 0x8
    PUBLISH_DONE = 0xB
    TRACK_STATUS = 0xD
    NAMESPACE_DONE = 0xE
    PUBLISH_BLOCKED = 0xF
    GOAWAY = 0x10
    FETCH = 0x16
    FETCH_OK = 0x18
    PUBLISH = 0x1D
    PUBLISH_OK = 0x1E
    """Listed, but without a format of its own: the text makes it another word for REQUEST_OK."""
    SUBSCRIBE_NAMESPACE = 0x50
    SUBSCRIBE_TRACKS = 0x51
    SETUP = 0x2F00


# Parameters, options, properties


class SetupOptionType(IntEnum):
    """Setup parameters (draft 16) or setup options (draft 18); one space for all versions."""

    PATH = 0x01
    MAX_REQUEST_ID = 0x02
    AUTHORIZATION_TOKEN = 0x03
    MAX_AUTH_TOKEN_CACHE_SIZE = 0x04
    AUTHORITY = 0x05
    MOQT_IMPLEMENTATION = 0x07


class ParameterTypeD16(IntEnum):
    """Message parameters of draft 16 (moq-transport-16, 13.2)."""

    DELIVERY_TIMEOUT = 0x02
    AUTHORIZATION_TOKEN = 0x03
    EXPIRES = 0x08
    LARGEST_OBJECT = 0x09
    FORWARD = 0x10
    SUBSCRIBER_PRIORITY = 0x20
    SUBSCRIPTION_FILTER = 0x21
    GROUP_ORDER = 0x22
    NEW_GROUP_REQUEST = 0x32


class ParameterTypeD18(IntEnum):
    """Message parameters of draft 18 (moq-transport-18, 15.7)."""

    OBJECT_DELIVERY_TIMEOUT = 0x02
    AUTHORIZATION_TOKEN = 0x03
    RENDEZVOUS_TIMEOUT = 0x04
    SUBGROUP_DELIVERY_TIMEOUT = 0x06
    EXPIRES = 0x08
    LARGEST_OBJECT = 0x09
    FILL_TIMEOUT = 0x0A
    FORWARD = 0x10
    SUBSCRIBER_PRIORITY = 0x20
    SUBSCRIPTION_FILTER = 0x21
    GROUP_ORDER = 0x22
    NEW_GROUP_REQUEST = 0x32
    TRACK_NAMESPACE_PREFIX = 0x34


class PropertyTypeD16(IntEnum):
    """Extension headers of draft 16 (moq-transport-16, 13.3)."""

    DELIVERY_TIMEOUT = 0x02
    MAX_CACHE_DURATION = 0x04
    IMMUTABLE_EXTENSIONS = 0x0B
    DEFAULT_PUBLISHER_PRIORITY = 0x0E
    DEFAULT_PUBLISHER_GROUP_ORDER = 0x22
    DYNAMIC_GROUPS = 0x30
    PRIOR_GROUP_ID_GAP = 0x3C
    PRIOR_OBJECT_ID_GAP = 0x3E


class PropertyTypeD18(IntEnum):
    """Properties of draft 18 (moq-transport-18, 15.8), without those of other documents."""

    OBJECT_DELIVERY_TIMEOUT = 0x02
    MAX_CACHE_DURATION = 0x04
    SUBGROUP_DELIVERY_TIMEOUT = 0x06
    IMMUTABLE_PROPERTIES = 0x0B
    DEFAULT_PUBLISHER_PRIORITY = 0x0E
    DEFAULT_PUBLISHER_GROUP_ORDER = 0x22
    DYNAMIC_GROUPS = 0x30
    PRIOR_GROUP_ID_GAP = 0x3C
    PRIOR_OBJECT_ID_GAP = 0x3E


# Values inside messages


class AliasType(IntEnum):
    """What an authorization token does (moq-transport-16, 13.1)."""

    DELETE = 0x0
    REGISTER = 0x1
    USE_ALIAS = 0x2
    USE_VALUE = 0x3


class FilterType(IntEnum):
    """Where a subscription starts and ends (moq-transport-16, 5.1.2)."""

    NEXT_GROUP_START = 0x1
    LARGEST_OBJECT = 0x2
    ABSOLUTE_START = 0x3
    ABSOLUTE_RANGE = 0x4


class GroupOrder(IntEnum):
    """Which group goes first (moq-transport-16, 9.2.2.4)."""

    ASCENDING = 0x1
    DESCENDING = 0x2


class FetchType(IntEnum):
    """The three kinds of FETCH (moq-transport-16, 9.16)."""

    STANDALONE = 0x1
    RELATIVE_JOINING = 0x2
    ABSOLUTE_JOINING = 0x3


class SubscribeOptions(IntEnum):
    """What a SUBSCRIBE_NAMESPACE asks for (moq-transport-16, 9.25)."""

    PUBLISH = 0x0
    NAMESPACE = 0x1
    BOTH = 0x2


class ObjectStatus(IntEnum):
    """What an object without payload says (moq-transport-16, 10.2.1.1)."""

    NORMAL = 0x0
    END_OF_GROUP = 0x3
    END_OF_TRACK = 0x4


# Codes for errors


class SessionCode(IntEnum):
    """Session termination codes (moq-transport-16, 13.4.1; moq-transport-18, 15.10.1)."""

    NO_ERROR = 0x0
    INTERNAL_ERROR = 0x1
    UNAUTHORIZED = 0x2
    PROTOCOL_VIOLATION = 0x3
    INVALID_REQUEST_ID = 0x4
    DUPLICATE_TRACK_ALIAS = 0x5
    KEY_VALUE_FORMATTING_ERROR = 0x6
    TOO_MANY_REQUESTS = 0x7
    INVALID_PATH = 0x8
    MALFORMED_PATH = 0x9
    GOAWAY_TIMEOUT = 0x10
    CONTROL_MESSAGE_TIMEOUT = 0x11
    DATA_STREAM_TIMEOUT = 0x12
    AUTH_TOKEN_CACHE_OVERFLOW = 0x13
    DUPLICATE_AUTH_TOKEN_ALIAS = 0x14
    VERSION_NEGOTIATION_FAILED = 0x15
    MALFORMED_AUTH_TOKEN = 0x16
    UNKNOWN_AUTH_TOKEN_ALIAS = 0x17
    EXPIRED_AUTH_TOKEN = 0x18
    INVALID_AUTHORITY = 0x19
    MALFORMED_AUTHORITY = 0x1A


class RequestErrorCode(IntEnum):
    """Codes of REQUEST_ERROR (moq-transport-16, 13.4.2; moq-transport-18, 15.10.2)."""

    INTERNAL_ERROR = 0x0
    UNAUTHORIZED = 0x1
    TIMEOUT = 0x2
    NOT_SUPPORTED = 0x3
    MALFORMED_AUTH_TOKEN = 0x4
    EXPIRED_AUTH_TOKEN = 0x5
    GOING_AWAY = 0x6
    EXCESSIVE_LOAD = 0x9
    DOES_NOT_EXIST = 0x10
    INVALID_RANGE = 0x11
    MALFORMED_TRACK = 0x12
    DUPLICATE_SUBSCRIPTION = 0x19
    UNINTERESTED = 0x20
    PREFIX_OVERLAP = 0x30
    NAMESPACE_TOO_LARGE = 0x31
    INVALID_JOINING_REQUEST_ID = 0x32
    UNSUPPORTED_EXTENSION = 0x33
    REDIRECT = 0x34


class PublishDoneCodeD16(IntEnum):
    """Status codes of PUBLISH_DONE in draft 16 (moq-transport-16, 13.4.3)."""

    INTERNAL_ERROR = 0x0
    UNAUTHORIZED = 0x1
    TRACK_ENDED = 0x2
    SUBSCRIPTION_ENDED = 0x3
    GOING_AWAY = 0x4
    EXPIRED = 0x5
    TOO_FAR_BEHIND = 0x6
    UPDATE_FAILED = 0x8
    MALFORMED_TRACK = 0x12


class PublishDoneCodeD18(IntEnum):
    """Status codes of PUBLISH_DONE in draft 18: two swapped (moq-transport-18, 15.10.3)."""

    INTERNAL_ERROR = 0x0
    UNAUTHORIZED = 0x1
    TRACK_ENDED = 0x2
    SUBSCRIPTION_ENDED = 0x3
    GOING_AWAY = 0x4
    TOO_FAR_BEHIND = 0x5
    EXPIRED = 0x6
    UPDATE_FAILED = 0x8
    EXCESSIVE_LOAD = 0x9
    MALFORMED_TRACK = 0x12


class StreamResetCodeD16(IntEnum):
    """Codes that reset a data stream in draft 16 (moq-transport-16, 13.4.4)."""

    INTERNAL_ERROR = 0x0
    CANCELLED = 0x1
    DELIVERY_TIMEOUT = 0x2
    SESSION_CLOSED = 0x3
    UNKNOWN_OBJECT_STATUS = 0x4
    MALFORMED_TRACK = 0x12


class StreamResetCodeD18(IntEnum):
    """Codes that reset any stream in draft 18 (moq-transport-18, 15.10.4)."""

    INTERNAL_ERROR = 0x0
    CANCELLED = 0x1
    DELIVERY_TIMEOUT = 0x2
    SESSION_CLOSED = 0x3
    GOING_AWAY = 0x4
    TOO_FAR_BEHIND = 0x5
    UNKNOWN_OBJECT_STATUS = 0x6
    EXPIRED_AUTH_TOKEN = 0x7
    EXCESSIVE_LOAD = 0x9
    MALFORMED_TRACK = 0x12


PUBLISH_DONE_CODES: Final[Mapping[Draft, type[PublishDoneCodeD16 | PublishDoneCodeD18]]] = (
    MappingProxyType({Draft.D16: PublishDoneCodeD16, Draft.D18: PublishDoneCodeD18})
)
"""Status codes of PUBLISH_DONE, by draft."""

STREAM_RESET_CODES: Final[Mapping[Draft, type[StreamResetCodeD16 | StreamResetCodeD18]]] = (
    MappingProxyType({Draft.D16: StreamResetCodeD16, Draft.D18: StreamResetCodeD18})
)
"""Stream reset codes, by draft."""

ONLY: Final[Mapping[tuple[str, str], Draft]] = MappingProxyType(
    {
        ("SetupOptionType", "MAX_REQUEST_ID"): Draft.D16,
        ("SessionCode", "TOO_MANY_REQUESTS"): Draft.D16,
        ("RequestErrorCode", "GOING_AWAY"): Draft.D18,
        ("RequestErrorCode", "EXCESSIVE_LOAD"): Draft.D18,
        ("RequestErrorCode", "NAMESPACE_TOO_LARGE"): Draft.D18,
        ("RequestErrorCode", "UNSUPPORTED_EXTENSION"): Draft.D18,
        ("RequestErrorCode", "REDIRECT"): Draft.D18,
    }
)
"""Members of shared enumerations, as (enumeration, member), that only one draft has."""

_SHARED: Final[dict[str, type[IntEnum]]] = {
    "setup_options": SetupOptionType,
    "token_alias_types": AliasType,
    "filter_types": FilterType,
    "group_orders": GroupOrder,
    "fetch_types": FetchType,
    "object_statuses": ObjectStatus,
    "session_termination": SessionCode,
    "request_error": RequestErrorCode,
}
_OWN: Final[dict[Draft, dict[str, type[IntEnum]]]] = {
    Draft.D16: {
        "message_types": MessageTypeD16,
        "message_parameters": ParameterTypeD16,
        "properties": PropertyTypeD16,
        "publish_done": PublishDoneCodeD16,
        "stream_reset": StreamResetCodeD16,
        "subscribe_options": SubscribeOptions,
    },
    Draft.D18: {
        "message_types": MessageTypeD18,
        "message_parameters": ParameterTypeD18,
        "properties": PropertyTypeD18,
        "publish_done": PublishDoneCodeD18,
        "stream_reset": StreamResetCodeD18,
    },
}


def registries(draft: Draft) -> dict[str, dict[str, int]]:
    """All numbers of ``draft``: registry, then name, then value."""
    return {
        registry: {
            name: int(member)
            for name, member in enum.__members__.items()
            if ONLY.get((enum.__name__, name), draft) is draft
        }
        for registry, enum in (_SHARED | _OWN[draft]).items()
    }


_FIRST: Final = 0x9D
_STEP: Final = 0x7F
_LAST: Final = 0x3FFF_FFFF_FFFF_FFDE


def grease(n: int) -> int:
    """The reserved number for ``n``, from 0 on."""
    return _FIRST + _STEP * n


def is_grease(value: int) -> bool:
    """Whether ``value`` is reserved for greasing."""
    return _FIRST <= value <= _LAST and (value - _FIRST) % _STEP == 0
