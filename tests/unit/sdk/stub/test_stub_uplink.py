"""A Stub and its parents: the nearest one serves, another one takes over."""

from __future__ import annotations

import pytest

from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.upstream.egress import alias_of
from laps_wire.moqt.codepoints import RequestErrorCode, StreamResetCodeD18
from laps_wire.moqt.data import ObjectDatagram
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.peering.laps2 import AnnounceKind, DataHeader, DataKind, encode_data_header
from laps_wire.peering.session import Staying
from testkit.bridges import World, key_of
from testkit.edge_net import NAMESPACE, TRACK, track_of
from testkit.plane import D18, bodies, subgroup
from testkit.stubs import Stub


def test_everything_goes_to_the_nearest_parent() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    far, near = stub.join(one, srtt_us=50_000), stub.join(two, srtt_us=5_000)
    assert stub.uplink.active is near.uplink
    publisher = stub.edge.publisher(D18, TRACK)
    subscriber = one.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(1)))
    assert list(subscriber.objects()) == [(0, 0)]
    assert not far.up.streams
    assert not world.port(one).announced
    assert list(world.port(two).announced)


def test_a_nearer_parent_is_taken_while_nothing_is_under_way() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first = stub.join(one, srtt_us=50_000)
    stub.edge.announcer(D18, NAMESPACE)
    assert list(world.port(one).announced)
    second = stub.join(two, srtt_us=5_000)
    assert stub.uplink.active is second.uplink
    assert not world.port(one).announced
    assert list(world.port(two).announced)
    # With something under way it stays, however far it is.
    subscriber = stub.edge.subscriber(D18, track_of("x", b"y"))
    second.uplink.measured(world.now, 90_000)
    assert stub.uplink.active is second.uplink
    subscriber.leave()
    world.advance(10)
    second.uplink.measured(world.now, 90_000)
    assert stub.uplink.active is first.uplink


def test_another_parent_takes_over_when_one_dies() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, second = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    up = stub.edge.publisher(D18, TRACK)
    down = two.publisher(D18, track_of("down"))
    above = two.subscriber(D18, TRACK)
    below = stub.edge.subscriber(D18, track_of("down"))
    up.send(subgroup(D18, bodies(1), group=0))
    down.send(subgroup(D18, bodies(1), group=0))
    half = subgroup(D18, bodies(1), group=1)
    down.send(half[:-2], fin=False)
    first.close()
    assert stub.uplink.active is second.uplink
    assert below.egress.streams[-1].reset_code is not None
    # Who receives at the Stub does not notice; who receives elsewhere asks again.
    world.advance(2)
    assert not below.take(PublishEnded)
    above.take(PublishEnded)
    again = two.subscriber(D18, TRACK)
    up.send(subgroup(D18, bodies(1), group=2))
    down.send(subgroup(D18, bodies(1), group=2))
    assert list(below.objects()) == [(0, 0), (2, 0)]
    assert list(again.objects()) == [(2, 0)]
    # The end of one that was left already.
    stub.uplink.lost(world.now, first.uplink)


def test_a_parent_that_stays_may_be_chosen_again() -> None:
    world = World()
    stub = Stub(world)
    first = stub.join(world.edge(), srtt_us=5_000)
    second = stub.join(world.edge(), srtt_us=50_000)
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    assert stub.uplink.active is second.uplink
    first.uplink.event(world.now, Staying())
    assert not first.uplink.draining
    assert stub.uplink.active is first.uplink  # the other one has nothing to do


def test_a_parent_that_drains_is_left_without_loss() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, second = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    source = one.publisher(D18, track_of("down"))
    below = stub.edge.subscriber(D18, track_of("down"))
    data = subgroup(D18, bodies(2), group=0)
    stream = source.send(data[:-5], fin=False)
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    assert stub.uplink.active is second.uplink
    world.settle()
    assert set(second.uplink.link.subscribed_keys) == {key_of(track_of("down"))}
    # What was begun before comes through the old parent only, and may take its time.
    world.advance(4)
    source.more(stream, data[-5:], fin=True)
    # Then it is not asked any more.
    assert not first.uplink.link.subscribed_keys
    source.send(subgroup(D18, bodies(1), group=1))
    first.close()
    source.send(subgroup(D18, bodies(1), group=2))
    assert not below.take(PublishEnded)
    assert list(below.objects()) == [(0, 0), (0, 1), (1, 0), (2, 0)]
    (row,) = [row for row in stub.edge.relay.subscriptions() if row.counters is not None]
    assert row.counters is not None
    assert row.counters.objects == 4


