"""What ends a MoQT session: one class for each session termination code of the drafts.

::

    RemoteError                            (laps_wire.errors)
    ├── ProtocolViolation           0x3
    │   ├── MalformedError          0x3    bytes that can never become a message
    │   └── UnknownMessageType      0x3    a control message that the draft does not have
    └── SessionTermination                 the drafts' other codes, each its own class
        ├── InternalError           0x1
        ├── Unauthorized            0x2
        ├── InvalidRequestId        0x4
        ├── DuplicateTrackAlias     0x5
        ├── KeyValueFormattingError 0x6
        ├── TooManyRequests         0x7    draft 16 only
        ├── InvalidPath             0x8
        ├── MalformedPath           0x9
        ├── GoawayTimeout           0x10
        ├── ControlMessageTimeout   0x11
        ├── DataStreamTimeout       0x12
        ├── AuthTokenCacheOverflow  0x13
        ├── DuplicateAuthTokenAlias 0x14
        ├── VersionNegotiationFailed 0x15
        ├── MalformedAuthToken      0x16
        ├── UnknownAuthTokenAlias   0x17
        ├── ExpiredAuthToken        0x18
        ├── InvalidAuthority        0x19
        └── MalformedAuthority      0x1A

NO_ERROR (0x0) has no class: nothing went wrong. The codes are those of (moq-transport-16, 13.4.1)
and (moq-transport-18, 15.10.1); draft 18 only drops TOO_MANY_REQUESTS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from laps_wire.errors import MalformedError, ProtocolViolation, RemoteError

__all__ = [
    "BY_CODE",
    "AuthTokenCacheOverflow",
    "ControlMessageTimeout",
    "DataStreamTimeout",
    "DuplicateAuthTokenAlias",
    "DuplicateTrackAlias",
    "ExpiredAuthToken",
    "GoawayTimeout",
    "InternalError",
    "InvalidAuthority",
    "InvalidPath",
    "InvalidRequestId",
    "KeyValueFormattingError",
    "MalformedAuthToken",
    "MalformedAuthority",
    "MalformedError",
    "MalformedPath",
    "ProtocolViolation",
    "SessionTermination",
    "TooManyRequests",
    "Unauthorized",
    "UnknownAuthTokenAlias",
    "UnknownMessageType",
    "VersionNegotiationFailed",
]


class UnknownMessageType(ProtocolViolation):
    """A control message of a type that the draft does not define.

    The drafts say to close the session and name no code; we use PROTOCOL_VIOLATION.
    """

    def __init__(self, message_type: int, draft: int, hint: str = "") -> None:
        why = f": it is {hint}" if hint else ""
        super().__init__(f"message type 0x{message_type:X} is not one of draft {draft}{why}")
        self.message_type = message_type
        self.draft = draft


class SessionTermination(RemoteError):  # noqa: N818 - the drafts' own words, here and below
    """A fault that has a session termination code of its own; raised as one of its subclasses."""


class InternalError(SessionTermination):
    """An implementation-specific error: the peer reported it, or we could not go on."""

    code: ClassVar[int] = 0x1


class Unauthorized(SessionTermination):
    """The client may not establish a session."""

    code: ClassVar[int] = 0x2


class InvalidRequestId(SessionTermination):
    """A request id of the wrong parity, out of sequence or used before."""

    code: ClassVar[int] = 0x4


class DuplicateTrackAlias(SessionTermination):
    """A track alias that already stands for another track."""

    code: ClassVar[int] = 0x5


class KeyValueFormattingError(SessionTermination):
    """A value that does not have the form that its type defines."""

    code: ClassVar[int] = 0x6

    def __init__(self, reason: str, *, field: str = "", offset: int | None = None) -> None:
        where = f"{field}: " if field else ""
        at = "" if offset is None else f" (at byte {offset})"
        super().__init__(f"{where}{reason}{at}")
        self.reason = reason
        self.field = field
        """The parameter whose value it is, as the draft names it."""
        self.offset = offset
        """Where in the input the value starts, if known."""


class TooManyRequests(SessionTermination):
    """A request id at or above the maximum that was granted (draft 16 only)."""

    code: ClassVar[int] = 0x7


class InvalidPath(SessionTermination):
    """A PATH from a server, over WebTransport, or one that is not served here."""

    code: ClassVar[int] = 0x8


class MalformedPath(SessionTermination):
    """A PATH that is not the path and query of a URI."""

    code: ClassVar[int] = 0x9


class GoawayTimeout(SessionTermination):
    """The peer took too long to leave after GOAWAY."""

    code: ClassVar[int] = 0x10


class ControlMessageTimeout(SessionTermination):
    """The peer took too long to answer a control message."""

    code: ClassVar[int] = 0x11


class DataStreamTimeout(SessionTermination):
    """The peer took too long to send what an open data stream needs next."""

    code: ClassVar[int] = 0x12


class AuthTokenCacheOverflow(SessionTermination):
    """Registered tokens need more room than MAX_AUTH_TOKEN_CACHE_SIZE gives."""

    code: ClassVar[int] = 0x13


class DuplicateAuthTokenAlias(SessionTermination):
    """A token registered under an alias that is in use."""

    code: ClassVar[int] = 0x14


class VersionNegotiationFailed(SessionTermination):
    """The client offered no version that the server speaks."""

    code: ClassVar[int] = 0x15


class MalformedAuthToken(SessionTermination):
    """A token that could be read but is not valid."""

    code: ClassVar[int] = 0x16


class UnknownAuthTokenAlias(SessionTermination):
    """A token alias under which nothing is registered."""

    code: ClassVar[int] = 0x17


class ExpiredAuthToken(SessionTermination):
    """A token that has expired."""

    code: ClassVar[int] = 0x18


class InvalidAuthority(SessionTermination):
    """An AUTHORITY from a server, over WebTransport, or one that is not served here."""

    code: ClassVar[int] = 0x19


class MalformedAuthority(SessionTermination):
    """An AUTHORITY that is not the authority of a URI."""

    code: ClassVar[int] = 0x1A


_CLASSES: Final[tuple[type[RemoteError], ...]] = (
    ProtocolViolation,
    *SessionTermination.__subclasses__(),
)

BY_CODE: Final[Mapping[int, type[RemoteError]]] = MappingProxyType(
    {cls.code: cls for cls in _CLASSES}
)
"""The class for a session termination code, for example one that a peer closed with."""
