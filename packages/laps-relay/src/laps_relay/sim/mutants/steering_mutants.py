"""Deliberate breaks of steering (see ``mutants``)."""

from __future__ import annotations

from typing import Any

from laps_relay.network.steering import steering
from laps_relay.network.steering.steering import Steering
from laps_relay.network.steering.via_choice import prefer
from laps_relay.sim.mutants.stub_mutants import Patching

__all__ = ["drain_ignored", "overload_ignored", "vias_never_left", "vias_not_dialled"]


def drain_ignored(patch: Patching) -> None:
    """Nobody looks again at a track when a way changes that is not the best one."""
    patch.set(Steering, "ways_changed", lambda self, nodes: None)  # noqa: ARG005


def overload_ignored(patch: Patching) -> None:
    """What is overloaded may get more."""
    patch.set(
        steering,
        "prefer",
        lambda situation, current: prefer(situation._replace(burdened=frozenset()), current),
    )


def vias_never_left(patch: Patching) -> None:
    """What was chosen once stays chosen."""

    def faithful(situation: Any, current: Any) -> Any:
        return current or prefer(situation, current)

    patch.set(steering, "prefer", faithful)


def vias_not_dialled(patch: Patching) -> None:
    """Nobody dials the Via that would help."""
    patch.set(Steering, "wishes", lambda self, now: [])  # noqa: ARG005
