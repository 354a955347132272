"""Carry out a choice: change the sets of one ingress from what they are to what they should be.

First all new sets are made, because a peer may not take one: then nothing else has changed yet, and
another choice can be made. Then sets are changed, and the plane gets the new ones. Only after that
the old ones are retired or ended: no new stream may use those.

Streams and control messages are not ordered among each other, so :func:`plan` has two kinds of
changes (laps-2, 6.1 and 6.3)::

    a target is added or removed        the set is updated in place: no target depends on the
                                        streams that began before
    a target leaves for another         both sessions get new sets with new ids, and the old ones
    session, or for none while it       are retired: streams under way end where they began, new
    is still a target                   ones begin with the new ids; none is lost or duplicated
    a target arrives that had lost      a new set, too: the first stream after the switch must
    its session                         reach it
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from laps_relay.network.sets.set_choice import Choice, Chooser
from laps_relay.network.sets.set_egress import EgressSets
from laps_relay.network.sets.set_records import IngressRecord, OutSet
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal

__all__ = ["Step", "Switch", "plan"]


_NOBODY: frozenset[NodeId] = frozenset()


class Step(NamedTuple):
    """The change on one session."""

    session: int
    keep: frozenset[NodeId]
    """The targets that the existing set keeps; without targets it ends at once."""
    retire: bool
    """Whether the existing set takes no new streams from now on."""
    make: frozenset[NodeId]
    """The targets of a new set; without targets no set is made."""


def plan(
    before: Mapping[int, frozenset[NodeId]],
    after: Mapping[int, frozenset[NodeId]],
    *,
    wanted: AbstractSet[NodeId],
    moved: AbstractSet[NodeId],
    renew: bool = False,
) -> list[Step]:
    """Return the steps from one division of targets among sessions to another.

    ``wanted`` are targets that must not lose data when they leave a session; others are removed in
    place. ``moved`` are targets that had another session before. With ``renew`` every set is
    replaced. Sessions without a change are left out; the lowest session is first.
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


