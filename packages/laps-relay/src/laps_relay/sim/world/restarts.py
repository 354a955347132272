"""Relays that follow each other in a run: changes of type, and twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.scenarios.restarts import OTHER_TYPE
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import Role

__all__ = ["Restarts"]


class Restarts:
    """What becomes of relays that follow each other; raises ``BreakError``."""

    __slots__ = ("_world", "ghosts")

    def __init__(self, world: World) -> None:
        self._world = world
        self.ghosts: list[RelayProcess] = []
        """Former lives that still run."""

    def change_type(self, process: RelayProcess) -> None:
        """It has drained: the next life is of the other type."""
        process.crash()
        kind = OTHER_TYPE[process.spec.relay_type]
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
        """End the former process of a twin."""
        self.ghosts.remove(former)
        if former.running:
            former.crash()

    # Rules

    def look(self) -> None:
        """Check that no relay has sessions with two lives of a node."""
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
        """Check that every relay knows the type of every other one."""
        real = {process.spec.node_id: process.spec.relay_type for process in self._world.running()}
        for process in self._world.running():
            for node, kind in process.tables.types():
                if real.get(node, kind) is not kind:
                    raise BreakError(
                        "type",
                        f"{process.contact} takes {node} for {kind.name}, it is {real[node].name}",
                        self._world.clock.now,
                    )
