"""All connections to other relays: one session each, from the first byte to the last.

::

    shell                       Peers                                        NetworkRelay
    opened, stream_data, ... -> PeeringSession (LAPS2, CPP_16)  --events-->  PeerUp, PeerDown,
                                   | SIGN, VERIFY                            PeerRefused, and all
                                   v                                         that a session tells
                                Admission: proof, policy, key, arbitration
    poll_transmit  <----------- what the sessions want to send  <--------- ``wire(session).send``

A session is told apart by the number that the shell gave its connection. Between two nodes one of
them carries control: an :class:`~laps_wire.peering.session.Arbiter` keeps the rule (laps-2, 4.4).
When the control connection moves to another one, PeerDown of the old one comes before PeerUp of
the new one.

A dialler's bidirectional streams are all control streams, so their numbers are known before the
shell has opened them: 0, 4, 8, ... The shell opens one whenever it is told to write to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laps_sdk.peering.events import (
    Dial,
    NodeIdConflict,
    NodeUnproved,
    PeerAuthenticator,
    PeerDown,
    PeerEvent,
    PeerFilter,
    PeerRefused,
    PeerUp,
)
from laps_sdk.peering.peer_core import DIALECTS, MAX_REASON, PeerCore
from laps_sdk.peering.peer_records import PeerRecord
from laps_wire.errors import RemoteError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import NodeInfo, NodeSelf
from laps_wire.peering.laps2.limits import MAX_CONTACTS
from laps_wire.peering.session import PeeringSession, Role, State, Transmit

__all__ = [
    "NodeIdConflict",
    "NodeUnproved",
    "PeerAuthenticator",
    "PeerDown",
    "PeerEvent",
    "PeerRefused",
    "PeerUp",
    "Peers",
]


class Peers(PeerCore):
    """See the module. Methods from the shell never raise because of what a peer did."""

    __slots__ = ()

    # From the shell

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
        """A connection stands; ``spki_hash`` is of the listener's TLS key, on both sides.

        Who listens waits for what comes, who dialled begins to speak.
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

    def stream_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Bytes of a bidirectional stream."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stream_data(now, stream_id, data, fin=fin)
            self._settle(peer)

    def stream_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:  # noqa: ARG002 - says nothing here
        """The peer reset its half of a bidirectional stream."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stream_reset(now, stream_id)
            self._settle(peer)

    def stop_sending(self, now: float, session: int, stream_id: int, code: int = 0) -> None:  # noqa: ARG002 - says nothing here
        """The peer reads our half of a bidirectional stream no more."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_stop_sending(now, stream_id)
            self._settle(peer)

    def closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """The connection is gone; the number is free again."""
        if (peer := self._at(now, session)) is not None:
            peer.wire.handle_connection_closed(now, code, reason)
            self._settle(peer)
            del self._peers[session]
            self._dirty.pop(session, None)
            self._touched.pop(session, None)

    # Commands

    def wire(self, session: int) -> PeeringSession:
        """The session itself, for commands; what it wants to send is polled afterwards."""
        peer = self._peers.get(session)
        if peer is None:
            raise StateError(f"there is no session {session}")
        self._touched[session] = None
        return peer.wire

    def send(self, now: float, session: int, message: Any) -> bool:
        """Send a message over an established session; whether there is one."""
        peer = self._peers.get(session)
        if peer is None or peer.up is None or peer.over:
            return False
        self._touched[session] = None
        peer.wire.send(now, message)
        return True

    def fail(self, now: float, session: int, error: RemoteError) -> None:
        """The peer broke a rule that its session can not know: close with the rule's code."""
        self.close(now, session, error.code, str(error))

    def close_all(self, now: float, code: int = 0, reason: str = "") -> None:
        """End everything: the relay stops, or becomes another one."""
        for session in list(self._peers):
            self.close(now, session, code, reason)

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Tell all peers that we go away, and send who comes now to others."""
        self._now = now
        self._leaving = alternates[:MAX_CONTACTS]
        for peer in list(self._peers.values()):
            if peer.wire.state in (State.ESTABLISHED, State.PEER_DRAINING):
                peer.wire.drain(now, seconds, reason[:MAX_REASON], self._leaving)
                self._settle(peer)

    def part(self, now: float, session: int, seconds: float, reason: str) -> None:
        """Tell one peer that this connection ends; we stay."""
        self._now = now
        peer = self._peers.get(session)
        if peer is None:
            return
        peer.parted = True
        if peer.wire.state in (State.ESTABLISHED, State.PEER_DRAINING):
            peer.wire.drain(now, seconds, reason[:MAX_REASON])
            self._settle(peer)

    def stay(self, now: float) -> None:
        """Take :meth:`drain` back.

        Sessions with peers that do not know how end as they were told; both sides dial again.
        """
        self._now = now
        self._leaving = None
        for peer in list(self._peers.values()):
            if not peer.parted and peer.wire.can_stay:
                peer.wire.stay(now)
                self._settle(peer)

    def is_parted(self, session: int) -> bool:
        """Whether we have told that this connection ends."""
        peer = self._peers.get(session)
        return peer is not None and peer.parted

    def set_policy(
        self, now: float, may_peer: PeerFilter, known: Callable[[NodeId], NodeSelf | None]
    ) -> None:
        """Another policy is in force, or a peer is elsewhere: who may not peer any more is told so.

        ``known`` gives what is known of a node by now.
        """
        self._admission.may_peer = may_peer
        for session, peer in list(self._peers.items()):
            if peer.up is None:
                continue
            said = peer.up.node.node
            if refusal := may_peer(known(said.node_id) or said):
                self.close(now, session, CloseCode.POLICY, f"{refusal.reason} ({refusal.rule})")

    def forget_key(self, node: NodeId) -> bool:
        """Let another key have the id of a node that has no session."""
        return not self.sessions_of(node) and self._admission.forget(node)

    def signed(self, node: NodeSelf) -> NodeInfo:
        """What we say of ourselves, signed if there is a key."""
        return self._authenticator.sign_node(node)

    # Queries

    def sessions_of(self, node: NodeId) -> tuple[int, ...]:
        """Established sessions with a node, lowest first."""
        return tuple(
            sorted(p.number for p in self._peers.values() if p.node == node and self._is_up(p))
        )

    def control_of(self, node: NodeId) -> int | None:
        """The established session that carries control with a node."""
        session = self._admission.control_of(node)
        return session if session is not None and self._is_up(self._peers[session]) else None

    def up(self, session: int) -> PeerUp | None:
        """What is known of an established session."""
        peer = self._peers.get(session)
        return peer.up if peer is not None and self._is_up(peer) else None

    def __len__(self) -> int:
        return len(self._peers)

    # Polls

    def poll_dirty(self) -> list[int]:
        """Sessions that have something to send; taken once."""
        if self._touched:
            self._catch_up()
        if not self._dirty:
            return []
        peers = self._peers
        dirty = [number for number in self._dirty if peers[number].wire.has_transmits]
        self._dirty.clear()
        return dirty

    def poll_transmit(self, session: int) -> list[Transmit]:
        """What a session wants the shell to do, in order."""
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
        """Whether :meth:`poll_events` has something."""
        if self._touched:
            self._catch_up()
        return bool(self._events)

    def poll_events(self) -> list[tuple[int, PeerEvent]]:
        """What happened, in order, each with its session."""
        if self._touched:
            self._catch_up()
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Which keys hold node ids, if that has changed; for the next life."""
        return self._admission.poll_keys()

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        if self._touched:
            self._catch_up()
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Let time pass for the sessions that wait for it."""
        due: list[int] = []
        while (session := self._timers.pop(now)) is not None:
            due.append(session)
        for session in due:
            if (peer := self._at(now, session)) is not None:
                if peer.reopen_at is not None and now >= peer.reopen_at:
                    self._reopen(now, peer)
                peer.wire.handle_timeout(now)
                self._settle(peer)
