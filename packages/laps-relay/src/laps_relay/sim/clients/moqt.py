"""Clients that speak MoQT, and the whole Edge or Stub that serves them.

Each publisher and each subscriber has a session of its own with the Edge. An object of the ledger
is the payload of a MoQT object::

    subgroup stream | track alias, group, priority | object id, length, | object of the ledger | ...

Publishers of the same track have groups of their own (*lanes*), because a forwarding plane takes
objects with the same name for the same object.

``EdgeHost`` is a whole Edge or Stub in a simulated process, with the MoQT side of a server::

    MoqtClients == EdgeRelay, Plane == NetworkBridge == NetworkRelay                     an Edge
                                    == StubParent ===== a Stub's session
    MoqtClients == EdgeRelay, Plane == StubUplink ===== sessions with parents            a Stub

Networks without Stubs have ``direct.DirectClients`` instead.

A :class:`VirtualClient` is a MoQT session without a connection: two sans-IO sessions back to back
in memory::

    EdgeRelay <--events-- Session (server) ==bytes== Session (client) --events--> handler
              --commands->                                            <-commands--

:meth:`VirtualClient.pump` carries everything until both ends are quiet. A handler need not pump
after a command to its session: the loop that called the handler goes on. Only control messages pass
here; objects go to and from the forwarding plane directly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.relay import NetworkRelay
from laps_relay.peer_forwarding.forwarding import LOCAL, Ingress
from laps_relay.sim.clients.clients import HASHER, NO_DATA, Call, Clients, Publication, Want
from laps_relay.sim.clients.ledger import BreakError, Ledger, Object, read_object
from laps_relay.sim.net.clock import Clock
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_sdk.forwarding.interfaces import Egress, OutStream, Point
from laps_sdk.forwarding.plane import Plane
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.links import ForeignPeer, ForeignPeerWire, Link
from laps_sdk.stub.stub_uplink import StubUplink, UplinkParent
from laps_sdk.timers import earliest
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.egress import alias_of
from laps_sdk.upstream.interfaces import Answer
from laps_wire.moqt.data import (
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    StreamKind,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    encode_datagram,
)
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.session import Action as SessionAction
from laps_wire.moqt.session import (
    CloseSession,
    Event,
    OpenStream,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    ResetStream,
    Role,
    SendData,
    Session,
    SessionConfig,
    SessionLimits,
    StopSending,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, RelayType, SubscribeCode, SubscribeData

__all__ = ["EdgeHost", "MoqtClients", "VirtualClient", "read_framed"]

_LIMITS: Final = SessionLimits(max_requests=1 << 30, max_updates=1 << 16)
"""Both ends are ours: what caps there are belong to the relay."""


class VirtualClient:
    """A client of an Edge that lives in the same process."""

    __slots__ = (
        "_edge",
        "_handler",
        "_opened",
        "_pumping",
        "_relay",
        "draft",
        "number",
        "session",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        handler: Callable[[float, Event], None],
        *,
        setup: SetupOptions = NO_OPTIONS,
        draft: Draft = DRAFT,
    ) -> None:
        self.draft = draft
        self.number = number
        """The relay's number of the session."""
        self.session = Session(
            SessionConfig(draft=draft, role=Role.CLIENT, options=setup, limits=_LIMITS)
        )
        """Our end, for commands; :meth:`pump` behind them."""
        self._edge = Session(SessionConfig(draft=draft, role=Role.SERVER, limits=_LIMITS))
        self._relay = relay
        self._handler = handler
        self._opened: dict[tuple[Role, bool], int] = {}
        self._pumping = False

    def open(self, now: float, egress: Egress, info: SessionInfo) -> None:
        """Become a session of the relay, and exchange SETUP."""
        self._relay.add_session(now, self.number, self._edge, egress, info)
        self.pump(now)

    def close(self, now: float) -> None:
        """Be gone: what it published ends."""
        self.session.close()
        self._relay.remove_session(now, self.number)

    @property
    def closed(self) -> bool:
        """Whether the session is over, for either end."""
        return self.session.closed or self._edge.closed

    # Carrying

    def pump(self, now: float) -> bool:
        """Carry everything until both ends are quiet; whether there was anything.

        A call from inside is left to the outer one.
        """
        if self._pumping or (self.session.is_idle and self._edge.is_idle):
            return False  # the second is so after most events of a relay, for most of its clients
        self._pumping = True
        moved = False
        try:
            while self._turn(now):
                moved = True
        finally:
            self._pumping = False
        return moved

    def _turn(self, now: float) -> bool:
        client, edge = self.session, self._edge
        moved = self._carry(client, edge) | self._carry(edge, client)
        for event in edge.poll_events():
            moved = True
            self._relay.handle_session_event(now, self.number, event)
        for event in client.poll_events():
            moved = True
            self._handler(now, event)
        return moved

    def _carry(self, sender: Session, receiver: Session) -> bool:
        actions = sender.poll_transmit()
        for action in actions:
            self._act(sender, receiver, action)
        return bool(actions)

    def _act(self, sender: Session, receiver: Session, action: SessionAction) -> None:
        match action:
            case SendData(stream, data, fin):
                receiver.receive_stream_data(sender.stream_id(stream), data, fin)
            case OpenStream(stream, unidirectional):
                sender.bind_stream(stream, self._stream_id(sender.role, unidirectional))
            case ResetStream(stream, code):
                receiver.receive_stream_reset(sender.stream_id(stream), code)
            case StopSending(stream, code):
                receiver.receive_stop_sending(sender.stream_id(stream), code)
            case CloseSession(code, reason):
                receiver.receive_connection_lost(code, reason)

    def _stream_id(self, role: Role, unidirectional: bool) -> int:
        """The next id of a kind, as QUIC counts them."""
        count = self._opened.get((role, unidirectional), 0)
        self._opened[role, unidirectional] = count + 1
        return count << 2 | unidirectional << 1 | role.value


