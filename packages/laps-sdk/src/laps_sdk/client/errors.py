"""What the client API raises, below the tree of :mod:`laps_sdk.errors`.

::

    LapsError
    ├── RequestError                    about one request; says what was asked
    │   ├── RequestRefusedError         the relay said no: code, its name, reason, retry_after
    │   ├── RequestTimeoutError         (TimeoutError) no answer in time
    │   └── SubscriptionEndedError      the publisher or the relay ended it with a fault
    ├── DatagramTooLargeError           (LocalError)  does not fit the path
    └── TransportError
        ├── ConnectError                no connection came about
        └── ConnectionLostError
            └── SessionClosedError      the session is over: by us, by the relay, or for good
"""

from __future__ import annotations

from enum import IntEnum

from laps_sdk.errors import ConnectError, ConnectionLostError
from laps_wire.errors import LapsError, LocalError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode, SessionCode
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
    "SubscriptionEndedError",
    "code_name",
]


def code_name(code: int, codes: type[IntEnum]) -> str:
    """The name of a code, or its number if nobody registered it."""
    try:
        return codes(code).name
    except ValueError:
        return f"{code:#x}"


class RequestError(LapsError):
    """Something about one request."""


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
    """A subscription ended otherwise than with the end of its track."""

    def __init__(self, what: str, message: PublishDone, draft: Draft) -> None:
        self.code = message.status_code
        self.code_name = code_name(message.status_code, PUBLISH_DONE_CODES[draft])
        self.reason = message.reason
        because = f": {message.reason}" if message.reason else ""
        super().__init__(f"{what}: the relay ended it with {self.code_name}{because}")


class DatagramTooLargeError(LocalError, ValueError):
    """An object does not fit into a datagram on this path."""


class SessionClosedError(ConnectionLostError):
    """The session is over, and so is everything in it."""

    @classmethod
    def of(cls, code: int, reason: str, *, by_peer: bool) -> SessionClosedError:
        """From what ended the connection."""
        who = "the relay" if by_peer else "this side"
        name = code_name(code, SessionCode)
        because = f": {reason}" if reason else ""
        return cls(f"session closed by {who} with {name}{because}", code=code, by_peer=by_peer)
