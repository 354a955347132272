"""Which messages a peering session allows: its states and its rights, as tables.

A message that is not in a table is a protocol violation.

Theory of operation
===================

A connection has a dialler and a listener. Each side is in one state. A state changes with a control
message, sent or received, with the application's acceptance, or with the end of the connection. A
timeout only closes. Three rules:

1. Every change of state is in ``TRANSITIONS``. :class:`StateMachine` looks up (state, way, kind of
   message); a message that is not there is a fault of its sender.
2. The tables do not contain bytes. A message is a :class:`Kind`; both dialects map their messages
   to kinds, and a dialect with fewer messages uses fewer rows. ``Way`` is sent or received.
3. What a *mode* allows is not a state. It is fixed when the session is established:
   :class:`Rights`.

The handshake of ``laps-2``; ``>`` is sent by the dialler, ``<`` by the listener, and what stands
between two messages is the application's work (it signs and verifies, the session waits)::

      dialler                                                    listener

      IDLE                                                       LISTENING
        │  CONNECT >                                                │
      CONNECT_SENT ──────────────────────────────────────────> CHOOSING
        │                                            < CHALLENGE    │  by the session itself
      SIGNING <─────────────────────────────────────────────── CHALLENGE_SENT
        │  application: mode, credential, signature                 │
        │  PROOF >                                                  │
      PROOF_SENT ────────────────────────────────────────────> VERIFYING
        │                                                           │  application: verify, grant
        │                                            < RESPONSE     │
      VERIFYING <──────────────────────────────────────────── ESTABLISHED
        │  application: verify                                      │
      ESTABLISHED                                                   │

      at any point before ESTABLISHED the listener may send REFUSED instead; both then wait for the
      dialler to close.

The C++ relay's handshake has two messages and no proof::

      IDLE ── CONNECT > ──> CONNECT_SENT                         LISTENING ──> VERIFYING
      VERIFYING <────────────────────────── < RESPONSE ──────────────────── ESTABLISHED

A listener is established when it has answered, and begins to send at once. A dialler that is still
verifying keeps received messages unread until its application has accepted.

After that the session stays in ESTABLISHED until a side is about to stop. Each side announces its
stop with DRAIN::

                        DRAIN sent                      DRAIN received
      ESTABLISHED ──────────────────────> DRAINING ──────────────────────> BOTH_DRAINING
           │            DRAIN received                    DRAIN sent             ^
           └────────────────────────────> PEER_DRAINING ─────────────────────────┘

STAY reverts DRAIN, for the side that has sent DRAIN: the arrows above also go back. All states end
in CLOSED, where nothing is sent and everything received is ignored.

:class:`Rights` says which side may send which message on an established session, by mode, direction
and relay types::

    what                    needs                        from a Stub    to a Stub
    ---------------------   --------------------------   ------------   ------------
    node information        control                      no             no
    announce information    control                      yes            no
    subscribe information   control                      yes            yes
    subscribe response      control                      yes            yes
    fetch messages          control                      no             no
    subscriber node sets    the sender may send data     no             no
    refusals of sets        the receiver may send data   no             no
    synchronising           what each of its bases needs, in the way the base goes
    everything else         nothing                      yes            yes

A session with control carries it in both directions. Data goes from the dialler to the listener,
and back only in bidirectional sessions (seed 000, Data Peering). A Stub is invisible beyond its
Edge: it sends and receives no node information. It sends its announces and receives the subscribes
that match them. Data between Stub and Edge is forwarded by track and needs no sets (seed 000,
Stub).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Final

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.peering.errors import ModeRefusedError
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode, RelayType

__all__ = [
    "ESTABLISHED_STATES",
    "HANDSHAKE_STATES",
    "IGNORING_STATES",
    "STEADY",
    "TRANSITIONS",
    "Kind",
    "Rights",
    "Role",
    "Shape",
    "State",
    "StateMachine",
    "Way",
    "check_relay_types",
]


@unique
class Role(Enum):
    """Who made the connection."""

    DIALLER = "dialler"
    """The side that made the connection, and that opens control streams."""
    LISTENER = "listener"
    """The side that accepted the connection, and that latches."""


@unique
class Shape(Enum):
    """How a session is established."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    PROVED = "proved"
    """Four messages with a proof of each side (``laps-2``)."""
    PLAIN = "plain"
    """Two messages and no proof (the C++ relay)."""


