"""What the forwarding plane holds at most, and the figures of what it gave up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["PlaneCounters", "PlaneLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneLimits:
    """Bounds of everything that a peer can make the plane remember, besides the cache."""

    pending_streams: int = 256
    """Streams of one session that wait for their alias to become known."""
    pending_bytes: int = 1024 * 1024
    """Their bytes, and those of datagrams that wait."""
    pending_time: float = 3.0
    """Seconds that they wait."""
    standby_bytes: int = 256 * 1024
    """Bytes of one subgroup kept from a second publisher, in case the first one gives up."""
    continued_bytes: int = 4 * 1024 * 1024
    """The same of other relays, whose streams go on with a subgroup of which the rest is late."""
    continued_time: float = 10.0
    """Seconds that a subgroup which was cut waits for the stream that goes on with it, and that one
    for the beginning; as long again while something of groups that are not newer comes."""
    continued_limit: float = 30.0
    """Seconds that either waits in all."""
    early_bytes: int = 16 * 1024 * 1024
    """Bytes of one session that wait for the beginning of their subgroup."""
    group_records: int = 256
    """Groups of one track whose object ids are remembered, to know what came already."""
    id_ranges: int = 1024
    """Ranges of ids remembered for one group; publishers that count up need one."""
    finished_streams: int = 512
    """Finished streams of one session that are remembered, to count what is dropped of them."""
    fetch_window: int = 256 * 1024
    """Bytes of one fetch answer that wait in the egress; more is made when these are sent."""
    fetch_interval: float = 0.005
    """Seconds between two looks whether a fetch answer can go on."""
    linger: float = 5.0
    """Seconds until a stream with the cached part of an abandoned subgroup is reset as well."""


class PlaneCounters(NamedTuple):
    """What the plane gave up, and why; of all sessions together."""

    unknown_alias_streams: int
    """Whose alias nobody named in time."""
    unknown_alias_datagrams: int
    pending_overflow_streams: int
    """That did not fit while waiting for an alias."""
    pending_overflow_datagrams: int
    standby_overflow_objects: int
    """Of second publishers, not kept: if the first one fails now, they are lost."""
    late_objects: int
    """That came behind later ones of their subgroup, and could not be put before them."""
    timed_out_streams: int
    """Reset because data waited longer than the delivery timeout."""
