"""Subscriber node sets: for each ingress the targets, and our sets that lead there.

::

      feed of our clients --.                                        .--> set at session 3 {T, U}
                            |--> ingress: targets, hops, class ------+--> set at session 5 {V}
      set of a peer --------'         |                              '--> our own clients
                                      '--> refused to the sender: {W}

A feed and a set of a peer are the same thing here: an *ingress* whose data should reach targets.
Each target is in exactly one of our sets, the one at the session that steering chose for it; or it
is this relay; or it gets no data, and the sender is informed (laps-2, 6.1).

:mod:`~laps_relay.network.sets.set_switch` decides how sets follow when targets or paths change,
:mod:`~laps_relay.network.sets.set_choice` how a session is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from laps_relay.network.sets.set_choice import Chooser
from laps_relay.network.sets.set_egress import EgressSets
from laps_relay.network.sets.set_records import EgressRow, IngressRecord, SetRow, SetsCounters
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.set_switch import Switch
from laps_relay.network.settings import NetworkSettings
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.timers import Timers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal
from laps_wire.peering.session import SnsAdvertised, SnsRefusedByPeer, SnsWithdrawn

__all__ = ["EgressRow", "SetRow", "Sets", "SetsCounters"]

_NOBODY: frozenset[NodeId] = frozenset()


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
