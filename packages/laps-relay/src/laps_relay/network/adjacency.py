"""Adjacency: what connects this relay to its neighbours, and what it advertises because of that.

::

    Links --adjoin--> Nib (neighbour, round trip), Steering (loss, congestion)
              |
              '--after a while--> OwnNode: reachable nodes, estimated location --> Nib
"""

from __future__ import annotations

from typing import Final

from laps_relay.network.nodes.light_time import declared
from laps_relay.network.nodes.location import estimate, nearest
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.steering import LinkState, Steering
from laps_relay.network.timers import Due, RelayTimers
from laps_sdk.peering.links import Links
from laps_wire.nodeid import NodeId

__all__ = ["Adjacency"]

PLACE_WAIT: Final = 1.0
"""How long round trips are measured before a location is estimated from them, in seconds."""
PLACE_TIME: Final = 60.0
"""The least time between two estimates of the location, in seconds."""


class Adjacency:
    """Keeps the NIB, steering and our own node information up to date with the sessions."""

    __slots__ = (
        "_links",
        "_nib",
        "_own",
        "_placed",
        "_prober",
        "_settings",
        "_steering",
        "_timers",
    )

    def __init__(
        self,
        own: OwnNode,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        prober: Prober,
        steering: Steering,
        timers: RelayTimers,
    ) -> None:
        self._own = own
        self._settings = settings
        self._links = links
        self._nib = nib
        self._prober = prober
        self._steering = steering
        self._timers = timers
        self._placed = float("-inf")
        """When the location was last estimated."""

    def adjoin(self, now: float, node: NodeId) -> None:
        """Update the NIB and steering with what connects this relay to a node now."""
        links = self._links.of(node)
        srtt_us = self._links.srtt_us(node)
        neighbour = next((link.info for link in links if link.sends and link.info), None)
        if self._links.control(node) is not None:
            self._nib.remove_neighbour(now, node)
            self._nib.set_peer(now, node, srtt_us=srtt_us, forwards=self._links.forwards(node))
        elif neighbour is not None:
            self._nib.add_neighbour(now, node, neighbour, srtt_us=srtt_us)
        else:
            self._nib.remove_neighbour(now, node)
        state = None
        # The measurements of a control session do not apply to sessions that carry data.
        carriers = [link for link in links if link.sends] or links
        if carriers:
            state = LinkState(
                loss=min(link.loss for link in carriers),
                srtt_us=srtt_us,
                congested=all(link.congested for link in carriers),
            )
        self._steering.links(node, state)
        # Sessions that come together are advertised together: each time costs a flood.
        if self._timers.when((Due.REACH, 0)) is None:
            self._timers.set((Due.REACH, 0), now + self._settings.batch)
        if not self._is_placed and self._timers.when((Due.PLACE, 0)) is None:
            self._timers.set((Due.PLACE, 0), max(now + PLACE_WAIT, self._placed + PLACE_TIME))

    @property
    def _is_placed(self) -> bool:
        """Whether no estimate is needed: the location is configured, or is not used."""
        return not self._settings.light_time or declared(self._own.info.node) is not None

    def place(self, now: float) -> None:
        """Estimate our location from round trips to nodes that declare theirs."""
        self._placed = now
        found = estimate(nearest(self._prober.round_trips(), self._nib.info))
        if found is not None and self._own.set_estimate(found.location):
            self._nib.set_self(now, self._own.info)

    def reach(self, now: float) -> None:
        """Advertise the nodes that this relay reaches directly, if they have changed."""
        if self._own.set_reachable(self._prober.reachable()):
            self._nib.set_self(now, self._own.info)
