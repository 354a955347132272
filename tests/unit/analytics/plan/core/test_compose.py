from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_analytics.errors import PlanError
from laps_analytics.plan.core.compose import (
    PlanResult,
    choose_vias,
    compose_plan,
    in_force,
    snapshot_hash,
)
from laps_analytics.plan.core.evaluate import figures, trees_of
from laps_analytics.plan.core.explain import declared_legs, explain
from laps_analytics.plan.core.inputs import Network, Track, aggregate, cells, scaled
from laps_analytics.plan.core.placement import DIRECT, GONE, Policy
from laps_analytics.plan.core.verify import check, left_out, verify
from laps_wire.plan import ClassRule, HardConstraints, Plan, canonical
from testkit.planning import line_network, random_case, random_network

SECOND = 1_000_000
OCEAN = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0)),
        *(("edge", "eu", 80.0), ("edge", "eu", 84.0), ("edge", "eu", 88.0), ("via", "eu", 82.0)),
        *(("edge", "asia", 150.0), ("via", "eu", 100.0)),
    ]
)


def track(key: int = 1, **changes: object) -> Track:
    viewers = changes.pop("viewers", {2: 5, 3: 5, 4: 5})
    base = Track(key=key, origin=0, scope="", rate_bps=5e6, viewers=viewers)  # type: ignore[arg-type]
    return replace(base, **changes)  # type: ignore[arg-type]


def planned(
    network: Network, policy: Policy, *tracks: Track, previous: Plan | None = None
) -> PlanResult:
    return compose_plan(
        network,
        policy,
        tracks,
        name="p",
        version=1,
        now_us=SECOND,
        lifetime_us=900 * SECOND,
        previous=previous,
    )


def test_three_copies_over_the_ocean_become_one() -> None:
    made = planned(OCEAN, Policy(), track())
    (entry,) = made.plan.entries
    assert (str(entry.origin), entry.region, str(entry.via)) == ("0.0:0.1", "eu", "0.0:0.6")
    assert entry.tracks == (1,)
    assert entry.wan_saved_permille == round(1000 * (3 - 1.6) / 3)
    assert "3 copies to eu become 1" in entry.reason
    assert entry.fallback is not None
    assert made.plan.expires_us == 901 * SECOND
    assert verify(made.plan, OCEAN, [track()]) == []
    assert left_out(made.plan, OCEAN, [track()]) == []


def test_what_hub_and_spoke_does_as_well_is_left_alone() -> None:
    made = planned(OCEAN, Policy(), track(viewers={2: 1}), track(2, viewers={6: 1}))
    assert made.plan.entries == ()
    assert made.draft.uncovered == {}


def test_a_shorter_way_counts_even_for_one_viewer_relay() -> None:
    network = line_network(
        [("edge", "us", 0.0), ("via", "us", 1.0), ("edge", "eu", 80.0)], rtt={(0, 2): 400.0}
    )
    policy = Policy(hard=HardConstraints(classes={"": ClassRule(limit_us=320_000)}))
    made = planned(network, policy, track(viewers={2: 1000}))
    (entry,) = made.plan.entries
    assert entry.delay_us == -319_000
    assert "shorter way to eu, 319 ms shorter" in entry.reason


def test_tracks_that_are_carried_alike_are_one_group() -> None:
    groups = aggregate([track(2), track(1), track(3, scope="gold"), track(4, viewers={0: 3})])
    assert [group.keys for group in groups] == [(1, 2), (3,)]
    assert groups[0].rate_bps == 1e7
    assert groups[0].viewers == (10, 10, 10)
    assert [cell.region for cell in cells(OCEAN, groups)] == ["eu", "eu"]
    own = aggregate([track(viewers={1: 1})])
    assert cells(OCEAN, own) == ()
    assert scaled([track()], 2.0)[0].viewers == {2: 10, 3: 10, 4: 10}


