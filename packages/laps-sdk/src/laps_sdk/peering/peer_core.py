"""The inside of ``Peers``: what we bring to a session, and what follows from what it tells.

::

    event of a session              what is done with it
    AuthenticationRequired          answered here, by Admission
    Established                     PeerUp
    Closed                          PeerDown, or PeerRefused if it never was up
    ControlStreamLost               the dialler opens the next one; told
    NodesAdvertised                 with SIGNED_NODES: every signature is checked first; told
    all others                      told
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from laps_sdk.peering.admission import Admission, KeyConflictError
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
from laps_sdk.peering.peer_records import STREAM_STEP, PeerRecord
from laps_sdk.peering.settings import Identity, PeeringSettings, features_of, settings_of
from laps_sdk.peering.signed_nodes import check_peer, judge_nodes
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode, NotAuthorizedError, PeeringError
from laps_wire.peering.laps2 import Direction, Evidence, Feature, Mode, NodeInfo, RelayType
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    ControlStreamLost,
    Dialect,
    Established,
    Event,
    NodesAdvertised,
    PeeringSession,
    Refused,
    Role,
    SessionConfig,
    State,
)
from laps_wire.peering.session.dialect import HANDSHAKE_SECONDS

__all__ = [
    "DIALECTS",
    "MAX_HANDSHAKES",
    "MAX_REASON",
    "MAX_SESSIONS_PER_NODE",
    "REOPEN_INTERVAL",
    "PeerCore",
]

MAX_HANDSHAKES: Final = 256
"""Connections of others that have not proved themselves yet; more of them push the oldest out."""
MAX_SESSIONS_PER_NODE: Final = 64
"""Connections that one node may have to us."""
MAX_REASON: Final = 200
"""Characters of a reason that go to the peer."""
REOPEN_INTERVAL: Final = 1.0
"""Seconds between two control streams of one session: each is a synchronisation."""

DIALECTS: Final[Mapping[str, Dialect]] = {LAPS2.alpn: LAPS2, CPP_16.alpn: CPP_16}


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
"""Events that are not only passed on."""


class PeerCore:
    """The state of ``Peers``, and what it does by itself."""

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
        """``challenge`` gives 32 fresh random bytes; ``node_info`` what we say of ourselves now."""
        self.identity = identity
        self.settings = settings
        """Sessions that begin from now on are offered these."""
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

    def close(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """End a session; nothing if it is over."""
        peer = self._at(now, session)
        if peer is not None and peer.wire.state is not State.CLOSED:
            peer.wire.close(now, code, reason[:MAX_REASON])
            self._settle(peer)

    # Inside: what we bring

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
        )

    @staticmethod
    def _unfit(role: Role, dialect: Dialect, own: RelayType) -> str:
        """Why this relay has no such sessions, whoever the peer is (laps-2, 4.5)."""
        if role is Role.LISTENER and own is RelayType.STUB:
            return "a Stub accepts no connections"
        if dialect is CPP_16 and own is RelayType.CONTROL:
            return "a control server does not speak with C++ relays"
        return ""

    # Inside: what sessions tell

    def _greet(self, now: float, session: int) -> None:
        """Somebody came who has proved nothing yet.

        If there are too many of them, the one who came first must go: an honest peer is through
        within a few round trips, a silent one would keep its place until its time is over.
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
        """Commands went past us, straight to the sessions: hear what followed from them."""
        while self._touched:
            session = next(iter(self._touched))
            self._settle(self._peers[session])

    def _settle(self, peer: PeerRecord) -> None:
        """Hear what a session has to tell, until it is quiet; set its timer."""
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
        """One of those events."""
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
        """The handshake asks: prove, or let in (docs/explanation/peering-session.md)."""
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
        """The other end holds this connection no more, or never had it in this life."""
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
        said = peer.refusal or Refused(code=event.code)
        conflict = event.code == CloseCode.NODE_ID_CONFLICT
        refused = PeerRefused(
            session=number,
            code=event.code,
            reason=event.reason,
            redirect=said.redirect,
            retry_after=said.retry_after_ms / 1000,
            by_peer=event.by_peer,
            node=peer.node,
            dial=peer.dial,
            # Whoever dials itself is also its own listener, and has shown that certificate.
            to_self=conflict and peer.role is Role.DIALLER and peer.spki_hash == self._own_spki,
        )
        self._events.append((number, refused))

    def _reopen(self, now: float, peer: PeerRecord) -> None:
        """Dialler: go on with control on the next stream (laps-2, 4.6), not too often."""
        if peer.reopen_at is None or now < peer.reopen_at:
            return
        peer.reopen_at = None
        # The C++ relay has one control stream for ever, and a handshake has one, too.
        if peer.wire.established and peer.alpn == LAPS2.alpn:
            peer.reopened = now
            peer.wire.open_control_stream(now, peer.next_stream)
            peer.next_stream += STREAM_STEP

    def _believed(self, peer: PeerRecord, event: NodesAdvertised) -> NodesAdvertised | None:
        """What of it may be told; with SIGNED_NODES each node says itself what is said of it."""
        if peer.up is None or Feature.SIGNED_NODES not in peer.up.features:
            return event
        found = judge_nodes(self._authenticator, event.nodes)
        if found.lie:
            self.close(self._now, peer.number, CloseCode.BAD_NODE, found.lie)
            return None
        self._events += ((peer.number, each) for each in found.unproved)
        return event if not found.unproved else replace(event, nodes=found.nodes)
