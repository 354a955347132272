"""Places: round trips and light, and estimates of a location."""

from __future__ import annotations

from dataclasses import replace
from math import isclose, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.location import (
    EARTH_KM,
    ESTIMATED,
    MAX_RADIUS_KM,
    MAX_SIGHTINGS,
    SLACK_KM,
    Sighting,
    angle,
    declared,
    direction,
    distance_km,
    estimate,
    least_rtt_us,
    light_rtt_us,
    nearest,
    possible,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Location, NodeInfo, NodeSelf, RelayType, Stamp
from testkit.nib_net import node_info

CITIES = {
    "Berlin": Location(13.4, 52.5),
    "Paris": Location(2.35, 48.85),
    "Vienna": Location(16.37, 48.2),
    "Tokyo": Location(139.7, 35.7),
    "Copenhagen": Location(12.6, 55.7),
}
PRAGUE = Location(14.4, 50.1)


def km(a: Location, b: Location) -> float:
    return distance_km(direction(a), direction(b))


def sighting(at: Location, place: Location, stretch: float = 1.0) -> Sighting:
    """A round trip over fibre that is ``stretch`` times as long as the great circle."""
    return Sighting(at, round(km(at, place) / 200 * 2 * 1000 * stretch))


def test_the_region_that_all_round_trips_allow() -> None:
    seen = [sighting(CITIES[name], PRAGUE, 1.2) for name in ("Berlin", "Paris", "Vienna")]
    found = estimate(seen)
    assert found is not None
    assert km(found.location, PRAGUE) <= found.radius_km < 400
    nearer = estimate([*seen, Sighting(PRAGUE, 400)])
    assert nearer is not None
    assert nearer.radius_km < 60
    assert nearer == estimate([Sighting(PRAGUE, 400), *reversed(seen)])


near = st.floats(-9.0, 9.0)


@given(
    st.builds(Location, st.floats(-170, 170), st.floats(-75, 75)),
    st.lists(st.tuples(near, near, st.floats(1.0, 2.0)), min_size=1, max_size=5),
)
def test_the_true_place_is_within_the_radius(
    place: Location, seen: list[tuple[float, float, float]]
) -> None:
    found = estimate(
        sighting(Location(place.longitude + east, place.latitude + north), place, stretch)
        for east, north, stretch in seen
    )
    if found is not None:
        assert km(found.location, place) <= found.radius_km + 1
        assert found.radius_km <= MAX_RADIUS_KM


@pytest.mark.parametrize("latitude", [90.0, -90.0])
def test_a_pole_is_a_place_like_others(latitude: float) -> None:
    found = estimate([Sighting(Location(0.0, latitude), 1_000)])
    assert found is not None
    assert abs(found.location.latitude - latitude) < 0.5


def test_radio_is_faster_than_fibre() -> None:
    halfway = km(CITIES["Berlin"], CITIES["Paris"]) / 2
    fast = round(halfway / 290 * 2 * 1000)
    found = estimate([Sighting(CITIES["Berlin"], fast), Sighting(CITIES["Paris"], fast)])
    assert found is not None
    assert abs(km(found.location, CITIES["Berlin"]) - halfway) < 120


def test_what_cannot_be_known() -> None:
    assert estimate([]) is None
    assert estimate([Sighting(CITIES["Tokyo"], 200_000)]) is None
    assert estimate([Sighting(CITIES["Tokyo"], 30_000)]) is None
    # At two places at once: somebody lies.
    assert estimate([Sighting(CITIES["Tokyo"], 1_000), Sighting(CITIES["Berlin"], 1_000)]) is None


class Nodes:
    """Some of them know where they stand."""

    def __init__(self, *infos: NodeInfo) -> None:
        self.infos = {info.node.node_id: info for info in infos}

    def info(self, node: NodeId) -> NodeInfo | None:
        return self.infos.get(node)


def test_those_who_know_where_they_stand_and_are_near_count() -> None:
    here, there, guess = CITIES["Berlin"], CITIES["Paris"], CITIES["Tokyo"]
    nodes = Nodes(
        node_info(NodeId(1), location=here),
        node_info(NodeId(2), location=there),
        node_info(NodeId(3)),
        node_info(NodeId(4), location=guess, labels=(ESTIMATED,)),
    )
    trips = {NodeId(number): 1_000 * (9 - number) for number in range(1, 6)}
    assert nearest(trips, nodes.info) == [Sighting(there, 7_000), Sighting(here, 8_000)]
    many = {NodeId(1 + number): number for number in range(100)}
    crowd = Nodes(*(node_info(node, location=here) for node in many))
    found = nearest(many, crowd.info)
    assert [each.rtt_us for each in found] == list(range(MAX_SIGHTINGS))


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