@unique
class State(Enum):
    """The state of one side of a session."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    IDLE = "idle"
    """Dialler: connected, nothing sent yet."""
    CONNECT_SENT = "connect sent"
    SIGNING = "signing"
    """Dialler: the application makes its proof."""
    PROOF_SENT = "proof sent"
    LISTENING = "listening"
    """Listener: connected, nothing received yet."""
    CHOOSING = "choosing"
    """Listener: CONNECT was received; the session chooses version, features and schemes."""
    CHALLENGE_SENT = "challenge sent"
    VERIFYING = "verifying"
    """The application checks the peer's proof."""
    REFUSED = "refused"
    """The listener refused; the dialler is about to close."""
    ESTABLISHED = "established"
    DRAINING = "draining"
    """This side has sent DRAIN."""
    PEER_DRAINING = "peer draining"
    """The peer has sent DRAIN."""
    BOTH_DRAINING = "both draining"
    CLOSED = "closed"


@unique
class Kind(Enum):
    """The kind of a control message, independent of the dialect."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    CONNECT = "CONNECT"
    CHALLENGE = "CHALLENGE"
    PROOF = "PROOF"
    RESPONSE = "CONNECT_RESPONSE"
    REFUSED = "CONNECT_REFUSED"
    LATCH = "CONTROL_LATCH"
    KEEPALIVE = "KEEPALIVE"
    DRAIN = "DRAIN"
    STAY = "STAY"
    NODE = "node information"
    ANNOUNCE = "announce information"
    SUBSCRIBE = "subscribe information"
    SUBSCRIBE_RESPONSE = "SUBSCRIBE_RESPONSE"
    SYNC_REQUEST = "SYNC_REQUEST"
    SYNC = "SYNC_BEGIN or SYNC_END"
    SNS = "subscriber node set"
    SNS_REFUSED = "SNS_REFUSED"
    FETCH = "FETCH_REQUEST, FETCH_RESPONSE or FETCH_CANCEL"
    REPAIR = "POSITION, RESUME or RESUME_RESPONSE"
    PROBE = "PROBE or PROBE_RESPONSE"
    IGNORED = "a message that may be ignored"
    ACCEPTED = "acceptance"
    """Not a message: the dialler's application has verified the listener."""