@pytest.mark.parametrize(
    ("rule", "network", "word"),
    [
        (ClassRule(slack_permille=1000, extra_us=0), OCEAN, "too slow"),
        (ClassRule(deny_countries=("EU", "US")), OCEAN, "not allowed"),
        (ClassRule(via_regions=("asia",)), OCEAN, "not allowed"),
        (
            ClassRule(disjoint=True),
            OCEAN.drained(["0.0:0.2", "0.0:0.8"]),
            "no second way",
        ),
        (ClassRule(), OCEAN.drained(["0.0:0.2", "0.0:0.6", "0.0:0.8"]), "there is no Via"),
    ],
)
def test_where_nothing_is_allowed_the_plan_is_silent_and_says_why(
    rule: ClassRule, network: Network, word: str
) -> None:
    policy = Policy(hard=HardConstraints(classes={"": rule}))
    made = planned(network, policy, track())
    assert made.plan.entries == ()
    (reason,) = made.draft.uncovered.values()
    assert word in reason
    (silent,) = left_out(made.plan, network, [track()])
    assert silent[:4] == (1, "eu", 3, "fan-out")
    assert silent.reason in ("no Via is allowed", "no second Via is allowed")
    assert verify(made.plan, network, [track()]) == []


def test_a_link_whose_path_passes_a_country_is_not_used() -> None:
    passing = replace(OCEAN, countries={(0, 5): frozenset({"CA", "US", "EU"})})
    rule = ClassRule(deny_countries=("CA",))
    policy = Policy(hard=HardConstraints(classes={"": rule}))
    (entry,) = planned(passing, policy, track()).plan.entries
    assert str(entry.via) != "0.0:0.6"
    # Both ends of the link are relays, and their own countries are no transit.
    ends = Policy(hard=HardConstraints(classes={"": ClassRule(deny_countries=("US",))}))
    (entry,) = planned(OCEAN, ends, track()).plan.entries
    assert str(entry.via) == "0.0:0.6"


def test_a_link_that_nobody_declared_is_not_used_if_the_class_says_so() -> None:
    rule = ClassRule(deny_countries=("CA",))
    hard = HardConstraints(classes={"": rule})
    free = planned(OCEAN, Policy(hard=hard), track())
    (entry,) = free.plan.entries
    assert declared_legs(free.draft) == (4, 0)
    strict = Policy(hard=hard, undeclared=frozenset({""}))
    nothing = planned(OCEAN, strict, track())
    assert nothing.plan.entries == ()
    assert check(nothing.plan, OCEAN, [track()], undeclared=strict.undeclared)[0] == []
    links = {(a, b): frozenset({"US", "EU"}) for a in range(8) for b in range(a)}
    declared = replace(OCEAN, countries=links)
    made = planned(declared, strict, track())
    assert made.plan.entries == (entry,)
    assert declared_legs(made.draft) == (4, 4)
    assert check(made.plan, declared, [track()], undeclared=strict.undeclared)[0] == []
    via = OCEAN.index[str(entry.via)]
    lacking = replace(OCEAN, countries={k: v for k, v in links.items() if k != (via, 0)})
    (other,) = planned(lacking, strict, track()).plan.entries
    assert other.via != entry.via


def test_a_way_that_loses_too_much_is_not_taken_and_loss_has_a_price() -> None:
    loss = np.zeros((8, 8))
    loss[0, 5] = 0.02
    lossy = replace(OCEAN, loss=loss)
    (entry,) = planned(lossy, Policy(), track()).plan.entries
    assert str(entry.via) == "0.0:0.6"  # nobody asked
    limit = Policy(hard=HardConstraints(classes={"": ClassRule(limit_loss_ppm=10_000)}))
    made = planned(lossy, limit, track())
    assert str(made.plan.entries[0].via) == "0.0:0.8"
    assert verify(made.plan, lossy, [track()]) == []
    bounds = {item.via: item.bound for item in explain(made.draft, 0).alternatives}
    assert bounds["0.0:0.6"] == "loss"
    worse = replace(OCEAN, loss=loss + 0.006)
    made = planned(worse, limit, track())
    assert "too lossy" in next(iter(made.draft.uncovered.values()))
    # A direct way that loses more than the limit is worth leaving, even for one viewer relay.
    direct = np.zeros((8, 8))
    direct[0, 2] = 0.05
    alone = track(viewers={2: 1000})
    assert planned(replace(OCEAN, loss=direct), Policy(), alone).plan.entries == ()
    (entry,) = planned(replace(OCEAN, loss=direct), limit, alone).plan.entries
    found = figures(replace(OCEAN, loss=direct), limit, aggregate([alone]), [{2: (0, 2)}])
    assert found.over_limit == 1.0
    over = figures(replace(OCEAN, loss=direct), limit, aggregate([alone]), [{2: (0, 5, 2)}])
    assert over.over_limit == 0.0
    assert over.objective < found.objective


