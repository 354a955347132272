"""A MoQT session in memory."""

from __future__ import annotations

from laps_relay.sim.clients.moqt import VirtualClient
from laps_sdk.edge.settings import SessionInfo
from laps_wire.moqt.session import (
    Event,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    RequestAccepted,
    RequestReceived,
    SetupReceived,
    Terminated,
)
from testkit.bridges import World
from testkit.edge_net import NAMESPACE, TRACK
from testkit.plane import D18, FakeEgress

INFO = SessionInfo(peer_address="memory", draft=D18)


class Rig:
    def __init__(self) -> None:
        self.world = World()
        self.edge = self.world.bare_edge()
        self.events: list[Event] = []
        self.virtual = VirtualClient(self.edge.relay, 50, self.handle)
        self.virtual.open(self.world.now, FakeEgress(D18), INFO)
        self.edge.hooks.append(lambda: self.virtual.pump(self.world.now))

    def handle(self, now: float, event: Event) -> None:
        assert now == self.world.now
        self.events.append(event)
        # From inside it does nothing: the loop outside goes on.
        assert self.virtual.pump(now) is False
        if isinstance(event, RequestReceived):
            self.virtual.session.accept_subscribe(event.request_id, 9)

    def found(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def test_setup_is_exchanged_at_once() -> None:
    rig = Rig()
    assert rig.found(SetupReceived) == 1
    assert [row.ready for row in rig.edge.relay.sessions()] == [True]
    assert rig.virtual.pump(rig.world.now) is False
    assert rig.virtual.number == 50


def test_requests_go_both_ways() -> None:
    rig = Rig()
    session = rig.virtual.session
    session.subscribe_namespace(NAMESPACE)
    offer = session.publish_namespace(NAMESPACE)
    assert rig.virtual.pump(rig.world.now) is True
    assert rig.found(RequestAccepted) == 2
    assert rig.found(NamespaceAdvertised) == 1
    # The edge asks us, and is answered in the same turn.
    subscriber = rig.edge.subscriber(D18, TRACK)
    subscriber.one(RequestAccepted)
    # Streams of requests end in both directions.
    session.cancel(offer)
    rig.world.settle()
    assert rig.found(NamespaceWithdrawn) == 1
    assert rig.edge.relay.namespaces() == []


def test_the_edge_may_close() -> None:
    rig = Rig()
    rig.edge.relay.drain(rig.world.now, "")
    rig.world.advance(30)
    assert rig.found(Terminated) == 1
    assert rig.virtual.closed


def test_we_may_close() -> None:
    rig = Rig()
    rig.virtual.session.publish_namespace(NAMESPACE)
    rig.world.settle()
    rig.virtual.close(rig.world.now)
    rig.world.settle()
    assert rig.virtual.closed
    assert rig.edge.relay.sessions() == []
    assert rig.edge.relay.namespaces() == []
