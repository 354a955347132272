from __future__ import annotations

from laps_relay.network.steering.plans import NO_PLAN, TablePlan
from laps_wire.nodeid import NodeId

V, W = NodeId(5), NodeId(6)


def test_a_track_counts_more_than_its_class() -> None:
    plan = TablePlan(tracks={(7, "eu"): V}, classes={("gold", "eu"): W, ("", "us"): W})
    assert plan.via(7, "gold", "eu") == V
    assert plan.via(8, "gold", "eu") == W
    assert plan.via(8, "", "us") == W
    assert plan.via(8, "gold", "us") is None


def test_no_plan_has_no_opinion() -> None:
    assert NO_PLAN.via(7, "", "eu") is None
