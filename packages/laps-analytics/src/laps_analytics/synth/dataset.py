"""What a world is made of: relays at places, tracks of tenants, ways between relays, and clocks.

Plain data. Where the places and the round trip times come from is the business of others; what
happens between them is simulated in :mod:`.simulation`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from laps_analytics.synth.backbone import Relay
from laps_analytics.synth.demand import activity

__all__ = [
    "DAY_US",
    "FIVE_MINUTES_US",
    "HOUR_US",
    "CarriedTrack",
    "Dataset",
    "Routing",
    "Star",
    "Track",
    "Tree",
    "Window",
]

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
FIVE_MINUTES_US: Final = 300_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A live stream: who pays, what was promised, where it comes from, who likes it."""

    track: str
    tenant: str
    qos: str
    """gold, silver or bronze."""
    origin: str
    bitrate_bps: float
    interest: Mapping[str, tuple[float, float]]
    """Relay to viewers at the busiest hour of the first day, and how that is rounded (0 to 1)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """How a track is carried: every relay but the origin to the one that it gets it from."""

    origin: str
    parent: Mapping[str, str]

    def children(self) -> dict[str, list[str]]:
        """Relay to the relays that it sends to, both in order."""
        found: dict[str, list[str]] = {}
        for child in sorted(self.parent):
            found.setdefault(self.parent[child], []).append(child)
        return dict(sorted(found.items()))

    def order(self) -> list[str]:
        """All relays of the tree, each after the one that it gets it from."""
        children = self.children()
        found = [self.origin]
        for relay in found:
            found += children.get(relay, [])
        return found

    def below(self, targets: Iterable[str]) -> dict[str, frozenset[str]]:
        """For every relay but the origin: the targets that are reached through it or are it."""
        found: dict[str, set[str]] = {}
        for target in targets:
            at = target
            while at != self.origin:
                found.setdefault(at, set()).add(target)
                at = self.parent[at]
        return {relay: frozenset(members) for relay, members in found.items()}


class Routing(Protocol):
    """Decides how a track gets to the relays that have subscribers."""

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """A tree over at least ``targets``; never over a relay that is down."""


class Star:
    """What relays do without a plan: the origin sends a copy to each relay that wants the track."""

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """Every target directly below the origin."""
        return Tree(track.origin, {t: track.origin for t in sorted(targets) if t != track.origin})


@dataclass(frozen=True, slots=True)
class Window:
    """A time for which relays write their counters once."""

    start_us: int
    length_us: int
    dense: bool = True
    """Whether everything is written, or only the sums that a forecast needs."""

    @property
    def end_us(self) -> int:
        """Where the next one begins."""
        return self.start_us + self.length_us

    @property
    def written_us(self) -> int:
        """When the sums are written: a little before the end.

        Clocks of relays are never right to the microsecond; a second is room enough for them.
        """
        return self.end_us - 1_000_000

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.length_us / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The world as it is set up; ``growth`` is what demand gains in a day."""

    relays: tuple[Relay, ...]
    tracks: tuple[Track, ...]
    rtt_us: Mapping[tuple[str, str], int]
    """Base round trip time of each pair, both ways round."""
    peers: tuple[tuple[str, str], ...]
    """Pairs of relays that keep a session; the first one dials."""
    growth_start_us: int
    """The first day of growth."""
    growth: float = 0.02
    by_node: Mapping[str, Relay] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_node", {relay.node: relay for relay in self.relays})

    def wanted(self, relay: str, at_us: int) -> float:
        """What of the first day's busiest hour is watched at a relay at a time."""
        moment = datetime.fromtimestamp(at_us / 1e6, UTC)
        hour = moment.hour + moment.minute / 60 + moment.second / 3600
        share = activity(self.by_node[relay].longitude, hour, moment.weekday())
        days = (at_us - self.growth_start_us) / DAY_US
        grown: float = (1 + self.growth) ** days
        return share * grown

    def audience(self, track: Track, at_us: int) -> dict[str, int]:
        """Relay to viewers of a track, where there are any."""
        found = {}
        for relay, (most, threshold) in track.interest.items():
            # Thresholds spread the steps: not every place gains a viewer in the same minute.
            count = math.floor(most * self.wanted(relay, at_us) + threshold)
            if count > 0:
                found[relay] = count
        return found


@dataclass(slots=True)
class CarriedTrack:
    """A track in a window: who watches, on which tree, and how many bytes each link carried."""

    track: Track
    number: int
    audience: dict[str, int]
    tree: Tree
    bytes: int
    factor: dict[str, float] = field(default_factory=dict)
    """Relay to the part of the window in which it wanted the track, where that is not all."""
    moved: frozenset[str] = frozenset()
    """Relays that have viewers of a relay that is down."""

    def received(self, relay: str) -> int:
        """Bytes of the track that a relay received."""
        return int(self.bytes * self.factor.get(relay, 1.0))
