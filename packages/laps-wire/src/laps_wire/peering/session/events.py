"""What a peering session tells its application, and what it hands to the transport.

Events are facts, in the order in which they happened; a session is asked for them with
``poll_events``. Entries of information bases are given as the dialect has them on the wire
(``laps_wire.peering.laps2`` or ``laps_wire.peering.cpp``): a relay that speaks both translates
where it fills its tables, and needs more for that than a session knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, NamedTuple, TypeAlias

from laps_wire.errors import RemoteError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import error_class
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode
from laps_wire.peering.laps2.handshake import Evidence
from laps_wire.peering.laps2.node import NodeInfo
from laps_wire.peering.laps2.settings import Settings
from laps_wire.peering.session.control_streams import Ending
from laps_wire.peering.session.unknown import Dropped

__all__ = [
    "Agreement",
    "AnnouncesAdvertised",
    "AnnouncesWithdrawn",
    "AuthenticationRequired",
    "AuthenticationStep",
    "Closed",
    "ConnectionClose",
    "ControlStreamLost",
    "ControlStreamMoved",
    "DataDropped",
    "Draining",
    "Established",
    "Event",
    "FetchSaid",
    "NodesAdvertised",
    "NodesWithdrawn",
    "ProbeAnswered",
    "ProbeReceived",
    "Refused",
    "SnsAdvertised",
    "SnsRefusedByPeer",
    "SnsWithdrawn",
    "Staying",
    "StreamData",
    "StreamEnd",
    "SubscribeAnswered",
    "SubscribesAdvertised",
    "SubscribesWithdrawn",
    "SyncBegan",
    "SyncEnded",
    "SyncRequested",
    "Transmit",
]


# The handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What both sides of a session have agreed on."""

    mode: Mode
    direction: Direction
    peer: NodeInfo
    """The peer's node information about itself."""
    peer_settings: Settings
    """What the peer holds for us."""
    version: int
    features: frozenset[int] = frozenset()
    """The features that both sides named."""
    hold_seconds: float = 0.0
    """A side that hears nothing for so long closes; 0: never."""


@unique
class AuthenticationStep(Enum):
    """What the application is asked to do."""

    SIGN = "sign"
    """Answer with ``prove``: choose mode and credential, and sign what ``transcript`` gives."""
    VERIFY = "verify"
    """Check the peer's evidence, and answer with ``accept`` or ``refuse``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationRequired:
    """The session waits for the application: it signs and verifies, the session does not."""

    step: AuthenticationStep
    peer: NodeId
    """The peer's node ID as it claims to have it: here one control connection is arbitrated."""
    peer_info: NodeInfo | None
    """What the peer says of itself; a dialler that is to sign does not know it yet."""
    mode: Mode
    """To sign: the most that may be asked for. To verify: what the peer asks for or grants."""
    direction: Direction
    schemes: tuple[int, ...] = ()
    """To sign: the schemes that the peer accepts."""
    evidence: Evidence | None = None
    """To verify: what the peer shows."""
    transcript: bytes = b""
    """To verify: what the signature in the evidence must be over; empty if the dialect has none."""
    features: frozenset[int] = frozenset()
    """To verify: the features that both sides named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """The session is established: information and data may flow."""

    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The listener does not want this session. Closed follows."""

    code: int
    reason: str = ""
    retry_after_ms: int = 0
    redirect: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""


# Information bases


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAdvertised:
    """Nodes can be reached through the peer, or have changed."""

    nodes: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesWithdrawn:
    """Nodes can not be reached through the peer any more."""

    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncesAdvertised:
    """Announces are new or have changed."""

    announces: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncesWithdrawn:
    """Announces are over."""

    announces: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribesAdvertised:
    """Subscribes are new or have changed."""

    subscribes: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribesWithdrawn:
    """Subscribes are over."""

    subscribes: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeAnswered:
    """The answer to a subscribe is on its way back to its s-relay."""

    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequested:
    """These bases are to be sent again, whole, between SYNC_BEGIN and SYNC_END.

    The peer asked for them, or the control stream has moved and what was under way may be lost. The
    session sends subscriber node sets again by itself; they are never in ``bases``.
    """

    bases: Bases


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBegan:
    """Everything that the peer has in these bases follows."""

    bases: Bases


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEnded:
    """That was all: what the peer said before SyncBegan and not since is gone."""

    bases: Bases


