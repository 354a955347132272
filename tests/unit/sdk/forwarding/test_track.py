"""What a track remembers."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    Notice,
    PlaneLimits,
    RankChanged,
    Subscription,
    TrackEnded,
)
from laps_sdk.forwarding.track import Group, Source, State, Track
from laps_sdk.forwarding.traffic import LinkTraffic, TrackTraffic
from laps_wire.moqt.data import MalformedTrackError, ObjectHeader, ObjectStatus, encode_extensions
from laps_wire.moqt.data.datagram import ObjectDatagram
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.structures import Location
from testkit.plane import D16, D18, NAME, Net, bodies, subgroup


def make(**limits: int) -> Track:
    notices: list[Notice] = []
    return Track(1, NAME, None, PlaneLimits(**limits), notices)


def admit(
    track: Track,
    group: int,
    object_id: int,
    *pairs: tuple[int, int],
    status: ObjectStatus = ObjectStatus.NORMAL,
) -> bool:
    block = encode_extensions([KeyValue(*pair) for pair in pairs], D16)
    head = ObjectHeader(group, object_id, 0, None, 0, status, block)
    return track.admit(track.group(group), head, D16)


def test_each_object_once() -> None:
    assert make().largest is None
    track = make()
    assert admit(track, 3, 0)
    assert admit(track, 3, 5)
    assert not admit(track, 3, 0)
    assert admit(track, 2, 9)
    assert track.largest == Location(3, 5)
    assert admit(track, 3, 4)
    assert track.largest == Location(3, 5)
    assert track.duplicates == 1


def test_what_is_remembered_is_bounded() -> None:
    track = make(group_records=4, id_ranges=3)
    for group in range(20):
        admit(track, group, 0)
    assert list(track.groups) == [16, 17, 18, 19]
    for object_id in range(0, 40, 2):
        admit(track, 19, object_id)
    assert len(track.groups[19].seen) == 3
    for group in range(100, 160, 4):
        admit(track, group, 8, (0x3C, 1), (0x3E, 1))
    assert len(track.absent_groups) == 3
    for object_id in range(20, 80, 4):
        admit(track, 156, object_id, (0x3E, 1))
    assert len(track.groups[156].absent) == 3


def test_groups_in_use_are_not_forgotten() -> None:
    net = Net(limits=PlaneLimits(group_records=2))
    publisher = net.publisher()
    net.open(publisher, subgroup(D16, bodies(1)))
    net.plane.purge()
    for group in range(1, 9):
        net.send(publisher, subgroup(D16, bodies(1), group=group))
        net.plane.purge()
    track = net.plane._state.tracks[1]
    assert sorted(track.groups) == [0, 8]
    assert len(track.subgroups()) == 1


def test_the_end_of_a_track() -> None:
    track = make()
    admit(track, 1, 0)
    admit(track, 1, 1, status=ObjectStatus.END_OF_TRACK)
    assert track.notices == [TrackEnded(1, Location(1, 1))]
    assert track.end == Location(1, 1)
    assert track.known_absent().last == (1 << 64) - 1
    with pytest.raises(MalformedTrackError, match="track's last"):
        admit(track, 2, 0)
    assert admit(track, 0, 7)


def test_an_end_before_what_came() -> None:
    track = make()
    admit(track, 4, 0)
    with pytest.raises(MalformedTrackError, match="4:0 came"):
        admit(track, 3, 0, status=ObjectStatus.END_OF_TRACK)
    track = make()
    admit(track, 4, 5)
    with pytest.raises(MalformedTrackError, match="5 came"):
        admit(track, 4, 3, status=ObjectStatus.END_OF_GROUP)
    assert 3 not in track.groups[4].seen


def test_gaps() -> None:
    track = make()
    admit(track, 9, 4, (0x3E, 2), (0x3C, 3))
    assert list(track.groups[9].absent) == [(2, 3)]
    assert list(track.absent_groups) == [(6, 8)]
    assert list(track.known_absent()) == [(6, 8)]
    admit(track, 9, 5, (0x3C, 3))
    with pytest.raises(MalformedTrackError, match="group 7"):
        track.group(7)
    with pytest.raises(MalformedTrackError, match="not to exist"):
        admit(track, 9, 3)
    with pytest.raises(MalformedTrackError, match="some came"):
        admit(track, 9, 6, (0x3E, 2))
    with pytest.raises(MalformedTrackError, match="below 0"):
        admit(track, 2, 0, (0x3C, 3))
    with pytest.raises(MalformedTrackError, match="below 0"):
        admit(track, 2, 0, (0x3E, 3))
    admit(track, 1, 0)
    with pytest.raises(MalformedTrackError, match="and 1 came"):
        admit(track, 3, 0, (0x3C, 2))


def test_ranks() -> None:
    track = make()
    admit(track, 0, 0, (0x100, 7))
    track.rank_type = 0x100
    for object_id, pairs in enumerate([((0x100, 7),), ((0x100, 7),), ((0x102, 9),), ()], 1):
        admit(track, 0, object_id, *pairs)
    assert track.notices == [RankChanged(1, 7)]
    head = ObjectHeader(0, 9, 0, None, 0, ObjectStatus.NORMAL, b"\x05\x01x")
    assert track.admit(track.group(0), head, D18)


def test_figures_of_streams_under_way() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver()
    net.receiver(end_group=9)
    net.open(publisher, subgroup(D16, bodies(3)))
    counted = net.plane._state.tracks[1].counters()
    assert (counted.objects_out, counted.bytes_out) == (6, 60)
    assert counted.receivers == 2


# Traffic


def test_clients_are_what_other_relays_are_not() -> None:
    net = Net()
    client, relay = net.publisher(), net.publisher(peering=True)
    viewer, bridge = net.receiver(), net.receiver(peering=True)
    net.send(client, subgroup(D16, bodies(2)))
    under_way = net.open(relay, subgroup(D16, bodies(3), group=1))
    (traffic,) = net.plane.take_traffic()
    assert traffic == TrackTraffic(
        NAME,
        *(2, 20, 5, 50, 0),
        *(0, 1),
        links=(LinkTraffic(bridge, 0, 0, 5, 50), LinkTraffic(relay, 3, 30, 0, 0)),
    )
    assert net.plane.take_traffic() == []
    net.more(relay, under_way, b"", fin=True)
    assert net.plane.take_traffic() == []  # it was counted before it ended
    datagram = ObjectDatagram(7, 2, 0, b"abc")
    net.datagram(relay, datagram)
    (traffic,) = net.plane.take_traffic([1, 99])
    assert traffic[1:8] == (0, 0, 1, 3, 0, 2, 2)
    assert traffic.links == (LinkTraffic(bridge, 0, 0, 1, 3), LinkTraffic(relay, 1, 3, 0, 0))
    assert net.egress[viewer].datagrams


def test_what_a_track_did_is_not_lost_with_it() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver(peering=True)
    net.open(publisher, subgroup(D16, bodies(2)))
    net.plane.remove_track(net.now, 1)
    assert net.plane.take_traffic() == []  # nobody had asked for it
    net.plane.count_traffic()
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, publisher, 7, 1, 128)
    late = net.receiver(peering=True, start=(0, 0))
    net.send(publisher, subgroup(D16, bodies(2), group=1))
    net.receiver(peering=True, start=(0, 0))  # from the cache
    net.plane.remove_track(net.now, 1)
    (traffic,) = net.plane.take_traffic([])
    assert traffic[1:8] == (2, 20, 0, 0, 0, 1, 1)
    assert [link.bytes_out for link in traffic.links] == [20, 20]
    assert late == traffic.links[0].session


# What can be in a group (moq-transport-16, 2.4.2).


def make_group(*seen: int) -> Group:
    group = Group(Track(1, NAME, None, PlaneLimits(), []), 5)
    for each in seen:
        group.seen.add(each)
    return group


def test_objects_that_can_exist() -> None:
    group = make_group(0, 1)
    group.end_at(4)
    group.end_at(4)
    group.finish_subgroup(2, 3)
    group.finish_subgroup(2, 3)
    group.leave_out(2, 2)
    group.check(4, 1)
    group.check(3, 2)
    group.check(4, None)


@pytest.mark.parametrize(
    ("object_id", "subgroup_id", "words"),
    [(9, 0, "group's last"), (4, 2, "subgroup's last"), (2, 0, "not to exist")],
)
def test_objects_that_cannot(object_id: int, subgroup_id: int, words: str) -> None:
    group = make_group(0)
    group.end_at(5)
    group.finish_subgroup(2, 3)
    group.leave_out(2, 2)
    with pytest.raises(MalformedTrackError, match=words):
        group.check(object_id, subgroup_id)


def test_ends_that_contradict() -> None:
    group = make_group(0, 7)
    with pytest.raises(MalformedTrackError, match="7 came"):
        group.end_at(6)
    group.end_at(7)
    with pytest.raises(MalformedTrackError, match="and at 7"):
        group.end_at(8)
    group.finish_subgroup(0, 3)
    with pytest.raises(MalformedTrackError, match="and at 3"):
        group.finish_subgroup(0, 4)
    with pytest.raises(MalformedTrackError, match="some came"):
        group.leave_out(5, 8)
    with pytest.raises(MalformedTrackError, match="below 0"):
        group.leave_out(-1, 3)


def test_completeness() -> None:
    group = make_group(0, 1, 4)
    assert not group.complete
    group.end_at(4)
    assert not group.complete
    group.leave_out(2, 3)
    assert group.complete


def test_what_is_known_to_be_absent() -> None:
    group = make_group(0)
    assert list(group.known_absent()) == []
    group.leave_out(2, 3)
    group.missing.add_range(3, 5)
    assert list(group.known_absent()) == [(2, 5)]
    group.end_at(9)
    assert list(group.known_absent()) == [(2, 5), (10, (1 << 62) - 1)]
    marked = make_group(0)
    marked.end_at(1, marked=True)
    assert list(marked.known_absent()) == [(1, (1 << 62) - 1)]


def test_the_ends_of_many_subgroups_are_bounded() -> None:
    group = make_group()
    for subgroup_id in range(3000):
        group.finish_subgroup(subgroup_id, subgroup_id)
    assert len(group.finals) == PlaneLimits().id_ranges
    with pytest.raises(MalformedTrackError):
        group.finish_subgroup(2999, 3000)


def test_who_is_gone_is_refused_nothing() -> None:
    net = Net()
    net.publisher()
    one, two = (net.plane._sessions[net.receiver()].receivers[0] for _ in range(2))
    group = make_group()
    group.refused = {0: {one}, 1: {one, two}}
    group.forget(one)
    assert group.refused == {1: {two}}


def test_only_so_many_subgroups_are_known_to_be_broken_off() -> None:
    group = Group(Track(1, NAME, None, PlaneLimits(id_ranges=2), []), 5)
    for subgroup_id in (1, 2, 1, 3):
        group.break_off(subgroup_id)
    assert list(group.broken) == [2, 3]


# What the parts of the plane share.


def test_a_new_state_has_nothing() -> None:
    state = State(CacheLimits(), PlaneLimits())
    assert set(state.counters()) == {0}
    assert state.notices == []


def test_finished_streams_are_remembered_for_a_while() -> None:
    net = Net(limits=PlaneLimits(finished_streams=2))
    publisher, receiver = net.publisher(), net.receiver()
    for group in range(4):
        net.send(publisher, subgroup(D16, bodies(1), group=group))
    session = net.plane._sessions[receiver]
    assert list(session.finished) == net.egress[receiver].streams[2:]
    assert session.outs == {}
    for index in range(4):
        net.drop(receiver, index, lost=1)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.dropped_streams == 2
    session.finish_out(net.egress[receiver].streams[0])  # not one of those that are open
    assert list(session.finished) == []


def test_only_streams_that_are_open_are_stopped() -> None:
    net = Net()
    publisher = net.publisher()
    stream = net.open(publisher, subgroup(D16, bodies(1)))
    session = net.plane._sessions[publisher]
    session.stop(stream, 5)
    session.stop(stream, 5)
    assert net.egress[publisher].stopped == [(stream, 5)]


def test_a_source_knows_the_oldest_subgroup_that_it_has_the_beginning_of() -> None:
    source = Source(Track(1, NAME, None, PlaneLimits(), []), 128)
    for place in ((5, 1), (6, 0), (5, 0), (5, 3)):
        source.began_with(*place)
    assert source.since == (5, 0)