def test_a_parent_that_is_left_is_not_waited_for_without_end() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, _ = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    source = one.publisher(D18, track_of("down"))
    stub.edge.subscriber(D18, track_of("down"))
    source.send(subgroup(D18, bodies(2), group=0)[:-5], fin=False)
    first.pair.listener.drain(world.now, 60.0)
    world.settle()
    world.advance(11)
    assert first.uplink.link.subscribed_keys
    world.advance(2)
    assert not first.uplink.link.subscribed_keys


def test_nothing_is_kept_of_a_parent_that_had_nothing_under_way() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, _ = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    source = one.publisher(D18, track_of("down"))
    below = stub.edge.subscriber(D18, track_of("down"))
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    # A stream that was on its way when the new parent accepted.
    late = source.send(subgroup(D18, bodies(2), group=0)[:-5], fin=False)
    source.reset(late, 0)
    world.advance(3)
    assert not first.uplink.link.subscribed_keys
    source.send(subgroup(D18, bodies(1), group=1))
    assert list(below.objects()) == [(0, 0), (1, 0)]


def test_a_refusal_of_the_new_parent_does_not_count_while_the_old_one_serves() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, second = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    down = track_of("down")
    source = one.publisher(D18, down)
    below = stub.edge.subscriber(D18, down)
    world.denied.add((two.number, down))
    first.pair.listener.drain(world.now, 30.0)
    world.advance(0.5)
    assert stub.uplink.active is second.uplink
    source.send(subgroup(D18, bodies(1), group=0))
    assert not below.take(PublishEnded)
    world.denied.clear()
    world.advance(8)
    assert not below.take(PublishEnded)
    assert not first.uplink.link.subscribed_keys
    source.send(subgroup(D18, bodies(1), group=1))
    assert list(below.objects()) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("parent_leaves", [True, False])
def test_a_refusal_counts_when_the_old_parent_has_nothing_more(parent_leaves: bool) -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, _ = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    down = track_of("down")
    source = one.publisher(D18, down)
    below = stub.edge.subscriber(D18, down)
    world.denied.add((two.number, down))
    first.pair.listener.drain(world.now, 30.0)
    world.advance(3)
    assert not below.take(PublishEnded)
    if parent_leaves:
        first.close()
    else:
        source.leave()
    world.advance(EdgeSettings().publisher_grace + 3)
    below.one(PublishEnded)


def test_clients_may_leave_while_a_stub_moves() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, _ = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    one.publisher(D18, track_of("down"))
    below = stub.edge.subscriber(D18, track_of("down"))
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    below.leave()
    world.advance(10)
    assert not first.uplink.link.subscribed_keys
    assert stub.uplink.poll_timeout() is None


def test_a_track_of_a_stub_moves_with_it() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, second = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    publisher = stub.edge.publisher(D18, TRACK)
    above = one.subscriber(D18, TRACK)
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    assert stub.uplink.active is second.uplink
    other = two.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(1)))
    assert list(above.objects()) == list(other.objects()) == [(0, 0)]
    # Both are fed: who has it through the old one may not have reached the new one yet.
    assert first.up.streams
    assert second.up.streams
    # The old parent gives it up; the new one keeps it.
    first.close()
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert (1, 0) in other.objects()


def test_without_a_parent_clients_wait_a_while() -> None:
    world = World()
    stub = Stub(world)
    hasty = stub.edge.subscriber(D18, TRACK)
    world.advance(4)
    assert not hasty.take(RequestRejected)
    world.advance(2)
    assert hasty.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT
    patient = stub.edge.subscriber(D18, track_of("x"), Parameters(rendezvous_timeout=60_000))
    world.advance(2)
    parent = world.edge()
    parent.publisher(D18, track_of("x"))
    stub.join(parent)
    patient.one(RequestAccepted)


def test_a_stub_that_lost_its_only_parent_ends_its_tracks_after_a_while() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    publisher = parent.publisher(D18, TRACK)
    subscriber = stub.edge.subscriber(D18, TRACK)
    joint.close()
    world.advance(4)
    assert not subscriber.take(PublishEnded)
    stub.join(parent)
    world.advance(20)
    assert not subscriber.take(PublishEnded)
    publisher.send(subgroup(D18, bodies(1)))
    assert list(subscriber.objects()) == [(0, 0)]


def test_it_ends_if_none_comes() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    parent.publisher(D18, TRACK)
    subscriber = stub.edge.subscriber(D18, TRACK)
    joint.close()
    world.advance(6)
    assert not subscriber.take(PublishEnded)
    world.advance(EdgeSettings().publisher_grace)
    subscriber.one(PublishEnded)
    world.advance(10)
    assert stub.uplink.poll_timeout() is None


def test_a_stub_without_clients_loses_its_parent_quietly() -> None:
    world = World()
    stub = Stub(world)
    stub.join(world.edge()).close()
    assert stub.uplink.poll_timeout() is None
    stub.edge.publisher(D18, TRACK)
    assert stub.uplink.active is None


