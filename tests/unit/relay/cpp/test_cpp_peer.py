"""A C++ relay as a guest of an Edge: names, subscribes and objects, both ways."""

from __future__ import annotations

import pytest

from laps_relay.cpp.cpp_link import CppLimits
from laps_relay.cpp.cpp_peer import ALIVE_INTERVAL, RETRY, SET_DELAY
from laps_sdk.edge.events import RequestDenied
from laps_sdk.upstream.bodies import subscribe_data
from laps_sdk.upstream.upstream import UpstreamOwner
from laps_wire.moqt.codepoints import PropertyTypeD18
from laps_wire.moqt.control import decode_subscribe_body
from laps_wire.moqt.data import ObjectDatagram
from laps_wire.moqt.data.datagram import decode_datagram, encode_datagram
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import PublishEnded, RequestAccepted, UpdateReceived
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.errors import CloseCode, LimitExceededError
from testkit.bridges import World
from testkit.cpp_peers import FAR, NEAR, OURS, CppNetwork, key_of, node
from testkit.edge_net import NAMESPACE, TRACK, track_of
from testkit.plane import D16, D18, bodies, subgroup

KEY = key_of(TRACK)
DYNAMIC = (KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)


def stream_of(cpp_relay: CppNetwork, index: int = -1) -> tuple[cpp.StreamHeader, bytes]:
    """A stream that we sent it."""
    data = cpp_relay.egress.streams[index].data
    header, start = cpp.decode_stream_header(data)
    return header, data[start:]


# Its network publishes


def test_what_its_network_publishes_is_heard_in_ours() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)
    assert [name for _, name in world.port(edge).announced] == [TRACK]
    assert cpp_relay.wanted == []  # nobody receives it
    subscribers = [edge.subscriber(D18, TRACK), far.subscriber(D16, TRACK)]
    assert cpp_relay.wanted == [KEY]
    for each in subscribers:
        each.one(RequestAccepted)
    cpp_relay.sends(TRACK, subgroup(D16, bodies(2), alias=KEY))
    datagram = encode_datagram(ObjectDatagram(KEY, 9, 0, b"ping"), D16)
    head = cpp.encode_datagram_header(cpp.DatagramHeader(2, KEY))
    cpp_relay.peer.datagram(world.now, head + datagram)
    world.settle()
    for each in subscribers:
        assert list(each.objects()) == [(0, 0), (0, 1)]
        assert [one.payload for one in each.egress.object_datagrams()] == [b"ping"]
        each.session.cancel(each.request)
    world.advance(20)
    assert cpp_relay.wanted == []
    cpp_relay.retracts(TRACK)
    world.advance(10)  # streams may still be under way
    assert not world.port(edge).announced


def test_an_announced_track_costs_nothing_until_somebody_listens() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK, NAMESPACE)
    world.advance(1)
    assert not cpp_relay.wire.take(cpp.SubscribeInfoAdvertised)


def test_tracks_below_an_announced_namespace() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(NAMESPACE)
    track = track_of("x", b"deeper")
    subscriber = far.subscriber(D18, track)
    subscriber.one(RequestAccepted)
    (subscribe,) = cpp_relay.wire.take(cpp.SubscribeInfoAdvertised)
    assert subscribe.info.source_node_id == OURS
    # Nobody announces it any more: who listens is told.
    cpp_relay.retracts(NAMESPACE)
    world.advance(2)
    subscriber.one(PublishEnded)
    # It comes back while somebody still waits.
    waiting = edge.subscriber(D18, track, Parameters(rendezvous_timeout=30_000))
    cpp_relay.announces(NAMESPACE)
    world.advance(1)
    waiting.one(RequestAccepted)


def test_a_track_that_is_wanted_outlives_its_announcement_only_if_another_covers_it() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(NAMESPACE)
    subscriber = edge.subscriber(D18, TRACK)
    subscriber.one(RequestAccepted)
    wider = Namespace(NAMESPACE.fields[:1])
    cpp_relay.announces(wider)
    cpp_relay.retracts(NAMESPACE)
    world.advance(2)
    assert not subscriber.take(PublishEnded)
    cpp_relay.retracts(wider)
    cpp_relay.announces(wider)
    world.advance(2)
    subscriber.one(PublishEnded)


def test_a_new_group_is_asked_for() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)
    edge.subscriber(D16, TRACK)
    (first,) = cpp_relay.wire.take(cpp.SubscribeInfoAdvertised)
    # Nobody in its network says that groups are dynamic, so nobody asks: we say it ourselves.
    host: UpstreamOwner = cpp_relay.peer
    asked = subscribe_data(TRACK, Parameters(new_group_request=3))
    for _ in range(2):
        host.edge_subscribed(world.now, KEY, TRACK, asked)
        world.settle()
    (second,) = cpp_relay.wire.take(cpp.SubscribeInfoAdvertised)
    assert second.info.sequence != first.info.sequence
    assert decode_subscribe_body(second.info.subscribe_data, D16).parameters.new_group_request == 3


