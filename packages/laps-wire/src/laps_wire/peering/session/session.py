"""A peering session: one connection to one other relay, without sockets, clocks or cryptography.

Method families, in the order in which a shell uses them:

- **From the transport**, each with the time: :meth:`~PeeringSession.handle_stream_data`,
  ``handle_stream_reset``, ``handle_stop_sending``, ``handle_connection_closed``,
  ``handle_timeout``. They never raise because of what a peer did: a fault closes the session with
  its code.
- **Commands** of the application: handshake (``connect``, ``transcript``, ``prove``, ``accept``,
  ``refuse``), messages (``send``), subscriber node sets (``advertise_sns``, ``update_sns``,
  ``withdraw_sns``, ``refuse_sns``), early data (``hold_data``), and the end (``drain``, ``stay``,
  ``close``).
  A command in a wrong state raises :class:`~laps_wire.errors.StateError` and changes nothing.
- **Polls**, after every call of the above, until there is nothing left: ``poll_transmit``, then
  ``poll_timeout``, then ``poll_events``.

::

        transport                        session                          application
      bytes, resets ── handle_* ──> ┌──────────────────┐
      the clock ────── handle_* ──> │ streams, states, │ ── poll_events ──> facts
                                    │ rights, sets     │ <── commands ───── decisions
      bytes, ends <── poll_transmit │                  │
      a timer <────── poll_timeout  └──────────────────┘

The session keeps the subscriber node sets of both directions, because they live and die with it.
Nodes, announces and subscribes belong to the whole relay; they only pass through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode, StreamCode
from laps_wire.peering.laps2.codepoints import Bases, Direction, Feature, Mode, SnsRefusal
from laps_wire.peering.laps2.handshake import NO_EVIDENCE, Evidence
from laps_wire.peering.session import events
from laps_wire.peering.session.core import NO_DATA_EXPECTED
from laps_wire.peering.session.events import Event
from laps_wire.peering.session.latching import Received, Role
from laps_wire.peering.session.receiving import SessionReceiver
from laps_wire.peering.session.sns import SnsRejection, SnsStanding
from laps_wire.peering.session.state import ESTABLISHED_STATES, Kind, Shape, State
from laps_wire.peering.session.unknown import Drop, Dropped

__all__ = ["PeeringSession"]

# What `send` takes, all of it steady; every other kind has a command of its own.
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
        Kind.PROBE,
        Kind.PLAN,
        Kind.IGNORED,
    }
)

_SYNCHRONISES: Final = frozenset({Kind.SYNC_REQUEST, Kind.SYNC})


class PeeringSession(SessionReceiver):
    """One side of one session, dialler or listener, in either flavour."""

    # Commands for the handshake

    def connect(self, now: float, stream_id: int = 0) -> None:
        """Dialler: begin, on a bidirectional stream that was opened for it."""
        self._check_can_send(Kind.CONNECT)
        data = self._encode(self._handshake.connect())
        self._clock(now)
        self._streams.open(stream_id)
        self._put(Kind.CONNECT, data)
        self._max_receive = self._config.settings.max_message_size  # the listener knows it now
        # Where nothing is proved, the answer to this one grants everything.
        self._data_asked = self._flavour.shape is Shape.PLAIN and self._config.mode.data

    def transcript(
        self,
        *,
        mode: Mode | None = None,
        direction: Direction | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> bytes:
        """What to sign for ``evidence``, whose signature is not looked at; defaults as asked."""
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
        """Dialler: answer a question to SIGN."""
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
        """Answer a question to VERIFY: the peer is who it says, and may come in.

        A listener may grant less than was asked for, and shows its own evidence.
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
        self._heard = self._now
        self._emit(events.Established(agreement=self._agreed))
        self._synchronise_all()
        while self._early and not self._machine.is_deaf():
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
        """Answer a question with no; a dialler just closes with the code."""
        if self._question is None:
            raise StateError(f"there is nothing to refuse: the session is {self.state.value}")
        if self._config.role is Role.DIALLER:
            self.close(now, code, reason)
            return
        data = self._encode(self._flavour.refusal(code, reason, retry_after_ms, redirect))
        self._clock(now)
        self._refused(data, code, reason)

    # Commands for messages

    def send(self, now: float, message: Any) -> None:
        """Send information, a probe, or anything else that has no command of its own."""
        kind = self._flavour.kind(message)
        if kind not in _SENDABLE:
            raise StateError(f"{type(message).__name__} is not sent with send")
        if self._machine.state not in ESTABLISHED_STATES:
            self._check_can_send(kind)
        if reason := self._against_sending[kind]:
            raise StateError(reason)
        begun = self._sync_sent
        if kind in _SYNCHRONISES:
            begun = self._check_bases(self._flavour.event(now, message))
        data = self._flavour.encode(message, self._max_send)
        self._clock(now)
        self._sync_sent = begun
        self._queue(kind, data)

    def open_control_stream(self, now: float, stream_id: int) -> None:
        """Dialler: go on with control on another, newly opened bidirectional stream."""
        self._check_can_send(Kind.LATCH)
        endings = self._streams.open(stream_id)
        self._clock(now)
        self._generation += 1
        for ending in endings:
            self._outbox.end(ending.stream_id, ending.ending, StreamCode.LATCHED)
        self._put(Kind.LATCH, self._encode(self._flavour.latch(self._generation)))
        self._outbox.adopt(stream_id)
        self._synchronise_all()

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Say that we go away, and close after ``seconds``."""
        self._check_can_send(Kind.DRAIN)
        if not 0 <= seconds < math.inf:
            raise StateError(f"nobody goes away after {seconds} seconds")
        message = self._flavour.drain(seconds, reason, alternates)
        if message is not None:
            data = self._encode(message)
            self._clock(now)
            self._put(Kind.DRAIN, data)
        self._drain_deadline = self._clock(now) + seconds

    @property
    def can_stay(self) -> bool:
        """Whether :meth:`stay` is of use: we have said that we go away, and can say otherwise."""
        told = self._machine.can_send(Kind.STAY) and Feature.STAYS in self._agreed.features
        silent = self._flavour.stay() is None and self.established
        return self._drain_deadline is not None and (told or silent)

    def stay(self, now: float) -> None:
        """Take :meth:`drain` back: we do not go away, and do not close."""
        if not self.can_stay:
            raise StateError(f"nothing can be taken back: the session is {self.state.value}")
        message = self._flavour.stay()
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
        """Make a subscriber node set; gives its id, with which data may be sent at once.

        ``scope`` is the class of service that policy gave the data.
        """
        self._check_can_send(Kind.SNS)
        self._check_may_send(Kind.SNS)
        sns_id, messages = self._sets.advertise(targets, hops, scope)
        self._send_sns(now, messages)
        return sns_id

    def update_sns(self, now: float, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Change a set in place: the id stays, and data goes on."""
        self._check_can_send(Kind.SNS)
        self._send_sns(now, self._sets.update(sns_id, targets))

    def withdraw_sns(self, now: float, sns_id: int, *, empty: bool = False) -> None:
        """End a set. With ``empty`` its targets leave it first: what waits for them is not sent."""
        self._check_can_send(Kind.SNS)
        self._send_sns(now, self._sets.withdraw(sns_id, empty=empty))

    def refuse_sns(
        self, now: float, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId] = ()
    ) -> None:
        """Do not serve a set of the peer, or some of its targets."""
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
        self._say(self._flavour.write_sns_refusal(rejection))

    def hold_data(
        self, now: float, sns_id: int, item: Any, size: int
    ) -> tuple[SnsStanding, tuple[Dropped[Any], ...]]:
        """Data came in for a set that the forwarding plane does not have.

        UNKNOWN: it waits, and comes back in ``SnsAdvertised.released`` or ``DataDropped``. LIVE: it
        can be forwarded. GONE: it can not. What had to be dropped for it is given back.
        """
        now = self._clock(now)
        # A listener may send data as soon as it has answered, and data may overtake the answer.
        expected = self._data_asked if self._rights is None else self._rights.receives_data
        if not expected and not self._machine.is_deaf():
            self._fail(ProtocolViolation(NO_DATA_EXPECTED))
        if self._machine.is_deaf():
            return SnsStanding.GONE, (Dropped(sns_id, item, Drop.GONE),)
        if self.established:
            self._effects(self._sets.expire(now))  # the timer may be late
        return self._sets.hold(now, sns_id, item, size)

    # Inside

    def _send_sns(self, now: float, messages: Iterable[Any]) -> None:
        self._clock(now)
        for message in messages:
            self._say(message)

    def _check_can_send(self, kind: Kind) -> None:
        if not self._machine.can_send(kind):
            raise StateError(f"{kind.value} can not be sent: the session is {self.state.value}")

    def _check_may_send(self, kind: Kind) -> None:
        if reason := self._against_sending[kind]:
            raise StateError(reason)

    def _check_bases(self, event: Event | None) -> Bases:
        """A synchronisation of the application is about what it may send or ask for.

        Gives the bases of which it is in the middle after this. The session sends its sets by
        itself, so they are never among them.
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
