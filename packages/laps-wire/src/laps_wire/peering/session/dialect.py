"""What differs between the peering protocols: a dialect is a strategy, the session is one.

A dialect knows bytes and messages. It says of what :class:`~laps_wire.peering.session.state.Kind` a
message is, what event it becomes, how a subscriber node set is put into messages, and how the
handshake goes. It keeps no state; the handshake does, and only until the session is established.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import (
    VERSION_2_0,
    AuthScheme,
    Bases,
    Direction,
    Mode,
)
from laps_wire.peering.laps2.handshake import Evidence
from laps_wire.peering.laps2.limits import AUTH_CHALLENGE_BYTES, SPKI_HASH_BYTES
from laps_wire.peering.laps2.node import NodeInfo
from laps_wire.peering.laps2.settings import Settings
from laps_wire.peering.session.events import Agreement, AuthenticationRequired, Event
from laps_wire.peering.session.sns import SnsDiff, SnsRejection, SnsSet
from laps_wire.peering.session.state import Kind, Role, Shape

__all__ = [
    "DEFAULT_SETTINGS",
    "HANDSHAKE_SECONDS",
    "Dialect",
    "Handshake",
    "SessionConfig",
    "SnsChange",
    "SnsDescription",
    "SnsEnd",
    "SnsOperation",
]

HANDSHAKE_SECONDS: Final = 10.0
"""How long each step of a handshake may take, if not said otherwise."""

DEFAULT_SETTINGS: Final = Settings()
"""What a relay holds for a peer, if not said otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What one side brings to a session."""

    role: Role
    node_info: NodeInfo
    """We ourselves, with an empty path."""
    challenge: bytes
    """32 random bytes, for this session only; the peer proves itself over them."""
    mode: Mode = Mode.BOTH
    """Dialler: the most to ask for. Listener: the most to grant."""
    direction: Direction = Direction.BIDIRECTIONAL
    """As with the mode: the most to ask for or to grant."""
    settings: Settings = DEFAULT_SETTINGS
    features: tuple[int, ...] = ()
    """The features that we would use, ascending."""
    versions: tuple[int, ...] = (VERSION_2_0,)
    """The versions that we speak, ascending."""
    schemes: tuple[int, ...] = (AuthScheme.NONE,)
    """The authentication schemes in which we prove ourselves and check proofs, ascending."""
    spki_hash: bytes = bytes(SPKI_HASH_BYTES)
    """SHA-256 of the listener's TLS key, as this side of the TLS handshake sees it."""
    handshake_seconds: float = HANDSHAKE_SECONDS
    """How long each step of the handshake may take."""

    def __post_init__(self) -> None:
        """Refuse here what would otherwise fail in the middle of a handshake."""
        for name, size in (("challenge", AUTH_CHALLENGE_BYTES), ("spki_hash", SPKI_HASH_BYTES)):
            if len(getattr(self, name)) != size:
                raise EncodeError(f"{name}: {len(getattr(self, name))} bytes where {size} belong")
        for name in ("versions", "features", "schemes"):
            values = getattr(self, name)
            if any(left >= right for left, right in pairwise(values)):
                raise EncodeError(f"{name}: {values} must strictly ascend")
            if not values and name != "features":
                raise EncodeError(f"{name}: at least one is needed")
        if self.node_info.path:
            raise EncodeError("node_info: a node that speaks for itself has an empty path")


# What a message about subscriber node sets means


@dataclass(frozen=True, slots=True)
class SnsDescription:
    """A set, whole."""

    sns_id: int
    version: int | None
    """``None`` if the dialect has no versions."""
    targets: tuple[NodeId, ...]
    hops: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True)
class SnsChange:
    """A change to a set."""

    sns_id: int
    version: int
    add: tuple[NodeId, ...]
    remove: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class SnsEnd:
    """A set is over."""

    sns_id: int


SnsOperation: TypeAlias = "SnsDescription | SnsChange | SnsEnd"


