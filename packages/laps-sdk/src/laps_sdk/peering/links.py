"""The connections to other relays: the node behind each, foreign peers, and helpers to send.

::

    node A  --control + data--  session 3
            --data------------  session 7     several: ECMP, one of them for each track
            --data------------  session 8
    node B  --control + data--  session 4     ForeignPeer: a Stub, its parent, or a C++ relay;
                                              it handles the session instead of the network

:func:`mixed` makes choices that all relays make alike (rendezvous hashing). :func:`send_split` and
:class:`ResponseReplay` are shared by the network's tables and a Stub's link.
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
"""The most bytes held for one connection before its peer has proved its identity."""
_CHUNK_COST: Final = 256
"""Bytes that each chunk counts in addition, because empty chunks need memory too."""
MAX_RECENT: Final = 1_024
"""The most responses kept for one session."""

_Question: TypeAlias = tuple[SubscribeIdentity, NodeId]


class Chunk(NamedTuple):
    """A piece of a stream."""

    stream_id: int
    data: bytes
    fin: bool


class PreHandshakeData:
    """Stream data that arrived on one connection before the handshake was complete."""

    __slots__ = ("_chunks", "_refused", "_size")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._refused: set[int] = set()
        self._size = 0

    def pieces(self) -> int:
        """Return how many chunks are held."""
        return len(self._chunks)

    def add(self, chunk: Chunk) -> bool:
        """Hold a chunk; return False, once for each stream, if the stream must be stopped."""
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
        """Forget the chunks of a stream that was reset."""
        self._chunks = [each for each in self._chunks if each.stream_id != stream_id]

    def refused(self, stream_id: int) -> bool:
        """Return whether a stream was stopped, so that its data is ignored."""
        return stream_id in self._refused

    def take(self) -> list[Chunk]:
        """Return all chunks in order and forget them."""
        taken, self._chunks = self._chunks, []
        return taken


class ForeignPeer(Protocol):
    """A peer that is not a relay of the network: ``StubUplink``, ``StubParent`` or ``CppPeer``.

    It handles everything that its session receives, instead of the network's tables and the FIB.
    """

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the peering session."""

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """Handle bytes of a unidirectional stream; raises ``RemoteError`` for a peer's fault."""

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """Handle the peer's reset of a unidirectional stream."""

    def datagram(self, now: float, data: bytes) -> None:
        """Handle a datagram; raises like :meth:`stream_data`."""

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """Handle an outgoing stream that was dropped, or stopped by the peer."""

    def measured(self, now: float, srtt_us: int) -> None:
        """Handle a measurement of the round-trip time."""

    def closed(self, now: float) -> None:
        """Handle the end of the session."""


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
    """Whether, by the transport, more is to be sent than the connection carries."""
    foreign_peer: ForeignPeer | None = None
    leaving: bool = False
    """Whether the peer drains, so that nothing new is sent to it."""
    sync: Bases = NO_BASES
    """Bases that must be sent again as a whole."""
    synced: bool = False
    """Whether the whole state was sent to the peer, or is about to be."""
    synced_at: float = 0.0
    """When the whole state was sent."""
    asked: Bases = NO_BASES
    """Bases that the peer has requested and that are not due yet."""
    opened: float = 0.0
    """When the connection was made; after the handshake, when the session was established."""
    early: PreHandshakeData | None = None
    """Data that arrived before the handshake was complete."""

    @property
    def contact(self) -> str:
        """The contact that was dialled; "" if the peer dialled."""
        return "" if self.dial is None else self.dial.contact

    @property
    def up(self) -> bool:
        """Whether the handshake is complete."""
        return self.node is not None

    @property
    def relay_type(self) -> RelayType | None:
        """The type of the peer; None before the handshake is complete."""
        return None if self.info is None else self.info.node.relay_type


