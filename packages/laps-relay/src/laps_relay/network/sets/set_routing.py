"""Routing of subscriber node sets, and the messages that inform peers about sets.

:class:`SetRouting` connects :class:`~laps_relay.network.sets.sets.Sets` to other rooms: steering
chooses next hops, the links know the sessions, and the peering sessions carry the SNS messages. It
emits an event for each change of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from laps_relay.network.events import NetworkEvent, SetChanged, SetGone, SetRefused
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.nodes.selection import LOAD_WEIGHTS
from laps_relay.network.sets.set_records import Unserved
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.steering import Assignment, Steering
from laps_relay.network.subscriptions.origin_track import DeliveryFailure
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Links
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, SnsRefusal, SubscribeCode
from laps_wire.peering.session import PeeringSession

__all__ = ["SetLog", "SetRouting"]


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
