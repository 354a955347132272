"""The states of a peering session, as tables. What is not in a table is a protocol violation.

Theory of operation
===================

A connection has a dialler and a listener. Each side is in one state. What moves it is a control
message, sent or received, the application's acceptance, or the end of the connection; time only
ever closes. Three rules hold this file together:

1. Everything that changes a state is in ``TRANSITIONS``. Code asks :class:`StateMachine`, which
   looks (state, way, kind of message) up; a message that is not there is the sender's fault.
2. The tables do not know bytes. A message is a :class:`Kind`; both dialects map theirs to it, and a
   dialect with fewer messages uses fewer rows. ``Way`` says whether we sent it or received it.
3. What a *mode* allows is not a state. It is fixed when the session is established, and has a table
   of its own (:mod:`laps_wire.peering.session.rights`).

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

A listener is established when it has answered, and begins to send at once; so a dialler that is
still verifying keeps what it receives, unread, until its application has accepted.

After that everything loops in ESTABLISHED until a side goes away. DRAIN says so, once for each
side::

                        DRAIN sent                      DRAIN received
      ESTABLISHED ──────────────────────> DRAINING ──────────────────────> BOTH_DRAINING
           │            DRAIN received                    DRAIN sent             ^
           └────────────────────────────> PEER_DRAINING ─────────────────────────┘

STAY is the way back, for the side that has sent DRAIN: each arrow of DRAIN can be gone against its
direction. All of them end in CLOSED, where nothing is sent and everything received is ignored.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import Final

from laps_wire.errors import ProtocolViolation, StateError

__all__ = [
    "DEAF_STATES",
    "ESTABLISHED_STATES",
    "HANDSHAKE_STATES",
    "STEADY",
    "TRANSITIONS",
    "Kind",
    "Role",
    "Shape",
    "State",
    "StateMachine",
    "Way",
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
    """Four messages, each side proves who it is (``laps-2``)."""
    PLAIN = "plain"
    """Two messages and no proof (the C++ relay)."""


@unique
class State(Enum):
    """Where one side of a session is."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    IDLE = "idle"
    """Dialler: the connection is there, nothing was sent."""
    CONNECT_SENT = "connect sent"
    SIGNING = "signing"
    """Dialler: the application makes its proof."""
    PROOF_SENT = "proof sent"
    LISTENING = "listening"
    """Listener: the connection is there, nothing was received."""
    CHOOSING = "choosing"
    """Listener: CONNECT is here, and the session picks version, features and schemes from it."""
    CHALLENGE_SENT = "challenge sent"
    VERIFYING = "verifying"
    """The application checks the peer's proof."""
    REFUSED = "refused"
    """The listener said no; the dialler is about to close."""
    ESTABLISHED = "established"
    DRAINING = "draining"
    """We have said that we go away."""
    PEER_DRAINING = "peer draining"
    """The peer has said that it goes away."""
    BOTH_DRAINING = "both draining"
    CLOSED = "closed"


@unique
class Kind(Enum):
    """What a control message is, whatever its bytes are."""

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
    PROBE = "PROBE or PROBE_RESPONSE"
    IGNORED = "a message that may be ignored"
    ACCEPTED = "acceptance"
    """No message: the dialler's application has verified the listener."""


@unique
class Way(Enum):
    """Which way a message went, seen from this side."""

    # Looked up for every message: by identity, as members are compared, and not by their names.
    __hash__ = object.__hash__

    SENT = "sent"
    RECEIVED = "received"
    INSIDE = "inside"
    """It is no message, but the application's word."""


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

DEAF_STATES: Final = frozenset({State.REFUSED, State.CLOSED})
"""States in which nothing that is received matters any more."""

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
    Kind.PROBE,
    Kind.IGNORED,
)
STEADY: Final = frozenset(_SESSION_KINDS)
"""What goes both ways in established sessions, and leaves their state as it is."""

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
    # Only the dialler opens control streams, so only it says that it did.
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

# What may be ignored may come at any time, so that a later version can send it (laps-2, 4.1).
_ANY: Final[_Table] = {(state, _RECEIVED, Kind.IGNORED): state for state in HANDSHAKE_STATES}

TRANSITIONS: Final[dict[tuple[Shape, Role], _Table]] = {
    (Shape.PROVED, Role.DIALLER): {**_DIALLER_PROVED, **_SESSION, **_ANY},
    (Shape.PROVED, Role.LISTENER): {**_LISTENER_PROVED, **_SESSION, **_ANY},
    (Shape.PLAIN, Role.DIALLER): {**_DIALLER_PLAIN, **_SESSION, **_ANY},
    (Shape.PLAIN, Role.LISTENER): {**_LISTENER_PLAIN, **_SESSION, **_ANY},
}
"""(state, way, kind) to the next state, for each handshake and role."""


class StateMachine:
    """One side's state; it changes here and nowhere else."""

    __slots__ = ("_table", "state")

    def __init__(self, shape: Shape, role: Role) -> None:
        self._table = TRANSITIONS[shape, role]
        self.state = State.IDLE if role is Role.DIALLER else State.LISTENING

    @property
    def established(self) -> bool:
        """Whether information and data may flow."""
        return self.state in ESTABLISHED_STATES

    def is_deaf(self) -> bool:
        """Whether nothing that is received matters any more."""
        return self.state in DEAF_STATES

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
