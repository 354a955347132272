"""The interface between a session and a peering protocol: a dialect is a strategy of the session.

A dialect maps bytes to messages, and messages to a
:class:`~laps_wire.peering.session.state.Kind`. It turns messages into events, writes subscriber
node sets as messages, and begins handshakes. A dialect has no state. A handshake has state until
the session is established.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import (
    AUTH_CHALLENGE_BYTES,
    SPKI_HASH_BYTES,
    VERSION_2_0,
    AuthScheme,
    Bases,
    Direction,
    Mode,
    SnsRefusal,
)
from laps_wire.peering.laps2.handshake import Evidence, Settings
from laps_wire.peering.laps2.information import NodeInfo
from laps_wire.peering.session.events import Agreement, AuthenticationRequired, Event
from laps_wire.peering.session.state import Kind, Role, Shape

__all__ = [
    "DEFAULT_SETTINGS",
    "HANDSHAKE_SECONDS",
    "Dialect",
    "Handshake",
    "NodeSet",
    "SessionConfig",
    "SnsChange",
    "SnsDescription",
    "SnsDiff",
    "SnsEnd",
    "SnsOperation",
    "SnsRejection",
    "SnsSet",
]

HANDSHAKE_SECONDS: Final = 10.0
"""The default time limit of each step of a handshake."""

DEFAULT_SETTINGS: Final = Settings()
"""The default settings of a relay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The configuration of one side of a session."""

    role: Role
    node_info: NodeInfo
    """The node information of this side, with an empty path."""
    challenge: bytes
    """32 random bytes, for this session only; the peer's proof covers them."""
    mode: Mode = Mode.BOTH
    """Dialler: the widest mode to ask for. Listener: the widest mode to grant."""
    direction: Direction = Direction.BIDIRECTIONAL
    """Dialler: the widest direction to ask for. Listener: the widest one to grant."""
    settings: Settings = DEFAULT_SETTINGS
    features: tuple[int, ...] = ()
    """The features that this side supports, ascending."""
    versions: tuple[int, ...] = (VERSION_2_0,)
    """The versions that this side supports, ascending."""
    schemes: tuple[int, ...] = (AuthScheme.NONE,)
    """The authentication schemes that this side can use and verify, ascending."""
    spki_hash: bytes = bytes(SPKI_HASH_BYTES)
    """SHA-256 of the listener's TLS key, as this side of the TLS handshake received it."""
    handshake_seconds: float = HANDSHAKE_SECONDS
    """How long each step of the handshake may take."""
    keepalive_seconds: float = 0.0
    """The silence after which KEEPALIVE is sent, at most half of the hold time; 0: a quarter."""

    def __post_init__(self) -> None:
        """Raise ``EncodeError`` for values that would make the handshake fail later."""
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


# Subscriber node sets, as they pass between a session and its dialect


@dataclass(frozen=True, slots=True)
class SnsSet:
    """One subscriber node set."""

    sns_id: int
    version: int
    targets: NodeSet
    hops: int = 0
    """The depth of the chain of sets: 0 at the o-relay."""
    scope: str = ""
    """The class of service that policy gave the data; "" if none."""

    @property
    def ordered(self) -> tuple[NodeId, ...]:
        """The targets, lowest first, as on the wire."""
        return tuple(sorted(self.targets))


NodeSet: TypeAlias = frozenset[NodeId]
"""Targets of a set."""


@dataclass(frozen=True, slots=True)
class SnsDiff:
    """A change of a set: disjoint, ascending targets. False if nothing changed."""

    sns_id: int
    version: int
    added: tuple[NodeId, ...] = ()
    removed: tuple[NodeId, ...] = ()

    @classmethod
    def between(cls, sns_id: int, version: int, old: NodeSet, new: NodeSet) -> SnsDiff:
        """Return the change from ``old`` to ``new``."""
        return cls(sns_id, version, tuple(sorted(new - old)), tuple(sorted(old - new)))

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True)
class SnsRejection:
    """A set that the receiver does not serve; the session continues."""

    sns_id: int
    version: int
    code: SnsRefusal
    targets: tuple[NodeId, ...] = ()
    """The targets that are not served; empty: the whole set."""
    removed: tuple[NodeId, ...] = ()
    """The targets that were served before."""


# The content of a message about subscriber node sets


