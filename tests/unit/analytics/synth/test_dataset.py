from __future__ import annotations

import pytest

from laps_analytics.errors import UsageError
from laps_analytics.synth.backbone import Backbone, make_backbone
from laps_analytics.synth.dataset import CLASSES, activity, make_demand


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return make_backbone(3, edges=40, vias=8)


def test_demand_comes_from_the_seed(backbone: Backbone) -> None:
    tracks = make_demand(backbone, tracks=50)
    assert tracks == make_demand(backbone, tracks=50)
    assert len({track.track for track in tracks}) == 50
    assert {track.scope for track in tracks} == set(CLASSES)
    edges = set(backbone.edges)
    for track in tracks:
        assert track.origin in edges
        assert track.viewers
        assert track.origin not in track.viewers
        assert set(track.viewers) <= edges
        assert min(track.viewers.values()) >= 1
        assert len(track.track) == 16


def test_two_edges_are_enough() -> None:
    small = make_backbone(3, edges=2, vias=0)
    assert all(len(track.viewers) == 1 for track in make_demand(small, tracks=5))
    with pytest.raises(UsageError, match="at least 1"):
        make_demand(small, tracks=0)


def test_people_watch_in_their_evening() -> None:
    assert activity(0, 20, weekday=6) == 1.0
    assert activity(-120, 4, weekday=6) == 1.0  # 20:00 in the west
    assert activity(0, 8, weekday=6) == pytest.approx(0.1)
    assert activity(0, 20, weekday=1) == pytest.approx(1 / 1.2)
