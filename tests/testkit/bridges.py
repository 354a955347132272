"""Edges joined by bridges and a network that only knows who announced what and who wants what.

::

    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(Draft.D18, TRACK)
    subscriber = two.subscriber(Draft.D16, TRACK)
    publisher.send(subgroup(...))
    subscriber.objects()

Each edge is a real control plane, a real forwarding plane and a real bridge; clients are sans-IO
sessions. The network between the bridges carries data at once, and control with ``lag`` in the next
turn, so that both ways of calling a bridge are seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from laps_relay.cpp.directory import Directory
from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.relay import NetworkRelay
from laps_relay.peer_forwarding.forwarding import LOCAL, Ingress
from laps_sdk.edge.authorization import Authorizer
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.forwarding.plane import Plane
from laps_sdk.upstream.interfaces import Answer, FetchHandle, FetchRefusal
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.data import ObjectDatagram, StreamKind, encode_datagram
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import RequestReceived, Terminated
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FLAG_CONTINUED,
    FLAG_FETCH,
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    DataKind,
    PayloadFormat,
    Stamp,
    SubscribeCode,
    SubscribeData,
)
from testkit.edge_net import OpenDoor
from testkit.moqt_pair import Pair
from testkit.plane import FakeEgress

__all__ = ["HASHER", "NETWORK", "Client", "Edge", "Fanout", "World"]

HASHER = KeyedHasher(b"a key of the test network")
NETWORK = 1000
"""The bridge's session at every edge."""

E = TypeVar("E")


def key_of(name: FullTrackName) -> int:
    return HASHER.full_name(name.namespace.fields, name.name)


class Timed(Protocol):
    """Something with timers."""

    def poll_timeout(self) -> float | None: ...
    def handle_timeout(self, now: float) -> None: ...


