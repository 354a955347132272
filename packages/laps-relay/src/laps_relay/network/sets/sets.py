"""Subscriber node sets: for each ingress the targets, and our sets that lead there.

::

      feed of our clients --.                                        .--> set at session 3 {T, U}
                            |--> ingress: targets, hops, class ------+--> set at session 5 {V}
      set of a peer --------'         |                              '--> our own clients
                                      '--> refused to the sender: {W}

A feed and a set of a peer are the same thing here: an *ingress* whose data should reach targets.
Each target is in exactly one of our sets, the one at the session that steering chose for it; or it
is this relay; or it gets no data, and the sender is informed (laps-2, 6.1).

:class:`Sets` owns the ingresses, :class:`EgressSets` our own sets on all sessions, and a
:class:`Switch` is one change of the sets of one ingress.
:mod:`~laps_relay.network.sets.set_routing` chooses the session of each target.

**The life of one of our sets**::

    make --> current --> (retire) --> retired --> (SetIdle) --> withdrawn
                 |                        |
                 '--- end: streams reset, targets removed, withdrawn at once; no relay needs
                      the set now, or policy forbids its path

**A switch.** First all new sets are made, because a peer may not take one: then nothing else has
changed yet, and another choice can be made. Then sets are changed, and the plane gets the new ones.
Only after that the old ones are retired or ended: no new stream may use those.

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

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, NamedTuple

from laps_relay.network.sets.set_records import (
    IngressRecord,
    OutSet,
    SetRow,
    SetsCounters,
)
from laps_relay.network.sets.set_routing import Choice, Chooser, SetRouting
from laps_relay.network.settings import NetworkSettings
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.timers import Timers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import SnsRefusal
from laps_wire.peering.session import SnsAdvertised, SnsRefusedByPeer, SnsWithdrawn

__all__ = ["EgressSets", "Sets", "Step", "Switch", "plan"]


class EgressSets:
    """The sets that this relay has advertised and not withdrawn, on every session."""

    __slots__ = ("_plane", "_routing", "_sessions", "counters")

    def __init__(self, routing: SetRouting, plane: PeerPlane, counters: SetsCounters) -> None:
        self._routing = routing
        self._plane = plane
        self.counters = counters
        self._sessions: dict[int, dict[int, OutSet]] = {}

    def get(self, egress: EgressSet) -> OutSet | None:
        """Return a set, or None if it no longer exists."""
        return self._sessions.get(egress.session, {}).get(egress.sns_id)

    def on(self, session: int) -> int:
        """Return how many sets exist on a session, retired ones too."""
        return len(self._sessions.get(session, ()))

    def __len__(self) -> int:
        """How many sets exist on all sessions."""
        return sum(len(sets) for sets in self._sessions.values())

    def make(
        self, now: float, session: int, targets: frozenset[NodeId], owner: IngressRecord
    ) -> OutSet | None:
        """Advertise a set; return None if the session does not take it."""
        try:
            sns_id = self._routing.advertise_sns(
                now, session, sorted(targets), owner.hops, owner.scope
            )
        except StateError:
            return None
        made = OutSet(EgressSet(session, sns_id), targets, owner)
        self._sessions.setdefault(session, {})[sns_id] = made
        self.counters.made += 1
        return made

    def update(self, now: float, item: OutSet, targets: frozenset[NodeId]) -> bool:
        """Change a set in place; return False if the session does not take the change."""
        if targets == item.targets:
            return True
        try:
            self._routing.update_sns(now, item.egress.session, item.egress.sns_id, sorted(targets))
        except StateError:
            return False
        item.targets = targets
        return True

    def shrink(self, now: float, item: OutSet, targets: frozenset[NodeId]) -> None:
        """Remove targets from a set, even if its session can no longer send."""
        if not self.update(now, item, targets):
            item.targets = targets

    def retire(self, now: float, item: OutSet) -> None:
        """Let no new stream use a set; the plane reports when none is left."""
        item.retired = True
        self._plane.retire(now, item.egress)

    def end(self, now: float, item: OutSet) -> None:
        """Reset the streams of a set and withdraw it: it has no targets, or policy forbids it.

        After a plain withdrawal the peer goes on with what it has, which may wait there for long.
        So the targets are removed first (laps-2, 6.1). The peer's own policy is not enough: a set
        that is older than the class of its data does not name that class.
        """
        self._plane.cut(now, item.egress, StreamCode.NO_SUBSCRIBERS)
        self.withdraw(now, item, empty=True)

    def enforce(self, now: float, permits: Callable[[str, tuple[NodeId, ...]], bool]) -> None:
        """Apply a new policy to streams whose ingress has ended.

        Sets with an ingress are checked together with that.
        """
        orphans = [
            item for sets in self._sessions.values() for item in sets.values() if item.owner is None
        ]
        for item in orphans:
            stay = frozenset(
                node for node in item.targets if permits(item.scope, item.relays.get(node, ()))
            )
            if stay:
                self.shrink(now, item, stay)
            else:
                self.end(now, item)

    def withdraw(self, now: float, item: OutSet, *, empty: bool = False) -> None:
        """Withdraw a set without data under way; with ``empty`` remove its targets first."""
        # A session that is about to end takes its sets with it.
        with suppress(StateError):
            self._routing.withdraw_sns(now, *item.egress, empty=empty)
        self._forget(item)
        sets = self._sessions[item.egress.session]
        del sets[item.egress.sns_id]
        if not sets:
            del self._sessions[item.egress.session]

    def session_gone(self, session: int) -> list[OutSet]:
        """Remove all sets of a session that has ended; return them, the oldest first."""
        gone = list(self._sessions.pop(session, {}).values())
        for item in gone:
            self._forget(item)
        return gone

    def _forget(self, item: OutSet) -> None:
        self.counters.ended += 1
        if item.owner is not None:
            item.owner.retired.pop(item.egress, None)


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


class Sets:
    """All sets of a relay: those of its peers, and its own."""

    __slots__ = (
        "_chooser",
        "_egress",
        "_local",
        "_plane",
        "_records",
        "_routing",
        "_settings",
        "_targets",
        "_timers",
        "counters",
    )

    def __init__(
        self, local: NodeId, routing: SetRouting, plane: PeerPlane, settings: NetworkSettings
    ) -> None:
        self.counters = SetsCounters()
        self._local = local
        self._routing = routing
        self._plane = plane
        self._settings = settings
        self._chooser = Chooser(routing, settings)
        self._egress = EgressSets(routing, plane, self.counters)
        self._records: dict[int, dict[int, IngressRecord]] = {}
        """By session and set id, as in :class:`Ingress`."""
        self._targets: dict[NodeId, dict[Ingress, IngressRecord]] = {}
        """By target: a change of a route concerns only these ingresses."""
        self._timers: Timers[Ingress] = Timers()

    # Feeds and sets of peers

    def set_feed(
        self,
        now: float,
        ingress: Ingress,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
    ) -> None:
        """Set the targets of a feed; also called when steering has a new assignment.

        Without a ``key`` the feed is no track: it takes the best path, and the outcome is not
        reported.
        """
        record = self._get(ingress)
        if record is None:
            record = self._add(IngressRecord(ingress, key, 0, scope, None))
        renew = record.scope != scope
        record.scope = scope
        self._set_targets(now, record, targets, everything=True, renew=renew)

    def is_routed(self, ingress: Ingress) -> bool:
        """Return whether the data of an ingress goes to any other relay now."""
        record = self._get(ingress)
        return record is not None and bool(record.current)

    def key_of(self, ingress: Ingress) -> int | None:
        """Return the key of the track that a feed carries; None for other ingresses."""
        record = self._get(ingress)
        return None if record is None else record.key

    def egress_to(self, ingress: Ingress, target: NodeId) -> EgressSet | None:
        """Return our set that leads from an ingress to a target; None if it has no path now."""
        record = self._get(ingress)
        session = None if record is None else record.home.get(target)
        if record is None or session is None:
            return None
        return record.current[session].egress

    def drop_feed(self, now: float, ingress: Ingress) -> None:
        """Remove a closed feed; streams under way go on to their end."""
        self._drop(now, ingress)

    def advertised(self, now: float, session: int, event: SnsAdvertised) -> None:
        """Handle a set that a peer made or changed."""
        ingress = Ingress(session, event.sns_id)
        hops = event.hops + 1
        record = self._get(ingress)
        if record is None:
            arrived_on = self._routing.node_of(session)
            record = self._add(IngressRecord(ingress, None, hops, event.scope, arrived_on))
        renew = (record.hops, record.scope) != (hops, event.scope)
        record.hops, record.scope = hops, event.scope
        self._set_targets(now, record, event.targets, everything=renew, renew=renew)
        if event.released:
            self._plane.release(now, session, event.released)

    def withdrawn(self, now: float, session: int, event: SnsWithdrawn) -> None:
        """Handle a set that a peer withdrew: the peer has no data under way with it, but we may."""
        self._drop(now, Ingress(session, event.sns_id))

    # Events

    def refused(self, now: float, session: int, event: SnsRefusedByPeer) -> None:
        """Handle a peer's refusal of one of our sets, or of some targets: find another path."""
        item = self._egress.get(EgressSet(session, event.sns_id))
        if item is None:
            return
        if event.code == SnsRefusal.UNKNOWN_SET:
            # Data overtook the set and did not wait long enough; the set arrives soon.
            self.counters.unknown_by_peers += 1
            return
        named = frozenset(event.targets) or item.targets
        targets = sorted(named & item.targets)
        if event.code == SnsRefusal.MOVED:
            if item.owner is not None and not item.retired and targets:
                self._peer_rerouted(now, item.owner, frozenset(targets))
            return
        self.counters.refused_by_peers += len(targets)
        record = item.owner
        if record is None or item.retired:
            # No new stream uses this set. Streams under way may still arrive, so its targets stay
            # in it until it is withdrawn.
            return
        peer = self._routing.node_of(session)
        for target in targets:
            self._chooser.block(now, record, target, peer, event.code)
        self._evaluate(now, record, targets)

    def session_gone(self, now: float, session: int) -> None:
        """Remove all sets of a session that has ended, in both directions."""
        affected: dict[Ingress, list[NodeId]] = {}
        for item in self._egress.session_gone(session):
            record = item.owner
            if record is None or item.retired:
                continue
            del record.current[session]
            for target in sorted(item.targets):
                del record.home[target]
                record.displaced.add(target)
                affected.setdefault(record.ingress, []).append(target)
        for set_id in sorted(self._records.get(session, ())):
            self._drop(now, Ingress(session, set_id))
        self._evaluate_all(now, affected)

    def reroute(
        self, now: float, nodes: Iterable[NodeId] | None = None, *, cut: bool = False
    ) -> None:
        """Choose again for these targets; None: for all, and earlier refusals are forgotten.

        With ``cut`` streams under way end at once where policy forbids their path.
        """
        affected: dict[Ingress, list[NodeId]] = {}
        for node in sorted(self._targets if nodes is None else set(nodes)):
            for ingress, record in self._targets.get(node, {}).items():
                affected.setdefault(ingress, []).append(node)
                if nodes is None:
                    record.blocks.pop(node, None)
                    record.taken.pop(node, None)
                    record.waits.pop(node, None)
                elif record.is_feed:
                    self._chooser.unblock(record, node)
        self._evaluate_all(now, affected, cut=cut)
        if cut:
            self._egress.enforce(now, self._chooser.may_stay)

    def off_best_path(
        self, nodes: Iterable[NodeId], best: Callable[[NodeId], NodeId | None]
    ) -> list[NodeId]:
        """Return the nodes to which some transit data does not take the best next hop.

        A change of another path than the best one matters for them. Feeds are left out: steering
        handles them.
        """
        found: list[NodeId] = []
        for node in nodes if self._targets else ():
            records = self._targets.get(node)
            if records is not None and node != self._local:
                peer = best(node)
                if any(
                    (session := record.home.get(node)) is None
                    or self._routing.node_of(session) != peer
                    for record in records.values()
                    if not record.is_feed
                ):
                    found.append(node)
        return found

    def renew(self, now: float, ingress: Ingress) -> int | None:
        """Continue open streams in new ones; return the key of the track if it is ours.

        Targets that were added to a set in place may receive the update after a stream. That
        matters only if no stream follows. So they get sets with new ids, for which data waits
        (laps-2, 6.2).
        """
        record = self._get(ingress)
        if record is None:
            return None
        if not record.is_feed:
            self._request_new_streams(now, record, record.targets)
            return None
        if record.stretched:
            record.stretched = False
            self._evaluate(now, record, (), renew=True)
        return record.key

    def idle(self, now: float, notice: SetIdle) -> None:
        """Withdraw a retired set after its last stream has ended."""
        item = self._egress.get(notice.egress)
        if item is not None and item.retired:
            self._egress.withdraw(now, item)

    # Time

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Send refusals that are due, and try peers again that had refused."""
        due: list[Ingress] = []
        while (ingress := self._timers.pop(now)) is not None:
            due.append(ingress)
        for ingress in due:
            record = self._records[ingress.session][ingress.set_id]
            self._evaluate(now, record, self._chooser.expire(now, record))

    def egress_targets(self, egress: EgressSet) -> frozenset[NodeId] | None:
        """Return the targets of an egress set, also of a retired one; None if there is none."""
        found = self._egress.get(egress)
        return None if found is None else found.targets

    def sizes(self) -> tuple[int, int]:
        """Return how many targets are indexed, and how many timers run."""
        return len(self._targets), len(self._timers)

    # Tables

    def rows(self) -> list[SetRow]:
        """Return all ingresses, in the order of their sessions and ids."""
        return [
            self._records[session][set_id].row(self._local)
            for session in sorted(self._records)
            for set_id in sorted(self._records[session])
        ]

    @property
    def incoming(self) -> int:
        """How many sets of peers there are."""
        return sum(len(sets) for session, sets in self._records.items() if session != LOCAL)

    @property
    def living(self) -> int:
        """How many of our sets are not withdrawn, retired ones too."""
        return len(self._egress)

    @property
    def in_transit(self) -> bool:
        """Whether any set of a peer goes on to other relays."""
        return any(
            record.current or record.retired
            for session, sets in self._records.items()
            if session != LOCAL
            for record in sets.values()
        )

    def uses(self, session: int) -> int:
        """Return how many sets exist on a session, in both directions."""
        return self._egress.on(session) + len(self._records.get(session, ()))

    # Ingresses

    def _get(self, ingress: Ingress) -> IngressRecord | None:
        return self._records.get(ingress.session, {}).get(ingress.set_id)

    def _add(self, record: IngressRecord) -> IngressRecord:
        ingress = record.ingress
        self._records.setdefault(ingress.session, {})[ingress.set_id] = record
        return record

    def _drop(self, now: float, ingress: Ingress) -> None:
        record = self._get(ingress)
        if record is None:
            return
        paths = dict(record.relays)
        self._index(record, _NOBODY)
        self._timers.cancel(ingress)
        sets = self._records[ingress.session]
        del sets[ingress.set_id]
        if not sets:
            del self._records[ingress.session]
        self._plane.remove(now, ingress)
        for item in record.retired.values():
            item.orphan(record.scope)
        for session in sorted(record.current):
            item = record.current[session]
            item.relays = {node: paths.get(node, ()) for node in item.targets}
            item.orphan(record.scope)
            self._egress.retire(now, item)

    def _index(self, record: IngressRecord, targets: frozenset[NodeId]) -> None:
        """Keep the index of targets up to date."""
        for target in targets - record.targets:
            self._targets.setdefault(target, {})[record.ingress] = record
        for target in record.targets - targets:
            entries = self._targets[target]
            del entries[record.ingress]
            if not entries:
                del self._targets[target]
            record.forget(target)
        record.targets = targets

    # Evaluation

    def _set_targets(
        self,
        now: float,
        record: IngressRecord,
        targets: frozenset[NodeId],
        *,
        everything: bool,
        renew: bool,
    ) -> None:
        gone, come = record.targets - targets, targets - record.targets
        self._index(record, targets)
        self._evaluate(now, record, targets if everything else come, gone=gone, renew=renew)

    def _evaluate_all(
        self, now: float, affected: dict[Ingress, list[NodeId]], *, cut: bool = False
    ) -> None:
        for ingress in sorted(affected):
            record = self._get(ingress)
            if record is not None:
                self._evaluate(now, record, affected[ingress], cut=cut)

    def _evaluate(
        self,
        now: float,
        record: IngressRecord,
        targets: Iterable[NodeId],
        *,
        gone: frozenset[NodeId] = _NOBODY,
        cut: bool = False,
        renew: bool = False,
    ) -> None:
        """Choose sessions for these targets, and change the sets accordingly."""
        # At the origin targets depend on each other: copies for one region share a Via.
        asked = set(targets)
        if asked and record.is_feed:
            asked.update(record.targets)
        ending = self._forbidden(record, asked & record.refused_targets) if cut else []
        asked.difference_update(record.refused_targets)
        asked.discard(self._local)
        switch = Switch(record, self._egress, self._chooser)
        before = dict(record.home) if record.is_feed else {}
        order = sorted(asked)
        while True:
            choice = self._chooser.choose(now, record, order)
            choice.unserved.update((target, record.unserved[target]) for target in ending)
            if switch.change(now, choice, gone=gone, cut=cut, renew=renew):
                break
            # A peer did not take its set and is avoided from now on; earlier steps stay.
            if switch.began:
                gone, cut, renew = _NOBODY, False, False
        anew = self._install(now, record)
        if not record.is_feed:
            if switch.moved:
                self._request_new_streams(now, record, switch.moved)
        elif anew or any(before.get(node) != at for node, at in record.home.items()):
            self._plane.outdate(now, record.ingress, in_place=switch.stretched)
        switch.finish(now)
        self._report_unserved(now, record)
        due = record.next_due()
        if due is None:
            self._timers.cancel(record.ingress)
        else:
            self._timers.set(record.ingress, due)

    def _forbidden(self, record: IngressRecord, targets: AbstractSet[NodeId]) -> list[NodeId]:
        """Return the targets that kept a place on a path that policy forbids now."""
        return [
            target
            for target in sorted(targets)
            if target in record.home
            and not self._chooser.may_stay(record.scope, record.relays.get(target, ()))
        ]

    def _install(self, now: float, record: IngressRecord) -> bool:
        """Write the FIB entry of an ingress; return whether a new set is in it."""
        egress = tuple(record.current[session].egress for session in sorted(record.current))
        entry = (egress, self._local in record.targets)
        before = record.installed
        if entry == before:
            return False
        record.installed = entry
        self._plane.install(now, record.ingress, egress, local=entry[1])
        return before is None or not set(egress).issubset(before[0])

    def _peer_rerouted(self, now: float, record: IngressRecord, targets: frozenset[NodeId]) -> None:
        """Handle a peer's report that it moved targets to another path."""
        if record.is_feed:
            self._plane.outdate(now, record.ingress)
        else:
            self._request_new_streams(now, record, targets)

    def _request_new_streams(
        self, now: float, record: IngressRecord, targets: AbstractSet[NodeId]
    ) -> None:
        """Ask the o-relay to continue its open streams in new ones: targets have moved."""
        if targets and self._plane.carries(record.ingress):
            with suppress(StateError):
                self._routing.refuse_sns(now, *record.ingress, SnsRefusal.MOVED, sorted(targets))

    def _report_unserved(self, now: float, record: IngressRecord) -> None:
        """Report to the sender which targets get no data, so that it finds another path."""
        if record.ingress.session == LOCAL:
            if record.key is not None:
                self._routing.report_routing(
                    now, record.key, record.targets, record.scope, record.unserved
                )
            return
        due: dict[SnsRefusal, list[NodeId]] = {}
        for target in sorted(record.unserved.keys() - record.refused_targets):
            item = record.unserved[target]
            if item.due <= now:
                due.setdefault(item.code, []).append(target)
        for code in sorted(due):
            # A session that is about to end needs no refusal.
            with suppress(StateError):
                self._routing.refuse_sns(now, *record.ingress, code, due[code])
            record.refused_targets.update(due[code])
            self.counters.refused += len(due[code])
            for target in due[code]:
                record.blocks.pop(target, None)
