"""Plausibility of round trips: comparison with the time that light needs (laps-2, 5.1 and 10).

A relay that claims paths of a microsecond attracts all traffic. It can lie about what it measured,
but it cannot be nearer to a node than the two places are: a round trip takes at least twice the
time that light needs from one to the other. Vacuum is the bound: fibre takes half as long again,
radio does not.

Declared locations are those of a city or a building, not of an antenna: each pair may be nearer
than it says by a slack. A location that a node has only estimated from round trips itself proves
nothing about round trips.
"""

from __future__ import annotations

from functools import lru_cache
from math import acos, ceil, cos, radians, sin
from typing import Final, NamedTuple

from laps_wire.peering.laps2 import Label, Location, NodeSelf

__all__ = [
    "EARTH_KM",
    "ESTIMATED",
    "LIGHT_KM_PER_S",
    "SLACK_KM",
    "Direction",
    "angle",
    "declared",
    "direction",
    "distance_km",
    "least_rtt_us",
    "light_rtt_us",
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
