"""What the node information base keeps: of each peer, of each node, and what it tells others.

::

    PeerRecord 1:2                    PeerRecord 1:3
      entries (adj-in)                  entries                     NodeRecord 1:9
        1:9  path [1:4, 1:2] ---.         1:9  path [1:3] <---------- best, rank
        1:7  path [1:2]          '-- kept as alternate                latest  newest self part
      filtered by policy: 1:7           filtered                      export  path [1:3, we]
      out (adj-out)                     out
        sent, dirty                       sent, dirty

There are nodes x peers entries in one relay, and relays x nodes x peers in a simulation: an entry
is the very object that came in, and an export is one object for all peers. Everything else about a
path is computed on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from laps_relay.network.nodes.light_time import Direction
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodePathItem
from laps_wire.varint import QUIC_MAX

__all__ = ["AdjOut", "Changes", "Fault", "NodeRecord", "PeerRecord", "Rank", "Report"]

Rank = tuple[int, ...]
"""Whether it does not forward, the epoch negated, and then the order: the least is best."""


class Fault(Enum):
    """What was wrong with an entry of a peer."""

    KEY_CONFLICT = "key conflict"
    """Another key than the one that holds this node id."""
    OWN_ID = "own id"
    """Somebody else uses our own node id, or a later epoch of it."""
    BAD_PATH = "bad path"
    """A path that cannot be: with a loop, or that does not end with who sent it."""
    BAD_NODE = "bad node"
    """A node that must not be advertised: a Stub, or the node id 0."""
    IMPLAUSIBLE = "implausible"
    """A round trip that is shorter than light needs."""


class Report(NamedTuple):
    """An entry that was not believed: for the log."""

    fault: Fault
    peer: NodeId
    """Who said it."""
    node: NodeId
    """About whom."""
    reason: str


class Changes(NamedTuple):
    """What changed since the last request; node ids in ascending order."""

    routes: list[NodeId]
    """The best forwarding path was added, removed, moved, or has another cost."""
    nodes: list[NodeId]
    """It appeared, is gone, has a new epoch, or says something else of itself."""
    alternates: list[NodeId] = []  # noqa: RUF012 - a default of a tuple, never changed
    """Another path than the best one was added, removed or changed; not in ``routes``."""
    lost: Mapping[NodeId, str] = {}
    """The nodes that are gone, and what the last peer that knew them did."""


class AdjOut:
    """What one peer was sent, and what may have to be sent."""

    __slots__ = ("again", "begun", "dirty", "opened", "room", "sent", "spoken", "withheld")

    def __init__(self, room: int = QUIC_MAX, opened: float = 0.0) -> None:
        self.room = room
        """How many nodes it takes from us, ourselves counted."""
        self.opened = opened
        """Since when the peer is sent nodes."""
        self.sent: dict[NodeId, NodeInfo] = {}
        self.withheld: dict[NodeId, None] = {}
        """Nodes for which it had no room."""
        self.dirty: dict[NodeId, None] = {}
        """Nodes whose sent state may differ from what it should be."""
        self.again = False
        """Everything must be sent again; what was sent remains valid until then."""
        self.begun: list[NodeId] = []
        """Nodes of which it was told, and not before."""
        self.spoken: dict[NodeId, float] = {}
        """Nodes of which one told the other, and for how long none did before, if that was long."""

    @property
    def pending(self) -> bool:
        """Whether there may be something to send."""
        return self.again or bool(self.dirty)


class PeerRecord:
    """One node with which we have sessions."""

    __slots__ = (
        "carries",
        "draining",
        "entries",
        "filtered",
        "forwards",
        "item",
        "latest",
        "measured_us",
        "moved_at",
        "neighbour",
        "node",
        "out",
        "place",
        "signed",
        "srtt_us",
        "unsynced",
    )

    def __init__(self, node: NodeId, latest: NodeInfo) -> None:
        self.node = node
        self.latest = latest
        """Itself, as the handshake or a later entry says."""
        self.place: Direction | None = None
        self.out: AdjOut | None = None
        """There while a session carries control."""
        self.forwards = False
        """Of the control session."""
        self.neighbour = False
        """Data-only sessions are there."""
        self.carries = False
        """Whether data can be sent to it at all."""
        self.signed = False
        self.draining = False
        self.entries: dict[NodeId, NodeInfo] = {}
        """The adj-RIB-in: what the peer advertised, and the peer itself."""
        self.filtered: dict[NodeId, None] = {}
        """Entries that policy does not let us use: known, but no path."""
        self.unsynced: set[NodeId] | None = None
        """Entries not yet repeated in a synchronisation under way."""
        self.srtt_us = 0
        """Of our session with it: the damped value, which selection uses."""
        self.measured_us = 0
        """The last measurement."""
        self.moved_at: float | None = None
        """When the damped value last followed the measured one."""
        self.item = NodePathItem(node, 0)
        """What we append to paths that came from here; shared by all of them."""


class NodeRecord:
    """One node that some peer advertises."""

    __slots__ = ("best", "export", "fingerprint", "latest", "node", "rank", "via")

    def __init__(self, node: NodeId, latest: NodeInfo) -> None:
        self.node = node
        self.latest = latest
        """The newest of what the node says of itself; the path in it means nothing."""
        self.fingerprint = latest.signature.fingerprint
        """Of the key that holds this node id as long as anybody tells us of it."""
        self.best: PeerRecord | None = None
        self.rank: Rank = ()
        self.export: NodeInfo | None = None
        """What peers are sent."""
        self.via: PeerRecord | None = None
        """The next hop of the exported path."""