class Client:
    """A client of an edge, with its connection."""

    def __init__(self, edge: Edge, number: int, draft: Draft) -> None:
        self.edge = edge
        self.id = number
        self.draft = draft
        self.pair = Pair(draft)
        self.egress = FakeEgress(draft)
        self.request = -1
        self._streams = 2

    @property
    def session(self) -> Any:
        return self.pair.client.session

    def take(self, kind: type[E]) -> list[E]:
        """The events of one kind since the last call for it, oldest first."""
        events = self.pair.client.events
        found: list[E] = [event for event in events if isinstance(event, kind)]
        self.pair.client.events = [event for event in events if not isinstance(event, kind)]
        return found

    def one(self, kind: type[E]) -> E:
        (event,) = self.take(kind)
        return event

    # Publishing

    def send(self, data: bytes, *, fin: bool = True) -> int:
        """Begin a stream; its id."""
        self._streams += 4
        world = self.edge.world
        self.edge.plane.stream_opened(
            world.now, self.id, self._streams, StreamKind.SUBGROUP, data, fin
        )
        world.settle()
        return self._streams

    def more(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        self.edge.plane.stream_data(self.edge.world.now, self.id, stream, data, fin)
        self.edge.world.settle()

    def reset(self, stream: int, code: int) -> None:
        self.edge.plane.stream_reset(self.edge.world.now, self.id, stream, code)
        self.edge.world.settle()

    def datagram(self, datagram: ObjectDatagram) -> None:
        self.edge.plane.datagram(
            self.edge.world.now, self.id, encode_datagram(datagram, self.draft)
        )
        self.edge.world.settle()

    def answer(
        self,
        alias: int = 77,
        parameters: Parameters = NO_PARAMETERS,
        properties: KeyValues = (),
    ) -> None:
        """Say SUBSCRIBE_OK to the edge's SUBSCRIBE."""
        event = self.one(RequestReceived)
        self.session.accept_subscribe(event.request_id, alias, parameters, properties)
        self.edge.world.settle()

    # Receiving

    def objects(self) -> dict[tuple[int, int], bytes]:
        return self.egress.objects()

    def leave(self) -> None:
        self.session.close()
        self.edge.world.settle()


class Edge:
    """One Edge and its clients."""

    def __init__(
        self,
        world: World,
        number: int,
        *,
        settings: EdgeSettings | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.world = world
        self.number = number
        self.plane = Plane()
        self.relay = EdgeRelay(self.plane, authorizer or OpenDoor(), settings or EdgeSettings())
        self.clients: dict[int, Client] = {}
        self.log: list[RelayEvent] = []
        self.hooks: list[Callable[[], bool]] = []
        """Other bridges of this edge."""
        self.listeners: list[Callable[[list[RelayEvent]], None]] = []
        self._numbers = itertools.count(1)

    # Clients

    def connect(self, draft: Draft) -> Client:
        client = Client(self, next(self._numbers), draft)
        self.clients[client.id] = client
        self.relay.add_session(
            self.world.now,
            client.id,
            client.pair.server.session,
            client.egress,
            SessionInfo(peer_address="192.0.2.1:1", draft=draft),
        )
        self.world.settle()
        return client

    def publisher(
        self, draft: Draft, track: FullTrackName, alias: int = 7, properties: KeyValues = ()
    ) -> Client:
        client = self.connect(draft)
        client.request = client.session.publish(track, alias, NO_PARAMETERS, properties)
        self.world.settle()
        return client

    def announcer(self, draft: Draft, namespace: Namespace) -> Client:
        client = self.connect(draft)
        client.request = client.session.publish_namespace(namespace)
        self.world.settle()
        return client

    def subscriber(
        self, draft: Draft, track: FullTrackName, parameters: Parameters = NO_PARAMETERS
    ) -> Client:
        client = self.connect(draft)
        client.request = client.session.subscribe(track, parameters)
        self.world.settle()
        return client

    # Turns

    def turn(self) -> bool:
        now, moved = self.world.now, False
        self.relay.handle_notices(now)
        for client in list(self.clients.values()):
            near, far = client.pair.client, client.pair.server
            near.transmit(far)
            if far.inbox or far.closing is not None:
                moved = True
                far.receive_all()
                self._events(client)
                far.transmit(near)
            if near.inbox or near.closing is not None:
                moved = True
                near.receive_all()
                near.take_events()
                near.transmit(far)
        for hook in self.hooks:
            moved |= hook()
        for number in self.relay.poll_dirty():
            if number in self.clients:
                moved = True
                self._events(self.clients[number])
                if number in self.clients:
                    client = self.clients[number]
                    client.pair.server.transmit(client.pair.client)
        events = self.relay.poll_events()
        self.log += events
        for listener in self.listeners:
            listener(events)
        return moved or bool(events)

    def _events(self, client: Client) -> None:
        for event in client.pair.server.take_events():
            self.relay.handle_session_event(self.world.now, client.id, event)
            if isinstance(event, Terminated):
                client.pair.server.transmit(client.pair.client)
                self.relay.remove_session(self.world.now, client.id)
                client.pair.client.receive_all()
                client.pair.client.take_events()
                del self.clients[client.id]

    def next_timeout(self) -> float | None:
        due = [when for when in (self.relay.poll_timeout(), self.plane.poll_timeout()) if when]
        return min(due, default=None)

    def timeout(self) -> None:
        self.relay.handle_timeout(self.world.now)
        self.plane.handle_timeout(self.world.now)


class World:
    """All edges, the network between them, and the time."""

    def __init__(self, *, lag: bool = False, plaintext: bool = True) -> None:
        self.now = 100.0
        self.lag = lag
        self.plaintext = plaintext
        self.edges: list[Edge] = []
        self.ports: list[Port] = []
        self.timed: list[Timed] = []
        """Everything with timers but the edges themselves."""
        self.queue: list[Callable[[], None]] = []
        self.numbers = itertools.count(1)
        self.carried: list[tuple[int, int, bytes]] = []
        """(from edge, to edge, payload) of every stream and datagram."""
        self.denied: set[tuple[int, FullTrackName]] = set()
        """(edge, track) that policy forbids."""
        self.mute = self.deaf = False
        """Whether answers to FETCHes, or their streams, are lost."""
        self._settling = False

    def port(self, edge: Edge) -> Port:
        """The network behind an Edge."""
        return next(port for port in self.ports if port.edge is edge)

    def edge(self, **options: Any) -> Edge:
        """One more Edge with a bridge."""
        edge = self.bare_edge(**options)
        port = Port(self, edge)
        self.ports.append(port)
        self.timed.append(port.bridge)
        port.open()
        self.settle()
        return edge

    def bare_edge(self, **options: Any) -> Edge:
        edge = Edge(self, len(self.edges), **options)
        self.edges.append(edge)
        return edge

    def do(self, call: Callable[[], None]) -> None:
        if self.lag:
            self.queue.append(call)
        else:
            call()

    def settle(self) -> None:
        if self._settling:
            return
        self._settling = True
        for _ in range(1000):
            moved = False
            for edge in self.edges:
                moved |= edge.turn()
            queue, self.queue = self.queue, []
            for call in queue:
                call()
            if not moved and not queue:
                break
        else:
            raise AssertionError("the edges never come to rest")
        self._settling = False

    def advance(self, seconds: float) -> None:
        """Let time pass, one timer after the other."""
        until = self.now + seconds
        self.settle()
        while True:
            due = [
                when
                for when in (
                    *(edge.next_timeout() for edge in self.edges),
                    *(each.poll_timeout() for each in self.timed),
                )
                if when is not None
            ]
            if not due or min(due) > until:
                break
            self.now = max(self.now, min(due))
            for edge in self.edges:
                edge.timeout()
            for each in list(self.timed):
                each.handle_timeout(self.now)
            self.settle()
        self.now = until


class Port:
    """The network as one edge's bridge sees it: its commands, and what follows from them."""

    def __init__(self, world: World, edge: Edge) -> None:
        self.world = world
        self.edge = edge
        self.announced: dict[tuple[AnnounceKind, FullTrackName], None] = {}
        self.wants: dict[int, tuple[FullTrackName, SubscribeData]] = {}
        self.targets: dict[int, dict[int, None]] = {}
        """Who wants what we publish, by key."""
        self.served: dict[int, SubscribeData] = {}
        """What we publish, and the publisher's answer."""
        self.fetches: dict[int, Port] = {}
        """Ours that are under way: who answers them."""
        self.kept: set[int] = set()
        """Tracks that we have left, and that a test says would go on at once."""
        self.calls: list[tuple[str, Any]] = []
        self.feeds: list[Fanout] = []
        self.directory = Directory(NETWORK)
        self.bridge = NetworkBridge(
            edge.relay,
            edge.plane,
            cast("NetworkRelay", self),
            HASHER,
            session=NETWORK,
            clock=lambda: world.now,
            directory=self.directory,
        )

    def open(self) -> None:
        self.bridge.open(self.world.now)
        self.edge.hooks.append(lambda: self.bridge.pump(self.world.now))
        self.edge.listeners.append(lambda events: self.bridge.observe(self.world.now, events))

    @property
    def number(self) -> int:
        return self.edge.number

    def others(self) -> list[Port]:
        return [port for port in self.world.ports if port is not self]

    def matches(self, name: FullTrackName) -> bool:
        return any(
            known == name
            if kind is AnnounceKind.TRACK
            else known.namespace.is_prefix_of(name.namespace)
            for kind, known in self.announced
        )

    # NetworkCommands

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        assert (kind, name) not in self.announced, "announced twice"
        self.calls.append(("announce", name))
        self.announced[kind, name] = None
        self.world.do(lambda: self._announced(kind, name))

    def _announced(self, kind: AnnounceKind, name: FullTrackName) -> None:
        fields = name.namespace.fields
        entry = AnnounceInfo(
            NodeId(self.number + 1),
            Stamp(1, 1),
            kind,
            HASHER.elements(fields),
            HASHER.name(name.name) if kind is AnnounceKind.TRACK else None,
            key_of(name),
            name if self.world.plaintext else None,
        )
        for port in self.others():
            if self.world.plaintext:
                port.bridge.announce_added(self.world.now, entry)
            for key in list(port.wants):
                port.look_for(key)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.calls.append(("withdraw", name))
        del self.announced[kind, name]
        self.world.do(lambda: self._withdrawn(kind, name))

    def _withdrawn(self, kind: AnnounceKind, name: FullTrackName) -> None:
        for port in self.others():
            if not any((kind, name) in other.announced for other in port.others()):
                port.bridge.announce_removed(self.world.now, kind, name)

    def subscribe(self, now: float, name: FullTrackName, data: SubscribeData) -> None:
        self.calls.append(("subscribe", name))
        self.wants[key_of(name)] = (name, data)
        self.world.do(lambda: self.look_for(key_of(name), answer=True))

    def look_for(self, key: int, *, answer: bool = False) -> None:
        """Find who publishes a track."""
        if key not in self.wants:
            return
        name, data = self.wants[key]
        if (self.number, name) in self.world.denied:
            self.tell(key, Answer.REFUSED, SubscribeCode.POLICY, "not in this region")
            return
        found = [port for port in self.others() if port.matches(name)]
        for port in found:
            port.serve(self, key, name, data)
        if answer and not found:
            self.tell(key, Answer.REFUSED, SubscribeCode.NO_PUBLISHER, "nobody announced it")

    def serve(self, other: Port, key: int, name: FullTrackName, data: SubscribeData) -> None:
        self.targets.setdefault(key, {})[other.number] = None
        if key in self.served:
            other.tell(key, Answer.ACCEPTED, SubscribeCode.ACCEPTED, "", self.served[key])
        self.feeds.append(Fanout(self, key))
        self.bridge.serve_track(self.world.now, key, name, data, self.feeds[-1])

    def tell(
        self,
        key: int,
        answer: Answer,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData | None = None,
    ) -> None:
        if key in self.wants:
            self.bridge.answered(
                self.world.now, key, answer, code=code, reason=reason, data=data or SubscribeData()
            )

    def keeps(self, key: int) -> bool:
        return key in self.kept

    def unsubscribe(self, now: float, name: FullTrackName) -> None:
        self.calls.append(("unsubscribe", name))
        key = key_of(name)
        del self.wants[key]
        for port in self.others():
            targets = port.targets.get(key, {})
            targets.pop(self.number, None)
            if not targets and port.targets.pop(key, None) is not None:
                port.served.pop(key, None)
                self.world.do(lambda port=port: port.bridge.release(self.world.now, key))  # type: ignore[misc]  # bound now

    def publisher_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        self.calls.append(("publisher_accepted", key))
        self.served[key] = data
        for port in self.others():
            if port.number in self.targets.get(key, {}):
                port.tell(key, Answer.ACCEPTED, SubscribeCode.ACCEPTED, "", data)

    def publisher_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        self.calls.append(("publisher_refused", (key, code, reason)))
        self._over(key, Answer.REFUSED, code, reason, data)

    def publisher_ended(self, now: float, key: int, reason: str) -> None:
        self.calls.append(("publisher_ended", (key, reason)))
        self._over(key, Answer.ENDED, SubscribeCode.ENDED, reason, SubscribeData())

    # FetchNetwork: always in the next turn, as the answer of another relay is

    def fetch(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        self.calls.append(("fetch", name))
        found = [port for port in self.others() if port.matches(name)]
        if not found:
            return FetchRefusal(SubscribeCode.NO_PUBLISHER, "nobody announced it")
        other, fetch_id = found[0], next(self.world.numbers)
        handle = NodeId(self.number + 1), fetch_id
        feed = FetchFan(other, key_of(name), self, fetch_id)
        self.fetches[fetch_id] = other
        self.world.queue.append(
            lambda: other.bridge.serve_fetch(self.world.now, handle, name, data, feed)
        )
        return fetch_id

    def unfetch(self, now: float, fetch_id: int) -> None:
        self.calls.append(("unfetch", fetch_id))
        other = self.fetches.pop(fetch_id, None)
        if other is not None:
            handle = NodeId(self.number + 1), fetch_id
            self.world.queue.append(lambda: other.bridge.drop_fetch(self.world.now, handle))

    def fetch_over(self, now: float, fetch_id: int) -> None:
        self.calls.append(("fetch_over", fetch_id))
        del self.fetches[fetch_id]

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        self.calls.append(("fetched", handle))
        self._tell_fetch(handle, SubscribeCode.ACCEPTED, "", data)

    def fetch_refused(
        self, now: float, handle: FetchHandle, code: int, reason: str, data: SubscribeData
    ) -> None:
        self.calls.append(("fetch_refused", (handle, code, reason)))
        self._tell_fetch(handle, code, reason, data)

    def _tell_fetch(self, handle: FetchHandle, code: int, reason: str, data: SubscribeData) -> None:
        if not self.world.mute:
            bridge = next(port for port in self.world.ports if port.number + 1 == handle[0]).bridge
            self.world.queue.append(
                lambda: bridge.fetch_answered(self.world.now, handle[1], code, reason, data)
            )

    def fetch_served(self, now: float, handle: FetchHandle) -> None:
        self.calls.append(("fetch_served", handle))

    def _over(
        self, key: int, answer: Answer, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        targets = self.targets.pop(key, {})
        self.served.pop(key, None)
        for port in self.others():
            if port.number in targets and not any(key in other.served for other in port.others()):
                self.world.do(lambda port=port: port.tell(key, answer, code, reason, data))  # type: ignore[misc]  # bound now


class Fanout:
    """The feed of one track at one edge: to every edge that wants it when a stream begins."""

    def __init__(self, port: Port, key: int) -> None:
        self.port = port
        self.key = key
        self.opened: list[tuple[int, int, float | None]] = []
        """Priority, ttl and deadline of each stream."""
        self.datagrams: list[tuple[int, int]] = []

    @property
    def ingress(self) -> Ingress:
        return Ingress(LOCAL, 1)

    def targets(self) -> list[Port]:
        wanted = self.port.targets.get(self.key, {})
        return [port for port in self.port.others() if port.number in wanted]

    def header(self, kind: DataKind, priority: int, ttl_ms: int) -> DataHeader:
        context = self.port.number + 1
        return DataHeader(kind, 1, self.key, context, priority, ttl_ms, int(PayloadFormat.MOQT_18))

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
        self.opened.append((priority, ttl_ms, deadline))
        header = self.header(DataKind.STREAM, priority, ttl_ms)
        if continued:
            header = header._replace(flags=header.flags | FLAG_CONTINUED)
        return FanoutStream(self, header)

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        self.datagrams.append((priority, ttl_ms))
        for port in self.targets():
            self.port.world.carried.append((self.port.number, port.number, payload))
            port.bridge.datagram(now, self.header(DataKind.DATAGRAM, priority, ttl_ms), payload)
        return True


class FetchFan(Fanout):
    """The feed of the answer to a FETCH: to one edge."""

    def __init__(self, port: Port, key: int, asker: Port, fetch_id: int) -> None:
        super().__init__(port, key)
        self.asker = asker
        self.fetch_id = fetch_id

    def targets(self) -> list[Port]:
        return [] if self.port.world.deaf else [self.asker]

    def header(self, kind: DataKind, priority: int, ttl_ms: int) -> DataHeader:
        header = super().header(kind, priority, ttl_ms)
        return header._replace(context=self.fetch_id, flags=FLAG_FETCH)


class FanoutStream:
    """One stream to every edge that wants it."""

    def __init__(self, feed: Fanout, header: DataHeader) -> None:
        self.feed = feed
        self.header = header
        self.world = feed.port.world
        self.streams = [(port, next(self.world.numbers)) for port in feed.targets()]
        self.begun = False
        self.closed = False
        self.queued = 0

    def write(self, data: bytes, fin: bool = False) -> None:
        if self.closed:
            return
        for port, number in self.streams:
            if self.begun:
                port.bridge.stream_data(self.world.now, number, data, fin)
            else:
                self.world.carried.append((self.feed.port.number, port.number, data))
                port.bridge.stream_opened(self.world.now, number, self.header, data, fin)
        self.begun = True
        self.closed = fin

    def offer(self, data: bytes, fin: bool = False) -> bool:
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        if not self.closed:
            self.closed = True
            for port, number in self.streams:
                port.bridge.stream_reset(self.world.now, number, code)

    def set_priority(self, priority: int) -> None:
        raise AssertionError("the publisher's priority does not change")

    def set_deadline(self, deadline: float | None) -> None:
        raise AssertionError(deadline)
