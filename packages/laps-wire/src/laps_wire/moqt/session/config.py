"""What a session is told when it is made: its side, its transport, its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["Role", "SessionConfig", "SessionLimits", "Transport"]


class Role(Enum):
    """Which end of the connection we are."""

    CLIENT = 0
    SERVER = 1

    @property
    def first_request_id(self) -> int:
        """0 for clients, 1 for servers: also the parity of all their request ids."""
        return self.value

    @property
    def peer(self) -> Role:
        """The other end."""
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class Transport(Enum):
    """What carries the session; PATH and AUTHORITY are only for native QUIC."""

    QUIC = "QUIC"
    WEBTRANSPORT = "WebTransport"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """How much of its memory a session lends to its peer."""

    max_requests: int = 256
    """Requests of the peer that may be open at a time; draft 16 tells it in MAX_REQUEST_ID."""
    max_updates: int = 16
    """Updates of one request that may wait for our answer; one more ends the request."""
    max_namespaces: int = 4096
    """Namespaces that the peer may advertise for one SUBSCRIBE_NAMESPACE of ours."""
    max_early_bytes: int = 64 * 1024
    """Bytes on request streams that are held until SETUP arrives; a stream over it is reset."""
    max_token_cache: int = 8 * 1024
    """MAX_AUTH_TOKEN_CACHE_SIZE: bytes of registered tokens, 16 for each and its value."""
    max_ended: int = 256
    """Requests that are over but remembered, so that late messages about them are understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """A session's side, transport and limits."""

    draft: Draft
    role: Role
    transport: Transport = Transport.QUIC
    options: SetupOptions = NO_OPTIONS
    """What our SETUP says. The session fills in MAX_REQUEST_ID and MAX_AUTH_TOKEN_CACHE_SIZE."""
    limits: SessionLimits = SessionLimits()
    extensions: frozenset[int] = frozenset()
    """Draft 16: message parameters that ``options.unknown`` negotiates; kept as raw pairs."""
