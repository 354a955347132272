"""Next hops and sessions for the targets of sets, and the messages that inform peers about sets.

:class:`SetRouting` connects :class:`~laps_relay.network.sets.sets.Sets` to other rooms: steering
chooses next hops, the links know the sessions, and the peering sessions carry the SNS messages. It
emits an event for each change of a set.

:class:`Chooser` returns the session of each target of an ingress, or the reason for none. A target
of a peer's set that loses its path keeps its session, and the sender is informed: it has another
path already, or finds one, and replaces the set. So what it sent before is not lost, also if that
waits for long before a slow link.

**Only the o-relay looks for another path.** When a node is lost, relays learn of it one after the
other, and longer paths that they know may be lost, too. If each relay tried those, sets would chase
a removed node: they are faster than node information, and each relay would start again with every
set that it has received by then. So a relay in between gives a target of a peer's set one path, and
then::

    the path is lost, or refused     the sender is informed at once; so it goes back to the o-relay
    it is lost, and all others are   the same, unless it is back within ``_BATCHES``
    forbidden, or there is none
    another is better and no longer  the target moves there, make before break
    another is better and longer     if a relay drains on the current path, the target moves, too.
                                     Otherwise only if the better path lasts for ``_PATIENCE``:
                                     a withdrawal may not have arrived yet

Each set leads to at most one place while a node is lost, so one try of the o-relay is one chain of
sets. The o-relay tries again when it is refused, or receives new information about the node.

Steering names the next hop, and sessions lead there. A peer that has refused a target is avoided
for it, as long as steering would still choose that peer. When the best path goes elsewhere the
route has changed, and the refusal is forgotten.

A refusal may also have been a matter of timing: the peer had withdrawn the target, has it again,
and both messages crossed ours. So the peer is tried again after a while, and each time later.
Policy is an exception: a path that works is not given up for one that will be refused again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from laps_relay.network.events import NetworkEvent, SetChanged, SetGone, SetRefused
from laps_relay.network.nodes.nib import Nib, PathFinder
from laps_relay.network.nodes.node_table import LOAD_WEIGHTS
from laps_relay.network.sets.set_records import Block, IngressRecord, Unserved
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering import Assignment, Steering
from laps_relay.network.subscriptions.origin_role import DeliveryFailure
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Links
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, SnsRefusal, SubscribeCode
from laps_wire.peering.laps2.codepoints import MAX_HOPS
from laps_wire.peering.session import PeeringSession

__all__ = ["Choice", "Chooser", "SetLog", "SetRouting"]


class _Known(NamedTuple):
    targets: frozenset[NodeId]
    key: int | None


class SetLog:
    """All sets as they were last advertised, in both directions."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[int, dict[tuple[bool, int], _Known]] = {}

    def changed(
        self,
        session: int,
        sns_id: int,
        targets: Iterable[NodeId],
        *,
        incoming: bool,
        key: int | None = None,
    ) -> SetChanged | None:
        """Return the event for the targets of a set; None if they are unchanged."""
        sets = self._sessions.setdefault(session, {})
        before = sets.get((incoming, sns_id))
        after = frozenset(targets)
        had: frozenset[NodeId] = frozenset()
        if before is not None:
            had, key = before
            if had == after:
                return None
        sets[incoming, sns_id] = _Known(after, key)
        return SetChanged(
            session=session,
            sns_id=sns_id,
            incoming=incoming,
            added=tuple(sorted(after - had)),
            removed=tuple(sorted(had - after)),
            members=len(after),
            key=key,
        )

    def gone(self, session: int, sns_id: int, *, incoming: bool) -> SetGone | None:
        """Return the event for the end of a set; None if the set is unknown."""
        sets = self._sessions.get(session, {})
        known = sets.pop((incoming, sns_id), None)
        if known is None:
            return None
        if not sets:
            del self._sessions[session]
        return SetGone(
            session=session,
            sns_id=sns_id,
            incoming=incoming,
            removed=tuple(sorted(known.targets)),
            key=known.key,
        )

    def session_gone(self, session: int) -> list[SetGone]:
        """Return the events for the end of all sets of a session."""
        ended = (
            self.gone(session, sns_id, incoming=incoming)
            for incoming, sns_id in sorted(self._sessions.get(session, ()))
        )
        return [each for each in ended if each is not None]

    def __len__(self) -> int:
        """How many sets exist."""
        return sum(len(sets) for sets in self._sessions.values())


