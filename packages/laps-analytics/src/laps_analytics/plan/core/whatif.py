"""What would change: plan the same demand in another network, or another demand in the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from laps_analytics.plan.core.compose import place
from laps_analytics.plan.core.demand import Track, scaled
from laps_analytics.plan.core.evaluate import Figures, figures, trees_of
from laps_analytics.plan.core.network import Network
from laps_analytics.plan.core.rules import Policy

__all__ = ["Outcome", "Scenario", "what_if"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is different."""

    drain: tuple[str, ...] = ()
    """Node ids of relays that carry nothing for others any more."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Region to a factor for what leaves it."""
    demand: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The same figures before and after."""

    before: Figures
    after: Figures
    moved: int
    """Cells that get another Via, or none."""
    uncovered_before: int
    uncovered_after: int


def what_if(
    network: Network, policy: Policy, tracks: Sequence[Track], scenario: Scenario
) -> Outcome:
    """Plan twice and compare."""
    other = network.drained(scenario.drain)
    for region, factor in sorted(scenario.prices.items()):
        other = other.priced(region, factor)
    first, _ = place(network, policy, tracks)
    changed: Iterable[Track] = tracks
    if scenario.demand != 1.0:
        changed = scaled(tracks, scenario.demand)
    second, _ = place(other, policy, changed)
    return Outcome(
        before=figures(network, policy, first.groups, trees_of(first)),
        after=figures(other, policy, second.groups, trees_of(second)),
        moved=sum(1 for a, b in zip(first.via, second.via, strict=True) if a != b),
        uncovered_before=len(first.uncovered),
        uncovered_after=len(second.uncovered),
    )
