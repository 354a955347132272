"""The relay of the network: handlers for its shell and its clients, operator commands, polls.

::

    shell                          NetworkRelay
    connection_opened ----------->  Peers: handshakes, sessions
    control_data, ... ----------->    |  events
    handle_timeout -------------->    v
                                    Nib, flood tables, Subscriptions   what is known
                                      |  changes, until there are none
                                      v
                                    Steering, Sets                     target to next hop
                                      |  FIB
    data_stream, datagram ------->  PeerPlane                          the hot path
    poll_dirty, poll_transmit <---  AdvertisementSchedule: differences, batched

Every public method does its work, settles all rooms, and returns: no work is left half done between
two calls. The relay reads no clock and does no I/O.

One round of settling, repeated until nothing changes::

    Peers.poll_events --> Nib, flood tables, Sets, Prober, foreign peers
    Nib changes       --> flood tables, Subscriptions, Sets
    flood changes     --> Subscriptions, or ControlServer
    Subscriptions     --> own entries, responses, targets --> Sets
    Steering          --> Sets, ConnectionDemand
    PeerPlane         --> Sets (idle sets), the local side
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from laps_relay.network import events
from laps_relay.network.adjacency import (
    Adjacency,
    ConnectionDemand,
    Due,
    RelayTimers,
    ViolationCounter,
)
from laps_relay.network.advertisements import AdvertisementSchedule, ExportDenied, FloodExports
from laps_relay.network.control_server.sharding import Servers, Sharding, rendezvous
from laps_relay.network.events import NetworkEvent
from laps_relay.network.fetch.fetch_router import FetchRouter
from laps_relay.network.fetch.fetches import Fetches
from laps_relay.network.flood.entries import hide_name
from laps_relay.network.flood.floods import Change, Verdict
from laps_relay.network.nodes.nib import NOTHING, Nib, PathFinder
from laps_relay.network.nodes.node_table import Changes, Fault, Order, default_order
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.probing import BadAnswer, Prober
from laps_relay.network.origin_feeds import OriginFeeds
from laps_relay.network.repair import Repair
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings, Plan
from laps_relay.network.steering import Steering
from laps_relay.network.subscriptions.subscriptions import ResponseLoopFilter, Subscriptions
from laps_relay.network.tables import RelayTables
from laps_relay.peer_forwarding.forwarding import LOCAL, HoldData, Rerouted, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import OpenPolicy, Policy
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
    RepairSide,
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
from laps_wire.peering.laps2.handshake import HASH_CHECK_NAME
from laps_wire.peering.laps2.information import NO_DATA, AnnounceIdentity, SubscribeIdentity
from laps_wire.peering.session import Draining, Event, Role, SnsStanding, Staying, Transmit

__all__ = ["NetworkRelay"]

PARTING: Final = 10.0
"""How long a connection that is not configured any more may last, in seconds."""
STAY_WAIT: Final = 2.0
"""Seconds after a cancelled drain until all that it moved has arrived."""
MAX_ROUNDS: Final = 1_000
"""Rounds of settling in one call. More can only be a defect, and would block the relay."""
QUIET: Final = frozenset(
    {
        wire.SnsAdvertised,
        wire.SnsWithdrawn,
        wire.SnsRefusedByPeer,
        wire.DataDropped,
        wire.FetchReceived,
        wire.RepairReceived,
    }
)
"""Events that change no information base: other peers need no message."""
PROBES: Final = (wire.ProbeReceived, wire.ProbeAnswered)
"""Probes: most events of a network at rest. They cause nothing but an answer."""
_OF_SESSIONS: Final = (PeerUp, PeerDown, PeerRefused, NodeIdConflict, NodeUnproved)
"""Events about sessions themselves."""
_EDGE: Final = RelayType.EDGE
_VIOLATIONS: Final = frozenset({Fault.BAD_PATH, Fault.BAD_NODE})
"""Faults that no correct relay causes: it would reject such an entry itself."""
_NO_DATA: Final = "data on a session, or in a direction, that carries none"


class NetworkRelay:
    """A relay of the network. The rooms are attributes; read them, but change nothing in them."""

    __slots__ = (
        "_all_clocks",
        "_clocks",
        "_emit",
        "_events",
        "_fetch_router",
        "_foreign_peers",
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
        "repair",
        "server",
        "servers",
        "set_routing",
        "sets",
        "sharding",
        "steering",
        "subscribes",
        "subscriptions",
        "tables",
        "violations",
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

        ``challenge`` returns 32 random bytes, ``contexts`` 32 random bits that are not 0. ``order``
        ranks the paths to a node (:mod:`laps_relay.network.nodes.node_table`). ``known_keys`` are
        the keys that held node ids before the last start.
        """
        self._settings = settings
        self._policy = policy
        self._hasher = hasher
        self._local: LocalSide | None = None
        self._foreign_peers: ForeignPeerFactory | None = None
        self._events: list[NetworkEvent] = []
        self._emit = self._events.append
        self._timers: RelayTimers = Timers()
        self.violations = ViolationCounter()
        self._replay = ResponseReplay(settings.hold)
        self._loop_filter = ResponseLoopFilter(settings.convergence)
        self._routes: dict[NodeId, tuple[NodeId, ...]] = {}
        """The relays on the best path to each node, as the last event gave them."""
        self._settling = False
        self._news = False
        """Whether peers may have to be sent a difference."""
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
            routed=self.subscriptions.origin.routed,
            emit=self._emit,
        )
        self.sets = Sets(node, self.set_routing, self.plane, settings)
        self.feeds.connect(self.sets, self.subscriptions.origin)
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
        self.repair = Repair(
            node,
            settings,
            links=self.links,
            nib=self.nib,
            sets=self.sets,
            feeds=self.feeds,
            origin=self.subscriptions.origin,
            serving=self.subscriptions.subscriber.serving,
            send=self._send,
        )
        self.tables = RelayTables(
            self.own,
            links=self.links,
            nib=self.nib,
            announces=self.announces,
            subscribes=self.subscribes,
            origin=self.subscriptions.origin,
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
            *self.repair.clocks,
        )
        self._all_clocks = (self._timers, *self._clocks)
        """The timers of the rooms, without and with our own; the objects never change."""

    # Identity

    @property
    def node_id(self) -> NodeId:
        """The node id of this relay."""
        return self.own.node_id

    @property
    def info(self) -> NodeInfo:
        """The node information that this relay advertises about itself."""
        return self.own.info

    def node(self, node: NodeId) -> NodeSelf | None:
        """Return what a node says of itself, this relay too; None if the NIB does not have it."""
        if node == self.own.node_id:
            return self.own.info.node
        info = self.nib.info(node)
        return None if info is None else info.node

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    # Draining

    @property
    def in_transit(self) -> bool:
        """Whether data passes this relay to others, or waits to be sent to one."""
        return self.sets.in_transit or self.plane.unsent() > 0

    @property
    def flight(self) -> float:
        """Seconds that a message to a peer may take, with one retransmission."""
        trips = [link.srtt_us for link in self.links.by_session.values() if link.up]
        return 2e-6 * max(trips) + self._settings.batch if trips else 0.0

    # Connections, called by the shell

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
        """Take over a new connection and begin its handshake.

        ``spki_hash`` is the hash of the listener's TLS key, on both sides. ``dial`` is the dial
        that led to the connection; None if the peer dialled.
        """
        self.links.add(Link(session, egress, alpn, dial, opened=now))
        if dial is not None:
            self.dialler.made(now, dial.number, session)
        self.peers.opened(now, session, role=role, alpn=alpn, spki_hash=spki_hash, dial=dial)
        self._settle(now)

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Handle bytes of a bidirectional stream."""
        self.peers.stream_data(now, session, stream_id, data, fin)
        self._settle(now, news=False)

    def control_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """Handle the peer's reset of its half of a bidirectional stream."""
        self.peers.stream_reset(now, session, stream_id, code)
        self._settle(now)

    def control_stopped(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """Handle the peer's STOP_SENDING for our half of a bidirectional stream."""
        self.peers.stop_sending(now, session, stream_id, code)
        self._settle(now)

    def connection_closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """Forget a connection that has ended; its number may be used again."""
        self.peers.closed(now, session, code, reason)
        self._settle(now)
        self.links.remove(session)

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float = 0.0, congested: bool = False
    ) -> None:
        """Take over what the transport measures on a connection; the shell calls this regularly.

        ``srtt_us`` is the smoothed round trip in microseconds, ``loss`` the share of packets lost
        since the last call. ``congested``: more has waited for some time than the connection
        carries.
        """
        link = self.links.get(session)
        if link is None:
            return
        link.srtt_us, link.loss, link.congested = srtt_us, loss, congested
        self.peers.measured(session, srtt_us)
        if link.foreign_peer is not None:
            link.foreign_peer.measured(now, srtt_us)
        elif link.node is not None:
            self.prober.measured(session, srtt_us)
            self.adjacency.adjoin(now, link.node)
        self._settle(now)

    def close(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """Close a session from this side."""
        self.peers.close(now, session, code, reason)
        self._settle(now)

    # Data, called by the shell

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Forward a chunk of a peer's unidirectional stream; close the session if it is faulty."""
        link = self.links.get(session)
        if link is None:
            return
        try:
            self._data(now, link, stream_id, data, fin)
        except RemoteError as error:
            self._fault(now, link, error)
            self._settle(now)

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Handle the peer's reset of a unidirectional stream."""
        link = self.links.get(session)
        if link is not None and link.early is not None:
            link.early.forget(stream_id)
        if link is not None and link.foreign_peer is not None:
            link.foreign_peer.stream_reset(now, stream_id, code)
        else:
            self.plane.stream_reset(now, session, stream_id, code)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """Forward a datagram of a peer; close the session if it is faulty."""
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
        """Handle an outgoing data stream that the egress dropped or the peer stopped.

        ``lost`` bytes of it were not sent.
        """
        link = self.links.get(session)
        if link is not None and link.foreign_peer is not None:
            link.foreign_peer.out_stream_gone(now, stream, lost, stopped=stopped)
        else:
            self.plane.out_stream_gone(now, session, stream, lost, stopped=stopped)

    def _data(self, now: float, link: Link, stream_id: int, data: bytes, fin: bool) -> None:
        """Forward a chunk of a stream, or keep it until the handshake is over.

        Raises ``RemoteError`` if the peer broke the protocol.
        """
        early = link.early
        if not link.up:
            if early is None:
                early = link.early = PreHandshakeData()
            if not early.add(Chunk(stream_id, data, fin)):
                link.egress.stop_sending(stream_id, StreamCode.OVERLOADED)
        elif early is not None and early.refused(stream_id):
            pass
        elif link.foreign_peer is not None:
            link.foreign_peer.stream_data(now, stream_id, data, fin)
        elif link.receives:
            self.plane.stream_data(now, link.session, stream_id, data, fin)
        else:
            raise ProtocolViolation(_NO_DATA)

    def _datagram(self, now: float, link: Link, data: bytes) -> None:
        """Forward a datagram; drop it before the handshake is over. Raises like :meth:`_data`."""
        if link.foreign_peer is not None:
            link.foreign_peer.datagram(now, data)
        elif link.receives:
            self.plane.datagram(now, link.session, data)
        elif link.up:
            raise ProtocolViolation(_NO_DATA)

    def _late_data(self, now: float, link: Link) -> None:
        """Forward the chunks that came before the handshake was over."""
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
        """Return the function that holds data of a session until its set is known."""

        def hold(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
            standing, dropped = self.peers.wire(session).hold_data(now, sns_id, item, size)
            # A stream is one item with many chunks; its next chunk may push the item out.
            self.plane.discard(now, session, [each.item for each in dropped])
            return standing

        return hold

    # Our own clients

    def attach(
        self,
        local: LocalSide,
        sink: DataSink,
        fetches: FetchSide | None = None,
        repair: RepairSide | None = None,
    ) -> None:
        """Connect the relay's own clients; called before any client comes.

        ``sink`` receives their data. Without ``fetches`` the relay answers no FETCH; without
        ``repair`` nothing that was lost on its way is sent again.
        """
        self._local = local
        self.subscriptions.attach(local)
        self.feeds.attach(local)
        self.plane.attach(sink)
        if fetches is not None:
            self.fetches.attach(fetches)
        if repair is not None:
            self.repair.attach(repair)

    def set_foreign_peers(self, factory: ForeignPeerFactory) -> None:
        """Set the factory of foreign peers (Stubs, C++ relays); called before any session."""
        self._foreign_peers = factory

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Announce a track of our own clients, or a namespace: then the track name is empty."""
        self.subscriptions.origin.announce(now, kind, name)
        self._settle(now)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw an announce of our own clients."""
        self.subscriptions.origin.withdraw(now, kind, name)
        self._settle(now)

    def subscribe(self, now: float, name: FullTrackName, data: SubscribeData = NO_DATA) -> None:
        """Subscribe to a track for our own clients, or change what is asked of it.

        The outcome is reported with ``LocalSide.answered``.
        """
        key = self.key(name)
        lapsed = self.subscriptions.subscriber.has_lapsed(key)
        denial = self.subscriptions.subscriber.subscribe(now, name, data)
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

    def keeps(self, key: int) -> bool:
        """Return whether a track that our own clients have left would go on for them at once."""
        return self.subscriptions.subscriber.keeps(key)

    def unsubscribe(self, now: float, name: FullTrackName) -> None:
        """End the subscription of our own clients to a track."""
        self.subscriptions.subscriber.unsubscribe(now, name)
        self._settle(now)

    def publisher_accepted(self, now: float, key: int, data: SubscribeData = NO_DATA) -> None:
        """Report that a local publisher accepted the subscription to a track."""
        self.subscriptions.origin.publisher_accepted(now, key, data)
        self._settle(now)

    def publisher_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
    ) -> None:
        """Report that a local publisher refused the subscription to a track."""
        self.subscriptions.origin.publisher_refused(now, key, code, reason, data)
        self._settle(now)

    def publisher_ended(self, now: float, key: int, reason: str) -> None:
        """Report that a local publisher ended a track that it had accepted."""
        self.subscriptions.origin.publisher_ended(now, key, reason)
        self._settle(now)

    def against(self, name: FullTrackName) -> str | None:
        """Return why policy forbids a track to our own clients; None if it is allowed."""
        refusal = self._policy.local_subscribe(name, self.own.info.node)
        return None if refusal is None else refusal.reason

    def key(self, name: FullTrackName) -> int:
        """Return the full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    def fetch(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        """Send a FETCH of our own clients; return its id, or why no relay can be asked."""
        asked = self.fetches.asking.ask(now, name, data)
        self._settle(now, news=False)
        return asked

    def unfetch(self, now: float, fetch_id: int) -> None:
        """Cancel a FETCH of our own clients."""
        self.fetches.asking.cancel(now, fetch_id)
        self._settle(now, news=False)

    def fetch_over(self, now: float, fetch_id: int) -> None:  # noqa: ARG002 - as all commands
        """Forget a FETCH of our own clients whose stream has ended."""
        self.fetches.asking.over(fetch_id)

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        """Accept a FETCH of another relay; its stream goes into the feed."""
        self.fetches.fetched(now, handle, data)
        self._settle(now, news=False)

    def fetch_refused(
        self, now: float, handle: FetchHandle, code: int, reason: str, data: SubscribeData = NO_DATA
    ) -> None:
        """Refuse a FETCH of another relay."""
        self.fetches.refused(now, handle, FetchRefusal(code, reason, data))
        self._settle(now, news=False)

    def fetch_served(self, now: float, handle: FetchHandle) -> None:
        """Close the feed of a FETCH of another relay: its stream has ended."""
        self.fetches.serving.served(now, handle)
        self._settle(now, news=False)

    # Operator commands

    def set_contacts(
        self, now: float, contacts: Iterable[Contact], *, seconds: float = PARTING
    ) -> None:
        """Set the relays that stay connected.

        Other connections in use end when all that they carry has another path, and after
        ``seconds`` at the latest.
        """
        before = self.dialler.poll_unwanted()
        self.dialler.set_contacts(now, contacts)
        for session in self.dialler.poll_unwanted():
            if session not in before:
                self.demand.part(now, session, seconds)
        self._settle(now)

    def set_own_contacts(self, now: float, contacts: tuple[str, ...]) -> None:
        """Set the addresses at which other relays reach this one."""
        if self.own.set_contacts(contacts):
            self.nib.set_self(now, self.own.info)
            self._settle(now)

    def set_own_label(self, now: float, name: str, value: str) -> None:
        """Set a label of our node information; an empty value removes it."""
        if self.own.set_label(name, value):
            self.nib.set_self(now, self.own.info)
            self._settle(now)

    def set_load(self, now: float, load: Load) -> None:
        """Set how busy this relay is; ignored while it drains."""
        before = self.own.info.node.load.load_class
        if before is not LoadClass.DRAINING and self.own.set_load(load):
            self.nib.set_self(now, self.own.info)
            if load.load_class is not before:
                # An overloaded relay sends one copy towards each region.
                self.steering.invalidate()
            self._settle(now)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Put another policy in force; what it forbids ends at once."""
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
        # Peers send everything again: the former filter may have dropped entries (laps-2, 5.4).
        self.advertisements.request_sync(now, lambda _: True)
        self._emit(events.PolicyChanged())
        self._settle(now)

    def forget_key(self, node: NodeId) -> bool:
        """Let another key hold the id of a node that has no session.

        Return False if no key of it is known.
        """
        if not self.peers.forget_key(node):
            return False
        self._emit(reports.KeyForgotten(node=node))
        return True

    def set_plan(self, now: float, plan: Plan) -> None:
        """Follow another plan; it is a preference, and policy is asked for each path."""
        self.steering.set_plan(plan)
        self._settle(now)

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        """Return why a Via of a plan cannot be used now; None if it can.

        The reasons are: no relay knows it, it drains, or policy forbids the path over it to every
        known node of the region. If policy forbids some of these paths only, steering leaves those
        out: a node that claims to be in a region must not block a plan.
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
        """Return region and country of a node as policy has them; "" where unknown."""
        info = self.nib.info(node)
        if info is None:
            return "", ""
        return self._policy.region(info.node), self._policy.country(info.node)

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Announce that this relay goes away: peers move their data, and no new data comes."""
        self.dialler.stop()
        self._timers.cancel((Due.STAY, 0))
        self.set_load(now, Load(LoadClass.DRAINING, 1000))
        # Before DRAIN: without the draining load, DRAIN would concern that connection alone.
        self.advertisements.flush_all(now)
        self.peers.drain(now, seconds, reason, alternates)
        self._settle(now)

    def stay(self, now: float) -> None:
        """Cancel :meth:`drain`: sessions live on, and new ones are accepted at once.

        Our load stays DRAINING for ``STAY_WAIT`` seconds more. A target that turned round halfway
        would meet relays that know only one of both changes, and that send it back.
        """
        if self.own.info.node.load.load_class is not LoadClass.DRAINING:
            return
        self.dialler.resume()
        self.peers.stay(now)
        if self._timers.when((Due.STAY, 0)) is None:
            self._timers.set((Due.STAY, 0), now + STAY_WAIT)
        self._settle(now)

    def _drain_taken_back(self, now: float) -> None:
        """Advertise normal load: every target that was leaving has left."""
        self.own.set_load(Load(LoadClass.NORMAL, 0))
        self.nib.set_self(now, self.own.info)
        self.steering.invalidate()

    def close_all(self, now: float, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """Close all sessions at once."""
        self.dialler.stop()
        self.peers.close_all(now, code, reason)
        self._settle(now)

    # Polls and time

    def poll_dirty(self) -> list[int]:
        """Return the sessions that may have something to send, once."""
        return self.peers.poll_dirty()

    def poll_transmit(self, session: int) -> list[Transmit]:
        """Return what a session asks of the shell, in order."""
        return self.peers.poll_transmit(session)

    def poll_dials(self, now: float) -> list[Dial]:
        """Return the dials to make now."""
        dials = self.dialler.poll_dials(now)
        for dial in dials:
            self._emit(reports.Dialled(contact=dial.contact, node=dial.node, dynamic=dial.dynamic))
        return dials

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """Report that a dial failed."""
        self.dialler.failed(now, number, reason)
        self._settle(now)

    def poll_events(self) -> list[NetworkEvent]:
        """Return the events for logs and telemetry, once."""
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
        """Return the keys that hold node ids, if they have changed; the shell stores them."""
        return self.peers.poll_known_keys()

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` or :meth:`poll_dials` must be called; None: never."""
        return earliest(
            first_of(self._all_clocks, self.peers.poll_timeout()),
            self.steering.demand_at,
            self.plane.samples_at,
            self.dialler.poll_timeout(),
        )

    def handle_timeout(self, now: float) -> None:
        """Do all that is due."""
        self.peers.handle_timeout(now)
        self.nib.handle_timeout(now)
        first = first_of(self._clocks, self.plane.samples_at)
        if first is not None and first <= now:  # mostly only a session or a flush is due
            self.announces.handle_timeout(now)
            self.subscribes.handle_timeout(now)
            self.subscriptions.handle_timeout(now)
            self.sets.handle_timeout(now)
            self.plane.handle_timeout(now)
            self.repair.handle_timeout(now)
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
        """Handle a timer of the relay itself."""
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
        """Run rounds until no room has a change left; a nested call leaves that to the outer one.

        With ``news`` differences for peers are scheduled afterwards; without it only if a round
        finds a change.
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
            # Probes change no table, but sending an answer may end a session.
            return self.peers.has_events()
        if self._nodes_changed(now) | self._entries_changed(now):
            moved = self._news = True
        moved |= self._steered(now)
        for notice in self.plane.poll_notices():
            moved = True
            if isinstance(notice, SetIdle):
                self.sets.idle(now, notice)
            elif isinstance(notice, Rerouted):
                key = self.sets.key_of(notice.ingress)
                if key is not None:
                    self.repair.targets_moved(now, key)
            else:
                self.feeds.renew(now, notice)
        return (moved or probed) and (self._is_unsettled(now) or self.peers.has_events())

    def _is_unsettled(self, now: float) -> bool:
        """Return whether another round would find a change in any room; mostly it would not."""
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

    # Sessions

    def _handle_event(self, now: float, session: int, event: PeerEvent) -> None:
        if isinstance(event, _OF_SESSIONS):
            self._session_event(now, session, event)
        else:  # the most frequent case
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
                    # An event only: the peer is not at fault.
                    self._emit(
                        reports.NodeSuspected(node=event.node, peer=link.node, reason=event.reason)
                    )
        self.dialler.observe(now, session, event)

    def session_up(self, now: float, session: int, up: PeerUp) -> None:
        """Add a session to all tables after its handshake."""
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
        if self._foreign_peers is not None:
            link.foreign_peer = self._foreign_peers(
                now, link, up, ForeignPeerWire(self.peers, session)
            )
        if link.foreign_peer is not None:
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
        self.violations.forget(session)
        self.fetches.session_gone(session)
        self.repair.session_gone(session)
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
        if link.foreign_peer is not None:
            link.foreign_peer.closed(now)
            return
        if link.node is None:
            return
        if link.receives:
            self.repair.session_lost(now)
        self.plane.remove_session(now, session)
        if self.server is not None:
            self.server.remove_session(session)
        if link.control:
            self.export_denied.again = True
            # Remove all that was learned over it (seed 000, Connection Establishment).
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
        """Whether control servers hold our entries. They do not hold entries of each other."""
        return self._settings.relay_type is RelayType.EDGE

    def _reconsider(self) -> None:
        """Decide again which entries go to which peer."""
        self.announces.reconsider()
        self.subscribes.reconsider()

    # Messages of peers

    def _peer_event(self, now: float, session: int, event: Event) -> None:
        """Handle an event of a session that is up."""
        link = self.links.by_session.get(session)
        if link is None or link.node is None:
            return
        try:
            if link.foreign_peer is not None:
                link.foreign_peer.event(now, event)
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
                        # If this peer was the only source of the node, with another key, the
                        # node is removed now, and one of both keys was right.
                        self.links.disputed.setdefault(report.node, {})[peer] = None
                    if report.fault in _VIOLATIONS and self.violations.add(now, session):
                        raise BadNodeError(f"again and again: {report.reason}")
                # At once: the next message may repeat entries of these nodes.
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
                # Responses are in no base: a synchronisation does not repeat them (laps-2, 4.6).
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
            case wire.FetchReceived() | wire.RepairReceived():
                self._routed_received(now, link, event)
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

    def _routed_received(
        self, now: float, link: Link, event: wire.FetchReceived | wire.RepairReceived
    ) -> None:
        """Handle a message that is for one relay, which need not be this one."""
        is_fetch = isinstance(event, wire.FetchReceived)
        if (Feature.FETCHES if is_fetch else Feature.REPAIR) not in link.features:
            raise ProtocolViolation("a message of a feature that is not in use")
        room = self.fetches if is_fetch else self.repair
        room.received(now, link.session, event.message)

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
                # Refuse at once: the subscriber would wait for data that never comes (laps-2, 5.3).
                self._refuse(now, link.session, entry, refusal)

    def _check_ours(self, link: Link, verdict: Verdict, stamp: Stamp) -> None:
        """Report an entry in our name with a stamp that we have not used yet."""
        if verdict is Verdict.OWN and link.node is not None and stamp >= self.own.stamp():
            self._suspect(self.own.node_id, link.node, "an entry of ours that we did not make")

    def _response_received(self, now: float, session: int, response: SubscribeResponse) -> None:
        own = self.own.node_id
        responder = response.responder
        if response.source != own and (
            responder == own
            or not self._loop_filter.accepts(now, response, self.nib.epoch(responder))
        ):
            # The response circulates.
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
        """Count a set whose targets were never advertised to the peer.

        Raises ``SnsViolationError`` if a peer does so again and again. Each such target is refused.
        """
        for target in targets:
            if target != self.own.node_id and not self.nib.may_target(now, peer, target):
                if self.violations.add(now, session):
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
        """Ask for nodes again where an advertisement of a removed node was not believed."""
        for peer in self.links.disputed.pop(node, ()):
            link = self.links.control(peer)
            if link is not None:
                self._send(now, link.session, SyncRequest(Bases.NODES))

    def _fault(self, now: float, link: Link, error: RemoteError) -> None:
        """Close a session for a fault of the peer; the end of the session reports the fault."""
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
        self.subscriptions.subscriber.paths_changed(now, (*changes.routes, *changes.alternates))
        moved = changes.routes
        if changes.alternates:
            moved = moved + self.sets.off_best_path(changes.alternates, self.nib.next_hop)
            self.steering.paths_changed(changes.alternates)
        if moved:
            self.sets.reroute(now, moved)
        self.steering.nodes_changed()

    def _node_moved(self, now: float, node: NodeId) -> None:
        """Apply the filters again for a peer whose region or labels have changed."""
        link = self.links.control(node)
        if link is None or type(self._policy) is OpenPolicy:
            return
        self.peers.set_policy(now, self._policy.peer, self.node)
        self.announces.reconsider(link.session)
        self.subscribes.reconsider(link.session)
        self.export_denied.again = True
        self.advertisements.request_sync(now, lambda each: each is link)

    def _flood_apart(self, now: float) -> None:
        """Flood entries to Edges that share no control server with this relay."""
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
        """Emit an event if other relays are on the best path now; a new cost alone is none."""
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
        """Refuse subscribes whose export policy denies to every peer that could serve them."""
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
        """Return whether a subscribe that ended was ours, and its withdrawal was delayed."""
        return (
            entry.source == self.own.node_id
            and self._settings.unsubscribe_delay > 0
            and entry.full_name_hash not in self.subscriptions.subscriber
        )

    def _refuse(self, now: float, session: int, entry: SubscribeInfo, refusal: Refusal) -> None:
        self.respond(now, session, self._refusal(entry, refusal))

    def _refusal(self, entry: SubscribeInfo, refusal: Refusal) -> SubscribeResponse:
        """Return the response to a subscribe that policy does not let pass, and emit its event."""
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

    # Collaborators of the rooms

    def _reaches(self, node: NodeId) -> bool:
        """Return whether policy leaves any path to a node; there is always one to ourselves."""
        return node == self.own.node_id or bool(self.nib.candidates(node))

    def _replicas(self, key: int) -> tuple[NodeId, ...]:
        """Return the control servers that hold our subscribe for a key, also over a peer."""
        return self.sharding.replicas(key) or rendezvous(key, self.servers.known)

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Send a response over a session, at once."""
        if self._send(now, session, response):
            self._replay.sent(now, session, response)

    def _send(self, now: float, session: int, message: Any) -> bool:
        """Send a message over a session; return whether the session exists."""
        return self.peers.send(now, session, message)
