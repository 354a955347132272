"""Demand: tracks, groups of tracks with one decision, and cells of a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from laps_analytics.plan.core.network import Network

__all__ = ["Cell", "Group", "Track", "aggregate", "cells", "digest", "scaled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A track with its publisher and viewers."""

    key: int
    """Hash of its name."""
    origin: int
    """Relay of the publisher."""
    scope: str
    """Class of service; empty for none."""
    rate_bps: float
    viewers: Mapping[int, int]
    """Relay to the number of viewers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tracks with the same origin, class and s-relays, which share one decision."""

    origin: int
    scope: str
    keys: tuple[int, ...]
    """Keys of the tracks, ascending."""
    rate_bps: float
    """Rate of all tracks together."""
    targets: tuple[int, ...]
    """S-relays, ascending, without the origin."""
    viewers: tuple[int, ...]
    """Viewers at each target."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Unit of decision: a group towards a region."""

    group: int
    """Index of the group."""
    region: str
    members: tuple[int, ...]
    """Positions of its targets in the group."""


def aggregate(
    tracks: Iterable[Track], apart: Callable[[Track], tuple[int, ...]] = lambda _track: ()
) -> tuple[Group, ...]:
    """Return the groups, in an order that does not depend on the order of the tracks.

    Tracks with different results of ``apart`` are in different groups.
    """
    found: dict[tuple[int, str, tuple[int, ...], tuple[int, ...]], list[Track]] = {}
    for track in tracks:
        targets = tuple(sorted(relay for relay in track.viewers if relay != track.origin))
        if targets:
            found.setdefault((track.origin, track.scope, targets, apart(track)), []).append(track)
    return tuple(
        Group(
            origin=origin,
            scope=scope,
            keys=tuple(sorted(track.key for track in members)),
            rate_bps=sum(sorted(track.rate_bps for track in members)),
            targets=targets,
            viewers=tuple(sum(track.viewers[t] for track in members) for t in targets),
        )
        for (origin, scope, targets, _), members in sorted(found.items(), key=lambda item: item[0])
    )


def cells(network: Network, groups: Iterable[Group]) -> tuple[Cell, ...]:
    """Return the cells: each group towards each other region that has a name.

    Within its own region an origin saves nothing by a Via, and relays apply no limit there.
    """
    found = []
    for number, group in enumerate(groups):
        own = network.nodes[group.origin].region
        by_region: dict[str, list[int]] = {}
        for position, target in enumerate(group.targets):
            region = network.nodes[target].region
            if region and region != own:
                by_region.setdefault(region, []).append(position)
        found += [Cell(number, region, tuple(by_region[region])) for region in sorted(by_region)]
    return tuple(found)


def scaled(tracks: Iterable[Track], factor: float) -> list[Track]:
    """Return the tracks with viewers and rates multiplied by a factor."""
    return [
        Track(
            key=track.key,
            origin=track.origin,
            scope=track.scope,
            rate_bps=track.rate_bps * factor,
            viewers={relay: max(1, round(n * factor)) for relay, n in track.viewers.items()},
        )
        for track in tracks
    ]


def digest(groups: Iterable[Group]) -> str:
    """Return the SHA-256 of the demand, in hexadecimal."""
    return hashlib.sha256(repr(tuple(groups)).encode()).hexdigest()
