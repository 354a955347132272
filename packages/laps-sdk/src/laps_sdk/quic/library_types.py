"""Words that the backends of aioquic and qh3 share."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst

__all__ = [
    "CONNECTION_ID_LENGTH",
    "DATAGRAM_FRAME_OVERHEAD",
    "Ending",
    "LibraryQuic",
    "Setup",
    "bursts_of",
]

CONNECTION_ID_LENGTH: Final = 8
"""Of all ids that we hand out, those in a Retry included: short headers do not tell it."""
DATAGRAM_FRAME_OVERHEAD: Final = 3
"""Type and a two-byte length (RFC 9221, 4)."""


class LibraryQuic(Protocol):
    """The public methods that both libraries' connections have."""

    host_cid: bytes

    def close(self, error_code: int = ..., frame_type: Any = ..., reason_phrase: str = ...) -> None:
        """Close."""

    def get_timer(self) -> float | None:
        """Return when to call ``handle_timer``."""

    def handle_timer(self, now: float) -> None:
        """Tell that the time has come."""

    def next_event(self) -> Any:
        """Return an event, or None."""

    def reset_stream(self, stream_id: int, error_code: int) -> None:
        """Reset."""

    def stop_stream(self, stream_id: int, error_code: int) -> None:
        """Stop."""

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = ...) -> None:
        """Write."""


class Setup(NamedTuple):
    """What a connection knows from its beginning."""

    is_client: bool
    alpn: tuple[str, ...]
    """What we offer, or what we take."""
    server_name: str
    """What a client asks for; a server learns it."""
    initial_id: bytes | None
    """A server: the id under which the client sends until it has heard from us."""
    server_key_hash: bytes = b""
    """A server's own; a client learns it."""


class Ending(NamedTuple):
    """Why a library's connection is closing."""

    code: int
    frame_type: int | None
    reason: str
    by_peer: bool


def bursts_of(datagrams: list[tuple[bytes, Address]]) -> list[Burst]:
    """Runs of datagrams for one address."""
    if not datagrams:
        return []
    address = datagrams[0][1]
    run = [data for data, to in datagrams if to == address]
    if len(run) == len(datagrams):
        return [Burst(run, address)]
    bursts: list[Burst] = []
    for data, to in datagrams:
        if not bursts or bursts[-1].address != to:
            bursts.append(Burst([], to))
        bursts[-1].datagrams.append(data)
    return bursts
