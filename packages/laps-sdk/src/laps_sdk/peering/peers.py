"""All connections to other relays: one session each, from the first byte to the last.

::

    peer port                   Peers                                        NetworkRelay, StubRelay
    opened, stream_data, ... -> PeeringSession (LAPS2, CPP_16)  --events-->  PeerUp, PeerDown,
                                   | SIGN, VERIFY                            PeerRefused, and the
                                   v                                         events of a session
                                Admission: proof, policy, key, arbitration
    poll_transmit  <----------- output of the sessions  <----------------- ``wire(session).send``

A session is identified by the number that the peer port gave its connection. Between two nodes, one
session carries control; an :class:`~laps_wire.peering.session.Arbiter` decides which (laps-2, 4.4).
When control moves to another connection, PeerDown of the old one comes before PeerUp of the new.

All bidirectional streams of a dialler are control streams. So their ids are known before the peer
port has opened them: 0, 4, 8, ... The port opens the next one when it is told to write to it.

Events of a session::

    event of a session              how it is handled
    AuthenticationRequired          answered by Admission
    Established                     PeerUp
    Closed                          PeerDown, or PeerRefused if it never was up
    ControlStreamLost               the dialler opens the next one; reported
    NodesAdvertised                 with SIGNED_NODES: every signature is checked first; reported
    all others                      reported
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from laps_sdk.peering.admission import Admission, KeyConflictError, check_peer, judge_nodes
from laps_sdk.peering.events import (
    Dial,
    NodeIdConflict,
    PeerAuthenticator,
    PeerDown,
    PeerEvent,
    PeerFilter,
    PeerRefused,
    PeerUp,
)
from laps_sdk.peering.settings import Identity, PeeringSettings, features_of, settings_of
from laps_sdk.timers import Timers
from laps_wire.errors import RemoteError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode, NotAuthorizedError, PeeringError
from laps_wire.peering.laps2 import (
    Direction,
    Evidence,
    Feature,
    Mode,
    NodeInfo,
    NodeSelf,
    RelayType,
)
from laps_wire.peering.laps2.codepoints import MAX_CONTACTS
from laps_wire.peering.session import (
    CPP_16,
    HANDSHAKE_SECONDS,
    LAPS2,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    ControlStreamLost,
    Dialect,
    Established,
    Event,
    ForwardingState,
    NodesAdvertised,
    PeeringSession,
    Refused,
    Role,
    SessionConfig,
    State,
    Transmit,
)

__all__ = [
    "DIALECTS",
    "MAX_HANDSHAKES",
    "MAX_REASON",
    "MAX_SESSIONS_PER_NODE",
    "REOPEN_INTERVAL",
    "PeerRecord",
    "Peers",
]

MAX_HANDSHAKES: Final = 256
"""Incoming connections in their handshake; a further one closes the oldest."""
MAX_SESSIONS_PER_NODE: Final = 64
"""The most connections of one node to this relay."""
MAX_REASON: Final = 200
"""Characters of a reason that are sent to the peer."""
REOPEN_INTERVAL: Final = 1.0
"""Seconds between two control streams of one session, as each synchronises all state."""

DIALECTS: Final[Mapping[str, Dialect]] = {LAPS2.alpn: LAPS2, CPP_16.alpn: CPP_16}

STREAM_STEP: Final = 4
"""The distance between the ids of two bidirectional streams of a client (RFC 9000, 2.1)."""

_FOR_US: Final = frozenset(
    {
        AuthenticationRequired,
        Established,
        Refused,
        Closed,
        ControlStreamLost,
        NodesAdvertised,
    }
)
"""Events that ``Peers`` handles itself."""


@dataclass(slots=True, eq=False)
class PeerRecord:
    """The state of one connection."""

    number: int
    wire: PeeringSession
    role: Role
    alpn: str
    spki_hash: bytes
    dial: Dial | None
    node: NodeId | None = None
    """The node id that the peer claims."""
    fingerprint: bytes = b""
    up: PeerUp | None = None
    over: bool = False
    refusal: Refused | None = None
    next_stream: int = STREAM_STEP
    """The id of the next control stream, should the first one be lost."""
    reopened: float = float("-inf")
    reopen_at: float | None = None
    parted: bool = False
    """Whether this connection ends because it is not needed, though the relay stays."""


class Peers:
    """All sessions; see the module. A fault of a peer raises no exception in the peer port."""

    __slots__ = (
        "_admission",
        "_authenticator",
        "_challenge",
        "_dirty",
        "_events",
        "_greeting",
        "_handshake_seconds",
        "_hash_check",
        "_implementation",
        "_leaving",
        "_max_handshakes",
        "_node_info",
        "_now",
        "_own_spki",
        "_peers",
        "_timers",
        "_touched",
        "identity",
        "settings",
    )

    def __init__(
        self,
        identity: Identity,
        settings: PeeringSettings,
        authenticator: PeerAuthenticator,
        *,
        challenge: Callable[[], bytes],
        hash_check: int | None,
        may_peer: PeerFilter,
        node_info: Callable[[], NodeInfo],
        implementation: str = "",
        max_handshakes: int = MAX_HANDSHAKES,
        max_sessions_per_node: int = MAX_SESSIONS_PER_NODE,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        known_keys: Mapping[NodeId, bytes] | None = None,
    ) -> None:
        """``challenge`` returns 32 random bytes, ``node_info`` the information on this node."""
        self.identity = identity
        self.settings = settings
        """The settings for sessions that begin from now on."""
        self._authenticator = authenticator
        self._challenge = challenge
        self._hash_check = hash_check
        self._node_info = node_info
        self._implementation = implementation
        self._max_handshakes = max_handshakes
        self._handshake_seconds = handshake_seconds
        self._admission = Admission(
            authenticator, may_peer, max_sessions=max_sessions_per_node, kept=known_keys
        )
        self._peers: dict[int, PeerRecord] = {}
        self._greeting: dict[int, None] = {}
        self._touched: dict[int, None] = {}
        self._dirty: dict[int, None] = {}
        self._events: list[tuple[int, PeerEvent]] = []
        self._timers: Timers[int] = Timers()
        self._own_spki: bytes | None = None
        self._leaving: tuple[str, ...] | None = None
        self._now = 0.0

    def forwarding_states(self) -> list[ForwardingState]:
        """Return the subscriber node sets of each session whose handshake is complete."""
        return [peer.wire.forwarding for peer in self._peers.values()]

    # From the peer port

    def opened(
        self,
        now: float,
        session: int,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None = None,
    ) -> None:
        """Begin the session of a connection; ``spki_hash`` is of the listener's TLS key.

        A dialler sends its first message; a listener waits for it. Raises ``StateError`` if the
        ALPN is unknown or the session exists.
        """
        dialect = DIALECTS.get(alpn)
        if dialect is None:
            raise StateError(f"{alpn!r} is no peering protocol; known: {', '.join(DIALECTS)}")
        if session in self._peers:
            raise StateError(f"session {session} is open already")
        self._now = now
        info = self._own()
        wire = PeeringSession(self._config(role, info, spki_hash, dial), dialect, now)
        peer = PeerRecord(session, wire, role, alpn, spki_hash, dial)
        self._peers[session] = peer
        if role is Role.LISTENER:
            self._own_spki = spki_hash
            self._greet(now, session)
        if why := self._unfit(role, dialect, info.node.relay_type):
            wire.close(now, CloseCode.MODE_REFUSED, why)
        elif role is Role.DIALLER:
            wire.connect(now, 0)
        self._settle(peer)

    def measured(self, session: int, srtt_us: int) -> None:
        """Set the round trip of a connection: a hold time is at least four of them."""
        peer = self._peers.get(session)
        if peer is not None:
            peer.wire.round_trip = srtt_us / 1_000_000

    def stream_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Process bytes of a bidirectional stream."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stream_data(now, stream_id, data, fin=fin)
            self._settle(peer)

    def stream_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:  # noqa: ARG002 - not used
        """Process the peer's reset of a bidirectional stream."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stream_reset(now, stream_id)
            self._settle(peer)

    def stop_sending(self, now: float, session: int, stream_id: int, code: int = 0) -> None:  # noqa: ARG002 - not used
        """Process the peer's STOP_SENDING on a bidirectional stream."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stop_sending(now, stream_id)
            self._settle(peer)

    def closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """Process the end of a connection; its number is free again."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_connection_closed(now, code, reason)
            self._settle(peer)
            del self._peers[session]
            self._dirty.pop(session, None)
            self._touched.pop(session, None)

    # Commands

    def wire(self, session: int) -> PeeringSession:
        """Return the session itself, for commands; its output is polled afterwards.

        Raises ``StateError`` if there is no such session.
        """
        peer = self._peers.get(session)
        if peer is None:
            raise StateError(f"there is no session {session}")
        self._touched[session] = None
        return peer.wire

    def send(self, now: float, session: int, message: Any) -> bool:
        """Send a message over an established session; return False if there is none."""
        peer = self._peers.get(session)
        if peer is None or peer.up is None or peer.over:
            return False
        self._touched[session] = None
        peer.wire.send(now, message)
        return True

    def fail(self, now: float, session: int, error: RemoteError) -> None:
        """Close a session with the error's code, for a rule that the session cannot check."""
        self.close(now, session, error.code, str(error))

    def close(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """Close a session; does nothing if it has ended."""
        peer = self._at(now, session)
        if peer is not None and peer.wire.state is not State.CLOSED:
            peer.wire.close(now, code, reason[:MAX_REASON])
            self._settle(peer)

    def close_all(self, now: float, code: int = 0, reason: str = "") -> None:
        """Close all sessions, because the relay stops or changes its type."""
        for session in list(self._peers):
            self.close(now, session, code, reason)

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Send DRAIN to all peers; new connections are redirected to ``alternates``."""
        self._now = now
        self._leaving = alternates[:MAX_CONTACTS]
        for peer in list(self._peers.values()):
            if peer.wire.state in (State.ESTABLISHED, State.PEER_DRAINING):
                peer.wire.drain(now, seconds, reason[:MAX_REASON], self._leaving)
                self._settle(peer)

    def part(self, now: float, session: int, seconds: float, reason: str) -> None:
        """Send DRAIN on one connection only; the relay stays."""
        self._now = now
        peer = self._peers.get(session)
        if peer is None:
            return
        peer.parted = True
        if peer.wire.state in (State.ESTABLISHED, State.PEER_DRAINING):
            peer.wire.drain(now, seconds, reason[:MAX_REASON])
            self._settle(peer)

    def stay(self, now: float) -> None:
        """Cancel :meth:`drain`.

        Sessions with peers that do not support it end as announced, and both sides dial again.
        """
        self._now = now
        self._leaving = None
        for peer in list(self._peers.values()):
            if not peer.parted and peer.wire.can_stay:
                peer.wire.stay(now)
                self._settle(peer)

    def is_parted(self, session: int) -> bool:
        """Return whether :meth:`part` was called for this session."""
        peer = self._peers.get(session)
        return peer is not None and peer.parted

    def set_policy(
        self, now: float, may_peer: PeerFilter, known: Callable[[NodeId], NodeSelf | None]
    ) -> None:
        """Apply a new policy or node information: close sessions that are not allowed any more.

        ``known`` returns the present information on a node.
        """
        self._admission.may_peer = may_peer
        for session, peer in list(self._peers.items()):
            if peer.up is None:
                continue
            node = peer.up.node.node
            if refusal := may_peer(known(node.node_id) or node):
                self.close(now, session, CloseCode.POLICY, f"{refusal.reason} ({refusal.rule})")

    def forget_key(self, node: NodeId) -> bool:
        """Let another key hold the id of a node without sessions; return whether one was held."""
        return not self.sessions_of(node) and self._admission.forget(node)

    def signed(self, node: NodeSelf) -> NodeInfo:
        """Return information on this node, signed if there is a key."""
        return self._authenticator.sign_node(node)

    # Queries

    def sessions_of(self, node: NodeId) -> tuple[int, ...]:
        """Return the established sessions with a node, lowest first."""
        return tuple(
            sorted(p.number for p in self._peers.values() if p.node == node and self._is_up(p))
        )

    def control_of(self, node: NodeId) -> int | None:
        """Return the established session that carries control with a node, or None."""
        session = self._admission.control_of(node)
        return session if session is not None and self._is_up(self._peers[session]) else None

    def up(self, session: int) -> PeerUp | None:
        """Return what is known of an established session, or None."""
        peer = self._peers.get(session)
        return peer.up if peer is not None and self._is_up(peer) else None

    def __len__(self) -> int:
        return len(self._peers)

    # Polls

    def poll_dirty(self) -> list[int]:
        """Return the sessions with output since the last call."""
        if self._touched:
            self._catch_up()
        if not self._dirty:
            return []
        peers = self._peers
        dirty = [number for number in self._dirty if peers[number].wire.has_transmits]
        self._dirty.clear()
        return dirty

    def poll_transmit(self, session: int) -> list[Transmit]:
        """Return what the peer port must do for a session, in order."""
        if self._touched:
            self._catch_up()
        self._dirty.pop(session, None)
        items: list[Transmit] = []
        peer = self._peers.get(session)
        if peer is not None:
            poll = peer.wire.poll_transmit
            while (item := poll()) is not None:
                items.append(item)
        return items

    def has_events(self) -> bool:
        """Return whether :meth:`poll_events` returns any."""
        if self._touched:
            self._catch_up()
        return bool(self._events)

    def poll_events(self) -> list[tuple[int, PeerEvent]]:
        """Return the events since the last call, in order, each with its session."""
        if self._touched:
            self._catch_up()
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Return which keys hold node ids, to be stored; None if that has not changed."""
        return self._admission.poll_keys()

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None for never."""
        if self._touched:
            self._catch_up()
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Handle the timers of sessions that are due."""
        due: list[int] = []
        while (session := self._timers.pop(now)) is not None:
            due.append(session)
        for session in due:
            if (peer := self._at(now, session)) is not None:
                if peer.reopen_at is not None and now >= peer.reopen_at:
                    self._reopen(now, peer)
                peer.wire.handle_timeout(now)
                self._settle(peer)

    # Inside: our side of a session

    def _own(self) -> NodeInfo:
        info = self._node_info()
        if info.signature.fingerprint or info.signature.signature:
            return info
        return self._authenticator.sign_node(info.node)

    def _config(
        self, role: Role, info: NodeInfo, spki_hash: bytes, dial: Dial | None
    ) -> SessionConfig:
        mode, direction, expected = Mode.BOTH, Direction.BIDIRECTIONAL, None
        if dial is not None:
            mode, direction, expected = dial.mode, dial.direction, dial.node
        if info.node.relay_type is RelayType.CONTROL:
            mode = Mode.CONTROL
        return SessionConfig(
            role=role,
            node_info=info,
            challenge=self._challenge(),
            mode=mode,
            direction=direction,
            settings=settings_of(
                self.settings,
                hash_check=self._hash_check,
                expected=expected,
                implementation=self._implementation,
            ),
            features=features_of(self.settings, role, info.node.relay_type),
            schemes=self._authenticator.schemes,
            spki_hash=spki_hash,
            handshake_seconds=self._handshake_seconds,
            keepalive_seconds=self.settings.keepalive,
        )

    @staticmethod
    def _unfit(role: Role, dialect: Dialect, own: RelayType) -> str:
        """Return why this relay has no such sessions, whoever the peer is (laps-2, 4.5)."""
        if role is Role.LISTENER and own is RelayType.STUB:
            return "a Stub accepts no connections"
        if dialect is CPP_16 and own is RelayType.CONTROL:
            return "a control server does not speak with C++ relays"
        return ""

    # Inside: events of sessions

    def _greet(self, now: float, session: int) -> None:
        """Count an incoming connection whose handshake is not complete.

        If there are too many, the oldest is closed. An honest peer needs only a few round trips; a
        silent one would occupy its place until its timeout.
        """
        self._greeting[session] = None
        if len(self._greeting) > self._max_handshakes:
            oldest = next(iter(self._greeting))
            self.close(now, oldest, CloseCode.OVERLOADED, "too many handshakes are under way")

    def _at(self, now: float, session: int) -> PeerRecord | None:
        self._now = now
        return self._peers.get(session)

    @staticmethod
    def _is_up(peer: PeerRecord) -> bool:
        return peer.up is not None and not peer.over

    def _catch_up(self) -> None:
        """Handle what followed from commands that went directly to sessions."""
        while self._touched:
            session = next(iter(self._touched))
            self._settle(self._peers[session])

    def _settle(self, peer: PeerRecord) -> None:
        """Handle the events of a session until there are no more, and set its timer."""
        number, wire, timers = peer.number, peer.wire, self._timers
        self._touched.pop(number, None)
        self._dirty[number] = None
        while events := wire.poll_events():
            for event in events:
                if type(event) in _FOR_US:
                    self._happened(peer, event)
                else:
                    self._events.append((number, event))
        due = None if peer.over else wire.poll_timeout()
        if peer.reopen_at is not None and (due is None or peer.reopen_at < due):
            due = peer.reopen_at
        if due is None or peer.over:
            timers.cancel(number)
        elif due != timers.when(number):
            timers.set(number, due)

    def _happened(self, peer: PeerRecord, event: Event) -> None:
        """Handle one of the events in ``_FOR_US``."""
        now = self._now
        match event:
            case AuthenticationRequired():
                self._answer(now, peer, event)
                return
            case Established():
                self._established(peer, event)
                return
            case Refused():
                peer.refusal = event
                return
            case Closed():
                self._ended(peer, event)
                return
            case ControlStreamLost():
                if peer.role is Role.DIALLER:
                    peer.reopen_at = max(now, peer.reopened + REOPEN_INTERVAL)
                    self._reopen(now, peer)
            case NodesAdvertised():
                believed = self._believed(peer, event)
                if believed is None:
                    return
                event = believed
        self._events.append((peer.number, event))

    def _answer(self, now: float, peer: PeerRecord, question: AuthenticationRequired) -> None:
        """Answer the handshake: prove, or admit (docs/explanation/peering-session.md)."""
        wire, number = peer.wire, peer.number
        peer.node = question.peer
        local = self._node_info().node.node_id
        try:
            if question.step is AuthenticationStep.SIGN:
                mode = self._admission.ask(number, local, question)
                evidence = self._sign(wire, mode, question.schemes)
                wire.prove(now, mode=mode, evidence=evidence)
                return
            if self._leaving is not None:
                wire.refuse(now, CloseCode.DRAINED, "going away", redirect=self._leaving)
                return
            check_peer(self._authenticator, self.settings, question)
            ruling = self._admission.judge(number, local, peer.role, question)
            for other in ruling.superseded:
                self._supersede(now, other)
            peer.fingerprint = ruling.fingerprint
            if peer.role is Role.DIALLER or not question.transcript:
                wire.accept(now)
            else:
                shown = () if question.evidence is None else (question.evidence.scheme,)
                evidence = self._sign(wire, ruling.mode, shown)
                wire.accept(now, mode=ruling.mode, evidence=evidence)
        except PeeringError as error:
            if isinstance(error, KeyConflictError):
                conflict = NodeIdConflict(
                    session=number, node=error.node, known=error.known, shown=error.shown
                )
                self._events.append((number, conflict))
            wire.refuse(now, error.code, str(error)[:MAX_REASON])

    def _sign(self, wire: PeeringSession, mode: Mode, schemes: tuple[int, ...]) -> Evidence:
        evidence = self._authenticator.sign(
            schemes, lambda unsigned: wire.transcript(mode=mode, evidence=unsigned)
        )
        if evidence is None:
            raise NotAuthorizedError(f"none of the schemes {schemes} is ours")
        return evidence

    def _supersede(self, now: float, session: int) -> None:
        """Close a connection that the other end does not have any more."""
        self.close(now, session, CloseCode.SUPERSEDED, "a newer connection has taken its place")

    def _established(self, peer: PeerRecord, event: Established) -> None:
        agreement, rights = event.agreement, peer.wire.rights
        self._greeting.pop(peer.number, None)
        up = peer.up = PeerUp(
            session=peer.number,
            node=agreement.peer,
            mode=agreement.mode,
            direction=agreement.direction,
            control=agreement.mode.control,
            sends_data=rights is not None and rights.sends_data,
            receives_data=rights is not None and rights.receives_data,
            features=agreement.features,
            alpn=peer.alpn,
            role=peer.role,
            dial=peer.dial,
            settings=agreement.peer_settings,
            fingerprint=peer.fingerprint,
        )
        self._events.append((peer.number, up))

    def _ended(self, peer: PeerRecord, event: Closed) -> None:
        number, up = peer.number, peer.up
        peer.over = True
        peer.reopen_at = None
        self._greeting.pop(number, None)
        self._admission.closed(number)
        if up is not None:
            down = PeerDown(
                session=number,
                node=up.node.node.node_id,
                control=up.control,
                code=event.code,
                reason=event.reason,
                by_peer=event.by_peer,
                dial=peer.dial,
            )
            self._events.append((number, down))
            return
        refusal = peer.refusal or Refused(code=event.code)
        conflict = event.code == CloseCode.NODE_ID_CONFLICT
        refused = PeerRefused(
            session=number,
            code=event.code,
            reason=event.reason,
            redirect=refusal.redirect,
            retry_after=refusal.retry_after_ms / 1000,
            by_peer=event.by_peer,
            node=peer.node,
            dial=peer.dial,
            # A relay that dialled itself is also the listener with that certificate.
            to_self=conflict and peer.role is Role.DIALLER and peer.spki_hash == self._own_spki,
        )
        self._events.append((number, refused))

    def _reopen(self, now: float, peer: PeerRecord) -> None:
        """As dialler, continue control on the next stream (laps-2, 4.6), at a limited rate."""
        if peer.reopen_at is None or now < peer.reopen_at:
            return
        peer.reopen_at = None
        # The C++ relay has only one control stream, and so has a handshake.
        if peer.wire.established and peer.alpn == LAPS2.alpn:
            peer.reopened = now
            peer.wire.open_control_stream(now, peer.next_stream)
            peer.next_stream += STREAM_STEP

    def _believed(self, peer: PeerRecord, event: NodesAdvertised) -> NodesAdvertised | None:
        """Return the advertised nodes that are proved; with SIGNED_NODES by their own signature."""
        if peer.up is None or Feature.SIGNED_NODES not in peer.up.features:
            return event
        found = judge_nodes(self._authenticator, event.nodes)
        if found.lie:
            self.close(self._now, peer.number, CloseCode.BAD_NODE, found.lie)
            return None
        self._events += ((peer.number, each) for each in found.unproved)
        return event if not found.unproved else replace(event, nodes=found.nodes)