@dataclass(frozen=True, slots=True)
class SnsDescription:
    """A complete set."""

    sns_id: int
    version: int | None
    """None if the dialect has no versions."""
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
    """The end of a set."""

    sns_id: int


SnsOperation: TypeAlias = "SnsDescription | SnsChange | SnsEnd"


class Handshake(Protocol):
    """One side of a handshake. ``on_`` methods raise ``RemoteError`` for faults of the peer."""

    def connect(self) -> Any:
        """Return the first message (dialler)."""
        ...

    def on_connect(self, message: Any) -> Any | AuthenticationRequired:
        """Return the challenge to send, or a request to the application (listener)."""
        ...

    def on_challenge(self, message: Any) -> AuthenticationRequired:
        """Return a request to the application (dialler)."""
        ...

    def transcript(self, mode: Mode, direction: Direction, evidence: Evidence) -> bytes:
        """Return the bytes that this side signs for ``evidence``, whose signature is ignored."""
        ...

    def prove(self, mode: Mode, direction: Direction, evidence: Evidence) -> Any:
        """Return the proof to send (dialler)."""
        ...

    def on_proof(self, message: Any) -> AuthenticationRequired:
        """Return a request to the application (listener)."""
        ...

    def respond(self, mode: Mode, direction: Direction, evidence: Evidence) -> Any:
        """Return the acceptance to send (listener)."""
        ...

    def on_response(self, message: Any) -> AuthenticationRequired:
        """Return a request to the application (dialler)."""
        ...

    def agreement(self) -> Agreement:
        """Return the agreement, after both sides have accepted."""
        ...


class Dialect(Protocol):
    """One peering protocol."""

    @property
    def alpn(self) -> str:
        """The ALPN token of the protocol."""
        ...

    @property
    def shape(self) -> Shape:
        """How sessions are established."""
        ...

    @property
    def single_stream(self) -> bool:
        """Whether stream 0 is always the control stream."""
        ...

    @property
    def single_messages(self) -> bool:
        """Whether each control message must be sent separately."""
        ...

    @property
    def checks_types(self) -> bool:
        """Whether rights depend on relay types; a Stub of the C++ relay behaves like an Edge."""
        ...

    @property
    def first_sns_id(self) -> int:
        """The ID of the first set of a sender."""
        ...

    @property
    def ordered_sns(self) -> bool:
        """Whether IDs of sets only grow."""
        ...

    def handshake(self, config: SessionConfig) -> Handshake:
        """Begin a handshake."""
        ...

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[Any, int]:
        """Return the message at ``pos`` of a stream's bytes, and the position after it."""
        ...

    def encode(self, message: Any, max_size: int) -> bytes:
        """Return a message as bytes."""
        ...

    def kind(self, message: Any) -> Kind | None:
        """Return the kind of a message; None for an object that is not one of this dialect."""
        ...

    def event(self, now: float, message: Any) -> Event | None:
        """Return the event for a message that has no other effect."""
        ...

    def refusal(
        self, code: int, reason: str, retry_after_ms: int, redirect: tuple[str, ...]
    ) -> Any:
        """Return the message with which a listener refuses."""
        ...

    def keepalive(self) -> Any | None:
        """Return a message without content; None if the dialect has none."""
        ...

    def latch(self, generation: int) -> Any:
        """Return the first message for a new control stream."""
        ...

    def generation(self, message: Any) -> int | None:
        """Return the generation of such a message; None for any other message."""
        ...

    def drain(self, seconds: float, reason: str, alternates: tuple[str, ...]) -> Any | None:
        """Return the message that announces the end of this side; None if there is none."""
        ...

    def stay(self) -> Any | None:
        """Return the message that revokes :meth:`drain`; None if there is none."""
        ...

    def sync(self, bases: Bases, *, begin: bool) -> Any | None:
        """Return the message that begins or ends a synchronisation; None if there is none."""
        ...

    def read_sns(self, message: Any) -> Sequence[SnsOperation]:
        """Return the operations of a message about sets."""
        ...

    def write_sns(self, steps: Sequence[SnsDiff], now: SnsSet, *, whole: bool) -> Sequence[Any]:
        """Return the messages that describe (``whole``) or change a set."""
        ...

    def write_sns_end(self, sns_id: int) -> Any:
        """Return the message that ends a set."""
        ...

    def write_sns_refusal(self, rejection: SnsRejection) -> Any | None:
        """Return the message that refuses a set; None if there is none."""
        ...
