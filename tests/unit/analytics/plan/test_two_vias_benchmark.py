from __future__ import annotations

from dataclasses import replace

import pytest
from analytics.two_vias import bound

from laps_analytics.plan.core.inputs import Track, aggregate
from laps_analytics.plan.core.placement import Policy, Weights
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, network_of, tracks_of
from laps_wire.plan import ClassRule, HardConstraints
from testkit.planning import line_network

# Between the continents only the two Vias are near each other.
LINE = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0), ("via", "eu", 80.0)),
        *(("edge", "eu", 82.0), ("edge", "eu", 84.0), ("edge", "eu", 86.0)),
    ],
    rtt={(0, other): 300.0 for other in (2, 3, 4, 5)} | {(1, other): 300.0 for other in (3, 4, 5)},
)
GROUPS = aggregate([Track(key=1, origin=0, scope="", rate_bps=5e6, viewers={3: 9, 4: 9, 5: 9})])


def test_two_vias_in_a_row_are_found_where_they_pay() -> None:
    policy = Policy(weights=Weights(delay_price=1e-3))
    found = bound(LINE, policy, GROUPS)
    assert (found.pairs, found.cells, found.served) == (1, 1, 0)
    assert found.two.objective < 0.6 * found.one.objective
    assert found.two.delay_p95_ms == 2 + 78 + 6 + 2
    assert found.two.hops == 3


@pytest.mark.parametrize(
    "rule", [ClassRule(deny_countries=("US",)), ClassRule(disjoint=True), ClassRule(extra_us=0)]
)
def test_the_constraints_hold_for_both(rule: ClassRule) -> None:
    policy = Policy(hard=HardConstraints(classes={"": rule}), weights=Weights(delay_price=1e-3))
    network = LINE
    if rule.extra_us == 0:
        # Two Vias are allowed, but what is slower than the direct way is not.
        network = replace(LINE, rtt_ms=LINE.rtt_ms + 400.0)
        policy = replace(
            policy,
            hard=HardConstraints(classes={"": replace(rule, slack_permille=1000)}),
        )
    assert bound(network, policy, GROUPS).pairs == 0


def test_in_a_small_world_two_are_never_worse() -> None:
    backbone = make_backbone(2, edges=20, vias=8)
    groups = aggregate(tracks_of(make_demand(backbone, tracks=4)))
    found = bound(network_of(backbone), SYNTH_POLICY, groups)
    assert found.two.objective <= found.one.objective * (1 + 1e-6)