def test_streams_of_its_network_are_reset_and_stopped() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)
    subscriber = edge.subscriber(D18, TRACK)
    cpp_relay.sends(TRACK, subgroup(D16, bodies(1), alias=KEY), fin=False)
    cpp_relay.peer.stream_reset(world.now, 3, 1)
    world.settle()
    assert subscriber.egress.streams[0].reset_code is not None


# Ours publishes


def test_what_ours_publishes_is_heard_in_its_network() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    publishers = [far.publisher(D18, TRACK), edge.publisher(D16, track_of("near"))]
    announcer = far.announcer(D18, NAMESPACE)
    assert cpp_relay.announced == [
        (NAMESPACE, b"report", 0),
        (NAMESPACE, b"near", 0),
        (NAMESPACE, b"", 1),
    ]
    for track in (TRACK, track_of("near")):
        cpp_relay.subscribes(track)
    assert cpp_relay.wire.sets == {2: (FAR,), 3: (FAR,)}
    world.advance(1)
    for index, track in enumerate((TRACK, track_of("near"))):
        draft = (D18, D16)[index]
        publishers[index].send(subgroup(draft, bodies(2)))
        header, data = stream_of(cpp_relay)
        assert header == cpp.StreamHeader(2 + index, key_of(track), 128, 5000)
        assert data == subgroup(D16, bodies(2), alias=key_of(track))
    publishers[0].datagram(ObjectDatagram(7, 9, 0, b"ping"))
    head, start = cpp.decode_datagram_header(cpp_relay.egress.datagrams[0])
    assert head == cpp.DatagramHeader(2, KEY)
    datagram = decode_datagram(cpp_relay.egress.datagrams[0][start:], D16)
    assert isinstance(datagram, ObjectDatagram)
    assert (datagram.track_alias, datagram.payload) == (KEY, b"ping")
    for each in (*publishers, announcer):
        each.leave()
    world.advance(2)
    assert cpp_relay.announced == []


def test_a_set_is_told_some_time_before_its_data() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    publisher = edge.publisher(D18, TRACK)
    cpp_relay.subscribes(TRACK)
    publisher.send(subgroup(D18, bodies(1), group=0))
    assert (len(cpp_relay.wire.sets), cpp_relay.egress.streams) == (1, [])
    world.advance(SET_DELAY)
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert stream_of(cpp_relay)[1] == subgroup(D16, bodies(1), group=1, alias=KEY)


def test_targets_come_and_go() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    publisher = edge.publisher(D18, TRACK)
    cpp_relay.subscribes(TRACK)
    world.advance(1)
    cpp_relay.subscribes(TRACK, NEAR)
    assert cpp_relay.wire.sets == {2: (NEAR, FAR)}
    publisher.send(subgroup(D18, bodies(1)))
    assert len(cpp_relay.egress.streams) == 1  # one for both
    cpp_relay.lost(FAR)
    assert cpp_relay.wire.sets == {2: (NEAR,)}
    cpp_relay.unsubscribes(TRACK, NEAR)
    assert cpp_relay.wire.sets == {}
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert len(cpp_relay.egress.streams) == 1
    cpp_relay.nodes(FAR)
    assert cpp_relay.wire.sets == {3: (FAR,)}
    cpp_relay.unsubscribes(TRACK)
    assert cpp_relay.wire.sets == {}
    world.advance(30)
    assert not cpp_relay.egress.streams[1:]


def test_no_more_sets_can_be_had() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    edge.publisher(D18, TRACK)
    cpp_relay.wire.full = True
    cpp_relay.subscribes(TRACK)
    cpp_relay.subscribes(TRACK, sequence=2)
    world.advance(1)
    cpp_relay.unsubscribes(TRACK)
    assert (cpp_relay.wire.sets, cpp_relay.egress.streams) == ({}, [])


def test_what_nobody_publishes_is_looked_for_again() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.subscribes(TRACK)
    world.advance(2 * RETRY)
    # It is told of at once, if it has a name.
    publisher = far.publisher(D18, TRACK)
    world.advance(0.1)
    publisher.send(subgroup(D18, bodies(1)))
    assert len(cpp_relay.egress.streams) == 1
    publisher.session.publish_done(publisher.request, 2, 0, "that was all")
    world.advance(1)
    announcer = far.announcer(D18, NAMESPACE)
    world.advance(0.1)
    announcer.answer()
    announcer.send(subgroup(D18, bodies(1), alias=77, group=3))
    assert len(cpp_relay.egress.streams) == 2


def test_it_is_looked_for_ever_more_rarely() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.subscribes(TRACK)
    edge.publisher(D18, track_of("other"))  # another name does not help
    world.advance(300)
    tries = [event.session for event in edge.log if isinstance(event, RequestDenied)]
    assert 4 <= len(tries) <= 10


