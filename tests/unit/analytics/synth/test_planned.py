"""Trees that follow a plan."""

from __future__ import annotations

import pytest

from laps_analytics.synth.config import QUICK, DatasetConfig, make_config
from laps_analytics.synth.dataset import Track
from laps_analytics.synth.demo import PlannedRouting
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry


@pytest.fixture(scope="module")
def config() -> DatasetConfig:
    return make_config(7, QUICK)


def plan_of(track: Track, region: str, via: str, *, tracks: bool) -> Plan:
    entry = PlanEntry(
        origin=NodeId.parse(track.origin),
        region=region,
        scope=track.qos,
        tracks=(int(track.track, 16),) if tracks else None,
        via=NodeId.parse(via),
    )
    return Plan(id="p", version=1, made_us=1, expires_us=2, based_on="0" * 64, entries=(entry,))


@pytest.mark.parametrize("tracks", [True, False])
def test_copies_towards_a_region_take_its_via(config: DatasetConfig, tracks: bool) -> None:
    dataset = config.dataset
    via = next(relay.node for relay in dataset.relays if relay.kind == "via")
    track = dataset.tracks[0]
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    region = dataset.by_node[min(targets)].region
    there = {target for target in targets if dataset.by_node[target].region == region}
    tree = PlannedRouting(plan_of(track, region, via, tracks=tracks), dataset).tree(track, targets)
    assert {child for child, above in tree.parent.items() if above == via} == there
    assert tree.parent[via] == track.origin
    assert all(tree.parent[target] == track.origin for target in targets - there)
    assert set(tree.order()) == targets | {via, track.origin}


def test_a_via_that_has_viewers_hangs_on_the_origin(config: DatasetConfig) -> None:
    dataset = config.dataset
    track = dataset.tracks[0]
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    via = min(targets)
    other = next(target for target in sorted(targets) if target != via)
    plan = plan_of(track, dataset.by_node[other].region, via, tracks=True)
    tree = PlannedRouting(plan, dataset).tree(track, targets)
    assert tree.parent[via] == track.origin
    assert tree.parent[other] == via


def test_without_an_entry_copies_go_directly(config: DatasetConfig) -> None:
    track = config.dataset.tracks[0]
    plan = plan_of(track, "nowhere", "9.9:9.9", tracks=True)
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    tree = PlannedRouting(plan, config.dataset).tree(track, targets)
    assert set(tree.parent.values()) == {track.origin}
