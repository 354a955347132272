"""Configuration of the demo's dataset: backbone, demand and windows, for two cores.

A session is one viewer, and there are hundreds. Capacities are scaled so that the busiest relays
are nearly full. The history has sums of five minutes at three hours of a day, which is enough for a
forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from laps_analytics.synth.backbone import Backbone, Relay, make_backbone
from laps_analytics.synth.dataset import DAY_US, HOUR_US, Dataset, Star, Track, Window
from laps_analytics.synth.demand import TrackDemand, make_demand

__all__ = ["END_US", "FULL", "QUICK", "DatasetConfig", "Size", "make_config"]

END_US: Final = int(datetime(2026, 6, 18, 21, 15, tzinfo=UTC).timestamp()) * 1_000_000
"""End of every dataset: an evening in Europe. No clock is read."""

_MINUTE_US: Final = 60_000_000
_BUSY: Final = 0.66
"""Load of the busiest relay at the end."""
_STEPS_BPS: Final = (5e6, 10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a dataset."""

    edges: int
    vias: int
    tracks: int
    viewers: int
    days: int
    """Days of history with sums only."""
    step_hours: int
    dense_minutes: int
    """Minutes at the end with all events."""
    after_minutes: int
    """Minutes that are measured after a plan."""
    after_tables: tuple[str, ...] | None = None
    """Gold tables that are built for that time; None for all."""


FULL: Final = Size(
    edges=40,
    vias=8,
    tracks=14,
    viewers=700,
    days=10,
    step_hours=8,
    dense_minutes=120,
    after_minutes=40,
)

QUICK: Final = Size(
    edges=9,
    vias=3,
    tracks=5,
    viewers=60,
    days=2,
    step_hours=24,
    dense_minutes=30,
    after_minutes=10,
    # What the gain is measured by, and the bill.
    after_tables=("track_fanout_5m", "qoe_region_1m", "usage_tenant_day"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """Configuration of a dataset."""

    seed: int
    size: Size
    backbone: Backbone
    demand: tuple[TrackDemand, ...]
    dataset: Dataset

    def present(self) -> list[Window]:
        """Return the windows of the history, then those of the last hours."""
        dense_us = self.size.dense_minutes * _MINUTE_US
        begin = END_US - dense_us
        first = begin - self.size.days * DAY_US
        past = [
            Window(at, 5 * _MINUTE_US, dense=False)
            for at in range(first, begin - 5 * _MINUTE_US, self.size.step_hours * HOUR_US)
        ]
        return past + _minutes(begin, self.size.dense_minutes)

    def quiet(self) -> tuple[int, int]:
        """Return the part of the last hours without incidents, which a plan is measured by."""
        begin = END_US - self.size.dense_minutes * _MINUTE_US
        return begin, begin + self.size.after_minutes * _MINUTE_US

    def after(self) -> list[Window]:
        """Return the windows of the same time of the next day."""
        return _minutes(self.quiet()[0] + DAY_US, self.size.after_minutes)


def _minutes(begin: int, count: int) -> list[Window]:
    return [Window(begin + number * _MINUTE_US, _MINUTE_US) for number in range(count)]


def make_config(seed: int, size: Size = FULL) -> DatasetConfig:
    """Return the configuration of a seed and size."""
    backbone = make_backbone(seed, edges=size.edges, vias=size.vias)
    demand = tuple(make_demand(backbone, tracks=size.tracks, viewers=size.viewers))
    nodes = [relay.node for relay in backbone.relays]
    rng = np.random.default_rng([seed, 0x0A])
    tracks = tuple(
        Track(
            track=item.track,
            tenant=item.tenant,
            qos=item.scope,
            origin=nodes[item.origin],
            bitrate_bps=item.rate_bps,
            interest={
                nodes[edge]: (float(count), float(rng.uniform(0.2, 0.9)))
                for edge, count in sorted(item.viewers.items())
            },
        )
        for item in demand
    )
    rtt = {
        (one, other): int(backbone.rtt_ms[a, b] * 1000)
        for a, one in enumerate(nodes)
        for b, other in enumerate(nodes)
    }
    dataset = Dataset(
        relays=backbone.relays,
        tracks=tracks,
        rtt_us=rtt,
        peers=_peers(backbone, tracks),
        growth_start_us=END_US - size.days * DAY_US,
    )
    dataset = replace(dataset, relays=_sized(dataset))
    return DatasetConfig(seed=seed, size=size, backbone=backbone, demand=demand, dataset=dataset)


def _peers(backbone: Backbone, tracks: Sequence[Track]) -> tuple[tuple[str, str], ...]:
    """Return the sessions: Vias with every relay, Edges with the origins of their tracks."""
    nodes = [relay.node for relay in backbone.relays]
    pairs = {(nodes[via], node) for via in backbone.vias for node in nodes if node != nodes[via]}
    pairs |= {(t.origin, relay) for t in tracks for relay in t.interest if relay != t.origin}
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs}))


def _sized(dataset: Dataset) -> tuple[Relay, ...]:
    """Return the relays with common capacities that make the busiest relays nearly full."""
    rates = dict.fromkeys(dataset.by_node, 0.0)
    at = END_US - HOUR_US
    for track in dataset.tracks:
        audience = dataset.audience(track, at)
        tree = Star().tree(track, frozenset(audience) - {track.origin})
        for relay, count in audience.items():
            rates[relay] += count * track.bitrate_bps
        rates[track.origin] += len(tree.parent) * track.bitrate_bps
    busiest = max(rates.values())
    found: list[Relay] = []
    for item in dataset.relays:
        # Vias are there to carry copies of many origins.
        least = busiest * 2 if item.kind == "via" else busiest / 8
        need = max(rates[item.node], least) / _BUSY
        size = next((step for step in _STEPS_BPS if step >= need), _STEPS_BPS[-1])
        # The busiest relay was bought by what it had on the first day.
        capacity = need if rates[item.node] == busiest else size
        found.append(replace(item, capacity_bps=float(round(capacity / 1e6) * 1e6)))
    return tuple(found)
