"""The gain of a plan, and trees that follow a plan."""

from __future__ import annotations

import pandas as pd
import pytest

from laps_analytics.report.gold import Gold
from laps_analytics.synth.dataset import QUICK, DatasetConfig, Track, make_config
from laps_analytics.synth.demo import Gain, PlannedRouting, measure_gain
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry
from testkit.gold_frames import sample

DAY_US = 86_400_000_000
START_US = int(pd.Timestamp("2026-06-18 18:00", tz="UTC").value // 1000)
SPAN = (START_US, START_US + 3_600_000_000)
NEXT = (SPAN[0] + DAY_US, SPAN[1] + DAY_US)


def gold_of(*, wan: float, later: bool = True) -> Gold:
    """A day, and the next one with other WAN bytes."""
    tables = {}
    for name in ("track_fanout_5m", "qoe_region_1m"):
        first = pd.DataFrame(sample()[name])
        second = first.assign(window_start=first["window_start"] + pd.Timedelta(days=1))
        if name == "track_fanout_5m":
            second["wan_bytes"] = (second["wan_bytes"] * wan).astype(int)
        tables[name] = pd.concat([first, second]) if later else first
    return Gold(tables)


def by_name(gains: list[Gain]) -> dict[str, Gain]:
    return {gain.what: gain for gain in gains}


def test_less_is_better() -> None:
    gains = by_name(measure_gain(gold_of(wan=0.4), SPAN, NEXT))
    factor = gains["WAN bytes by what a copy for each region needs"]
    assert (factor.before, factor.after) == (2.5, 1.0)
    assert factor.change == pytest.approx(-0.6)
    assert factor.verdict == "better"
    latency = gains["latency of gold, median"]
    assert latency.before == latency.after
    assert latency.verdict == "unclear"
    assert gains["reports over the limit of their class"].before == 20.0
    assert gains["WAN rate"].before == pytest.approx(5e9 * 8 / 300 / 1e6)


def test_more_is_worse() -> None:
    gains = by_name(measure_gain(gold_of(wan=2), SPAN, NEXT))
    assert gains["WAN rate"].verdict == "worse"


def test_without_the_other_day_nothing_is_said() -> None:
    assert measure_gain(gold_of(wan=1, later=False), SPAN, NEXT) == []


def test_no_share_of_nothing() -> None:
    assert Gain("x", 0.0, 1.0, "%").change is None


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