def test_what_does_not_fit_goes_where_it_costs_least() -> None:
    small = replace(
        OCEAN,
        nodes=tuple(
            replace(node, capacity_bps=20e6) if node.id == "0.0:0.6" else node
            for node in OCEAN.nodes
        ),
    )
    tracks = [track(1, scope="a"), track(2, scope="b")]
    made = planned(small, Policy(), *tracks)
    assert sorted(str(entry.via) for entry in made.plan.entries) == ["0.0:0.6", "0.0:0.8"]
    assert verify(made.plan, small, tracks) == []
    assert len(made.draft.displaced) == 1
    assert any("has no room" in entry.reason for entry in made.plan.entries)
    tiny = replace(small, capacity_bps=np.full((8, 8), 1e6))
    made = planned(tiny, Policy(), *tracks)
    assert made.plan.entries == ()
    assert set(made.draft.uncovered.values()) == {"no Via has room for it"}
    assert {item.reason for item in left_out(made.plan, tiny, tracks)} == {
        "no allowed Via has room"
    }
    assert verify(made.plan, tiny, tracks) == []


def narrow(network: Network, links: dict[tuple[int, int], float]) -> Network:
    room = network.capacity_bps.copy()
    for link, bps in links.items():
        room[link] = bps
    return replace(network, capacity_bps=room)


def test_a_direct_link_that_is_full_is_not_allowed() -> None:
    tracks = [track(key, viewers={2: 1}) for key in range(1, 20)]
    assert planned(OCEAN, Policy(), *tracks).plan.entries == ()
    thin = narrow(OCEAN, {(0, 2): 1e6})
    made = planned(thin, Policy(), *tracks)
    (entry,) = made.plan.entries
    assert entry.tracks == tuple(range(1, 20))
    assert made.draft.full == {0}
    assert verify(made.plan, thin, tracks) == []
    # Those of other groups stay where they are as soon as what is left fits.
    other = [track(key, scope=str(key), viewers={2: 1}) for key in (1, 2, 3)]
    half = narrow(OCEAN, {(0, 2): 13e6})
    made = planned(half, Policy(), *other)
    assert len(made.plan.entries) == 1
    assert verify(made.plan, half, other) == []
    # An origin that cannot send so much is full as well: a Via takes one copy for two.
    weak = replace(OCEAN, nodes=(replace(OCEAN.nodes[0], capacity_bps=10e6), *OCEAN.nodes[1:]))
    twice = [track(viewers={2: 1, 3: 1})]
    assert planned(OCEAN, Policy(), *twice).plan.entries
    far = Policy(hard=HardConstraints(classes={"": ClassRule(slack_permille=1000, extra_us=0)}))
    made = planned(weak, far, *twice)
    assert made.plan.entries == ()
    assert list(made.draft.uncovered.values()) == ["its direct way is full, and no Via is allowed"]


def test_what_stays_within_the_region_of_its_origin_takes_room_too() -> None:
    home = track(9, viewers={1: 1})  # nothing that a plan moves
    weak = replace(OCEAN, nodes=(replace(OCEAN.nodes[0], capacity_bps=12e6), *OCEAN.nodes[1:]))
    away = track(viewers={6: 1}, rate_bps=5e6)
    assert planned(weak, Policy(), away).draft.uncovered == {}
    made = planned(weak, Policy(), away, home)
    assert made.draft.uncovered or made.plan.entries
    assert verify(made.plan, weak, [away, home]) == []


