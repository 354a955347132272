"""All telemetry events: control plane, peering, sessions, forwarding, clients and plans.

Advertisements and withdrawals are written when something changes, in the order in which the relay
applied them. So the state at any time is the sum of the previous records.

Common conventions:

- ``track`` is the hash of a full track name, 16 hexadecimal digits. Names never leave the relay.
- ``0.0:0.0`` is the ID of no node: a Stub uses it for its parent, and the parent for the Stub.
- Node IDs have the text form ``<high>:<low>``; ``session_id`` is unique within one boot of a relay.
- ``window_ms`` makes a record a sum over the time that ends at the envelope's ``ts_us``. Counters
  without a window count from the opening of the session, so a lost record costs resolution only.
- Group and object IDs above 2**63 - 1 do not fit a column; such a field is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, TypeAlias

from laps_wire.telemetry.histogram import MsHistogram
from laps_wire.telemetry.schema import Column

__all__ = [
    "BODIES",
    "AnnAdv",
    "AnnWd",
    "Body",
    "CacheStat",
    "ClientReport",
    "DeliverySample",
    "DialFail",
    "Extra",
    "HopStat",
    "KnownBody",
    "NodeAdv",
    "NodeSuspect",
    "NodeWd",
    "PathItem",
    "PeerDrain",
    "PeerFault",
    "PeerRefuse",
    "PolicyApplied",
    "PolicyChange",
    "QuicSample",
    "RouteChange",
    "SessionClose",
    "SessionOpen",
    "SnsAdv",
    "SnsRefuse",
    "SnsWd",
    "SubAdv",
    "SubRefuse",
    "SubWd",
    "TypeChange",
    "UnknownBody",
    "is_sampled",
]

# The control plane

Extra: TypeAlias = Mapping[str, object]
"""Fields of a later version, as JSON gave them."""


# Topology


@dataclass(frozen=True, slots=True)
class PathItem:
    """One relay on the way to a node."""

    node_id: Annotated[str, Column("The relay.")]
    srtt_us: Annotated[int, Column("Its smoothed round trip time to the one before it.")]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdv:
    """Node information arrived, or this relay's own changed."""

    TYPE: ClassVar[str] = "node.adv"

    node_id: Annotated[str, Column("The node that is described.")]
    node_type: Annotated[str, Column("Its role.", values=("edge", "via", "stub", "control"))]
    path: Annotated[tuple[PathItem, ...], Column("The way to it, nearest relay last.")]
    sum_srtt_us: Annotated[int, Column("Sum of the round trip times of the path.")]
    best: Annotated[bool, Column("Whether this became the best way to the node.")]
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    longitude: Annotated[float | None, Column("Degrees east, if the node says.")] = None
    latitude: Annotated[float | None, Column("Degrees north, if the node says.")] = None
    load: Annotated[float | None, Column("Share of the node's capacity in use, 0 to 1.")] = None
    epoch: Annotated[int | None, Column("Boot epoch of the node; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence of the advert within the epoch.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWd:
    """Node information was withdrawn."""

    TYPE: ClassVar[str] = "node.wd"

    node_id: Annotated[str, Column("The node that is gone.")]
    reason: Annotated[
        str, Column("Why it is gone.", values=("withdrawn", "session_closed", "expired"))
    ]
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    epoch: Annotated[int | None, Column("Boot epoch of the node; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence of the withdrawal within the epoch.")] = None
    extra: Extra = field(default_factory=dict)


# Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAdv:
    """A subscription of some node became known."""

    TYPE: ClassVar[str] = "sub.adv"

    track: Annotated[str, Column("Hash of the full track name.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node that has subscribers.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubWd:
    """A subscription of some node ended."""

    TYPE: ClassVar[str] = "sub.wd"

    track: Annotated[str, Column("Hash of the full track name.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node that has no subscribers any more.")]
    delayed: Annotated[bool, Column("Whether it was held back first, in case one returns.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnAdv:
    """A node announced a track or a namespace."""

    TYPE: ClassVar[str] = "ann.adv"

    scope: Annotated[str, Column("What was announced.", values=("track", "namespace"))]
    track: Annotated[str, Column("Hash of the full track name, or of the namespace.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node of the publisher.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnWd:
    """An announcement ended."""

    TYPE: ClassVar[str] = "ann.wd"

    scope: Annotated[str, Column("What was announced.", values=("track", "namespace"))]
    track: Annotated[str, Column("Hash of the full track name, or of the namespace.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node of the publisher.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsAdv:
    """A subscriber node set was made or changed."""

    TYPE: ClassVar[str] = "sns.adv"

    session_id: Annotated[str, Column("The peer session that the set belongs to.")]
    sns_id: Annotated[int, Column("The set, unique within the session.")]
    direction: Annotated[str, Column("Whether the peer sent it or we did.", values=("in", "out"))]
    added: Annotated[tuple[str, ...], Column("Nodes that joined the set.")]
    removed: Annotated[tuple[str, ...], Column("Nodes that left the set.")]
    members: Annotated[int, Column("How many nodes the set has now.")]
    track: Annotated[str | None, Column("Hash of the full track name, where known.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsWd:
    """A subscriber node set was withdrawn."""

    TYPE: ClassVar[str] = "sns.wd"

    session_id: Annotated[str, Column("The peer session that the set belonged to.")]
    sns_id: Annotated[int, Column("The set, unique within the session.")]
    direction: Annotated[str, Column("Whether the peer sent it or we did.", values=("in", "out"))]
    removed: Annotated[tuple[str, ...], Column("Nodes that were in the set.")]
    track: Annotated[str | None, Column("Hash of the full track name, where known.")] = None
    extra: Extra = field(default_factory=dict)


# Peering

_NEW: Final = "1.1"
_LATER: Final = "1.3"


# Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRefuse:
    """A handshake with a relay did not come to its end: one side refused, or said nothing."""

    TYPE: ClassVar[str] = "peer.refuse"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session that was to be.", _NEW)]
    code: Annotated[int, Column("Code of the refusal (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id, if it was said.", _NEW)] = None
    contact: Annotated[str | None, Column("Where it was dialled; null if it came.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFault:
    """A peer broke the protocol; its session is closed for that."""

    TYPE: ClassVar[str] = "peer.fault"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session.", _NEW)]
    code: Annotated[int, Column("Code with which it is closed (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("What was wrong, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id of the peer.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDrain:
    """A relay leaves in good order: what goes through it is moved away."""

    TYPE: ClassVar[str] = "peer.drain"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session.", _NEW)]
    peer: Annotated[str, Column("Node id of the peer.", _NEW)]
    by: Annotated[str, Column("Who leaves.", _NEW, values=("local", "remote"))]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFail:
    """A connection to a relay could not be had; it is tried again."""

    TYPE: ClassVar[str] = "dial.fail"
    SINCE: ClassVar[str] = _NEW

    contact: Annotated[str, Column("Where it was dialled.", _NEW)]
    on_demand: Annotated[bool, Column("Whether traffic asked for it, not configuration.", _NEW)]
    reason: Annotated[str | None, Column("Why, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id that was expected there.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


# Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspect:
    """A peer said something of a node that is not believed."""

    TYPE: ClassVar[str] = "node.suspect"
    SINCE: ClassVar[str] = _NEW

    node_id: Annotated[str, Column("The node.", _NEW)]
    peer: Annotated[str, Column("Who said it.", _NEW)]
    reason: Annotated[str, Column("What speaks against it.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """The best way to a node is another one; written when it has settled."""

    TYPE: ClassVar[str] = "route.change"
    SINCE: ClassVar[str] = _NEW

    node_id: Annotated[str, Column("The node.", _NEW)]
    changes: Annotated[int, Column("How many changes this record stands for.", _NEW)]
    hops: Annotated[int, Column("Relays between it and us now; 0 without a way.", _NEW)]
    cost_us: Annotated[int, Column("Cost of the way now; 0 without one.", _NEW)]
    next_hop: Annotated[str | None, Column("The next relay now; null: no way.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


# What is turned down, and by which rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRefuse:
    """Policy, a publisher or a collision said no to a subscription."""

    TYPE: ClassVar[str] = "sub.refuse"
    SINCE: ClassVar[str] = _NEW

    track: Annotated[str, Column("Hash of the full track name.", _NEW)]
    source_node: Annotated[str, Column("The node that has subscribers.", _NEW)]
    code: Annotated[int, Column("Code of the response (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsRefuse:
    """Targets of a peer's subscriber node set are not served."""

    TYPE: ClassVar[str] = "sns.refuse"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The peer session that the set belongs to.", _NEW)]
    sns_id: Annotated[int, Column("The set, unique within the session.", _NEW)]
    peer: Annotated[str, Column("Node id of the peer.", _NEW)]
    targets: Annotated[int, Column("How many nodes are not served.", _NEW)]
    reason: Annotated[str, Column("Why, as laps-2 names it.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """Another policy is in force at this relay."""

    TYPE: ClassVar[str] = "policy.change"
    SINCE: ClassVar[str] = _NEW

    revision: Annotated[int, Column("How many there were since the start, with this one.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChange:
    """This relay is another type of relay from now on; its peers connect anew."""

    TYPE: ClassVar[str] = "type.change"
    SINCE: ClassVar[str] = _LATER

    old: Annotated[str, Column("What it was: edge, via, stub or control.", _LATER)]
    new: Annotated[str, Column("What it is.", _LATER)]
    extra: Extra = field(default_factory=dict)


# Sessions, forwarding, clients and plans

_KINDS: Final = ("peer", "client")


# Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen:
    """A peer or a client finished its handshake."""

    TYPE: ClassVar[str] = "session.open"

    session_id: Annotated[str, Column("The session.")]
    kind: Annotated[str, Column("Who is at the other end.", values=_KINDS)]
    direction: Annotated[str, Column("Who opened the connection.", values=("in", "out"))]
    alpn: Annotated[str, Column("The ALPN that was negotiated.")]
    handshake_ms: Annotated[
        float, Column("How long the handshake took; of a peer, that of the session.")
    ]
    draft: Annotated[int | None, Column("MoQT draft number; null if not MoQT.")] = None
    addr_prefix: Annotated[
        str | None, Column("Network of the other end: /24 of IPv4, /48 of IPv6, never a host.")
    ] = None
    peer: Annotated[str | None, Column("Node id of a peer; null for a client.")] = None
    mtls_id: Annotated[str | None, Column("Identity in the certificate, if one was shown.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClose:
    """A session ended."""

    TYPE: ClassVar[str] = "session.close"

    session_id: Annotated[str, Column("The session.")]
    kind: Annotated[str, Column("Who was at the other end.", values=_KINDS)]
    duration_ms: Annotated[float, Column("From the end of the handshake to the close.")]
    closed_by: Annotated[str, Column("Who ended it.", values=("local", "remote", "timeout"))]
    in_bytes: Annotated[int, Column("Bytes received, stream and datagram payload.")]
    out_bytes: Annotated[int, Column("Bytes sent, stream and datagram payload.")]
    close_code: Annotated[int | None, Column("Code of the close; null after a timeout.")] = None
    close_space: Annotated[
        str | None, Column("Which codes it is from.", values=("transport", "application"))
    ] = None
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.")] = None
    peer: Annotated[str | None, Column("Node id of a peer; null for a client.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicSample:
    """What the transport knows about one connection; every 10 s."""

    TYPE: ClassVar[str] = "quic.sample"

    session_id: Annotated[str, Column("The session.")]
    srtt_us: Annotated[int, Column("Smoothed round trip time.")]
    min_rtt_us: Annotated[int, Column("Smallest round trip time so far.")]
    rttvar_us: Annotated[int, Column("Variation of the round trip time.")]
    cwnd_bytes: Annotated[int, Column("Congestion window.")]
    sent_packets: Annotated[int, Column("Packets sent since the session opened.")]
    lost_packets: Annotated[int, Column("Packets declared lost since the session opened.")]
    pto_count: Annotated[int, Column("Probe timeouts since the session opened.")]
    sent_bytes: Annotated[int | None, Column("Bytes sent since the session opened.")] = None
    in_flight_bytes: Annotated[int | None, Column("Bytes sent and not acknowledged.")] = None
    ecn_ect_packets: Annotated[
        int | None, Column("Packets the peer counted with ECT(0) or ECT(1); null without ECN.")
    ] = None
    ecn_ce_packets: Annotated[
        int | None, Column("Packets the peer counted with CE; null without ECN.")
    ] = None
    peer: Annotated[str | None, Column("Node id of a peer; null for a client.")] = None
    extra: Extra = field(default_factory=dict)


# Forwarding


@dataclass(frozen=True, slots=True, kw_only=True)
class HopStat:
    """What one track did on one way through the relay; every 10 s."""

    TYPE: ClassVar[str] = "hop.stat"

    track: Annotated[str, Column("Hash of the full track name.")]
    window_ms: Annotated[int, Column("Length of the window.")]
    objects: Annotated[
        int,
        Column(
            "Objects forwarded; to another relay the streams and datagrams, which are not opened."
        ),
    ]
    in_bytes: Annotated[
        int,
        Column(
            "Bytes received for the track from in_peer, on every way the same; where out_peer is"
            " null there is always a row, so that none is lost when ways change."
        ),
    ]
    out_bytes: Annotated[
        int,
        Column(
            "Bytes sent: payload to subscribers, and whole data streams to a relay, which counts"
            " the same as received."
        ),
    ]
    drops: Annotated[
        Mapping[str, int],
        Column(
            "Objects dropped, by reason: ttl (too old), cc (congestion), cap (queue full),"
            " authz (not allowed). More reasons may come."
        ),
    ]
    in_peer: Annotated[str | None, Column("Node it came from; null for a publisher here.")] = None
    out_peer: Annotated[str | None, Column("Node it went to; null for subscribers here.")] = None
    queue_ms: Annotated[
        MsHistogram | None, Column("Time that objects waited here, of those that were timed.")
    ] = None
    first_group_id: Annotated[int | None, Column("First group id of the window.")] = None
    last_group_id: Annotated[int | None, Column("Last group id of the window.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySample:
    """One object of many, with the time stamps of its way through the relay.

    Relays choose by a hash of track and group (``laps_wire.telemetry.is_sampled``), so that all of
    them choose the same, and take the first object of each stream of the group: a relay between
    others does not look further into a stream. Of the clients that get it, one is timed.
    """

    TYPE: ClassVar[str] = "delivery.sample"

    track: Annotated[str, Column("Hash of the full track name.")]
    one_in: Annotated[int, Column("The sampling: this object stands for so many.")]
    in_us: Annotated[int, Column("When its first byte arrived; this relay's clock.")]
    out_us: Annotated[int, Column("When its last byte was sent; this relay's clock.")]
    size_bytes: Annotated[int, Column("Size of the payload.")]
    group_id: Annotated[int | None, Column("The object's group.")] = None
    object_id: Annotated[int | None, Column("The object within its group.")] = None
    publisher_us: Annotated[
        int | None, Column("When the publisher made it; the publisher's clock, if it says.")
    ] = None
    in_peer: Annotated[str | None, Column("Node it came from; null for a publisher here.")] = None
    out_peer: Annotated[str | None, Column("Node it went to; null for a subscriber here.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStat:
    """What the cache did; every 10 s."""

    TYPE: ClassVar[str] = "cache.stat"

    window_ms: Annotated[int, Column("Length of the window.")]
    hit_bytes: Annotated[int, Column("Bytes served from the cache.")]
    miss_bytes: Annotated[int, Column("Bytes asked for that were not there.")]
    expired_bytes: Annotated[int, Column("Bytes removed because their time was over.")]
    evicted_bytes: Annotated[int, Column("Bytes removed to make room.")]
    fetch_joins: Annotated[int, Column("Fetches that joined one already under way.")]
    stored_bytes: Annotated[int | None, Column("Bytes held at the end of the window.")] = None
    hit_age_ms: Annotated[
        MsHistogram | None,
        Column("Bytes served from the cache, by their age then; counts are bytes.", "1.2"),
    ] = None
    late_age_ms: Annotated[
        MsHistogram | None,
        Column(
            "Bytes asked for after their time was over, by their age then; counts are bytes.", "1.2"
        ),
    ] = None
    extra: Extra = field(default_factory=dict)


# Clients and plans


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client gets, measured by its relay or its player; CMCD keys in brackets; every 10 s.

    A relay writes what it measures at its own end: gaps, start-up, whether sending stood still, and
    the rate. What only a player knows (buffer, time behind live) is null then. If the player
    reports too, there are two records of a session, and ``measured_by`` tells them apart: they are
    about the same viewer.
    """

    TYPE: ClassVar[str] = "client.report"

    session_id: Annotated[str, Column("The client's session with this relay.")]
    window_ms: Annotated[int, Column("Length of the window.")]
    gaps: Annotated[int, Column("Objects that never came; of a relay, that it could not send.")]
    stalled: Annotated[
        bool,
        Column("Whether playback stalled [bs]; of a relay, nothing was sent while bytes waited."),
    ]
    stall_ms: Annotated[int | None, Column("How long it stalled [bsd].")] = None
    startup_ms: Annotated[
        int | None,
        Column("From the subscribe to the first frame, or object of a relay; first report only."),
    ] = None
    buffer_ms: Annotated[int | None, Column("Length of the buffer [bl].")] = None
    latency_ms: Annotated[int | None, Column("Behind live [ltc].")] = None
    bitrate_kbps: Annotated[
        int | None, Column("Encoded bit rate [br]; of a relay, what it sent.")
    ] = None
    max_throughput_kbps: Annotated[int | None, Column("Throughput asked for [rtp].")] = None
    playback_rate: Annotated[float | None, Column("1 is real time [pr].")] = None
    state: Annotated[str | None, Column("State of the player [sta], as CMCD writes it.")] = None
    player_session: Annotated[
        str | None,
        Column("Hash of the id of the playback [sid], never the id; of a relay, if it was told."),
    ] = None
    content: Annotated[str | None, Column("Hash of the content id [cid], never the id.")] = None
    track: Annotated[str | None, Column("Hash of the full track name, if it is about one.")] = None
    measured_by: Annotated[
        str | None,
        Column(
            "Who measured; before 1.4 the relay. The player's word is passed on, not proved.",
            "1.4",
            values=("relay", "player"),
        ),
    ] = None
    error: Annotated[
        str | None, Column("What went wrong in the player [ec], in its own code.", "1.4")
    ] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyApplied:
    """A plan reached this relay, and what the relay did with it."""

    TYPE: ClassVar[str] = "policy.applied"

    plan_id: Annotated[str, Column("The plan.")]
    plan_version: Annotated[int, Column("Its version.")]
    outcome: Annotated[
        str, Column("What happened.", values=("accepted", "refused", "expired", "reverted"))
    ]
    reason: Annotated[str | None, Column("Why it was not accepted.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnknownBody:
    """The body of an event type that this version does not know, kept as it came."""

    type: str
    data: Mapping[str, object]


KnownBody: TypeAlias = (
    SessionOpen
    | SessionClose
    | QuicSample
    | NodeAdv
    | NodeWd
    | SubAdv
    | SubWd
    | AnnAdv
    | AnnWd
    | SnsAdv
    | SnsWd
    | HopStat
    | DeliverySample
    | CacheStat
    | ClientReport
    | PolicyApplied
    | PeerRefuse
    | PeerFault
    | PeerDrain
    | DialFail
    | NodeSuspect
    | RouteChange
    | SubRefuse
    | SnsRefuse
    | PolicyChange
    | TypeChange
)

Body: TypeAlias = KnownBody | UnknownBody

BODIES: Final[Mapping[str, type[KnownBody]]] = {
    cls.TYPE: cls
    for cls in (
        *(SessionOpen, SessionClose, QuicSample),
        *(NodeAdv, NodeWd, SubAdv, SubWd, AnnAdv, AnnWd, SnsAdv, SnsWd),
        *(HopStat, DeliverySample, CacheStat),
        *(ClientReport, PolicyApplied),
        *(PeerRefuse, PeerFault, PeerDrain, DialFail, NodeSuspect, RouteChange),
        *(SubRefuse, SnsRefuse, PolicyChange, TypeChange),
    )
}
"""Event type to the dataclass of its body, in the order of the documentation."""


_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E37_79B9_7F4A_7C15


def is_sampled(track: int, group_id: int, one_in: int) -> bool:
    """Whether a group of a track (its full-name hash) is among the one in so many; 0: none is.

    Every relay samples the same groups, so that the records of one object can be joined. A relay
    that samples one in 100 also samples every group of a relay that samples one in 1000.

    The numbers are mixed as splitmix64 does it: neighbours have nothing to do with each other.
    """
    if one_in <= 1:
        return one_in == 1
    value = (track + (group_id + 1) * _STEP) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
    return (value ^ (value >> 31)) * one_in <= _MASK
