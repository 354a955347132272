"""Relays that come back as another one: with another type, or beside their own former life.

**A change of type** is planned. A relay without clients drains, leaves the network, and comes back
as a Via if it was an Edge, or as an Edge if it was a Via. Node ID and contact stay. Nothing may be
lost, and in the end all relays must know the new type.

**A drain that is taken back** is planned as well: a Via begins to leave, and stays. Nothing may be
lost, and in the end it is used as before.

**A twin** is a fault: a relay is started a second time, with the same key and contact, while the
first process still runs. Connections that others dialled end, because their packets go to the new
process. Connections that the first process dialled live on. The new process has a higher boot
epoch, so it is the node from now on. The first process dials again and again, and is refused. The
clients move to the new process. ::

    former life  ==== sessions that it dialled ====> x   superseded by the same node's
        ^                                                higher epoch
        |  contact
    twin         ---- dials the same relays ------->
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_wire.peering.laps2 import RelayType

__all__ = ["OTHER_TYPE", "with_restarts"]

RETYPED: Final = 0.35
"""Of the seeds with planned changes, in which a relay changes its type."""
TWINNED: Final = 0.3
"""Of the seeds with faults, in which a relay has a twin."""
LEAVING: Final = 4.0
"""Seconds until a relay is back that changes its type; it may drain for half of them."""
PAUSE: Final = 3.0
"""Seconds after the last change: who changes a type waits until the network is whole."""
WAVERING: Final = 0.5
"""Of the seeds with planned changes, in which a relay begins to drain and then stays."""
WAVERS: Final = 4.0
"""Seconds that it would have for that."""
BESIDE: Final = 5.0
"""Seconds for which a former life runs beside its twin."""
OTHER_TYPE: Final = {RelayType.EDGE: RelayType.VIA, RelayType.VIA: RelayType.EDGE}


def with_restarts(made: Scenario, rng: Rng, kind: str) -> Scenario:
    """The same with a change of type, or with a twin, in some seeds."""
    if kind == "faults":
        draw = rng.of("twin")
        when = round(draw.uniform(6.0, max(7.0, made.healed)), 3)
        who = draw.choice(made.topology.relays).name
        if draw.random() < TWINNED:
            return _with(made, Action(when, "twin", (who,), BESIDE))
        return made
    draw = rng.of("type")
    clients = {
        action.who[0]
        for action in made.actions
        if action.verb.startswith(("publish", "subscribe")) and action.who
    }
    # Where control servers are, a Via that becomes an Edge is connected with them; an Edge that
    # becomes a Via would have to leave them.
    servers = any(relay.relay_type is RelayType.CONTROL for relay in made.topology.relays)
    kinds = (RelayType.VIA,) if servers else tuple(OTHER_TYPE)
    idle = [
        relay
        for relay in made.topology.relays
        if relay.relay_type in kinds and relay.name not in clients
    ]
    if draw.random() < RETYPED and idle:
        who = draw.choice(idle).name
        made = _with(made, Action(made.healed + PAUSE, "retype", (who,), LEAVING))
    return _with_doubts(made, rng.of("doubts"))


def _with_doubts(made: Scenario, draw: random.Random) -> Scenario:
    """A Via begins to drain, and an operator takes that back at some moment before its end."""
    vias = [each.name for each in made.topology.relays if each.relay_type is RelayType.VIA]
    if not vias or draw.random() >= WAVERING:
        return made
    # At once; when peers have just received the drain; while they move data; afterwards.
    thinks = draw.choice((0.0, 0.02, 0.1, 0.3, 0.8, 2.0))
    when = made.healed + PAUSE
    return _with(made, Action(when, "undrain", (draw.choice(vias),), WAVERS, str(thinks)))


def _with(made: Scenario, action: Action) -> Scenario:
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, action.when + action.value),
    )
