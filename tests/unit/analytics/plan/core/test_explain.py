from __future__ import annotations

from dataclasses import replace

import pytest

from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.explain import Scenario, diff, explain, what_if
from laps_analytics.plan.core.inputs import Track
from laps_analytics.plan.core.placement import Policy
from laps_wire.nodeid import NodeId
from laps_wire.plan import ClassRule, HardConstraints
from testkit.planning import line_network

NETWORK = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0)),
        *(("edge", "eu", 80.0), ("edge", "eu", 84.0), ("edge", "eu", 88.0), ("via", "eu", 82.0)),
        *(("via", "eu", 86.0), ("via", "eu", 600.0), ("via", "ca", 3.0)),
    ]
)
POLICY = Policy(hard=HardConstraints(classes={"": ClassRule(deny_countries=("CA",))}))
TRACKS = [Track(key=1, origin=0, scope="", rate_bps=5e6, viewers={2: 5, 3: 5, 4: 5})]


def made(policy: Policy = POLICY, **more):  # type: ignore[no-untyped-def]
    return compose_plan(
        NETWORK, policy, TRACKS, name="p", version=1, now_us=1, lifetime_us=10, **more
    )


def test_a_choice_is_explained_with_what_forbade_the_others() -> None:
    found = explain(made().draft, 0)
    assert (found.origin, found.region, found.via) == ("0.0:0.1", "eu", "0.0:0.6")
    assert found.next_best is not None
    assert found.next_best.via == "0.0:0.7"
    assert found.next_best.extra == pytest.approx(0.0, abs=0.01)
    bounds = {item.via: item.bound for item in found.alternatives}
    assert bounds["direct"] == "fan-out: 3 copies"
    assert bounds["0.0:0.8"] == "latency"
    assert bounds["0.0:0.9"] == "country or region"
    assert bounds["0.0:0.7"] == ""
    assert found.star_cost > (found.cost or 0.0)
    assert found.note == ""


def test_a_cell_without_a_choice_and_one_that_was_kept_say_so() -> None:
    strict = Policy(
        hard=HardConstraints(classes={"": ClassRule(deny_countries=("EU", "US", "CA"))})
    )
    found = explain(made(strict).draft, 0)
    assert found.via == "direct"
    assert found.cost is None
    assert "not allowed" in found.note
    assert all(item.extra is None for item in found.alternatives)
    budget = replace(POLICY, hard=replace(POLICY.hard, change_budget=0))
    plan = made().plan
    moved = replace(plan, entries=(replace(plan.entries[0], via=NodeId(7), fallback=None),))
    kept = explain(made(budget, previous=moved).draft, 0)
    assert kept.via == "0.0:0.7"
    assert kept.note == "the budget of changes keeps it from 0.0:0.6"


def test_two_plans_differ_in_what_they_answer() -> None:
    plan = made().plan
    entry = plan.entries[0]
    other = replace(
        plan,
        entries=(
            replace(entry, via=NodeId(7), fallback=None),
            replace(entry, region="asia", tracks=None),
        ),
    )
    assert diff(plan, plan) == []
    changes = diff(plan, other)
    assert [(c.kind, c.region, c.track, c.before, c.after) for c in changes] == [
        ("added", "asia", "", None, "0.0:0.6"),
        ("moved", "eu", f"{1:016x}", "0.0:0.6", "0.0:0.7"),
    ]
    assert [c.kind for c in diff(other, plan)] == ["removed", "moved"]


def test_what_if_a_relay_goes_prices_rise_or_demand_doubles() -> None:
    gone = what_if(NETWORK, POLICY, TRACKS, Scenario(drain=("0.0:0.6",)))
    assert gone.moved == 1
    assert gone.after.delay_p95_ms >= gone.before.delay_p95_ms
    dear = what_if(NETWORK, POLICY, TRACKS, Scenario(prices={"us": 3.0}))
    assert dear.after.wan_cost == pytest.approx(3 * dear.before.wan_cost)
    double = what_if(NETWORK, POLICY, TRACKS, Scenario(demand=2.0))
    assert double.after.cost == pytest.approx(2 * double.before.cost)
    assert double.moved == 0
    assert (gone.uncovered_before, gone.uncovered_after) == (0, 0)
    lonely = tuple(node.id for node in NETWORK.nodes if node.kind == "via")
    assert what_if(NETWORK, POLICY, TRACKS, Scenario(drain=lonely)).uncovered_after == 1
