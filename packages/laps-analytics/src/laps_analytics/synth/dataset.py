"""A dataset: relays, tracks with their viewers by hour, trees and windows.

:func:`make_config` makes the dataset of the demo from a seed, and :mod:`.simulation` runs it.

Tracks are *meetings* (few viewers, gold), *channels* (viewers mostly in three regions, silver) and
*events* (viewers everywhere, bronze). Popularity follows Zipf's law. Viewers are distributed by the
weight of relays, and watch in their evening.

Its size is that of a machine with two cores. A session is one viewer, and there are hundreds.
Capacities are scaled so that the busiest relays are nearly full. The history has sums of five
minutes at three hours of a day, which is enough for a forecast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np

from laps_analytics.errors import UsageError
from laps_analytics.synth.backbone import Backbone, Relay, make_backbone

__all__ = [
    "CLASSES",
    "DAY_US",
    "END_US",
    "FIVE_MINUTES_US",
    "FULL",
    "HOUR_US",
    "QUICK",
    "CarriedTrack",
    "Dataset",
    "DatasetConfig",
    "Routing",
    "Size",
    "Star",
    "Track",
    "TrackDemand",
    "Tree",
    "Window",
    "activity",
    "make_config",
    "make_demand",
]

# Demand

CLASSES: Final = ("gold", "silver", "bronze")

_KINDS: Final = (
    # kind, class, share of tracks, bits a second, most Edges of one track, most viewers
    ("meeting", "gold", 0.4, 1.5e6, 12, 60),
    ("channel", "silver", 0.45, 5e6, 40, 1_000_000),
    ("event", "bronze", 0.15, 8e6, 90, 1_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackDemand:
    """A track with its origin and viewers."""

    track: str
    """Hash of its name, 16 hexadecimal digits."""
    kind: str
    """meeting, channel or event."""
    scope: str
    """Class of service."""
    tenant: str
    rate_bps: float
    origin: int
    """Index of the publisher's Edge."""
    viewers: dict[int, int]
    """Index of an Edge to its viewers at the busiest hour; never empty, never the origin."""


def make_demand(
    backbone: Backbone, *, tracks: int = 60, viewers: int = 20_000
) -> list[TrackDemand]:
    """Return the tracks of a backbone, from its seed."""
    if tracks < 1:
        raise UsageError("tracks must be at least 1")
    rng = np.random.default_rng(np.random.SeedSequence([0x1A95, backbone.seed, 1]))
    edges = np.array(backbone.edges)
    weight = np.array([backbone.relays[edge].weight for edge in edges])
    regions = np.array([backbone.relays[edge].region for edge in edges])
    names = sorted(set(regions.tolist()))
    popularity = 1.0 / np.arange(1, tracks + 1) ** 0.9
    popularity /= popularity.sum()
    found = []
    for number in range(tracks):
        pick = rng.choice(len(_KINDS), p=[row[2] for row in _KINDS])
        kind, scope, _, rate, most, heads_most = _KINDS[pick]
        origin = int(rng.choice(edges, p=weight / weight.sum()))
        share = weight.copy()
        if kind == "channel":
            home = {backbone.relays[origin].region}
            home |= set(rng.choice(names, size=min(2, len(names)), replace=False).tolist())
            share = share * np.array([1.0 if region in home else 0.02 for region in regions])
        share[edges == origin] = 0.0
        audience = min(heads_most, max(2, int(viewers * popularity[number])))
        size = int(min(most, len(edges) - 1, max(2, rng.poisson(most * 0.6))))
        # At small odds some places have none at all.
        size = min(size, int(np.count_nonzero(share)))
        chosen = rng.choice(edges, size=size, replace=False, p=share / share.sum())
        chosen.sort()
        part = share[np.searchsorted(edges, chosen)]
        heads = np.maximum(1, np.round(audience * part / part.sum())).astype(int)
        found.append(
            TrackDemand(
                track=f"{rng.integers(1 << 63):016x}",
                kind=kind,
                scope=scope,
                tenant=f"tenant-{rng.integers(1, 5)}",
                rate_bps=rate * float(rng.choice([0.5, 1.0, 1.5])),
                origin=origin,
                viewers=dict(zip(chosen.tolist(), heads.tolist(), strict=True)),
            )
        )
    return found


def activity(longitude: float, hour_utc: float, weekday: int = 2) -> float:
    """Return the share of viewers at an hour: most at 20:00 local time, fewest at 04:00.

    ``weekday`` counts from Monday, 0. Weekends have a fifth more viewers.
    """
    local = (hour_utc + longitude / 15) % 24
    share = 0.55 + 0.45 * math.cos((local - 20) / 24 * 2 * math.pi)
    return min(1.0, share * (1.0 if weekday >= 5 else 1 / 1.2))


# Dataset

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


# Configuration

END_US: Final = int(datetime(2026, 6, 18, 21, 15, tzinfo=UTC).timestamp()) * 1_000_000
"""End of every dataset: an evening in Europe. No clock is read."""

