"""Receivers: filters, ends, delivery timeouts, drops."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import Subscription, SubscriptionDone
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import ObjectDatagram, ObjectStatus
from testkit.plane import D16, D18, Net, bodies, entry, subgroup

HEAD = 3


def done(net: Net, receiver: int) -> bool:
    return SubscriptionDone(Subscription(receiver, 0)) in net.plane.poll_notices()


# Priorities


def test_priorities_follow_the_draft() -> None:
    net = Net()
    publisher = net.publisher()
    up, down = net.receiver(priority=10), net.receiver(priority=10, order=GroupOrder.DESCENDING)
    urgent = net.receiver(priority=5)
    for group in (1, 2):
        for sub in (0, 1):
            data = subgroup(D16, {sub: b"x"}, group=group, subgroup_id=sub, priority=20)
            net.open(publisher, data)
    net.open(publisher, subgroup(D16, {9: b"x"}, group=2, subgroup_id=9, priority=1))
    for receiver, expected in (
        (up, [(2, 9), (1, 0), (1, 1), (2, 0), (2, 1)]),
        (down, [(2, 9), (2, 0), (2, 1), (1, 0), (1, 1)]),
    ):
        told = sorted(net.egress[receiver].subgroups(), key=lambda each: each.stream.priority)
        assert [(each.header.group_id, each.header.subgroup_id) for each in told] == expected
    slowest = max(out.priority for out in net.egress[urgent].streams)
    assert slowest < min(out.priority for out in net.egress[up].streams)
    assert all(out.droppable for out in net.egress[up].streams)


def test_the_drop_code_is_the_draft_s() -> None:
    net = Net()
    publisher, old, new = net.publisher(), net.receiver(D16), net.receiver(D18)
    net.open(publisher, subgroup(D16, bodies(1)))
    assert net.egress[old].streams[0].drop_code == 2
    assert net.egress[new].streams[0].drop_code == 5


# Ends


def test_done_with_the_end_of_the_group() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(end_group=0)
    net.send(publisher, subgroup(D16, bodies(2)))
    assert not done(net, receiver)
    data = subgroup(D16, {3: b"x"}, subgroup_id=1, end_of_group=True)
    net.send(publisher, data)
    assert not done(net, receiver)  # object 2 is missing
    net.send(publisher, subgroup(D16, {2: b"x"}, subgroup_id=2))
    assert done(net, receiver)
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    assert not done(net, receiver)


def test_done_with_the_end_of_the_track() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(end_group=0)
    net.send(publisher, subgroup(D16, {4: b"x"}, status=(9, ObjectStatus.END_OF_TRACK)))
    assert done(net, receiver)


def test_not_done_while_something_of_it_comes() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(end_group=0)
    assert not done(net, receiver)
    old = net.open(publisher, subgroup(D16, bodies(2)))
    net.send(publisher, subgroup(D16, bodies(2), group=1))
    assert not done(net, receiver)
    net.more(publisher, old, b"", fin=True)
    assert done(net, receiver)


def test_done_when_the_rest_is_dropped() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(end_group=0)
    old = net.open(publisher, subgroup(D16, bodies(2)))
    net.send(publisher, subgroup(D16, bodies(2), group=1))
    net.drop(receiver, 0)
    assert not done(net, receiver)
    net.more(publisher, old, b"", fin=True)
    assert done(net, receiver)


def test_done_behind_datagrams_and_updates() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.datagram(publisher, ObjectDatagram(7, 3, 0, b"x"))
    key = Subscription(receiver, 0)
    net.plane.update_egress(net.now, key, entry(end_group=3))
    assert not done(net, receiver)
    net.datagram(publisher, ObjectDatagram(7, 4, 0, b"x"))
    assert done(net, receiver)
    assert len(net.egress[receiver].datagrams) == 1


def test_a_forgotten_group_is_not_complete() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(end_group=0)
    net.send(publisher, subgroup(D16, bodies(1), end_of_group=True))
    assert done(net, receiver)
    other = net.session(D16)
    net.plane._state.tracks[1].groups.clear()
    net.subscribe(other, end_group=0)
    assert not done(net, other)


# Delivery timeout


@pytest.mark.parametrize("size", [20, 2000])
def test_what_waits_too_long_is_given_up(size: int) -> None:
    net = Net()
    publisher = net.publisher()
    slow, fast = (
        net.receiver(fast=False, delivery_timeout=2.0),
        net.receiver(delivery_timeout=2.0),
    )
    data = subgroup(D16, bodies(3, size))
    each = (len(data) - HEAD) // 3
    stream = net.open(publisher, data[: HEAD + each])
    net.wait(1.9)
    assert net.egress[slow].resets() == [None]
    net.wait(0.2)
    assert net.egress[slow].resets() == [2]
    net.more(publisher, stream, data[HEAD + each :], fin=True)
    assert net.egress[fast].subgroups()[0].payloads == bodies(3, size)
    counted = net.plane.subscription_counters(Subscription(slow, 0))
    assert counted is not None
    assert counted.dropped_streams == 1
    assert counted.dropped_bytes == HEAD + each + 2 * size
    track = net.plane.track_counters(1)
    assert (track.dropped_objects, track.dropped_bytes) == (3, counted.dropped_bytes)
    assert net.plane.counters().timed_out_streams == 1


def test_a_stream_that_flows_is_never_cut() -> None:
    """It is never empty, but nothing in it waits longer than a second."""
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(fast=False, delivery_timeout=2.0)
    data = subgroup(D16, bodies(20, 50))
    each = (len(data) - HEAD) // 20
    stream = net.open(publisher, data[: HEAD + each])
    (out,) = net.egress[receiver].streams
    for index in range(1, 20):
        start = HEAD + index * each
        net.more(publisher, stream, data[start : start + each])
        out.sent = len(out.data) - each // 2
        net.wait(1.0)
    assert out.reset_code is None
    net.more(publisher, stream, b"", fin=True)
    net.wait(0.9)
    assert out.reset_code is None
    out.sent = len(out.data)
    net.wait(50)
    assert out.reset_code is None


def test_a_finished_stream_can_still_be_too_late() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(fast=False, delivery_timeout=2.0)
    net.send(publisher, subgroup(D16, bodies(3, 600)))
    net.wait(3)
    assert net.egress[receiver].streams[0].reset_code == 2
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.objects, counted.dropped_streams) == (3, 1)


def test_a_dropped_stream_has_nothing_that_waits() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(fast=False, delivery_timeout=2.0)
    net.open(publisher, subgroup(D16, bodies(3, 600)))
    net.drop(receiver)
    net.wait(3)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.dropped_streams == 1


# Drops


def test_ids_that_the_draft_has_no_integers_for() -> None:
    net = Net()
    publisher, receiver = net.publisher(D18), net.receiver(D16)
    net.send(publisher, subgroup(D18, bodies(1), group=1 << 63))
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.streams, counted.dropped_streams) == (0, 1)


def test_drops_behind_the_end_are_counted() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(3, 600)))
    net.drop(receiver, lost=700)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.dropped_streams, counted.dropped_bytes) == (1, 700)
    net.drop(receiver, lost=700)  # told twice, counted once
    assert counted == net.plane.subscription_counters(Subscription(receiver, 0))


def test_a_receiver_that_waits_can_leave() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(1))
    stream = net.open(publisher, data[:HEAD])
    net.plane.remove_egress(net.now, Subscription(receiver, 0), reset_code=1)
    net.more(publisher, stream, data[HEAD:], fin=True)
    assert net.egress[receiver].streams == []


def test_figures_of_streams_that_outlive_their_feed() -> None:
    net = Net()
    publisher = net.publisher()
    stream = net.open(publisher, subgroup(D16, bodies(2)))
    net.reset(publisher, stream)
    receiver = net.receiver(start=(0, 0))
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.objects, counted.streams) == (2, 1)
    # It is open until it is given up: an update does not touch it.
    net.plane.update_egress(net.now, Subscription(receiver, 0), entry(priority=1))
    net.plane.remove_egress(net.now, Subscription(receiver, 0), reset_code=9)
    assert net.egress[receiver].streams[0].reset_code == 9


def test_a_start_inside_a_group() -> None:
    net = Net()
    publisher = net.publisher()
    inside, behind = net.receiver(start=(0, 2)), net.receiver(start=(0, 9))
    stream = net.open(publisher, subgroup(D16, bodies(4)))
    assert net.egress[inside].subgroups()[0].ids == [2, 3]
    assert net.egress[behind].streams == []
    counted = net.plane.subscription_counters(Subscription(inside, 0))
    assert counted is not None
    assert (counted.objects, counted.bytes) == (2, 20)
    net.plane.remove_egress(net.now, Subscription(inside, 0), reset_code=None)
    net.reset(publisher, stream)
    assert net.egress[inside].resets() == [1]
    net.datagram(publisher, ObjectDatagram(7, 0, 8, b"x"))
    assert net.egress[behind].datagrams == []


def test_a_stopped_stream_without_loss() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.open(publisher, subgroup(D16, bodies(2)))
    net.drop(receiver, lost=0, stopped=True)
    assert net.plane.track_counters(1).dropped_objects == 0


def test_a_long_timeout_keeps_nothing_that_was_sent() -> None:
    net = Net()
    publisher = net.publisher()
    receiver = net.receiver(delivery_timeout=1e9)
    for group in range(20):
        net.send(publisher, subgroup(D16, bodies(2), group=group))
    assert len(net.plane._state.timers) == 20
    net.wait(5)
    assert len(net.plane._state.timers) == 0
    slow = net.receiver(fast=False, delivery_timeout=1e9)
    net.open(publisher, subgroup(D16, bodies(2), group=30))
    net.wait(60)
    assert len(net.plane._state.timers) == 1
    net.drop(slow)
    assert len(net.plane._state.timers) == 0
    assert net.egress[receiver].resets() == [None] * 21


def test_who_is_gone_is_not_remembered_as_refused() -> None:
    net = Net()
    publisher = net.publisher()
    data = subgroup(D16, bodies(40))
    stream = net.open(publisher, data[:15])
    peer = net.session(D16)
    group = net.plane._state.tracks[1].groups[0]
    for request in range(0, 20, 2):
        key = net.subscribe(peer, request)
        start = 15 + 12 * (request // 2)
        net.more(publisher, stream, data[start : start + 12])
        net.drop(peer, stopped=True)
        assert [len(each) for each in group.refused.values()] == [1]
        net.plane.remove_egress(net.now, key, reset_code=1)
        assert group.refused == {}
    # Left to end by itself, and stopped behind that.
    key = net.subscribe(peer, 40)
    net.more(publisher, stream, data[135:160])
    net.plane.remove_egress(net.now, key, reset_code=None)
    net.drop(peer, stopped=True)
    assert group.refused == {}
