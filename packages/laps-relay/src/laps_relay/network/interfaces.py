"""The borders inside the network core: which part knows what, and what it asks of the others.

::

      shell (io, sim)                         NetworkRelay                        local side
    bytes of control streams --> Peers --events--> Nib        nodes, paths, best
    connections made, ended        |               Floods     announces, subscribes
    timers                         |               Interests  what we publish and want  <--> bridge
                                   |               Steering   next hop of a target, Vias     to the
                                   |               Sets       SNS in, SNS out                 Edge
    data streams, datagrams ------ | -----------> PeerPlane   FIB, pipeline           <--> its plane
    Egress of each connection <----'--------------'

A *session* is one peering connection, numbered by the shell; a *peer* is the node at its other end.
Between two nodes one session carries control and any number carry data. Nothing here reads a clock,
draws a random number that it was not given, or does I/O: ``now`` is seconds of a monotonic clock.

A *key* is the full-name hash of a track (docs/spec/laps-2.md, 2). A *context* is one publisher's
flow of a track. A *scope* is the name of a class of service that policy gave the track; "" if none.

The border with the forwarding plane is in :mod:`.forwarding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from laps_relay.peer_forwarding.forwarding import Feed
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    Direction,
    Mode,
    NodeInfo,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)

__all__ = [
    "Answer",
    "Assignment",
    "Candidate",
    "ClassLimits",
    "Dial",
    "Identity",
    "LocalSide",
    "NetworkSettings",
    "NodeLookup",
    "Order",
    "PathRule",
    "Policy",
    "Refusal",
]


# Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Habits and limits of the network core; times are in seconds."""

    relay_type: RelayType = RelayType.EDGE
    reflect: bool = True
    """Via: keep announces and subscribes and give them to new peers. False: pass them on and
    remember them for ``convergence`` only."""
    plaintext_names: bool = True
    """Offer the feature PLAINTEXT_NAMES: announces carry names, so that clients can discover."""
    signed_nodes: bool = False
    """Use the feature SIGNED_NODES, and refuse relays that do not."""

    # Time

    batch: float = 0.02
    """How long changes for a peer are collected (BATCH_MS)."""
    hold: float = 15.0
    """A peer that says nothing for so long is gone (HOLD_MS)."""
    convergence: float = 30.0
    """How long a withdrawal is remembered, and an entry waits for its node."""
    unsubscribe_delay: float = 5.0
    """How long the last unsubscribe of a track waits."""
    want_linger: float = 60.0
    """How long a want that nobody could serve stays advertised."""
    origin_grace: float = 5.0
    """How long an o-relay may be out of reach before its tracks have ended here."""
    metric_interval: float = 1.0
    """sRTT and load are advertised again at most so often ..."""
    metric_ratio: float = 0.10
    """... and only if they changed by this share ..."""
    metric_floor_us: int = 2_000
    """... and by this many microseconds."""
    light_time: bool = True
    """Disbelieve round trips that are shorter than light needs between the declared locations.
    False: for networks on one machine whose relays pretend to be far apart."""
    probe_interval: float = 10.0
    set_linger: float = 1.0
    """How long a set outlives its last stream: datagrams may be under way."""
    continue_after: float = 0.5
    """How long a stream may take to end by itself before the rest of it goes on anew."""

    # Choosing a Via

    max_fanout: int = 2
    """Copies of a track that may leave towards one region before a Via is injected."""
    dynamic_peering: bool = True
    """Whether relays are dialled on demand."""
    dynamic_idle: float = 30.0
    """How long a connection that was dialled on demand stays without use."""
    via_hold: float = 10.0
    """How long a Via must pay, or not pay, before it is injected or removed again (hysteresis)."""

    # Caps for one peer

    max_nodes: int = 65_536
    max_announces: int = 1_048_576
    max_subscribes: int = 16_777_216
    max_sets: int = 65_536
    max_targets: int = 4_096
    unknown_bytes: int = 16 * 1_048_576
    unknown_time: float = 30.0
    """Sets are not lost, only late: as late as a message that was lost more than once."""
    max_message: int = 1_048_576


# Nodes and paths


class Candidate(NamedTuple):
    """One way to a node, as one peer told it."""

    node: NodeId
    peer: NodeId
    """The next hop; the node itself if it is a neighbour."""
    info: NodeInfo
    link_srtt_us: int
    """Of our own session with the peer, as we measured it."""
    forwards: bool
    """Whether data can go this way: not through a control server, nor against a direction."""
    load: int = 0
    """How loaded the transit relays are, all together (``selection.burden``)."""

    @property
    def hops(self) -> int:
        """Transit relays on the way."""
        return len(self.info.path)

    @property
    def cost_us(self) -> int:
        """Sum of the path's sRTT and the session's own."""
        return self.info.sum_srtt_us + self.link_srtt_us

    @property
    def relays(self) -> tuple[NodeId, ...]:
        """All nodes from the next hop to the target, in the order in which data passes them."""
        return (*[item.node_id for item in reversed(self.info.path)], self.node)


