"""What steering remembers of a track that originates here: its targets, and what it has chosen.

A choice is held against a better one until that has been better for a while without a break
(:mod:`.steering` has the picture): what is best changes with every measurement, and each change of
a Via moves streams.
"""

from __future__ import annotations

from collections.abc import Mapping

from laps_relay.network.steering.via_choice import Choice
from laps_wire.nodeid import NodeId

__all__ = ["Flow", "Group"]


class Group:
    """What is chosen for one track towards one region."""

    __slots__ = ("choice", "pending", "since")

    def __init__(self) -> None:
        self.choice: Choice = ()
        self.pending: Choice | None = None
        """What is better since ``since``, without a break."""
        self.since = 0.0

    def aim_at(self, now: float, aim: Choice, hold: float) -> None:
        """Let a choice wait, or take it into use when it has waited long enough."""
        if aim == self.choice:
            self.pending = None
            return
        if self.pending is None or _vias(aim) != _vias(self.pending):
            self.since = now
        self.pending = aim
        if now >= self.since + hold:
            self.choice, self.pending = aim, None


def _vias(choice: Choice) -> list[NodeId]:
    return [pick.via for pick in choice]


class Flow:
    """A track that originates here."""

    __slots__ = ("groups", "next_hop", "scope", "targets")

    def __init__(self) -> None:
        self.targets: tuple[NodeId, ...] = ()
        self.scope = ""
        self.groups: dict[str, Group] = {}
        self.next_hop: Mapping[NodeId, NodeId] = {}
        """As last assigned."""