def test_a_second_way_is_one_that_has_room_when_the_first_one_fails() -> None:
    rule = ClassRule(disjoint=True)
    policy = Policy(hard=HardConstraints(classes={"": rule, "x": rule}))
    made = planned(OCEAN, policy, track())
    (entry,) = made.plan.entries
    assert (str(entry.via), str(entry.fallback)) == ("0.0:0.6", "0.0:0.8")
    # 15 Mbit/s of a fallback fit into 16, though only 12.8 of those are planned for; not into 14.
    for room, second in ((16e6, "0.0:0.8"), (14e6, "0.0:0.2")):
        small = replace(
            OCEAN,
            nodes=(*OCEAN.nodes[:7], replace(OCEAN.nodes[7], capacity_bps=room)),
        )
        made = planned(small, policy, track())
        assert str(made.plan.entries[0].fallback) == second
        assert verify(made.plan, small, [track()]) == []
    # Two groups of one Via share what is behind it: the second one must fall back elsewhere.
    small = replace(OCEAN, nodes=(*OCEAN.nodes[:7], replace(OCEAN.nodes[7], capacity_bps=16e6)))
    both = [track(), track(2, scope="x")]
    made = planned(small, policy, *both)
    assert sorted(str(entry.fallback) for entry in made.plan.entries) == ["0.0:0.2", "0.0:0.8"]
    assert verify(made.plan, small, both) == []
    # Without any room there is no second way, so there is no first one.
    none = replace(
        OCEAN,
        nodes=tuple(
            replace(node, capacity_bps=14e6) if node.id in ("0.0:0.2", "0.0:0.8") else node
            for node in OCEAN.nodes
        ),
    )
    made = planned(none, policy, track())
    assert made.plan.entries == ()
    assert list(made.draft.uncovered.values()) == ["no Via has room for it"]
    assert verify(made.plan, none, [track()]) == []


def test_the_budget_of_changes_is_kept_and_what_must_change_does_not_count() -> None:
    policy = Policy(hard=HardConstraints(change_budget=1))
    tracks = [track(k, scope=str(k), viewers={2: k, 3: k, 4: k}) for k in (1, 2, 3)]
    first = planned(OCEAN, policy, *tracks).plan
    assert len(first.entries) == 3
    moved = replace(
        first,
        entries=tuple(
            replace(e, via=e.fallback, fallback=None) for e in first.entries if e.fallback
        ),
    )
    second = planned(OCEAN, policy, *tracks, previous=moved)
    assert second.changed == 1
    # The one that gains most.
    assert [e.tracks for e in second.plan.entries if str(e.via) == "0.0:0.6"] == [(3,)]
    assert any("the budget of changes keeps it" in e.reason for e in second.plan.entries)
    assert verify(second.plan, OCEAN, tracks, previous=moved) == []
    (old,) = {str(entry.via) for entry in moved.entries}
    gone = OCEAN.drained([old])
    third = planned(gone, policy, *tracks, previous=moved)
    assert third.changed == 3
    assert verify(third.plan, gone, tracks, previous=moved) == []
    nothing = Policy(hard=HardConstraints(change_budget=0))
    empty = replace(first, entries=())
    fourth = planned(OCEAN, nothing, *tracks, previous=empty)
    assert fourth.plan.entries == ()
    assert set(fourth.draft.uncovered.values()) == {"the budget of changes is used up"}
    assert {item.reason for item in left_out(fourth.plan, OCEAN, tracks, previous=empty)} == {
        "the budget of changes is used up"
    }
    assert verify(fourth.plan, OCEAN, tracks, previous=empty) == []


