from __future__ import annotations

import sys

import numpy as np
import pytest

from laps_analytics.errors import UsageError
from laps_analytics.synth.backbone import (
    INFLATION_MEDIAN,
    INFLATION_P95,
    REGIONS,
    Backbone,
    great_circle_km,
    load_fibre,
    make_backbone,
    nearest,
)
from laps_wire.nodeid import NodeId


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return make_backbone(7, edges=60, vias=16)


def test_the_same_seed_is_the_same_world_and_another_seed_is_not(backbone: Backbone) -> None:
    again = make_backbone(7, edges=60, vias=16)
    assert again.relays == backbone.relays
    np.testing.assert_array_equal(again.rtt_ms, backbone.rtt_ms)
    assert make_backbone(8, edges=60, vias=16).relays != backbone.relays


def test_relays_have_node_ids_of_their_own_and_stand_in_known_regions(backbone: Backbone) -> None:
    assert len(backbone.edges) == 60
    assert len(backbone.vias) == 16
    assert len({NodeId.parse(relay.node) for relay in backbone.relays}) == 76
    assert {relay.region for relay in backbone.relays} <= set(REGIONS)
    assert sum(relay.weight for relay in backbone.relays) == pytest.approx(1.0)
    assert {backbone.relays[via].region for via in backbone.vias} <= {
        backbone.relays[edge].region for edge in backbone.edges
    }


def test_links_are_as_the_assumptions_say(backbone: Backbone) -> None:
    pairs = np.triu_indices(len(backbone.relays), 1)
    assert np.median(backbone.inflation[pairs]) == pytest.approx(INFLATION_MEDIAN, rel=0.05)
    assert np.percentile(backbone.inflation[pairs], 95) == pytest.approx(INFLATION_P95, rel=0.1)
    assert (backbone.inflation >= 1).all()
    np.testing.assert_array_equal(backbone.rtt_ms, backbone.rtt_ms.T)
    assert (np.diag(backbone.rtt_ms) == 0).all()
    # No packet is faster than light over ground.
    lon = np.array([relay.longitude for relay in backbone.relays])
    lat = np.array([relay.latitude for relay in backbone.relays])
    ground = great_circle_km(lon[:, None], lat[:, None], lon, lat)
    assert (backbone.rtt_ms >= 2 * 0.99 * ground / 200).all()


def test_a_third_relay_is_often_a_shorter_way(backbone: Backbone) -> None:
    edges, vias = backbone.edges, backbone.vias
    direct = backbone.rtt_ms[np.ix_(edges, edges)]
    legs = backbone.rtt_ms[np.ix_(edges, vias)]
    over = (legs[:, None, :] + legs[None, :, :]).min(axis=2)
    gained = (over < 0.9 * direct)[np.triu_indices(len(edges), 1)].mean()
    assert gained > 0.25


def test_the_way_through_the_fibre_is_connected_and_as_long_as_it_says(backbone: Backbone) -> None:
    fibre = load_fibre()
    a, b = backbone.edges[0], backbone.vias[-1]
    links = backbone.fibre_links(a, b)
    assert sum(fibre.links[link][2] for link in links) == pytest.approx(backbone.km[a, b])
    at = backbone.relays[a].place
    for link in links:
        ends = fibre.links[link][:2]
        assert at in ends
        at = ends[0] if at == ends[1] else ends[1]
    assert at == backbone.relays[b].place
    passed = backbone.path_countries(a, b)
    assert {backbone.relays[a].country, backbone.relays[b].country} <= passed
    assert "" not in passed


def test_places_near_a_city_are_in_its_country() -> None:
    assert nearest([-74.0, 2.4], [40.8, 48.8]) == [("US", "us-east"), ("FR", "eu-west")]
    assert great_circle_km(0, 0, 180, 0) == pytest.approx(20_015, rel=1e-3)


def test_a_world_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="at least two Edges"):
        make_backbone(1, edges=1, vias=0)
    with pytest.raises(UsageError, match="cities"):
        make_backbone(1, edges=5000, vias=0)
    with pytest.raises(UsageError, match="cities near the Edges"):
        make_backbone(1, edges=2, vias=1100)


def test_without_topohub_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "topohub", None)
    load_fibre.cache_clear()
    with pytest.raises(UsageError, match=r"laps-analytics\[world\]"):
        load_fibre()
