"""Stateless resets: tell a peer that its connection is gone (RFC 9000, 10.3).

::

    packet to an id that nobody has --> answer: random bytes | token        at most 42 bytes
                                                               '-- keyed hash of the id
    our ids, with their tokens      --> transport parameters, NEW_CONNECTION_ID

An endpoint that was restarted has lost its connections but still has its key. It computes the token
of an id from the packet alone, and the peer recognises the token. Only an endpoint that has the key
can end a connection in this way.

An answer is shorter than its cause, so two endpoints never answer each other for ever. A rate limit
bounds the cost of a flood.
"""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_bytes
from typing import Final

__all__ = ["SHORTEST", "TOKEN_LENGTH", "StatelessResets", "reset_token"]

TOKEN_LENGTH: Final = 16
_ID_LENGTH: Final = 8
SHORTEST: Final = 5 + TOKEN_LENGTH
"""Bytes of the shortest reset: 38 unpredictable bits and the token."""
LONGEST: Final = 42
"""Bytes of the longest reset, about those of a packet with an acknowledgement."""
RATE: Final = 1000.0
"""Resets per second, and at once."""


def reset_token(key: bytes, connection_id: bytes) -> bytes:
    """Return the token of one of our connection ids."""
    return blake2b(connection_id, key=key[:64], digest_size=TOKEN_LENGTH).digest()


class StatelessResets:
    """Makes the answers of one endpoint."""

    __slots__ = ("_key", "_left", "_since")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._left = RATE
        self._since = 0.0

    def answer(self, datagram: bytes, now: float) -> bytes | None:
        """Return the reset for a packet with a short header; None if there is no answer."""
        size = min(len(datagram) - 1, LONGEST)
        if size < SHORTEST:
            return None
        self._left = min(RATE, self._left + (now - self._since) * RATE)
        self._since = now
        if self._left < 1.0:
            return None
        self._left -= 1.0
        noise = bytearray(token_bytes(size - TOKEN_LENGTH))
        noise[0] = noise[0] & 0x3F | 0x40  # a short header
        return bytes(noise) + reset_token(self._key, datagram[1 : 1 + _ID_LENGTH])
