"""Worlds with and without a liar, from raw lines to plans, and what those plans are worth.

All worlds of a test are in one lake: their relays have different names and never meet, and Spark
costs as much for one as for many. What is planned from is taken apart again by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from laps_analytics.gold.build import build
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake
from laps_analytics.plan.assemble import Assembled
from laps_analytics.plan.constraints import Settings
from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.evaluate import figures
from laps_analytics.plan.core.inputs import Network, Track, aggregate, cells
from laps_analytics.plan.observation import Gate, Observation, gate_of, observe
from laps_analytics.synth.conditions import Conditions, Incidents
from laps_analytics.synth.dataset import END_US, DatasetConfig, Size, Star, make_config
from laps_analytics.synth.planning import DEMO_POLICY, settings_of
from laps_analytics.synth.simulation import Simulation
from laps_wire.plan import Plan
from testkit.lying_relay import Telemetry, poisoned

__all__ = [
    "Case",
    "Datasets",
    "false_relay_of",
    "make_datasets",
    "only",
    "plan_of",
    "settings_for",
    "trusting",
    "worth",
]

_SIZE: Final = Size(
    edges=44,
    vias=6,
    tracks=6,
    viewers=250,
    days=3,
    step_hours=72,
    dense_minutes=20,
    after_minutes=10,
)
"""One relay of fifty; most write about a hundredth of the lines, or some hundredths."""
TABLES: Final = ("topology_snapshot", "link_quality_5m", "quality_1h")
"""What plans read of gold."""


@dataclass(frozen=True, slots=True)
class Case:
    """A seed, who lies (edge, origin or via), and how; nobody without ways of lying."""

    seed: int
    role: str = ""
    lies: tuple[str, ...] = ()


@dataclass(slots=True)
class Datasets:
    """What relays wrote, in one lake."""

    lake: Lake
    cases: list[Case]
    settings: dict[int, DatasetConfig]
    liars: dict[Case, str]
    share: dict[Case, float]
    """Lines that are lies, of those that plans read."""
    all: Observation | None = None
    """What the planner sees of all of them together."""

    def number(self, case: Case) -> int:
        """The first part of the names of a world's relays."""
        return self.cases.index(case) + 1

    def observed(self, case: Case) -> Observation:
        """What the planner sees of a world, with the names that its relays have there."""
        return only(self._seen(), f"{self.number(case)}.")

    def gate(self, case: Case) -> Gate:
        """The quality gate of a world."""
        prefix = f"{self.number(case)}."
        whole = gate_of(self.lake, at_us=self._seen().at_us)
        own = [
            (text, (check, ">".join("0." + end.removeprefix(prefix) for end in subject.split(">"))))
            for text, (check, subject) in zip(whole.red, whole.about, strict=True)
            if subject.startswith(prefix)
        ]
        return Gate(whole.hours, [text for text, _ in own], [about for _, about in own])

    def _seen(self) -> Observation:
        if self.all is None:
            self.all = observe(self.lake)
        return self.all

    def facts(self, case: Case) -> Dimensions:
        """What the operator says of it."""
        config = self.settings[case.seed]
        return Dimensions(
            tracks={item.track: TrackFacts(item.scope) for item in config.demand},
            relays={relay.node: relay.capacity_bps for relay in config.dataset.relays},
        )


def make_datasets(spark: SparkSession, folder: Path, cases: Sequence[Case]) -> Datasets:
    """Raw lines of all worlds, through ingest, silver and gold."""
    made = Datasets(Lake.open(folder / "lake", create=True), list(cases), {}, {}, {})
    honest: dict[int, Telemetry] = {}
    for case in cases:
        if case.seed not in honest:
            config = make_config(case.seed, _SIZE)
            made.settings[case.seed] = config
            place = folder / f"world-{case.seed}"
            Simulation(config.dataset, Star(), Incidents(()), place, seed=case.seed).run(
                config.present()
            )
            honest[case.seed] = Telemetry.read(place)
        found = honest[case.seed]
        if case.lies:
            made.liars[case] = false_relay_of(made.settings[case.seed], case.role)
            found = poisoned(found, made.liars[case], case.lies)
        made.share[case] = found.lies / found.read_lines()
        found.write(folder / "telemetry", made.number(case))
    now = END_US + 60_000_000
    ingest(lambda: spark, made.lake, [folder / "telemetry"], now_us=now)
    build(spark, made.lake, tables=TABLES, now_us=now)
    return made


def false_relay_of(config: DatasetConfig, role: str) -> str:
    """A Via in the middle, the origin of what most watch, or the Edge that watches most."""
    dataset = config.dataset
    if role == "via":
        vias = [config.backbone.relays[via].node for via in config.backbone.vias]
        return min(
            vias, key=lambda via: sum(dataset.rtt_us[via, other] for other in dataset.by_node)
        )
    if role == "origin":
        return max(dataset.tracks, key=lambda track: len(track.interest)).origin
    origins = {track.origin for track in dataset.tracks}
    return max(
        (relay.node for relay in dataset.relays if relay.node not in origins),
        key=lambda node: sum(node in track.interest for track in dataset.tracks),
    )