class Handshake(Protocol):
    """One side's handshake. Methods named ``on_`` raise a ``RemoteError`` for the peer's faults."""

    def connect(self) -> Any:
        """Dialler: the first message."""
        ...

    def on_connect(self, message: Any) -> Any | AuthenticationRequired:
        """Listener: the challenge to send, or what to ask the application right away."""
        ...

    def on_challenge(self, message: Any) -> AuthenticationRequired:
        """Dialler: what to ask the application."""
        ...

    def transcript(self, mode: Mode, direction: Direction, evidence: Evidence) -> bytes:
        """What this side has to sign for that evidence; its signature is not looked at."""
        ...

    def prove(self, mode: Mode, direction: Direction, evidence: Evidence) -> Any:
        """Dialler: the proof to send."""
        ...

    def on_proof(self, message: Any) -> AuthenticationRequired:
        """Listener: what to ask the application."""
        ...

    def respond(self, mode: Mode, direction: Direction, evidence: Evidence) -> Any:
        """Listener: the acceptance to send."""
        ...

    def on_response(self, message: Any) -> AuthenticationRequired:
        """Dialler: what to ask the application."""
        ...

    def agreement(self) -> Agreement:
        """What was agreed on, once both sides have accepted."""
        ...


class Dialect(Protocol):
    """One peering protocol."""

    @property
    def alpn(self) -> str:
        """The ALPN token under which it is spoken."""
        ...

    @property
    def shape(self) -> Shape:
        """How sessions are established."""
        ...

    @property
    def single_stream(self) -> bool:
        """Whether stream 0 is the control stream for ever."""
        ...

    @property
    def single_messages(self) -> bool:
        """Whether each control message must leave by itself."""
        ...

    @property
    def checks_types(self) -> bool:
        """Whether relay types bind: a Stub of the C++ relay behaves like an Edge."""
        ...

    @property
    def first_sns_id(self) -> int:
        """The first id that a sender gives to a set."""
        ...

    @property
    def ordered_sns(self) -> bool:
        """Whether ids of sets only grow."""
        ...

    def handshake(self, config: SessionConfig) -> Handshake:
        """Begin a handshake."""
        ...

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[Any, int]:
        """The message at ``pos`` of a stream's bytes, and the position after it."""
        ...

    def encode(self, message: Any, max_size: int) -> bytes:
        """A message as bytes."""
        ...

    def kind(self, message: Any) -> Kind | None:
        """What a message is; ``None`` for something that is no message of this dialect."""
        ...

    def event(self, now: float, message: Any) -> Event | None:
        """What to tell the application, for messages that do nothing else."""
        ...

    def refusal(
        self, code: int, reason: str, retry_after_ms: int, redirect: tuple[str, ...]
    ) -> Any:
        """The message with which a listener refuses."""
        ...

    def keepalive(self) -> Any | None:
        """A message that says nothing; ``None`` if there is none."""
        ...

    def latch(self, generation: int) -> Any:
        """The first message on a new control stream."""
        ...

    def generation(self, message: Any) -> int | None:
        """The generation in such a message; ``None`` for any other message."""
        ...

    def drain(self, seconds: float, reason: str, alternates: tuple[str, ...]) -> Any | None:
        """The message that announces our end; ``None`` if there is none."""
        ...

    def stay(self) -> Any | None:
        """The message that takes it back; ``None`` if there is none."""
        ...

    def sync(self, bases: Bases, *, begin: bool) -> Any | None:
        """The message around a synchronisation; ``None`` if there is none."""
        ...

    def read_sns(self, message: Any) -> Sequence[SnsOperation]:
        """What a message about sets means."""
        ...

    def write_sns(self, steps: Sequence[SnsDiff], now: SnsSet, *, whole: bool) -> Sequence[Any]:
        """The messages that describe (``whole``) or change a set."""
        ...

    def write_sns_end(self, sns_id: int) -> Any:
        """The message that ends a set."""
        ...

    def write_sns_refusal(self, rejection: SnsRejection) -> Any | None:
        """The message that says that a set is not served; ``None`` if there is none."""
        ...
