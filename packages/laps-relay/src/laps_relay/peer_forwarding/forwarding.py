"""The types between the network and its forwarding plane: the parts of a FIB, notices, counters.

::

    Sets  -- install, cut, retire -->  PeerPlane  -- streams, datagrams -->  Egress
      ^----- SetIdle, Rerouted ----------'  |   ^
                                            v   |
                                     DataSink   PlaneFeed      the relay's own clients

The control side names where data comes from and where it goes; it never sees any data. The plane
never sees a name, a path or a policy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, TypeAlias

from laps_wire.peering.session import SnsStanding

__all__ = [
    "LOCAL",
    "EgressSet",
    "HoldData",
    "Ingress",
    "Outdated",
    "PeerPlaneCounters",
    "Rerouted",
    "SetCounters",
    "SetIdle",
]

LOCAL: int = 0
"""The session number that stands for this relay's own clients."""


class Ingress(NamedTuple):
    """Where data comes from: a set of a peer, or a feed of our own clients."""

    session: int
    """``LOCAL`` for a feed."""
    set_id: int
    """SNS id; for a feed its number."""


class EgressSet(NamedTuple):
    """Where data goes to: one of our sets on one session."""

    session: int
    sns_id: int


class SetIdle(NamedTuple):
    """A retired set has lingered without open streams: withdraw it."""

    egress: EgressSet


class Outdated(NamedTuple):
    """Open streams do not go to all targets: begin new ones.

    For an ingress that is no feed only the o-relay can do that, and must be informed.
    """

    ingress: Ingress
    before: float = inf
    """Streams that began later go on as they are: they may end soon."""


class Rerouted(NamedTuple):
    """A feed goes to other targets, or on other paths: what was on the old ones may be lost."""

    ingress: Ingress


class SetCounters(NamedTuple):
    """Counters of one FIB entry, since it was installed."""

    streams: int
    datagrams: int
    bytes_in: int
    bytes_out: int


class PeerPlaneCounters(NamedTuple):
    """Counters of the whole plane."""

    streams_in: int
    streams_out: int
    datagrams_in: int
    datagrams_out: int
    bytes_in: int
    bytes_out: int
    held_bytes: int
    """Bytes that wait for their set now."""
    unknown_streams: int
    """Streams given up because their set did not come, or is gone."""
    unknown_datagrams: int
    dropped_streams: int
    """Outgoing streams that a slow peer lost, or whose ttl ran out."""
    dropped_bytes: int
    dropped_datagrams: int = 0
    """Outgoing datagrams that did not fit a peer's path."""
    unknown_kinds: int = 0
    """Streams and datagrams whose header is of a kind that we do not know."""
    unsent_streams: int = 0
    """Outgoing streams that had not ended, or waited, when their session did."""


HoldData: TypeAlias = "Callable[[float, int, object, int], SnsStanding]"
"""``(now, sns_id, item, size)``: let data wait for its set. It comes back by ``release`` or
``discard``; anything but UNKNOWN means: it does not wait."""