@unique
class Way(Enum):
    """The direction of a message, as this side sees it."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    SENT = "sent"
    RECEIVED = "received"
    INSIDE = "inside"
    """Not a message: a decision of the application."""


HANDSHAKE_STATES: Final = frozenset(
    {
        State.IDLE,
        State.CONNECT_SENT,
        State.SIGNING,
        State.PROOF_SENT,
        State.LISTENING,
        State.CHOOSING,
        State.CHALLENGE_SENT,
        State.VERIFYING,
    }
)
"""States that the handshake timeout ends."""

ESTABLISHED_STATES: Final = frozenset(
    {State.ESTABLISHED, State.DRAINING, State.PEER_DRAINING, State.BOTH_DRAINING}
)
"""States in which information and data flow."""

IGNORING_STATES: Final = frozenset({State.REFUSED, State.CLOSED})
"""States in which everything received is ignored."""

_SESSION_KINDS: Final = (
    Kind.KEEPALIVE,
    Kind.NODE,
    Kind.ANNOUNCE,
    Kind.SUBSCRIBE,
    Kind.SUBSCRIBE_RESPONSE,
    Kind.SYNC_REQUEST,
    Kind.SYNC,
    Kind.SNS,
    Kind.SNS_REFUSED,
    Kind.FETCH,
    Kind.REPAIR,
    Kind.PROBE,
    Kind.IGNORED,
)
STEADY: Final = frozenset(_SESSION_KINDS)
"""Kinds that both sides of an established session may send, and that do not change its state."""

_SENT, _RECEIVED, _INSIDE = Way
_Table = dict[tuple[State, Way, Kind], State]

# Both roles, both shapes: once established.
_SESSION: Final[_Table] = {
    **{
        (state, way, kind): state
        for state in ESTABLISHED_STATES
        for way in (_SENT, _RECEIVED)
        for kind in _SESSION_KINDS
    },
    (State.ESTABLISHED, _SENT, Kind.DRAIN): State.DRAINING,
    (State.ESTABLISHED, _RECEIVED, Kind.DRAIN): State.PEER_DRAINING,
    (State.DRAINING, _RECEIVED, Kind.DRAIN): State.BOTH_DRAINING,
    (State.PEER_DRAINING, _SENT, Kind.DRAIN): State.BOTH_DRAINING,
    (State.DRAINING, _SENT, Kind.STAY): State.ESTABLISHED,
    (State.PEER_DRAINING, _RECEIVED, Kind.STAY): State.ESTABLISHED,
    (State.BOTH_DRAINING, _SENT, Kind.STAY): State.PEER_DRAINING,
    (State.BOTH_DRAINING, _RECEIVED, Kind.STAY): State.DRAINING,
}

_DIALLER_PROVED: Final[_Table] = {
    (State.IDLE, _SENT, Kind.CONNECT): State.CONNECT_SENT,
    (State.CONNECT_SENT, _RECEIVED, Kind.CHALLENGE): State.SIGNING,
    (State.CONNECT_SENT, _RECEIVED, Kind.REFUSED): State.REFUSED,
    (State.SIGNING, _SENT, Kind.PROOF): State.PROOF_SENT,
    (State.SIGNING, _RECEIVED, Kind.REFUSED): State.REFUSED,
    (State.PROOF_SENT, _RECEIVED, Kind.RESPONSE): State.VERIFYING,
    (State.PROOF_SENT, _RECEIVED, Kind.REFUSED): State.REFUSED,
    (State.VERIFYING, _INSIDE, Kind.ACCEPTED): State.ESTABLISHED,
    # Only the dialler opens control streams, so only the dialler sends CONTROL_LATCH.
    **{(state, _SENT, Kind.LATCH): state for state in ESTABLISHED_STATES},
}

_LISTENER_PROVED: Final[_Table] = {
    (State.LISTENING, _RECEIVED, Kind.CONNECT): State.CHOOSING,
    (State.CHOOSING, _SENT, Kind.CHALLENGE): State.CHALLENGE_SENT,
    (State.CHOOSING, _SENT, Kind.REFUSED): State.REFUSED,
    (State.CHALLENGE_SENT, _RECEIVED, Kind.PROOF): State.VERIFYING,
    (State.CHALLENGE_SENT, _SENT, Kind.REFUSED): State.REFUSED,
    (State.VERIFYING, _SENT, Kind.RESPONSE): State.ESTABLISHED,
    (State.VERIFYING, _SENT, Kind.REFUSED): State.REFUSED,
    **{(state, _RECEIVED, Kind.LATCH): state for state in ESTABLISHED_STATES},
}

_DIALLER_PLAIN: Final[_Table] = {
    (State.IDLE, _SENT, Kind.CONNECT): State.CONNECT_SENT,
    (State.CONNECT_SENT, _RECEIVED, Kind.RESPONSE): State.VERIFYING,
    (State.CONNECT_SENT, _RECEIVED, Kind.REFUSED): State.REFUSED,
    (State.VERIFYING, _INSIDE, Kind.ACCEPTED): State.ESTABLISHED,
}

_LISTENER_PLAIN: Final[_Table] = {
    (State.LISTENING, _RECEIVED, Kind.CONNECT): State.VERIFYING,
    (State.VERIFYING, _SENT, Kind.RESPONSE): State.ESTABLISHED,
    (State.VERIFYING, _SENT, Kind.REFUSED): State.REFUSED,
}

# Messages that may be ignored are allowed at any time, for later versions (laps-2, 4.1).
_ANY: Final[_Table] = {(state, _RECEIVED, Kind.IGNORED): state for state in HANDSHAKE_STATES}

TRANSITIONS: Final[dict[tuple[Shape, Role], _Table]] = {
    (Shape.PROVED, Role.DIALLER): {**_DIALLER_PROVED, **_SESSION, **_ANY},
    (Shape.PROVED, Role.LISTENER): {**_LISTENER_PROVED, **_SESSION, **_ANY},
    (Shape.PLAIN, Role.DIALLER): {**_DIALLER_PLAIN, **_SESSION, **_ANY},
    (Shape.PLAIN, Role.LISTENER): {**_LISTENER_PLAIN, **_SESSION, **_ANY},
}
"""(state, way, kind) to the next state, for each handshake and role."""


class StateMachine:
    """The state of one side; only this class changes it."""

    __slots__ = ("_table", "state")

    def __init__(self, shape: Shape, role: Role) -> None:
        self._table = TRANSITIONS[shape, role]
        self.state = State.IDLE if role is Role.DIALLER else State.LISTENING

    @property
    def established(self) -> bool:
        """Whether information and data may flow."""
        return self.state in ESTABLISHED_STATES

    def is_ignoring(self) -> bool:
        """Whether nothing that is received matters any more."""
        return self.state in IGNORING_STATES

    def can_send(self, kind: Kind) -> bool:
        """Whether a message of this kind may be sent now."""
        return (self.state, _SENT, kind) in self._table

    def sent(self, kind: Kind) -> None:
        """We send a message; in a wrong state that is our own fault, and nothing changes."""
        after = self._table.get((self.state, _SENT, kind))
        if after is None:
            raise StateError(f"{kind.value} can not be sent: the session is {self.state.value}")
        self.state = after

    def received(self, kind: Kind) -> None:
        """The peer sent a message; in a wrong state that is its fault."""
        after = self._table.get((self.state, _RECEIVED, kind))
        if after is None:
            raise ProtocolViolation(f"{kind.value} while the session is {self.state.value}")
        self.state = after

    def accepted(self) -> None:
        """The application of a dialler has accepted the listener."""
        after = self._table.get((self.state, _INSIDE, Kind.ACCEPTED))
        if after is None:
            raise StateError(f"there is nothing to accept: the session is {self.state.value}")
        self.state = after

    def closed(self) -> None:
        """The connection has ended, or is about to."""
        self.state = State.CLOSED


# Rights on an established session


@dataclass(frozen=True, slots=True)
class _Rule:
    control: bool = False
    """Only on sessions with control."""
    data_from_sender: bool = False
    """Only from a side that may send data."""
    data_to_sender: bool = False
    """Only to a side that may send data."""
    from_stub: bool = True
    to_stub: bool = True


_RULES: Final[dict[Kind, _Rule]] = {
    Kind.NODE: _Rule(control=True, from_stub=False, to_stub=False),
    Kind.ANNOUNCE: _Rule(control=True, to_stub=False),
    Kind.SUBSCRIBE: _Rule(control=True),
    Kind.SUBSCRIBE_RESPONSE: _Rule(control=True),
    Kind.FETCH: _Rule(control=True, from_stub=False, to_stub=False),
    Kind.REPAIR: _Rule(control=True, from_stub=False, to_stub=False),
    Kind.SNS: _Rule(data_from_sender=True, from_stub=False, to_stub=False),
    Kind.SNS_REFUSED: _Rule(data_to_sender=True, from_stub=False, to_stub=False),
}
_FREE: Final = _Rule()

_BASE_KINDS: Final[dict[Bases, Kind]] = {
    Bases.NODES: Kind.NODE,
    Bases.ANNOUNCES: Kind.ANNOUNCE,
    Bases.SUBSCRIBES: Kind.SUBSCRIBE,
    Bases.SNS: Kind.SNS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The rights of both sides of one session; both sides compute the same."""

    role: Role
    """The role of this side."""
    mode: Mode
    direction: Direction
    local_type: RelayType
    peer_type: RelayType
    sending: Mapping[Kind, str] = field(init=False, repr=False, compare=False)
    """Why this side may not send each kind; empty if it may. Sessions read it per message."""
    receiving: Mapping[Kind, str] = field(init=False, repr=False, compare=False)
    """Why the peer may not send each kind; empty if it may."""
    _bases_sent: Bases = field(init=False, repr=False, compare=False)
    _bases_received: Bases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute all rights once, because sessions look them up for every message."""
        ours, theirs = self.local_type, self.peer_type
        sending = {kind: self._against(kind, self.role, ours, theirs) for kind in Kind}
        object.__setattr__(self, "sending", sending)
        object.__setattr__(self, "_bases_sent", _bases(sending))
        other = _other(self.role)
        receiving = {kind: self._against(kind, other, theirs, ours) for kind in Kind}
        object.__setattr__(self, "receiving", receiving)
        object.__setattr__(self, "_bases_received", _bases(receiving))

    @property
    def sends_data(self) -> bool:
        """Whether this side may send data."""
        return self._may_send_data(self.role)

    @property
    def receives_data(self) -> bool:
        """Whether the peer may send data."""
        return self._may_send_data(_other(self.role))

    def against_sending(self, kind: Kind) -> str:
        """Return why this side may not send ``kind``; empty if it may."""
        return self.sending[kind]

    def against_receiving(self, kind: Kind) -> str:
        """Return why the peer may not send ``kind``; empty if it may."""
        return self.receiving[kind]

    def bases_sent(self) -> Bases:
        """Return the bases that this side may send."""
        return self._bases_sent

    def bases_received(self) -> Bases:
        """Return the bases that the peer may send."""
        return self._bases_received

    def _may_send_data(self, sender: Role) -> bool:
        return self.mode.data and (
            sender is Role.DIALLER or self.direction is Direction.BIDIRECTIONAL
        )

    def _against(self, kind: Kind, sender: Role, from_type: RelayType, to_type: RelayType) -> str:
        rule = _RULES.get(kind, _FREE)
        if rule.control and not self.mode.control:
            return f"{kind.value} on a session without control"
        if rule.data_from_sender and not self._may_send_data(sender):
            return f"{kind.value} from the side that sends no data"
        if rule.data_to_sender and not self._may_send_data(_other(sender)):
            return f"{kind.value} to the side that sends no data"
        if from_type is RelayType.STUB and not rule.from_stub:
            return f"{kind.value} from a Stub"
        if to_type is RelayType.STUB and not rule.to_stub:
            return f"{kind.value} to a Stub"
        return ""


def _bases(against: Mapping[Kind, str]) -> Bases:
    allowed = Bases(0)
    for base, kind in _BASE_KINDS.items():
        if not against[kind]:
            allowed |= base
    return allowed


def _other(role: Role) -> Role:
    return Role.LISTENER if role is Role.DIALLER else Role.DIALLER


def check_relay_types(
    *, dialler: RelayType, listener: RelayType, mode: Mode, direction: Direction
) -> None:
    """Raise ``ModeRefusedError`` for a session that the two relay types do not allow."""
    if listener is RelayType.STUB:
        raise ModeRefusedError("a Stub accepts no connections")
    if dialler is RelayType.STUB:
        if listener is not RelayType.EDGE:
            raise ModeRefusedError("a Stub peers with Edges only")
        if mode is not Mode.BOTH or direction is not Direction.BIDIRECTIONAL:
            raise ModeRefusedError("a Stub peers in mode both, bidirectionally")
    if RelayType.CONTROL in (dialler, listener) and mode.data:
        raise ModeRefusedError("a control server carries no data")
