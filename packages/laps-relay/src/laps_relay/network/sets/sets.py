"""Subscriber node sets: for each ingress the targets, and the sets of ours that lead there.

::

      feed of our clients --.                                        .--> set at session 3 {T, U}
                            |--> ingress: targets, hops, class ------+--> set at session 5 {V}
      set of a peer --------'         |                              '--> our own clients
                                      '--> refused to the sender: {W}

A feed and a set of a peer are the same thing here: an *ingress* whose data should reach targets.
Each target is in exactly one set of ours, the one at the session that steering chose for it; or it
is ourselves; or it gets nothing, and the sender is told so (laps-2, 6.1). How the sets follow when
targets or ways change is decided in :mod:`~laps_relay.network.sets.set_switch`, how a session is
chosen in :mod:`~laps_relay.network.sets.set_choice`.
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
    """All sets of a relay: those of its peers, and those that it makes."""

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
        """By target: a change of a route touches only what is affected."""
        self._timers: Timers[Ingress] = Timers()

    # What should be

    def set_feed(
        self,
        now: float,
        ingress: Ingress,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
    ) -> None:
        """Let the data of a feed go to these targets; also after steering changed its mind.

        Without a key it is no track: it takes the best way, and nobody hears what became of it.
        """
        record = self._get(ingress)
        if record is None:
            record = self._add(IngressRecord(ingress, key, 0, scope, None))
        renew = record.scope != scope
        record.scope = scope
        self._set_targets(now, record, targets, everything=True, renew=renew)

    def is_routed(self, ingress: Ingress) -> bool:
        """Whether the data of an ingress goes to any other relay now."""
        record = self._get(ingress)
        return record is not None and bool(record.current)

    def drop_feed(self, now: float, ingress: Ingress) -> None:
        """A feed was closed: streams under way go on to their end."""
        self._drop(now, ingress)

    def advertised(self, now: float, session: int, event: SnsAdvertised) -> None:
        """A peer made or changed a set."""
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
        """A peer ended a set: it has no data under way with it any more, but we may."""
        self._drop(now, Ingress(session, event.sns_id))

    # What happens

    def refused(self, now: float, session: int, event: SnsRefusedByPeer) -> None:
        """A peer does not serve a set of ours, or some of its targets: find another way."""
        item = self._egress.get(EgressSet(session, event.sns_id))
        if item is None:
            return
        if event.code == SnsRefusal.UNKNOWN_SET:
            # Data was faster than the set and did not wait so long; the set is on its way.
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
            # No stream begins with it any more. Those under way may still get through, so its
            # targets stay in it until it is withdrawn.
            return
        peer = self._routing.node_of(session)
        for target in targets:
            self._chooser.block(now, record, target, peer, event.code)
        self._evaluate(now, record, targets)

    def session_gone(self, now: float, session: int) -> None:
        """A session has ended, with all sets of both directions."""
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
        """The way to these nodes may have changed; None: to all, and refusals are forgotten.

        With ``cut`` streams under way end at once where policy forbids the way that they take.
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
        """Targets among these that some data of peers does not take the best next hop to.

        For those a change of another way counts, too. Feeds are not looked at: steering does that.
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
        """The rest of open streams goes on in new ones; gives the key of its track if it is ours.

        Targets that were added to a set in place may hear of it later than of a stream, which is
        no matter unless nothing comes behind that stream. So they get sets with new ids, for which
        data waits (laps-2, 6.2).
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
        """A retired set has no stream under way any more: withdraw it."""
        item = self._egress.get(notice.egress)
        if item is not None and item.retired:
            self._egress.withdraw(now, item)

    # Time

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Tell senders what gets nothing, and try peers again that had refused."""
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

    # Figures

    def rows(self) -> list[SetRow]:
        """All ingresses; the order is that of their sessions and ids."""
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
        """How many sets of ours are not withdrawn, retired ones too."""
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
        """How many sets live on a session, in both directions."""
        return self._egress.on(session) + len(self._records.get(session, ()))

    # Inside: the ingresses

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

    # Inside: what follows

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
        """Choose sessions for these targets, and let the sets follow."""
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
            # Somebody did not take its part and is avoided from now on. What was done is done.
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
        """Those that have kept a place on a way that policy does not let them have."""
        return [
            target
            for target in sorted(targets)
            if target in record.home
            and not self._chooser.may_stay(record.scope, record.relays.get(target, ()))
        ]

    def _install(self, now: float, record: IngressRecord) -> bool:
        """Tell the plane where data goes; whether some of it goes to a new set."""
        egress = tuple(record.current[session].egress for session in sorted(record.current))
        entry = (egress, self._local in record.targets)
        before = record.installed
        if entry == before:
            return False
        record.installed = entry
        self._plane.install(now, record.ingress, egress, local=entry[1])
        return before is None or not set(egress).issubset(before[0])

    def _peer_rerouted(self, now: float, record: IngressRecord, targets: frozenset[NodeId]) -> None:
        """Behind a peer targets are served another way now."""
        if record.is_feed:
            self._plane.outdate(now, record.ingress)
        else:
            self._request_new_streams(now, record, targets)

    def _request_new_streams(
        self, now: float, record: IngressRecord, targets: AbstractSet[NodeId]
    ) -> None:
        """Let the o-relay go on in new streams with those that come and do not go to these."""
        if targets and self._plane.carries(record.ingress):
            with suppress(StateError):
                self._routing.refuse_sns(now, *record.ingress, SnsRefusal.MOVED, sorted(targets))

    def _report_unserved(self, now: float, record: IngressRecord) -> None:
        """Tell the sender of a set which targets get nothing, so that it finds another way."""
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
