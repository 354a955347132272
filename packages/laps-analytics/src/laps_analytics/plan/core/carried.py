"""What relays and links carry under a finished plan, added up copy by copy, for the verifier.

This shares nothing with the code that makes plans.
"""

from __future__ import annotations

from collections.abc import Iterable

from laps_analytics.plan.core.network import Network

__all__ = ["Carried", "Spot"]

Spot = tuple[str, ...]
"""A relay by its id, or a link by those of its ends."""

_TOLERANCE = 1e-6


class Carried:
    """Loads by spot; and what would come on top if one Via failed."""

    def __init__(self, network: Network, share: float) -> None:
        self._network = network
        self._share = share
        self.loads: dict[Spot, float] = {}
        self.if_fails: dict[tuple[str, Spot], float] = {}
        """By Via that fails and spot: what second ways bring there."""
        self._at_most: dict[Spot, dict[str, float]] = {}
        """The same with every first leg counted, also one that is there already."""

    def send(self, a: str, b: str, rate: float) -> None:
        """One relay sends a copy to another."""
        for spot in ((a,), (a, b)):
            self.loads[spot] = self.loads.get(spot, 0.0) + rate

    def take_over(self, failed: str, spots: Iterable[tuple[Spot, float]], *, counted: bool) -> None:
        """What a second way gets if a Via fails; not ``counted``: it has that already."""
        for spot, rate in spots:
            kept = self._at_most.setdefault(spot, {})
            kept[failed] = kept.get(failed, 0.0) + rate
            if counted:
                self.if_fails[failed, spot] = self.if_fails.get((failed, spot), 0.0) + rate

    def total(self, spot: Spot) -> float:
        """With what no plan moves."""
        network = self._network
        rows = [network.index[name] for name in spot]
        fixed = network.nodes[rows[0]].load_bps if len(rows) == 1 else network.load_bps[tuple(rows)]
        return self.loads.get(spot, 0.0) + float(fixed)

    def capacity(self, spot: Spot) -> float:
        """The whole of it."""
        network = self._network
        rows = [network.index[name] for name in spot]
        if len(rows) == 1:
            return network.nodes[rows[0]].capacity_bps
        return float(network.capacity_bps[tuple(rows)])

    def known(self, spot: Spot) -> bool:
        """Whether all of its relays are there."""
        return all(name in self._network.index for name in spot)

    def is_over(self, spot: Spot) -> bool:
        """Whether it carries more than is planned for."""
        most = self.capacity(spot) * self._share * (1 + _TOLERANCE)
        return self.known(spot) and self.total(spot) > most

    def over(self) -> list[Spot]:
        """All that carry more."""
        return [spot for spot in self.loads if self.known(spot) and self.is_over(spot)]

    def over_if_fails(self) -> list[tuple[str, Spot]]:
        """Vias, and what could not carry the second ways if they failed."""
        return [
            (failed, spot)
            for (failed, spot), rate in self.if_fails.items()
            if self.known(spot) and self.total(spot) + rate > self.capacity(spot) * (1 + _TOLERANCE)
        ]

    # What would fit beyond doubt

    def has_room(self, spots: Iterable[tuple[Spot, float]]) -> bool:
        """Whether more fits, and what is kept for second ways as well."""
        return all(
            self.total(spot) + rate <= self.capacity(spot) * self._share * (1 - _TOLERANCE)
            and self.total(spot) + rate + max(self._at_most.get(spot, {}).values(), default=0.0)
            <= self.capacity(spot) * (1 - _TOLERANCE)
            for spot, rate in spots
        )

    def has_reserve(self, failed: str, spots: Iterable[tuple[Spot, float]]) -> bool:
        """Whether more fits on a second way if a Via fails."""
        return all(
            self.total(spot) + rate + self._at_most.get(spot, {}).get(failed, 0.0)
            <= self.capacity(spot) * (1 - _TOLERANCE)
            for spot, rate in spots
        )
