"""The options of ``connect``, checked once, and the delays between its attempts.

::

    attempt    0     1     2     3     4   ...
    longest   0.25  0.5   1.0   2.0   4.0  ... cap
    delay     longest * (1 - spread * jitter)

The jitter is an argument, so that tests can choose it. It keeps the clients of a restarted relay
from all connecting again at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from laps_sdk.quic.base import ConnectionLimits, EgressLimits
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens.constants import TOKEN_TYPE_CAT
from laps_sdk.tokens.envelope import from_text
from laps_wire.errors import EncodeError

if TYPE_CHECKING:
    from laps_sdk.quic.memory.network import MemoryNetwork

__all__ = ["CLIENT_EGRESS", "Backoff", "ConnectOptions", "TokenLike", "parse_pin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A schedule of delays, in seconds."""

    first: float = 0.25
    """The longest first delay."""
    factor: float = 2.0
    cap: float = 30.0
    """The longest delay."""
    spread: float = 0.5
    """The largest share of a delay that jitter removes, 0 to 1."""

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.cap and self.factor >= 1 and 0 <= self.spread <= 1):
            raise ValueError(
                f"{self}: must have 0 < first <= cap, factor >= 1 and a spread from 0 to 1"
            )

    def delay(self, attempt: int, jitter: float) -> float:
        """Return the delay before an attempt, counted from 0; ``jitter`` is from 0 to 1."""
        longest = self.first
        for _ in range(attempt):
            longest *= self.factor
            if longest >= self.cap:
                longest = self.cap
                break
        return longest * (1 - self.spread * jitter)


TokenLike: TypeAlias = "str | bytes | Callable[[], str | bytes] | None"
"""A token (bytes, or text as ``laps token mint`` prints it), or a function that returns one for
each connection."""


CLIENT_EGRESS: Final = EgressLimits(max_bytes=1 << 30)
"""The limit is never reached: writers of a client wait while the connection is congested, so no
written object is dropped for lack of room."""


def parse_pin(text: str) -> bytes:
    """Return the SHA-256 of a certificate from hex digits, with or without colons."""
    digits = text.replace(":", "").strip()
    try:
        pin = bytes.fromhex(digits)
    except ValueError:
        pin = b""
    if len(pin) != 32:
        raise EncodeError(
            f"pin {text!r}: must be the 64 hex digits that 'laps-relay dev-cert' prints"
        )
    return pin


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """The arguments of :func:`laps_sdk.connect`, checked."""

    ca_file: str | None = None
    pin: str | None = None
    insecure: bool = False
    token: TokenLike = None
    token_type: int = TOKEN_TYPE_CAT
    transport: Backend = "aioquic"
    drafts: tuple[str, ...] = DRAFTS
    reconnect: bool = True
    timeout: float = 10.0
    backoff: Backoff = field(default_factory=Backoff)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    egress: EgressLimits = CLIENT_EGRESS
    drain_timeout: float = 5.0
    top_n: int | None = None
    network: MemoryNetwork | None = None

    def __post_init__(self) -> None:
        unknown = [draft for draft in self.drafts if draft not in DRAFTS]
        if unknown or not self.drafts:
            spoken = ", ".join(DRAFTS)
            raise EncodeError(f"drafts {self.drafts!r}: must be one or more of {spoken}")
        if self.insecure and (self.ca_file or self.pin):
            raise EncodeError("insecure accepts any certificate: omit ca_file and pin")
        if self.timeout <= 0:
            raise EncodeError(f"timeout {self.timeout}: must be more than 0 seconds")
        if self.pin is not None:
            parse_pin(self.pin)
        if self.top_n is not None and self.top_n < 1:
            raise EncodeError(f"top_n {self.top_n}: must be 1 or more")

    def token_value(self) -> bytes | None:
        """Return the token for the next connection as bytes; a CAT as text is base64url."""
        token = self.token() if callable(self.token) else self.token
        if not isinstance(token, str):
            return token
        return from_text(token) if self.token_type == TOKEN_TYPE_CAT else token.encode()
