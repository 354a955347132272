"""What this relay says of itself: node information, stamps, and load (laps-2, 5.1).

**Stamps.** All that a node originates (its node information, announces and subscribes) has a stamp
from one series. So every relay can tell which of two statements is the later one.

**Load**, advertised so that others choose other paths in time::

    share    0 ------------- 70 % -- 80 % ----- 85 % -- 95 % ------ 100 %
    class    NORMAL ................> BUSY ..............> OVERLOADED
             NORMAL <........ BUSY     BUSY <.... OVERLOADED

The share is that of one core (a relay is one thread), or that of the room for what waits to be
sent, whichever is more. A burst of a second is no load: what counts is an average of about ten
seconds. A class is left later than it is entered, and small steps of the value are not sent: each
change goes through the whole network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp
from typing import Final

from laps_relay.network.nodes.location import ESTIMATED, declared, direction, distance_km
from laps_sdk.peering.settings import Identity
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Label,
    Load,
    LoadClass,
    Location,
    NodeInfo,
    NodeSelf,
    Reachable,
    RelayType,
    Stamp,
)
from laps_wire.peering.laps2.codepoints import MAX_REACHABLE

__all__ = ["LoadMeter", "OwnNode", "class_of", "smoothed"]

_RATIO: Final = 0.10
_FLOOR_US: Final = 2_000
_MOVED_KM: Final = 250.0
"""An estimate that moves by less is the same: round trips are never the same twice."""


class OwnNode:
    """Our own node information; ``info`` is what goes to peers."""

    __slots__ = ("_epoch", "_sequence", "_sign", "info")

    def __init__(
        self,
        identity: Identity,
        relay_type: RelayType,
        sign: Callable[[NodeSelf], NodeInfo] = NodeInfo,
    ) -> None:
        self._epoch = identity.epoch
        self._sequence = 0
        self._sign = sign
        located = identity.longitude is not None and identity.latitude is not None
        self.info = sign(
            NodeSelf(
                identity.node_id,
                relay_type,
                self.stamp(),
                contacts=identity.contacts,
                location=(
                    Location(identity.longitude or 0.0, identity.latitude or 0.0)
                    if located
                    else None
                ),
                region=identity.region,
                labels=tuple(Label(name, value) for name, value in identity.labels),
            )
        )

    @property
    def node_id(self) -> NodeId:
        """The node id of this relay."""
        return self.info.node.node_id

    def stamp(self) -> Stamp:
        """Return the next stamp of this relay."""
        self._sequence += 1
        return Stamp(self._epoch, self._sequence)

    def set_load(self, load: Load) -> bool:
        """Set our load; return whether it changed."""
        return load != self.info.node.load and self._say(replace(self.info.node, load=load))

    def set_estimate(self, location: Location) -> bool:
        """Set the estimated location, if none is configured; return whether it changed."""
        node = self.info.node
        if declared(node) is not None:
            return False
        before = node.location
        if before is not None and distance_km(direction(before), direction(location)) < _MOVED_KM:
            return False
        labels = (*(label for label in node.labels if label.key != ESTIMATED.key), ESTIMATED)
        return self._say(replace(node, location=location, labels=labels))

    def set_contacts(self, contacts: tuple[str, ...]) -> bool:
        """Set the addresses of this relay; return whether they changed."""
        if contacts == self.info.node.contacts:
            return False
        return self._say(replace(self.info.node, contacts=contacts))

    def set_label(self, name: str, value: str) -> bool:
        """Set a label, or remove it with an empty value; return whether it changed."""
        labels = tuple(label for label in self.info.node.labels if label.key != name)
        if value:
            labels += (Label(name, value),)
        if labels == self.info.node.labels:
            return False
        return self._say(replace(self.info.node, labels=labels))

    def set_reachable(self, reachable: tuple[Reachable, ...]) -> bool:
        """Set the nodes that we reach directly; return whether that is a significant change."""
        reachable = reachable[:MAX_REACHABLE]
        before = {item.node_id: item.rtt_us for item in self.info.node.reachable}
        after = {item.node_id: item.rtt_us for item in reachable}
        if before.keys() == after.keys() and not any(
            abs(rtt - before[node]) > max(_FLOOR_US, before[node] * _RATIO)
            for node, rtt in after.items()
        ):
            return False
        return self._say(replace(self.info.node, reachable=reachable))

    def _say(self, node: NodeSelf) -> bool:
        self.info = self._sign(replace(node, stamp=self.stamp()))
        return True


_MEMORY: Final = 10.0
"""Seconds in which two thirds of a change arrive in the average."""
_STEP: Final = 50
"""Thousandths; smaller changes are not advertised."""
_BUSY: Final = 0.80
_NOT_BUSY: Final = 0.70
_OVERLOADED: Final = 0.95
_NOT_OVERLOADED: Final = 0.85


def class_of(share: float, before: LoadClass) -> LoadClass:
    """Return the class of a load; ``before`` is the former class (hysteresis)."""
    if share > _OVERLOADED or (before is LoadClass.OVERLOADED and share >= _NOT_OVERLOADED):
        return LoadClass.OVERLOADED
    if share > _BUSY or (before is not LoadClass.NORMAL and share >= _NOT_BUSY):
        return LoadClass.BUSY
    return LoadClass.NORMAL


def smoothed(average: float, share: float, seconds: float) -> float:
    """Return the average after so many seconds with this share."""
    return share + (average - share) * exp(-seconds / _MEMORY)


class LoadMeter:
    """Turns samples into a load."""

    __slots__ = ("_at", "_average", "_busy", "_load")

    def __init__(self) -> None:
        self._at: float | None = None
        self._busy = 0.0
        self._average = 0.0
        self._load = Load()

    def sample(self, now: float, busy: float, fill: float) -> Load:
        """Take a sample; return the load to advertise now.

        ``busy`` is the CPU time of the process since its start in seconds, ``fill`` how full the
        queues are, 0 to 1. The first sample begins the first interval.
        """
        since, self._at = self._at, now
        spent, self._busy = busy - self._busy, busy
        if since is None or now <= since:
            return self._load
        seconds = now - since
        share = min(1.0, max(0.0, spent / seconds, fill))
        self._average = smoothed(self._average, share, seconds)
        value = round(self._average * 1000)
        load_class = class_of(self._average, self._load.load_class)
        if load_class is not self._load.load_class or abs(value - self._load.value) >= _STEP:
            self._load = Load(load_class, value)
        return self._load
