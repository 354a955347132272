"""What a session has and what it can do to itself: its parts, its polls, and its way out.

::

    SessionCore        this module: the parts, what goes out, the end
      └─ SessionReceiver   receiving.py: what the transport and time do to it
           └─ PeeringSession   session.py: what the application commands
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from laps_wire.errors import MalformedError, ProtocolViolation, RemoteError, StateError
from laps_wire.peering.errors import CloseCode, ModeRefusedError, OverloadedError, PeeringError
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode, RelayType
from laps_wire.peering.laps2.limits import MIN_MESSAGE_BYTES
from laps_wire.peering.session import events
from laps_wire.peering.session.events import Agreement, AuthenticationRequired, Event, Transmit
from laps_wire.peering.session.flavour import Flavour, SessionConfig
from laps_wire.peering.session.forwarding import Effect, ForwardingState
from laps_wire.peering.session.latching import ControlStreams, Role
from laps_wire.peering.session.outbox import Outbox
from laps_wire.peering.session.rights import Rights
from laps_wire.peering.session.sns import SnsRejection
from laps_wire.peering.session.state import (
    ESTABLISHED_STATES,
    HANDSHAKE_STATES,
    Kind,
    State,
    StateMachine,
)

__all__ = [
    "KEEPALIVES_PER_HOLD",
    "MAX_REASON_CHARACTERS",
    "MAX_WAITING_BYTES",
    "NO_DATA_EXPECTED",
    "REFUSAL_SECONDS",
    "SessionCore",
]

MAX_WAITING_BYTES: Final = 16_777_216
"""How much waits for a new control stream; more closes the session."""
MAX_REASON_CHARACTERS: Final = 200
"""How much of an error's text goes to the peer."""

KEEPALIVES_PER_HOLD: Final = 3
"""How many keepalives fit into a hold time: two may be late before a peer gives up."""
NO_DATA_EXPECTED: Final = "data from the side that sends no data"
"""The fault of a peer that sends data on a session or in a direction without it (7.1)."""
REFUSAL_SECONDS: Final = 1.0
"""How long a listener that refused waits for the dialler to close (docs/spec/laps-2.md, 4.1)."""

_VERIFYING: Final = State.VERIFYING
_TIMED_STATES: Final = HANDSHAKE_STATES | {State.REFUSED}
"""States that the clock ends if nothing else does."""
_REPEATED: Final = frozenset({Kind.SYNC, Kind.SNS})
"""What the session sends anew by itself, or has the application send, after every move."""


