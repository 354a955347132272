"""A peering session: one connection to one other relay, without sockets, clocks or cryptography.

:class:`PeeringSession` is one class. It holds its collaborators as attributes::

    StateMachine      which control message is allowed now            state.py
    Dialect           bytes <-> messages, and the handshake           cpp.py, laps2.py
    ControlStreams    which stream is the control stream              control_streams.py
    Outbox            what goes to the transport, in order            control_streams.py
    Rights            what the mode, direction and types allow        state.py
    ForwardingState   subscriber node sets, and data before its set   forwarding.py

A received message passes four checks, and each finds another kind of fault::

    bytes ──> decode ──────> state table ───────> rights table ───> its handler ──> events
              malformed      wrong moment         wrong mode,       wrong content
                                                  side or type

A fault of the peer never leaves the session as an exception: the session ends with the fault's
code. A listener that is still in the handshake sends the code in CONNECT_REFUSED, if it fits there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from laps_wire.errors import MalformedError, ProtocolViolation, RemoteError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import (
    CloseCode,
    DrainedError,
    HandshakeTimeoutError,
    HoldExpiredError,
    LimitExceededError,
    ModeRefusedError,
    OverloadedError,
    PeeringError,
    StreamCode,
)
from laps_wire.peering.laps2.codepoints import (
    MIN_MESSAGE_BYTES,
    Bases,
    Direction,
    Feature,
    Mode,
    RelayType,
    SnsRefusal,
)
from laps_wire.peering.laps2.handshake import NO_EVIDENCE, Evidence
from laps_wire.peering.session import events
from laps_wire.peering.session.control_streams import (
    ControlStreams,
    LatchItem,
    Lost,
    Moved,
    Outbox,
    Received,
    StreamEnding,
)
from laps_wire.peering.session.dialect import Dialect, SessionConfig, SnsRejection
from laps_wire.peering.session.events import (
    Agreement,
    AuthenticationRequired,
    Drop,
    Dropped,
    Event,
    Transmit,
)
from laps_wire.peering.session.forwarding import Effect, ForwardingState, SnsStanding
from laps_wire.peering.session.state import (
    ESTABLISHED_STATES,
    HANDSHAKE_STATES,
    IGNORING_STATES,
    STEADY,
    Kind,
    Rights,
    Role,
    Shape,
    State,
    StateMachine,
)

__all__ = [
    "KEEPALIVES_PER_HOLD",
    "MAX_EARLY_BYTES",
    "MAX_REASON_CHARACTERS",
    "MAX_WAITING_BYTES",
    "NO_DATA_EXPECTED",
    "REFUSAL_SECONDS",
    "ROUND_TRIPS_PER_HOLD",
    "PeeringSession",
]

MAX_WAITING_BYTES: Final = 16_777_216
"""The most bytes that wait for a new control stream; more closes the session."""
MAX_REASON_CHARACTERS: Final = 200
"""The longest part of an error's text that is sent to the peer."""

KEEPALIVES_PER_HOLD: Final = 4
"""The number of keepalives per hold time; three may be lost before a peer closes."""
ROUND_TRIPS_PER_HOLD: Final = 4
"""The least hold time in round trips: a lost message takes more than one to arrive."""
NO_DATA_EXPECTED: Final = "data from the side that sends no data"
"""The fault of a peer that sends data on a session or in a direction without it (7.1)."""
REFUSAL_SECONDS: Final = 1.0
"""How long a listener that refused waits for the dialler to close (docs/spec/laps-2.md, 4.1)."""

MAX_EARLY_BYTES: Final = 1_048_576
"""The most bytes that a dialler keeps from an unverified listener; more closes the session."""

_IGNORED: Final = Kind.IGNORED
_LATCH: Final = Kind.LATCH
_SNS: Final = Kind.SNS
_VERIFYING: Final = State.VERIFYING
_TIMED_STATES: Final = HANDSHAKE_STATES | {State.REFUSED}
"""States with a timeout."""
_REPEATED: Final = frozenset({Kind.SYNC, Kind.SNS})
"""Kinds that the session or the application sends again after every move."""
_SYNC_EVENTS: Final = (events.SyncRequested, events.SyncBegan, events.SyncEnded)
_SYNC_KINDS: Final = frozenset({Kind.SYNC_REQUEST, Kind.SYNC})

