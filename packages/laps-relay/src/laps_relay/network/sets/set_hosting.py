"""What subscriber node sets ask of the relay around them, answered by its other parts.

Steering says which way, the links which session, the peers take the messages, and telemetry hears
what became of each set (:class:`~laps_relay.network.sets.set_host.SetHost` has the questions).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.selection import LOAD_WEIGHTS
from laps_relay.network.nodes.ways import Ways
from laps_relay.network.sets.set_log import SetLog
from laps_relay.network.sets.set_records import Unserved
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.steering import Assignment, Steering
from laps_relay.network.subscriptions.interests import Interests
from laps_relay.network.subscriptions.pulls import Lack
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Links
from laps_sdk.peering.peers import Peers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, SnsRefusal, SubscribeCode

__all__ = ["SetHosting"]

_DIAL_TIME: Final = 2.0
"""How long a relay may take to be a peer before it is said that no other way is allowed."""


class SetHosting:
    """The host of ``Sets``: the parts that answer it. Whoever has all parts makes them."""

    __slots__ = (
        "_assigned",
        "_events",
        "_interests",
        "_links",
        "_nib",
        "_own",
        "_peers",
        "_set_log",
        "_settings",
        "_steering",
        "_ways",
    )

    _assigned: int | None
    """The key for which ways were last asked: that of the set of ours that comes next."""
    _events: list[NetworkEvent]
    _interests: Interests
    _links: Links
    _nib: Nib
    _own: OwnNode
    _peers: Peers
    _set_log: SetLog
    _settings: NetworkSettings
    _steering: Steering
    _ways: Ways

    # Where to

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too."""
        if node == self._own.node_id:
            return self._own.info.node
        info = self._nib.info(node)
        return None if info is None else info.node

    def assign(
        self,
        now: float,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        """The best next hop of each target."""
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
        """The next hop of the best way that does not begin with any of those peers."""
        shut = avoid if arrived_on is None else avoid | {arrived_on}
        for way in self._ways.allowed(target, scope):
            if way.peer not in shut and (arrived_on is None or arrived_on not in way.relays):
                return way.peer
        return self._ways.why_none(target, scope, arrived_on)

    def length(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> int | None:
        """How many relays are on the way that a peer tells; None if there is none to use."""
        way = self._ways.through(target, scope, peer, arrived_on)
        return None if way is None else way.hops

    def drains(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> bool:
        """Whether the way that a peer tells passes a relay that drains."""
        way = self._ways.through(target, scope, peer, arrived_on)
        return way is not None and way.load >= LOAD_WEIGHTS[LoadClass.DRAINING]

    def relays(self, peer: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        """Who is on the way that a peer tells; nobody if it tells none."""
        way = self._nib.told_by(target, peer)
        if way is None:
            return ()
        # The last item of a path is the next hop (laps-2, 5.1).
        return (*(item.node_id for item in reversed(way.info.path)), target)

    def permits(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Whether policy has nothing against this way."""
        return self._ways.refusal_of(scope, *relays) is None

    def led(
        self,
        now: float,
        key: int,
        wanted: frozenset[NodeId],
        scope: str,
        unserved: Mapping[NodeId, Unserved],
    ) -> None:
        """Ways were looked for, for a track of ours: tell those who do not get it."""
        lacks = {target: self._lack(target, scope, item) for target, item in unserved.items()}
        self._interests.led(now, key, wanted, lacks)

    def _lack(self, target: NodeId, scope: str, item: Unserved) -> Lack:
        if item.code is not SnsRefusal.POLICY:
            return Lack(SubscribeCode.UNREACHABLE, item.reason, self._settings.origin_grace)
        node = self.node(target)
        dialled = (
            self._settings.dynamic_peering
            and node is not None
            and bool(node.contacts)
            and self._links.session_to(target, 0) is None
            and self._ways.refusal_of(scope, target) is None
        )
        return Lack(SubscribeCode.POLICY, item.reason, _DIAL_TIME if dialled else 0.0)

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        """The session that takes data to a peer."""
        return self._links.session_to(node, key, used)

    def node_of(self, session: int) -> NodeId:
        """The peer at the other end."""
        link = self._links.get(session)
        if link is None or link.node is None:
            raise StateError(f"there is no peer on session {session}")
        return link.node

    def may_serve(self, session: int, target: NodeId) -> bool:
        """Whether that peer may send us data for a target: we have advertised it there."""
        if target == self._own.node_id:
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
        """Make a set; gives its id."""
        chosen = tuple(sorted(targets))
        sns_id = self._peers.wire(session).advertise_sns(now, chosen, hops=hops, scope=scope)
        # Ways are asked for before each set that is made; what only passes has come over a set.
        self._set_changed(session, sns_id, chosen, None if hops else self._assigned)
        return sns_id

    def update_sns(self, now: float, session: int, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Let a set have these targets."""
        chosen = tuple(sorted(targets))
        self._peers.wire(session).update_sns(now, sns_id, chosen)
        self._set_changed(session, sns_id, chosen)

    def withdraw_sns(self, now: float, session: int, sns_id: int, *, empty: bool = False) -> None:
        """End a set, with ``empty`` for its targets first."""
        self._peers.wire(session).withdraw_sns(now, sns_id, empty=empty)
        if (gone := self._set_log.gone(session, sns_id, incoming=False)) is not None:
            self._events.append(gone)

    def refuse_sns(
        self, now: float, session: int, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId]
    ) -> None:
        """Tell the sender of a set that these targets get nothing."""
        self._peers.wire(session).refuse_sns(now, sns_id, code, targets)

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
            self._events.append(news)
