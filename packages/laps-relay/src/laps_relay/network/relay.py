"""The relay of the network: handlers for its shell and its clients, operator commands, polls.

::

    shell                          NetworkRelay
    connection_opened ----------->  Peers: handshakes, sessions
    control_data, ... ----------->    |  events
    handle_timeout -------------->    v
                                    Nib, FloodTables, Interests      what is known
                                      |  changes, until there are none
                                      v
                                    Steering, Sets                   who gets data, which way
                                      |  FIB
    data_stream, datagram ------->  PeerPlane                        the hot path
    poll_dirty, poll_transmit <---  AdvertisementSchedule: differences, batched

Every public method does what it says, lets everything settle, and returns: nothing is left half
done between two calls. The relay reads no clock and does no I/O.

One round of settling, repeated until nothing changes::

    Peers.poll_events --> Nib, FloodTables, Sets, Prober, guests
    Nib changes       --> FloodTables, Interests, Sets
    flooded changes   --> Interests
    Interests         --> own entries, responses, targets --> Sets
    Steering          --> Sets, ConnectionDemand
    PeerPlane         --> Sets (idle ones), the local side
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from laps_relay.network import events
from laps_relay.network.adjacency import Adjacency
from laps_relay.network.advertisements import AdvertisementSchedule
from laps_relay.network.control_server.servers import Servers
from laps_relay.network.control_server.sharding import Sharding, rendezvous
from laps_relay.network.demand import ConnectionDemand
from laps_relay.network.events import NetworkEvent
from laps_relay.network.fetch.fetch_router import FetchRouter
from laps_relay.network.fetch.fetches import Fetches
from laps_relay.network.flood.entries import hide_name
from laps_relay.network.flood.floods import Change, Verdict
from laps_relay.network.flood_exports import ExportDenied, FloodExports
from laps_relay.network.nodes.misbehaviour import ViolationCounter
from laps_relay.network.nodes.nib import NOTHING, Nib
from laps_relay.network.nodes.node_records import Changes, Fault
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.nodes.probing import BadAnswer, Prober
from laps_relay.network.nodes.selection import Order, default_order
from laps_relay.network.origin_feeds import OriginFeeds
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings, Plan
from laps_relay.network.steering.steering import Steering
from laps_relay.network.subscriptions.responses import ResponseLoopFilter
from laps_relay.network.subscriptions.subscriptions import Subscriptions
from laps_relay.network.tables import RelayTables
from laps_relay.network.timers import Due, RelayTimers
from laps_relay.peer_forwarding.forwarding import LOCAL, HoldData, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import Policy
from laps_relay.policy.open_policy import OpenPolicy
from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering import reports
from laps_sdk.peering.dialler import Contact, Dialler
from laps_sdk.peering.events import (
    Dial,
    NodeIdConflict,
    NodeUnproved,
    PeerAuthenticator,
    PeerDown,
    PeerEvent,
    PeerRefused,
    PeerUp,
    Refusal,
)
from laps_sdk.peering.links import (
    Chunk,
    ForeignPeerFactory,
    ForeignPeerWire,
    Link,
    Links,
    PreHandshakeData,
    ResponseReplay,
)
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers, earliest, first_of
from laps_sdk.upstream.interfaces import (
    Answer,
    DataSink,
    FetchHandle,
    FetchRefusal,
    FetchSide,
    LocalSide,
)
from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import session as wire
from laps_wire.peering.errors import BadNodeError, CloseCode, SnsViolationError, StreamCode
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    Bases,
    Feature,
    Load,
    LoadClass,
    NodeInfo,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SyncRequest,
)
from laps_wire.peering.laps2.information import NO_DATA, AnnounceIdentity, SubscribeIdentity
from laps_wire.peering.laps2.settings import HASH_CHECK_NAME
from laps_wire.peering.session import Draining, Event, Role, SnsStanding, Staying, Transmit

__all__ = ["NetworkRelay"]

PARTING: Final = 10.0
"""How long a connection that is not configured any more may last, in seconds."""
STAY_WAIT: Final = 2.0
"""So long after a drain was taken back all that it moved has arrived, in seconds."""
MAX_ROUNDS: Final = 1_000
"""Rounds of settling in one turn; more can only be a fault of ours, and would hang the relay."""
QUIET: Final = frozenset(
    {
        wire.SnsAdvertised,
        wire.SnsWithdrawn,
        wire.SnsRefusedByPeer,
        wire.DataDropped,
        wire.FetchSaid,
    }
)
"""Events that change no information base, so that no other peer has to be sent anything."""
PROBES: Final = (wire.ProbeReceived, wire.ProbeAnswered)
"""Most events of a network at rest; nothing but an answer follows from them."""
_OF_SESSIONS: Final = (PeerUp, PeerDown, PeerRefused, NodeIdConflict, NodeUnproved)
"""Events about sessions themselves."""
_EDGE: Final = RelayType.EDGE
_VIOLATIONS: Final = frozenset({Fault.BAD_PATH, Fault.BAD_NODE})
"""What no honest relay says, because it would not believe it."""
_NO_DATA: Final = "data on a session, or in a direction, that carries none"


class NetworkRelay:
    """A relay of the network; its rooms are attributes, for reading."""

    __slots__ = (
        "_all_clocks",
        "_clocks",
        "_emit",
        "_events",
        "_fetch_router",
        "_guests",
        "_hasher",
        "_local",
        "_loop_filter",
        "_news",
        "_paths",
        "_policy",
        "_replay",
        "_routes",
        "_settings",
        "_settling",
        "_timers",
        "_violations",
        "adjacency",
        "advertisements",
        "announces",
        "demand",
        "dialler",
        "export_denied",
        "exports",
        "feeds",
        "fetches",
        "links",
        "nib",
        "own",
        "peers",
        "plane",
        "prober",
        "server",
        "servers",
        "set_routing",
        "sets",
        "sharding",
        "steering",
        "subscribes",
        "subscriptions",
        "tables",
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
        random: Callable[[], float],
        policy: Policy,
        implementation: str = "",
        order: Order = default_order,
        known_keys: Mapping[NodeId, bytes] | None = None,
    ) -> None:
        """Build all rooms.

        ``challenge`` returns 32 random bytes, ``contexts`` 32 random bits that are not 0.
        ``order`` ranks the paths to a node (:mod:`laps_relay.network.nodes.selection`);
        ``known_keys`` are the keys that held node ids before the last start.
        """
        self._settings = settings
        self._policy = policy
        self._hasher = hasher
        self._local: LocalSide | None = None
        self._guests: ForeignPeerFactory | None = None
        self._events: list[NetworkEvent] = []
        self._emit = self._events.append
        self._timers: RelayTimers = Timers()
        self._violations = ViolationCounter()
        self._replay = ResponseReplay(settings.hold)
        self._loop_filter = ResponseLoopFilter(settings.convergence)
        self._routes: dict[NodeId, tuple[NodeId, ...]] = {}
        """The relays on the best path to each node, as the last event gave them."""
        self._settling = False
        self._news = False
        """Whether anything has happened that peers may have to be sent."""
        self.own = OwnNode(identity, settings.relay_type, authenticator.sign_node)
        node = self.own.node_id
        self.links = Links()
        self.sharding = Sharding(node)
        self.nib = Nib(self.own.info, settings, order=order, policy=policy)
        self.plane = PeerPlane(
            None, set_linger=settings.set_linger, continue_after=settings.continue_after
        )
        self.prober = Prober(node, settings, self.nib.info)
        self.steering = Steering(
            node, self.nib, policy, settings, round_trips=self.prober.round_trips
        )
        self._paths = PathFinder(node, self.nib, policy)
        self.peers = Peers(
            identity,
            settings,
            authenticator,
            challenge=challenge,
            hash_check=hasher.full_name(*HASH_CHECK_NAME),
            may_peer=policy.peer,
            node_info=lambda: self.own.info,
            implementation=implementation,
            known_keys=known_keys,
        )
        self.dialler = Dialler(
            random, relay_type=settings.relay_type, own_contacts=identity.contacts
        )
        self.exports = FloodExports(
            node,
            settings,
            links=self.links,
            nib=self.nib,
            sharding=self.sharding,
            node=self.node,
            respond=self.respond,
            policy=policy,
        )
        self.announces = self.exports.announces
        self.subscribes = self.exports.subscribes
        self.server = self.exports.server
        self.servers = Servers(self.nib, settings.hold)
        self.feeds = OriginFeeds(
            plane=self.plane, steering=self.steering, contexts=contexts, policy=policy
        )
        self.subscriptions = Subscriptions(
            identity,
            settings,
            hasher,
            announces=self.announces,
            subscribes=self.subscribes,
            policy=policy,
            stamp=self.own.stamp,
            node=self.node,
            reaches=self._reaches,
            replicas=self._replicas,
            respond=self.respond,
            request_track=self.feeds.open_feed,
            request_again=self.feeds.request_again,
            release=self.feeds.release,
            targets_changed=self.feeds.targets_changed,
            emit=self._emit,
        )
        self.export_denied = ExportDenied(
            partial(self.exports.receivers, self.subscriptions.announcers)
        )
        self.set_routing = SetRouting(
            node,
            settings,
            nib=self.nib,
            paths=self._paths,
            steering=self.steering,
            links=self.links,
            node=self.node,
            wire=self.peers.wire,
            routed=self.subscriptions.routed,
            emit=self._emit,
        )
        self.sets = Sets(node, self.set_routing, self.plane, settings)
        self.feeds.connect(self.sets, self.subscriptions)
        self.advertisements = AdvertisementSchedule(
            settings,
            links=self.links,
            nib=self.nib,
            announces=self.announces,
            subscribes=self.subscribes,
            timers=self._timers,
            send=self._send,
        )
        self.adjacency = Adjacency(
            self.own,
            settings,
            links=self.links,
            nib=self.nib,
            prober=self.prober,
            steering=self.steering,
            timers=self._timers,
        )
        self.demand = ConnectionDemand(
            settings,
            dialler=self.dialler,
            peers=self.peers,
            links=self.links,
            nib=self.nib,
            sets=self.sets,
            steering=self.steering,
            servers=self.servers,
            timers=self._timers,
            node=self.node,
            emit=self._emit,
        )
        self._fetch_router = FetchRouter(
            node,
            links=self.links,
            nib=self.nib,
            sets=self.sets,
            plane=self.plane,
            subscriptions=self.subscriptions,
            server=self.server,
            policy=policy,
            node=self.node,
            replicas=self._replicas,
            draw=contexts,
            send=self._send,
        )
        self.fetches = Fetches(node, self._fetch_router, hasher)
        self.tables = RelayTables(
            self.own,
            links=self.links,
            nib=self.nib,
            paths=self._paths,
            announces=self.announces,
            subscribes=self.subscribes,
            subscriptions=self.subscriptions,
            sets=self.sets,
            plane=self.plane,
            prober=self.prober,
            dialler=self.dialler,
        )
        self._clocks = (
            *self.prober.clocks,
            *self.nib.clocks,
            *self.announces.clocks,
            *self.subscribes.clocks,
            *self.subscriptions.clocks,
            *self.sets.clocks,
            *self.steering.clocks,
            *self.plane.clocks,
        )
        self._all_clocks = (self._timers, *self._clocks)
        """The timers of the rooms, and with our own; always the same objects."""

    # Who we are

    @property
    def node_id(self) -> NodeId:
        """Our node id."""
        return self.own.node_id

    @property
    def info(self) -> NodeInfo:
        """What we advertise of ourselves."""
        return self.own.info

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too; None if the NIB does not have it."""
        if node == self.own.node_id:
            return self.own.info.node
        info = self.nib.info(node)
        return None if info is None else info.node

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    # What drains

    @property
    def in_transit(self) -> bool:
        """Whether data goes through us to other relays, or has still to be sent to one."""
        return self.sets.in_transit or self.plane.unsent() > 0

    @property
    def flight(self) -> float:
        """How long something may be under way to a peer, sent again if it was lost: seconds."""
        trips = [link.srtt_us for link in self.links.by_session.values() if link.up]
        return 2e-6 * max(trips) + self._settings.batch if trips else 0.0

    # Connections, from the shell

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: PeerEgress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None = None,
    ) -> None:
        """A connection stands; ``spki_hash`` is of the listener's TLS key, on both sides."""
        self.links.add(Link(session, egress, alpn, dial, opened=now))
        if dial is not None:
            self.dialler.made(now, dial.number, session)
        self.peers.opened(now, session, role=role, alpn=alpn, spki_hash=spki_hash, dial=dial)
        self._settle(now)

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Bytes of a bidirectional stream."""
        self.peers.stream_data(now, session, stream_id, data, fin)
        self._settle(now, news=False)

    def control_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """The peer reset its half of a bidirectional stream."""
        self.peers.stream_reset(now, session, stream_id, code)
        self._settle(now)

    def control_stopped(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """The peer reads our half of a bidirectional stream no more."""
        self.peers.stop_sending(now, session, stream_id, code)
        self._settle(now)

    def connection_closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """A connection is gone; its number is free again."""
        self.peers.closed(now, session, code, reason)
        self._settle(now)
        self.links.remove(session)

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float = 0.0, congested: bool = False
    ) -> None:
        """What the transport measures on a connection; the shell says it now and then."""
        link = self.links.get(session)
        if link is None:
            return
        link.srtt_us, link.loss, link.congested = srtt_us, loss, congested
        if link.guest is not None:
            link.guest.measured(now, srtt_us)
        elif link.node is not None:
            self.prober.measured(session, srtt_us)
            self.adjacency.adjoin(now, link.node)
        self._settle(now)

    def close(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """End a session ourselves."""
        self.peers.close(now, session, code, reason)
        self._settle(now)

    # Data, from the shell

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream of a peer."""
        link = self.links.get(session)
        if link is None:
            return
        try:
            self._data(now, link, stream_id, data, fin)
        except RemoteError as error:
            self._fault(now, link, error)
            self._settle(now)

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned a unidirectional stream."""
        link = self.links.get(session)
        if link is not None and link.early is not None:
            link.early.forget(stream_id)
        if link is not None and link.guest is not None:
            link.guest.stream_reset(now, stream_id, code)
        else:
            self.plane.stream_reset(now, session, stream_id, code)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram of a peer."""
        link = self.links.get(session)
        if link is None:
            return
        try:
            self._datagram(now, link, data)
        except RemoteError as error:
            self._fault(now, link, error)
            self._settle(now)

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing data stream was dropped by the egress, or stopped by the peer."""
        link = self.links.get(session)
        if link is not None and link.guest is not None:
            link.guest.out_stream_gone(now, stream, lost, stopped=stopped)
        else:
            self.plane.out_stream_gone(now, session, stream, lost, stopped=stopped)

    def _data(self, now: float, link: Link, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a stream; raises ``RemoteError`` for a peer's fault."""
        early = link.early
        if not link.up:
            if early is None:
                early = link.early = PreHandshakeData()
            if not early.add(Chunk(stream_id, data, fin)):
                link.egress.stop_sending(stream_id, StreamCode.OVERLOADED)
        elif early is not None and early.refused(stream_id):
            pass
        elif link.guest is not None:
            link.guest.stream_data(now, stream_id, data, fin)
        elif link.receives:
            self.plane.stream_data(now, link.session, stream_id, data, fin)
        else:
            raise ProtocolViolation(_NO_DATA)

    def _datagram(self, now: float, link: Link, data: bytes) -> None:
        """An object; raises like :meth:`_data`. One that comes too early is lost, as some are."""
        if link.guest is not None:
            link.guest.datagram(now, data)
        elif link.receives:
            self.plane.datagram(now, link.session, data)
        elif link.up:
            raise ProtocolViolation(_NO_DATA)

    def _late_data(self, now: float, link: Link) -> None:
        """The handshake is over: take what was faster."""
        for chunk in () if link.early is None else link.early.take():
            self._data(now, link, *chunk)

    def _release_early_data(self, now: float, session: int) -> None:
        link = self.links.get(session)
        if link is not None and link.up:
            try:
                self._late_data(now, link)
            except RemoteError as error:
                self._fault(now, link, error)

    def holder(self, session: int) -> HoldData:
        """Return what holds the data of a session until its set is known."""

        def hold(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
            standing, dropped = self.peers.wire(session).hold_data(now, sns_id, item, size)
            # A stream is one item with many chunks, and may have to leave for its own next one.
            self.plane.discard(now, session, [each.item for each in dropped])
            return standing

        return hold

    # Our own clients

    def attach(self, local: LocalSide, sink: DataSink, fetches: FetchSide | None = None) -> None:
        """Join our own clients, before any of them comes; ``fetches``: as far as they fetch."""
        self._local = local
        self.subscriptions.attach(local)
        self.feeds.attach(local)
        self.plane.attach(sink)
        if fetches is not None:
            self.fetches.attach(fetches)

    def set_guests(self, guests: ForeignPeerFactory) -> None:
        """Who takes sessions that are none of the network's own, before any of them comes."""
        self._guests = guests

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Our clients publish a track, or a namespace (then the track name is empty)."""
        self.subscriptions.announce(now, kind, name)
        self._settle(now)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """They do not any more."""
        self.subscriptions.withdraw(now, kind, name)
        self._settle(now)

    def want(self, now: float, name: FullTrackName, data: SubscribeData = NO_DATA) -> None:
        """Our clients want a track; what becomes of it is told with ``answered``."""
        key = self.key(name)
        lapsed = self.subscriptions.has_lapsed(key)
        denial = self.subscriptions.subscribe(now, name, data)
        if lapsed:
            self.feeds.catch_up(now, key)
        if denial is not None and self._local is not None:
            self._local.answered(
                now,
                key,
                Answer.REFUSED,
                code=denial.code,
                reason=denial.reason,
                data=NO_DATA,
            )
        self._settle(now)

    def unwant(self, now: float, name: FullTrackName) -> None:
        """They do not any more."""
        self.subscriptions.unsubscribe(now, name)
        self._settle(now)

    def pulled(self, now: float, key: int, data: SubscribeData = NO_DATA) -> None:
        """A publisher here accepted what was pulled."""
        self.subscriptions.publisher_accepted(now, key, data)
        self._settle(now)

    def pull_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
    ) -> None:
        """It refused."""
        self.subscriptions.publisher_refused(now, key, code, reason, data)
        self._settle(now)

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """It ended what it had accepted."""
        self.subscriptions.publisher_ended(now, key, reason)
        self._settle(now)

    def against(self, name: FullTrackName) -> str | None:
        """What policy has against a track for our own clients, wherever its publisher is."""
        refusal = self._policy.local_subscribe(name, self.own.info.node)
        return None if refusal is None else refusal.reason

    def key(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    def fetch(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        """Our clients want a range of the past; gives its ID, or why it cannot be had."""
        asked = self.fetches.asking.ask(now, name, data)
        self._settle(now, news=False)
        return asked

    def unfetch(self, now: float, fetch_id: int) -> None:
        """They do not any more."""
        self.fetches.asking.cancel(now, fetch_id)
        self._settle(now, news=False)

    def fetch_over(self, now: float, fetch_id: int) -> None:  # noqa: ARG002 - as all commands
        """Its stream has ended."""
        self.fetches.asking.over(fetch_id)

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        """A FETCH of another relay is answered; its stream goes into the feed."""
        self.fetches.fetched(now, handle, data)
        self._settle(now, news=False)

    def fetch_refused(
        self, now: float, handle: FetchHandle, code: int, reason: str, data: SubscribeData = NO_DATA
    ) -> None:
        """It is not."""
        self.fetches.refused(now, handle, FetchRefusal(code, reason, data))
        self._settle(now, news=False)

    def fetch_served(self, now: float, handle: FetchHandle) -> None:
        """Its stream has ended."""
        self.fetches.serving.served(now, handle)
        self._settle(now, news=False)

    # Operator commands

    def set_contacts(
        self, now: float, contacts: Iterable[Contact], *, seconds: float = PARTING
    ) -> None:
        """The relays to be connected with, for ever.

        Connections with others that are used end when all that they carry has found another way,
        and after ``seconds`` at the latest.
        """
        before = self.dialler.poll_unwanted()
        self.dialler.set_contacts(now, contacts)
        for session in self.dialler.poll_unwanted():
            if session not in before:
                self.demand.part(now, session, seconds)
        self._settle(now)

    def set_own_contacts(self, now: float, contacts: tuple[str, ...]) -> None:
        """How others reach us, once that is known."""
        if self.own.set_contacts(contacts):
            self.nib.set_self(now, self.own.info)
            self._settle(now)

    def set_own_label(self, now: float, name: str, value: str) -> None:
        """What else others should know of us; nothing with an empty value."""
        if self.own.set_label(name, value):
            self.nib.set_self(now, self.own.info)
            self._settle(now)

    def set_load(self, now: float, load: Load) -> None:
        """How busy we are; who drains does so to the end."""
        before = self.own.info.node.load.load_class
        if before is not LoadClass.DRAINING and self.own.set_load(load):
            self.nib.set_self(now, self.own.info)
            if load.load_class is not before:
                # An overloaded relay sends one copy towards each region.
                self.steering.invalidate()
            self._settle(now)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Another policy is in force from now on; what it forbids ends at once."""
        self._policy = policy
        self._paths.policy = policy
        self.feeds.policy = policy
        self._fetch_router.policy = policy
        self.exports.policy = policy
        self.peers.set_policy(now, policy.peer, self.node)
        self.nib.set_policy(now, policy)
        self.steering.set_policy(policy)
        self.announces.reconsider()
        self.subscribes.reconsider()
        self.subscriptions.set_policy(now, policy)
        self.export_denied.again = True
        for key in self.feeds.keys():  # noqa: SIM118 - no mapping; the keys as they are now
            self.feeds.route(now, key)  # its class may be another one
        self.sets.reroute(now, None, cut=True)
        # What a filter kept out is heard again, and what it keeps out now is not (laps-2, 5.4).
        self.advertisements.request_sync(now, lambda _: True)
        self._emit(events.PolicyChanged())
        self._settle(now)

    def forget_key(self, node: NodeId) -> bool:
        """Let another key have the id of a node that has no session; False: there is nothing."""
        if not self.peers.forget_key(node):
            return False
        self._emit(reports.KeyForgotten(node=node))
        return True

    def set_plan(self, now: float, plan: Plan) -> None:
        """Another plan from now on: a preference, which policy is asked about every time anew."""
        self.steering.set_plan(plan)
        self._settle(now)

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        """What speaks against a Via of a plan now: nobody knows it, or policy; None: nothing does.

        Policy is asked about the way over it to each node of the region that is known, and speaks
        against it if it forbids all of them. If it forbids some, steering leaves those out: a node
        that says it is in a region has no veto on plans.
        """
        info = self.nib.info(via)
        if info is None:
            return "nobody here knows this relay"
        if info.node.load.load_class is LoadClass.DRAINING:
            return "it drains"
        refusals = [
            self._paths.refusal_of(scope, via, node)
            for node in self.nib.nodes()
            if node not in (via, self.node_id)
            and (known := self.nib.info(node)) is not None
            and self._policy.region(known.node) == region
        ]
        if refusals and None not in refusals:
            return next(refusal.reason for refusal in refusals if refusal is not None)
        return None

    def place_of(self, node: NodeId) -> tuple[str, str]:
        """Region and country of a node as policy has them; empty where that is not known."""
        info = self.nib.info(node)
        if info is None:
            return "", ""
        return self._policy.region(info.node), self._policy.country(info.node)

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Go away: peers move what goes through us, and nothing new comes."""
        self.dialler.stop()
        self._timers.cancel((Due.STAY, 0))
        self.set_load(now, Load(LoadClass.DRAINING, 1000))
        # Before DRAIN: from one who does not go away it is about that connection alone.
        self.advertisements.flush_all(now)
        self.peers.drain(now, seconds, reason, alternates)
        self._settle(now)

    def stay(self, now: float) -> None:
        """Take :meth:`drain` back: sessions live, and new ones are taken at once.

        That we drain is said a moment longer: who is on the move arrives first. A target that turns
        round halfway meets relays that have not heard of both, and that send it back.
        """
        if self.own.info.node.load.load_class is not LoadClass.DRAINING:
            return
        self.dialler.resume()
        self.peers.stay(now)
        if self._timers.when((Due.STAY, 0)) is None:
            self._timers.set((Due.STAY, 0), now + STAY_WAIT)
        self._settle(now)

    def _drain_taken_back(self, now: float) -> None:
        """Whoever left us has gone: they may come back."""
        self.own.set_load(Load(LoadClass.NORMAL, 0))
        self.nib.set_self(now, self.own.info)
        self.steering.invalidate()

    def close_all(self, now: float, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """End everything at once."""
        self.dialler.stop()
        self.peers.close_all(now, code, reason)
        self._settle(now)

    # Polls and time

    def poll_dirty(self) -> list[int]:
        """Sessions that may have something to send; taken once."""
        return self.peers.poll_dirty()

    def poll_transmit(self, session: int) -> list[Transmit]:
        """What a session wants the shell to do, in order."""
        return self.peers.poll_transmit(session)

    def poll_dials(self, now: float) -> list[Dial]:
        """Whom to dial now."""
        dials = self.dialler.poll_dials(now)
        for dial in dials:
            self._emit(reports.Dialled(contact=dial.contact, node=dial.node, dynamic=dial.dynamic))
        return dials

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """A dial has led to nothing."""
        self.dialler.failed(now, number, reason)
        self._settle(now)

    def poll_events(self) -> list[NetworkEvent]:
        """What happened, for logs and telemetry; taken once."""
        for report in self.dialler.poll_reports():
            self._emit(
                reports.Dialled(
                    contact=report.contact,
                    node=report.node,
                    dynamic=report.dynamic,
                    failed=report.reason,
                )
            )
        taken = list(self._events)
        self._events.clear()
        return taken

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Which keys hold node ids, if that has changed; the next life is to be given them."""
        return self.peers.poll_known_keys()

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout`, or :meth:`poll_dials`, wants to be called."""
        return earliest(
            first_of(self._all_clocks, self.peers.poll_timeout()),
            self.steering.demand_at,
            self.plane.samples_at,
            self.dialler.poll_timeout(),
        )

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        self.peers.handle_timeout(now)
        self.nib.handle_timeout(now)
        first = first_of(self._clocks, self.plane.samples_at)
        if first is not None and first <= now:  # mostly only a session or a flush is due
            self.announces.handle_timeout(now)
            self.subscribes.handle_timeout(now)
            self.subscriptions.handle_timeout(now)
            self.sets.handle_timeout(now)
            self.plane.handle_timeout(now)
            for session, probe in self.prober.handle_timeout(now):
                self._send(now, session, probe)
        self._settle(now)
        follows = self.peers.has_events()
        while (due := self._timers.pop(now)) is not None:
            follows = True
            self._due(now, *due)
        if follows:
            self._settle(now)

    def _due(self, now: float, kind: Due, session: int) -> None:
        """A timer of our own has run out."""
        match kind:
            case Due.LOOK:
                self.advertisements.flush_behind(now)
            case Due.FLUSH:
                self.advertisements.sync_due(now, session)
            case Due.REFILL:
                self.advertisements.refill(now)
            case Due.RESYNC:
                self.advertisements.resync_due(now, session)
            case Due.PLACE:
                self.adjacency.place(now)
            case Due.STAY:
                self._drain_taken_back(now)
            case Due.REACH:
                self.adjacency.reach(now)
            case Due.IDLE:
                self.demand.idle(now, session)
            case Due.APART:
                self._flood_apart(now)

    # Settling: one event causes others, until nothing changes any more

    def _settle(self, now: float, *, news: bool = True) -> None:
        """Let everything follow that follows; a call from inside is left to the outer one.

        Without ``news`` only what happens meanwhile decides whether peers must be told something.
        """
        self._news |= news
        if self._settling:
            return
        self._settling = True
        try:
            for _ in range(MAX_ROUNDS):
                if not self._round(now):
                    break
        finally:
            self._settling = False
        if self._news:
            self._news = False
            self.advertisements.schedule(now)

    def _round(self, now: float) -> bool:
        moved = probed = False
        for session, event in self.peers.poll_events():
            if isinstance(event, PROBES):
                probed = True
                self._peer_event(now, session, event)
            else:
                moved = True
                self._news |= type(event) not in QUIET
                self._handle_event(now, session, event)
        if probed and not moved and not self._is_unsettled(now):
            # What probes teach moves nothing; an answer may be too much for a session, though.
            return self.peers.has_events()
        if self._nodes_changed(now) | self._entries_changed(now):
            moved = self._news = True
        moved |= self._steered(now)
        for notice in self.plane.poll_notices():
            moved = True
            if isinstance(notice, SetIdle):
                self.sets.idle(now, notice)
            else:
                self.feeds.renew(now, notice)
        return (moved or probed) and (self._is_unsettled(now) or self.peers.has_events())

    def _is_unsettled(self, now: float) -> bool:
        """Whether one more round would find something in any part; mostly one is all."""
        steering = self.steering
        return bool(
            self.feeds.has_changed
            or self.export_denied.again
            or self.nib.has_changes
            or self.announces.has_changes
            or self.subscribes.has_changes
            or steering.is_due(now)
            or self.plane.has_notices
            or self.dialler.has_unwanted
            or (self._settings.dynamic_peering and steering.demand_due(now))
        )

    # Sessions that come and go

    def _handle_event(self, now: float, session: int, event: PeerEvent) -> None:
        if isinstance(event, _OF_SESSIONS):
            self._session_event(now, session, event)
        else:  # most of all a peer tells something
            self._peer_event(now, session, event)

    def _session_event(
        self,
        now: float,
        session: int,
        event: PeerUp | PeerDown | PeerRefused | NodeIdConflict | NodeUnproved,
    ) -> None:
        match event:
            case PeerUp():
                self.session_up(now, session, event)
                self._release_early_data(now, session)
            case PeerDown():
                self._session_down(now, session, event)
            case PeerRefused():
                refused = self.links.remove(session)
                self._emit(
                    reports.PeerTurnedDown(
                        session=session,
                        node=event.node,
                        code=event.code,
                        reason=event.reason,
                        contact="" if refused is None else refused.contact,
                    )
                )
            case NodeIdConflict():
                self._suspect(event.node, event.node, "another key holds this node id")
            case NodeUnproved():
                link = self.links.get(session)
                if link is not None and link.node is not None:
                    # Told, but no fault of the peer's.
                    self._emit(
                        reports.NodeSuspected(node=event.node, peer=link.node, reason=event.reason)
                    )
        self.dialler.observe(now, session, event)

    def session_up(self, now: float, session: int, up: PeerUp) -> None:
        """Take a session into all tables: its handshake is over."""
        link = self.links.by_session[session]
        node = up.node.node.node_id
        link.info = up.node
        link.control, link.features = up.control, up.features
        link.sends, link.receives = up.sends_data, up.receives_data
        begun, link.opened = link.opened, now
        self._emit(
            reports.PeerAdded(
                session=session,
                node=node,
                relay_type=up.node.node.relay_type,
                mode=up.mode.name.lower(),
                alpn=up.alpn,
                control=up.control,
                dialled=up.dial is not None,
                implementation=up.settings.implementation,
                contact=link.contact,
                handshake=now - begun,
            )
        )
        if self._guests is not None:
            link.guest = self._guests(now, link, up, ForeignPeerWire(self.peers, session))
        if link.guest is not None:
            link.node = node
            return
        if up.node.node.relay_type is RelayType.STUB:
            self.peers.close(now, session, CloseCode.MODE_REFUSED, "no Stubs here")
            return
        self.links.meet(link, node)
        if link.sends or link.receives:
            self.plane.add_session(session, link.egress, self.holder(session))
        if link.control:
            self.export_denied.again = True
            takes = up.settings
            self.announces.add_session(session, source=node, room=takes.max_announces)
            self.subscribes.add_session(session, source=node, room=takes.max_subscribes)
            if self.server is not None:
                self.server.add_session(session, node, up.node.node.relay_type)
            for report in self.nib.add_peer(
                now,
                node,
                up.node,
                srtt_us=self.links.srtt_us(node),
                forwards=self.links.forwards(node),
                signed=Feature.SIGNED_NODES in up.features,
                room=up.settings.max_nodes,
            ):
                self._suspect(report.node, report.peer, report.reason)
        if link.control and up.node.node.relay_type is RelayType.CONTROL and self._is_sharded:
            self.sharding.add_server(session, node)
            self._reconsider()
        asks = Feature.PROBES in up.features
        self.prober.add_session(now, session, node, srtt_us=link.srtt_us, asks=asks)
        self.adjacency.adjoin(now, node)

    def _session_down(self, now: float, session: int, down: PeerDown) -> None:
        link = self.links.remove(session)
        self._timers.cancel((Due.FLUSH, session))
        self._timers.cancel((Due.IDLE, session))
        self._timers.cancel((Due.RESYNC, session))
        self._replay.forget(session)
        self._violations.forget(session)
        self.fetches.session_gone(session)
        if down.code in reports.FAULTS and not down.by_peer:
            self._emit(
                reports.PeerFaulted(
                    session=session, node=down.node, code=down.code, reason=down.reason
                )
            )
        self._emit(
            reports.PeerGone(
                session=session,
                node=down.node,
                code=down.code,
                reason=down.reason,
                by_peer=down.by_peer,
            )
        )
        if link is None:
            return
        if link.guest is not None:
            link.guest.closed(now)
            return
        if link.node is None:
            return
        self.plane.remove_session(now, session)
        if self.server is not None:
            self.server.remove_session(session)
        if link.control:
            self.export_denied.again = True
            # Everything that was learned through it goes (seed 000, Connection Establishment).
            self.nib.remove_peer(now, link.node)
            self.announces.remove_session(now, session)
            self.subscribes.remove_session(now, session)
        if self.sharding.remove_server(session):
            self._reconsider()
        self.prober.remove_session(session)
        if link.leaving:
            others = any(each.leaving for each in self.links.of(link.node))
            self.nib.set_peer(now, link.node, draining=others)
        self.adjacency.adjoin(now, link.node)
        self.set_routing.session_gone(session)
        self.sets.session_gone(now, session)

    @property
    def _is_sharded(self) -> bool:
        """Whether control servers hold our entries: they do not hold each other's."""
        return self._settings.relay_type is RelayType.EDGE

    def _reconsider(self) -> None:
        """What goes to whom is different now."""
        self.announces.reconsider()
        self.subscribes.reconsider()

    # Messages of peers

    def _peer_event(self, now: float, session: int, event: Event) -> None:
        """Something that a peer tells."""
        link = self.links.by_session.get(session)
        if link is None or link.node is None:
            return
        try:
            if link.guest is not None:
                link.guest.event(now, event)
            elif isinstance(event, PROBES):
                self._probe_received(now, session, event)
            else:
                self._message_received(now, link, link.node, event)
        except RemoteError as error:
            self._fault(now, link, error)
        if isinstance(event, (Draining, Staying)):
            self.dialler.observe(now, session, event)

    def _message_received(self, now: float, link: Link, peer: NodeId, event: wire.Event) -> None:
        session = link.session
        match event:  # what comes most often first, but for probes
            case wire.NodesAdvertised():
                for report in self.nib.advertised(now, peer, event.nodes):
                    self._suspect(report.node, report.peer, report.reason)
                    if report.fault is Fault.KEY_CONFLICT and report.node != peer:
                        # Perhaps it alone had told us of that node, and with the other key: then
                        # the node goes now, and it was right with one of both.
                        self.links.disputed.setdefault(report.node, {})[peer] = None
                    if report.fault in _VIOLATIONS and self._violations.add(now, session):
                        raise BadNodeError(f"again and again: {report.reason}")
                # At once: what it says next may be what it says again.
                self.advertisements.nodes_advertised(now, session, peer)
            case wire.NodesWithdrawn():
                self.nib.withdrawn(now, peer, event.nodes)
                self.export_denied.paths_removed()
            case wire.AnnouncesAdvertised() | wire.AnnouncesWithdrawn():
                self._announces_received(now, link, event)
            case wire.SubscribesAdvertised() | wire.SubscribesWithdrawn():
                self._subscribes_received(now, link, event)
            case wire.SubscribeAnswered():
                self._response_received(now, session, event.response)
            case wire.SyncRequested():
                self.advertisements.sync_requested(now, link, event.bases & ~Bases.SNS)
            case wire.ControlStreamMoved():
                # They are in no base, so no synchronisation brings them back (laps-2, 4.6).
                for response in self._replay.again(now, session):
                    self._send(now, session, response)
            case wire.SyncBegan():
                self._sync_marked(now, link, peer, event.bases, began=True)
            case wire.SyncEnded():
                self._sync_marked(now, link, peer, event.bases, began=False)
            case wire.SnsAdvertised() | wire.SnsWithdrawn() | wire.SnsRefusedByPeer():
                self._sns_received(now, session, peer, event)
            case wire.DataDropped():
                self.plane.discard(now, session, [each.item for each in event.dropped])
            case wire.FetchSaid():
                if Feature.FETCHES not in link.features:
                    raise ProtocolViolation("a message of a feature that is not in use")
                self.fetches.received(now, session, event.message)
            case wire.Draining():
                link.leaving = True
                self._emit(
                    reports.PeerLeaving(
                        session=session, node=peer, reason=event.reason, by_peer=True
                    )
                )
                self.nib.set_peer(now, peer, draining=True)
            case wire.Staying():
                if Feature.STAYS not in link.features:
                    raise ProtocolViolation("a message of a feature that is not in use")
                link.leaving = self.peers.is_parted(session)
                self._emit(reports.PeerStays(session=session, node=peer))
                others = any(each.leaving for each in self.links.of(peer))
                self.nib.set_peer(now, peer, draining=others)
            case _:
                pass

    def _announces_received(
        self, now: float, link: Link, event: wire.AnnouncesAdvertised | wire.AnnouncesWithdrawn
    ) -> None:
        peer = self.exports.peer(link)
        for entry in event.announces:
            if isinstance(event, wire.AnnouncesWithdrawn):
                verdict = self.announces.heard_withdrawal(now, link.session, entry)
            elif peer is None or not self._policy.import_announce(entry, peer):
                named = Feature.PLAINTEXT_NAMES in link.features
                shown = entry if named else hide_name(entry)
                verdict = self.announces.heard(now, link.session, shown)
            else:
                continue
            self._check_ours(link, verdict, entry.stamp)

    def _subscribes_received(
        self, now: float, link: Link, event: wire.SubscribesAdvertised | wire.SubscribesWithdrawn
    ) -> None:
        peer = self.exports.peer(link)
        for entry in event.subscribes:
            if isinstance(event, wire.SubscribesWithdrawn):
                verdict = self.subscribes.heard_withdrawal(now, link.session, entry)
                self._check_ours(link, verdict, entry.stamp)
                continue
            refusal = None
            if peer is not None:
                refusal = self._policy.import_subscribe(entry, peer)
            if refusal is None:
                verdict = self.subscribes.heard(now, link.session, entry)
                self._check_ours(link, verdict, entry.stamp)
            else:
                # Told at once, instead of waiting for data that will never come (laps-2, 5.3).
                self._refuse(now, link.session, entry, refusal)

    def _check_ours(self, link: Link, verdict: Verdict, stamp: Stamp) -> None:
        """Report what is said in our name with a stamp that we have not given yet."""
        if verdict is Verdict.OWN and link.node is not None and stamp >= self.own.stamp():
            self._suspect(self.own.node_id, link.node, "an entry of ours that we did not make")

    def _response_received(self, now: float, session: int, response: SubscribeResponse) -> None:
        own = self.own.node_id
        responder = response.responder
        if response.source != own and (
            responder == own
            or not self._loop_filter.accepts(now, response, self.nib.epoch(responder))
        ):
            # It goes round.
            return
        if self.server is None:
            self.subscriptions.response(now, session, response)
        else:
            self.server.response(now, session, response)

    def _sync_marked(
        self, now: float, link: Link, peer: NodeId, bases: Bases, *, began: bool
    ) -> None:
        if Bases.NODES in bases:
            if began:
                self.nib.sync_began(peer)
            else:
                self.nib.sync_ended(now, peer)
        tables = ((Bases.ANNOUNCES, self.announces), (Bases.SUBSCRIBES, self.subscribes))
        for base, table in tables:
            if base in bases:
                if began:
                    table.sync_began(link.session)
                else:
                    table.sync_ended(now, link.session)

    def _sns_received(
        self,
        now: float,
        session: int,
        peer: NodeId,
        event: wire.SnsAdvertised | wire.SnsWithdrawn | wire.SnsRefusedByPeer,
    ) -> None:
        match event:
            case wire.SnsAdvertised():
                self.set_routing.set_advertised(session, event.sns_id, event.targets)
                self.sets.advertised(now, session, event)
                self._check_targets(now, session, peer, event.targets)
            case wire.SnsWithdrawn():
                self.set_routing.set_withdrawn(session, event.sns_id)
                self.sets.withdrawn(now, session, event)
            case wire.SnsRefusedByPeer():
                self.sets.refused(now, session, event)

    def _check_targets(
        self, now: float, session: int, peer: NodeId, targets: Iterable[NodeId]
    ) -> None:
        """They are refused one by one; a peer that names strangers all the time has to go."""
        for target in targets:
            if target != self.own.node_id and not self.nib.may_target(now, peer, target):
                if self._violations.add(now, session):
                    raise SnsViolationError(f"again and again: {target} was not advertised to it")
                return

    def _probe_received(
        self, now: float, session: int, event: wire.ProbeReceived | wire.ProbeAnswered
    ) -> None:
        if isinstance(event, wire.ProbeReceived):
            self.peers.send(now, session, self.prober.answer(event.probe))
            return
        learned = self.prober.answered(now, session, event.response)
        if type(learned) is BadAnswer:
            self._suspect(learned.target, learned.peer, learned.reason)

    # Misbehaviour of peers

    def _suspect(self, node: NodeId, peer: NodeId, reason: str) -> None:
        self._emit(reports.NodeSuspected(node=node, peer=peer, reason=reason))
        if node != peer and self.nib.info(node) is not None:
            self.links.disputed.setdefault(node, {})[peer] = None

    def _request_nodes_again(self, now: float, node: NodeId) -> None:
        """A node is gone: whoever was not believed about it may have been right."""
        for peer in self.links.disputed.pop(node, ()):
            link = self.links.control(peer)
            if link is not None:
                self._send(now, link.session, SyncRequest(Bases.NODES))

    def _fault(self, now: float, link: Link, error: RemoteError) -> None:
        """Close a session; that it was a fault is told with its end, like those it sees itself."""
        self.peers.fail(now, link.session, error)

    # Changes of the node information base

    def _nodes_changed(self, now: float) -> bool:
        changes = self.nib.take_changes()
        if changes is not NOTHING:
            self._nodes_moved(now, changes)
        if self._settings.relay_type is _EDGE:
            ours, met = self.sharding.servers, self.links.met
            if changes is not NOTHING or self.servers.may_change(now, ours, met):
                self.servers.changed(now, changes.nodes, ours, met)
                self._flood_apart(now)
        return changes is not NOTHING and bool(changes.nodes or changes.routes)

    def _nodes_moved(self, now: float, changes: Changes) -> None:
        for node in changes.nodes:
            epoch = self.nib.epoch(node)
            self.announces.node_changed(now, node, epoch)
            self.subscribes.node_changed(now, node, epoch)
            if self.server is not None:
                self.server.node_changed(node)
            if self.subscriptions.node_changed(now, node):
                self._node_moved(now, node)
            info = self.nib.info(node)
            if info is None:
                self._emit(events.NodeGone(node=node, reason=changes.lost.get(node, "withdrawn")))
                self.fetches.node_gone(now, node)
                self._request_nodes_again(now, node)
            else:
                self.dialler.node_advertised(now, node, info.node.stamp.epoch)
                peer = self.nib.next_hop(node)
                self._emit(events.NodeAdded(info=info, peer=peer, best=peer is not None))
        if changes.nodes:
            self.prober.set_targets(self.nib.nodes)
        for node in changes.routes:
            self._note_route(node)
        self.subscriptions.paths_changed(now, (*changes.routes, *changes.alternates))
        moved = changes.routes
        if changes.alternates:
            moved = moved + self.sets.off_best_path(changes.alternates, self.nib.next_hop)
            self.steering.paths_changed(changes.alternates)
        if moved:
            self.sets.reroute(now, moved)
        self.steering.nodes_changed()

    def _node_moved(self, now: float, node: NodeId) -> None:
        """A node says that it is elsewhere, or has other labels: filters may treat it otherwise."""
        link = self.links.control(node)
        if link is None or type(self._policy) is OpenPolicy:
            return
        self.peers.set_policy(now, self._policy.peer, self.node)
        self.announces.reconsider(link.session)
        self.subscribes.reconsider(link.session)
        self.export_denied.again = True
        self.advertisements.request_sync(now, lambda each: each is link)

    def _flood_apart(self, now: float) -> None:
        """Edges that control servers cannot bring together with us are told entries by us."""
        apart = self.servers.apart(now, lambda node: self.links.control(node) is not None)
        links = (self.links.control(peer) for peer in set(apart.values()))
        sessions = {link.session for link in links if link is not None}
        if self.sharding.set_apart(apart, sessions):
            self._reconsider()
            self._news = True
        timer = (Due.APART, 0)
        if self.servers.due is not None and self._timers.when(timer) is None:
            self._timers.set(timer, self.servers.due)

    def _note_route(self, node: NodeId) -> None:
        """Tell of another way; that it costs more or less is not news for a log."""
        best = self.nib.best(node)
        relays = () if best is None else best.relays
        if relays == self._routes.get(node, ()):
            return
        if best is None:
            del self._routes[node]
        else:
            self._routes[node] = relays
        self._emit(
            events.RouteChanged(
                node=node,
                peer=None if best is None else best.peer,
                hops=0 if best is None else best.hops,
                cost_us=0 if best is None else best.cost_us,
            )
        )

    # Changes of announces and subscribes

    def _entries_changed(self, now: float) -> bool:
        announces, subscribes = self.announces.take_changes(), self.subscribes.take_changes()
        if (
            not announces
            and not subscribes
            and self.server is None
            and not self.export_denied.again
        ):
            return False
        for announce in announces:
            if announce.entry is not None:
                heard = self.announces.heard_on(announce.identity)
                self._emit(events.AnnounceAdded(entry=announce.entry, session=heard))
            elif announce.previous is not None:
                self._emit(events.AnnounceGone(entry=announce.previous))
        for subscribe in subscribes:
            if subscribe.entry is not None:
                heard = self.subscribes.heard_on(subscribe.identity)
                self._emit(events.SubscribeAdded(entry=subscribe.entry, session=heard))
            elif subscribe.previous is not None:
                entry = subscribe.previous
                self._emit(events.SubscribeGone(entry=entry, delayed=self._was_held_back(entry)))
        users = self.subscriptions if self.server is None else self.server
        if announces:
            users.announces_changed(now, announces)
        if subscribes:
            users.subscribes_changed(now, subscribes)
        if self.server is not None:
            self.server.settle()
        if announces or subscribes or self.export_denied.again:
            self._answer_denied(now, announces, subscribes)
        return bool(announces or subscribes)

    def _answer_denied(
        self,
        now: float,
        announces: list[Change[AnnounceIdentity, AnnounceInfo]],
        subscribes: list[Change[SubscribeIdentity, SubscribeInfo]],
    ) -> None:
        """Answer what our export rules keep from all who could, as far as that may be new."""
        everything, self.export_denied.again = self.export_denied.again, False
        if type(self._policy) is OpenPolicy and not self.export_denied:
            return
        waiting = self.subscriptions.waiting if self.server is None else self.server.waiting
        identities: dict[SubscribeIdentity, None] = {}
        for subscribe in subscribes:
            if subscribe.entry is None:
                self.export_denied.forget(subscribe.identity)
            identities[subscribe.identity] = None
        if everything:
            found = [(each.source, each.full_name_hash) for each in self.subscribes.live()]
            identities.update(dict.fromkeys(found))
        for announce in announces:
            if announce.entry is not None:
                identities.update(dict.fromkeys(waiting(announce.entry)))
        for identity in identities:
            entry = self.subscribes.get(identity)
            refusal = None if entry is None else self.export_denied.check(self._policy, entry)
            if entry is not None and refusal is not None:
                self._answer_denied_one(now, entry, refusal)

    def _answer_denied_one(self, now: float, entry: SubscribeInfo, refusal: Refusal) -> None:
        session = self.subscribes.heard_on((entry.source, entry.full_name_hash))
        if entry.source == self.own.node_id:
            self.subscriptions.response(now, LOCAL, self._refusal(entry, refusal))
        elif session is not None:
            self._refuse(now, session, entry, refusal)

    def _was_held_back(self, entry: SubscribeInfo) -> bool:
        """Whether a subscribe that is over was one of ours that nobody wants any more."""
        return (
            entry.source == self.own.node_id
            and self._settings.unsubscribe_delay > 0
            and not self.subscriptions.is_subscribed(entry.full_name_hash)
        )

    def _refuse(self, now: float, session: int, entry: SubscribeInfo, refusal: Refusal) -> None:
        self.respond(now, session, self._refusal(entry, refusal))

    def _refusal(self, entry: SubscribeInfo, refusal: Refusal) -> SubscribeResponse:
        """The answer of a relay whose policy does not let a subscribe pass."""
        code = SubscribeCode.POLICY
        self._emit(
            events.SubscribeRefused(
                key=entry.full_name_hash, source=entry.source, code=code, reason=refusal.reason
            )
        )
        return SubscribeResponse(
            entry.source,
            entry.full_name_hash,
            entry.stamp,
            self.own.node_id,
            code,
            refusal.reason,
        )

    def _steered(self, now: float) -> bool:
        keys = self.feeds.take_changed()
        again = self.steering.reassess(now)
        if keys or again:
            for key in (*keys, *again):
                self.feeds.route(now, key)
        self.demand.update(now)
        return bool(keys)

    # What the rooms ask

    def _reaches(self, node: NodeId) -> bool:
        """Return whether policy leaves any path to a node; there is always one to ourselves."""
        return node == self.own.node_id or bool(self.nib.candidates(node))

    def _replicas(self, key: int) -> tuple[NodeId, ...]:
        """Return the control servers that hold our subscribe for a key, perhaps over a peer."""
        return self.sharding.replicas(key) or rendezvous(key, self.servers.known)

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Send a response over a session, at once."""
        if self._send(now, session, response):
            self._replay.sent(now, session, response)

    def _send(self, now: float, session: int, message: Any) -> bool:
        """Send a message; whether there was somebody to send it to."""
        return self.peers.send(now, session, message)