def test_the_plan_in_force_is_found_by_track_and_by_class() -> None:
    plan = planned(OCEAN, Policy(), track()).plan
    (entry,) = plan.entries
    strangers = replace(
        plan, entries=(replace(entry, tracks=None), replace(entry, via=type(entry.via)(99)))
    )
    table = in_force(strangers, OCEAN)
    assert table == {(0, "eu", ""): 5, (0, "eu", 1): GONE}
    assert in_force(None, OCEAN) == {}
    elsewhere = replace(plan, entries=(replace(entry, origin=type(entry.origin)(99)),))
    assert in_force(elsewhere, OCEAN) == {}
    made, changed = choose_vias(OCEAN, Policy(), [track(), track(2)], strangers)
    assert [group.keys for group in made.groups] == [(1,), (2,)]  # only one of them must change
    assert len(changed) == 1


@given(st.integers(0, 2**32))
def test_every_plan_keeps_every_constraint(seed: int) -> None:
    network, tracks, policy = random_case(seed)
    first = planned(network, policy, *tracks).plan
    assert verify(first, network, tracks) == []
    # An hour later the network and the demand are other ones.
    other, more, _ = random_case(seed + 1)
    shaken = replace(
        network,
        nodes=tuple(
            replace(node, usable=new.usable, capacity_bps=new.capacity_bps)
            for node, new in zip(network.nodes, other.nodes, strict=True)
        ),
    )
    second = planned(shaken, policy, *more, *tracks[len(more) :], previous=first)
    demand = [*more, *tracks[len(more) :]]
    assert verify(second.plan, shaken, demand, previous=first) == []


@given(st.integers(0, 2**32))
def test_the_same_arguments_give_the_same_plan_whatever_the_order(seed: int) -> None:
    network, tracks, policy = random_case(seed)
    one, two = planned(network, policy, *tracks), planned(network, policy, *reversed(tracks))
    assert canonical(one.plan) == canonical(two.plan)


@given(st.integers(0, 2**32))
def test_a_plan_never_costs_more_than_hub_and_spoke(seed: int) -> None:
    network, tracks, policy = random_case(seed)
    made, _ = choose_vias(network, policy, tracks)
    star, _ = choose_vias(network, policy, tracks)
    plain = [n for n, table in enumerate(star.tables) if np.isfinite(table.direct)]
    star.via = [DIRECT if n in plain else via for n, via in enumerate(star.via)]
    if not made.displaced and not made.full:
        assert made.objective() <= star.objective() + 1e-6


def test_figures_of_a_plan_and_of_an_empty_network() -> None:
    made = planned(OCEAN, Policy(), track())
    found = figures(OCEAN, Policy(), made.draft.groups, trees_of(made.draft))
    assert found.duplication == 1.0
    assert found.hops == 2.0
    assert found.stress == 1
    assert figures(OCEAN, Policy(), [], []).delay_p95_ms == 0.0
    assert snapshot_hash(OCEAN, ()) != snapshot_hash(OCEAN.priced("us", 2.0), ())


def test_a_network_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(PlanError, match="rtt_ms is not a table"):
        replace(OCEAN, rtt_ms=np.zeros((2, 2)))
    with pytest.raises(PlanError, match="same node id"):
        replace(OCEAN, nodes=(OCEAN.nodes[0],) * 8)
    with pytest.raises(PlanError, match=r"9\.9:9\.9"):
        OCEAN.drained(["9.9:9.9"])
    with pytest.raises(PlanError, match="has no relay in the region 'mars'"):
        OCEAN.priced("mars", 2.0)


def test_edges_are_vias_only_where_that_is_wanted() -> None:
    network = random_network(np.random.default_rng(3), edges=10, vias=0)
    tracks = [track(origin=0, viewers=dict.fromkeys(range(1, 10), 3))]
    assert planned(network, Policy(), *tracks).plan.entries == ()
    loose = Policy(
        edges_as_vias=True, hard=HardConstraints(classes={"": ClassRule(slack_permille=9000)})
    )
    tracks = [track(origin=0, viewers=dict.fromkeys(range(1, 6), 3))]
    made = planned(network, loose, *tracks)
    assert made.plan.entries
    assert verify(made.plan, network, tracks, edges_as_vias=True) == []
    assert {v.constraint for v in verify(made.plan, network, tracks)} == {"node"}