# Forwarding


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsAdvertised:
    """The peer made or changed a subscriber node set."""

    sns_id: int
    version: int
    hops: int
    targets: frozenset[NodeId]
    """The whole set, as it is now."""
    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    released: tuple[Any, ...] = ()
    """Data that had come before the set, in order of arrival."""
    scope: str = ""
    """The class of service that policy gave the data; "" if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsWithdrawn:
    """A subscriber node set of the peer has ended: withdrawn, not named again, or not served."""

    sns_id: int
    targets: tuple[NodeId, ...]
    """The targets that it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsRefusedByPeer:
    """The peer does not serve a set of ours, or some of its targets."""

    sns_id: int
    version: int
    code: int
    targets: tuple[NodeId, ...]
    """The targets that get nothing; empty: the whole set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDropped:
    """Data that waited for its set will not be forwarded."""

    dropped: tuple[Dropped[Any], ...]


# Fetches


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSaid:
    """A message about a FETCH: for us, or on its way to another relay."""

    message: Any


# Everything else


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReceived:
    """The peer asks how far it is to a node; answer with ``send``."""

    probe: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswered:
    """The peer answered a probe of ours."""

    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """The peer is going away: move what goes through it."""

    deadline: float
    """When it will close by itself, in the session's time."""
    reason: str = ""
    alternates: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """The peer does not go away after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStreamMoved:
    """Control messages come in on another stream from now on."""

    old: int
    new: int
    clean: bool
    """Whether everything on the old stream was read. If not, wait for SyncEnded to be sure."""
    discarded: int
    """Bytes of a partial message that were dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStreamLost:
    """The peer ended the control stream. A dialler opens a new one, a listener waits for it."""

    stream_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The session has ended, and with it everything that was learned through it."""

    code: int
    reason: str = ""
    by_peer: bool = False

    @property
    def error(self) -> type[RemoteError] | None:
        """What the code stands for; ``None`` for an end without error."""
        return error_class(self.code)


Event: TypeAlias = (
    AuthenticationRequired
    | Established
    | Refused
    | NodesAdvertised
    | NodesWithdrawn
    | AnnouncesAdvertised
    | AnnouncesWithdrawn
    | SubscribesAdvertised
    | SubscribesWithdrawn
    | SubscribeAnswered
    | SyncRequested
    | SyncBegan
    | SyncEnded
    | SnsAdvertised
    | SnsWithdrawn
    | SnsRefusedByPeer
    | DataDropped
    | FetchSaid
    | ProbeReceived
    | ProbeAnswered
    | Draining
    | Staying
    | ControlStreamMoved
    | ControlStreamLost
    | Closed
)
"""Anything that a session tells."""


# To the transport


class StreamData(NamedTuple):
    """Bytes to be written to a bidirectional stream; there is one for every message."""

    stream_id: int
    data: bytes
    alone: bool = False
    """Whether these bytes must leave before any others are written to the stream."""

    def __repr__(self) -> str:
        """Without the bytes: they may hold what nobody should read in a log."""
        return f"StreamData(stream_id={self.stream_id!r}, alone={self.alone!r})"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """One half of a stream is to be ended; a half that has ended already is left alone."""

    stream_id: int
    ending: Ending
    code: int = 0
    """For a reset or a stop."""


@dataclass(frozen=True, slots=True)
class ConnectionClose:
    """The connection is to be closed, after what precedes this."""

    code: int
    reason: str = ""


Transmit: TypeAlias = "StreamData | StreamEnd | ConnectionClose"
"""Anything that a session hands to the transport."""
