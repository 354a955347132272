"""The events that a peering session emits, and the actions that it passes to the transport.

``poll_events`` returns events in the order in which they occurred. Entries of information bases are
in the format of the dialect (``laps_wire.peering.laps2`` or ``laps_wire.peering.cpp``). A relay
that uses both dialects translates them when it fills its tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from laps_wire.errors import RemoteError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import error_class
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode
from laps_wire.peering.laps2.handshake import Evidence, Settings
from laps_wire.peering.laps2.information import NodeInfo

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
    "Drop",
    "Dropped",
    "Ending",
    "Established",
    "Event",
    "FetchReceived",
    "NodesAdvertised",
    "NodesWithdrawn",
    "ProbeAnswered",
    "ProbeReceived",
    "Refused",
    "RepairReceived",
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

T = TypeVar("T")


# The handshake


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The result of the handshake, equal on both sides."""

    mode: Mode
    direction: Direction
    peer: NodeInfo
    """The node information of the peer."""
    peer_settings: Settings
    """The settings that the peer sent."""
    version: int
    features: frozenset[int] = frozenset()
    """The features that both sides listed."""
    hold_seconds: float = 0.0
    """A side that receives nothing for this time closes the session; 0: never."""


@unique
class AuthenticationStep(Enum):
    """What the application has to do."""

    SIGN = "sign"
    """Choose mode and credential, sign the bytes of ``transcript``, and call ``prove``."""
    VERIFY = "verify"
    """Check the peer's evidence, and call ``accept`` or ``refuse``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationRequired:
    """The session waits until the application has signed or verified."""

    step: AuthenticationStep
    peer: NodeId
    """The node ID that the peer claims; the caller arbitrates the control connection by it."""
    peer_info: NodeInfo | None
    """The peer's node information; None for a dialler that has to sign."""
    mode: Mode
    """To sign: the widest mode to ask for. To verify: the mode that the peer asks for or grants."""
    direction: Direction
    schemes: tuple[int, ...] = ()
    """To sign: the schemes that the peer accepts."""
    evidence: Evidence | None = None
    """To verify: the evidence of the peer."""
    transcript: bytes = b""
    """To verify: the bytes that the peer signed; empty if the dialect has no signatures."""
    features: frozenset[int] = frozenset()
    """To verify: the features that both sides listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """The session is established: information and data may flow."""

    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The listener refuses the session. Closed follows."""

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
    """Nodes can no longer be reached through the peer."""

    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncesAdvertised:
    """Announces are new or have changed."""

    announces: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncesWithdrawn:
    """Announces are withdrawn."""

    announces: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribesAdvertised:
    """Subscribes are new or have changed."""

    subscribes: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribesWithdrawn:
    """Subscribes are withdrawn."""

    subscribes: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeAnswered:
    """The peer sent the response to a subscribe, for its s-relay."""

    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequested:
    """The application has to send these bases again, completely, between SYNC_BEGIN and SYNC_END.

    The peer requested them, or the control stream has moved and messages in flight may be lost. The
    session itself sends subscriber node sets again; they are never in ``bases``.
    """

    bases: Bases


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBegan:
    """The peer begins to send all its entries of these bases."""

    bases: Bases


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEnded:
    """The peer has sent all entries: those not repeated since SyncBegan are removed."""

    bases: Bases


# Forwarding


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsAdvertised:
    """The peer advertised or changed a subscriber node set."""

    sns_id: int
    version: int
    hops: int
    targets: frozenset[NodeId]
    """The complete set after the change."""
    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    released: tuple[Any, ...] = ()
    """Data that arrived before the set, in order of arrival."""
    scope: str = ""
    """The class of service that policy gave the data; "" if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsWithdrawn:
    """A set of the peer has ended: withdrawn, absent from a synchronisation, or not served."""

    sns_id: int
    targets: tuple[NodeId, ...]
    """The last targets of the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsRefusedByPeer:
    """The peer does not serve a set of this side, or some of its targets."""

    sns_id: int
    version: int
    code: int
    targets: tuple[NodeId, ...]
    """The targets that are not served; empty: the whole set."""


@unique
class Drop(Enum):
    """Why held data was dropped."""

    TIME = "time"
    """The set was not advertised in time."""
    SPACE = "space"
    """Newer data needed the space, or the item is larger than the whole buffer."""
    GONE = "gone"
    """The set was refused, or its ID is too old to be advertised."""
    CLOSED = "closed"
    """The session ended."""


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """One dropped item."""

    sns_id: int
    item: T
    reason: Drop


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDropped:
    """Held data is dropped and will not be forwarded."""

    dropped: tuple[Dropped[Any], ...]


# Fetches


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReceived:
    """The peer sent a message about a FETCH, for this relay or to be forwarded."""

    message: Any


# Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReceived:
    """The peer sent POSITION, RESUME or RESUME_RESPONSE, for this relay or to be forwarded."""

    message: Any


# Everything else


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReceived:
    """The peer asks for the round-trip time to a node; the application answers with ``send``."""

    probe: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswered:
    """The peer answered a probe of this side."""

    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """The peer is about to stop: the application moves traffic away from it."""

    deadline: float
    """When the peer closes the session, in the session's time."""
    reason: str = ""
    alternates: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """The peer revoked its DRAIN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStreamMoved:
    """The control stream is another one from now on."""

    old: int
    new: int
    clean: bool
    """Whether everything on the old stream was read; if not, entries may be missing."""
    discarded: int
    """The number of dropped bytes of a partial message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStreamLost:
    """The peer ended the control stream; a dialler opens a new one, a listener waits for it."""

    stream_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The session has ended; entries received through it are no longer valid."""

    code: int
    reason: str = ""
    by_peer: bool = False

    @property
    def error(self) -> type[RemoteError] | None:
        """The error class of the code; None for an end without error."""
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
    | FetchReceived
    | RepairReceived
    | ProbeReceived
    | ProbeAnswered
    | Draining
    | Staying
    | ControlStreamMoved
    | ControlStreamLost
    | Closed
)
"""Any event of a session."""


# To the transport


@unique
class Ending(Enum):
    """How one half of a stream is ended."""

    FINISH = "finish"
    """The sending half, after everything that was written to it (FIN)."""
    RESET = "reset"
    """The sending half, at once (RESET_STREAM)."""
    STOP = "stop"
    """The receiving half (STOP_SENDING)."""


class StreamData(NamedTuple):
    """Bytes to write to a bidirectional stream."""

    stream_id: int
    data: bytes
    alone: bool = False
    """Whether these bytes must be sent before others are written to the stream."""

    def __repr__(self) -> str:
        """Return a form without the bytes, which may be confidential."""
        return f"StreamData(stream_id={self.stream_id!r}, alone={self.alone!r})"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """End one half of a stream; a half that has already ended is ignored."""

    stream_id: int
    ending: Ending
    code: int = 0
    """The code of a reset or a stop."""


@dataclass(frozen=True, slots=True)
class ConnectionClose:
    """Close the connection after the preceding actions."""

    code: int
    reason: str = ""


Transmit: TypeAlias = "StreamData | StreamEnd | ConnectionClose"
"""Any action for the transport."""
