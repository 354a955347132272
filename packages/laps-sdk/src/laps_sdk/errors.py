"""Exceptions of the SDK, below the one tree of :mod:`laps_wire.errors`.

::

    LapsError
    ├── LocalError
    │   ├── StreamLimitError            the peer allows no more streams now
    │   ├── StreamClosedError           a write to a stream that is finished, reset or gone
    │   ├── DatagramTooLargeError       (ValueError) the object does not fit into a datagram
    ├── RequestError                    one request failed; the message names the request
    │   ├── RequestRefusedError         the relay refused it: code, its name, reason, retry_after
    │   ├── RequestTimeoutError         (TimeoutError) no answer in time
    │   └── SubscriptionEndedError      the publisher or the relay ended it with an error
    └── TransportError                  the network or the other end failed
        ├── ConnectError                no connection could be made; lists what was tried
        └── ConnectionLostError         a connection ended; carries code, reason and who ended it
            └── SessionClosedError      the session is over: by us, by the relay, or for good
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from laps_wire.errors import LapsError, LocalError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode, SessionCode

if TYPE_CHECKING:
    from laps_wire.moqt.messages import PublishDone
    from laps_wire.moqt.messages import RequestError as RequestErrorMessage
    from laps_wire.moqt.versions import Draft

__all__ = [
    "ConnectError",
    "ConnectionLostError",
    "DatagramTooLargeError",
    "RequestError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "SessionClosedError",
    "StreamClosedError",
    "StreamLimitError",
    "SubscriptionEndedError",
    "TransportError",
    "code_name",
]


def code_name(code: int, codes: type[IntEnum]) -> str:
    """Return the name of a code, or its number in hex if the code is not registered."""
    try:
        return codes(code).name
    except ValueError:
        return f"{code:#x}"


# Streams and connections


class StreamLimitError(LocalError, RuntimeError):
    """The peer allows no more streams of this kind; ``StreamsAvailable`` reports when it does."""


class StreamClosedError(LocalError, RuntimeError):
    """The sending half of a stream is finished, reset or gone with its connection."""


class TransportError(LapsError):
    """The network or the other end failed; neither side broke the protocol."""


class ConnectError(TransportError):
    """A connection could not be established."""

    def __init__(self, reason: str, *, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        """The code with which the relay closed the session right away, if it did."""


class ConnectionLostError(TransportError):
    """An established connection has ended."""

    def __init__(self, reason: str, *, code: int = 0, by_peer: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        """The application's close code, or the QUIC transport error."""
        self.by_peer = by_peer
        """Whether the peer closed the connection."""


class SessionClosedError(ConnectionLostError):
    """The session is over, and every track and subscription in it."""

    @classmethod
    def of(cls, code: int, reason: str, *, by_peer: bool) -> SessionClosedError:
        """Build the error from the code and reason that ended the connection."""
        who = "the relay" if by_peer else "this side"
        name = code_name(code, SessionCode)
        because = f": {reason}" if reason else ""
        return cls(f"session closed by {who} with {name}{because}", code=code, by_peer=by_peer)


# Requests


class RequestError(LapsError):
    """One request failed."""


class RequestRefusedError(RequestError):
    """The relay answered a request with REQUEST_ERROR."""

    def __init__(self, what: str, message: RequestErrorMessage) -> None:
        self.code = message.error_code
        self.code_name = code_name(message.error_code, RequestErrorCode)
        """The draft's name for the code."""
        self.reason = message.reason
        self.retry_after = (message.retry_interval - 1) / 1000 if message.retry_interval else None
        """Seconds after which another try may succeed; None: do not try again."""
        self.redirect = message.redirect
        because = f": {message.reason}" if message.reason else ""
        super().__init__(f"{what}: the relay answered {self.code_name}{because}")


class RequestTimeoutError(RequestError, TimeoutError):
    """The relay did not answer in time."""


class SubscriptionEndedError(RequestError):
    """A subscription ended before its track did."""

    def __init__(self, what: str, message: PublishDone, draft: Draft) -> None:
        self.code = message.status_code
        self.code_name = code_name(message.status_code, PUBLISH_DONE_CODES[draft])
        """The draft's name for the code."""
        self.reason = message.reason
        because = f": {message.reason}" if message.reason else ""
        super().__init__(f"{what}: the relay ended it with {self.code_name}{because}")


# Arguments


class DatagramTooLargeError(LocalError, ValueError):
    """An object does not fit into a datagram on this path."""