_DIAL_TIME: Final = 2.0
"""Seconds that a dial may take before a target is reported as forbidden by policy."""


class SetRouting:
    """Next hops, sessions and SNS messages for the sets of one relay.

    The methods with ``sns`` in their name raise :class:`~laps_wire.errors.StateError` if the
    session cannot carry the message: the peer takes no more sets or targets, or the session is
    about to end.
    """

    __slots__ = (
        "_assigned",
        "_emit",
        "_links",
        "_local",
        "_nib",
        "_node",
        "_paths",
        "_routed",
        "_set_log",
        "_settings",
        "_steering",
        "_wire",
    )

    def __init__(
        self,
        local: NodeId,
        settings: NetworkSettings,
        *,
        nib: Nib,
        paths: PathFinder,
        steering: Steering,
        links: Links,
        node: Callable[[NodeId], NodeSelf | None],
        wire: Callable[[int], PeeringSession],
        routed: Callable[[float, int, frozenset[NodeId], Mapping[NodeId, DeliveryFailure]], None],
        emit: Callable[[NetworkEvent], object],
    ) -> None:
        """Store the collaborators.

        ``node`` returns a node's own description, ``wire`` the peering session of a number.
        ``routed`` is called with the targets of one of our tracks, and those that get no data.
        """
        self._local = local
        self._settings = settings
        self._nib = nib
        self._paths = paths
        self._steering = steering
        self._links = links
        self._node = node
        self._wire = wire
        self._routed = routed
        self._emit = emit
        self._set_log = SetLog()
        self._assigned: int | None = None
        """The key of the last :meth:`assign`: that of the next set that we originate."""

    def __len__(self) -> int:
        """How many sets of both directions exist, as events reported them."""
        return len(self._set_log)

    # Next hops

    def assign(
        self,
        now: float,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        """Return the best next hop of each target."""
        self._assigned = key
        return self._steering.assign(now, key, targets, scope, arrived_on=arrived_on)

    def detour(
        self,
        target: NodeId,
        scope: str,
        *,
        arrived_on: NodeId | None,
        avoid: frozenset[NodeId],
    ) -> NodeId | Refusal:
        """Return the next hop of the best path that begins with none of the peers in ``avoid``."""
        shut = avoid if arrived_on is None else avoid | {arrived_on}
        for path in self._paths.allowed(target, scope):
            if path.peer not in shut and (arrived_on is None or arrived_on not in path.relays):
                return path.peer
        return self._paths.why_none(target, scope, arrived_on)

    def length(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> int | None:
        """Return how many relays are on a peer's path to a target; None if it cannot be used."""
        path = self._paths.through(target, scope, peer, arrived_on)
        return None if path is None else path.hops

    def drains(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> bool:
        """Return whether a relay on a peer's path to a target drains."""
        path = self._paths.through(target, scope, peer, arrived_on)
        return path is not None and path.load >= LOAD_WEIGHTS[LoadClass.DRAINING]

    def relays(self, peer: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        """Return the relays on a peer's path to a target; () if the peer advertises none."""
        path = self._nib.advertised_by(target, peer)
        if path is None:
            return ()
        # The last item of a path is the next hop (laps-2, 5.1).
        return (*(item.node_id for item in reversed(path.info.path)), target)

    def permits(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Return whether policy allows a path."""
        return self._paths.refusal_of(scope, *relays) is None

    def report_routing(
        self,
        now: float,
        key: int,
        targets: frozenset[NodeId],
        scope: str,
        unserved: Mapping[NodeId, Unserved],
    ) -> None:
        """Report the outcome of routing for a track of ours, with the targets without data."""
        failures = {target: self._failure(target, scope, item) for target, item in unserved.items()}
        self._routed(now, key, targets, failures)

    def _failure(self, target: NodeId, scope: str, item: Unserved) -> DeliveryFailure:
        if item.code is not SnsRefusal.POLICY:
            return DeliveryFailure(
                SubscribeCode.UNREACHABLE, item.reason, self._settings.origin_grace
            )
        node = self._node(target)
        dialled = (
            self._settings.dynamic_peering
            and node is not None
            and bool(node.contacts)
            and self._links.session_to(target, 0) is None
            and self._paths.refusal_of(scope, target) is None
        )
        return DeliveryFailure(SubscribeCode.POLICY, item.reason, _DIAL_TIME if dialled else 0.0)

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        """Return the session that takes data to a peer; None if there is none."""
        return self._links.session_to(node, key, used)

    def node_of(self, session: int) -> NodeId:
        """Return the peer of a session. Raises ``StateError`` if there is none."""
        link = self._links.get(session)
        if link is None or link.node is None:
            raise StateError(f"there is no peer on session {session}")
        return link.node

    def may_serve(self, session: int, target: NodeId) -> bool:
        """Return whether a peer may send us data for a target: it was advertised to that peer."""
        if target == self._local:
            return True
        link = self._links.get(session)
        return (
            link is not None
            and link.node is not None
            and self._nib.advertised_to(link.node, target)
        )

    # Sets

    def advertise_sns(
        self, now: float, session: int, targets: Iterable[NodeId], hops: int, scope: str
    ) -> int:
        """Advertise a new set; return its id."""
        chosen = tuple(sorted(targets))
        sns_id = self._wire(session).advertise_sns(now, chosen, hops=hops, scope=scope)
        # assign() precedes each new set; a set of transit data has no key.
        self._set_changed(session, sns_id, chosen, None if hops else self._assigned)
        return sns_id

    def update_sns(self, now: float, session: int, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Change the targets of a set."""
        chosen = tuple(sorted(targets))
        self._wire(session).update_sns(now, sns_id, chosen)
        self._set_changed(session, sns_id, chosen)

    def withdraw_sns(self, now: float, session: int, sns_id: int, *, empty: bool = False) -> None:
        """Withdraw a set; with ``empty`` its targets are removed first."""
        self._wire(session).withdraw_sns(now, sns_id, empty=empty)
        if (gone := self._set_log.gone(session, sns_id, incoming=False)) is not None:
            self._emit(gone)

    def refuse_sns(
        self, now: float, session: int, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId]
    ) -> None:
        """Refuse targets of a peer's set: they get no data."""
        chosen = tuple(targets)
        self._wire(session).refuse_sns(now, sns_id, code, chosen)
        self._emit(
            SetRefused(
                session=session,
                node=self.node_of(session),
                sns_id=sns_id,
                code=code,
                targets=len(chosen),
            )
        )

    def set_advertised(self, session: int, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Log that a peer made or changed a set."""
        self._set_changed(session, sns_id, targets, incoming=True)

    def set_withdrawn(self, session: int, sns_id: int) -> None:
        """Log that a peer withdrew a set."""
        if (gone := self._set_log.gone(session, sns_id, incoming=True)) is not None:
            self._emit(gone)

    def session_gone(self, session: int) -> None:
        """Log the end of all sets of a session."""
        for gone in self._set_log.session_gone(session):
            self._emit(gone)

    def _set_changed(
        self,
        session: int,
        sns_id: int,
        targets: Iterable[NodeId],
        key: int | None = None,
        *,
        incoming: bool = False,
    ) -> None:
        news = self._set_log.changed(session, sns_id, targets, incoming=incoming, key=key)
        if news is not None:
            self._emit(news)


_BATCHES: Final = 2
"""How many batching times a lost route may take to come back before the sender is informed.

Node information is batched, refusals are not. Within this time either another path appears, or the
withdrawal of the node is under way to the sender, with the same meaning."""
_MAX_DOUBLINGS: Final = 16
_LOST: Final = frozenset({SnsRefusal.NOT_ADVERTISED, SnsRefusal.TOO_MANY_HOPS})
"""Refusals that mean that a path does not exist."""
_PATIENCE: Final = 10
"""How many batching times a longer path must last before it replaces the current one.

A refusal from where the current path is lost arrives earlier: it is not batched."""


class Choice(NamedTuple):
    """For some targets of an ingress: a session, or the reason for none."""

    homes: dict[NodeId, int]
    """Also of targets that keep a session although they have no path."""
    hops: dict[int, NodeId]
    """The next hop for which each of the sessions was chosen."""
    unserved: dict[NodeId, Unserved]


class Chooser:
    """Chooses sessions, and keeps the refusals of peers."""

    __slots__ = ("_routing", "_settings")

    def __init__(self, routing: SetRouting, settings: NetworkSettings) -> None:
        self._routing = routing
        self._settings = settings

    def choose(self, now: float, record: IngressRecord, targets: Iterable[NodeId]) -> Choice:
        """Return a session for each of these targets, which are in ascending order."""
        choice = Choice({}, {}, {})
        asked: list[NodeId] = []
        for target in targets:
            if record.hops > MAX_HOPS:
                choice.unserved[target] = Unserved(
                    SnsRefusal.TOO_MANY_HOPS, f"{record.hops - 1} sets lead here", now
                )
            elif not record.is_feed and not self._routing.may_serve(record.ingress.session, target):
                self._keep(record, target, choice)
                choice.unserved[target] = Unserved(
                    SnsRefusal.NOT_ADVERTISED, "not advertised to this peer", now
                )
            else:
                asked.append(target)
        if asked:
            self._steer(now, record, asked, choice)
        return choice

    def block(
        self, now: float, record: IngressRecord, target: NodeId, peer: NodeId, code: int
    ) -> None:
        """Avoid a peer for a target for a while, after a refusal."""
        blocks = record.blocks.setdefault(target, {})
        known = blocks.get(peer)
        tries = 1 if known is None else known.tries + 1
        wait = self._settings.convergence
        if code == SnsRefusal.NOT_ADVERTISED:
            doublings = min(tries + 1, _MAX_DOUBLINGS)
            wait = min(wait, self._settings.batch * 2**doublings)
        length = self._length(record, peer, target)
        blocks[peer] = Block(code, tries, now + wait, True, length)

    def unblock(self, record: IngressRecord, target: NodeId) -> None:
        """Let peers be tried again that had lost a target and may have another path now."""
        blocks = record.blocks.get(target, {})
        for peer in list(blocks):
            block = blocks[peer]
            if block.code in _LOST and block.length != self._length(record, peer, target):
                blocks[peer] = block._replace(active=False)

    def relays(self, target: NodeId, session: int) -> tuple[NodeId, ...]:
        """Return the relays on the path to a target over a session; () if none is advertised."""
        return self._routing.relays(self._routing.node_of(session), target)

    def may_stay(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Return whether policy permits streams to go on along a path, advertised or not."""
        return bool(relays) and self._routing.permits(scope, relays)

    def expire(self, now: float, record: IngressRecord) -> list[NodeId]:
        """Let what has waited long enough be tried: peers that refused, and longer paths.

        Return the targets to choose again, some perhaps twice.
        """
        again = [target for target in sorted(record.waits) if record.waits[target] <= now]
        for target in again:
            del record.waits[target]
            del record.taken[target]
        for target in sorted(record.blocks):
            blocks = record.blocks[target]
            for peer, block in blocks.items():
                if not block.active or block.until > now:
                    continue
                if block.code == SnsRefusal.POLICY and target in record.home:
                    blocks[peer] = block._replace(until=now + self._settings.convergence)
                else:
                    blocks[peer] = block._replace(active=False)
                    again.append(target)
        return again

    def _steer(
        self, now: float, record: IngressRecord, targets: list[NodeId], choice: Choice
    ) -> None:
        assignment = self._routing.assign(
            now, record.key, frozenset(targets), record.scope, arrived_on=record.arrived_on
        )
        for target in targets:
            hop: NodeId | Refusal | None = assignment.next_hop.get(target)
            if hop is None:
                hop = assignment.unreachable.get(target, Refusal("", f"no way to {target}"))
            avoid = record.avoided(target)
            if isinstance(hop, NodeId) and not record.is_feed:
                hop = self.steady(now, record, target, hop)
                if isinstance(hop, Refusal):
                    self._keep(record, target, choice)
                    choice.unserved[target] = Unserved(SnsRefusal.NOT_ADVERTISED, hop.reason, now)
                    continue
            if hop in avoid:
                hop = self._detour(record, target, avoid)
            elif hop not in record.blocks.get(target, ()):
                # The best path avoids the peers that refused: the route has changed.
                record.blocks.pop(target, None)
            self._place(now, record, target, hop, choice)

    def steady(
        self, now: float, record: IngressRecord, target: NodeId, hop: NodeId
    ) -> NodeId | Refusal:
        """Return what a relay in between does if ``hop`` is best: go there, stay, or give up."""
        taken = record.taken.get(target)
        if taken is None:
            return hop
        wait = record.waits.pop(target, None)
        block = record.blocks.get(target, {}).get(taken.peer)
        if block is not None and block.active and block.code in _LOST:
            return Refusal("", f"refused by {taken.peer}")
        if hop == taken.peer:
            return hop
        if target not in record.home or self._length(record, taken.peer, target) is None:
            return Refusal("", f"the way to {target} through {taken.peer} is lost")
        length = self._length(record, hop, target)
        if length is None or length <= taken.length or self._drains(record, taken.peer, target):
            return hop
        record.waits[target] = now + _PATIENCE * self._settings.batch if wait is None else wait
        return taken.peer

    def _detour(
        self, record: IngressRecord, target: NodeId, avoid: frozenset[NodeId]
    ) -> NodeId | Refusal:
        """Return another next hop, or a refusal; a peer's refusal goes before "no path"."""
        hop = self._routing.detour(target, record.scope, arrived_on=record.arrived_on, avoid=avoid)
        if isinstance(hop, NodeId) and hop not in avoid:
            return hop
        codes = {block.code for block in record.blocks[target].values() if block.active}
        rule = "peer" if SnsRefusal.POLICY in codes else ""
        return Refusal(rule, f"refused by {', '.join(str(peer) for peer in sorted(avoid))}")

    def _place(
        self,
        now: float,
        record: IngressRecord,
        target: NodeId,
        hop: NodeId | Refusal,
        choice: Choice,
    ) -> None:
        later = now + _BATCHES * self._settings.batch
        if isinstance(hop, Refusal):
            if hop.rule:
                due = later if self._may_return(record, target) else now
                choice.unserved[target] = Unserved(SnsRefusal.POLICY, hop.reason, due)
                return
            reason = hop.reason
        elif hop == record.arrived_on:
            # Steering does not return this; the check guards against a loop.
            reason = f"the way leads back to {hop}"
        elif (session := self._session_to(hop, record)) is None:
            reason = f"no session for data to {hop}"
        else:
            choice.homes[target] = session
            choice.hops[session] = hop
            if not record.is_feed:
                record.took(target, hop, self._length(record, hop, target))
            return
        self._keep(record, target, choice)
        choice.unserved[target] = Unserved(SnsRefusal.NOT_ADVERTISED, reason, later)

    def _may_return(self, record: IngressRecord, target: NodeId) -> bool:
        """Return whether a target with only forbidden paths had one that may be back soon.

        Neither policy nor the peer took that path away: it is lost, as when the node restarts. If
        it comes back before the sender was informed of its loss, the sender is not informed of its
        return either, and would avoid this relay for good: policy is not tried again.
        """
        taken = record.taken.get(target)
        return taken is not None and taken.peer not in record.avoided(target)

    def _length(self, record: IngressRecord, peer: NodeId, target: NodeId) -> int | None:
        return self._routing.length(peer, target, record.scope, arrived_on=record.arrived_on)

    def _drains(self, record: IngressRecord, peer: NodeId, target: NodeId) -> bool:
        return self._routing.drains(peer, target, record.scope, arrived_on=record.arrived_on)

    def _session_to(self, hop: NodeId, record: IngressRecord) -> int | None:
        """Return one of the sessions to a peer, the same for all targets of an ingress.

        Only some targets of a peer's set are chosen at a time, and sessions come and go in between.
        So later targets follow the others: in two sets the data would cross the link twice.
        """
        used = () if record.is_feed else record.current
        return self._routing.session_to(hop, record.spread, used)

    def _keep(self, record: IngressRecord, target: NodeId, choice: Choice) -> None:
        """Let a target of a peer's set keep its session, unless that very peer has refused it."""
        session = record.home.get(target)
        if record.is_feed or session is None:
            return
        avoid = record.avoided(target)
        if not avoid or self._routing.node_of(session) not in avoid:
            choice.homes[target] = session
