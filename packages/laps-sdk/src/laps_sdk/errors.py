"""What the SDK and the transport raise, below the one tree of :mod:`laps_wire.errors`.

::

    LapsError
    ├── LocalError
    │   ├── StreamLimitError        the peer allows no more streams now
    │   └── StreamClosedError       writing to a stream that is finished, reset or gone
    └── TransportError              the world around us: neither side broke the protocol
        ├── ConnectError            no connection came about; says what was tried and why not
        └── ConnectionLostError     a connection ended; carries code, reason and who ended it

The client API adds its own classes in :mod:`laps_sdk.client.errors`.
"""

from __future__ import annotations

from laps_wire.errors import LapsError, LocalError

__all__ = [
    "ConnectError",
    "ConnectionLostError",
    "StreamClosedError",
    "StreamLimitError",
    "TransportError",
]


class StreamLimitError(LocalError, RuntimeError):
    """The peer allows no more streams of this kind now; ``StreamsAvailable`` tells when it does."""


class StreamClosedError(LocalError, RuntimeError):
    """The sending half of a stream is finished, reset or gone with its connection."""


class TransportError(LapsError):
    """Something between or below the two ends failed."""


class ConnectError(TransportError):
    """A connection could not be established."""

    def __init__(self, reason: str, *, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        """The code with which the relay closed the session at once, if it did."""


class ConnectionLostError(TransportError):
    """A connection that stood has ended."""

    def __init__(self, reason: str, *, code: int = 0, by_peer: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        """The application's close code, or the QUIC transport error."""
        self.by_peer = by_peer
