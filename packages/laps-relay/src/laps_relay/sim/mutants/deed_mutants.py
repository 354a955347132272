"""Deliberate breaks of drains, of filters, of countries, and of twins (see ``mutants``)."""

from __future__ import annotations

from typing import Any

from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.policy.judges import HashedFilter, LinkTable
from laps_relay.sim.mutants.stub_mutants import Patching
from laps_sdk.peering.admission import Admission

__all__ = ["countries_ignored", "drain_ends_early", "filters_skipped", "twin_ignored"]


def drain_ends_early(patch: Patching) -> None:
    """A relay that drains does not wait for what it took."""

    def hasty(self: DrainMonitor, now: float, *, busy: bool, flight: float) -> Standing:  # noqa: ARG001
        return Standing.DONE

    patch.set(DrainMonitor, "look", hasty)


def filters_skipped(patch: Patching) -> None:
    """Filters of announces and subscribes let everything pass."""
    patch.set(HashedFilter, "refusal", lambda self, peer, source, elements=None: None)  # noqa: ARG005


def countries_ignored(patch: Patching) -> None:
    """Nobody looks which countries a link passes."""
    patch.set(LinkTable, "between", lambda self, one, other: ())  # noqa: ARG005


def twin_ignored(patch: Patching) -> None:
    """Connections with the former life of a node stay."""
    judge = Admission.judge

    def lenient(self: Admission, session: int, local: Any, role: Any, question: Any) -> Any:
        return judge(self, session, local, role, question)._replace(superseded=())

    patch.set(Admission, "judge", lenient)
