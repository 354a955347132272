"""The parts of a network relay, and what they ask of each other through it.

``Sets`` and ``Interests`` know the relay around them only as their hosts: which next hop, which
session, which stamp. This module answers them; :mod:`laps_relay.core.network.core` makes things
happen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

from laps_relay.core.network import events
from laps_relay.core.network.advertising import Advertiser
from laps_relay.core.network.control_server import ControlServer
from laps_relay.core.network.dial_slots import RandomSource
from laps_relay.core.network.dialling import Dialler
from laps_relay.core.network.entries import AnnounceEntries, SubscribeEntries
from laps_relay.core.network.events import NetworkEvent
from laps_relay.core.network.floods import FloodTable
from laps_relay.core.network.guests import GuestFactory, GuestWire
from laps_relay.core.network.interest_host import AnnounceTable, SubscribeTable
from laps_relay.core.network.interests import Interests
from laps_relay.core.network.interfaces import (
    Answer,
    Assignment,
    Feed,
    Identity,
    LocalSide,
    NetworkSettings,
    Order,
    Policy,
    Refusal,
)
from laps_relay.core.network.links import Link, Links
from laps_relay.core.network.nib import Nib
from laps_relay.core.network.own_node import OwnNode
from laps_relay.core.network.passed import PassedResponses
from laps_relay.core.network.peers import PeerAuthenticator, Peers
from laps_relay.core.network.probing import Prober
from laps_relay.core.network.pulls import Lack
from laps_relay.core.network.responses import RecentResponses
from laps_relay.core.network.selection import default_order
from laps_relay.core.network.servers import Servers
from laps_relay.core.network.set_log import SetLog
from laps_relay.core.network.set_records import Unserved
from laps_relay.core.network.sets import Sets
from laps_relay.core.network.sharding import Sharding, rendezvous
from laps_relay.core.network.steering import Steering
from laps_relay.core.network.suspicions import Lies
from laps_relay.core.network.ways import Ways
from laps_relay.core.network.withheld import Withheld
from laps_relay.core.peer_plane.plane import PeerPlane
from laps_relay.core.timers import Timers
from laps_wire.errors import StateError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    PayloadFormat,
    RelayType,
    SnsRefusal,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.settings import HASH_CHECK_NAME

_NOBODY: Final[frozenset[NodeId]] = frozenset()
_DIAL_TIME: Final = 2.0
"""How long a relay may take to be a peer before it is said that no other way is allowed."""

__all__ = ["Due", "GuestFactory", "GuestWire", "NetworkParts"]


class Due(Enum):
    """What a timer is for; its key is (this, the session), or 0 if it is for all."""

    __hash__ = object.__hash__  # asked after every event; the one of Enum hashes the name

    LOOK = "differences for all peers that are behind"
    FLUSH = "everything for a peer that must be told again"
    REFILL = "what others have, for peers that are new at a Via that keeps nothing"
    RESYNC = "announces and subscribes for a peer, once others have told them again"
    REACH = "whom we reach ourselves"
    PLACE = "where we seem to stand"
    IDLE = "a connection that was dialled on demand and has no use"
    APART = "an Edge that had time for its sessions with control servers"


class NetworkParts:
    """All parts; the host of ``Sets`` and of ``Interests``."""

    __slots__ = (
        "_advertiser",
        "_assigned",
        "_changed_keys",
        "_clocks",
        "_contexts",
        "_dialled_servers",
        "_dialler",
        "_events",
        "_feeds",
        "_guests",
        "_hasher",
        "_interests",
        "_lies",
        "_links",
        "_local",
        "_news",
        "_next_feed",
        "_nib",
        "_own",
        "_passed",
        "_peers",
        "_placed",
        "_plane",
        "_policy",
        "_prober",
        "_recent",
        "_refilled",
        "_routes",
        "_server",
        "_servers",
        "_set_log",
        "_sets",
        "_settings",
        "_settling",
        "_sharding",
        "_steering",
        "_timers",
        "_ways",
        "_wishes",
        "_withheld",
        "announces",
        "subscribes",
    )

    def __init__(
        self,
        identity: Identity,
        settings: NetworkSettings,
        *,
        hasher: KeyedHasher,
        authenticator: PeerAuthenticator,
        challenge: Callable[[], bytes],
        contexts: Callable[[], int],
        random: RandomSource,
        policy: Policy,
        implementation: str = "",
        order: Order = default_order,
    ) -> None:
        """``challenge`` gives 32 random bytes, ``contexts`` 32 random bits that are not 0.

        ``order`` says which of several ways to a node is best (:mod:`.selection`).
        """
        self._settings = settings
        self._policy = policy
        self._local: LocalSide | None = None
        self._guests: GuestFactory | None = None
        self._contexts = contexts
        self._hasher = hasher
        self._own = OwnNode(identity, settings.relay_type, authenticator.sign_node)
        node = self._own.node_id
        self._links = Links()
        self._lies = Lies()
        self._sharding = Sharding(node)
        self._nib = Nib(self._own.info, settings, order=order, policy=policy)
        self._plane = PeerPlane(
            None, set_linger=settings.set_linger, continue_after=settings.continue_after
        )
        self._prober = Prober(node, settings, self._nib)
        self._steering = Steering(
            node, self._nib, policy, settings, round_trips=self._prober.round_trips
        )
        self._ways = Ways(node, self._nib, policy)
        self._sets = Sets(node, self, self._plane, settings)
        self._set_log = SetLog()
        self._assigned: int | None = None
        """The key for which ways were last asked: that of the set of ours that comes next."""
        serves = settings.relay_type is RelayType.CONTROL
        self._server = ControlServer(node, self) if serves else None
        self._servers = Servers(self._nib, settings.hold)
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(node), settings, exports=self._exports_announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(node),
            settings,
            exports=self._exports_subscribe,
            audience=None if self._server is None else self._server.audience,
        )
        self._advertiser = Advertiser(self._nib, self.announces, self.subscribes)
        self._interests = Interests(identity, settings, hasher, self)
        self._peers = Peers(
            identity,
            settings,
            authenticator,
            challenge=challenge,
            hash_check=hasher.full_name(*HASH_CHECK_NAME),
            policy=policy,
            node_info=lambda: self._own.info,
            implementation=implementation,
        )
        self._dialler = Dialler(
            random, relay_type=settings.relay_type, own_contacts=identity.contacts
        )
        self._recent = RecentResponses(settings.hold)
        self._placed = self._refilled = float("-inf")
        """When we last tried to find out where we stand, and when peers were last asked for
        everything, because a Via keeps nothing itself."""
        self._passed = PassedResponses(settings.convergence)
        self._events: list[NetworkEvent] = []
        self._feeds: dict[int, Feed] = {}
        """By key: tracks that enter the network here."""
        self._next_feed = 1
        self._changed_keys: dict[int, None] = {}
        self._timers: Timers[tuple[Due, int]] = Timers()
        self._clocks = (
            self._timers,
            *self._prober.clocks,
            *self._nib.clocks,
            *self.announces.clocks,
            *self.subscribes.clocks,
            *self._interests.clocks,
            *self._sets.clocks,
        )
        """What is looked at after every event; the same objects for ever."""
        self._settling = self._news = False
        """Whether something has happened that peers may have to be told."""
        self._routes: dict[NodeId, tuple[NodeId, ...]] = {}
        """The relays on the best way to each node, as last told to the log."""
        self._wishes: dict[NodeId, tuple[str, ...]] = {}
        """Who is to be dialled on demand, and where."""
        self._withheld = Withheld(self._hearers)
        self._dialled_servers: dict[NodeId, tuple[str, ...]] = {}

    # What Interests asks

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""
        return self._policy

    def stamp(self) -> Stamp:
        """The next stamp of our own."""
        return self._own.stamp()

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too."""
        if node == self._own.node_id:
            return self._own.info.node
        info = self._nib.info(node)
        return None if info is None else info.node

    def reaches(self, node: NodeId) -> bool:
        """Whether policy leaves any way to a node; there is always one to ourselves."""
        return node == self._own.node_id or bool(self._nib.candidates(node))

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """The control servers that hold our subscribe for a key, perhaps told by a peer."""
        return self._sharding.replicas(key) or rendezvous(key, self._servers.known)

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Send a response over a session, at once."""
        if self._send(now, session, response):
            self._recent.sent(now, session, response)

    def targets_changed(self, now: float, key: int) -> None:  # noqa: ARG002 - looked at together
        """The s-relays that want a track of ours are others now."""
        self._changed_keys[key] = None

    def refused(self, now: float, key: int, source: NodeId, code: int, reason: str) -> None:  # noqa: ARG002
        """A subscribe was refused."""
        self._events.append(
            events.SubscribeRefused(key=key, source=source, code=code, reason=reason)
        )

    def pull(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Somebody in the network wants a track that was announced here."""
        if key in self._feeds:
            # That of a publisher that has just ended it: this is another flow.
            self._close_feed(now, key)
        feed = self._plane.open_feed(self._next_feed, key, self._contexts(), PayloadFormat.MOQT_18)
        self._next_feed += 1
        self._feeds[key] = feed
        self._changed_keys[key] = None
        if self._local is not None:
            self._local.pull(now, key, name, data, feed)

    def pull_again(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """One more does, or one of them wants something else of it."""
        feed = self._feeds.get(key)
        if self._local is not None and feed is not None:
            self._local.pull(now, key, name, data, feed)

    def release(self, now: float, key: int) -> None:
        """Nobody does any more."""
        self._changed_keys.pop(key, None)
        if self._local is not None:
            self._local.release(now, key)
        feed = self._feeds.get(key)
        if feed is not None:
            # Streams under way end, too: the last one who wanted them is gone, or may not.
            self._sets.set_feed(now, feed.ingress, key, _NOBODY, "")
        self._close_feed(now, key)

    def _close_feed(self, now: float, key: int) -> None:
        """No more streams begin; those under way go on to where they go."""
        feed = self._feeds.pop(key, None)
        if feed is not None:
            self._sets.drop_feed(now, feed.ingress)
            self._plane.close_feed(now, feed.ingress.set_id)
        self._steering.release(key)

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """What became of a want."""
        if self._local is not None:
            self._local.answered(now, key, answer, code=code, reason=reason, data=data)

    def discovered(self, now: float, entry: AnnounceInfo) -> None:
        """Somebody else announced a name."""
        if self._local is not None:
            self._local.discovered(now, entry)

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Nobody else announces it any more."""
        if self._local is not None:
            self._local.vanished(now, kind, name)

    # What Sets asks

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

    def withdraw_sns(self, now: float, session: int, sns_id: int) -> None:
        """End a set."""
        self._peers.wire(session).withdraw_sns(now, sns_id)
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

    # What goes to peers

    def _send(self, now: float, session: int, message: Any) -> bool:
        """Send a message; whether there was somebody to send it to."""
        if self._peers.up(session) is None:
            return False
        self._peers.wire(session).send(now, message)
        return True

    def _peer(self, link: Link) -> NodeSelf | None:
        """What a peer says of itself now, which may be other than in its handshake."""
        if link.info is None or link.node is None:
            return None
        return self.node(link.node) or link.info.node

    def _announce_goes(self, session: int, entry: AnnounceInfo) -> bool:
        if self._server is not None:
            return self._server.exports_announce(session, entry)
        heard_on = partial(self.announces.heard_on, entry.identity)
        return self._sharding.exports_announce(session, entry, heard_on)

    def _subscribe_goes(self, session: int, entry: SubscribeInfo) -> bool:
        if self._server is not None:
            return self._server.exports_subscribe(session, entry)
        heard_on = partial(self.subscribes.heard_on, entry.identity)
        return self._sharding.exports_subscribe(session, entry, heard_on)

    def _exports_announce(self, session: int, entry: AnnounceInfo) -> bool:
        link = self._links.get(session)
        return (
            link is not None
            and (peer := self._peer(link)) is not None
            and self._announce_goes(session, entry)
            and self._policy.export_announce(entry, peer) is None
        )

    def _exports_subscribe(self, session: int, entry: SubscribeInfo) -> bool:
        link = self._links.get(session)
        return (
            link is not None
            and (peer := self._peer(link)) is not None
            and self._subscribe_goes(session, entry)
            and self._policy.export_subscribe(entry, peer) is None
        )

    def _hearers(self, entry: SubscribeInfo) -> Iterator[tuple[NodeSelf, bool]]:
        """The peers that hear of a subscribe if policy lets them, and who leads to an answer."""
        identity = entry.source, entry.full_name_hash
        back, sharded = self.subscribes.heard_on(identity), self._sharding.active
        if self._server is not None:
            # It asks few of its many Edges: those that have announced it.
            links = map(self._links.get, self._server.answering(entry))
            peers = [self._peer(link) for link in links if link and link.session != back]
            yield from ((peer, True) for peer in peers if peer and peer.node_id != entry.source)
            return
        announcers = self._interests.announcers(entry)
        ways = {way.peer for node in announcers for way in self._nib.candidates(node)}
        for link in self._links.controls():
            if (
                (peer := self._peer(link)) is not None
                and link.session != back
                and link.node != entry.source
                and self._subscribe_goes(link.session, entry)
            ):
                yield peer, sharded or link.node in ways
