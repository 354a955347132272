"""Round trips and the speed of light."""

from __future__ import annotations

from dataclasses import replace
from math import isclose, pi

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.light_time import (
    EARTH_KM,
    ESTIMATED,
    SLACK_KM,
    angle,
    declared,
    direction,
    distance_km,
    least_rtt_us,
    light_rtt_us,
    possible,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Location, NodeSelf, RelayType, Stamp

locations = st.builds(Location, st.floats(-180, 180), st.floats(-90, 90))
BERLIN, TOKYO = direction(Location(13.4, 52.5)), direction(Location(139.7, 35.7))


def test_who_only_estimates_where_it_stands_declares_nothing() -> None:
    place = Location(13.4, 52.5)
    node = NodeSelf(NodeId(1), RelayType.VIA, Stamp(1, 1), location=place)
    assert declared(node) == place
    assert declared(replace(node, labels=(ESTIMATED,))) is None
    assert declared(replace(node, location=None)) is None


def test_known_distances() -> None:
    assert 8_850 < distance_km(BERLIN, TOKYO) < 9_000
    north, south = direction(Location(0.0, 90.0)), direction(Location(77.0, -90.0))
    assert isclose(distance_km(north, south), EARTH_KM * pi)


@given(locations, locations)
def test_distances_are_symmetric_and_nobody_is_farther_than_the_other_side(
    a: Location, b: Location
) -> None:
    one, other = direction(a), direction(b)
    assert angle(one, other) == angle(other, one)
    assert 0 <= distance_km(one, other) <= EARTH_KM * pi + 1e-6
    assert distance_km(one, one) < 0.001


def test_what_can_be_true() -> None:
    least = least_rtt_us(BERLIN, TOKYO)
    assert 58_000 < least < 60_000
    assert least < light_rtt_us(BERLIN, TOKYO) < least + 700
    assert possible(round(least) + 1, BERLIN, TOKYO)
    assert not possible(round(least) - 1, BERLIN, TOKYO)
    assert possible(0, None, TOKYO)
    assert possible(0, BERLIN, None)


def test_declared_places_may_be_off_by_a_slack() -> None:
    near = direction(Location(13.4, 52.5 + (SLACK_KM - 1) / 111.2))
    assert possible(0, BERLIN, near)
