from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.inputs import Network, Track
from laps_analytics.plan.core.placement import Policy
from laps_analytics.plan.core.verify import check, left_out, verify
from laps_wire.nodeid import NodeId
from laps_wire.plan import ClassRule, HardConstraints, Plan, PlanEntry
from testkit.planning import line_network

PLAIN = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0)),
        *(("edge", "eu", 80.0), ("edge", "eu", 84.0), ("edge", "eu", 88.0), ("via", "eu", 82.0)),
        *(("via", "eu", 86.0), ("via", "asia", 600.0)),
    ]
)
# Every link loses 0.15 %, so a way over a Via 0.3 %.
NETWORK = replace(PLAIN, loss=np.full((8, 8), 0.0015))
TRACK = Track(key=1, origin=0, scope="gold", rate_bps=5e6, viewers={0: 2, 2: 5, 3: 5, 4: 5})
RULE = ClassRule(disjoint=True)
PLAN = compose_plan(
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


def test_a_way_may_lose_what_the_limit_says_or_as_much_as_the_direct_one() -> None:
    assert found(with_rule(limit_loss_ppm=3000)) == set()
    loss = NETWORK.loss.copy()
    loss[0, 2:5] = 0.003
    assert found(with_rule(limit_loss_ppm=10), replace(NETWORK, loss=loss)) == set()
    loss[0, 4] = 0.0025
    assert found(with_rule(limit_loss_ppm=10), replace(NETWORK, loss=loss)) == {"loss", "disjoint"}


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
        (with_rule(limit_loss_ppm=2990), "loss"),
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


def test_a_link_that_nobody_declared_passes_what_is_denied_if_the_class_says_so() -> None:
    plan = with_rule(deny_countries=("CA",))
    links = {(a, b): frozenset({"US", "EU"}) for a in range(8) for b in range(a)}
    declared = replace(NETWORK, countries=links)
    second = NETWORK.index[str(ENTRY.fallback)]
    via = NETWORK.index[str(ENTRY.via)]

    def faults(network: Network, plan: Plan = plan) -> set[str]:
        return {item.constraint for item in check(plan, network, [TRACK], undeclared=["gold"])[0]}

    assert found(plan) == set()
    assert faults(NETWORK) == {"country", "disjoint"}
    assert faults(declared) == set()
    for a, b, word in ((via, 0, "country"), (via, 3, "country"), (second, 0, "disjoint")):
        lacking = {pair: said for pair, said in links.items() if pair != (max(a, b), min(a, b))}
        assert faults(replace(NETWORK, countries=lacking)) == {word}
    # Hub and spoke over such a link is not allowed either: the plan must name a Via.
    few = replace(TRACK, viewers={2: 5})
    lacking = {pair: said for pair, said in links.items() if pair != (2, 0)}
    silent = replace(plan, entries=())
    assert not check(silent, declared, [few], undeclared=["gold"])[1]
    (left,) = check(silent, replace(NETWORK, countries=lacking), [few], undeclared=["gold"])[1]
    assert (left.constraint, left.reason) == ("country", "")


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
    assert found(dropped, previous=PLAN) == {"budget", "fan-out"}


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
    other = replace(TRACK, scope="x")
    assert left_out(wide, NETWORK, [other]) == [(1, "eu", 3, "fan-out", "")]
    assert {item.constraint for item in verify(wide, NETWORK, [other])} == {"fan-out"}


SILENT = replace(PLAN, entries=())
ALLOWED = "a Via is allowed and has room"


def test_silence_is_a_fault_where_copies_are_too_many_and_a_via_is_allowed() -> None:
    for most, constraints in ((1, {"fan-out"}), (2, {"fan-out"}), (3, set())):
        plan = replace(SILENT, constraints=replace(PLAN.constraints, max_fanout=most))
        assert found(plan) == constraints
    (violation,) = verify(SILENT, NETWORK, [TRACK])
    assert violation.where == "0.0:0.1 > eu (gold)"
    assert violation.text == f"3 copies, and {ALLOWED}"


def reasons(plan: Plan, network: Network = NETWORK, previous: Plan | None = None) -> list[str]:
    return [item.reason for item in left_out(plan, network, [TRACK], previous=previous)]


def test_silence_is_excused_where_nothing_is_allowed_or_has_room() -> None:
    def silent(**changes: object) -> Plan:
        return replace(with_rule(**changes), entries=())

    assert found(silent(deny_countries=("EU", "US"))) == set()
    assert reasons(silent(deny_countries=("EU", "US"))) == ["no Via is allowed"]
    one = NETWORK.drained(["0.0:0.2", "0.0:0.7"])
    assert reasons(SILENT, one) == ["no second Via is allowed"]
    assert reasons(silent(disjoint=False), one) == [""]
    # Three copies of 5 Mbit/s: 12 of 15 Mbit/s are planned for; a second way may have all.
    full = replace(NETWORK, nodes=tuple(replace(n, capacity_bps=15e6) for n in NETWORK.nodes))
    assert reasons(SILENT, full) == ["no allowed Via has room"]
    assert found(SILENT, full) == set()
    thin = replace(NETWORK, capacity_bps=np.full((8, 8), 6e6))
    assert reasons(SILENT, thin) == ["no allowed Via has room"]
    # Room for the first way, and none for the second.
    lone = replace(
        NETWORK,
        nodes=tuple(
            n if n.id == str(ENTRY.via) else replace(n, capacity_bps=14e6) for n in NETWORK.nodes
        ),
    )
    assert reasons(SILENT, lone) == ["no allowed Via has room"]
    assert reasons(silent(disjoint=False), lone) == [""]


def test_a_budget_excuses_silence_only_when_it_is_used_up() -> None:
    def budget(number: int | None) -> Plan:
        return replace(SILENT, constraints=replace(PLAN.constraints, change_budget=number))

    assert reasons(budget(0), previous=SILENT) == ["the budget of changes is used up"]
    assert found(budget(0), previous=SILENT) == set()
    assert found(budget(1), previous=SILENT) == {"fan-out"}
    assert found(budget(None), previous=SILENT) == {"fan-out"}
    assert found(budget(0)) == {"fan-out"}  # the first plan has none
    # What the plan before had is no change.
    assert "fan-out" in found(budget(0), previous=PLAN)


def test_silence_is_a_fault_where_the_direct_path_is_denied_or_full() -> None:
    near = replace(TRACK, viewers={2: 1})

    def words(plan: Plan, network: Network) -> list[tuple[str, str]]:
        return [(v.constraint, v.text) for v in verify(plan, network, [near])]

    assert words(SILENT, NETWORK) == []
    passing = replace(NETWORK, countries={(0, 2): frozenset({"CA"})})
    rule = replace(with_rule(deny_countries=("CA",)), entries=())
    assert words(rule, passing) == [("country", f"1 copies, and {ALLOWED}")]
    room = NETWORK.capacity_bps.copy()
    room[0, 2] = 1e6
    assert words(SILENT, replace(NETWORK, capacity_bps=room)) == [
        ("capacity", f"1 copies, and {ALLOWED}")
    ]
    weak = replace(NETWORK.nodes[0], capacity_bps=1e6)
    assert words(SILENT, replace(NETWORK, nodes=(weak, *NETWORK.nodes[1:]))) == [
        ("capacity", f"1 copies, and {ALLOWED}")
    ]


def test_nineteen_direct_copies_do_not_fit_on_a_link_of_one_megabit() -> None:
    tracks = [replace(TRACK, key=key, scope="", viewers={2: 1}) for key in range(19)]
    room = NETWORK.capacity_bps.copy()
    room[0, 2] = 1e6
    thin = replace(NETWORK, capacity_bps=room)
    assert {v.constraint for v in verify(SILENT, thin, tracks)} == {"capacity"}
    assert len(left_out(SILENT, thin, tracks)) == 19
    # With nowhere else to go it is nobody's fault, and is named.
    alone = thin.drained([node.id for node in NETWORK.nodes if node.kind == "via"])
    assert verify(SILENT, alone, tracks) == []
    assert {i.reason for i in left_out(SILENT, alone, tracks)} == {"no Via is allowed"}


def test_second_ways_must_fit_if_a_via_fails() -> None:
    back = next(n for n in NETWORK.nodes if n.id == str(ENTRY.fallback))

    def sized(bps: float) -> Network:
        return replace(
            NETWORK,
            nodes=tuple(replace(n, capacity_bps=bps) if n is back else n for n in NETWORK.nodes),
        )

    assert found(PLAN, sized(15e6)) == set()
    (violation,) = verify(PLAN, sized(14e6), [TRACK])
    assert violation.constraint == "capacity"
    assert violation.where == back.id
    assert violation.text.startswith(f"if {ENTRY.via} fails")
    # Two tracks over different Vias never fail together.
    other = replace(ENTRY, tracks=(2,), via=NodeId(2))
    apart = replace(PLAN, entries=(ENTRY, other))
    tracks = [TRACK, replace(TRACK, key=2)]
    assert verify(apart, sized(15e6), tracks) == []
    same = replace(PLAN, entries=(replace(ENTRY, tracks=(1, 2)),))
    assert {v.constraint for v in verify(same, sized(15e6), tracks)} == {"capacity"}