# The kinds that `send` accepts, all of them steady; every other kind has its own command.
_SENDABLE: Final = frozenset(
    {
        Kind.KEEPALIVE,
        Kind.NODE,
        Kind.ANNOUNCE,
        Kind.SUBSCRIBE,
        Kind.SUBSCRIBE_RESPONSE,
        Kind.SYNC_REQUEST,
        Kind.SYNC,
        Kind.FETCH,
        Kind.REPAIR,
        Kind.PROBE,
        Kind.IGNORED,
    }
)


class PeeringSession:
    """One side of one session, dialler or listener, in either dialect.

    Its methods, in the order in which a shell uses them:

    - **From the transport**, each with the time: ``handle_stream_data``, ``handle_stream_reset``,
      ``handle_stop_sending``, ``handle_connection_closed``, ``handle_timeout``. They never raise
      because of what a peer did: a fault closes the session with its code.
    - **Commands** of the application: handshake (``connect``, ``transcript``, ``prove``,
      ``accept``, ``refuse``), messages (``send``), subscriber node sets (``advertise_sns``,
      ``update_sns``, ``withdraw_sns``, ``refuse_sns``), early data (``hold_data``), and the end
      (``drain``, ``stay``, ``close``). A command in a wrong state raises
      :class:`~laps_wire.errors.StateError` and changes nothing.
    - **Polls**, after every call of the above, until there is nothing left: ``poll_transmit``,
      then ``poll_timeout``, then ``poll_events``.

    The session keeps the subscriber node sets of both directions, which are valid for the session
    only. Nodes, announces and subscribes belong to the relay; the session does not keep them.
    """

    def __init__(self, config: SessionConfig, dialect: Dialect, now: float) -> None:
        self._config = config
        self._dialect = dialect
        self._machine = StateMachine(dialect.shape, config.role)
        self._streams: ControlStreams[Any] = ControlStreams(
            config.role, self._decode, admit=self._admit, fixed=dialect.single_stream
        )
        self._outbox = Outbox(single=dialect.single_messages)
        self._events: deque[Event] = deque()
        self._handshake = dialect.handshake(config)
        self._question: AuthenticationRequired | None = None
        self._early: deque[Any] = deque()
        self._early_bytes = 0
        self._generation = 0
        self._latch_due = False
        self._syncing = Bases(0)  # bases that the peer is synchronising
        self._sync_sent = Bases(0)  # bases that the application is synchronising
        self._max_receive = self._max_send = MIN_MESSAGE_BYTES
        self._agreement: Agreement | None = None
        self._rights: Rights | None = None
        # Why a kind may not be sent or received; filled from ESTABLISHED on.
        self._against_sending: Mapping[Kind, str] = {}
        self._against_receiving: Mapping[Kind, str] = {}
        self._sets = ForwardingState(dialect, config.settings)
        self._data_asked = False  # dialler: whether the awaited answer may grant data to us
        self._now = self._received_at = self._sent_at = now
        self.round_trip = 0.0
        """The round trip in seconds, as the transport measures it; 0.0 before that."""
        self._deadline = now + config.handshake_seconds
        self._drain_deadline: float | None = None
        self._refusal: tuple[int, str] = (CloseCode.NO_ERROR, "")

    # Queries

    @property
    def state(self) -> State:
        """The state of the session."""
        return self._machine.state

    @property
    def established(self) -> bool:
        """Whether the session is established, so that information and data flow."""
        return self._machine.established

    @property
    def agreement(self) -> Agreement | None:
        """The negotiated settings, from ESTABLISHED on."""
        return self._agreement if self.established else None

    @property
    def rights(self) -> Rights | None:
        """The rights of both sides, from ESTABLISHED on."""
        return self._rights if self.established else None

    @property
    def control_stream(self) -> int | None:
        """The stream that control messages are written to."""
        return self._streams.sending

    @property
    def forwarding(self) -> ForwardingState:
        """The subscriber node sets and the buffer of early data, for reading."""
        return self._sets

    # Polls

    @property
    def has_transmits(self) -> bool:
        """Whether :meth:`poll_transmit` returns something."""
        return self._outbox.is_filled

    def poll_transmit(self) -> Transmit | None:
        """Return the next action for the transport; None without one."""
        return self._outbox.poll()

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None: not at present."""
        state = self._machine.state
        if state in _TIMED_STATES:
            return self._deadline
        agreement = self._agreement
        if agreement is None or state not in ESTABLISHED_STATES:
            return None
        # Called after every message.
        first = self._sets.unknown.deadline
        drained = self._drain_deadline
        if drained is not None and (first is None or drained < first):
            first = drained
        if agreement.hold_seconds:
            due = self._hold_due
            if first is None or due < first:
                first = due
        return first

    def poll_events(self) -> tuple[Event, ...]:
        """Return the events since the last call."""
        if not self._events:
            return ()
        pending = tuple(self._events)
        self._events.clear()
        return pending

    # From the transport

    def handle_stream_data(
        self, now: float, stream_id: int, data: bytes, *, fin: bool = False
    ) -> None:
        """Handle bytes of a bidirectional stream, with ``fin`` its last ones."""
        self._handle(now, self._streams.receive(stream_id, data, fin=fin))

    def handle_stream_reset(self, now: float, stream_id: int) -> None:
        """Handle the reset of the peer's half of a bidirectional stream."""
        self._handle(now, self._streams.reset(stream_id))

    def handle_stop_sending(self, now: float, stream_id: int) -> None:
        """Handle STOP_SENDING for our half of a bidirectional stream."""
        self._handle(now, self._streams.stopped(stream_id))

    def handle_connection_closed(self, now: float, code: int = 0, reason: str = "") -> None:
        """Handle the end of the connection, by the peer or by loss."""
        self._clock(now)
        if self.state is State.REFUSED:
            code, reason = self._refusal
        self._end(code, reason, by_peer=True)
        self._outbox.clear()

    def handle_timeout(self, now: float) -> None:
        """Handle the time of :meth:`poll_timeout`; an early call does nothing."""
        now = self._clock(now)
        if self.state in HANDSHAKE_STATES and now >= self._deadline:
            self._fail(HandshakeTimeoutError("the handshake was not finished in time"))
        elif self.state is State.REFUSED and now >= self._deadline:
            self._end(*self._refusal)
        elif self._machine.established:
            self._handle_session_timeout(now)

    # Commands for the handshake

    def connect(self, now: float, stream_id: int = 0) -> None:
        """Start the handshake as dialler, on a newly opened bidirectional stream."""
        self._check_can_send(Kind.CONNECT)
        data = self._encode(self._handshake.connect())
        self._clock(now)
        self._streams.open(stream_id)
        self._put(Kind.CONNECT, data)
        self._max_receive = self._config.settings.max_message_size  # the listener knows it now
        # Without proofs, the answer to CONNECT grants everything.
        self._data_asked = self._dialect.shape is Shape.PLAIN and self._config.mode.data

    def transcript(
        self,
        *,
        mode: Mode | None = None,
        direction: Direction | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> bytes:
        """Return the bytes to sign for ``evidence``, whose signature is ignored."""
        mode, direction = self._choice(mode, direction)
        return self._handshake.transcript(mode, direction, evidence)

    def prove(
        self,
        now: float,
        *,
        mode: Mode | None = None,
        direction: Direction | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        """Answer a request to SIGN, as dialler."""
        self._check_can_send(Kind.PROOF)
        mode, direction = self._choice(mode, direction)
        data = self._encode(self._handshake.prove(mode, direction, evidence))
        self._clock(now)
        self._question = None
        self._put(Kind.PROOF, data)
        self._data_asked = mode.data and direction is Direction.BIDIRECTIONAL

    def accept(
        self,
        now: float,
        *,
        mode: Mode | None = None,
        direction: Direction | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        """Answer a request to VERIFY: the peer is authenticated and accepted.

        A listener can grant less than requested, and shows its own evidence.
        """
        if self.state is not State.VERIFYING:
            raise StateError(f"there is nothing to accept: the session is {self.state.value}")
        if self._config.role is Role.LISTENER:
            choice = self._choice(mode, direction)
            data = self._encode(self._handshake.respond(*choice, evidence))
            self._clock(now)
            self._put(Kind.RESPONSE, data)
            self._agree()
        else:
            self._clock(now)
            self._machine.accepted()
        self._question = None
        self._received_at = self._now
        self._emit(events.Established(agreement=self._agreed))
        self._synchronise_all()
        while self._early and not self._machine.is_ignoring():
            self._handle(now, iter([Received(self._early.popleft())]))

    def refuse(
        self,
        now: float,
        code: int,
        reason: str = "",
        *,
        retry_after_ms: int = 0,
        redirect: tuple[str, ...] = (),
    ) -> None:
        """Refuse the peer; a dialler closes the connection with the code."""
        if self._question is None:
            raise StateError(f"there is nothing to refuse: the session is {self.state.value}")
        if self._config.role is Role.DIALLER:
            self.close(now, code, reason)
            return
        data = self._encode(self._dialect.refusal(code, reason, retry_after_ms, redirect))
        self._clock(now)
        self._refused(data, code, reason)

    # Commands for messages

    def send(self, now: float, message: Any) -> None:
        """Send information, a probe, or any other message without a command."""
        kind = self._dialect.kind(message)
        if kind not in _SENDABLE:
            raise StateError(f"{type(message).__name__} is not sent with send")
        if self._machine.state not in ESTABLISHED_STATES:
            self._check_can_send(kind)
        if reason := self._against_sending[kind]:
            raise StateError(reason)
        begun = self._sync_sent
        if kind in _SYNC_KINDS:
            begun = self._check_bases(self._dialect.event(now, message))
        data = self._dialect.encode(message, self._max_send)
        self._clock(now)
        self._sync_sent = begun
        self._queue(kind, data)

    def open_control_stream(self, now: float, stream_id: int) -> None:
        """Move control to a newly opened bidirectional stream, as dialler."""
        self._check_can_send(Kind.LATCH)
        endings = self._streams.open(stream_id)
        self._clock(now)
        self._generation += 1
        for ending in endings:
            self._outbox.end(ending.stream_id, ending.ending, StreamCode.LATCHED)
        self._put(Kind.LATCH, self._encode(self._dialect.latch(self._generation)))
        self._outbox.adopt(stream_id)
        self._synchronise_all()

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Announce that this relay leaves, and close after ``seconds``."""
        self._check_can_send(Kind.DRAIN)
        if not 0 <= seconds < math.inf:
            raise StateError(f"nobody goes away after {seconds} seconds")
        message = self._dialect.drain(seconds, reason, alternates)
        if message is not None:
            data = self._encode(message)
            self._clock(now)
            self._put(Kind.DRAIN, data)
        self._drain_deadline = self._clock(now) + seconds

    @property
    def can_stay(self) -> bool:
        """Whether :meth:`stay` is possible: this side drains and the dialect can revoke it."""
        told = self._machine.can_send(Kind.STAY) and Feature.STAYS in self._agreed.features
        silent = self._dialect.stay() is None and self.established
        return self._drain_deadline is not None and (told or silent)

    def stay(self, now: float) -> None:
        """Revoke :meth:`drain`: this relay stays connected."""
        if not self.can_stay:
            raise StateError(f"nothing can be taken back: the session is {self.state.value}")
        message = self._dialect.stay()
        if message is not None:
            data = self._encode(message)
            self._clock(now)
            self._put(Kind.STAY, data)
        self._clock(now)
        self._drain_deadline = None

    def close(self, now: float, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """End the session now."""
        if self.state is State.CLOSED:
            raise StateError("the session is closed already")
        self._clock(now)
        self._end(code, reason)

    # Commands for subscriber node sets and early data

    def advertise_sns(
        self, now: float, targets: Iterable[NodeId], *, hops: int = 0, scope: str = ""
    ) -> int:
        """Create a subscriber node set and return its ID, with which data may be sent at once.

        ``scope`` is the class of service that policy gave the data.
        """
        self._check_can_send(Kind.SNS)
        self._check_may_send(Kind.SNS)
        sns_id, messages = self._sets.advertise(targets, hops, scope)
        self._send_sns(now, messages)
        return sns_id

    def update_sns(self, now: float, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Change the targets of a set; its ID stays, and data continues."""
        self._check_can_send(Kind.SNS)
        self._send_sns(now, self._sets.update(sns_id, targets))

    def withdraw_sns(self, now: float, sns_id: int, *, empty: bool = False) -> None:
        """End a set. With ``empty`` its targets are removed first: queued data is not sent."""
        self._check_can_send(Kind.SNS)
        self._send_sns(now, self._sets.withdraw(sns_id, empty=empty))

    def refuse_sns(
        self, now: float, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId] = ()
    ) -> None:
        """Refuse a set of the peer, or some of its targets."""
        self._check_can_send(Kind.SNS_REFUSED)
        self._check_may_send(Kind.SNS_REFUSED)
        known = self._sets.receiver.get(sns_id)
        if known is None:
            raise StateError(f"the peer has no subscriber node set {sns_id}")
        refused = tuple(sorted(set(targets)))
        rejection = SnsRejection(sns_id, known.version, code, refused)
        if not refused:
            self._sets.receiver.refuse(sns_id)
        self._clock(now)
        self._send_own(self._dialect.write_sns_refusal(rejection))

    def hold_data(
        self, now: float, sns_id: int, item: Any, size: int
    ) -> tuple[SnsStanding, tuple[Dropped[Any], ...]]:
        """Hold data of a set that the forwarding plane does not have, if the set is unknown.

        Returns the standing of the set, and the items dropped for this one. UNKNOWN: the item is
        held until ``SnsAdvertised.released`` or ``DataDropped``. LIVE: the caller can forward it.
        GONE: the item is dropped.
        """
        now = self._clock(now)
        # A listener may send data right after its answer, and the data may arrive first.
        expected = self._data_asked if self._rights is None else self._rights.receives_data
        if not expected and not self._machine.is_ignoring():
            self._fail(ProtocolViolation(NO_DATA_EXPECTED))
        if self._machine.is_ignoring():
            return SnsStanding.GONE, (Dropped(sns_id, item, Drop.GONE),)
        if self.established:
            self._effects(self._sets.expire(now))  # the timer may be late
        return self._sets.hold(now, sns_id, item, size)

    # Time

    def _clock(self, now: float) -> float:
        """Advance the session's time and return it; it never goes back.

        With a time that goes back, the hold time could expire after a received message.
        """
        if now <= self._now:
            return self._now
        self._now = now
        return now

    def _handle_session_timeout(self, now: float) -> None:
        hold = self._hold_seconds
        if hold and now > self._hold_due + self._keepalive_seconds:
            # Our own clock was late. What the peer sent meanwhile may still be on its way to us.
            self._received_at = max(self._received_at, now - hold / 2)
        if hold and now >= self._received_at + hold:
            self._fail(HoldExpiredError(f"nothing heard for {hold:g} s"))
            return
        if self._drain_deadline is not None and now >= self._drain_deadline:
            self._fail(DrainedError("drained"))
            return
        if hold and now >= self._sent_at + self._keepalive_seconds:
            self._send_own(self._dialect.keepalive())
        self._effects(self._sets.expire(now))

    # Control streams

    def _decode(self, data: bytes, pos: int) -> tuple[Any, int]:
        message, after = self._dialect.decode(data, pos, self._max_receive)
        if self._machine.state is _VERIFYING and self._is_early:
            self._early_bytes += after - pos
        return message, after

    def _admit(self, message: Any) -> None:
        """Check that a newer control stream begins with the dialler's CONTROL_LATCH."""
        if self._config.role is Role.DIALLER:
            return
        if not self._machine.established:
            raise ProtocolViolation("a new control stream before the session is established")
        generation = self._dialect.generation(message)
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
        """Whether the application of a dialler has not accepted the listener yet."""
        return self._machine.state is _VERIFYING and self._config.role is Role.DIALLER

    # Received messages

    def _handle(self, now: float, items: Iterator[LatchItem[Any]]) -> None:
        """Process items in order; the first fault of the peer ends the session."""
        self._clock(now)
        machine = self._machine
        if machine.state in IGNORING_STATES:
            return
        try:
            for item in items:
                if type(item) is Received:
                    self._received_at = self._now
                    self._received(item[0])
                else:
                    self._stream_changed(item)
                if machine.state in IGNORING_STATES:
                    return
        except PeeringError as error:
            # Before the session is established, a listener refuses with a message.
            if self._machine.can_send(Kind.REFUSED):
                self._refuse_for(error)
            else:
                self._fail(error)
        except RemoteError as error:
            self._fail(error)

    def _stream_changed(self, item: LatchItem[Any]) -> None:
        """Process an item that is not a message."""
        match item:
            case StreamEnding(stream_id, ending):
                self._outbox.end(stream_id, ending, StreamCode.LATCHED)
            case Lost(stream_id):
                self._emit(events.ControlStreamLost(stream_id=stream_id))
            case Moved(old, new, clean, discarded):
                self._emit(
                    events.ControlStreamMoved(old=old, new=new, clean=clean, discarded=discarded)
                )
                self._moved()

    def _received(self, message: Any) -> None:
        kind = self._dialect.kind(message) or _IGNORED
        machine = self._machine
        if machine.state is _VERIFYING and self._is_early:
            if self._early_bytes > MAX_EARLY_BYTES:
                raise LimitExceededError("too much before the listener was verified")
            self._early.append(message)
            return
        if kind not in STEADY or machine.state not in ESTABLISHED_STATES:
            machine.received(kind)
        if kind is _IGNORED:
            return
        if machine.state in ESTABLISHED_STATES:
            self._received_in_session(kind, message)
        else:
            self._received_in_handshake(kind, message)

    def _received_in_handshake(self, kind: Kind, message: Any) -> None:
        handshake = self._handshake
        self._step()
        match kind:
            case Kind.CONNECT:
                answer = handshake.on_connect(message)
                if isinstance(answer, AuthenticationRequired):
                    self._ask(answer)
                else:
                    self._put(Kind.CHALLENGE, self._encode(answer))
            case Kind.CHALLENGE:
                self._ask(handshake.on_challenge(message))
            case Kind.PROOF:
                self._ask(handshake.on_proof(message))
            case Kind.RESPONSE:
                question = handshake.on_response(message)
                self._agree()
                self._ask(question)
            case _:  # REFUSED: the tables let nothing else through
                refused = self._dialect.event(self._now, message)
                if isinstance(refused, events.Refused):
                    self._emit(refused)
                    self._end(refused.code, refused.reason, by_peer=True)

    def _received_in_session(self, kind: Kind, message: Any) -> None:
        if reason := self._against_receiving[kind]:
            raise ProtocolViolation(reason)
        if kind is _LATCH:
            if not self._latch_due:
                raise ProtocolViolation("CONTROL_LATCH on a stream that is in use already")
            self._latch_due = False
        elif kind is _SNS:
            self._effects(self._sets.receive(message))
        else:
            event = self._dialect.event(self._now, message)
            if isinstance(event, _SYNC_EVENTS):
                self._synchronise(event)
            elif event is not None:
                self._events.append(event)

    # The handshake

    def _ask(self, question: AuthenticationRequired) -> None:
        if self._config.role is Role.LISTENER and not (
            self._config.mode.allows(question.mode) or question.mode.allows(self._config.mode)
        ):
            raise ModeRefusedError(f"mode {question.mode.name} is not for this relay")
        self._question = question
        self._emit(question)

    def _choice(self, mode: Mode | None, direction: Direction | None) -> tuple[Mode, Direction]:
        """Return the application's choice; by default the request, limited by the configuration."""
        question = self._question
        if question is None:
            raise StateError(f"nothing was asked: the session is {self.state.value}")
        if mode is None:
            mode = _common(question.mode, self._config.mode)
        if direction is None:
            direction = min(question.direction, self._config.direction)
        return mode, direction

    def _agree(self) -> None:
        """Apply the agreement of the handshake; a dialler's application may still refuse."""
        agreement = self._handshake.agreement()
        own, peer = self._config.node_info.node.relay_type, agreement.peer.node.relay_type
        if not self._dialect.checks_types:
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
        self._sets.apply_settings(agreement.peer_settings)
        self._max_receive = self._config.settings.max_message_size
        self._max_send = agreement.peer_settings.max_message_size
        if self._sets.unknown and not self._rights.receives_data:
            raise ProtocolViolation(NO_DATA_EXPECTED)

    def _refuse_for(self, error: PeeringError) -> None:
        reason = _reason(error)
        data = self._encode(self._dialect.refusal(error.code, reason, 0, ()))
        self._refused(data, error.code, reason)

    def _refused(self, data: bytes, code: int, reason: str) -> None:
        self._put(Kind.REFUSED, data)
        self._question = None
        self._refusal = (code, reason)
        self._deadline = self._now + REFUSAL_SECONDS

    # Synchronisation of bases and sets

    def _synchronise(
        self, event: events.SyncRequested | events.SyncBegan | events.SyncEnded
    ) -> None:
        """Process a synchronisation message: sets here, other bases in the application."""
        bases = event.bases
        match event:
            case events.SyncRequested():
                self._check_peer_bases(bases, self._agreed_rights.bases_sent())
                if Bases.SNS in bases:
                    self._send_all_sets()
            case events.SyncBegan():
                self._check_peer_bases(bases, self._agreed_rights.bases_received())
                if bases & self._syncing:
                    raise ProtocolViolation("SYNC_BEGIN inside a synchronisation of the same bases")
                self._syncing |= bases
                if Bases.SNS in bases:
                    self._sets.receiver.begin_sync()
            case events.SyncEnded():
                if bases not in self._syncing:
                    raise ProtocolViolation("SYNC_END without SYNC_BEGIN")
                self._syncing &= ~bases
                if Bases.SNS in bases:
                    self._effects(self._sets.end_sync())
        if Bases.SNS in bases:
            if rest := bases & ~Bases.SNS:
                self._emit(replace(event, bases=rest))
        elif bases:
            self._emit(event)

    @staticmethod
    def _check_peer_bases(bases: Bases, allowed: Bases) -> None:
        if bases not in allowed:
            wrong = bases & ~allowed
            raise ProtocolViolation(f"a synchronisation of {wrong!r} has no place here")

    def _synchronise_all(self) -> None:
        """Send all sets, and request all other bases from the application.

        Called when a session is established, and when this side writes to another control stream,
        because messages in flight may be lost (docs/spec/laps-2.md, 4.6 and 5.4).
        """
        bases = self._agreed_rights.bases_sent()
        self._sync_sent = Bases(0)  # a synchronisation begun on an older stream is void
        if bases & Bases.SNS:
            self._send_all_sets()
        if rest := bases & ~Bases.SNS:
            self._emit(events.SyncRequested(bases=rest))

    def _send_all_sets(self) -> None:
        for message in self._sets.synchronise():
            self._send_own(message)

    def _effects(self, effects: Iterator[Effect]) -> None:
        """Emit events to the application, and send rejections to the peer."""
        for effect in effects:
            if isinstance(effect, SnsRejection):
                self._send_own(self._dialect.write_sns_refusal(effect))
            else:
                self._emit(effect)

    def _moved(self) -> None:
        """Handle a move of the received control stream: messages in flight may be lost."""
        self._syncing = Bases(0)
        self._sets.receiver.moved()
        if self._config.role is Role.LISTENER and self._streams.sending is not None:
            self._outbox.adopt(self._streams.sending)
            # The dialler moves with the first message on the new stream, so one must be sent.
            self._send_own(self._dialect.keepalive())
            self._synchronise_all()

    def _check_bases(self, event: Event | None) -> Bases:
        """Check a synchronisation message of the application.

        Returns the bases that the application is synchronising after the message. The session
        itself sends its sets, so they are never among these bases.
        """
        begun = self._sync_sent
        match event:
            case events.SyncRequested(bases=bases):
                allowed = self._agreed_rights.bases_received()
            case events.SyncBegan(bases=bases):
                allowed = self._agreed_rights.bases_sent() & ~(Bases.SNS | begun)
                begun |= bases
            case events.SyncEnded(bases=bases):
                allowed = begun
                begun &= ~bases
            case _:
                return begun
        if bases not in allowed:
            wrong = bases & ~allowed
            raise StateError(f"a synchronisation of {wrong!r} has no place here")
        return begun

    # Sending

    def _check_can_send(self, kind: Kind) -> None:
        if not self._machine.can_send(kind):
            raise StateError(f"{kind.value} can not be sent: the session is {self.state.value}")

    def _check_may_send(self, kind: Kind) -> None:
        if reason := self._against_sending[kind]:
            raise StateError(reason)

    def _encode(self, message: Any) -> bytes:
        return self._dialect.encode(message, self._max_send)

    def _put(self, kind: Kind, data: bytes) -> None:
        """Send an encoded message; the caller has checked that the state allows it."""
        self._machine.sent(kind)
        self._queue(kind, data)

    def _queue(self, kind: Kind, data: bytes) -> None:
        """Queue an encoded message that does not change the state."""
        outbox = self._outbox
        self._sent_at = now = self._now
        self._deadline = now + self._config.handshake_seconds  # used in the handshake only
        outbox.put(self._streams.sending, data, kind in _REPEATED)
        if outbox.waiting_bytes > MAX_WAITING_BYTES:
            self._fail(OverloadedError("no control stream to send on"))

    def _step(self) -> None:
        """Restart the timeout of the handshake: each of its messages has its own."""
        self._deadline = self._now + self._config.handshake_seconds

    def _send_own(self, message: Any | None) -> None:
        """Send a message of the session itself, unless the dialect has none."""
        if message is None:
            return
        kind = self._dialect.kind(message) or Kind.IGNORED
        # The previous message may have ended the session (MAX_WAITING_BYTES).
        if self._machine.can_send(kind):
            self._put(kind, self._encode(message))

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _send_sns(self, now: float, messages: Iterable[Any]) -> None:
        self._clock(now)
        for message in messages:
            self._send_own(message)

    # The end

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

    # Results of the handshake

    @property
    def _agreed(self) -> Agreement:
        return _known(self._agreement)

    @property
    def _agreed_rights(self) -> Rights:
        return _known(self._rights)

    @property
    def _hold_seconds(self) -> float:
        """How long the peer may be silent; 0: for ever."""
        hold = self._agreed.hold_seconds
        return hold and max(hold, ROUND_TRIPS_PER_HOLD * self.round_trip)

    @property
    def _keepalive_seconds(self) -> float:
        """How long we are silent at most."""
        hold, wanted = self._agreed.hold_seconds, self._config.keepalive_seconds
        return min(wanted, hold / 2) if wanted else hold / KEEPALIVES_PER_HOLD

    @property
    def _hold_due(self) -> float:
        """When we must speak, or the peer must have spoken."""
        return min(self._sent_at + self._keepalive_seconds, self._received_at + self._hold_seconds)


_T = TypeVar("_T")


def _known(value: _T | None) -> _T:
    if value is None:
        raise StateError("the session is not established")
    return value


def _common(asked: Mode, most: Mode) -> Mode:
    """Return the intersection of two modes, which is known not to be empty."""
    return most if asked is Mode.BOTH else asked


def _reason(error: RemoteError) -> str:
    """Return the error's text without its offset, which is relative to a chunk."""
    text = str(error)
    if isinstance(error, MalformedError):
        text = f"{error.field}: {error.reason}" if error.field else error.reason
    return text[:MAX_REASON_CHARACTERS]
