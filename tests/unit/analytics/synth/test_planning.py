"""The benchmark's worlds: every constraint of their policy binds somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from analytics.planning import next_hour

from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.plan.assemble import assemble
from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.inputs import Network, Track
from laps_analytics.plan.core.placement import Policy
from laps_analytics.plan.core.verify import verify
from laps_analytics.synth.backbone import Backbone, make_backbone
from laps_analytics.synth.dataset import FULL, make_config, make_demand
from laps_analytics.synth.planning import (
    SYNTH_POLICY,
    SYNTH_SHARE,
    network_of,
    settings_of,
    tracks_of,
)
from laps_wire.plan import ClassRule, Plan
from testkit.plan_lake import observe_backbone

SEEDS = (1, 2, 3)
"""Of the thirty that the benchmark has; the same relays and tracks."""


@cache
def case(seed: int) -> tuple[Backbone, Network, list[Track]]:
    backbone = make_backbone(seed)
    return backbone, network_of(backbone, share=SYNTH_SHARE), tracks_of(make_demand(backbone))


def plan_of(network: Network, policy: Policy, tracks: list[Track], before: Plan | None) -> Plan:
    return compose_plan(
        network,
        policy,
        tracks,
        name="w",
        version=1,
        now_us=1,
        lifetime_us=10,
        previous=before,
    ).plan


@cache  # the same for each constraint
def planned(seed: int) -> Plan:
    """The plan of a world that obeys all of its policy."""
    _, network, tracks = case(seed)
    plan = plan_of(network, SYNTH_POLICY, tracks, None)
    assert verify(plan, network, tracks) == []
    return plan


def with_rules(**changes: object) -> Policy:
    classes: Mapping[str, ClassRule] = {
        name: replace(rule, **changes)  # type: ignore[arg-type]
        for name, rule in SYNTH_POLICY.hard.classes.items()
    }
    return replace(SYNTH_POLICY, hard=replace(SYNTH_POLICY.hard, classes=classes))


def roomy(network: Network) -> Network:
    return replace(
        network,
        nodes=tuple(replace(node, capacity_bps=np.inf) for node in network.nodes),
        capacity_bps=np.full_like(network.capacity_bps, np.inf),
    )


@pytest.mark.parametrize(
    ("constraint", "loose"),
    [
        ("latency", with_rules(slack_permille=100_000)),
        ("loss", with_rules(limit_loss_ppm=None)),
        ("country", with_rules(deny_countries=())),
        ("region", with_rules(via_regions=None)),
        ("disjoint", with_rules(disjoint=False)),
        ("fan-out", replace(SYNTH_POLICY, hard=replace(SYNTH_POLICY.hard, max_fanout=1000))),
        ("capacity", SYNTH_POLICY),
        ("budget", SYNTH_POLICY),
    ],
)
def test_a_plan_without_a_constraint_violates_it_in_some_world(
    constraint: str, loose: Policy
) -> None:
    hard = replace(SYNTH_POLICY.hard, change_budget=20)
    found = set()
    for seed in SEEDS:
        backbone, network, tracks = case(seed)
        before = planned(seed)
        if constraint == "budget":
            later = next_hour(backbone, tracks)
            dear = network.priced(network.nodes[0].region, 1.5)
            plan = plan_of(dear, loose, later, before)
            judged = verify(replace(plan, constraints=hard), dear, later, previous=before)
        else:
            seen = roomy(network) if constraint == "capacity" else network
            plan = plan_of(seen, loose, tracks, None)
            judged = verify(replace(plan, constraints=SYNTH_POLICY.hard), network, tracks)
        found |= {item.constraint for item in judged}
        if constraint in found:
            return
    pytest.fail(f"{constraint} binds in none of the worlds {SEEDS}: {found}")


def test_the_demo_plans_with_a_second_way_for_gold_and_denied_countries() -> None:
    config = make_config(7, FULL)
    backbone, demand = config.backbone, list(config.demand)
    known = Dimensions(tracks={item.track: TrackFacts(item.scope) for item in demand})
    seen = observe_backbone(backbone, demand)
    settings = settings_of(backbone)
    found = assemble(seen, settings, known)
    plan = plan_of(found.network, settings.policy, list(found.tracks), None)
    assert verify(plan, found.network, found.tracks) == []
    gold = [entry for entry in plan.entries if entry.scope == "gold"]
    assert gold
    assert all(entry.fallback is not None for entry in gold)
    assert plan.constraints.classes["gold"].deny_countries
    # What it says of countries is heard: a plan without it breaks that.
    hard = settings.policy.hard
    open_ = {name: replace(rule, deny_countries=()) for name, rule in hard.classes.items()}
    loose = replace(settings.policy, hard=replace(hard, classes=open_))
    bare = plan_of(found.network, loose, list(found.tracks), None)
    judged = verify(replace(bare, constraints=plan.constraints), found.network, found.tracks)
    assert "country" in {item.constraint for item in judged}
    assert all(found.network.nodes[i].country == r.country for i, r in enumerate(backbone.relays))


def test_the_next_hour_has_other_tracks() -> None:
    backbone, _, tracks = case(1)
    later = next_hour(backbone, tracks)
    assert len(later) == len(tracks)
    ended = {track.key for track in tracks} - {track.key for track in later}
    begun = {track.key for track in later} - {track.key for track in tracks}
    assert len(ended) == len(begun) == len(tracks) // 10
