"""Networks in which links take less than is offered: narrow wires, slow receivers, ttl, priority.

Half of the links have a bandwidth, different in each direction. Some take a part of what one
publisher sends, some all of it, and some twenty times what all publishers send. Objects are large,
queues are small, tracks differ in priority, and some have a ttl. :mod:`laps_relay.sim.checks.drops`
decides what may be missing then.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.sim.clients.ledger import OBJECT
from laps_relay.sim.clients.publications import Style
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.laps2.limits import DATA_HEADER_BYTES

__all__ = ["NARROW", "offered_by", "with_narrow", "with_teeth"]

NARROW: Final = "narrow"
"""The kind of these scenarios."""
FLIGHT: Final = 8.0
"""Seconds of an object through full queues."""
DRAIN: Final = 6.0
"""Seconds that a Via has until it ends with whatever still waits."""
_PARTS: Final = (0.5, 0.9, 1.5, 3.0)
"""What narrow links take, in parts of what one publisher sends."""
_AMPLE: Final = 20.0


def offered_by(style: Style) -> float:
    """Bytes a second that one publisher sends."""
    group = DATA_HEADER_BYTES + style.objects * (OBJECT.size + style.padding)
    return group / style.period


def with_narrow(made: Scenario, draw: random.Random) -> Scenario:
    """The same with narrow links and much to send."""
    style = made.style._replace(padding=draw.choice((1000, 2000, 4000)))
    one = offered_by(style)
    publishers = sum(action.verb.startswith("publish") for action in made.actions)

    def rate() -> float:
        if draw.random() < 0.25:
            return round(_AMPLE * one * publishers)
        return round(draw.choice(_PARTS) * one)

    def narrowed(link: LinkSpec) -> LinkSpec:
        if draw.random() < 0.5:
            return link
        return replace(link, bandwidth=rate(), bandwidth_back=rate())

    ttls = draw.choice(((0, 300), (300, 0), (300, 300)))
    priorities = draw.sample((16, 96, 128, 200), 3)
    return replace(
        _with_drain(made, Rng(made.seed).of("drain")),
        topology=replace(made.topology, links=tuple(map(narrowed, made.topology.links))),
        on_bytes=False,  # how many bytes of news come at once is not the question here
        style=style,
        manners=tuple((each, ttls[at % 2]) for at, each in enumerate(priorities)),
        queue=draw.choice((8, 16, 32)) * 1024,
        offered=one * publishers,
        flight=FLIGHT,
    )


def _with_drain(made: Scenario, draw: random.Random) -> Scenario:
    """A Via leaves in most of these networks; what waits at it takes its time."""
    vias = [relay.name for relay in made.topology.relays if relay.relay_type is RelayType.VIA]
    when = round(draw.uniform(6.0, max(7.0, made.healed)), 3)
    if not vias or draw.random() < 0.3:
        return made
    action = Action(when, "drain", (draw.choice(vias),), 2 * DRAIN)
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, when + action.value),
    )


def with_teeth(made: Scenario, draw: random.Random) -> Scenario:
    """Where receivers are slow among other faults: so much is sent that they notice."""
    if not any(action.verb == "slow" for action in made.actions):
        return made
    return replace(made, style=made.style._replace(padding=draw.choice((1000, 2000))), queue=8192)