Order: TypeAlias = "Callable[[Candidate], tuple[int, ...]]"
"""The key of a total order over candidates for one node: the least is best."""

PathRule: TypeAlias = "Callable[[Candidate], bool]"
"""Whether a way may be used for something."""


class NodeLookup(Protocol):
    """What others may ask the node information base."""

    def info(self, node: NodeId) -> NodeInfo | None:
        """What a node says of itself, however it became known; our own too."""

    def best(self, node: NodeId, rule: PathRule | None = None) -> Candidate | None:
        """The best way that forwards and that the rule allows."""

    def told_by(self, node: NodeId, peer: NodeId) -> Candidate | None:
        """The way that one peer tells, whether or not data can go there."""

    def candidates(self, node: NodeId) -> Sequence[Candidate]:
        """All ways, the best first."""


# Policy


class Refusal(NamedTuple):
    """Why something is not allowed: for the one who asked, for logs, and for ``policy explain``."""

    rule: str
    """Which rule of the policy says so."""
    reason: str


class ClassLimits(NamedTuple):
    """What a class of service asks of a way."""

    max_rtt_us: int | None = None
    max_loss: float | None = None
    max_fanout: int | None = None


class Policy(Protocol):
    """Administrative policy: it can only narrow (``laps_relay.policy``).

    ``None`` always means: allowed.
    """

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Whether this node may peer with us at all."""

    def import_node(self, info: NodeInfo, peer: NodeSelf, nodes: NodeLookup) -> Refusal | None:
        """Whether we may use this way to a node.

        It depends on transit nodes, their countries and the declared IP paths of the links.
        """

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether the peer may hear of this node from us."""

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may come in."""

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may go to that peer."""

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may come in."""

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may go to that peer."""

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """At the o-relay: whether subscribers at ``source`` may have this track."""

    def want(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """At the s-relay: whether our own clients may have this track."""

    def scope(self, name: FullTrackName) -> str:
        """The class of service of a track; "" if the policy knows none for it."""

    def region(self, node: NodeSelf) -> str:
        """The region that a node counts for; "" if it is in none."""

    def country(self, node: NodeSelf) -> str:
        """The country that a node stands in, two letters; "" if nobody says."""

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Whether data of this class may go along these relays.

        We are the first of them, the target is the last.
        """

    def limits(self, scope: str) -> ClassLimits:
        """What the class asks of a way."""


# Steering


class Assignment(NamedTuple):
    """Which way each target gets."""

    next_hop: Mapping[NodeId, NodeId]
    """Target to peer node."""
    unreachable: Mapping[NodeId, Refusal]
    """Targets without a way now, and why."""


class Dial(NamedTuple):
    """Connect to a relay."""

    number: int
    """Given back with the outcome."""
    contact: str
    """``host``, ``host:port`` or ``[IPv6]:port``."""
    node: NodeId | None = None
    """Who must be there; None: whoever it is."""
    mode: Mode = Mode.BOTH
    dynamic: bool = False
    """Dialled on demand; closed when nobody needs it any more."""
    direction: Direction = Direction.BIDIRECTIONAL
    """The most to ask for; control goes both ways in any case."""
    alpn: str = ""
    """The protocol to speak; none: whatever the peer port has in common with the other one."""


# The local side: this relay's own clients


class Answer(Enum):
    """What became of something that our clients want."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Nobody serves it, or somebody says no; it may still be accepted later."""
    ENDED = "ended"
    """It was accepted, and the last publisher has ended it or is gone for good."""


class LocalSide(Protocol):
    """This relay's own clients, as the network sees them: a bridge to the Edge, or a simulation.

    The other direction are the methods ``announce``, ``withdraw``, ``want``, ``unwant``,
    ``pulled``, ``pull_refused`` and ``pull_ended`` of ``NetworkRelay``.
    """

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: somebody in the network wants a track that was announced here.

        Answer with ``pulled`` or ``pull_refused``, at once or later; ``pull_ended`` when its
        publisher ends it. Objects go into the feed.
        """

    def renew(self, now: float, key: int, before: float) -> None:
        """o-relay: go on with streams of a track that are open in new streams of its feed.

        From their next objects on; the old ones end there (laps-2, 7.2). Those that began after
        ``before`` go on as they are.
        """

    def release(self, now: float, key: int) -> None:
        """Nobody in the network wants it any more; its feed is closed."""

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """What became of a want of ours; ``data`` is the publisher's own answer, if any."""

    def discovered(self, now: float, entry: AnnounceInfo) -> None:
        """Somebody else announced a name that we may know (``entry.plaintext`` is there)."""

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Nobody else announces that name any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this relay is in the network."""

    node_id: NodeId
    epoch: int
    """Grows with every start."""
    contacts: tuple[str, ...] = ()
    region: str = ""
    longitude: float | None = None
    latitude: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    fingerprint: bytes = b""
    """Of the key that holds the node id; empty if there is none."""
    credential: bytes = field(default=b"", repr=False)
