"""Setup parameters (draft 16) and setup options (draft 18): what endpoints tell at the start.

Both are Key-Value-Pairs in one number space that never changes between versions. A type that we do
not know is ignored and may repeat, and is kept in ``unknown``; one that we know may not repeat,
except for AUTHORIZATION_TOKEN (moq-transport-16, 9.2; moq-transport-18, 10.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.structures import Token

__all__ = ["NO_OPTIONS", "SetupOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """The options of one SETUP; what is None was not sent."""

    path: str | None = None
    """0x01, from clients over native QUIC: path and query of the URI."""
    max_request_id: int | None = None
    """0x02, draft 16: the first request id that the peer may not use; absent means 0."""
    authorization_tokens: tuple[Token, ...] = ()
    """0x03: may repeat."""
    max_auth_token_cache_size: int | None = None
    """0x04: bytes of tokens that the sender will remember; absent means 0."""
    authority: str | None = None
    """0x05, from clients over native QUIC: the authority of the URI."""
    moqt_implementation: str | None = None
    """0x07: name and version of the sender's software."""
    unknown: KeyValues = ()
    """Everything else, in ascending order of type."""


NO_OPTIONS: Final = SetupOptions()
"""A SETUP that says nothing."""