LANES: Final = 16
_INFO: Final = SessionInfo(peer_address="client", draft=DRAFT)
_DONE: Final = 2
"""PUBLISH_DONE: the track ended."""


def read_framed(data: bytes, *, datagram: bool) -> Object | None:
    """The first object of the ledger in a MoQT datagram or at the beginning of a MoQT stream."""
    if datagram:
        decoded = decode_datagram(data, DRAFT)
        return read_object(decoded.payload) if isinstance(decoded, ObjectDatagram) else None
    items = ObjectCollector(SubgroupParser(DRAFT)).feed(data)
    return next((read_object(item.payload) for item in items if isinstance(item, MoqObject)), None)


class _Inlet:
    """A publisher's connection: a ``Feed`` into the Edge's plane."""

    __slots__ = ("_alias", "_host", "_lane", "_session", "_streams")

    def __init__(self, host: EdgeHost, session: int, alias: int, lane: int) -> None:
        self._host = host
        self._session = session
        self._alias = alias
        self._lane = lane
        self._streams = 2

    @property
    def ingress(self) -> Ingress:
        """It has none."""
        return Ingress(LOCAL, 0)

    def group(self, item: Object) -> int:
        """Return the number of a group in MoQT; it grows over all publishers of a track.

        A new subscriber gets nothing before the largest group of the track.
        """
        began = self._host.began(item)
        return int(began * 1000) * LANES + self._lane

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream:
        """Begin a subgroup; it is named with the first object."""
        del now, ttl_ms, deadline, continued, to
        self._streams += 4
        return _InletStream(self, self._streams, priority)

    def begin(self, item: Object, priority: int) -> SubgroupWriter:
        """The subgroup of an object."""
        return SubgroupWriter(SubgroupHeader(self._alias, self.group(item), 0, priority), DRAFT)

    def write(self, stream: int, data: bytes, *, first: bool, fin: bool) -> None:
        """Bytes of a stream."""
        host, now = self._host, self._host.now
        if first:
            host.plane.stream_opened(now, self._session, stream, StreamKind.SUBGROUP, data, fin)
        else:
            host.plane.stream_data(now, self._session, stream, data, fin)

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object."""
        del ttl_ms
        item = _object(payload, now)
        datagram = ObjectDatagram(
            self._alias, self.group(item), item.number, payload, priority=priority
        )
        self._host.plane.datagram(now, self._session, encode_datagram(datagram, DRAFT))
        return True


class _InletStream:
    """One subgroup of a publisher (``OutStream``)."""

    __slots__ = ("_inlet", "_number", "_priority", "_sent", "_writer", "closed", "queued")

    def __init__(self, inlet: _Inlet, number: int, priority: int) -> None:
        self._inlet = inlet
        self._number = number
        self._priority = priority
        self._writer: SubgroupWriter | None = None
        self._sent = 0
        self.closed = False
        self.queued = 0

    def write(self, data: bytes, fin: bool = False) -> None:
        """One object, or nothing but the end."""
        if not data:
            self.closed = fin
            self._inlet.write(self._number, b"", first=False, fin=fin)
            return
        item = _object(data, 0.0)
        first = self._writer is None
        if self._writer is None:
            self._writer = self._inlet.begin(item, self._priority)
        framed = self._writer.object(self._sent, data)
        self._sent += 1
        self.closed = fin
        start = self._writer.start if first else b""
        self._inlet.write(self._number, start + framed, first=first, fin=fin)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Write bytes; none are refused."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Do nothing: no bytes are refused."""

    def reset(self, code: int) -> None:
        """Publishers finish what they begin."""

    def set_priority(self, priority: int) -> None:
        """It stays."""

    def set_deadline(self, deadline: float | None) -> None:
        """There is none."""