class Links:
    """All connections."""

    __slots__ = ("by_node", "by_session", "disputed", "met")

    def __init__(self) -> None:
        self.by_session: dict[int, Link] = {}
        self.by_node: dict[NodeId, list[Link]] = {}
        self.met = 0
        """A number that changes whenever a handshake completes or a connection ends."""
        self.disputed: dict[NodeId, dict[NodeId, None]] = {}
        """By node: peers whose information on it was rejected, because others contradict it."""

    def add(self, link: Link) -> None:
        """Add a connection whose node is not known yet."""
        self.by_session[link.session] = link

    def meet(self, link: Link, node: NodeId) -> None:
        """Set the node of a connection after its handshake."""
        self.met += 1
        link.node = node
        of_node = self.by_node.setdefault(node, [])
        if link not in of_node:
            of_node.append(link)
            of_node.sort(key=lambda each: each.session)

    def remove(self, session: int) -> Link | None:
        """Remove a connection that has ended; return it, or None."""
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
        """Return the connection with this number, or None."""
        return self.by_session.get(session)

    def of(self, node: NodeId) -> tuple[Link, ...]:
        """Return all connections to a node, except those of foreign peers."""
        return tuple([link for link in self.by_node.get(node, ()) if link.foreign_peer is None])

    def control(self, node: NodeId) -> Link | None:
        """Return the connection that carries control with a node, or None."""
        for link in self.by_node.get(node, ()):
            if link.control and link.foreign_peer is None:
                return link
        return None

    def controls(self) -> Iterator[Link]:
        """Return all connections that carry control, except those of foreign peers."""
        return (
            link for link in self.by_session.values() if link.control and link.foreign_peer is None
        )

    def nodes(self) -> list[NodeId]:
        """Return all peers, lowest first."""
        return sorted([node for node in self.by_node if self.of(node)])

    def srtt_us(self, node: NodeId) -> int:
        """Return the least round-trip time measured to a node; 0 if there is none."""
        return min((link.srtt_us for link in self.of(node) if link.srtt_us), default=0)

    def forwards(self, node: NodeId) -> bool:
        """Return whether data can be sent to a node."""
        return any(link.sends for link in self.of(node))

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        """Return the connection that carries a track's data to a node; one in ``used``, if any is.

        The choice is by rendezvous hashing: a connection that comes or goes moves only its share.
        """
        found = [link.session for link in self.of(node) if link.sends]
        if len(found) <= 1:
            return found[0] if found else None
        found = [session for session in found if session in used] or found
        return max(found, key=lambda session: (mixed(key ^ session * _MIX), session))


def mixed(value: int) -> int:
    """Spread the bits of a number over 64 bits: the finaliser of SplitMix64.

    docs/spec/laps-2.md defines it, because all relays must choose the same control servers.
    """
    value &= _M64
    value = (value ^ value >> 30) * 0xBF58_476D_1CE4_E5B9 & _M64
    value = (value ^ value >> 27) * 0x94D0_49BB_1331_11EB & _M64
    return value ^ value >> 31


class ForeignPeerWire:
    """The peering session of a foreign peer, for its commands."""

    __slots__ = ("_peers", "session")

    def __init__(self, peers: Peers, session: int) -> None:
        self._peers = peers
        self.session = session

    def send(self, now: float, message: Any) -> None:
        """Send a message; does nothing if the session is about to end."""
        self._peers.send(now, self.session, message)

    def advertise_sns(self, now: float, targets: tuple[NodeId, ...]) -> int | None:
        """Advertise a subscriber node set; return its id, or None if it is impossible."""
        if self._peers.up(self.session) is None:
            return None
        try:
            return self._peers.wire(self.session).advertise_sns(now, targets)
        except StateError:
            return None

    def update_sns(self, now: float, sns_id: int, targets: tuple[NodeId, ...]) -> None:
        """Change a subscriber node set in place."""
        if self._peers.up(self.session) is not None:
            with suppress(StateError):  # too large: the added targets are not served
                self._peers.wire(self.session).update_sns(now, sns_id, targets)

    def withdraw_sns(self, now: float, sns_id: int) -> None:
        """Withdraw a subscriber node set."""
        if self._peers.up(self.session) is not None:
            self._peers.wire(self.session).withdraw_sns(now, sns_id)

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        """Close the session."""
        self._peers.close(now, self.session, code, reason)


ForeignPeerFactory: TypeAlias = Callable[[float, Link, PeerUp, ForeignPeerWire], ForeignPeer | None]
"""Makes the foreign peer of a session (Stub, parent, C++ relay); None: a relay of the network."""


def send_split(
    send: Callable[[Any], object],
    make: Callable[[tuple[Any, ...]], Any],
    entries: Sequence[Any],
    most: int,
) -> int:
    """Send entries in as few messages as possible; return how many fit into no message."""
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
    """The recent responses of each session, to be sent again after its control stream was replaced.

    Of the responses of one relay to one subscribe, only the last is kept: earlier ones are
    obsolete.
    """

    __slots__ = ("_hold", "_sent")

    def __init__(self, hold: float) -> None:
        """``hold`` is how long responses are kept, in seconds; 0 is for ever."""
        self._hold = hold
        self._sent: dict[int, dict[_Question, tuple[float, SubscribeResponse]]] = {}

    def sent(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Record a response that was sent."""
        sent = self._sent.setdefault(session, {})
        question = response.identity, response.responder
        sent.pop(question, None)
        sent[question] = now, response
        self._trim(now, sent)

    def again(self, now: float, session: int) -> list[SubscribeResponse]:
        """Return the responses of the hold time, in the order in which they were sent."""
        sent = self._sent.get(session)
        if sent is None:
            return []
        self._trim(now, sent)
        return [response for _, response in sent.values()]

    def forget(self, session: int) -> None:
        """Forget a session that has ended."""
        self._sent.pop(session, None)

    def _trim(self, now: float, sent: dict[_Question, tuple[float, SubscribeResponse]]) -> None:
        while sent:
            first = next(iter(sent))
            old = self._hold and sent[first][0] < now - self._hold
            if not old and len(sent) <= MAX_RECENT:
                break
            del sent[first]
