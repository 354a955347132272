"""From the sets that are to the sets that should be: in place, or make before break.

Streams and control messages are not ordered among each other, so there are two kinds of changes
(laps-2, 6.1 and 6.3)::

    a target comes or goes              the set is updated in place: nobody counts on the streams
                                        that began before
    a target leaves for another         both sessions get new sets with new ids, and the old ones
    session, or for none while it       are retired: streams under way end where they began, new
    is still wanted                     ones begin with the new ids; none is lost, none comes twice
    a target arrives that had lost      a new set, too: the first stream after the switch must
    its session                         reach it

The function here says what to do for each session; it does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from laps_wire.nodeid import NodeId

__all__ = ["Step", "plan"]

_NOBODY: frozenset[NodeId] = frozenset()


class Step(NamedTuple):
    """What happens on one session."""

    session: int
    keep: frozenset[NodeId]
    """What the set that is there has from now on; nobody: it ends at once."""
    retire: bool
    """Whether it takes no new streams from now on."""
    make: frozenset[NodeId]
    """What a new set has; nobody: there is none."""


def plan(
    before: Mapping[int, frozenset[NodeId]],
    after: Mapping[int, frozenset[NodeId]],
    *,
    wanted: AbstractSet[NodeId],
    moved: AbstractSet[NodeId],
    renew: bool = False,
) -> list[Step]:
    """The steps that lead from one division of targets among sessions to another.

    ``wanted`` are targets that must not lose what they get now when they leave a session; others
    are removed in place. ``moved`` are targets that had another place before. With ``renew`` every
    set is replaced. Sessions without a change are not mentioned; the lowest session is first.
    """
    steps: list[Step] = []
    for session in sorted(before.keys() | after.keys()):
        old, new = before.get(session, _NOBODY), after.get(session, _NOBODY)
        leaving = (old - new) & wanted
        keep = (old & new) | leaving
        if not old:
            if new:
                steps.append(Step(session, _NOBODY, False, new))
        elif leaving or renew or not moved.isdisjoint(new - old):
            steps.append(Step(session, keep, bool(keep), new))
        elif new != old:
            steps.append(Step(session, new, False, _NOBODY))
    return steps
