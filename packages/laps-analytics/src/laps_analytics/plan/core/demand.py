"""What is to be carried: tracks, and groups of tracks that are carried alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from laps_analytics.plan.core.network import Network

__all__ = ["Cell", "Group", "Track", "aggregate", "cells", "digest", "scaled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A track, who publishes it, and how many watch it where."""

    key: int
    """The hash of its name."""
    origin: int
    """The relay of the publisher."""
    scope: str
    """Its class of service; "" for none."""
    rate_bps: float
    viewers: Mapping[int, int]
    """Relay to viewers there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tracks with the same origin, class and s-relays: one decision for all of them."""

    origin: int
    scope: str
    keys: tuple[int, ...]
    """Ascending."""
    rate_bps: float
    """Of all of them together."""
    targets: tuple[int, ...]
    """The s-relays, ascending; without the origin."""
    viewers: tuple[int, ...]
    """At each of them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one entry of a plan is about: a group, towards a region."""

    group: int
    """Its number among the groups."""
    region: str
    members: tuple[int, ...]
    """Which of the group's targets, by position."""


def aggregate(
    tracks: Iterable[Track], apart: Callable[[Track], tuple[int, ...]] = lambda _track: ()
) -> tuple[Group, ...]:
    """The groups, in an order that does not depend on that of the tracks.

    Tracks for which ``apart`` says different things are not in one group.
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
    """What can be planned: each group towards each region, but not its own and not "nowhere".

    Within its region an origin saves nothing by a Via, and relays apply no limit there.
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
    """The same tracks with more, or fewer, viewers and bits."""
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
    """SHA-256 of the demand, hexadecimal."""
    return hashlib.sha256(repr(tuple(groups)).encode()).hexdigest()
