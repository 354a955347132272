"""The configuration of a session: role, transport, limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["Role", "SessionConfig", "SessionLimits", "Transport"]


class Role(Enum):
    """The end of the connection: client or server."""

    CLIENT = 0
    SERVER = 1

    @property
    def first_request_id(self) -> int:
        """0 for clients, 1 for servers; also the parity of their request ids."""
        return self.value

    @property
    def peer(self) -> Role:
        """The other end."""
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class Transport(Enum):
    """The transport of the session; only native QUIC has PATH and AUTHORITY in SETUP."""

    QUIC = "QUIC"
    WEBTRANSPORT = "WebTransport"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits on the memory that a peer can use in a session."""

    max_requests: int = 256
    """Open requests of the peer; draft 16 announces it in MAX_REQUEST_ID."""
    max_updates: int = 16
    """Unanswered updates of one request; one more ends the request."""
    max_namespaces: int = 4096
    """Namespaces that the peer may advertise for one SUBSCRIBE_NAMESPACE of ours."""
    max_early_bytes: int = 64 * 1024
    """Bytes on request streams held until SETUP arrives; a stream above it is reset."""
    max_token_cache: int = 8 * 1024
    """MAX_AUTH_TOKEN_CACHE_SIZE: bytes of registered tokens, 16 for each and its value."""
    max_ended: int = 256
    """Ended requests that are remembered, to recognise late messages about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """A session's side, transport and limits."""

    draft: Draft
    role: Role
    transport: Transport = Transport.QUIC
    options: SetupOptions = NO_OPTIONS
    """The options of our SETUP; the session sets MAX_REQUEST_ID, MAX_AUTH_TOKEN_CACHE_SIZE."""
    limits: SessionLimits = SessionLimits()
    extensions: frozenset[int] = frozenset()
    """Draft 16: message parameters that ``options.unknown`` negotiates; kept as raw pairs."""
