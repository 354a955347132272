"""No storms: how often a target may be put into sets within a while.

A target that moves, is lost or is looked for is put into new sets, by the o-relay of each track and
by the relays on the way. A chain of sets has at most as many links as the network, and there is a
new chain where an o-relay tries another peer. So the measure is tracks times links for each target,
and a small multiple of it is the limit, whatever happens to the network.

Relays that answer each other's sets with more sets pass it within milliseconds of virtual time,
long before a run of the simulator would show anything else than that it does not end.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from laps_relay.network.events import SetChanged
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId

__all__ = ["ChurnBound"]

WHILE: Final = 0.5
"""Virtual seconds within which sets are counted."""
FACTOR: Final = 4
"""How often each link may get a set of each track with the same target in that time."""


class ChurnBound:
    """Counts the sets that relays make and enlarge, for each target."""

    __slots__ = ("_began", "_limit", "_made", "_world", "most")

    def __init__(self, world: World) -> None:
        self._world = world
        self._began = 0.0
        self._limit = 0
        self._made: Counter[NodeId] = Counter()
        self.most = 0.0
        """The highest share of the limit that was reached."""
        world.watch(self._event, SetChanged)

    def _event(self, process: RelayProcess, event: SetChanged) -> None:
        if event.incoming:
            return
        now = self._world.clock.now
        if now >= self._began + WHILE:
            self._began = now
            self._limit = self._most()
            self._made.clear()
        for target in event.added:
            self._made[target] += 1
            self.most = max(self.most, self._made[target] / self._limit)
            if self._made[target] > self._limit:
                raise BreakError(
                    "storm",
                    f"{self._made[target]} sets for {target} since {self._began:.3f}, "
                    f"the last one of {process.contact}",
                    now,
                )

    def _most(self) -> int:
        """Tracks times links, and more than one of each."""
        world = self._world
        tracks = sum(len(process.clients.publications) for process in world.running())
        links = len(world.scenario.topology.links) + len(world.scenario.spare_links)
        return FACTOR * max(tracks, 1) * links
