"""A C++ relay as a guest of an Edge: names, subscribes and objects, both ways."""

from __future__ import annotations

from laps_wire.moqt.session import RequestAccepted
from laps_wire.peering import cpp
from testkit.bridges import World
from testkit.cpp_peers import FAR, CppNetwork, key_of
from testkit.edge_net import NAMESPACE, TRACK
from testkit.plane import D16, D18, bodies, subgroup


def test_what_its_network_publishes_is_heard_in_ours() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)
    assert [name for _, name in world.port(edge).announced] == [TRACK]
    assert cpp_relay.wanted == []  # nobody receives it
    subscribers = [edge.subscriber(D18, TRACK), far.subscriber(D16, TRACK)]
    assert cpp_relay.wanted == [key_of(TRACK)]
    for each in subscribers:
        each.one(RequestAccepted)
    cpp_relay.sends(TRACK, subgroup(D16, bodies(2), alias=key_of(TRACK)))
    for each in subscribers:
        assert list(each.objects()) == [(0, 0), (0, 1)]


def test_what_ours_publishes_is_heard_in_its_network() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    publisher = far.publisher(D18, TRACK)
    assert cpp_relay.announced == [(NAMESPACE, b"report", 0)]
    cpp_relay.subscribes(TRACK, FAR)
    assert cpp_relay.wire.sets == {2: (FAR,)}
    world.advance(1)
    publisher.send(subgroup(D18, bodies(2)))
    (stream,) = cpp_relay.egress.streams
    header, start = cpp.decode_stream_header(stream.data)
    assert header == cpp.StreamHeader(2, key_of(TRACK), 128, 5000)
    assert stream.data[start:] == subgroup(D16, bodies(2), alias=key_of(TRACK))
