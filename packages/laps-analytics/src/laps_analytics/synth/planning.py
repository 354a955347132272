"""The synthetic network as input of the planner, without errors of measurement."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from laps_analytics.plan.constraints import LinkFacts, NodeFacts, Settings
from laps_analytics.plan.core.inputs import Network, Node, Track
from laps_analytics.plan.core.placement import Policy, Weights
from laps_analytics.synth.backbone import REGIONS, Backbone
from laps_analytics.synth.dataset import TrackDemand
from laps_wire.plan import ClassRule, HardConstraints

__all__ = [
    "DEMO_POLICY",
    "SYNTH_POLICY",
    "SYNTH_SHARE",
    "network_of",
    "settings_of",
    "tracks_of",
]

_DENSE: Final = tuple(
    sorted(region for region in REGIONS if not region.startswith(("africa", "me", "oceania")))
)
"""Regions in which silver may have Vias."""

SYNTH_POLICY: Final = Policy(
    hard=HardConstraints(
        max_fanout=2,
        headroom_permille=800,
        classes={
            "gold": ClassRule(
                slack_permille=1200,
                extra_us=25_000,
                limit_us=150_000,
                limit_loss_ppm=5_000,
                deny_countries=("AT", "CA"),
                disjoint=True,
            ),
            "silver": ClassRule(
                slack_permille=1400,
                extra_us=40_000,
                limit_us=250_000,
                limit_loss_ppm=12_000,
                deny_countries=("CA",),
                via_regions=_DENSE,
            ),
            "bronze": ClassRule(
                slack_permille=1600, extra_us=60_000, limit_us=320_000, limit_loss_ppm=12_000
            ),
        },
    ),
    weights=Weights(),
)
"""Policy of the synthetic network.

The limits of a poor call (round trip above 320 ms, loss above 1.2 %) are those of VIA (SIGCOMM
2016). Tests check that every constraint is effective for some seed.
"""

DEMO_POLICY: Final = replace(
    SYNTH_POLICY,
    hard=replace(
        SYNTH_POLICY.hard,
        classes={
            **SYNTH_POLICY.hard.classes,
            "gold": ClassRule(
                slack_permille=1500,
                extra_us=60_000,
                limit_us=150_000,
                limit_loss_ppm=12_000,
                deny_countries=("CA",),
                disjoint=True,
            ),
        },
    ),
)
"""Policy of the demo, whose eight Vias allow few fallbacks nearby."""

SYNTH_SHARE: Final = 0.01
"""Share of capacities for the tracks of the dataset; other traffic uses the rest."""


def network_of(backbone: Backbone, *, share: float = 1.0) -> Network:
    """Return relays and links, with a share of their capacity. All relays can peer."""
    count = len(backbone.relays)
    return Network(
        nodes=tuple(
            Node(
                id=relay.node,
                kind=relay.kind,
                region=relay.region,
                country=relay.country,
                longitude=relay.longitude,
                latitude=relay.latitude,
                capacity_bps=relay.capacity_bps * share,
            )
            for relay in backbone.relays
        ),
        rtt_ms=backbone.rtt_ms,
        loss=backbone.loss,
        price=backbone.price,
        capacity_bps=backbone.capacity_bps * share,
        load_bps=np.zeros((count, count)),
        countries={
            (a, b): backbone.path_countries(a, b)
            for a, b in itertools.combinations(range(count), 2)
        },
    )


def settings_of(backbone: Backbone) -> Settings:
    """Return the operator's settings: policy, and countries of relays and links."""
    names = [relay.node for relay in backbone.relays]
    return Settings(
        policy=DEMO_POLICY,
        nodes={relay.node: NodeFacts(country=relay.country) for relay in backbone.relays},
        links={
            (names[a], names[b]): LinkFacts(countries=backbone.path_countries(a, b))
            for a, b in itertools.combinations(range(len(names)), 2)
        },
    )


def tracks_of(demand: Iterable[TrackDemand]) -> list[Track]:
    """Return the tracks with their viewers at the busiest hour."""
    return [
        Track(
            key=int(track.track, 16),
            origin=track.origin,
            scope=track.scope,
            rate_bps=track.rate_bps,
            viewers=track.viewers,
        )
        for track in demand
    ]
