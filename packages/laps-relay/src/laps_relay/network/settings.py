"""Settings of the network: times, limits and the choice of Vias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from laps_sdk.peering.settings import PeeringSettings
from laps_wire.nodeid import NodeId

__all__ = ["NO_PLAN", "NetworkSettings", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings(PeeringSettings):
    """The settings of peering, and those of the network; times are in seconds."""

    reflect: bool = True
    """Via: keep announces and subscribes and give them to new peers. False: pass them on and
    remember them for ``convergence`` only."""

    # Time

    convergence: float = 30.0
    """How long a withdrawal is remembered, and an entry waits for its node."""
    unsubscribe_delay: float = 5.0
    """How long the last unsubscribe of a track waits."""
    want_linger: float = 60.0
    """How long a subscribe that no relay could serve stays advertised."""
    origin_grace: float = 5.0
    """How long an o-relay may be out of reach before its tracks have ended here."""
    metric_interval: float = 1.0
    """sRTT and load are advertised again at most so often ..."""
    metric_ratio: float = 0.10
    """... and only if they changed by this share ..."""
    metric_floor_us: int = 2_000
    """... and by this many microseconds."""
    light_time: bool = True
    """Disbelieve round trips that are shorter than light needs between the declared locations.
    False: for networks on one machine whose relays pretend to be far apart."""
    probe_interval: float = 10.0
    set_linger: float = 1.0
    """How long a set outlives its last stream: datagrams may be under way."""
    continue_after: float = 0.5
    """How long a stream may take to end by itself before the rest of it goes on anew."""

    # Choosing a Via

    max_fanout: int = 2
    """Copies of a track that may leave towards one region before a Via is injected."""
    dynamic_peering: bool = True
    """Whether relays are dialled on demand."""
    dynamic_idle: float = 30.0
    """How long a connection that was dialled on demand stays without use."""
    via_hold: float = 10.0
    """How long a Via must be beneficial, or not, before it is injected or removed (hysteresis)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The Vias that a planner with a view of the whole network prefers."""

    tracks: Mapping[tuple[int, str], NodeId] = field(default_factory=dict)
    """By key and region."""
    classes: Mapping[tuple[str, str], NodeId] = field(default_factory=dict)
    """By class of service ("" for tracks without one) and region."""

    def via(self, key: int, scope: str, region: str) -> NodeId | None:
        """Return the Via for a track's copies towards a region; None if the plan names none.

        An entry for the track counts more than one for its class.
        """
        found = self.tracks.get((key, region))
        return self.classes.get((scope, region)) if found is None else found


NO_PLAN: Final = Plan()
"""The plan of a relay without a plan."""
