"""What must hold where Vias are injected, judged by the map and by what o-relays send.

===========================  ===================================================================
after the last action        no more copies than allowed go to another region, if a Via could
                             avoid them
                             where hub-and-spoke is enough, nothing goes through a Via
while a Via drains           no track is sent through it, from a moment later on
while it is overloaded       the same, once another choice has been better for long enough
while a link is bad          the link loses too much, or data waits for it: nothing uses it for
                             long, if a neighbour has another path
===========================  ===================================================================
"""

from __future__ import annotations

import math
from typing import Final

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.scenarios.features import settling
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.oracle import Oracle, sent_to
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["SteeringChecks"]

NOTICED: Final = 1.0
"""Seconds after which all relays have acted on the drain of a relay."""


class SteeringChecks:
    """Checks a world in which Vias are injected; raises ``BreakError``."""

    __slots__ = ("_actions", "_bad", "_burdened", "_world", "mended", "needed", "spared")

    def __init__(self, world: World, actions: Actions) -> None:
        self._world = world
        self._actions = actions
        self.needed = not world.scenario.exact
        self._burdened: dict[str, float] = {}
        """Relays that drain or are overloaded, and since when."""
        self._bad: dict[str, float] = {}
        """Relays with a bad link, and when it was last so."""
        self.spared = 0
        """How often a Via in use was seen to spare copies."""
        self.mended = 0
        """How often a path around a bad link was in use."""

    def _fail(self, text: str) -> BreakError:
        return BreakError("steering", text, self._world.clock.now)

    def look(self) -> None:
        """Judge what every o-relay sends now."""
        if not self.needed or self._world.ending:
            return
        world = self._world
        now = world.clock.now
        self._burdened = {
            process.contact: self._burdened.get(process.contact, now)
            for process in world.running()
            if process.avoided
        }
        oracle: Oracle | None = None
        if now - self._actions.last > settling(world.scenario.settings):
            policy = world.policy
            oracle = Oracle(world.graph(), lambda node: policy.transit("", node))
        for track, places in self._actions.publications.items():
            for contact, publication in places:
                origin = world.processes[contact]
                if origin.running and publication in origin.clients.publications:
                    hops = sent_to(world, origin, track)
                    self._left(origin, track, hops)
                    if oracle is not None:
                        self._copies(oracle, origin, track, hops)

    def _left(self, origin: RelayProcess, track: str, hops: dict[NodeId, NodeId]) -> None:
        """A Via that drains is left at once, an overloaded one when that has been better."""
        world = self._world
        now = world.clock.now
        nodes = world.by_node()
        for hop in hops.values():
            via = nodes[hop]
            since = self._burdened.get(via.contact)
            if since is None:
                continue
            grace = NOTICED if via.draining else NOTICED + 2 * world.scenario.settings.via_hold
            if now - since > grace:
                what = "drains" if via.draining else "is overloaded"
                raise self._fail(
                    f"{origin.contact} sends {track} through {via.contact}, which {what} since "
                    f"{since:.1f}"
                )

    def _copies(
        self, oracle: Oracle, origin: RelayProcess, track: str, hops: dict[NodeId, NodeId]
    ) -> None:
        """Check that there are no more copies than allowed, and no Via without need."""
        world = self._world
        most = world.scenario.settings.max_fanout
        regions: dict[str, list[NodeId]] = {}
        for contact, wanted in self._actions.interests:
            spec = world.processes[contact].spec
            if wanted == track and spec.region != origin.spec.region and spec.node_id in hops:
                regions.setdefault(spec.region, []).append(spec.node_id)
        for region, members in regions.items():
            plain = {
                node: oracle.next_hop(
                    origin.spec.node_id, node, lambda way: world.policy.permits(track, way)
                )
                for node in members
            }
            copies = {hops[node] for node in members}
            if self._worse(origin, track, members, hops):
                continue  # first of all ways must be good
            if len(set(plain.values())) <= most:
                for node in members:
                    if hops[node] != plain[node]:
                        raise self._fail(
                            f"{origin.contact} sends {track} for {node} through {hops[node]}, and "
                            f"{len(set(plain.values()))} copies towards {region} are few enough"
                        )
            elif len(copies) <= most:
                self.spared += 1
            elif (via := self._would_help(origin, track, plain, most)) is not None:
                raise self._fail(
                    f"{origin.contact} sends {len(copies)} copies of {track} towards {region}, and "
                    f"{via.contact} would spare some"
                )

    def _worse(
        self, origin: RelayProcess, track: str, members: list[NodeId], hops: dict[NodeId, NodeId]
    ) -> bool:
        """Return whether a link is bad, or was until a moment ago; another one has to be used soon.

        Neighbours advertise their best path only, which may lead back over the same link.
        """
        world = self._world
        nodes = world.by_node()
        own = origin.spec.node_id
        since = {
            peer: self._actions.gauge.bad(origin.contact, nodes[peer].contact)
            for peer in origin.tables.peers()
        }
        long = settling(world.scenario.settings)
        if all(when is None for when in since.values()):
            # A link without traffic has no queue, so it looks good and is tried again.
            return world.clock.now - self._bad.get(origin.contact, -math.inf) < long
        self._bad[origin.contact] = world.clock.now
        for target in members:
            used = since.get(hops[target])
            others = [
                peer
                for peer, when in since.items()
                if when is None
                and not nodes[peer].avoided
                and world.policy.transit(track, peer)
                and (peer == target or nodes[peer].tables.next_hop(target) not in (own, None))
            ]
            self.mended += used is None
            if used is not None and others and world.clock.now - used > long:
                raise self._fail(
                    f"{origin.contact} sends {track} for {target} to {hops[target]} over a link "
                    f"that is bad since {used:.1f}, and {others[0]} is there"
                )
        return True

    def _would_help(
        self, origin: RelayProcess, track: str, plain: dict[NodeId, NodeId | None], most: int
    ) -> RelayProcess | None:
        """A Via that could be had, with links of its own to enough of the targets."""
        world = self._world
        near: dict[str, set[NodeId]] = {}
        for one, other, _ in world.configured():
            near.setdefault(one.contact, set()).add(other.spec.node_id)
            near.setdefault(other.contact, set()).add(one.spec.node_id)
        for via in world.running():
            if (
                via.spec.relay_type is not RelayType.VIA
                or via.contact in self._burdened
                or not world.policy.transit(track, via.spec.node_id)
                or self._is_spoilt(origin, via)
            ):
                continue
            reached = near.get(via.contact, set())
            others = {hop for node, hop in plain.items() if node not in reached}
            if len(others | {via.spec.node_id}) <= most:
                return via
        return None

    def _is_spoilt(self, origin: RelayProcess, via: RelayProcess) -> bool:
        """Whether the wire to a Via is worse than may be; it may have been left for that."""
        wire = self._world.network.wire(origin.contact, via.contact)
        most = self._world.scenario.max_loss
        if wire is None:
            return False
        return origin.contact in wire.slow or (most is not None and wire.loss > most)
