"""The section ``limits``: every cap, rate and wait, under the names that the code uses.

Each model has the fields and defaults of one dataclass of the core or the transport. A test
compares them.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from laps_relay.config.base import MisfitError, Section, key
from laps_relay.config.units import Duration, Size

__all__ = ["Admission", "Cache", "Connection", "Egress", "Limits", "Plane"]


class Cache(Section):
    """What the cache holds for late joiners and FETCH; the first limit that is reached evicts."""

    max_bytes: Size = key("64MiB", "Bytes of all tracks together.", "at-once")
    max_track_bytes: Size = key("8MiB", "Bytes of one track.", "at-once")
    max_groups: int = key(64, "Groups of one track.", "at-once", ge=1)
    max_age: Duration = key("1m", "Longest time that an object is cached.", "at-once")
    max_objects: int = key(65536, "Objects of one track.", "at-once", ge=1)


class Connection(Section):
    """Flow control windows that a connection gives its client."""

    max_streams_bidi: int = key(128, "Bidirectional streams open at a time.", ge=1)
    max_streams_uni: int = key(1024, "Unidirectional streams open at a time.", ge=1)
    max_data: Size = key("16MiB", "Bytes that the client may have in flight on all streams.")
    max_stream_data: Size = key("4MiB", "Bytes that the client may have in flight on one stream.")
    idle_timeout: Duration = key("30s", "How long a connection lives without a packet.")
    max_datagram_frame: int = key(16383, "Longest DATAGRAM frame that is accepted.", ge=0)


class Egress(Section):
    """How much data waits for a client that is slower than its tracks."""

    max_bytes: Size = key(
        "4MiB", "Bytes queued on data streams; above it the least urgent stream is dropped."
    )
    max_control_bytes: Size = key(
        "1MiB", "Bytes queued on control streams; above it the connection ends."
    )
    high_water: Size = key("512KiB", "Queued bytes above which a connection is congested.")
    low_water: Size = key("128KiB", "Queued bytes at which a connection is no longer congested.")
    max_waiting_streams: int = key(1024, "Streams that wait for the client's permission.", ge=1)
    max_datagrams: int = key(512, "Datagrams queued; the oldest is dropped first.", ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_water > self.high_water:
            raise MisfitError("low_water", "low_water is above high_water")
        return self


class Admission(Section):
    """Which clients get a connection."""

    max_connections: int = key(10_000, "Connections in all, half-open ones included.", ge=1)
    max_half_open: int = key(1024, "Handshakes under way.", ge=1)
    retry_above: int = key(64, "Half-open handshakes above which clients get a Retry.", ge=0)
    handshake_timeout: Duration = key("10s", "How long a handshake may take.")
    prefix_rate: float = key(
        200.0, "New connections per second from one prefix (IPv4 /24, IPv6 /56).", gt=0
    )
    prefix_burst: int = key(2000, "New connections at once from one prefix.", ge=1)
    max_prefixes: int = key(4096, "Prefixes whose rate is tracked.", ge=1)
    token_lifetime: Duration = key("15s", "How long the token of a Retry is valid.")


class Plane(Section):
    """How much state of the forwarding plane a peer can cause."""

    pending_streams: int = key(256, "Streams of a session that wait for their alias.", ge=0)
    pending_bytes: Size = key(
        "1MiB", "Bytes of streams and datagrams of a session that wait for their alias."
    )
    pending_time: Duration = key("3s", "How long streams and datagrams wait for their alias.")
    standby_bytes: Size = key("256KiB", "Of one subgroup, kept from a second publisher.")
    group_records: int = key(256, "Groups of a track whose object ids are remembered.", ge=1)
    id_ranges: int = key(1024, "Ranges of ids remembered for one group.", ge=1)
    finished_streams: int = key(512, "Finished streams of a session remembered.", ge=0)
    fetch_window: Size = key("256KiB", "Bytes of a fetch answer that wait to be sent.")
    fetch_interval: Duration = key("5ms", "Between two looks whether an answer can go on.")
    linger: Duration = key("5s", "Until an abandoned subgroup's cached part is reset.")
    continued_bytes: Size = key(
        "4MiB", "The same of a stream of another relay that goes on with it."
    )
    continued_time: Duration = key(
        "10s",
        "A subgroup whose stream was cut waits so long for the one that goes on with it, and that "
        "one for the beginning; as long again while something of older groups comes.",
    )
    continued_limit: Duration = key("30s", "How long either waits in all.")
    early_bytes: Size = key("16MiB", "Of other relays, waiting for the beginning of a subgroup.")


class Limits(Section):
    """What clients may request, each of them and all together."""

    linger: Duration = key(
        "5s", "How long an upstream subscription outlives its last subscriber.", "at-once"
    )
    rendezvous_wait: Duration = key(
        "1s", "How long a SUBSCRIBE of draft 16 waits for a publisher.", "at-once"
    )
    max_rendezvous: Duration = key(
        "1m", "Longest wait for a publisher that a SUBSCRIBE of draft 18 may request.", "at-once"
    )
    upstream_timeout: Duration = key(
        "10s", "How long the relay waits for a publisher's answer.", "at-once"
    )
    done_delay: Duration = key(
        "250ms", "How long streams may still arrive after PUBLISH_DONE.", "at-once"
    )
    cache_linger: Duration = key(
        "30s", "How long the cache answers for a track without a publisher.", "at-once"
    )
    goaway_timeout: Duration = key("10s", "How long a session may stay after GOAWAY.", "at-once")
    longest_match: bool = key(
        False, "Ask only the publishers of the longest matching namespace.", "at-once"
    )
    forward_unwatched: bool = key(
        True,
        "Accept PUBLISH with Forward State 1 without subscribers, to fill the cache.",
        "at-once",
    )
    session_subscriptions: int = key(1024, "Subscriptions of a session.", "at-once", ge=0)
    session_publishes: int = key(1024, "Tracks that a session publishes.", "at-once", ge=0)
    session_namespaces: int = key(1024, "Namespaces that a session publishes.", "at-once", ge=0)
    session_prefixes: int = key(64, "Namespace subscriptions of a session.", "at-once", ge=0)
    session_fetches: int = key(64, "Fetches of a session at a time.", "at-once", ge=0)
    session_offers: int = key(
        1024, "Tracks that the relay publishes to a session.", "at-once", ge=0
    )
    session_blocked: int = key(
        1024, "Requests of the relay that wait for a session.", "at-once", ge=0
    )
    name_bytes: int = key(
        4096, "Bytes of a full track name, a namespace or a prefix.", "at-once", ge=1, le=4096
    )
    max_sessions: int = key(10_000, "Sessions in all.", "at-once", ge=1)
    max_tracks: int = key(100_000, "Tracks in all.", "at-once", ge=1)
    max_subscriptions: int = key(1_000_000, "Subscriptions in all.", "at-once", ge=1)
    max_namespaces: int = key(100_000, "Namespaces in all.", "at-once", ge=1)
    max_enumerated: int = key(
        10_000, "Matches of one prefix when it is subscribed to.", "at-once", ge=1
    )
    request_rate: float = key(1000.0, "Requests of a session per second.", "at-once", gt=0)
    request_burst: int = key(2000, "Requests of a session at once.", "at-once", ge=1)
    top_n_max: int = key(1000, "The largest N of a Top-N subscription.", "at-once", ge=1)
    top_n_margin: int = key(0, "A track displaces another only by more than this.", "at-once", ge=0)
    connection: Connection = Connection()
    egress: Egress = Egress()
    admission: Admission = Admission()
    plane: Plane = Plane()
