"""Relays that come back as another one: with another type, or beside their own former life.

**A change of type** is planned: a relay without clients drains, leaves the network, and comes back
as a Via if it was an Edge, or as an Edge if it was a Via; node id and contact stay. Nothing may be
lost, and everybody must know it by its new type in the end.

**A drain that is taken back** is planned, too: a Via begins to leave, and stays. Nothing may be
lost, and in the end it is used as if nothing had been.

**A twin** is a fault: somebody starts a relay a second time, with the same key, at the same
contact, while the first one still runs. What others dialled ends there, because its packets go to
the new process; what the first one dialled lives on. The boot epoch of the new one is higher, so it
is the node from now on, and the first one, which dials again and again, is sent away. The clients
go to the new one. ::

    former life  ==== sessions that it dialled ====> x   superseded by the same node's
        ^                                                higher epoch
        |  contact
    twin         ---- dials the same relays ------->
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.scenarios.action import Deed
from laps_relay.sim.world.process import RelayProcess
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import Role

if TYPE_CHECKING:
    from laps_relay.sim.net.clock import Dice
    from laps_relay.sim.scenarios.scenario import Scenario
    from laps_relay.sim.world.world import World

__all__ = ["Successions", "with_successions"]

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
_OTHER: Final = {RelayType.EDGE: RelayType.VIA, RelayType.VIA: RelayType.EDGE}


def with_successions(made: Scenario, dice: Dice, kind: str) -> Scenario:
    """The same with a change of type, or with a twin, in some seeds."""
    if kind == "faults":
        draw = dice.of("twin")
        when = round(draw.uniform(6.0, max(7.0, made.healed)), 3)
        who = draw.choice(made.topology.relays).name
        if draw.random() < TWINNED:
            return _with(made, Deed(when, "twin", (who,), BESIDE))
        return made
    draw = dice.of("type")
    clients = {
        deed.who[0]
        for deed in made.deeds
        if deed.verb.startswith(("publish", "subscribe")) and deed.who
    }
    # Where control servers are, a Via that becomes an Edge is connected with them; an Edge that
    # becomes a Via would have to leave them.
    servers = any(relay.relay_type is RelayType.CONTROL for relay in made.topology.relays)
    kinds = (RelayType.VIA,) if servers else tuple(_OTHER)
    idle = [
        relay
        for relay in made.topology.relays
        if relay.relay_type in kinds and relay.name not in clients
    ]
    if draw.random() < RETYPED and idle:
        who = draw.choice(idle).name
        made = _with(made, Deed(made.healed + PAUSE, "retype", (who,), LEAVING))
    return _with_doubts(made, dice.of("doubts"))


def _with_doubts(made: Scenario, draw: random.Random) -> Scenario:
    """A Via begins to drain, and an operator takes that back at some moment before its end."""
    vias = [each.name for each in made.topology.relays if each.relay_type is RelayType.VIA]
    if not vias or draw.random() >= WAVERING:
        return made
    # At once, when peers have just heard of it, while they move, when they have moved.
    thinks = draw.choice((0.0, 0.02, 0.1, 0.3, 0.8, 2.0))
    when = made.healed + PAUSE
    return _with(made, Deed(when, "undrain", (draw.choice(vias),), WAVERS, str(thinks)))


def _with(made: Scenario, deed: Deed) -> Scenario:
    return replace(
        made,
        deeds=tuple(sorted((*made.deeds, deed), key=lambda each: each.when)),
        healed=max(made.healed, deed.when + deed.value),
    )


class Successions:
    """What becomes of relays that follow each other; raises ``BreakError``."""

    __slots__ = ("_world", "ghosts")

    def __init__(self, world: World) -> None:
        self._world = world
        self.ghosts: list[RelayProcess] = []
        """Former lives that still run."""

    def change_type(self, process: RelayProcess) -> None:
        """It has drained: the next life is of the other type."""
        process.crash()
        kind = _OTHER[process.spec.relay_type]
        process.spec = replace(process.spec, relay_type=kind)
        self._world.note(process.contact, "is from now on", kind.name)
        process.links += tuple(
            other.contact
            for other in self._world.processes.values()
            if other.spec.relay_type is RelayType.CONTROL
        )
        process.start()

    def twin(
        self, former: RelayProcess, lasts: float, come: Callable[[RelayProcess], None]
    ) -> None:
        """Another process takes the contact over; ``come`` brings the clients there."""
        world = self._world
        world.note(former.contact, "has a twin")
        asked = former.clients.asked()
        former.clients.gone()
        former.clients.forget()
        self.ghosts.append(former)
        for end in list(former.ends.values()):
            if end.role is Role.LISTENER:
                # What others dialled reaches the new process, which knows nothing of it.
                world.network.vanish(end)
                world.clock.after(world.scenario.idle, former.lost, end, 0, "idle timeout")
        twin = RelayProcess(world, former.spec, former.links)
        twin.life, twin.known_keys, twin.asked = former.life, former.known_keys, asked
        world.take_over(twin)
        world.network.add_host(twin)
        come(twin)
        world.clock.after(lasts, self._end, former)

    def _end(self, former: RelayProcess) -> None:
        """Somebody has noticed, and stops it."""
        self.ghosts.remove(former)
        if former.running:
            former.crash()

    # Rules

    def look(self) -> None:
        """Nobody has sessions with two lives of a node; looked at while it runs."""
        for ghost in self.ghosts:
            twin = self._world.processes[ghost.contact]
            for process in self._world.running():
                ours = process.tables.sessions(ghost.spec.node_id)
                lives = {
                    end.other.host: None
                    for session in ours
                    if (end := process.ends.get(session)) is not None and end.open
                }
                if ghost in lives and twin in lives:
                    raise BreakError(
                        "twin",
                        f"{process.contact} has sessions with {ghost.contact} of life {twin.life} "
                        f"and of life {ghost.life}",
                        self._world.clock.now,
                    )

    def at_rest(self) -> None:
        """Everybody knows every relay by the type that it has."""
        real = {process.spec.node_id: process.spec.relay_type for process in self._world.running()}
        for process in self._world.running():
            for node, kind in process.tables.types():
                if real.get(node, kind) is not kind:
                    raise BreakError(
                        "type",
                        f"{process.contact} takes {node} for {kind.name}, it is {real[node].name}",
                        self._world.clock.now,
                    )
