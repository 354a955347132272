"""The receiving half of a session: what comes in, what follows from it, and when.

A message goes through four gates, and each has its own kind of fault::

    bytes ──> decode ──────> state table ───────> rights table ───> its handler ──> events
              malformed      wrong moment         wrong mode,       wrong content
                                                  side or type

A fault of the peer never leaves this module as an exception: the session ends with the fault's
code. A listener that is still in the handshake says it in CONNECT_REFUSED, if the code is for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.peering.errors import (
    DrainedError,
    HandshakeTimeoutError,
    HoldExpiredError,
    LimitExceededError,
    PeeringError,
    StreamCode,
)
from laps_wire.peering.laps2.codepoints import Bases
from laps_wire.peering.session import events
from laps_wire.peering.session.core import KEEPALIVES_PER_HOLD, SessionCore
from laps_wire.peering.session.events import AuthenticationRequired
from laps_wire.peering.session.latching import (
    LatchItem,
    Lost,
    Moved,
    Received,
    Role,
    StreamEnding,
)
from laps_wire.peering.session.state import (
    DEAF_STATES,
    ESTABLISHED_STATES,
    HANDSHAKE_STATES,
    STEADY,
    Kind,
    State,
)

__all__ = ["MAX_EARLY_BYTES", "SessionReceiver"]

MAX_EARLY_BYTES: Final = 1_048_576
"""How much a dialler keeps of what an unverified listener sends; more closes the session."""

_IGNORED: Final = Kind.IGNORED
_LATCH: Final = Kind.LATCH
_SNS: Final = Kind.SNS
_VERIFYING: Final = State.VERIFYING
_SYNCHRONISES: Final = (events.SyncRequested, events.SyncBegan, events.SyncEnded)


class SessionReceiver(SessionCore):
    """Everything that the transport and time can do to a session."""

    # From the transport

    def handle_stream_data(
        self, now: float, stream_id: int, data: bytes, *, fin: bool = False
    ) -> None:
        """Bytes came in on a bidirectional stream, perhaps its last ones."""
        self._handle(now, self._streams.receive(stream_id, data, fin=fin))

    def handle_stream_reset(self, now: float, stream_id: int) -> None:
        """The peer reset its half of a bidirectional stream."""
        self._handle(now, self._streams.reset(stream_id))

    def handle_stop_sending(self, now: float, stream_id: int) -> None:
        """The peer no longer reads our half of a bidirectional stream."""
        self._handle(now, self._streams.stopped(stream_id))

    def handle_connection_closed(self, now: float, code: int = 0, reason: str = "") -> None:
        """The connection has ended: the peer closed it, or it was lost."""
        self._clock(now)
        if self.state is State.REFUSED:
            code, reason = self._refusal
        self._end(code, reason, by_peer=True)
        self._outbox.clear()

    def handle_timeout(self, now: float) -> None:
        """The time that :meth:`poll_timeout` named has come; too early is no fault."""
        now = self._clock(now)
        if self.state in HANDSHAKE_STATES and now >= self._deadline:
            self._fail(HandshakeTimeoutError("the handshake was not finished in time"))
        elif self.state is State.REFUSED and now >= self._deadline:
            self._end(*self._refusal)
        elif self._machine.established:
            self._handle_session_timeout(now)

    def _handle_session_timeout(self, now: float) -> None:
        hold = self._hold_seconds
        if hold and now >= self._heard + hold:
            self._fail(HoldExpiredError(f"nothing heard for {hold:g} s"))
            return
        if self._drain_deadline is not None and now >= self._drain_deadline:
            self._fail(DrainedError("drained"))
            return
        if hold and now >= self._spoke + hold / KEEPALIVES_PER_HOLD:
            self._say(self._flavour.keepalive())
        self._effects(self._sets.expire(now))

    # Inside, for what comes in

    def _handle(self, now: float, items: Iterator[LatchItem[Any]]) -> None:
        """Let things happen, in order; the first fault of the peer ends the session."""
        self._clock(now)
        machine = self._machine
        if machine.state in DEAF_STATES:
            return
        try:
            for item in items:
                if type(item) is Received:
                    self._heard = self._now
                    self._received(item[0])
                else:
                    self._happened(item)
                if machine.state in DEAF_STATES:
                    return
        except PeeringError as error:
            # Before a session is established a listener says no in a message.
            if self._machine.can_send(Kind.REFUSED):
                self._refuse_for(error)
            else:
                self._fail(error)
        except RemoteError as error:
            self._fail(error)

    def _happened(self, item: LatchItem[Any]) -> None:
        """Anything but a message."""
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
        kind = self._flavour.kind(message) or _IGNORED
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
                refused = self._flavour.event(self._now, message)
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
            event = self._flavour.event(self._now, message)
            if isinstance(event, _SYNCHRONISES):
                self._synchronise(event)
            elif event is not None:
                self._events.append(event)

    # Inside, for bases

    def _synchronise(
        self, event: events.SyncRequested | events.SyncBegan | events.SyncEnded
    ) -> None:
        """A message about bases: sets are ours to deal with, the others are the application's."""
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

    def _moved(self) -> None:
        """We read from another control stream: what was under way to us may be lost."""
        self._syncing = Bases(0)
        self._sets.receiver.moved()
        if self._config.role is Role.LISTENER and self._streams.sending is not None:
            self._outbox.adopt(self._streams.sending)
            # The dialler moves with the first message that it gets there, so there must be one.
            self._say(self._flavour.keepalive())
            self._synchronise_all()
