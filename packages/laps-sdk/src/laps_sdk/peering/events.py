"""The events of connections to other relays, and the interface for proofs of identity.

A connection ends in exactly one of two ways::

    opened ──┬── PeerUp ── events of the session ── PeerDown
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
"""The rule of a refusal because of time alone: the proof was valid once, and nobody has lied."""


class Refusal(NamedTuple):
    """Why something is not allowed: for the peer, for logs, and for ``policy explain``."""

    rule: str
    """The rule of the policy that refuses."""
    reason: str


class Dial(NamedTuple):
    """A request to connect to a relay."""

    number: int
    """The number that identifies the dial in its result."""
    contact: str
    """``host``, ``host:port`` or ``[IPv6]:port``."""
    node: NodeId | None = None
    """The node that must answer; None for any."""
    mode: Mode = Mode.BOTH
    dynamic: bool = False
    """Whether it is dialled on demand, and closed when the demand ends."""
    direction: Direction = Direction.BIDIRECTIONAL
    """The most to ask for; control always goes both ways."""
    alpn: str = ""
    """The protocol to use; "" for any that both sides support."""


PeerFilter: TypeAlias = "Callable[[NodeSelf], Refusal | None]"
"""Returns why a node may not peer with this relay; None if it may."""


class PeerAuthenticator(Protocol):
    """Proves our identity and checks that of others; the cryptography is outside the core.

    An identity is the *fingerprint* of a key: SHA-256 of its SubjectPublicKeyInfo, or b"" if the
    peer has no key. ``keys.ring.PeerKeyRing`` implements the interface, and the simulator with its
    own keys.
    """

    @property
    def schemes(self) -> tuple[int, ...]:
        """The supported schemes of proofs, ascending; at least one."""

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        """Return our proof in one of the peer's schemes; None if no scheme is supported.

        ``transcript`` returns what to sign for evidence whose scheme and credential are filled in.
        """

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        """Return the fingerprint that holds the peer's node id, or why the proof is invalid.

        An empty transcript means that the peer's protocol has no proofs (the C++ relay).
        """

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        """Return information on this node, signed if there is a key (laps-2, 4.2)."""

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        """Return why a node's information is not proved to be its own; None if it is.

        The rule ``NOT_NOW`` means that the right key signed it, but its certificate has expired.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUp:
    """A session is established."""

    session: int
    node: NodeInfo
    """The information on the peer. A Stub has node id 0 and is identified by its session."""
    mode: Mode
    direction: Direction
    control: bool
    """Whether this connection carries control with the node."""
    sends_data: bool
    """Whether this side may send data on the connection."""
    receives_data: bool
    features: frozenset[int]
    alpn: str
    role: Role
    dial: Dial | None
    """The dial that led to the connection; None if the peer dialled."""
    settings: Settings
    """The peer's settings for us."""
    fingerprint: bytes = field(default=b"", repr=False)
    """The fingerprint of the key that holds the peer's node id; b"" if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDown:
    """An established session has ended, and with it all state learned through it."""

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
    """Seconds in which the peer does not accept another dial."""
    by_peer: bool = False
    node: NodeId | None = None
    """The node id that the other end claimed without proof, if it got that far."""
    dial: Dial | None = None
    to_self: bool = False
    """Whether this relay dialled itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdConflict:
    """A peer showed a node id that another key holds. It was refused; an operator must decide."""

    session: int
    node: NodeId
    known: bytes
    shown: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnproved:
    """Information on a node is not proved any more. It was left out; its sender stays a peer."""

    node: NodeId
    reason: str


PeerEvent: TypeAlias = Event | PeerUp | PeerDown | PeerRefused | NodeIdConflict | NodeUnproved
"""The events that ``Peers`` reports of a session."""
