"""Plans: which Via somebody who sees the whole network would take.

A plan is a preference, never a permission. Steering follows it where the Via is there, forwards,
and policy allows the way *now*; everywhere else it chooses by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from laps_wire.nodeid import NodeId

__all__ = ["NO_PLAN", "Plan", "TablePlan"]


class Plan(Protocol):
    """What steering asks of a plan."""

    def via(self, key: int, scope: str, region: str) -> NodeId | None:
        """The Via for a track's copies towards a region; None: the plan has no opinion.

        The same question has the same answer for as long as the plan is loaded.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """A plan that is a table. What is said of a track counts more than what is said of a class."""

    tracks: Mapping[tuple[int, str], NodeId] = field(default_factory=dict)
    """By key and region."""
    classes: Mapping[tuple[str, str], NodeId] = field(default_factory=dict)
    """By class of service ("" for tracks without one) and region."""

    def via(self, key: int, scope: str, region: str) -> NodeId | None:
        """Look it up."""
        found = self.tracks.get((key, region))
        return self.classes.get((scope, region)) if found is None else found


NO_PLAN: Final = TablePlan()
"""Nobody planned anything."""
