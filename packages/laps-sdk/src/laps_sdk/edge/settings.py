"""What an operator can set about the control plane: waits, caps, rates, Top-N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = ["EdgeSettings", "SessionInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What the server knows about a connection, for logs and the admin."""

    peer_address: str
    draft: Draft
    webtransport: bool = False
    path: str = ""
    authority: str = ""
    peering: bool = False
    """Other relays are behind it: it never gets back what it sent itself, is asked for nothing of
    which it is the only receiver, and is not asked for objects of the past unless it
    ``fetches``."""
    upstream: bool = False
    """Behind it is the relay network, which may have any track: it is asked for each one that
    others receive. It is trusted: no authorization, no rate, no caps of a session."""
    fetches: bool = False
    """Whether the relays behind it are asked for past objects that no publisher here has."""
    distant: bool = False
    """Behind it is another network: a track that it pushes is taken only when others receive it."""
    alias: Callable[[FullTrackName], int] | None = field(default=None, compare=False, repr=False)
    """Which track alias it knows a track by; None: the relay chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    """The waits, caps and rates of an Edge; times are in seconds.

    A request over a cap is rejected with EXCESSIVE_LOAD, or with INTERNAL_ERROR in draft 16, which
    does not have it. Both carry a time after which to try again.
    """

    # Waits

    linger: float = 5.0
    """How long an upstream subscription outlives its last subscriber."""
    rendezvous_wait: float = 1.0
    """How long a SUBSCRIBE of draft 16 waits for a publisher. In draft 18 the message has it."""
    max_rendezvous: float = 60.0
    """The longest wait that a SUBSCRIBE of draft 18 may ask for."""
    upstream_timeout: float = 10.0
    """How long a publisher may take to answer a SUBSCRIBE, a FETCH or a TRACK_STATUS of ours."""
    done_delay: float = 0.25
    """How long streams may still arrive behind PUBLISH_DONE, before it is passed on; up to twenty
    times that if some are under way, or have not come that the publisher counted."""
    publisher_grace: float = 30.0
    """How long subscribers of a track are kept whose publisher was lost: it may come back, here or
    elsewhere."""
    cache_linger: float = 30.0
    """How long a track's cache answers FETCH after its last publisher has left."""
    goaway_timeout: float = 10.0
    """How long a session may stay after GOAWAY."""

    # Habits

    longest_match: bool = False
    """Whether only publishers of the longest matching namespace get a SUBSCRIBE, not all."""
    forward_unwatched: bool = True
    """Whether a PUBLISH without subscribers is accepted with Forward State 1: it fills the cache
    and lets tracks be ranked."""

    # Caps for a session

    session_subscriptions: int = 1024
    session_publishes: int = 1024
    session_namespaces: int = 1024
    session_prefixes: int = 64
    """SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS."""
    session_fetches: int = 64
    session_offers: int = 1024
    """Tracks that we PUBLISH to a session because of its prefixes."""
    session_blocked: int = 1024
    """Requests of ours that may wait for the session's MAX_REQUEST_ID."""
    name_bytes: int = 4096
    """Of a full track name, a namespace or a prefix."""

    # Caps in all

    max_sessions: int = 10_000
    max_tracks: int = 100_000
    max_subscriptions: int = 1_000_000
    max_namespaces: int = 100_000
    max_enumerated: int = 10_000
    """Namespaces or tracks that one prefix may match when it is subscribed to."""

    # Rates

    request_rate: float = 1000.0
    """Requests and updates of a session in a second."""
    request_burst: int = 2000
    """How many may come at once."""

    # Top-N

    top_n_max: int = 1000
    """The largest N that is honoured; a larger one counts as this."""
    top_n_margin: int = 0
    """A track displaces another one only if its value is larger by more than this."""
