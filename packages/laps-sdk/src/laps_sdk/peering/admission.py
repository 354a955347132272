"""Decides who is admitted and which connection carries control: the two questions of a handshake.

::

    SIGN    (dialler)   ask     may this connection ask for control with the node now?
    VERIFY  (both)      judge   valid proof?  policy?  same key as before?  newest epoch?
                                -> the granted mode, and connections that the other end has lost

A node id belongs to the key that held it first (laps-2, 4.1). The same key with a higher boot epoch
is the same node after a restart; another key never replaces it. This survives our own restart if
the caller stores what :meth:`Admission.poll_keys` returns. Information from third parties does not
count here: it would let a liar lock a node out. Stubs share node id 0; they have no arbiter and no
key of the network.

Node information is signed by the node itself (feature SIGNED_NODES; laps-2, 5.1)::

    handshake        the peer does not use SIGNED_NODES, and we require it   refused
                     it does, and its own information is not signed          refused
    NODE_ADVERTISE   the signature is invalid, or of another key             false: BAD_NODE
                     the certificate behind it has expired                   left out, reported

An expired certificate is not the fault of the peer that passes it on: the signature was valid when
that peer checked it. A relay must not lose its peers for the certificate of a third one. Stubs
advertise no other nodes, and C++ relays sign nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from laps_sdk.peering.events import NOT_NOW, NodeUnproved, PeerAuthenticator, PeerFilter
from laps_sdk.peering.settings import PeeringSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import (
    NodeIdConflictError,
    NotAuthorizedError,
    OverloadedError,
    PolicyError,
    RedundantControlError,
    StaleEpochError,
)
from laps_wire.peering.laps2 import NO_EVIDENCE, Feature, Mode, NodeInfo, RelayType
from laps_wire.peering.session import Arbiter, AuthenticationRequired, Grant, Role

__all__ = ["Admission", "Judgement", "KeyConflictError", "Ruling", "check_peer", "judge_nodes"]

MAX_REMEMBERED: Final = 65_536
"""The most nodes without a connection whose key is kept; the oldest is forgotten first."""


class KeyConflictError(NodeIdConflictError):
    """Another key holds the node id."""

    def __init__(self, node: NodeId, known: bytes, shown: bytes) -> None:
        held = known.hex()[:16] or "none"
        came = shown.hex()[:16] or "none"
        super().__init__(f"node ID {node} is held by key {held}, not by {came}")
        self.node = node
        self.known = known
        self.shown = shown


class Ruling(NamedTuple):
    """The admission of a connection."""

    mode: Mode
    """What the connection carries."""
    fingerprint: bytes
    superseded: tuple[int, ...]
    """Connections to the same node that the other end has lost."""


class _Node:
    """The connections and the key of one node."""

    __slots__ = ("arbiter", "key")

    def __init__(self, local: NodeId, peer: NodeId) -> None:
        self.arbiter: Arbiter[int] = Arbiter(local, peer)
        self.key: bytes | None = None
        """The fingerprint that holds the node id; None before the first proof."""


class Admission:
    """All present and former peers. Refusals are raised as ``PeeringError``."""

    __slots__ = (
        "_authenticator",
        "_changed",
        "_idle",
        "_kept",
        "_max_sessions",
        "_nodes",
        "_of_session",
        "may_peer",
    )

    def __init__(
        self,
        authenticator: PeerAuthenticator,
        may_peer: PeerFilter,
        *,
        max_sessions: int,
        kept: Mapping[NodeId, bytes] | None = None,
    ) -> None:
        """``kept`` is what :meth:`poll_keys` returned before the restart."""
        self.may_peer = may_peer
        self._authenticator = authenticator
        self._max_sessions = max_sessions
        self._nodes: dict[NodeId, _Node] = {}
        self._of_session: dict[int, NodeId] = {}
        self._idle: dict[NodeId, None] = {}
        self._kept = {node: key for node, key in (kept or {}).items() if node and key}
        """Keys of nodes not met since the start; they are older than all idle nodes."""
        self._changed = False
        self._shrink()

    # The two questions of a handshake

    def ask(self, session: int, local: NodeId, question: AuthenticationRequired) -> Mode:
        """Return what a dialled connection may ask for, now that the node is known.

        Raises ``RedundantControlError`` if only control is possible and another connection has it.
        """
        arbiter = self._node(local, question.peer).arbiter
        mode = question.mode
        if mode.control and not arbiter.may_ask:
            # A Stub needs both on one connection, and control alone cannot be reduced.
            if mode is Mode.CONTROL or local == 0:
                raise RedundantControlError("another connection to this node carries control")
            mode = Mode.DATA
        arbiter.dialled(session, ask=mode.control)
        self._hold(session, question.peer)
        return mode

    def judge(
        self, session: int, local: NodeId, role: Role, question: AuthenticationRequired
    ) -> Ruling:
        """Return how a peer that has proved its identity is admitted.

        Raises ``PeeringError`` if the proof, the policy, the key or the epoch does not allow it.
        """
        info = question.peer_info
        if info is None:
            raise NotAuthorizedError("the peer says nothing of itself")
        fingerprint = self._proved(question, info)
        if refusal := self.may_peer(info.node):
            raise PolicyError(f"{refusal.reason} ({refusal.rule})")
        if question.peer == 0:  # a Stub
            return Ruling(question.mode, fingerprint, ())
        node = self._node(local, question.peer)
        if node.key is None:
            node.key = fingerprint
            self._changed |= fingerprint != b""
        elif node.key != fingerprint:
            raise KeyConflictError(question.peer, node.key, fingerprint)
        epoch = info.node.stamp.epoch
        if role is Role.DIALLER:
            return self._judge_answer(session, node, question, epoch, fingerprint)
        return self._judge_caller(session, node, question, epoch, fingerprint)

    def _proved(self, question: AuthenticationRequired, info: NodeInfo) -> bytes:
        found = self._authenticator.verify(
            question.evidence or NO_EVIDENCE, question.transcript, info
        )
        if not isinstance(found, bytes):
            raise NotAuthorizedError(f"{found.reason} ({found.rule})")
        return found

    def _judge_answer(
        self,
        session: int,
        node: _Node,
        question: AuthenticationRequired,
        epoch: int,
        fingerprint: bytes,
    ) -> Ruling:
        """Rule on a connection that this side dialled; the listener granted ``question.mode``."""
        arbiter = node.arbiter
        if session not in self._of_session:
            # The C++ relay's handshake has no step that calls ask().
            if question.mode.control and not arbiter.may_ask:
                raise RedundantControlError("another connection to this node carries control")
            arbiter.dialled(session, ask=question.mode.control)
            self._hold(session, question.peer)
        verdict = arbiter.answered(session, control=question.mode.control, epoch=epoch)
        if verdict.grant is Grant.STALE:
            raise StaleEpochError(f"node {question.peer} has restarted since epoch {epoch}")
        return Ruling(question.mode, fingerprint, verdict.superseded)

    def _judge_caller(
        self,
        session: int,
        node: _Node,
        question: AuthenticationRequired,
        epoch: int,
        fingerprint: bytes,
    ) -> Ruling:
        """Rule on a connection that the peer dialled, asking for ``question.mode``."""
        arbiter = node.arbiter
        if len(arbiter) >= self._max_sessions:
            raise OverloadedError(f"node {question.peer} has {len(arbiter)} connections already")
        mode = question.mode
        verdict = arbiter.answer(session, ask=mode.control, epoch=epoch)
        self._hold(session, question.peer)
        if verdict.grant is Grant.STALE:
            raise StaleEpochError(f"node {question.peer} has restarted since epoch {epoch}")
        if verdict.grant is Grant.DATA and mode.control:
            # Without a transcript it is a C++ relay, which cannot be granted less.
            if mode is Mode.CONTROL or not question.transcript:
                self.closed(session)
                raise RedundantControlError("another connection to this node carries control")
            mode = Mode.DATA
        return Ruling(mode, fingerprint, verdict.superseded)

    # Connections and keys

    def closed(self, session: int) -> None:
        """Record the end of a connection."""
        peer = self._of_session.pop(session, None)
        node = None if peer is None else self._nodes.get(peer)
        if peer is None or node is None:
            return
        node.arbiter.closed(session)
        if len(node.arbiter):
            return
        if not node.key:
            del self._nodes[peer]
            return
        self._idle[peer] = None
        self._shrink()

    def _shrink(self) -> None:
        """Forget the nodes that were away longest, above the limit."""
        while len(self._kept) + len(self._idle) > MAX_REMEMBERED:
            if self._kept:
                del self._kept[next(iter(self._kept))]
            else:
                oldest = next(iter(self._idle))
                del self._idle[oldest], self._nodes[oldest]
            self._changed = True

    def forget(self, node: NodeId) -> bool:
        """Forget the key of a node that has no session, at an operator's command.

        Handshakes with the node may be in progress, as both sides keep dialling.
        """
        if self._kept.pop(node, None) is not None:
            self._changed = True
            return True
        known = self._nodes.get(node)
        if known is None or not known.key:
            return False
        known.key = None
        self._changed = True
        if node in self._idle:
            del self._idle[node], self._nodes[node]
        return True

    def poll_keys(self) -> dict[NodeId, bytes] | None:
        """Return which keys hold node ids if that changed since the last call, otherwise None.

        The node that was away longest comes first, so that it is the first to be forgotten after a
        restart.
        """
        if not self._changed:
            return None
        self._changed = False
        keys = dict(self._kept)
        here = (node for node in self._nodes if node not in self._idle)
        for node in (*self._idle, *here):
            if key := self._nodes[node].key:
                keys[node] = key
        return keys

    def control_of(self, node: NodeId) -> int | None:
        """Return the connection that carries control with a node, as far as this side knows."""
        known = self._nodes.get(node)
        return None if known is None else known.arbiter.held

    def __len__(self) -> int:
        return len(self._nodes)

    def _node(self, local: NodeId, peer: NodeId) -> _Node:
        node = self._nodes.get(peer)
        if node is None:
            node = self._nodes[peer] = _Node(local, peer)
            if peer in self._kept:
                node.key = self._kept.pop(peer)
                self._idle[peer] = None  # until it has a connection
        return node

    def _hold(self, session: int, peer: NodeId) -> None:
        self._of_session[session] = peer
        self._idle.pop(peer, None)


class Judgement(NamedTuple):
    """The result of checking node information."""

    nodes: tuple[NodeInfo, ...]
    unproved: tuple[NodeUnproved, ...] = ()
    lie: str = ""
    """Why the session must end; "" if it need not."""


def check_peer(
    authenticator: PeerAuthenticator, settings: PeeringSettings, question: AuthenticationRequired
) -> None:
    """Raise ``NotAuthorizedError`` if the peer does not sign node information as required."""
    info = question.peer_info
    if info is None or not question.transcript:
        return
    if RelayType.STUB in (info.node.relay_type, settings.relay_type):
        return
    if Feature.SIGNED_NODES not in question.features:
        if settings.signed_nodes:
            raise NotAuthorizedError("node information must be signed here (SIGNED_NODES)")
    elif refusal := authenticator.verify_node(info):
        # We would have to pass it on, and others would blame us for it.
        raise NotAuthorizedError(f"node information: {refusal.reason} ({refusal.rule})")


def judge_nodes(authenticator: PeerAuthenticator, nodes: Iterable[NodeInfo]) -> Judgement:
    """Return which of the nodes have signed their information themselves."""
    kept: list[NodeInfo] = []
    unproved: list[NodeUnproved] = []
    for info in nodes:
        node, refusal = info.node.node_id, authenticator.verify_node(info)
        if refusal is None:
            kept.append(info)
        elif refusal.rule == NOT_NOW:
            unproved.append(NodeUnproved(node=node, reason=refusal.reason))
        else:
            return Judgement((), lie=f"node {node}: {refusal.reason} ({refusal.rule})")
    return Judgement(tuple(kept), tuple(unproved))
