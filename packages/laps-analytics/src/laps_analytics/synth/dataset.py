"""Data classes of a dataset: relays, tracks, trees, windows and audiences.

:mod:`.config` fills them, and :mod:`.simulation` runs them.
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
    """A live stream: tenant, class of service, origin and viewers."""

    track: str
    tenant: str
    qos: str
    """gold, silver or bronze."""
    origin: str
    bitrate_bps: float
    interest: Mapping[str, tuple[float, float]]
    """Relay to viewers at the busiest hour of the first day, and a rounding threshold (0 to 1)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Distribution tree of a track: each relay except the origin to its parent."""

    origin: str
    parent: Mapping[str, str]

    def children(self) -> dict[str, list[str]]:
        """Return the children of each relay, both in order."""
        found: dict[str, list[str]] = {}
        for child in sorted(self.parent):
            found.setdefault(self.parent[child], []).append(child)
        return dict(sorted(found.items()))

    def order(self) -> list[str]:
        """Return all relays, each after its parent."""
        children = self.children()
        found = [self.origin]
        for relay in found:
            found += children.get(relay, [])
        return found

    def below(self, targets: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return, for every relay except the origin, the targets in its subtree."""
        found: dict[str, set[str]] = {}
        for target in targets:
            at = target
            while at != self.origin:
                found.setdefault(at, set()).add(target)
                at = self.parent[at]
        return {relay: frozenset(members) for relay, members in found.items()}


class Routing(Protocol):
    """Chooses the tree of a track."""

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """Return a tree over at least ``targets``."""


class Star:
    """Routing without a plan: the origin sends a copy to each relay with subscribers."""

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """Return a tree with every target directly below the origin."""
        return Tree(track.origin, {t: track.origin for t in sorted(targets) if t != track.origin})


@dataclass(frozen=True, slots=True)
class Window:
    """A time for which relays write their counters once."""

    start_us: int
    length_us: int
    dense: bool = True
    """Whether all events are written, or only the sums for a forecast."""

    @property
    def end_us(self) -> int:
        """End of the window."""
        return self.start_us + self.length_us

    @property
    def written_us(self) -> int:
        """Time at which the sums are written, a second before the end.

        The second allows for clock errors of relays.
        """
        return self.end_us - 1_000_000

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.length_us / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Relays, tracks and sessions; ``growth`` is the growth of demand in a day."""

    relays: tuple[Relay, ...]
    tracks: tuple[Track, ...]
    rtt_us: Mapping[tuple[str, str], int]
    """Base round trip time of each pair, in both orders."""
    peers: tuple[tuple[str, str], ...]
    """Pairs of relays with a session; the first one dials."""
    growth_start_us: int
    """Start of the growth."""
    growth: float = 0.02
    by_node: Mapping[str, Relay] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_node", {relay.node: relay for relay in self.relays})

    def wanted(self, relay: str, at_us: int) -> float:
        """Return the demand at a relay and time, as a share of the first day's busiest hour."""
        moment = datetime.fromtimestamp(at_us / 1e6, UTC)
        hour = moment.hour + moment.minute / 60 + moment.second / 3600
        share = activity(self.by_node[relay].longitude, hour, moment.weekday())
        days = (at_us - self.growth_start_us) / DAY_US
        grown: float = (1 + self.growth) ** days
        return share * grown

    def audience(self, track: Track, at_us: int) -> dict[str, int]:
        """Return the viewers of a track by relay, where there are any."""
        found = {}
        for relay, (most, threshold) in track.interest.items():
            # Thresholds spread the steps: not every place gains a viewer in the same minute.
            count = math.floor(most * self.wanted(relay, at_us) + threshold)
            if count > 0:
                found[relay] = count
        return found


@dataclass(slots=True)
class CarriedTrack:
    """A track in a window: its audience, its tree and its bytes."""

    track: Track
    number: int
    audience: dict[str, int]
    tree: Tree
    bytes: int
    factor: dict[str, float] = field(default_factory=dict)
    """Relay to the share of the window in which it was subscribed, if that is not all."""
    moved: frozenset[str] = frozenset()
    """Relays with viewers of a relay that is down."""

    def received(self, relay: str) -> int:
        """Return the bytes of the track that a relay received."""
        return int(self.bytes * self.factor.get(relay, 1.0))
