r"""Places of nodes: round trips compared with light, and the estimate of our own location.

**Estimate.** A round trip bounds a distance: light in fibre goes 200 km in a millisecond, so 10 ms
there and back are at most 1,000 km. Each located node gives a disc, and the node is where all of
them overlap::

        .-------.
       /  A   .--+----.
       |     / ##|     \          ##  the region that all discs share:
        \   |  ##/   B  |             the estimate is its middle,
         '--+---'       /             the radius reaches its farthest point
             '---------'

Real cables are longer than the great circle, so discs are too large rather than too small, and the
estimate is never surer than the nearest located node makes it. If the discs do not overlap, cables
may have been faster than fibre (radio), so vacuum is tried. If even then they do not, a location
or a round trip is false, and there is no estimate.

**Light time** (laps-2, 5.1 and 10). A relay that claims paths of a microsecond attracts all
traffic. It can lie about what it measured, but it cannot be nearer to a node than the two places
are: a round trip takes at least twice the time that light needs from one to the other. Vacuum is
the bound: fibre takes half as long again, radio does not.

Declared locations are those of a city or a building, not of an antenna: each pair may be nearer
than it says by a slack. A location that a node has only estimated from round trips itself proves
nothing about round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import acos, atan2, ceil, cos, degrees, pi, radians, sin, sqrt
from typing import Final, NamedTuple

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label, Location, NodeInfo, NodeSelf

__all__ = [
    "EARTH_KM",
    "ESTIMATED",
    "LIGHT_KM_PER_S",
    "MAX_RADIUS_KM",
    "MAX_SIGHTINGS",
    "SLACK_KM",
    "Direction",
    "Estimate",
    "Sighting",
    "angle",
    "declared",
    "direction",
    "distance_km",
    "estimate",
    "least_rtt_us",
    "light_rtt_us",
    "nearest",
    "place_of",
    "possible",
]

EARTH_KM: Final = 6371.0
LIGHT_KM_PER_S: Final = 299_792.458
SLACK_KM: Final = 100.0
"""How far two declared locations together may be from the true ones."""

ESTIMATED: Final = Label("location", "estimated")
"""The label of a location that a node estimated itself."""

_US_PER_KM: Final = 2e6 / LIGHT_KM_PER_S  # there and back


class Direction(NamedTuple):
    """A place as a unit vector from the centre of the earth: angles are cheap to compute."""

    x: float
    y: float
    z: float


def direction(location: Location) -> Direction:
    """Return the unit vector of a location."""
    longitude, latitude = radians(location.longitude), radians(location.latitude)
    return Direction(cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude))


_direction = lru_cache(maxsize=8192)(direction)


def place_of(location: Location | None) -> Direction | None:
    """Return the direction of a location, from a cache: the same few locations occur often."""
    return None if location is None else _direction(location)


def declared(node: NodeSelf) -> Location | None:
    """Return the location that a node declares, unless it is an estimate."""
    return None if node.labels and ESTIMATED in node.labels else node.location


def angle(a: Direction, b: Direction) -> float:
    """Return the angle between two directions, in radians."""
    return acos(max(-1.0, min(1.0, a[0] * b[0] + a[1] * b[1] + a[2] * b[2])))


def distance_km(a: Direction, b: Direction) -> float:
    """Return the distance along the surface of the earth."""
    return EARTH_KM * angle(a, b)


def light_rtt_us(a: Direction, b: Direction) -> int:
    """Return the round trip of light between two declared places, in microseconds."""
    return ceil(distance_km(a, b) * _US_PER_KM)


@lru_cache(maxsize=4096)  # asked for every entry that comes, of few pairs
def least_rtt_us(a: Direction, b: Direction) -> float:
    """Return the shortest possible round trip, less the slack."""
    return (distance_km(a, b) - SLACK_KM) * _US_PER_KM


def possible(rtt_us: int, a: Direction | None, b: Direction | None) -> bool:
    """Return whether a round trip is possible; always if a place is unknown."""
    return a is None or b is None or rtt_us >= least_rtt_us(a, b)


MAX_RADIUS_KM: Final = 2_500.0
"""What is less sure than this is not known."""

MAX_SIGHTINGS: Final = 16
"""Nodes farther away than so many others add nothing but work."""

_FIBRE: Final = 2 / 3
_SAMPLES: Final = 600
_GOLDEN: Final = pi * (3 - sqrt(5))


class Sighting(NamedTuple):
    """A round trip to a node whose place is known."""

    location: Location
    rtt_us: int


class Estimate(NamedTuple):
    """The estimated location of a node."""

    location: Location
    radius_km: float
    """It is within this distance."""


class _Disc(NamedTuple):
    centre: Direction
    radius_km: float


def estimate(sightings: Iterable[Sighting]) -> Estimate | None:
    """Return the location of a node; None if the round trips are too few or contradictory."""
    seen = [(direction(each.location), each.rtt_us) for each in sightings]
    for speed in (_FIBRE, 1.0):
        reach = LIGHT_KM_PER_S * speed / 2e6
        discs = sorted(
            (_Disc(centre, max(1.0, rtt_us * reach)) for centre, rtt_us in seen),
            key=lambda disc: (disc.radius_km, disc.centre),
        )
        if not discs or discs[0].radius_km > 2 * MAX_RADIUS_KM:
            return None
        found = _overlap(discs)
        if found is not None:
            return found if found.radius_km <= MAX_RADIUS_KM else None
    return None


def nearest(
    round_trips: Mapping[NodeId, int], info: Callable[[NodeId], NodeInfo | None]
) -> list[Sighting]:
    """Return the nearest nodes that declare where they stand; ``info`` gives what is known."""
    seen = []
    for node, rtt_us in sorted(round_trips.items(), key=lambda item: (item[1], item[0])):
        known = info(node)
        place = None if known is None else declared(known.node)
        if place is not None:
            seen.append(Sighting(place, rtt_us))
            if len(seen) == MAX_SIGHTINGS:
                break
    return seen


def _overlap(discs: list[_Disc]) -> Estimate | None:
    """Return the middle of what all discs share, searched for in the smallest one."""
    smallest = discs[0]
    # As far as the points of the grid are apart, so that thin overlaps are not missed.
    spacing = smallest.radius_km * 2 / sqrt(_SAMPLES)
    points = [
        point
        for point in _spread(smallest)
        if all(distance_km(point, disc.centre) <= disc.radius_km + spacing for disc in discs)
    ]
    if not points:
        return None
    middle = _middle(points)
    radius = max(distance_km(middle, point) for point in points) + spacing
    x, y, z = middle
    place = Location(degrees(atan2(y, x)), degrees(atan2(z, sqrt(x * x + y * y))))
    return Estimate(place, radius)


def _spread(disc: _Disc) -> Iterator[Direction]:
    """Return points that cover a disc evenly, in a sunflower pattern."""
    ahead, aside = _axes(disc.centre)
    for number in range(_SAMPLES):
        away = disc.radius_km / EARTH_KM * sqrt(number / (_SAMPLES - 1))
        turn = number * _GOLDEN
        along, east, north = cos(away), sin(away) * cos(turn), sin(away) * sin(turn)
        yield Direction(
            *(
                along * middle + east * first + north * second
                for middle, first, second in zip(disc.centre, ahead, aside, strict=True)
            )
        )


def _axes(centre: Direction) -> tuple[Direction, Direction]:
    """Return two directions perpendicular to a third and to each other."""
    x, y, z = centre
    flat = sqrt(x * x + y * y)
    if flat < 1e-9:
        return Direction(1.0, 0.0, 0.0), Direction(0.0, 1.0, 0.0)
    east = Direction(-y / flat, x / flat, 0.0)
    north = Direction(-z * x / flat, -z * y / flat, flat)
    return east, north


def _middle(points: list[Direction]) -> Direction:
    """Return the mean direction of points within one disc smaller than a hemisphere."""
    x, y, z = (sum(axis) for axis in zip(*points, strict=True))
    length = sqrt(x * x + y * y + z * z)
    return Direction(x / length, y / length, z / length)
