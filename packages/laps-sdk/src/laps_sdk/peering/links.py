"""Connections to other relays: which node is behind each, and which of them takes data.

::

    node A  --control + data--  session 3
            --data------------  session 7     several: ECMP, one of them for each track
            --data------------  session 8
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.events import Dial
from laps_sdk.peering.rendezvous import mixed
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Bases, NodeInfo, RelayType
from laps_wire.peering.session import Event

__all__ = ["PRE_HANDSHAKE_BYTES", "Chunk", "ForeignPeer", "Link", "Links", "PreHandshakeData"]

NO_BASES: Final = Bases(0)
_MIX: Final = 0x9E37_79B9_7F4A_7C15
PRE_HANDSHAKE_BYTES: Final = 65_536
"""For one connection: whoever is there has proved nothing yet."""
_CHUNK_COST: Final = 256
"""What a chunk counts besides its bytes: empty ones need memory, too."""


class Chunk(NamedTuple):
    """A piece of a stream."""

    stream_id: int
    data: bytes
    fin: bool


class PreHandshakeData:
    """What waits on one connection."""

    __slots__ = ("_chunks", "_refused", "_size")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._refused: set[int] = set()
        self._size = 0

    def pieces(self) -> int:
        """Return how many pieces wait."""
        return len(self._chunks)

    def add(self, chunk: Chunk) -> bool:
        """Keep a piece; False if its stream must be stopped, which is said once."""
        if chunk.stream_id in self._refused:
            return True
        self._size += len(chunk.data) + _CHUNK_COST
        if self._size <= PRE_HANDSHAKE_BYTES:
            self._chunks.append(chunk)
            return True
        self._refused.add(chunk.stream_id)
        self.forget(chunk.stream_id)
        return False

    def forget(self, stream_id: int) -> None:
        """A stream was abandoned."""
        self._chunks = [each for each in self._chunks if each.stream_id != stream_id]

    def refused(self, stream_id: int) -> bool:
        """Whether a stream was stopped: what still comes of it is nothing."""
        return stream_id in self._refused

    def take(self) -> list[Chunk]:
        """All pieces, in order; the handshake is over."""
        taken, self._chunks = self._chunks, []
        return taken


class ForeignPeer(Protocol):
    """A peer that is no part of the network beyond this relay: a Stub, its parent, a C++ relay.

    It takes everything that comes over its session in the place of the tables and the FIB.
    """

    def event(self, now: float, event: Event) -> None:
        """Something of the peering session."""

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream; raises ``RemoteError`` for a peer's fault."""

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """The peer abandoned it."""

    def datagram(self, now: float, data: bytes) -> None:
        """A datagram; raises like :meth:`stream_data`."""

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """An outgoing stream was dropped, or stopped by the peer."""

    def measured(self, now: float, srtt_us: int) -> None:
        """What the transport measures on the connection."""

    def closed(self, now: float) -> None:
        """The session is over."""


@dataclass(slots=True, eq=False)
class Link:
    """One connection."""

    session: int
    egress: PeerEgress
    alpn: str
    dial: Dial | None = None
    node: NodeId | None = None
    info: NodeInfo | None = None
    control: bool = False
    sends: bool = False
    receives: bool = False
    features: frozenset[int] = frozenset()
    srtt_us: int = 0
    loss: float = 0.0
    congested: bool = False
    """More is to be sent than the connection takes, as the transport sees it."""
    guest: ForeignPeer | None = None
    leaving: bool = False
    """The peer drains: nothing new goes there."""
    sync: Bases = NO_BASES
    """Bases that must be sent again, whole."""
    synced: bool = False
    """Whether the peer was told everything once, or is about to be."""
    synced_at: float = 0.0
    """When."""
    asked: Bases = NO_BASES
    """Bases that it has asked for, until it is time."""
    opened: float = 0.0
    """When the connection was made, and when the session was, as soon as there is one."""
    early: PreHandshakeData | None = None
    """Data that came before the handshake was over."""

    @property
    def contact(self) -> str:
        """Where it was dialled; empty if it was not."""
        return "" if self.dial is None else self.dial.contact

    @property
    def up(self) -> bool:
        """Whether the handshake is over."""
        return self.node is not None

    @property
    def relay_type(self) -> RelayType | None:
        """What the peer is."""
        return None if self.info is None else self.info.node.relay_type


class Links:
    """All connections."""

    __slots__ = ("by_node", "by_session", "disputed", "met")

    def __init__(self) -> None:
        self.by_session: dict[int, Link] = {}
        self.by_node: dict[NodeId, list[Link]] = {}
        self.met = 0
        """Another number whenever somebody was met, or a connection is over."""
        self.disputed: dict[NodeId, dict[NodeId, None]] = {}
        """By node: peers that said of it what was not believed, because others say otherwise."""

    def add(self, link: Link) -> None:
        """A connection was made; who is there is not known yet."""
        self.by_session[link.session] = link

    def meet(self, link: Link, node: NodeId) -> None:
        """The handshake said who is there."""
        self.met += 1
        link.node = node
        of_node = self.by_node.setdefault(node, [])
        if link not in of_node:
            of_node.append(link)
            of_node.sort(key=lambda each: each.session)

    def remove(self, session: int) -> Link | None:
        """A connection is over."""
        self.met += 1
        link = self.by_session.pop(session, None)
        if link is not None and link.node is not None:
            rest = [each for each in self.by_node.get(link.node, ()) if each is not link]
            if rest:
                self.by_node[link.node] = rest
            else:
                self.by_node.pop(link.node, None)
        return link

    def get(self, session: int) -> Link | None:
        """The connection with this number."""
        return self.by_session.get(session)

    def of(self, node: NodeId) -> tuple[Link, ...]:
        """All connections to a node, guests left out."""
        return tuple([link for link in self.by_node.get(node, ()) if link.guest is None])

    def control(self, node: NodeId) -> Link | None:
        """The connection that carries control with a node."""
        for link in self.by_node.get(node, ()):
            if link.control and link.guest is None:
                return link
        return None

    def controls(self) -> Iterator[Link]:
        """All connections that carry control, guests left out."""
        return (link for link in self.by_session.values() if link.control and link.guest is None)

    def nodes(self) -> list[NodeId]:
        """All peers, lowest first."""
        return sorted([node for node in self.by_node if self.of(node)])

    def srtt_us(self, node: NodeId) -> int:
        """The least that was measured to a node; 0 if nothing was."""
        return min((link.srtt_us for link in self.of(node) if link.srtt_us), default=0)

    def forwards(self, node: NodeId) -> bool:
        """Whether data can be sent to a node."""
        return any(link.sends for link in self.of(node))

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        """The connection that carries a track's data to a node; one that is ``used``, if any is.

        The choice among several is by rendezvous: one that comes or goes moves only its own share.
        """
        found = [link.session for link in self.of(node) if link.sends]
        if len(found) <= 1:
            return found[0] if found else None
        found = [session for session in found if session in used] or found
        return max(found, key=lambda session: (mixed(key ^ session * _MIX), session))