class SessionCore:
    """One side of one session: its state, and what it can do by itself."""

    def __init__(self, config: SessionConfig, flavour: Flavour, now: float) -> None:
        self._config = config
        self._flavour = flavour
        self._machine = StateMachine(flavour.shape, config.role)
        self._streams: ControlStreams[Any] = ControlStreams(
            config.role, self._decode, admit=self._admit, fixed=flavour.single_stream
        )
        self._outbox = Outbox(single=flavour.single_messages)
        self._events: deque[Event] = deque()
        self._handshake = flavour.handshake(config)
        self._question: AuthenticationRequired | None = None
        self._early: deque[Any] = deque()
        self._early_bytes = 0
        self._generation = 0
        self._latch_due = False
        self._syncing = Bases(0)  # bases of which the peer is in the middle of a synchronisation
        self._sync_sent = Bases(0)  # and those of which our application is
        self._max_receive = self._max_send = MIN_MESSAGE_BYTES
        self._agreement: Agreement | None = None
        self._rights: Rights | None = None
        # Why a message of a kind may not go either way; there from ESTABLISHED on.
        self._against_sending: Mapping[Kind, str] = {}
        self._against_receiving: Mapping[Kind, str] = {}
        self._sets = ForwardingState(flavour, config.settings)
        self._data_asked = False  # dialler: whether the answer that we wait for may grant us data
        self._now = self._heard = self._spoke = now
        self._deadline = now + config.handshake_seconds
        self._drain_deadline: float | None = None
        self._refusal: tuple[int, str] = (CloseCode.NO_ERROR, "")

    # Queries

    @property
    def state(self) -> State:
        """Where the session is."""
        return self._machine.state

    @property
    def established(self) -> bool:
        """Whether information and data flow."""
        return self._machine.established

    @property
    def agreement(self) -> Agreement | None:
        """What was agreed on, from ESTABLISHED on."""
        return self._agreement if self.established else None

    @property
    def rights(self) -> Rights | None:
        """Who may say what, from ESTABLISHED on."""
        return self._rights if self.established else None

    @property
    def control_stream(self) -> int | None:
        """The stream that control messages are written to."""
        return self._streams.sending

    @property
    def forwarding(self) -> ForwardingState | None:
        """The subscriber node sets and the buffer of early data, to look at."""
        return None if self._agreement is None else self._sets

    # Polls

    @property
    def has_transmits(self) -> bool:
        """Whether :meth:`poll_transmit` has something."""
        return self._outbox.is_filled

    def poll_transmit(self) -> Transmit | None:
        """The next thing for the transport; ask until there is none."""
        return self._outbox.poll()

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called; ``None``: not for now."""
        state = self._machine.state
        if state in _TIMED_STATES:
            return self._deadline
        agreement = self._agreement
        if agreement is None or state not in ESTABLISHED_STATES:
            return None
        # Asked after every message.
        first = self._sets.unknown.deadline
        drained = self._drain_deadline
        if drained is not None and (first is None or drained < first):
            first = drained
        if hold := agreement.hold_seconds:
            silent, speak = self._heard + hold, self._spoke + hold / KEEPALIVES_PER_HOLD
            due = min(speak, silent)
            if first is None or due < first:
                first = due
        return first

    def poll_events(self) -> tuple[Event, ...]:
        """Everything that has happened since the last time."""
        if not self._events:
            return ()
        happened = tuple(self._events)
        self._events.clear()
        return happened

    # Inside, for time

    def _clock(self, now: float) -> float:
        """The time, which does not go back here even if the caller's clock does.

        Otherwise a message that came in "before" another one would let the hold time run out.
        """
        if now <= self._now:
            return self._now
        self._now = now
        return now

    # Inside: control streams

    def _decode(self, data: bytes, pos: int) -> tuple[Any, int]:
        message, after = self._flavour.decode(data, pos, self._max_receive)
        if self._machine.state is _VERIFYING and self._is_early:
            self._early_bytes += after - pos
        return message, after

    def _admit(self, message: Any) -> None:
        """The first message on a newer control stream: the dialler must say that it moves."""
        if self._config.role is Role.DIALLER:
            return
        if not self._machine.established:
            raise ProtocolViolation("a new control stream before the session is established")
        generation = self._flavour.generation(message)
        if generation is None:
            raise ProtocolViolation("a new control stream that does not begin with CONTROL_LATCH")
        if generation <= self._generation:
            raise ProtocolViolation(
                f"CONTROL_LATCH of generation {generation} after {self._generation}"
            )
        self._generation = generation
        self._latch_due = True

    @property
    def _is_early(self) -> bool:
        """Whether a listener speaks that our application has not accepted yet."""
        return self._machine.state is _VERIFYING and self._config.role is Role.DIALLER

    # Inside, for bases and sets

    def _synchronise_all(self) -> None:
        """Send all bases: the session its sets, the application everything else.

        Due when a session is established and when we write to another control stream, for what was
        under way may be lost (docs/spec/laps-2.md, 4.6 and 5.4).
        """
        bases = self._agreed_rights.bases_sent()
        self._sync_sent = Bases(0)  # one that was begun on an older stream is void
        if bases & Bases.SNS:
            self._send_all_sets()
        if rest := bases & ~Bases.SNS:
            self._emit(events.SyncRequested(bases=rest))

    def _send_all_sets(self) -> None:
        for message in self._sets.synchronise():
            self._say(message)

    def _effects(self, effects: Iterator[Effect]) -> None:
        """Events go to the application, rejections to the peer."""
        for effect in effects:
            if isinstance(effect, SnsRejection):
                self._say(self._flavour.write_sns_refusal(effect))
            else:
                self._emit(effect)

    # Inside: the handshake

    def _ask(self, question: AuthenticationRequired) -> None:
        if self._config.role is Role.LISTENER and not (
            self._config.mode.allows(question.mode) or question.mode.allows(self._config.mode)
        ):
            raise ModeRefusedError(f"mode {question.mode.name} is not for this relay")
        self._question = question
        self._emit(question)

    def _choice(self, mode: Mode | None, direction: Direction | None) -> tuple[Mode, Direction]:
        """What the application chose, or else what it was asked for within our configuration."""
        question = self._question
        if question is None:
            raise StateError(f"nothing was asked: the session is {self.state.value}")
        if mode is None:
            mode = _common(question.mode, self._config.mode)
        if direction is None:
            direction = min(question.direction, self._config.direction)
        return mode, direction

    def _agree(self) -> None:
        """The handshake has said everything; a dialler's application may still say no."""
        agreement = self._handshake.agreement()
        own, peer = self._config.node_info.node.relay_type, agreement.peer.node.relay_type
        if not self._flavour.checks_types:
            own = peer = RelayType.EDGE
        self._agreement = agreement
        self._rights = Rights(
            role=self._config.role,
            mode=agreement.mode,
            direction=agreement.direction,
            local_type=own,
            peer_type=peer,
        )
        self._against_sending = self._rights.sending
        self._against_receiving = self._rights.receiving
        self._sets.meet(agreement.peer_settings)
        self._max_receive = self._config.settings.max_message_size
        self._max_send = agreement.peer_settings.max_message_size
        if self._sets.unknown and not self._rights.receives_data:
            raise ProtocolViolation(NO_DATA_EXPECTED)

    def _refuse_for(self, error: PeeringError) -> None:
        reason = _reason(error)
        data = self._encode(self._flavour.refusal(error.code, reason, 0, ()))
        self._refused(data, error.code, reason)

    def _refused(self, data: bytes, code: int, reason: str) -> None:
        self._put(Kind.REFUSED, data)
        self._question = None
        self._refusal = (code, reason)
        self._deadline = self._now + REFUSAL_SECONDS

    # Inside: what goes out

    def _encode(self, message: Any) -> bytes:
        return self._flavour.encode(message, self._max_send)

    def _put(self, kind: Kind, data: bytes) -> None:
        """Send an encoded message; the caller has made sure that the state allows it."""
        self._machine.sent(kind)
        self._queue(kind, data)

    def _queue(self, kind: Kind, data: bytes) -> None:
        """The same where the state stays what it is."""
        outbox = self._outbox
        self._spoke = now = self._now
        self._deadline = now + self._config.handshake_seconds  # of the next step, if it is one
        outbox.put(self._streams.sending, data, kind in _REPEATED)
        if outbox.waiting_bytes > MAX_WAITING_BYTES:
            self._fail(OverloadedError("no control stream to send on"))

    def _step(self) -> None:
        """The handshake went on: each of its messages has its own time."""
        self._deadline = self._now + self._config.handshake_seconds

    def _say(self, message: Any | None) -> None:
        """Send a message of the session itself, if the flavour has it."""
        if message is None:
            return
        kind = self._flavour.kind(message) or Kind.IGNORED
        # The message before this one may have ended the session (MAX_WAITING_BYTES).
        if self._machine.can_send(kind):
            self._put(kind, self._encode(message))

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    # Inside: the end

    def _fail(self, error: RemoteError) -> None:
        self._end(error.code, _reason(error))

    def _end(self, code: int, reason: str, *, by_peer: bool = False) -> None:
        if self.state is State.CLOSED:
            return
        self._machine.closed()
        self._question = None
        self._early.clear()
        self._outbox.close(code, reason[:MAX_REASON_CHARACTERS])
        self._events.extend(self._sets.clear())
        self._emit(events.Closed(code=code, reason=reason, by_peer=by_peer))

    # Inside: what is there once the tables say so

    @property
    def _agreed(self) -> Agreement:
        return _known(self._agreement)

    @property
    def _agreed_rights(self) -> Rights:
        return _known(self._rights)

    @property
    def _hold_seconds(self) -> float:
        return self._agreed.hold_seconds


_T = TypeVar("_T")


def _known(value: _T | None) -> _T:
    if value is None:
        raise StateError("the session is not established")
    return value


def _common(asked: Mode, most: Mode) -> Mode:
    """What is in both modes; that there is something is known by now."""
    return most if asked is Mode.BOTH else asked


def _reason(error: RemoteError) -> str:
    """The error's text, without an offset: it counts from where a chunk happened to begin."""
    text = str(error)
    if isinstance(error, MalformedError):
        text = f"{error.field}: {error.reason}" if error.field else error.reason
    return text[:MAX_REASON_CHARACTERS]