def test_who_wants_a_new_group_gets_it_asked_for() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    publisher = edge.publisher(D18, TRACK, properties=DYNAMIC)
    cpp_relay.subscribes(TRACK)
    cpp_relay.subscribes(TRACK, sequence=2, new_group_request=0)  # before its time
    world.advance(1)
    publisher.send(subgroup(D18, bodies(1)))
    publisher.take(UpdateReceived)
    cpp_relay.subscribes(TRACK, sequence=3, new_group_request=1)
    assert publisher.one(UpdateReceived).message.parameters.new_group_request == 1


def test_a_dropped_stream_is_told_to_the_plane() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    publisher = edge.publisher(D18, TRACK)
    cpp_relay.subscribes(TRACK)
    world.advance(1)
    stream = publisher.send(subgroup(D18, bodies(1)), fin=False)
    (out,) = cpp_relay.egress.streams
    cpp_relay.peer.out_stream_gone(world.now, out, 0, stopped=True)
    cpp_relay.peer.out_stream_gone(world.now, object(), 0, stopped=True)  # type: ignore[arg-type]
    written = len(out.writes)
    publisher.more(stream, b"\x00\x01x")
    assert len(out.writes) == written


# Both


def test_it_never_hears_of_its_own_names() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    cpp_relay = CppNetwork(world, edge)
    other = CppNetwork(world, edge, number=3001)
    remote = CppNetwork(world, far, number=3002)
    cpp_relay.announces(TRACK, NAMESPACE)
    assert cpp_relay.announced == []
    # Other networks do, wherever they are.
    assert len(other.announced) == len(remote.announced) == 2
    remote.subscribes(TRACK)
    world.advance(1)
    cpp_relay.sends(TRACK, subgroup(D16, bodies(2), alias=KEY))
    assert stream_of(remote)[1] == subgroup(D16, bodies(2), alias=KEY)
    assert (cpp_relay.egress.streams, other.egress.streams) == ([], [])
    cpp_relay.retracts(TRACK, NAMESPACE)
    world.advance(10)
    assert other.announced == remote.announced == []


def test_what_relays_of_ours_say_there_is_not_taken() -> None:
    world = World()
    edge = world.edge()
    cousin = NodeId(0x12)
    cpp_relay = CppNetwork(world, edge, ours=frozenset({cousin}))
    cpp_relay.announces(TRACK, source=cousin)
    assert not world.port(edge).announced


def test_a_relay_that_comes_late_hears_of_all_names() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    far.publisher(D18, TRACK)
    edge.announcer(D16, NAMESPACE)
    cpp_relay = CppNetwork(world, edge)
    assert sorted(cpp_relay.announced, key=lambda each: each[2]) == [
        (NAMESPACE, b"report", 0),
        (NAMESPACE, b"", 1),
    ]


def test_the_end_of_the_session_ends_everything() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)
    subscriber = edge.subscriber(D18, TRACK)
    subscriber.one(RequestAccepted)
    other = edge.publisher(D18, track_of("other"))
    cpp_relay.subscribes(track_of("other"))
    world.advance(1)
    cpp_relay.close()
    assert cpp_relay.peer.client.closed
    world.advance(10)
    assert TRACK not in [name for _, name in world.port(edge).announced]
    assert not subscriber.take(PublishEnded)  # another way may lead to the publisher
    world.advance(30)
    subscriber.one(PublishEnded)
    other.send(subgroup(D18, bodies(1)))
    assert not cpp_relay.egress.streams
    said = len(cpp_relay.wire.order)
    edge.publisher(D18, track_of("third"))
    assert len(cpp_relay.wire.order) == said


def test_something_is_said_again_and_again() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    world.advance(ALIVE_INTERVAL + 0.1)
    assert cpp_relay.wire.take(cpp.NodeInfoAdvertise) == [cpp.NodeInfoAdvertise(node(OURS))]
    world.advance(ALIVE_INTERVAL - 0.2)
    edge.publisher(D18, TRACK)  # that is something, too
    world.advance(ALIVE_INTERVAL - 0.1)
    assert not cpp_relay.wire.take(cpp.NodeInfoAdvertise)
    world.advance(0.3)
    assert len(cpp_relay.wire.take(cpp.NodeInfoAdvertise)) == 1
    cpp_relay.peer.measured(world.now, 5)


def test_too_much_is_a_fault() -> None:
    world = World()
    cpp_relay = CppNetwork(world, world.edge(), limits=CppLimits(max_announces=1))
    with pytest.raises(LimitExceededError):
        cpp_relay.announces(TRACK, NAMESPACE)


def test_an_edge_that_goes_away_ends_the_session() -> None:
    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    edge.relay.drain(world.now)
    world.advance(60)
    assert cpp_relay.wire.closed is not None
    assert cpp_relay.wire.closed[0] == CloseCode.NOT_AUTHORIZED
