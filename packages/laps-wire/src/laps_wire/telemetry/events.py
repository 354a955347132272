"""The events of sessions, forwarding, clients and plans, and the list of all event types.

Words that all of them share:

- ``track`` is the hash of a full track name, 16 hexadecimal digits. Names never leave the relay.
- ``0.0:0.0`` is nobody's id: that of a Stub for its parent and of the parent for the Stub.
- Node ids are the text form ``<high>:<low>``; ``session_id`` is unique within one boot of a relay.
- ``window_ms`` makes a record a sum over the time that ends at the envelope's ``ts_us``.
  Counters without a window run since the session opened, so a lost record costs resolution only.
- Group and object ids above 2**63 - 1 do not fit a column; such a field is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, TypeAlias

from laps_wire.telemetry.histogram import MsHistogram
from laps_wire.telemetry.network import (
    DialFail,
    NodeSuspect,
    PeerDrain,
    PeerFault,
    PeerRefuse,
    PolicyChange,
    RouteChange,
    SnsRefuse,
    SubRefuse,
    TypeChange,
)
from laps_wire.telemetry.schema import Column
from laps_wire.telemetry.topology import (
    AnnAdv,
    AnnWd,
    Extra,
    NodeAdv,
    NodeWd,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
)

__all__ = [
    "BODIES",
    "Body",
    "CacheStat",
    "ClientReport",
    "DeliverySample",
    "HopStat",
    "KnownBody",
    "PolicyApplied",
    "QuicSample",
    "SessionClose",
    "SessionOpen",
    "UnknownBody",
    "is_sampled",
]


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
