"""Several ``Peers`` with virtual connections between them, in virtual time; no cryptography.

A :class:`Net` joins :class:`Node` objects. Each connection has a dialler and a listener session;
what one side transmits arrives at the other in order, when :meth:`Net.run` is called. Everything
that a node's ``Peers`` tells is kept in ``Node.told``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from laps_sdk.peering.events import Dial, PeerEvent, PeerFilter, Refusal
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.settings import Identity, PeeringSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Evidence,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import ConnectionClose, Ending, Role, StreamData, StreamEnd

E = TypeVar("E")


def banning(*banned: int) -> PeerFilter:
    """Return a filter that lets every node peer but the ``banned`` ones."""
    return lambda node: Refusal("peers", "not here") if node.node_id in banned else None


class ToyAuthenticator:
    """Proofs that are no cryptography: the credential is the key, the signature names it.

    Whoever knows ``secret`` is good. Without a key there is no fingerprint.
    """

    def __init__(
        self, key: int = 0, *, secret: bytes = b"secret", schemes: tuple[int, ...] = (3,)
    ) -> None:
        self.key = key
        self.secret = secret
        self.schemes = schemes
        self.seen: list[bytes] = []

    @property
    def fingerprint(self) -> bytes:
        return bytes([self.key]) * 32 if self.key else b""

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        common = [scheme for scheme in self.schemes if scheme in schemes]
        if not common:
            return None
        unsigned = Evidence(common[0], self.fingerprint)
        self.seen.append(transcript(unsigned))
        return replace(unsigned, signature=self.secret)

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        del peer
        if not transcript:
            return b""
        if evidence.signature != self.secret:
            return Refusal("proof", "the signature is bad")
        return evidence.credential

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        if not self.key:
            return NodeInfo(node)
        return NodeInfo(node, NodeSignature(3, self.fingerprint, self.secret))

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        good = info.signature.signature == self.secret
        return None if good else Refusal("signature", "not its own words")


@dataclass(eq=False)
class Wire:
    """One side of a connection."""

    node: Node
    session: int
    other: Wire | None = None
    open: bool = True


@dataclass(eq=False)
class Node:
    """A relay's ``Peers``, and what they told."""

    number: int
    peers: Peers
    authenticator: ToyAuthenticator
    wires: dict[int, Wire] = field(default_factory=dict)
    told: list[tuple[int, PeerEvent]] = field(default_factory=list)
    sessions: int = 0

    def of(self, kind: type[E]) -> list[E]:
        """All events of one kind."""
        return [event for _, event in self.told if isinstance(event, kind)]


class Net:
    """Nodes, connections, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.nodes: list[Node] = []
        self.flying: deque[tuple[Wire, Any]] = deque()

    def node(
        self,
        number: int,
        *,
        key: int | None = None,
        epoch: int = 1,
        relay_type: RelayType = RelayType.EDGE,
        may_peer: PeerFilter | None = None,
        settings: PeeringSettings | None = None,
        authenticator: ToyAuthenticator | None = None,
        hash_check: int = 7,
        **more: Any,
    ) -> Node:
        """A relay; its key is its number unless said otherwise."""
        proof = authenticator or ToyAuthenticator(number if key is None else key)
        me = NodeSelf(NodeId(number), relay_type, Stamp(epoch, 0))
        challenges = iter(range(1, 1 << 30))
        peers = Peers(
            Identity(node_id=NodeId(number), epoch=epoch),
            settings or PeeringSettings(relay_type=relay_type, hold=15.0),
            proof,
            challenge=lambda: bytes([number % 256]) * 28 + next(challenges).to_bytes(4, "big"),
            hash_check=hash_check,
            may_peer=may_peer or banning(),
            node_info=lambda: NodeInfo(me),
            **more,
        )
        made = Node(number, peers, proof)
        self.nodes.append(made)
        return made

    def connect(
        self, dialler: Node, listener: Node, *, dial: Dial | None = None, alpn: str = "laps-2"
    ) -> tuple[int, int]:
        """A connection; gives the session numbers of both ends. Nothing moves yet."""
        spki = bytes([listener.number % 256]) * 32
        ends = []
        for node in (dialler, listener):
            node.sessions += 1
            wire = Wire(node, node.sessions)
            node.wires[wire.session] = wire
            ends.append(wire)
        ends[0].other, ends[1].other = ends[1], ends[0]
        listener.peers.opened(
            self.now, ends[1].session, role=Role.LISTENER, alpn=alpn, spki_hash=spki
        )
        dialler.peers.opened(
            self.now, ends[0].session, role=Role.DIALLER, alpn=alpn, spki_hash=spki, dial=dial
        )
        return ends[0].session, ends[1].session

    def cut(self, node: Node, session: int, code: int = 0, reason: str = "lost") -> None:
        """A connection is gone, and both ends see it."""
        wire = node.wires[session]
        for end in (wire, wire.other):
            if end is not None and end.open:
                end.open = False
                end.node.peers.closed(self.now, end.session, code, reason)

    # Time

    def collect(self) -> None:
        """Take what everybody wants to send, and what they tell."""
        for node in self.nodes:
            for session in node.peers.poll_dirty():
                wire = node.wires.get(session)
                for item in node.peers.poll_transmit(session):
                    if wire is not None and wire.open:
                        self.flying.append((wire, item))
            node.told += node.peers.poll_events()

    def waiting(self) -> list[Wire]:
        """The ends that have sent something which has not arrived, in a fixed order."""
        self.collect()
        return list(dict.fromkeys(wire for wire, _ in self.flying))

    def step(self, sender: Wire | None = None) -> bool:
        """Deliver the oldest item, of anybody or of one end; False if nothing is under way."""
        self.collect()
        if not self.flying:
            return False
        index = 0
        if sender is not None:
            index = next(i for i, (wire, _) in enumerate(self.flying) if wire is sender)
        wire, item = self.flying[index]
        del self.flying[index]
        other = wire.other
        if other is None or not (wire.open and other.open):
            return True
        peers = other.node.peers
        match item:
            case StreamData():
                peers.stream_data(self.now, other.session, item.stream_id, item.data)
            case StreamEnd(stream_id, Ending.FINISH):
                peers.stream_data(self.now, other.session, stream_id, b"", fin=True)
            case StreamEnd(stream_id, Ending.RESET, code):
                peers.stream_reset(self.now, other.session, stream_id, code)
            case StreamEnd(stream_id, Ending.STOP, code):
                peers.stop_sending(self.now, other.session, stream_id, code)
            case ConnectionClose():
                self.cut(wire.node, wire.session, item.code, item.reason)
        return True

    def run(self) -> None:
        """Deliver everything that is under way."""
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("it never becomes quiet")

    def sleep(self, seconds: float) -> None:
        """Let time pass, timers included."""
        end = self.now + seconds
        for _ in range(100_000):
            self.run()
            due = [t for node in self.nodes if (t := node.peers.poll_timeout()) is not None]
            if not due or min(due) > end:
                self.now = end
                return
            self.now = max(self.now, min(due))
            for node in self.nodes:
                node.peers.handle_timeout(self.now)
        raise AssertionError("time does not pass")
