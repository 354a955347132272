"""Entries of a source that was away for long: who gave them may have forgotten them meanwhile.

A relay forgets what a lost node said after the convergence time, and tells nobody: everybody else
forgets it by himself. But not at the same moment. ::

    time since the node was lost    0 ......... 1/2 ....... 3/4 ....... 1 (convergence)
    a giver: node back                  as before | tells it again       | has forgotten it
    a receiver: node back               as before            | doubts it | has forgotten it

A receiver whose giver was a little earlier would keep what nobody gives any more, for ever. So it
doubts what it has: it uses it again, but who has not said it again after the grace does not give it
any more. What is said again may come before the news that the node is back, so everything is noted
that is said since the node was lost. The quarters are more than what passes between neighbours.

And not everybody loses it: where policy lets a node be known on one side of a session only, neither
end tells the other of it, and one of them forgets. So the same goes for a single session on which
nothing was said of a node for that long (:mod:`.silences`).
"""

from __future__ import annotations

from typing import Final, Generic, TypeAlias, TypeVar

from laps_relay.network.flood.entries import Flooded
from laps_relay.network.flood.flood_records import Record
from laps_wire.nodeid import NodeId

__all__ = ["DOUBTED", "Doubts"]

DOUBTED: Final = 0.75
"""After this share of the convergence time a receiver waits until it is told everything again."""

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
_Bits: TypeAlias = dict[NodeId, dict[Record[E, W], int]]


class Doubts(Generic[E, W]):
    """What must be said again, by source: bits of the sessions that have not done so."""

    __slots__ = ("_due", "_noted")

    def __init__(self) -> None:
        self._noted: _Bits[E, W] = {}
        """Of sources that are lost: what would have to be said again."""
        self._due: _Bits[E, W] = {}
        """What must be said within the grace."""

    def __len__(self) -> int:
        return sum(len(each) for part in (self._noted, self._due) for each in part.values())

    def of(self, node: NodeId) -> bool:
        """Whether anything of a source must be said again."""
        return node in self._due

    def note(self, record: Record[E, W]) -> None:
        """Its source is lost: all that give it may have to say it again."""
        if record.given:
            self._noted.setdefault(record.item.source, {})[record] = record.given

    def returned(self, node: NodeId, *, late: bool) -> None:
        """A source is back: what was noted must be said again if it is ``late``."""
        for record, bits in self._noted.pop(node, {}).items():
            if late:
                self.add(record, bits)

    def add(self, record: Record[E, W], bits: int) -> None:
        """These sessions must say a record again."""
        due = self._due.setdefault(record.item.source, {})
        due[record] = due.get(record, 0) | bits

    def confirm(self, record: Record[E, W], bits: int) -> None:
        """These sessions have said it, or do not matter any more."""
        for part in (self._noted, self._due):
            of_source = part.get(record.item.source)
            if of_source is None or record not in of_source:
                continue
            of_source[record] &= ~bits
            if not of_source[record]:
                del of_source[record]
                if not of_source:
                    del part[record.item.source]

    def take(self, node: NodeId) -> dict[Record[E, W], int]:
        """The time is over: records, and who has not said them again."""
        return self._due.pop(node, {})
