"""What transports measure, in networks where loss and queues are a reason for another path.

A server samples each connection and reports to its relay: the round trip, the share of lost
packets, and whether more is sent than gets through. The gauge reports the same from the loss of the
wire and from what waits in the pipe. One long queue is no congestion; several in a row are.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from laps_relay.sim.net.network import End
from laps_relay.sim.net.wires import Wire
from laps_relay.sim.world.world import RelayProcess, World

__all__ = ["LASTING", "LOOK", "Gauge"]

LOOK: Final = 0.5
"""Seconds between two samples."""
LASTING: Final = 3
"""Samples in a row that are needed for a change, as in a server."""


class Gauge:
    """Measures all connections."""

    __slots__ = ("_against", "_congested", "_lossy", "_told", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._against: dict[End, int] = {}
        """Samples in a row that contradict the last report."""
        self._congested: dict[End, float] = {}
        """Connections that are reported as congested, and since when."""
        self._told: dict[End, tuple[int, float, bool]] = {}
        self._lossy: dict[tuple[str, str], float] = {}
        """Wires that lose more than the class allows, and since when."""

    def start(self) -> None:
        """Sample from now on."""
        self._world.clock.after(LOOK, self._look)

    def bad(self, sender: str, receiver: str) -> float | None:
        """Since when a wire is not what classes ask for, in one direction; None: it is."""
        if not self._lossy and not self._congested:
            return None
        times = [self._lossy.get((sender, receiver))]
        ends = [end for end in self._world.network.of(sender) if end.pipe.receiver == receiver]
        if ends and all(end in self._congested for end in ends):
            times.append(max(self._congested[end] for end in ends))
        return min((when for when in times if when is not None), default=None)

    def _look(self) -> None:
        world = self._world
        most = world.scenario.max_loss
        for process in world.running():
            for session, end in list(process.ends.items()):
                wire = end.pipe.wire
                place = (process.contact, end.pipe.receiver)
                if most is not None and wire.loss > most:
                    self._lossy.setdefault(place, world.clock.now)
                else:
                    self._lossy.pop(place, None)
                congested = self._is_congested(end)
                told = (wire.srtt_us, wire.loss, congested)
                if self._told.get(end) == told:
                    continue  # the same values again: the relay would ignore them
                self._told[end] = told
                process.call(partial(self._measured, process, session, wire, congested))
        if not world.ending:
            self.start()

    @staticmethod
    def _measured(
        process: RelayProcess, session: int, wire: Wire, congested: bool, now: float
    ) -> None:
        process.core.measured(now, session, wire.srtt_us, wire.loss, congested)

    def _is_congested(self, end: End) -> bool:
        told = end in self._congested
        if bool(end.pipe.backlog.streams) is told:
            self._against.pop(end, None)
            return told
        self._against[end] = self._against.get(end, 0) + 1
        if self._against[end] < LASTING:
            return told
        del self._against[end]
        if told:
            del self._congested[end]
        else:
            self._congested[end] = self._world.clock.now
        return not told