def test_streams_of_a_parent_that_make_no_sense_are_stopped() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    publisher = parent.publisher(D18, TRACK)
    subscriber = stub.edge.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2), group=3, end_of_group=True))
    # An object behind the last one of its group: the track is malformed.
    header = DataHeader(DataKind.STREAM, 0, key_of(TRACK), 1, payload_format=18)
    late = subgroup(D18, {7: b"late"}, alias=alias_of(key_of(TRACK)), group=3, subgroup_id=1)
    joint.uplink.stream_data(world.now, 901, encode_data_header(header) + late, False)
    world.settle()
    assert joint.up.stopped == [(901, StreamResetCodeD18.MALFORMED_TRACK)]
    subscriber.one(PublishEnded)
    joint.uplink.stream_data(world.now, 901, b"more", True)


def test_streams_to_the_parent_can_be_stopped() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    joint = stub.join(parent)
    publisher = stub.edge.publisher(D18, TRACK)
    parent.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(1)), fin=False)
    (out,) = joint.up.streams
    joint.uplink.out_stream_gone(world.now, out, 0, stopped=True)
    joint.uplink.out_stream_gone(world.now, out, 0, stopped=True)
    rows = [row for row in stub.edge.relay.subscriptions() if row.counters is not None]
    assert [row.counters.dropped_streams for row in rows if row.counters] == [1]


def test_the_parent_asks_for_what_is_not_there() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = stub.edge.announcer(D18, NAMESPACE)
    subscriber = parent.subscriber(D18, TRACK)
    event = announcer.one(RequestReceived)
    announcer.session.reject(event.request_id, RequestErrorCode.DOES_NOT_EXIST, "never")
    world.settle()
    assert subscriber.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


def test_parents_announce_nothing_and_the_relay_never_closes_its_uplink() -> None:
    world = World()
    stub = Stub(world)
    joint = stub.join(world.edge())
    joint.uplink.announced(world.now, AnnounceKind.TRACK, TRACK)
    joint.uplink.retracted(world.now, AnnounceKind.TRACK, TRACK)
    stub.uplink.edge_closed(world.now, 0, "")
    world.settle()
    assert stub.uplink.active is joint.uplink


def test_answers_of_a_parent_that_was_left_do_not_count() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    stub = Stub(world)
    first, second = stub.join(one, srtt_us=5_000), stub.join(two, srtt_us=50_000)
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = stub.edge.subscriber(D18, TRACK)
    first.pair.listener.drain(world.now, 30.0)
    world.settle()
    assert stub.uplink.active is second.uplink
    event = announcer.take(RequestReceived)[0]
    announcer.session.reject(event.request_id, RequestErrorCode.UNAUTHORIZED, "no")
    world.settle()
    assert subscriber.one(RequestRejected).message.reason == "no"


def test_what_the_parent_takes_and_gives_back() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    announcer = stub.edge.announcer(D18, NAMESPACE)
    above = parent.subscriber(D18, TRACK)
    announcer.answer(7)
    announcer.send(subgroup(D18, bodies(1)))
    assert list(above.objects()) == [(0, 0)]
    above.leave()
    world.advance(10)
    announcer.one(RequestCancelled)
    # One that ends by itself.
    again = parent.subscriber(D18, TRACK)
    request_id = announcer.one(RequestReceived).request_id
    announcer.session.accept_subscribe(request_id, 8)
    world.settle()
    announcer.session.publish_done(request_id, 2, 0, "enough")
    world.advance(2)
    assert again.one(PublishEnded).message.reason == "enough"


def test_datagrams_of_the_parent() -> None:
    world = World()
    parent = world.edge()
    stub = Stub(world)
    stub.join(parent)
    publisher = parent.publisher(D18, TRACK)
    subscriber = stub.edge.subscriber(D18, TRACK)
    publisher.datagram(ObjectDatagram(7, 1, 0, b"ping"))
    assert [each.payload for each in subscriber.egress.object_datagrams()] == [b"ping"]


def test_what_comes_up_while_there_are_two() -> None:
    world = World()
    stub = Stub(world)
    first, second = stub.join(world.edge(), srtt_us=5_000), stub.join(world.edge(), srtt_us=9_000)
    announcer = stub.edge.announcer(D18, NAMESPACE)
    assert [row.namespace for row in first.parent_edge.relay.namespaces()] == [NAMESPACE]
    announcer.leave()
    assert first.parent_edge.relay.namespaces() == []
    # Of two that drain the nearer one is left alone.
    for joint in (second, first):
        joint.pair.listener.drain(world.now, 30.0)
        world.settle()
    assert stub.uplink.active is first.uplink
