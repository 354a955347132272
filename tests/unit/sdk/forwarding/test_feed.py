"""Subgroups under way: the cases that streams as a whole do not show."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from laps_sdk.forwarding.cache import SEGMENT_BYTES
from laps_sdk.forwarding.interfaces import PlaneLimits, Subscription, TrackMalformed
from laps_sdk.forwarding.samples import Sample, Samples
from laps_wire.moqt.codepoints import ObjectStatus
from laps_wire.moqt.data import ObjectDatagram, encode_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, NAME, Net, bodies, entry, subgroup

BOTH = [(D16, D16), (D16, D18), (D18, D16), (D18, D18)]


drafts = pytest.mark.parametrize(("source", "target"), BOTH)


HEAD = 3


BIG = 1 << 63


@drafts
def test_refused_objects_are_cut_out(source: Draft, target: Draft) -> None:
    net = Net()
    one, two, receiver = net.publisher(source), net.publisher(source), net.receiver(target)
    net.send(one, subgroup(source, {1: b"one", 3: b"three"}, subgroup_id=5))
    items = {0: b"zero", 1: b"x" * 80, 2: b"two", 3: b"y" * 80, 4: b"four"}
    data = subgroup(source, items, subgroup_id=6, first_object=True)
    net.send(two, data, range(0, 300, 9))
    first, second = net.egress[receiver].subgroups()
    assert first.ids == [1, 3]
    assert second.ids == [0, 2, 4]
    assert second.payloads == [b"zero", b"two", b"four"]
    assert net.plane.track_counters(1).duplicates == 2
    late = net.receiver(target, start=(0, 0))
    assert net.egress[late].objects() == {
        (0, 0): b"zero",
        (0, 1): b"one",
        (0, 2): b"two",
        (0, 3): b"three",
        (0, 4): b"four",
    }


@drafts
def test_a_stream_whose_first_object_is_refused(source: Draft, target: Draft) -> None:
    net = Net()
    one, receiver = net.publisher(source), net.receiver(target)
    net.send(one, subgroup(source, {0: b"zero"}, subgroup_id=9))
    data = subgroup(source, {0: b"again", 1: b"one"}, subgroup_id=None, first_object=True)
    net.send(one, data)
    second = net.egress[receiver].subgroups()[1]
    assert second.ids == [1]
    assert second.header.subgroup_id == 0
    assert not second.header.first_object
    late = net.receiver(target, start=(0, 0))
    assert not any(told.header.first_object for told in net.egress[late].subgroups()[1:])


def test_ids_that_the_other_draft_has_no_integers_for() -> None:
    net = Net()
    one = net.publisher(D18)
    old, new = net.receiver(D16), net.receiver(D18)
    data = subgroup(D18, {0: b"small", BIG: b"large", BIG + 1: b"next"})
    stream = net.open(one, data[: HEAD + 7])
    net.more(one, stream, data[HEAD + 7 :], fin=True)
    assert net.egress[old].streams[0].reset_code == 0
    assert net.egress[new].subgroups()[0].ids == [0, BIG, BIG + 1]
    counted = net.plane.subscription_counters(Subscription(old, 0))
    assert counted is not None
    assert counted.dropped_streams == 1
    assert counted.objects == 1
    net.send(one, subgroup(D18, {BIG: b"large"}, group=1))
    counted = net.plane.subscription_counters(Subscription(old, 0))
    assert counted is not None
    assert counted.dropped_streams == 2
    net.send(one, subgroup(D18, bodies(1), group=BIG))
    counted = net.plane.subscription_counters(Subscription(old, 0))
    assert counted is not None
    assert counted.dropped_streams == 3
    assert len(net.egress[old].streams) == 1
    assert len(net.egress[new].streams) == 3


def test_extensions_that_cannot_be_translated() -> None:
    net = Net()
    one, same, other = net.publisher(D16), net.receiver(D16), net.receiver(D18)
    good = encode_extensions([KeyValue(0x200, 1)], D16)
    net.send(one, subgroup(D16, bodies(2), extensions=[good, b""]))
    for receiver in (same, other):
        (got,) = net.egress[receiver].subgroups()
        assert [bool(item.header.extensions) for item in got.objects] == [True, False]


def test_long_subgroups_have_several_segments() -> None:
    net = Net()
    one = net.publisher()
    size = SEGMENT_BYTES // 4
    data = subgroup(D16, bodies(12, size))
    net.send(one, data, range(0, len(data), size // 2 + 7))
    segments = list(net.plane._state.cache.order)
    assert len(segments) == 3
    assert [segment.base for segment in segments] == [-1, 4, 9]
    assert [segment.count for segment in segments] == [5, 5, 2]
    assert [segment.finished for segment in segments] == [False, False, True]
    assert sum(segment.size for segment in segments) == len(data) - HEAD
    late = net.receiver(D18, start=(0, 2))
    (got,) = net.egress[late].subgroups()
    assert got.payloads == bodies(12, size)[2:]
    assert got.stream.fin


def test_old_subgroups_begin_new_segments() -> None:
    net = Net()
    one = net.publisher()
    data = subgroup(D16, bodies(4, 40))
    each = (len(data) - HEAD) // 4
    stream = net.open(one, data[: HEAD + each])
    for start, end in pairwise(range(HEAD + each, len(data) + 1, each)):
        net.now += 20
        net.more(one, stream, data[start:end])
    assert [segment.base for segment in net.plane._state.cache.order] == [-1, 0, 1, 2]


def test_an_evicted_segment_is_not_grown() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(3, 100))
    stream = net.open(one, data[:50])
    net.plane.purge()
    net.more(one, stream, data[50:80])
    assert net.plane.track_counters(1).cached_bytes == 0
    net.more(one, stream, data[80:], fin=True)
    assert net.plane.track_counters(1).cached_objects == 2
    late = net.receiver(start=(0, 0))
    assert sorted(net.egress[late].objects()) == [(0, 1), (0, 2)]
    assert net.egress[receiver].subgroups()[0].payloads == bodies(3, 100)


def test_a_reset_without_cache() -> None:
    net = Net()
    one = net.publisher()
    stream = net.open(one, subgroup(D16, bodies(1, 100))[:50])
    net.plane.purge()
    net.reset(one, stream)
    assert net.plane.track_counters(1).cached_objects == 0


@pytest.mark.parametrize("ids", [(3, 4), (4, 3)])
def test_two_ends_of_one_subgroup(ids: tuple[int, int]) -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    stream = net.open(one, subgroup(D16, {ids[0]: b"end"}))
    net.more(one, stream, b"", fin=True)
    net.send(one, subgroup(D16, {ids[1]: b"end"}))
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)
    assert net.egress[receiver].subgroups()[0].ids == [ids[0]]


def test_an_empty_subgroup_says_nothing() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    net.send(one, subgroup(D16, []))
    assert net.egress[receiver].streams == []
    net.send(one, subgroup(D16, bodies(1)))
    assert net.plane.poll_notices() == []
    assert len(net.egress[receiver].streams) == 1


def test_an_end_of_group_object_ends_its_stream() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    net.send(one, subgroup(D16, bodies(1), status=(1, ObjectStatus.END_OF_GROUP)), [9, 13, 15])
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [0, 1]


def test_a_stopped_receiver_stays_away_when_the_subgroup_goes_on() -> None:
    net = Net()
    one, two, receiver = net.publisher(), net.publisher(), net.receiver()
    data = subgroup(D16, bodies(4, 50))
    stream = net.open(one, data[:30])
    net.drop(receiver, stopped=True, lost=0)
    net.reset(one, stream)
    net.send(two, data)
    assert len(net.egress[receiver].streams) == 1
    net.plane.update_egress(net.now, Subscription(receiver, 0), entry(priority=1))
    net.send(two, subgroup(D16, bodies(1), subgroup_id=1))
    assert net.plane.track_counters(1).dropped_objects == 0


def test_timeouts_may_change_while_a_stream_is_open() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver(fast=False)
    data = subgroup(D16, bodies(4, 50))
    stream = net.open(one, data[:60])
    key = Subscription(receiver, 0)
    for timeout in (5.0, 6.0, None):
        net.plane.update_egress(net.now, key, entry(delivery_timeout=timeout))
    net.more(one, stream, data[60:120])
    net.wait(50)
    assert net.egress[receiver].resets() == [None]
    net.plane.update_egress(net.now, key, entry(delivery_timeout=5.0))
    net.more(one, stream, data[120:])
    net.wait(50)
    assert net.egress[receiver].resets() == [2]
    assert net.plane.counters().timed_out_streams == 1


# Taking over (see test_standby for the stream that does it)


@pytest.mark.parametrize("second", [D16, D18])
@pytest.mark.parametrize("inside", [0, 20])
@pytest.mark.parametrize("finished", [False, True])
def test_another_stream_goes_on(second: Draft, inside: int, finished: bool) -> None:
    net = Net()
    one, two = net.publisher(D16), net.publisher(second)
    receivers = [net.receiver(D16), net.receiver(D18)]
    data, other = subgroup(D16, bodies(4, 40)), subgroup(second, bodies(4, 40), end_of_group=True)
    each = (len(data) - HEAD) // 4
    first = net.open(one, data[: HEAD + each + inside])
    half = len(other) if finished else HEAD + 2 * each + 5
    backup = net.open(two, other[:half], fin=finished)
    net.reset(one, first)
    if not finished:
        net.more(two, backup, other[half : half + each])
        net.more(two, backup, other[half + each :], fin=True)
    for receiver in receivers:
        told = net.egress[receiver].subgroups()
        got = {item.header.object_id: item.payload for one in told for item in one.objects}
        assert got == dict(enumerate(bodies(4, 40)))
        assert told[-1].stream.fin
    assert net.plane._state.tracks[1].subgroups() == []
    final = net.plane._state.tracks[1].groups[0].final
    assert final == 3


def test_objects_that_come_too_late_for_their_place() -> None:
    net = Net()
    one, two, receiver = net.publisher(), net.publisher(), net.receiver()
    first = net.open(one, subgroup(D16, {6: b"six"}))
    data = subgroup(D16, {1: b"one", 2: b"two!", 6: b"six", 7: b"seven"})
    backup = net.open(two, data[: HEAD + 5])
    net.reset(one, first)
    net.more(two, backup, data[HEAD + 5 :], fin=True)
    assert net.egress[receiver].subgroups()[0].ids == [6, 7]
    assert net.plane.counters().late_objects == 2


def test_a_second_stream_ends_with_the_first() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher()
    data = subgroup(D16, bodies(2, 40))
    first = net.open(one, data[:20])
    net.open(two, data[:60])
    net.more(one, first, data[20:], fin=True)
    assert net.plane._state.tracks[1].subgroups() == []
    net.plane.remove_session(net.now, two)


def test_two_streams_of_a_session_that_is_gone() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(2, 40))
    net.open(one, data[:20])
    net.open(one, data[:30])
    net.plane.remove_session(net.now, one)
    assert net.egress[receiver].resets() == [None]
    net.now += PlaneLimits().continued_time + 1
    net.plane.handle_timeout(net.now)
    assert net.egress[receiver].resets()[-1] == 1


def test_a_publisher_that_comes_back_brings_the_rest() -> None:
    net = Net()
    one, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(4, 40))
    each = (len(data) - HEAD) // 4
    net.open(one, data[: HEAD + 2 * each + 9])
    net.plane.remove_session(net.now, one)
    net.now += 3
    again = net.publisher()
    net.open(again, data, fin=True)
    assert net.egress[receiver].resets() == [None]
    assert list(net.egress[receiver].objects()) == [(0, index) for index in range(4)]


def test_receivers_come_and_go_while_it_is_under_way() -> None:
    net = Net()
    one = net.publisher()
    data = subgroup(D16, bodies(6, 40))
    each = (len(data) - HEAD) // 6
    stream = net.open(one, data[: HEAD + each])
    late, gone, far = net.receiver(), net.receiver(), net.receiver(start=(0, 4), end_group=3)
    net.plane.remove_egress(net.now, Subscription(gone, 0), reset_code=1)
    net.plane.update_egress(net.now, Subscription(late, 0), entry(priority=9))
    net.more(one, stream, data[HEAD + each : HEAD + 3 * each + 1])
    net.more(one, stream, data[HEAD + 3 * each + 1 :], fin=True)
    assert sorted(net.egress[late].objects()) == [(0, index) for index in range(1, 6)]
    assert sorted(net.egress[far].objects()) == [(0, 4), (0, 5)]
    assert net.egress[gone].streams == []


def test_a_track_that_is_gone() -> None:
    net = Net()
    one, receiver, other = net.publisher(), net.receiver(D16), net.receiver(D18)
    net.open(one, subgroup(D16, bodies(2, 40))[:-3])
    net.plane.remove_egress(net.now, Subscription(other, 0), reset_code=None)
    net.plane.remove_track(net.now, 1)
    assert net.egress[receiver].resets() == [1]
    assert net.egress[other].resets() == [1]


# Sessions that get nothing of their own back


def quiet(net: Net, session: int, **options: Any) -> Subscription:
    """Subscribe a session that has relays behind it."""
    return net.subscribe(session, echo=False, **options)


def test_a_session_gets_its_own_back_if_it_wants() -> None:
    net = Net()
    both, silent = net.publisher(D18), net.publisher(D18)
    net.subscribe(both)
    quiet(net, silent)
    net.send(both, subgroup(D18, bodies(1), group=0))
    net.send(silent, subgroup(D18, bodies(1), group=1))
    assert sorted(net.egress[both].objects()) == [(0, 0), (1, 0)]
    assert sorted(net.egress[silent].objects()) == [(0, 0)]


def test_one_that_comes_or_changes_while_its_own_is_under_way() -> None:
    net = Net()
    silent, other = net.publisher(D18), net.publisher(D18)
    data = subgroup(D18, bodies(3))
    first = len(subgroup(D18, bodies(1)))
    stream = net.open(silent, data[:first])
    subscription = quiet(net, silent)
    net.plane.update_egress(net.now, subscription, entry(echo=False, priority=3))
    net.more(silent, stream, data[first:], fin=True)
    assert not net.egress[silent].streams
    net.send(other, subgroup(D18, bodies(1), group=1))
    assert sorted(net.egress[silent].objects()) == [(1, 0)]


def test_its_own_stream_takes_over_from_another_one() -> None:
    net = Net()
    other, silent, witness = net.publisher(D18), net.publisher(D18), net.receiver(D18)
    quiet(net, silent)
    data = subgroup(D18, bodies(4))
    half = len(subgroup(D18, bodies(2)))
    first = net.open(other, data[:half])
    second = net.open(silent, data[:half])
    net.reset(other, first, 5)
    # What comes now is its own.
    net.more(silent, second, data[half:], fin=True)
    assert net.egress[witness].subgroups()[0].payloads == bodies(4)
    (told,) = net.egress[silent].subgroups()
    assert told.payloads == bodies(2)
    assert told.stream.reset_code is not None
    # Nor does it come from the cache, but for the others it does.
    late, again = net.receiver(D18, start=(0, 0)), net.session(D18)
    net.subscribe(again, start=(0, 0))
    assert len(net.egress[late].objects()) == len(net.egress[again].objects()) == 4


def test_another_stream_takes_over_from_its_own() -> None:
    net = Net()
    silent, other = net.publisher(D18), net.publisher(D18)
    quiet(net, silent)
    unwilling = quiet(net, silent, request_id=2, forward=False)
    data = subgroup(D18, bodies(4))
    half = len(subgroup(D18, bodies(2)))
    first = net.open(silent, data[:half])
    second = net.open(other, data[:half])
    net.reset(silent, first, 5)
    net.more(other, second, data[half:], fin=True)
    assert sorted(net.egress[silent].objects()) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    counters = net.plane.subscription_counters(unwilling)
    assert counters is not None
    assert counters.streams == 0


@pytest.mark.parametrize("brings", [False, True])
def test_nothing_of_its_own_is_replayed(brings: bool) -> None:
    net = Net()
    silent, other = net.publisher(D18), net.publisher(D18)
    whole, part = subgroup(D18, bodies(2)), subgroup(D18, bodies(2), group=1)
    source = silent if brings else other
    net.send(source, whole)
    stream = net.open(source, part[:-5])
    quiet(net, silent, start=(0, 0))
    net.more(source, stream, part[-5:], fin=True)
    expected = [] if brings else [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(net.egress[silent].objects()) == expected


def test_a_subgroup_of_both_is_replayed_in_part() -> None:
    """The beginning came from another one and is cached; the session itself goes on with it."""
    net = Net()
    other, silent = net.publisher(D18), net.publisher(D18)
    data = subgroup(D18, bodies(4))
    half = len(subgroup(D18, bodies(2)))
    first = net.open(other, data[:half])
    second = net.open(silent, data[:half])
    net.reset(other, first, 5)
    net.more(silent, second, data[half:-3])
    quiet(net, silent, start=(0, 0))
    net.more(silent, second, data[-3:], fin=True)
    (told,) = net.egress[silent].subgroups()
    assert told.payloads == bodies(2)
    net.wait(30)
    assert told.stream.reset_code is not None


def test_datagrams_of_its_own_do_not_come_back() -> None:
    net = Net()
    silent, other = net.publisher(D18), net.publisher(D18)
    quiet(net, silent)
    net.datagram(silent, ObjectDatagram(7, 0, 0, b"own"))
    net.datagram(other, ObjectDatagram(7, 0, 1, b"theirs"))
    net.datagram(silent, ObjectDatagram(7, 0, 2, b"own"))
    assert [each.payload for each in net.egress[silent].object_datagrams()] == [b"theirs"]
    # Nor from the cache.
    quiet(net, silent, request_id=2, start=(0, 0))
    assert [each.payload for each in net.egress[silent].object_datagrams()] == [b"theirs"] * 2
    late = net.receiver(D18, start=(0, 0))
    assert len(net.egress[late].object_datagrams()) == 3


# Streams that go on


def test_a_receiver_gets_the_rest_in_another_stream() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(3, 10))
    stream = net.open(one, whole[:20])
    net.plane.renew_egress(Subscription(far, 0))
    net.more(one, stream, whole[20:], fin=True)
    first, second = net.egress[far].streams
    assert first.fin
    other, client = Net(), 2
    peer = other.publisher(D18, alias=3, peering=True)
    other.receiver(D18)
    other.send(peer, first.data)
    assert not other.egress[client].streams[0].fin
    other.send(peer, second.data)
    (told,) = other.egress[client].subgroups()
    assert (told.payloads, told.stream.fin) == (bodies(3, 10), True)


def test_the_rest_does_not_come() -> None:
    net = Net()
    peer = net.publisher(D18, peering=True)
    client = net.receiver(D18)
    net.send(peer, subgroup(D18, bodies(2)) + b"\0")
    net.wait(net.limits.continued_time)
    assert net.egress[client].resets() == [None]  # it may be that there is none
    net.send(peer, subgroup(D18, bodies(2), group=1))
    net.wait(net.limits.continued_time)
    assert net.egress[client].resets() == [1, None]
    assert net.plane._state.tracks[1].subgroups() == []
    # Nor that of one which took over.
    first = net.open(peer, subgroup(D18, bodies(1), group=2))
    net.send(peer, subgroup(D18, {1: b"one"}, group=2) + b"\0")
    net.more(peer, first, b"\0", fin=True)
    net.send(peer, subgroup(D18, bodies(2), group=3))
    net.wait(net.limits.continued_time)
    assert net.egress[client].resets() == [1, None, 1, None]


def test_streams_that_should_go_on_elsewhere_do_not_wait_for_an_object() -> None:
    for fin in (False, True):
        net = Net()
        one, far = net.publisher(D18), net.receiver(D18, peering=True)
        whole, begin = subgroup(D18, bodies(3)), len(subgroup(D18, bodies(2)))
        stream = net.open(one, whole[:begin])
        net.plane.renew_egress(Subscription(far, 0))
        net.wait(1.0)
        assert [each.fin for each in net.egress[far].streams] == [True]
        net.more(one, stream, b"" if fin else whole[begin:], fin=fin)
        first, second = net.egress[far].streams
        assert (first.continued, second.continued, second.fin) == (False, True, fin)


def test_one_that_is_gone_before_is_left_alone() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    stream = net.open(one, subgroup(D18, bodies(2)))
    net.plane.renew_egress(Subscription(far, 0))
    net.reset(one, stream)
    net.wait(2.0)
    assert net.egress[far].resets() == [1]


def test_a_relay_hears_that_its_stream_has_no_beginning() -> None:
    """Whoever comes in late may wait for the beginning: another log can have it."""
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(2))
    stream = net.open(one, whole[:-12])
    late = net.receiver(D18, peering=True, start=(0, 1))
    net.plane.renew_egress(Subscription(far, 0))
    net.more(one, stream, whole[-12:], fin=True)
    assert [each.continued for each in net.egress[far].streams] == [False, True]
    assert [each.continued for each in net.egress[late].streams] == [True]


def test_what_is_abandoned_is_not_waited_for() -> None:
    net = Net()
    one = net.publisher()
    net.reset(one, net.open(one, subgroup(D16, bodies(1), subgroup_id=3)))
    assert list(net.plane._state.tracks[1].groups[0].broken) == [3]


# The first object of a sampled group: which of those that get it are watched, and until when.


KEY = 0xABC


def sampling(one_in: int = 1) -> tuple[Net, Samples]:
    net = Net()
    samples = Samples(one_in, lambda name: KEY if name == NAME else 0)
    net.plane.time_objects(samples)
    return net, samples


def seen(net: Net, samples: Samples) -> list[Sample]:
    net.wait(0)
    return samples.take()


def test_one_client_of_many() -> None:
    net, samples = sampling()
    publisher = net.publisher()
    for _ in range(3):
        net.receiver()
    for group in range(2):
        net.send(publisher, subgroup(D16, bodies(2), group=group))
    assert seen(net, samples) == [
        Sample(KEY, group, 0, 10, came=100.0, sent=100.0) for group in range(2)
    ]


def test_what_is_not_chosen_is_not_watched() -> None:
    net, samples = sampling(one_in=1 << 64)
    publisher = net.publisher()
    net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    assert samples.poll_timeout() is None
    net.plane.time_objects(None)
    net.send(publisher, subgroup(D16, bodies(2), group=1))
    assert net.plane.poll_timeout() != net.now


def test_other_relays_are_watched_all_and_named() -> None:
    net, samples = sampling()
    relay = net.publisher(peering=True)
    others = [net.receiver(peering=True), net.receiver(peering=True)]
    samples.arrived(KEY, 0, 5, 99.5)
    net.send(relay, subgroup(D16, bodies(1)))
    net.send(relay, subgroup(D16, bodies(1), group=1))
    first = [Sample(KEY, 0, 0, 10, 99.5, 100.0, source=5, client=relay, viewer=x) for x in others]
    second = [Sample(KEY, 1, 0, 10, 100.0, 100.0, client=relay, viewer=x) for x in others]
    assert seen(net, samples) == first + second


def test_it_is_sent_when_its_last_byte_is() -> None:
    net, samples = sampling()
    publisher, slow = net.publisher(), net.receiver(fast=False)
    data = subgroup(D16, bodies(2))
    stream = net.open(publisher, data[:8])  # the payload is under way
    assert seen(net, samples) == []
    net.more(publisher, stream, data[8:], fin=True)
    assert seen(net, samples) == []
    out = net.egress[slow].streams[0]
    net.wait(0.0015)
    assert samples.take() == []
    out.sent = len(out.data)
    net.wait(1.0)
    (sample,) = samples.take()
    assert 0 < sample.sent - sample.came < 0.05


def test_what_is_dropped_was_not_sent() -> None:
    net, samples = sampling()
    publisher, slow = net.publisher(), net.receiver(fast=False)
    net.open(publisher, subgroup(D16, bodies(2)))
    net.drop(slow)
    assert seen(net, samples) == []
    assert samples.poll_timeout() is None
    assert net.plane.poll_timeout() != net.now


def test_a_stream_that_is_abandoned_within_the_object() -> None:
    net, samples = sampling()
    publisher = net.publisher()
    net.receiver(fast=False)
    stream = net.open(publisher, subgroup(D16, bodies(1))[:8])
    net.reset(publisher, stream)
    assert seen(net, samples) == []
    assert samples.poll_timeout() is None