def _object(data: bytes, now: float) -> Object:
    item = read_object(data)
    if item is None:
        raise BreakError("payload", "a publisher sent no object", now)
    return item


class _Outlet:
    """A subscriber's connection: the ``Egress`` of its session."""

    __slots__ = ("_take", "open")

    def __init__(self, take: Callable[[Object], None]) -> None:
        self._take = take
        self.open = True

    @property
    def max_datagram_size(self) -> int:
        """The longest datagram."""
        return 1200

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """A stream for the client."""
        del priority, droppable, drop_code, deadline
        return _OutletStream(self)

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """A datagram for the client."""
        del deadline
        decoded = decode_datagram(data, DRAFT)
        if isinstance(decoded, ObjectDatagram):
            self.taken(decoded.payload)
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        """Subscribers send nothing."""

    def taken(self, payload: bytes) -> Object:
        """An object has come."""
        item = _object(payload, 0.0)
        if self.open:
            self._take(item)
        return item


class _OutletStream:
    """One subgroup for a subscriber (``OutStream``): objects in their order."""

    __slots__ = ("_collector", "_last", "_outlet", "closed", "queued")

    def __init__(self, outlet: _Outlet) -> None:
        self._outlet = outlet
        self._collector = ObjectCollector(SubgroupParser(DRAFT))
        self._last = (-1, -1, -1)
        self.closed = False
        self.queued = 0

    def write(self, data: bytes, fin: bool = False) -> None:
        """More of it."""
        for got in self._collector.feed(data):
            if isinstance(got, MoqObject):
                item = self._outlet.taken(got.payload)
                last, self._last = self._last, (item.flow, item.group, item.number)
                # In a stream that does not end each object counts as a group.
                if last[0] >= 0 and (last[0] != item.flow or last >= self._last):
                    raise BreakError("order", f"{self._last} behind {last} in a stream", 0.0)
        if fin:
            self._collector.finish()
            self.closed = True

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """More of it: a client takes everything."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Call the source at once."""
        source(0.0)

    def reset(self, code: int) -> None:
        """It was abandoned."""
        del code
        self.closed = True

    def set_priority(self, priority: int) -> None:
        """Everything is sent at once."""

    def set_deadline(self, deadline: float | None) -> None:
        """Nothing waits."""


class _Publishing:
    """A publisher's session."""

    __slots__ = ("client", "requests")

    def __init__(self) -> None:
        self.client: VirtualClient
        self.requests: dict[int, int] = {}
        """Requests that are served, and the keys of their tracks."""


