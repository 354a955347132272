"""Deliberate breaks of what streams need that do not end (see ``mutants``)."""

from __future__ import annotations

from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.sim.mutants.stub_mutants import Patching

__all__ = ["continuations_off"]


def continuations_off(patch: Patching) -> None:
    """Streams go on to where they went when they began, for ever."""
    patch.set(PeerPlane, "outdate", lambda self, now, ingress, *, in_place=False: None)  # noqa: ARG005
