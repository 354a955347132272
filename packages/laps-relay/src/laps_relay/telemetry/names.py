"""Names in logs and telemetry: keyed hashes by default, so that names stay private.

Relays with the same key give a track the same hash. Without a configured key each start makes its
own, and hashes of different starts cannot be joined.
"""

from __future__ import annotations

import os
from hashlib import blake2b

from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import hashed_id

__all__ = ["Names"]


class Names:
    """Formats names for logs and telemetry as configured."""

    __slots__ = ("_hasher", "plain")

    def __init__(
        self,
        key: bytes | None = None,
        *,
        plain: bool = False,
        hasher: KeyedHasher | None = None,
    ) -> None:
        """``hasher`` is the network's: its relays name tracks alike without a key of their own."""
        # Any length of key will do: it is hashed to the length that the hasher takes.
        own = KeyedHasher(blake2b(key).digest() if key else os.urandom(32))
        self._hasher = own if key or hasher is None else hasher
        self.plain = plain
        """Whether logs show names as they are; telemetry never does."""

    def hashed(self, name: FullTrackName | Namespace) -> str:
        """Return 16 hex digits, as telemetry writes them."""
        if isinstance(name, FullTrackName):
            return f"{self._hasher.full_name(name.namespace.fields, name.name):016x}"
        return self._hasher.end_check(name.fields, b"").hex()[:16]

    def hashed_text(self, text: str) -> str:
        """Return the hash of an id that a player chose, such as that of its content."""
        return hashed_id(self._hasher, text)

    def logged(self, name: FullTrackName | Namespace) -> str:
        """Return the name for a log line: hashed, or plain if that is configured."""
        return str(name) if self.plain else self.hashed(name)