class MoqtClients(Clients):
    """All clients of one Edge or Stub in one life of it."""

    __slots__ = ("_host", "_publishing", "_subscribing")

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        contact: str,
        call: Call,
        host: EdgeHost,
    ) -> None:
        super().__init__(clock, ledger, contact, call)
        self._host = host
        self._publishing: dict[Publication, _Publishing] = {}
        self._subscribing: dict[int, tuple[VirtualClient, _Outlet]] = {}

    def _session(self, handler: Callable[[float, Event], None], egress: _Outlet) -> VirtualClient:
        client = VirtualClient(self._host.relay, self._host.number(), handler)
        client.open(self._host.now, egress, _INFO)
        self._host.join(client.number, client)
        return client

    def _leave(self, client: VirtualClient) -> None:
        """A client goes."""
        if self.alive and not client.closed:
            client.close(self._host.now)
        self._host.part(client.number)

    # Publishers

    def _announce(self, now: float, publication: Publication) -> None:  # noqa: ARG002
        if publication not in self.publications or publication in self._publishing:
            return
        record = self._publishing[publication] = _Publishing()

        def handle(now: float, event: Event) -> None:
            self._asked(now, publication, record, event)

        client = record.client = self._session(handle, _Outlet(self._nothing))
        if publication.kind is AnnounceKind.NAMESPACE:
            client.session.publish_namespace(publication.name.namespace)
            return
        key = _key_of(publication.name)
        record.requests[client.session.publish(publication.name, alias_of(key))] = key
        self._begin(publication, client, key)

    def _nothing(self, item: Object) -> None:
        raise BreakError("not wanted", f"{self.contact}: a publisher got {item}", self._clock.now)

    def _begin(self, publication: Publication, client: VirtualClient, key: int) -> None:
        flow = self._ledger.flows.begin(self.contact, key, publication.scope)
        feed = _Inlet(self._host, client.number, alias_of(key), publication.lane)
        publication.flows[key] = (flow, feed)

    def _asked(
        self, now: float, publication: Publication, record: _Publishing, event: Event
    ) -> None:
        """Handle an event of a publisher's session."""
        del now
        if isinstance(event, RequestReceived) and isinstance(event.message, Subscribe):
            key = _key_of(event.message.track)
            record.requests[event.request_id] = key
            client = record.client
            client.session.accept_subscribe(event.request_id, alias_of(key))
            if publication in self.publications:
                self._begin(publication, client, key)
        elif isinstance(event, RequestCancelled | RequestRejected):
            key_or_none = record.requests.pop(event.request_id, None)
            if key_or_none is not None and publication in self.publications:
                publication.flows.pop(key_or_none, None)
                if key_or_none in publication.open:
                    publication.open.pop(key_or_none)[1].write(b"", True)

    @property
    def pulled(self) -> set[int]:
        """The keys of tracks that are sent because they are subscribed to.

        A published track goes to its own Edge in any case, to fill the cache.
        """
        return {
            key
            for each in self.publications
            if each.kind is AnnounceKind.NAMESPACE
            for key in each.flows
        }

    def unpublish(self, publication: Publication) -> None:
        """A publisher leaves; groups in progress are finished."""
        if publication not in self.publications:
            return
        self.publications.remove(publication)
        end_streams = publication.end()
        self._call(lambda _now: end_streams())
        publication.flows.clear()
        record = self._publishing.pop(publication, None)
        if record is not None:
            style = publication.style
            self._clock.after(style.objects * style.gap, self._done, record)

    def _done(self, record: _Publishing) -> None:
        def end(_now: float) -> None:
            if not record.client.closed:
                for request in record.requests:
                    record.client.session.publish_done(request, _DONE, 0, "the publisher ended it")
            self._leave(record.client)

        self._call(end)

    # Subscribers

    def _ask(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        self._subscribe(key)

    def _subscribe(self, key: int) -> None:
        want = self.wants.get(key)
        if want is None or key in self._subscribing:
            return

        def handle(now: float, event: Event) -> None:
            if self.wants.get(key) is want:
                self._told(now, key, event)

        outlet = _Outlet(lambda item: self._got(key, item))
        client = self._session(handle, outlet)
        self._subscribing[key] = (client, outlet)
        client.session.subscribe(want.name)

    def _got(self, key: int, item: Object) -> None:
        self._ledger.delivered(self._clock.now, self.contact, key, item)

    def _told(self, now: float, key: int, event: Event) -> None:
        """Handle an event of a subscriber's session."""
        if isinstance(event, RequestAccepted):
            answer, code = Answer.ACCEPTED, SubscribeCode.ACCEPTED
        elif isinstance(event, RequestRejected):
            answer, code = Answer.REFUSED, SubscribeCode.NO_PUBLISHER
        elif isinstance(event, PublishEnded | RequestCancelled):
            answer, code = Answer.ENDED, SubscribeCode.ENDED
        else:
            return
        self.answered(now, key, answer, code=code, reason="", data=NO_DATA)

    def _ask_again(self, now: float, want: Want) -> None:  # noqa: ARG002
        self._stop(want.key)
        self._subscribe(want.key)

    def unsubscribe(self, key: int) -> None:
        """The last subscriber of a track goes."""
        if self._unwant(key) is None:
            return
        if key in self._subscribing:
            self._subscribing[key][1].open = False
        self._call(lambda _now: self._stop(key))

    def _stop(self, key: int) -> None:
        if key in self._subscribing and (key not in self.wants or self._is_idle(key)):
            client, outlet = self._subscribing.pop(key)
            outlet.open = False
            self._leave(client)

    def _is_idle(self, key: int) -> bool:
        return self.wants[key].answer is not Answer.ACCEPTED

    @property
    def open_streams(self) -> int:
        """None: the streams of other relays end at the Edge."""
        return 0


def _key_of(name: FullTrackName) -> int:
    return HASHER.full_name(name.namespace.fields, name.name)


BRIDGE: Final = 0
"""The number of the network's session, or of the parents', at the Edge."""
SETTINGS: Final = EdgeSettings(
    linger=0.3, cache_linger=1.0, upstream_timeout=30.0, publisher_grace=2.0
)
"""Short times, as in the networks around it."""
MEMORY: Final = 5.0
"""So long after a Stub took something back its parent may still ask for it."""


class _OpenDoor:
    """Allows everything (``Authorizer``)."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[object],
        session_tokens: Sequence[object],
    ) -> Decision:
        """Yes."""
        del now, action, namespace, name, tokens, session_tokens
        return Decision(allowed=True)


class _Joined(Protocol):
    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""


class _WatchedUplink(StubUplink):
    """The uplink of a Stub: checks that parents ask only for what it announced."""

    __slots__ = ("host",)

    host: EdgeHost

    def subscribed(
        self,
        now: float,
        parent: UplinkParent,
        key: int,
        name: FullTrackName,
        data: SubscribeData,
    ) -> None:
        """Check the name, then subscribe at the Edge for a parent."""
        self.host.check_pull(now, name)
        super().subscribed(now, parent, key, name, data)


class _WatchedBridge(NetworkBridge):
    """A bridge that reports which tracks it was asked to resume."""

    resumed: Callable[[int], None]

    def resume_received(
        self, now: float, key: int, points: Sequence[Point], to: tuple[int, int]
    ) -> list[Point]:
        """Report the track, then resume it."""
        self.resumed(key)
        return super().resume_received(now, key, points, to)


class EdgeHost:
    """The Edge of one life of a process."""

    __slots__ = (
        "_clock",
        "_core",
        "_joined",
        "_ledger",
        "_life",
        "_numbers",
        "_offered",
        "_stub",
        "clients",
        "plane",
        "relay",
        "stubs",
        "up",
    )

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        contact: str,
        call: Call,
        *,
        stub: bool,
    ) -> None:
        self._clock = clock
        self._ledger = ledger
        self._stub = stub
        self._life = 0
        self.plane = Plane()
        self.relay = EdgeRelay(self.plane, _OpenDoor(), SETTINGS)
        self.clients = MoqtClients(clock, ledger, contact, call, self)
        self.up: NetworkBridge | StubUplink
        self.stubs: dict[int, StubParent] = {}
        """The Stubs of an Edge."""
        self._joined: dict[int, _Joined] = {}
        self._numbers = 0
        self._core: NetworkRelay
        self._offered: dict[FullTrackName, float] = {}
        """What a Stub's clients published, and when last."""

    @property
    def now(self) -> float:
        """The time."""
        return self._clock.now

    def began(self, item: Object) -> float:
        """When the group of an object began."""
        return self._ledger.group(item.flow, item.group, self.now).began

    def publishes(self, name: FullTrackName) -> bool:
        """Whether a track is one of our own clients; no policy is about those of Stubs."""
        return any(each.covers(name) for each in self.clients.publications)

    # Building

    def make_uplink(self, rng: random.Random, life: int) -> StubUplink:
        """Make the uplink of a Stub; :meth:`attach_stub` opens it."""
        self._life = life
        uplink = _WatchedUplink(
            self.relay,
            self.plane,
            HASHER,
            session=BRIDGE,
            epoch=life,
            contexts=lambda: rng.randrange(1, 1 << 32),
            clock=lambda: self.now,
        )
        uplink.host = self
        self.up = uplink
        return uplink

    def attach_stub(self, against: Callable[[FullTrackName], str | None]) -> None:
        """Join the uplink; ``against`` returns why policy refuses a track."""
        self.relay.set_policy(against)
        self._joined[BRIDGE] = self.up
        self.up.open(self.now)

    def attach(self, core: NetworkRelay, rng: random.Random, life: int) -> None:
        """Connect the core of one life of the process with its Edge."""
        self._core = core
        self._life = life
        # As a server does: the network is not asked about what is published at this very Edge.
        self.relay.set_policy(core.against)
        contexts: Callable[[], int] = lambda: rng.randrange(1, 1 << 32)  # noqa: E731
        bridge = _WatchedBridge(
            self.relay, self.plane, core, HASHER, session=BRIDGE, clock=lambda: self.now
        )
        bridge.resumed = lambda key: self._ledger.resumed(self.clients.contact, key)
        self.up = bridge
        core.attach(bridge, bridge, repair=bridge)
        self._joined[BRIDGE] = self.up
        self.up.open(self.now)

        def guest(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
            return self._guest(now, link, up, wire, contexts)

        core.set_foreign_peers(guest)

    def _guest(
        self, now: float, link: Link, up: PeerUp, wire: ForeignPeerWire, contexts: Callable[[], int]
    ) -> ForeignPeer | None:
        if up.node.node.relay_type is not RelayType.STUB:
            return None
        number = self.number()
        stub = StubParent(
            self.relay,
            self.plane,
            HASHER,
            session=number,
            node=self._core.node_id,
            epoch=self._life,
            wire=wire,
            egress=link.egress,
            contexts=contexts,
            clock=lambda: self.now,
        )
        self.stubs[number] = stub
        self._joined[number] = stub
        stub.open(now)
        return stub

    def number(self) -> int:
        """Return an unused session number."""
        self._numbers += 1
        return self._numbers

    def join(self, number: int, client: VirtualClient) -> None:
        """Add the session of a client."""
        self._joined[number] = client

    def part(self, number: int) -> None:
        """Remove the session of a client."""
        self._joined.pop(number, None)

    # Turns

    def pump(self, now: float) -> None:
        """Carry messages between all parts until none is left."""
        if self._stub:  # its parents may only ask for these names
            for publication in self.clients.publications:
                self._offered[publication.name] = now
        moved = True
        while moved:
            self.relay.handle_notices(now)
            moved = False
            for number, client in list(self._joined.items()):
                moved |= client.pump(now)
                if number in self.stubs and self.stubs[number].client.closed:
                    del self.stubs[number], self._joined[number]
            self.relay.poll_dirty()
            events = self.relay.poll_events()
            if events:
                moved = True
                self.up.observe(now, events)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        due = earliest(self.relay.poll_timeout(), self.plane.poll_timeout(), self.up.poll_timeout())
        for stub in self.stubs.values():
            due = earliest(due, stub.poll_timeout())
        return due

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        self.relay.handle_timeout(now)
        self.plane.handle_timeout(now)
        self.up.handle_timeout(now)
        for stub in list(self.stubs.values()):
            stub.handle_timeout(now)

    # For the checks

    def check_pull(self, now: float, name: FullTrackName) -> None:
        """A Stub's parent asks for a track: it must have been announced, and not long ago."""
        fields = name.namespace.fields
        for offered, last in self._offered.items():
            own = offered.namespace.fields
            if now - last <= MEMORY and (
                offered == name or (not offered.name and fields[: len(own)] == own)
            ):
                return
        raise BreakError(
            "stub", f"{self.clients.contact} was asked for {name}, never announced", now
        )

    @property
    def parents(self) -> list[NodeId]:
        """The parents that a Stub has sessions with."""
        parents = self.up.parents if isinstance(self.up, StubUplink) else ()
        return [parent.node for parent in parents]

    @property
    def parent(self) -> NodeId | None:
        """The parent that everything of a Stub goes to."""
        active = self.up.active if isinstance(self.up, StubUplink) else None
        return None if active is None else active.node

    def sizes(self) -> dict[str, int]:
        """What must be empty when there are no clients."""
        return {
            "tracks of the Edge": len(self.relay.tracks()),
            "subscriptions of the Edge": len(self.relay.subscriptions()),
            "namespaces of the Edge": len(self.relay.namespaces()),
            "clients": len(self._joined) - len(self.stubs) - 1,
        }
