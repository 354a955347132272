"""Receivers that start in the past."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.cache import Segment
from laps_sdk.forwarding.interfaces import CacheLimits, FetchRange, Subscription
from laps_wire.moqt.data import FetchHeader, FetchWriter, ObjectDatagram, ObjectHeader, StreamKind
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, subgroup

PAIRS = [(source, target) for source in (D16, D18) for target in (D16, D18)]
drafts = pytest.mark.parametrize(("source", "target"), PAIRS)


@drafts
@given(
    at=st.integers(5, 500),
    start=st.integers(0, 6),
    places=st.lists(st.integers(1, 500), max_size=6),
)
def test_cached_then_live_on_one_stream(
    source: Draft, target: Draft, at: int, start: int, places: list[int]
) -> None:
    net = Net()
    publisher = net.publisher(source)
    data = subgroup(source, bodies(5, 100), extensions=[b""] * 5, subgroup_id=None)
    stream = net.send(publisher, data[:at], [place for place in places if place < at], fin=False)
    receiver = net.receiver(target, start=(0, start))
    net.more(publisher, stream, data[at:], fin=True)
    told = net.egress[receiver].subgroups()
    assert sorted(net.egress[receiver].objects()) == [(0, index) for index in range(start, 5)]
    assert len(told) == (1 if start < 5 else 0)
    for each in told:
        assert each.payloads == bodies(5, 100)[start:]
        assert each.stream.fin
        assert each.header.subgroup_id == (None if start == 0 else 0)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.objects, counted.bytes) == (max(0, 5 - start), 100 * max(0, 5 - start))
    track = net.plane.track_counters(1)
    assert (track.objects_out, track.bytes_out) == (counted.objects, counted.bytes)


@drafts
def test_several_groups_and_subgroups(source: Draft, target: Draft) -> None:
    net = Net()
    publisher = net.publisher(source)
    for group in range(3):
        for sub in range(2):
            items = {2 * index + sub: body for index, body in enumerate(bodies(3, 40, group))}
            net.send(
                publisher,
                subgroup(source, items, group=group, subgroup_id=sub, first_object=True),
            )
    receiver = net.receiver(target, start=(1, 2), end_group=1)
    assert sorted(net.egress[receiver].objects()) == [(1, 2), (1, 3), (1, 4), (1, 5)]
    assert not any(told.header.first_object for told in net.egress[receiver].subgroups())
    whole = net.receiver(target, start=(0, 0))
    assert len(net.egress[whole].objects()) == 18
    expected = source is D18 and target is D18
    assert all(told.header.first_object is expected for told in net.egress[whole].subgroups())


def test_a_receiver_without_start_or_forward_gets_nothing_old() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(2)))
    for receiver in (net.receiver(), net.receiver(start=(0, 0), forward=False)):
        assert net.egress[receiver].streams == []


def test_however_many_groups_are_cached_one_follows_the_other() -> None:
    net = Net()
    publisher = net.publisher(D18)
    for group in range(1000):
        net.send(publisher, subgroup(D18, bodies(1), group=group))
    receiver = net.receiver(D18, start=(0, 0))
    assert len(net.egress[receiver].objects()) == 1000


def test_an_abandoned_subgroup_is_reset_later() -> None:
    net = Net()
    publisher = net.publisher()
    stream = net.open(publisher, subgroup(D16, bodies(3, 50))[:-10])
    net.reset(publisher, stream)
    receiver, stopped = net.receiver(start=(0, 0)), net.receiver(start=(0, 0))
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [0, 1]
    assert not got.stream.fin
    net.drop(stopped, lost=0, stopped=True)
    net.wait(4.9)
    assert net.egress[receiver].resets() == [None]
    net.wait(0.2)
    assert net.egress[receiver].resets() == [1]
    assert net.egress[stopped].streams[0].reset_code is None


def test_a_large_replay_that_waits_too_long_is_given_up() -> None:
    net = Net()
    publisher = net.publisher()
    data = subgroup(D16, bodies(10, 20000))
    stream = net.open(publisher, data)
    receiver = net.receiver(D18, start=(0, 0), delivery_timeout=5.0, fast=False)
    (out,) = net.egress[receiver].streams
    net.more(publisher, stream, b"", fin=True)
    assert net.egress[receiver].subgroups()[0].payloads == bodies(10, 20000)
    net.wait(6)
    assert out.reset_code == 2


def test_ids_that_the_draft_has_no_integers_for() -> None:
    net = Net()
    publisher = net.publisher(D18)
    net.send(publisher, subgroup(D18, {1: b"x", 1 << 63: b"y"}))
    receiver = net.receiver(D16, start=(0, 0))
    assert net.egress[receiver].streams[0].reset_code == 0
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.dropped_streams == 1
    net.send(publisher, subgroup(D18, {1: b"x"}, group=1 << 63))
    receiver = net.receiver(D16, start=(1, 0))
    assert net.egress[receiver].streams == []


def test_a_subgroup_on_two_streams_is_one_to_a_late_receiver() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher()
    stream = net.open(one, subgroup(D16, bodies(2, 30), extensions=[b"\x02\x07", b""]))
    net.reset(one, stream)
    data = subgroup(D16, bodies(5, 30))
    second = net.open(two, data[:-50])
    receiver = net.receiver(start=(0, 0))
    net.more(two, second, data[-50:], fin=True)
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [0, 1, 2, 3, 4]
    assert [bool(item.header.extensions) for item in got.objects] == [True] + [False] * 4


def test_cached_datagrams() -> None:
    net = Net()
    publisher = net.publisher()
    for object_id in range(3):
        net.datagram(publisher, ObjectDatagram(7, 0, object_id, b"payload", 9))
    receiver = net.receiver(D18, start=(0, 1))
    got = net.egress[receiver].object_datagrams()
    assert [(each.object_id, each.payload, each.priority) for each in got] == [
        (1, b"payload", 9),
        (2, b"payload", 9),
    ]
    assert all(each.track_alias == 3 for each in got)


def test_an_object_that_is_cached_twice_is_sent_once() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(2)))
    group = net.plane._state.tracks[1].groups[0]
    group.seen.discard(1)
    group.finals.clear()
    net.send(publisher, subgroup(D16, {1: b"again"}))
    receiver = net.receiver(start=(0, 0))
    assert sorted(net.egress[receiver].objects()) == [(0, 0), (0, 1)]


def test_a_stopped_subgroup_is_not_joined_again() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(3, 50))
    net.open(publisher, data[:60])
    group = net.plane._state.tracks[1].groups[0]
    late = net.session(D16)
    assert group.refused == {}
    net.drop(receiver, lost=0, stopped=True)
    assert [len(each) for each in group.refused.values()] == [1]
    net.subscribe(late, start=(0, 0))
    assert len(net.egress[late].streams) == 1


def test_what_is_too_old_is_not_sent() -> None:
    net = Net(cache=CacheLimits(max_age=50))
    publisher = net.publisher()
    net.plane._state.tracks[1].max_age = 5.0
    net.send(publisher, subgroup(D16, bodies(2)))
    net.now += 6
    receiver = net.receiver(start=(0, 0))
    assert net.egress[receiver].streams == []


@drafts
def test_what_was_fetched_goes_before_what_comes(source: Draft, target: Draft) -> None:
    """A FETCH filled in the beginning of a subgroup that the relay joined in the middle."""
    net = Net()
    publisher, asker = net.publisher(source), net.session(target)
    payloads = bodies(6, 30)
    later = dict(list(enumerate(payloads))[3:])
    data = subgroup(source, later, priority=9)
    stream = net.open(publisher, data[:-40])
    wanted = FetchRange(track=1, start=Location(0, 0), end=Location(0, 2))
    net.plane.relay_fetch(publisher, 4, Subscription(asker, 8), wanted)
    writer = FetchWriter(FetchHeader(4), source)
    answer = writer.start
    for index in range(3):
        answer += writer.object(ObjectHeader(0, index, 0, 9, 30), payloads[index])
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, answer, True)
    receiver = net.receiver(target, start=(0, 0))
    net.more(publisher, stream, data[-40:], fin=True)
    (told,) = net.egress[receiver].subgroups()
    assert told.ids == list(range(6))
    assert told.payloads == payloads
    assert told.stream.fin
    # Nothing is left of the subgroup that could come: its end is known to who comes later too.
    (again,) = net.egress[net.receiver(target, start=(0, 0))].subgroups()
    assert again.payloads == payloads


def test_a_join_at_the_live_edge_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants only what comes must not cost more in a long group than in a short one."""
    net = Net()
    publisher = net.publisher()
    data = subgroup(D16, bodies(50))
    stream = net.open(publisher, data[:-11])
    monkeypatch.setattr(Segment, "objects", None)
    receiver = net.receiver(start=(0, 49))
    monkeypatch.undo()
    net.more(publisher, stream, data[-11:], fin=True)
    assert sorted(net.egress[receiver].objects()) == [(0, 49)]