def only(seen: Observation, prefix: str) -> Observation:
    """One world of those that are in a lake, with its own names."""

    def own(name: str) -> str:
        return "0." + name.removeprefix(prefix)

    def name_of(peer: str | None) -> str | None:
        return None if peer is None else own(peer)

    def pairs(
        measured: Mapping[tuple[str, str], Mapping[int, float]],
    ) -> dict[tuple[str, str], Mapping[int, float]]:
        return {
            (own(a), own(b)): values
            for (a, b), values in measured.items()
            if a.startswith(prefix) and b.startswith(prefix)
        }

    return Observation(
        at_us=seen.at_us,
        nodes=[
            replace(row, node=own(row.node)) for row in seen.nodes if row.node.startswith(prefix)
        ],
        rtt_ms=pairs(seen.rtt_ms),
        loss=pairs(seen.loss),
        hops=[
            replace(
                row,
                relay=own(row.relay),
                in_peer=name_of(row.in_peer),
                out_peer=name_of(row.out_peer),
            )
            for row in seen.hops
            if row.relay.startswith(prefix)
        ],
    )


def trusting(seen: Observation) -> Observation:
    """The same for a planner that knows no liars: plain means instead of what most agree on.

    A link is as long as all that was said of it is in the mean, whoever said it, and so is a track
    as large.
    """

    def means(
        measured: Mapping[tuple[str, str], Mapping[int, float]],
    ) -> dict[tuple[str, str], dict[int, float]]:
        found = {}
        for a, b in measured:
            both = [*measured[a, b].values(), *measured.get((b, a), {}).values()]
            mean = float(np.nanmean(both))
            found[a, b] = dict.fromkeys(measured[a, b], mean)
        return found

    came: dict[str, list[float]] = {}
    for row in seen.hops:
        came.setdefault(row.track, []).append(row.in_bps)
    return replace(
        seen,
        rtt_ms=means(seen.rtt_ms),
        loss=means(seen.loss),
        hops=[
            replace(row, in_bps=float(np.mean(came[row.track])) if row.in_bps else 0.0)
            for row in seen.hops
        ],
    )


def plan_of(found: Assembled) -> Plan:
    """The plan that is made from what was believed."""
    made = compose_plan(
        found.network,
        DEMO_POLICY,
        found.tracks,
        name="w",
        version=1,
        now_us=END_US,
        lifetime_us=900_000_000,
    )
    return made.plan


def worth(config: DatasetConfig, plan: Plan | None, base: Network) -> float:
    """What a plan costs in the world as it is, whatever anybody wrote: its objective there.

    ``base`` has what the operator says, such as prices.
    """
    dataset = config.dataset
    at = {relay.node: number for number, relay in enumerate(dataset.relays)}
    window = config.present()[-1]
    conditions = Conditions(dataset, Incidents(()), config.seed).at(window)
    names = list(at)
    truth = replace(
        base,
        rtt_ms=np.array([[dataset.rtt_us[a, b] / 1000 for b in names] for a in names]),
        loss=np.array([[conditions.loss(a, b) for b in names] for a in names]),
    )
    tracks = [
        Track(
            key=int(track.track, 16),
            origin=at[track.origin],
            scope=track.qos,
            rate_bps=track.bitrate_bps,
            viewers={
                at[relay]: count
                for relay, count in dataset.audience(track, window.start_us).items()
                if relay != track.origin
            },
        )
        for track in dataset.tracks
    ]
    chosen: dict[tuple[int, str, int], int] = {}
    for entry in () if plan is None else plan.entries:
        for key in entry.tracks or ():
            chosen[at[str(entry.origin)], entry.region, key] = at[str(entry.via)]
    # A group is decided as a whole in a plan; the truth is looked at track by track.
    groups = aggregate(tracks, lambda track: (track.key,))
    trees: list[dict[int, tuple[int, ...]]] = [
        {target: (group.origin, target) for target in group.targets} for group in groups
    ]
    for cell in cells(truth, groups):
        group = groups[cell.group]
        via = chosen.get((group.origin, cell.region, group.keys[0]))
        for member in cell.members:
            target = group.targets[member]
            if via is not None and via not in {target, group.origin}:
                trees[cell.group][target] = (group.origin, via, target)
    return figures(truth, DEMO_POLICY, groups, trees).objective


def settings_for(config: DatasetConfig) -> Settings:
    """What the operator says: with prices that differ, so that it matters which Via is taken."""
    world = config.backbone
    said = settings_of(world)
    at = {relay.node: number for number, relay in enumerate(world.relays)}
    return replace(
        said,
        links={
            (a, b): replace(facts, price=float(world.price[at[a], at[b]]))
            for (a, b), facts in said.links.items()
        },
    )