_MINUTE_US: Final = 60_000_000
_BUSY: Final = 0.66
"""Load of the busiest relay at the end."""
_STEPS_BPS: Final = (5e6, 10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a dataset."""

    edges: int
    vias: int
    tracks: int
    viewers: int
    days: int
    """Days of history with sums only."""
    step_hours: int
    dense_minutes: int
    """Minutes at the end with all events."""
    after_minutes: int
    """Minutes that are measured after a plan."""
    after_tables: tuple[str, ...] | None = None
    """Gold tables that are built for that time; None for all."""


FULL: Final = Size(
    edges=40,
    vias=8,
    tracks=14,
    viewers=700,
    days=10,
    step_hours=8,
    dense_minutes=120,
    after_minutes=40,
)

QUICK: Final = Size(
    edges=9,
    vias=3,
    tracks=5,
    viewers=60,
    days=2,
    step_hours=24,
    dense_minutes=30,
    after_minutes=10,
    # What the gain is measured by, and the bill.
    after_tables=("track_fanout_5m", "qoe_region_1m", "usage_tenant_day"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """Configuration of a dataset."""

    seed: int
    size: Size
    backbone: Backbone
    demand: tuple[TrackDemand, ...]
    dataset: Dataset

    def present(self) -> list[Window]:
        """Return the windows of the history, then those of the last hours."""
        dense_us = self.size.dense_minutes * _MINUTE_US
        begin = END_US - dense_us
        first = begin - self.size.days * DAY_US
        past = [
            Window(at, 5 * _MINUTE_US, dense=False)
            for at in range(first, begin - 5 * _MINUTE_US, self.size.step_hours * HOUR_US)
        ]
        return past + _minutes(begin, self.size.dense_minutes)

    def quiet(self) -> tuple[int, int]:
        """Return the part of the last hours without incidents, which a plan is measured by."""
        begin = END_US - self.size.dense_minutes * _MINUTE_US
        return begin, begin + self.size.after_minutes * _MINUTE_US

    def after(self) -> list[Window]:
        """Return the windows of the same time of the next day."""
        return _minutes(self.quiet()[0] + DAY_US, self.size.after_minutes)


def _minutes(begin: int, count: int) -> list[Window]:
    return [Window(begin + number * _MINUTE_US, _MINUTE_US) for number in range(count)]


def make_config(seed: int, size: Size = FULL) -> DatasetConfig:
    """Return the configuration of a seed and size."""
    backbone = make_backbone(seed, edges=size.edges, vias=size.vias)
    demand = tuple(make_demand(backbone, tracks=size.tracks, viewers=size.viewers))
    nodes = [relay.node for relay in backbone.relays]
    rng = np.random.default_rng([seed, 0x0A])
    tracks = tuple(
        Track(
            track=item.track,
            tenant=item.tenant,
            qos=item.scope,
            origin=nodes[item.origin],
            bitrate_bps=item.rate_bps,
            interest={
                nodes[edge]: (float(count), float(rng.uniform(0.2, 0.9)))
                for edge, count in sorted(item.viewers.items())
            },
        )
        for item in demand
    )
    rtt = {
        (one, other): int(backbone.rtt_ms[a, b] * 1000)
        for a, one in enumerate(nodes)
        for b, other in enumerate(nodes)
    }
    dataset = Dataset(
        relays=backbone.relays,
        tracks=tracks,
        rtt_us=rtt,
        peers=_peers(backbone, tracks),
        growth_start_us=END_US - size.days * DAY_US,
    )
    dataset = replace(dataset, relays=_sized(dataset))
    return DatasetConfig(seed=seed, size=size, backbone=backbone, demand=demand, dataset=dataset)


def _peers(backbone: Backbone, tracks: Sequence[Track]) -> tuple[tuple[str, str], ...]:
    """Return the sessions: Vias with every relay, Edges with the origins of their tracks."""
    nodes = [relay.node for relay in backbone.relays]
    pairs = {(nodes[via], node) for via in backbone.vias for node in nodes if node != nodes[via]}
    pairs |= {(t.origin, relay) for t in tracks for relay in t.interest if relay != t.origin}
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs}))


def _sized(dataset: Dataset) -> tuple[Relay, ...]:
    """Return the relays with common capacities that make the busiest relays nearly full."""
    rates = dict.fromkeys(dataset.by_node, 0.0)
    at = END_US - HOUR_US
    for track in dataset.tracks:
        audience = dataset.audience(track, at)
        tree = Star().tree(track, frozenset(audience) - {track.origin})
        for relay, count in audience.items():
            rates[relay] += count * track.bitrate_bps
        rates[track.origin] += len(tree.parent) * track.bitrate_bps
    busiest = max(rates.values())
    found: list[Relay] = []
    for item in dataset.relays:
        # Vias are there to carry copies of many origins.
        least = busiest * 2 if item.kind == "via" else busiest / 8
        need = max(rates[item.node], least) / _BUSY
        size = next((step for step in _STEPS_BPS if step >= need), _STEPS_BPS[-1])
        # The busiest relay was bought by what it had on the first day.
        capacity = need if rates[item.node] == busiest else size
        found.append(replace(item, capacity_bps=float(round(capacity / 1e6) * 1e6)))
    return tuple(found)
