"""Stubs behind a parent Edge, with a network behind that."""

from __future__ import annotations

from testkit.bridges import World
from testkit.edge_net import NAMESPACE, TRACK
from testkit.plane import D18, bodies, subgroup
from testkit.stubs import Stub


def test_what_a_stub_publishes_reaches_the_network() -> None:
    world = World()
    parent, far = world.edge(), world.edge()
    stub = Stub(world)
    stub.join(parent)
    publisher = stub.edge.publisher(D18, TRACK)
    subscriber = far.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2)))
    assert list(subscriber.objects()) == [(0, 0), (0, 1)]


def test_what_a_stub_wants_comes_from_the_network() -> None:
    world = World()
    parent, far = world.edge(), world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = far.announcer(D18, NAMESPACE)
    subscriber = stub.edge.subscriber(D18, TRACK)
    announcer.answer(7)
    announcer.send(subgroup(D18, bodies(2)))
    assert list(subscriber.objects()) == [(0, 0), (0, 1)]
