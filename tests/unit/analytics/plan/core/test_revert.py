from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.explain import diff
from laps_analytics.plan.core.placement import DIRECT, Policy
from laps_analytics.plan.core.revert import Part, is_in, reverted_plan, widest
from laps_analytics.plan.core.verify import check
from laps_wire.nodeid import NodeId
from laps_wire.plan import HardConstraints, Plan, PlanEntry
from laps_wire.plan import check as check_format
from testkit.planning import line_network, random_case
from testkit.properties import examples
from unit.analytics.plan.core.test_compose import OCEAN, track

ME, V, W = NodeId(1), NodeId(2), NodeId(3)
planned = partial(compose_plan, name="p", now_us=1, lifetime_us=10)


def entry(region: str, via: NodeId, *tracks: int, scope: str = "") -> PlanEntry:
    return PlanEntry(
        origin=ME, region=region, scope=scope, tracks=tracks or None, via=via, fallback=None
    )


def plan(version: int, *entries: PlanEntry) -> Plan:
    return Plan(
        id="p", version=version, made_us=1, expires_us=2, based_on="00" * 32, entries=entries
    )


@pytest.mark.parametrize("text", ["all", "eu", "eu/gold", "eu/", "(none)", "(none)/gold"])
def test_a_part_is_read_as_it_is_written(text: str) -> None:
    assert str(Part.parse(text)) == text


def test_what_a_part_has() -> None:
    assert Part().has("eu", "gold")
    assert Part("eu").has("eu", "gold")
    assert not Part("eu").has("us", "gold")
    assert not Part("eu", "gold").has("eu", "")
    assert is_in([Part("us"), Part("eu", "gold")], "eu", "gold")
    assert not is_in([], "eu", "gold")


def test_only_the_widest_parts_count() -> None:
    assert widest([Part("eu"), Part("eu", "gold"), Part("us", "")]) == (Part("eu"), Part("us", ""))
    assert widest([Part("eu"), Part()]) == (Part(),)
    assert widest([]) == ()


def test_entries_of_a_part_go_or_stand_as_they_did() -> None:
    now = plan(4, entry("eu", V, 7), entry("us", V, 7), entry("eu", V, 8, scope="gold"))
    then = plan(2, entry("eu", W, 7, 9), entry("us", W, 7), entry("eu", W, scope="gold"))
    assert reverted_plan(now, None, [Part("eu")]).entries == (entry("us", V, 7),)
    assert set(reverted_plan(now, then, [Part("eu")]).entries) == {
        *(entry("us", V, 7), entry("eu", W, 7, 9), entry("eu", W, scope="gold"))
    }
    assert set(reverted_plan(now, then, [Part("eu", "gold")]).entries) == {
        *(entry("us", V, 7), entry("eu", V, 7), entry("eu", W, scope="gold"))
    }
    assert set(reverted_plan(now, then, [Part()]).entries) == set(then.entries)
    assert reverted_plan(now, then, []) == replace(
        now, entries=tuple(sorted(now.entries, key=lambda e: (e.region, e.scope)))
    )


def test_a_track_whose_class_is_another_now_has_one_answer() -> None:
    now = plan(2, entry("eu", V, 7, scope="gold"))
    then = plan(1, entry("eu", W, 7, 8))
    found = reverted_plan(now, then, [Part("eu", "")])
    assert set(found.entries) == {entry("eu", V, 7, scope="gold"), entry("eu", W, 8)}
    assert reverted_plan(now, plan(1, entry("eu", W, 7)), [Part("eu", "")]).entries == now.entries
    check_format(found)


def test_what_is_held_is_not_decided_again_and_the_verifier_knows_that() -> None:
    tracks = [track()]
    nothing = plan(1)
    held = planned(OCEAN, Policy(), tracks, version=2, previous=nothing, hold=[Part("eu")])
    assert held.plan.entries == ()
    assert held.changed == 0
    assert list(held.draft.uncovered.values()) == ["it is held as it was"]
    faults, silent = check(held.plan, OCEAN, tracks, previous=nothing, hold=[Part("eu")])
    assert faults == []
    assert [item.reason for item in silent] == ["it is held as it was"]
    # Without the order, three copies over the ocean are too many.
    assert [item.constraint for item in check(held.plan, OCEAN, tracks)[0]] == ["fan-out"]
    far = planned(OCEAN, Policy(), tracks, version=2).plan
    (best,) = far.entries
    assert best.fallback is not None
    other = replace(far, entries=(replace(best, via=best.fallback, fallback=None),))
    again = planned(OCEAN, Policy(), tracks, version=3, previous=other, hold=[Part()])
    assert [item.via for item in again.plan.entries] == [best.fallback]
    assert "held as it was" in again.plan.entries[0].reason


def test_a_held_way_that_is_gone_is_left_to_relays() -> None:
    tracks = [track()]
    before = planned(OCEAN, Policy(), tracks, version=1).plan
    drained = OCEAN.drained([str(before.entries[0].via)])
    held = planned(drained, Policy(), tracks, version=2, previous=before, hold=[Part("eu")])
    assert held.draft.via == [DIRECT]
    assert check(held.plan, drained, tracks, previous=before, hold=[Part("eu")])[0] == []


def test_a_held_direct_way_that_is_full_moves_all_the_same() -> None:
    network = line_network(
        [("edge", "us", 0.0), ("edge", "eu", 80.0), ("via", "eu", 82.0), ("via", "eu", 84.0)]
    )
    capacity = network.capacity_bps.copy()
    capacity[0, 1] = 1e6
    full = replace(network, capacity_bps=capacity)
    tracks = [track(viewers={1: 5})]
    policy = Policy(hard=HardConstraints(change_budget=0))
    held = planned(
        *(full, policy, tracks),
        version=2,
        previous=plan(1),
        hold=[Part("eu")],
    )
    assert len(held.plan.entries) == 1
    assert check(held.plan, full, tracks, previous=plan(1), hold=[Part("eu")])[0] == []


@given(
    seed=st.integers(0, 10_000),
    parts=st.sampled_from(
        [(Part(),), (Part("eu"),), (Part("us", "gold"), Part("asia")), (Part("sa", ""),)]
    ),
    restore=st.booleans(),
    lost=st.booleans(),
    others=st.booleans(),
)
@settings(max_examples=examples(30))
def test_going_back_changes_nothing_else_and_keeps_every_constraint(
    seed: int, parts: tuple[Part, ...], restore: bool, lost: bool, others: bool
) -> None:
    network, tracks, policy = random_case(seed)
    free = replace(policy, hard=replace(policy.hard, change_budget=None))
    cheap = replace(free, weights=replace(free.weights, delay_price=0.0))
    earlier = planned(network, cheap, tracks[: len(tracks) // 2 + 1], version=1).plan
    current = planned(network, free, tracks, version=2).plan
    wanted = reverted_plan(current, earlier if restore else None, parts)
    check_format(wanted)
    assert all(is_in(parts, item.region, item.scope) for item in diff(current, wanted))
    if lost and current.entries:
        network = network.drained([str(current.entries[0].via)])
    if others:
        more = random_case(seed + 1)[1][:2]
        tracks = [*tracks[1:], *(replace(item, key=1000 + item.key) for item in more)]
    still = replace(policy, hard=replace(policy.hard, change_budget=0))
    made = planned(network, still, tracks, version=3, previous=wanted, hold=parts)
    assert check(made.plan, network, tracks, previous=wanted, hold=parts)[0] == []
