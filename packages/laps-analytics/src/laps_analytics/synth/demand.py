"""Synthetic demand: tracks, and their viewers by hour.

Tracks are *meetings* (few viewers, gold), *channels* (viewers mostly in three regions, silver) and
*events* (viewers everywhere, bronze). Popularity follows Zipf's law. Viewers are distributed by the
weight of relays, and watch in their evening.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from laps_analytics.errors import UsageError
from laps_analytics.synth.backbone import Backbone

__all__ = ["CLASSES", "TrackDemand", "activity", "make_demand"]

CLASSES: Final = ("gold", "silver", "bronze")

_KINDS: Final = (
    # kind, class, share of tracks, bits a second, most Edges of one track, most viewers
    ("meeting", "gold", 0.4, 1.5e6, 12, 60),
    ("channel", "silver", 0.45, 5e6, 40, 1_000_000),
    ("event", "bronze", 0.15, 8e6, 90, 1_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackDemand:
    """A track with its origin and viewers."""

    track: str
    """Hash of its name, 16 hexadecimal digits."""
    kind: str
    """meeting, channel or event."""
    scope: str
    """Class of service."""
    tenant: str
    rate_bps: float
    origin: int
    """Index of the publisher's Edge."""
    viewers: dict[int, int]
    """Index of an Edge to its viewers at the busiest hour; never empty, never the origin."""


def make_demand(
    backbone: Backbone, *, tracks: int = 60, viewers: int = 20_000
) -> list[TrackDemand]:
    """Return the tracks of a backbone, from its seed."""
    if tracks < 1:
        raise UsageError("tracks must be at least 1")
    rng = np.random.default_rng(np.random.SeedSequence([0x1A95, backbone.seed, 1]))
    edges = np.array(backbone.edges)
    weight = np.array([backbone.relays[edge].weight for edge in edges])
    regions = np.array([backbone.relays[edge].region for edge in edges])
    names = sorted(set(regions.tolist()))
    popularity = 1.0 / np.arange(1, tracks + 1) ** 0.9
    popularity /= popularity.sum()
    found = []
    for number in range(tracks):
        pick = rng.choice(len(_KINDS), p=[row[2] for row in _KINDS])
        kind, scope, _, rate, most, heads_most = _KINDS[pick]
        origin = int(rng.choice(edges, p=weight / weight.sum()))
        share = weight.copy()
        if kind == "channel":
            home = {backbone.relays[origin].region}
            home |= set(rng.choice(names, size=min(2, len(names)), replace=False).tolist())
            share = share * np.array([1.0 if region in home else 0.02 for region in regions])
        share[edges == origin] = 0.0
        audience = min(heads_most, max(2, int(viewers * popularity[number])))
        size = int(min(most, len(edges) - 1, max(2, rng.poisson(most * 0.6))))
        # At small odds some places have none at all.
        size = min(size, int(np.count_nonzero(share)))
        chosen = rng.choice(edges, size=size, replace=False, p=share / share.sum())
        chosen.sort()
        part = share[np.searchsorted(edges, chosen)]
        heads = np.maximum(1, np.round(audience * part / part.sum())).astype(int)
        found.append(
            TrackDemand(
                track=f"{rng.integers(1 << 63):016x}",
                kind=kind,
                scope=scope,
                tenant=f"tenant-{rng.integers(1, 5)}",
                rate_bps=rate * float(rng.choice([0.5, 1.0, 1.5])),
                origin=origin,
                viewers=dict(zip(chosen.tolist(), heads.tolist(), strict=True)),
            )
        )
    return found


def activity(longitude: float, hour_utc: float, weekday: int = 2) -> float:
    """Return the share of viewers at an hour: most at 20:00 local time, fewest at 04:00.

    ``weekday`` counts from Monday, 0. Weekends have a fifth more viewers.
    """
    local = (hour_utc + longitude / 15) % 24
    share = 0.55 + 0.45 * math.cos((local - 20) / 24 * 2 * math.pi)
    return min(1.0, share * (1.0 if weekday >= 5 else 1 / 1.2))
