"""Deliberate breaks of what narrow links need: ttl and priority (see ``mutants``)."""

from __future__ import annotations

from typing import Any

from laps_relay.peer_forwarding import flow
from laps_relay.peer_forwarding.flow import Fan, Flow
from laps_relay.sim.mutants.stub_mutants import Patching
from laps_sdk.forwarding.priority import PRIORITIES

__all__ = ["priority_ignored", "ttl_ignored"]


def ttl_ignored(patch: Patching) -> None:
    """Nothing has a deadline, and nobody looks how long something waits."""
    start = Fan.open

    def patient(self: Fan, now: float, priority: int, deadline: Any, *, expires: bool) -> None:  # noqa: ARG001
        start(self, now, priority, None, expires=expires)

    patch.set(Fan, "open", patient)
    patch.set(Flow, "renew", lambda self, now: None)  # noqa: ARG005


def priority_ignored(patch: Patching) -> None:
    """All streams are as urgent as each other."""
    patch.set(flow, "PRIORITIES", (PRIORITIES[128],) * 256)
