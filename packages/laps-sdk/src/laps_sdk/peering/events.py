"""What becomes of connections to other relays, and who proves and checks identities.

One connection ends in exactly one of two ways::

    opened ──┬── PeerUp ── everything that the session tells ── PeerDown
             └── PeerRefused
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Direction, Evidence, Mode, NodeInfo, NodeSelf, Settings
from laps_wire.peering.session import Event, Role

__all__ = [
    "NOT_NOW",
    "Dial",
    "NodeIdConflict",
    "NodeUnproved",
    "PeerAuthenticator",
    "PeerDown",
    "PeerEvent",
    "PeerFilter",
    "PeerRefused",
    "PeerUp",
    "Refusal",
]

NOT_NOW: Final = "validity"
"""The rule of a refusal that is about time alone: it was proved once, and nobody has lied."""


class Refusal(NamedTuple):
    """Why something is not allowed: for the one who asked, for logs, and for ``policy explain``."""

    rule: str
    """Which rule of the policy says so."""
    reason: str


class Dial(NamedTuple):
    """Connect to a relay."""

    number: int
    """Given back with the outcome."""
    contact: str
    """``host``, ``host:port`` or ``[IPv6]:port``."""
    node: NodeId | None = None
    """Who must be there; None: whoever it is."""
    mode: Mode = Mode.BOTH
    dynamic: bool = False
    """Dialled on demand; closed when nobody needs it any more."""
    direction: Direction = Direction.BIDIRECTIONAL
    """The most to ask for; control goes both ways in any case."""
    alpn: str = ""
    """The protocol to speak; none: whatever the peer port has in common with the other one."""


PeerFilter: TypeAlias = "Callable[[NodeSelf], Refusal | None]"
"""Returns why a node may not peer with this relay; None: it may."""


class PeerAuthenticator(Protocol):
    """Proves who we are and checks who others are: the cryptography is outside the core.

    An identity is the *fingerprint* of a key, SHA-256 of its SubjectPublicKeyInfo; empty if the
    peer has none.
    """

    @property
    def schemes(self) -> tuple[int, ...]:
        """The schemes in which we prove ourselves and check proofs, ascending; at least one."""

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        """Our proof in one of the schemes that the peer takes; None if we know none of them.

        ``transcript`` gives what to sign for evidence whose scheme and credential are filled in.
        """

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        """The fingerprint that holds the peer's node id, or why the proof is not good.

        Without any transcript the peer's protocol knows no proofs (the C++ relay).
        """

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        """What we say of ourselves, signed if there is a key (laps-2, 4.2)."""

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        """Why what a node says of itself is not proved to be its own; None: it is.

        With the rule ``NOT_NOW`` it was signed by who it should be, whose certificate has ended.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUp:
    """A session is established."""

    session: int
    node: NodeInfo
    """What the peer says of itself. A Stub has node id 0: it is known by its session."""
    mode: Mode
    direction: Direction
    control: bool
    """Whether this is the connection that carries control with that node."""
    sends_data: bool
    """Whether we may send data on it."""
    receives_data: bool
    features: frozenset[int]
    alpn: str
    role: Role
    dial: Dial | None
    """As whose fruit it came, if we dialled."""
    settings: Settings
    """What the peer holds for us."""
    fingerprint: bytes = field(default=b"", repr=False)
    """Of the key that holds the peer's node id; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDown:
    """An established session has ended, and with it everything that was learned through it."""

    session: int
    node: NodeId
    control: bool
    code: int
    reason: str
    by_peer: bool
    dial: Dial | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRefused:
    """A connection ended before its session was established."""

    session: int
    code: int
    reason: str
    redirect: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""
    retry_after: float = 0.0
    """Seconds for which the peer does not want to be dialled again."""
    by_peer: bool = False
    node: NodeId | None = None
    """Who the other end said it is, if it came that far; nothing was proved."""
    dial: Dial | None = None
    to_self: bool = False
    """We dialled ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdConflict:
    """Somebody came with a node id that another key holds. It was refused; a person must look."""

    session: int
    node: NodeId
    known: bytes
    shown: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnproved:
    """What a node says of itself is not proved any more; it was left out, and its sender stays."""

    node: NodeId
    reason: str


PeerEvent: TypeAlias = Event | PeerUp | PeerDown | PeerRefused | NodeIdConflict | NodeUnproved
"""What ``Peers`` tells of a session."""