class Switch:
    """One change of the sets of one ingress."""

    __slots__ = (
        "_chooser",
        "_egress",
        "_ending",
        "_record",
        "_retiring",
        "began",
        "moved",
        "stretched",
    )

    def __init__(
        self,
        record: IngressRecord,
        egress: EgressSets,
        chooser: Chooser,
    ) -> None:
        self._record = record
        self._egress = egress
        self._chooser = chooser
        self._retiring: list[OutSet] = []
        self._ending: list[OutSet] = []
        self.began = False
        """Whether anything has changed yet."""
        self.moved: set[NodeId] = set()
        """Targets that have another place than before."""
        self.stretched = False
        """Whether a set has got targets in place."""

    def change(
        self, now: float, choice: Choice, *, gone: AbstractSet[NodeId], cut: bool, renew: bool
    ) -> bool:
        """Make and change sets; return False if a session did not take something: choose again.

        ``gone`` are removed targets. With ``cut`` targets lose streams under way on sessions where
        policy forbids them now; with ``renew`` every set is replaced.
        """
        record = self._record
        places: dict[NodeId, int | None] = {
            **dict.fromkeys(sorted(gone)),
            **dict.fromkeys(choice.unserved),
            **choice.homes,
        }
        moving = {node: place for node, place in places.items() if record.home.get(node) != place}
        moved = {
            node
            for node, place in moving.items()
            if place is not None and record.has_moved(node, place)
        }
        kept = record.targets
        if cut:
            kept -= {
                node for node in moving if node in record.home and not self._may_stay(node, record)
            }
        steps: list[Step] = []
        if moving or renew:  # most changes of paths move no target
            steps = plan(
                *self._divisions(moving, everything=renew),
                wanted=kept,
                moved=moved,
                renew=renew,
            )
        made = self._make(now, steps, choice)
        if made is None:
            return False
        self.began = True
        self._shrink_retired(now, gone, cut=cut)
        blocked: set[NodeId] = set()
        for step in steps:
            refused = self._carry_out(now, step, made.get(step.session))
            self._block(now, choice, step.session, refused)
            blocked |= refused
        self._remember(choice, places, blocked, moved)
        self.moved |= moved - blocked
        return not blocked

    def finish(self, now: float) -> None:
        """Retire and end the old sets: the plane has the new ones."""
        for item in self._retiring:
            self._egress.retire(now, item)
            self._egress.counters.moved += 1
        for item in self._ending:
            self._egress.end(now, item)

    def _divisions(
        self, moving: dict[NodeId, int | None], *, everything: bool
    ) -> tuple[dict[int, frozenset[NodeId]], dict[int, frozenset[NodeId]]]:
        """Return the targets by session, before and after, of the sessions that change."""
        record = self._record
        after: dict[int, set[NodeId]] = {}
        touched = set(record.current) if everything else set()
        for node, place in moving.items():
            if (old := record.home.get(node)) is not None:
                touched.add(old)
            if place is not None:
                after.setdefault(place, set()).add(node)
        before = {
            session: record.current[session].targets
            for session in touched | after.keys()
            if session in record.current
        }
        for session, targets in before.items():
            after.setdefault(session, set()).update(targets - moving.keys())
        return before, {session: frozenset(targets) for session, targets in after.items()}

    def _make(self, now: float, steps: list[Step], choice: Choice) -> dict[int, OutSet] | None:
        """Make the new sets; return None if a peer does not take one, and undo the others.

        Where a set exists already, a refused new one is no failure: the old one is changed in
        place. A stream may be lost or duplicated then, but the targets stay served.
        """
        record = self._record
        made: dict[int, OutSet] = {}
        failed = False
        for step in steps:
            if not step.make or failed:
                continue
            item = self._egress.make(now, step.session, step.make, record)
            if item is not None:
                made[step.session] = item
            elif step.session not in record.current:
                failed = True
                self._block(now, choice, step.session, step.make)
        if not failed:
            return made
        for item in made.values():
            self._egress.withdraw(now, item)
        return None

    def _carry_out(self, now: float, step: Step, made: OutSet | None) -> AbstractSet[NodeId]:
        """Apply the step of one session; return the targets that the session did not take."""
        record = self._record
        old = record.current.get(step.session)
        if made is not None:
            record.current[step.session] = made
        if old is None:
            return _NOBODY
        if step.make and made is None:
            return self._in_place(now, old, step.make)
        if step.retire:
            self._egress.shrink(now, old, step.keep)
            old.relays = {node: record.relays.get(node, ()) for node in step.keep}
            record.retired[old.egress] = old
            self._retiring.append(old)
            old.retired = True
        elif not step.keep:
            self._end(old)
        else:
            return self._in_place(now, old, step.keep)
        if made is None:
            del record.current[step.session]
        return _NOBODY

    def _in_place(
        self, now: float, item: OutSet, targets: frozenset[NodeId]
    ) -> AbstractSet[NodeId]:
        came = targets - item.targets
        if self._egress.update(now, item, targets):
            if came:
                self.stretched = self._record.stretched = True
            return _NOBODY
        blocked = targets - item.targets
        if kept := item.targets & targets:
            self._egress.shrink(now, item, kept)
        else:
            self._end(item)
            del self._record.current[item.egress.session]
        return blocked

    def _end(self, item: OutSet) -> None:
        item.retired = True
        item.targets = _NOBODY
        self._ending.append(item)

    def _block(
        self, now: float, choice: Choice, session: int, targets: AbstractSet[NodeId]
    ) -> None:
        """Avoid the peer of a session for the targets that it did not take."""
        for target in sorted(targets):
            peer = choice.hops[session]
            self._chooser.block(now, self._record, target, peer, SnsRefusal.TOO_MANY_SETS)

    def _may_stay(self, target: NodeId, place: IngressRecord | OutSet) -> bool:
        """Return whether policy lets streams under way go on to a target at its old place."""
        return self._chooser.may_stay(self._record.scope, place.relays.get(target, ()))

    def _shrink_retired(self, now: float, gone: AbstractSet[NodeId], *, cut: bool) -> None:
        """Remove targets from retired sets: removed ones, and with ``cut`` forbidden ones."""
        if not gone and not cut:
            return
        for item in self._record.retired.values():
            stay = item.targets - gone
            if cut:
                stay = frozenset(node for node in stay if self._may_stay(node, item))
            if stay:
                self._egress.shrink(now, item, stay)
            else:
                self._end(item)

    def _remember(
        self,
        choice: Choice,
        places: dict[NodeId, int | None],
        blocked: AbstractSet[NodeId],
        moved: AbstractSet[NodeId],
    ) -> None:
        record = self._record
        for node, place in places.items():
            if place is not None and node not in blocked:
                record.home[node] = record.last[node] = place
                record.displaced.discard(node)
                if relays := self._chooser.relays(node, place):
                    record.relays[node] = relays
            else:
                had = record.home.pop(node, None)
                if node in record.targets and (had is not None or node in moved):
                    record.displaced.add(node)
            reason = choice.unserved.get(node)
            known = record.unserved.pop(node, None)
            if reason is not None:
                due = reason.due if known is None else min(known.due, reason.due)
                record.unserved[node] = reason._replace(due=due)
