"""Connections to other relays: which node is behind each, and which of them takes data.

::

    node A  --control + data--  session 3
            --data------------  session 7     several: ECMP, one of them for each track
            --data------------  session 8
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.events import Dial, PeerUp
from laps_sdk.peering.peers import Peers
from laps_wire.errors import EncodeError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Bases, NodeInfo, RelayType, SubscribeResponse
from laps_wire.peering.laps2.information import SubscribeIdentity
from laps_wire.peering.session import Event

__all__ = [
    "MAX_RECENT",
    "PRE_HANDSHAKE_BYTES",
    "Chunk",
    "ForeignPeer",
    "ForeignPeerFactory",
    "ForeignPeerWire",
    "Link",
    "Links",
    "PreHandshakeData",
    "ResponseReplay",
    "mixed",
    "send_split",
]

NO_BASES: Final = Bases(0)
_MIX: Final = 0x9E37_79B9_7F4A_7C15
_M64: Final = 0xFFFF_FFFF_FFFF_FFFF
PRE_HANDSHAKE_BYTES: Final = 65_536
"""For one connection: whoever is there has proved nothing yet."""
_CHUNK_COST: Final = 256
"""What a chunk counts besides its bytes: empty ones need memory, too."""
MAX_RECENT: Final = 1_024
"""Responses that are remembered for one session."""

_Question: TypeAlias = tuple[SubscribeIdentity, NodeId]


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


def mixed(value: int) -> int:
    """Spread the bits of a number over 64 bits."""
    value &= _M64
    value = (value ^ value >> 30) * 0xBF58_476D_1CE4_E5B9 & _M64
    value = (value ^ value >> 27) * 0x94D0_49BB_1331_11EB & _M64
    return value ^ value >> 31


class ForeignPeerWire:
    """The peering session of a guest, for its commands."""

    __slots__ = ("_peers", "session")

    def __init__(self, peers: Peers, session: int) -> None:
        self._peers = peers
        self.session = session

    def send(self, now: float, message: Any) -> None:
        """Send information; nothing if the session is about to end."""
        self._peers.send(now, self.session, message)

    def advertise_sns(self, now: float, targets: tuple[NodeId, ...]) -> int | None:
        """Make a subscriber node set; gives its id, None if there can be none."""
        if self._peers.up(self.session) is None:
            return None
        try:
            return self._peers.wire(self.session).advertise_sns(now, targets)
        except StateError:
            return None

    def update_sns(self, now: float, sns_id: int, targets: tuple[NodeId, ...]) -> None:
        """Change one in place."""
        if self._peers.up(self.session) is not None:
            with suppress(StateError):  # too large: those who come are not served
                self._peers.wire(self.session).update_sns(now, sns_id, targets)

    def withdraw_sns(self, now: float, sns_id: int) -> None:
        """End one."""
        if self._peers.up(self.session) is not None:
            self._peers.wire(self.session).withdraw_sns(now, sns_id)

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        """End the session."""
        self._peers.close(now, self.session, code, reason)


ForeignPeerFactory: TypeAlias = Callable[[float, Link, PeerUp, ForeignPeerWire], ForeignPeer | None]
"""Makes the foreign peer of a session (Stub, parent, C++ relay); None: a relay of the network."""


def send_split(
    send: Callable[[Any], object],
    make: Callable[[tuple[Any, ...]], Any],
    entries: Sequence[Any],
    most: int,
) -> int:
    """Send entries in as few messages as they fit; how many entries fit in none of them."""
    lost = 0
    todo = [tuple(entries[at : at + most]) for at in range(0, len(entries), most)]
    todo.reverse()
    while todo:
        part = todo.pop()
        try:
            send(make(part))
        except EncodeError:
            if len(part) == 1:
                lost += 1
            else:
                half = len(part) // 2
                todo += (part[half:], part[:half])
    return lost


class ResponseReplay:
    """What was sent to each session lately: a move of its control stream may have lost it.

    Of what one relay answered to one subscribe the last is kept: who got the others, too, must not
    be told once more what is over.
    """

    __slots__ = ("_hold", "_sent")

    def __init__(self, hold: float) -> None:
        """``hold`` in seconds; 0: without an end."""
        self._hold = hold
        self._sent: dict[int, dict[_Question, tuple[float, SubscribeResponse]]] = {}

    def sent(self, now: float, session: int, response: SubscribeResponse) -> None:
        """A response was sent."""
        sent = self._sent.setdefault(session, {})
        question = response.identity, response.responder
        sent.pop(question, None)
        sent[question] = now, response
        self._trim(now, sent)

    def again(self, now: float, session: int) -> list[SubscribeResponse]:
        """Those of the last hold time, in the order in which they were sent."""
        sent = self._sent.get(session)
        if sent is None:
            return []
        self._trim(now, sent)
        return [response for _, response in sent.values()]

    def forget(self, session: int) -> None:
        """The session has ended."""
        self._sent.pop(session, None)

    def _trim(self, now: float, sent: dict[_Question, tuple[float, SubscribeResponse]]) -> None:
        while sent:
            first = next(iter(sent))
            old = self._hold and sent[first][0] < now - self._hold
            if not old and len(sent) <= MAX_RECENT:
                break
            del sent[first]
