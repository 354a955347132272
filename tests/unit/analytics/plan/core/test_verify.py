from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from laps_analytics.plan.core.compose import make
from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.core.network import Network
from laps_analytics.plan.core.rules import Policy
from laps_analytics.plan.core.verify import left_out, verify
from laps_wire.nodeid import NodeId
from laps_wire.plan import ClassRule, HardConstraints, Plan, PlanEntry
from testkit.planning import line_network

NETWORK = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0)),
        *(("edge", "eu", 80.0), ("edge", "eu", 84.0), ("edge", "eu", 88.0), ("via", "eu", 82.0)),
        *(("via", "eu", 86.0), ("via", "asia", 600.0)),
    ]
)
TRACK = Track(key=1, origin=0, scope="gold", rate_bps=5e6, viewers={0: 2, 2: 5, 3: 5, 4: 5})
RULE = ClassRule(disjoint=True)
PLAN = make(
    NETWORK,
    Policy(hard=HardConstraints(classes={"gold": RULE})),
    [TRACK],
    name="p",
    version=1,
    now_us=1,
    lifetime_us=10,
).plan
ENTRY = PLAN.entries[0]


def with_entry(**changes: object) -> Plan:
    return replace(PLAN, entries=(replace(ENTRY, **changes),))  # type: ignore[arg-type]


def with_rule(**changes: object) -> Plan:
    rule = replace(RULE, **changes)  # type: ignore[arg-type]
    return replace(PLAN, constraints=replace(PLAN.constraints, classes={"gold": rule}))


def found(plan: Plan, network: Network = NETWORK, previous: Plan | None = None) -> set[str]:
    return {item.constraint for item in verify(plan, network, [TRACK], previous=previous)}


def test_a_good_plan_has_no_faults() -> None:
    assert found(PLAN) == set()


@pytest.mark.parametrize(
    ("plan", "constraint"),
    [
        (with_entry(via=NodeId(99)), "node"),
        (with_entry(via=NodeId(3)), "node"),  # one of the targets
        (with_entry(via=NodeId(8)), "latency"),
        (with_entry(scope="silver"), "node"),
        (with_entry(fallback=None), "disjoint"),
        (with_entry(fallback=ENTRY.via), "disjoint"),
        (with_entry(fallback=NodeId(8)), "disjoint"),
        (with_rule(slack_permille=1, extra_us=0), "latency"),
        (with_rule(deny_countries=("EU",)), "country"),
        (with_rule(allow_countries=("US",)), "country"),
        (with_rule(via_regions=("asia",)), "region"),
        (replace(PLAN, expires_us=0), "time"),
    ],
)
def test_each_constraint_is_checked(plan: Plan, constraint: str) -> None:
    assert constraint in found(plan)


def test_the_path_of_a_link_and_a_relay_that_drains_are_seen() -> None:
    passing = replace(NETWORK, countries={(5, 0): frozenset({"CA", "EU"})})
    assert found(with_rule(deny_countries=("CA",)), passing) == {"country"}
    assert found(PLAN, NETWORK.drained([str(ENTRY.via)])) == {"node"}


@pytest.mark.parametrize(
    "squeeze",
    [
        lambda net: replace(
            net, nodes=tuple(replace(node, capacity_bps=15e6) for node in net.nodes)
        ),
        lambda net: replace(net, nodes=tuple(replace(n, load_bps=np.inf) for n in net.nodes)),
        lambda net: replace(net, capacity_bps=np.full((8, 8), 6e6)),
        lambda net: replace(net, load_bps=np.full((8, 8), np.inf)),
    ],
)
def test_capacity_counts_with_its_headroom(squeeze: Callable[[Network], Network]) -> None:
    assert found(PLAN, squeeze(NETWORK)) == {"capacity"}


def test_changes_are_counted_but_not_those_that_had_to_be() -> None:
    moved = with_entry(via=ENTRY.fallback, fallback=None)
    none = replace(PLAN.constraints, change_budget=0)
    strict = replace(PLAN, constraints=none)
    assert found(strict, previous=moved) == {"budget"}
    assert found(strict, previous=PLAN) == set()
    assert found(PLAN, previous=moved) == set()  # no budget
    # It was too slow, it is gone, or nothing fits on it any more.
    assert found(strict, previous=with_entry(via=NodeId(8))) == set()
    assert found(strict, previous=with_entry(via=NodeId(99))) == set()
    old = next(node for node in NETWORK.nodes if node.id == str(ENTRY.fallback))
    full = replace(
        NETWORK, nodes=tuple(replace(n, load_bps=np.inf) if n is old else n for n in NETWORK.nodes)
    )
    assert "budget" not in found(strict, full, previous=moved)
    # What was planned before and is not any more is a change, too.
    dropped = replace(strict, entries=())
    assert found(dropped, previous=PLAN) == {"budget"}


def test_an_entry_for_a_class_holds_for_its_tracks() -> None:
    wide = replace(
        PLAN,
        entries=(
            PlanEntry(
                origin=ENTRY.origin,
                region="eu",
                scope="gold",
                tracks=None,
                via=ENTRY.via,
                fallback=ENTRY.fallback,
            ),
        ),
    )
    assert found(wide) == set()
    assert left_out(wide, NETWORK, [TRACK]) == []
    assert left_out(wide, NETWORK, [replace(TRACK, scope="x")]) == [(1, "eu", 3)]
