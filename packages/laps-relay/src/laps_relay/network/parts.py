"""The parts of a network relay, and what they ask of each other through it.

``Sets`` and ``Interests`` know the relay around them only as their hosts: which next hop, which
session, which stamp. Here all parts are made, and ``Interests`` is answered; ``Sets`` is answered
in :mod:`.set_hosting`. :mod:`laps_relay.network.core` makes things happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from laps_relay.network import events
from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.control_server.servers import Servers
from laps_relay.network.control_server.sharding import Sharding, rendezvous
from laps_relay.network.fetch.fetch_roads import FetchRoads
from laps_relay.network.fetch.fetches import Fetches
from laps_relay.network.flood.advertising import Advertiser
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries
from laps_relay.network.flood.flood_exports import FloodExports
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.flood.withheld import Withheld
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.nodes.selection import Order, default_order
from laps_relay.network.nodes.suspicions import Lies
from laps_relay.network.nodes.ways import Ways
from laps_relay.network.sets.set_hosting import SetHosting
from laps_relay.network.sets.set_log import SetLog
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.steering import Steering
from laps_relay.network.subscriptions.interest_host import AnnounceTable, SubscribeTable
from laps_relay.network.subscriptions.interests import Interests
from laps_relay.network.subscriptions.passed import PassedResponses
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import Policy
from laps_sdk.peering.dialler import Dialler, RandomSource
from laps_sdk.peering.events import PeerAuthenticator
from laps_sdk.peering.foreign_peers import ForeignPeerFactory, ForeignPeerWire
from laps_sdk.peering.links import Links
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.sending import ResponseReplay
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import Answer, Feed, LocalSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    PayloadFormat,
    RelayType,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeResponse,
)
from laps_wire.peering.laps2.settings import HASH_CHECK_NAME

_NOBODY: Final[frozenset[NodeId]] = frozenset()

__all__ = ["Due", "ForeignPeerFactory", "ForeignPeerWire", "NetworkParts"]


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
    STAY = "our load, when all have moved who heard that we go away"
    APART = "an Edge that had time for its sessions with control servers"


class NetworkParts(SetHosting):
    """All parts; the host of ``Sets`` and of ``Interests``."""

    __slots__ = (
        "_advertiser",
        "_all_clocks",
        "_changed_keys",
        "_clocks",
        "_contexts",
        "_dialled_servers",
        "_dialler",
        "_exports",
        "_feeds",
        "_fetches",
        "_guests",
        "_hasher",
        "_lies",
        "_local",
        "_news",
        "_next_feed",
        "_passed",
        "_placed",
        "_plane",
        "_policy",
        "_prober",
        "_recent",
        "_refilled",
        "_routes",
        "_server",
        "_servers",
        "_sets",
        "_settling",
        "_sharding",
        "_timers",
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
        known_keys: Mapping[NodeId, bytes] | None = None,
    ) -> None:
        """``challenge`` gives 32 random bytes, ``contexts`` 32 random bits that are not 0.

        ``order`` says which of several ways to a node is best (:mod:`.selection`); ``known_keys``
        are those that held node ids in a former life.
        """
        self._settings, self._policy = settings, policy
        self._local: LocalSide | None = None
        self._guests: ForeignPeerFactory | None = None
        self._contexts, self._hasher = contexts, hasher
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
        self._assigned = None
        serves = settings.relay_type is RelayType.CONTROL
        self._server = ControlServer(node, self) if serves else None
        self._servers = Servers(self._nib, settings.hold)
        self._interests = Interests(identity, settings, hasher, self)
        self._exports = FloodExports(
            self,
            self._links,
            self._nib,
            self._sharding,
            server=self._server,
            announcers=self._interests.announcers,
            policy=policy,
        )
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(node), settings, exports=self._exports.announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(node),
            settings,
            exports=self._exports.subscribe,
            audience=None if self._server is None else self._server.audience,
        )
        self._advertiser = Advertiser(self._nib, self.announces, self.subscribes)
        self._fetches = Fetches(node, self._roads(contexts), hasher)
        self._peers = Peers(
            identity,
            settings,
            authenticator,
            challenge=challenge,
            hash_check=hasher.full_name(*HASH_CHECK_NAME),
            may_peer=policy.peer,
            node_info=lambda: self._own.info,
            implementation=implementation,
            known_keys=known_keys,
        )
        self._dialler = Dialler(
            random, relay_type=settings.relay_type, own_contacts=identity.contacts
        )
        self._recent = ResponseReplay(settings.hold)
        self._placed = self._refilled = float("-inf")
        """When we last tried to find out where we stand, and when peers were last asked for
        everything, because a Via keeps nothing itself."""
        self._passed = PassedResponses(settings.convergence)
        self._events = []
        self._feeds: dict[int, Feed] = {}
        """By key: tracks that enter the network here."""
        self._next_feed = 1
        self._changed_keys: dict[int, None] = {}
        self._timers: Timers[tuple[Due, int]] = Timers()
        self._clocks = (
            *self._prober.clocks,
            *self._nib.clocks,
            *self.announces.clocks,
            *self.subscribes.clocks,
            *self._interests.clocks,
            *self._sets.clocks,
            *self._steering.clocks,
            *self._plane.clocks,
        )
        self._all_clocks = (self._timers, *self._clocks)
        """The timers of the parts, and with our own, looked at after every event; the same objects
        for ever."""
        self._settling = self._news = False
        """Whether something has happened that peers may have to be told."""
        self._routes: dict[NodeId, tuple[NodeId, ...]] = {}
        """The relays on the best way to each node, as last told to the log."""
        self._wishes: dict[NodeId, tuple[str, ...]] = {}
        """Who is to be dialled on demand, and where."""
        self._withheld = Withheld(self._exports.hearers)
        self._dialled_servers: dict[NodeId, tuple[str, ...]] = {}

    def _roads(self, contexts: Callable[[], int]) -> FetchRoads:
        """The relay as its fetches see it."""
        return FetchRoads(
            self._own.node_id,
            self,
            links=self._links,
            nib=self._nib,
            sets=self._sets,
            plane=self._plane,
            interests=self._interests,
            server=self._server,
            contexts=contexts,
            send=self._send,
        )

    # What Interests asks

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""
        return self._policy

    def stamp(self) -> Stamp:
        """The next stamp of our own."""
        return self._own.stamp()

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

    # What goes to peers

    def _send(self, now: float, session: int, message: Any) -> bool:
        """Send a message; whether there was somebody to send it to."""
        return self._peers.send(now, session, message)
