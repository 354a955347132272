"""Trees that follow a plan."""

from __future__ import annotations

import pytest

from laps_analytics.synth.config import QUICK, Setting, make_setting
from laps_analytics.synth.dataset import Track
from laps_analytics.synth.demo import Planned
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry


@pytest.fixture(scope="module")
def setting() -> Setting:
    return make_setting(7, QUICK)


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
def test_copies_towards_a_region_take_its_via(setting: Setting, tracks: bool) -> None:
    scene = setting.scene
    via = next(relay.node for relay in scene.relays if relay.kind == "via")
    track = scene.tracks[0]
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    region = scene.by_node[min(targets)].region
    there = {target for target in targets if scene.by_node[target].region == region}
    tree = Planned(plan_of(track, region, via, tracks=tracks), scene).tree(track, targets)
    assert {child for child, above in tree.parent.items() if above == via} == there
    assert tree.parent[via] == track.origin
    assert all(tree.parent[target] == track.origin for target in targets - there)
    assert set(tree.order()) == targets | {via, track.origin}


def test_a_via_that_has_viewers_hangs_on_the_origin(setting: Setting) -> None:
    scene = setting.scene
    track = scene.tracks[0]
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    via = min(targets)
    other = next(target for target in sorted(targets) if target != via)
    plan = plan_of(track, scene.by_node[other].region, via, tracks=True)
    tree = Planned(plan, scene).tree(track, targets)
    assert tree.parent[via] == track.origin
    assert tree.parent[other] == via


def test_without_an_entry_copies_go_directly(setting: Setting) -> None:
    track = setting.scene.tracks[0]
    plan = plan_of(track, "nowhere", "9.9:9.9", tracks=True)
    targets = frozenset(relay for relay in track.interest if relay != track.origin)
    tree = Planned(plan, setting.scene).tree(track, targets)
    assert set(tree.parent.values()) == {track.origin}
