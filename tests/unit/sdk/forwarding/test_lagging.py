"""Readers that are behind: they pull from the log, and lose only what the log has let go."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    PlaneLimits,
    Subscription,
    SubscriptionDone,
)
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, FakeStream, Net, bodies, cut, subgroup, told

DRAFTS = st.sampled_from([D16, D18])


def slow(net: Net, draft: Draft = D16, *, room: int = 100, **options: Any) -> int:
    """A receiver whose streams refuse what they are offered once so many bytes wait."""
    number = net.session(draft, fast=False)
    net.egress[number].room = room
    net.subscribe(number, **options)
    return number


def drain(net: Net, receiver: int) -> None:
    """Let everything leave, on all streams, until nothing more is written."""
    egress = net.egress[receiver]
    written = -1
    while written != (now := sum(len(stream.data) for stream in egress.streams)):
        written = now
        for stream in tuple(egress.streams):
            stream.send(net.now)


def waiting(stream: FakeStream) -> int:
    return len(stream.data) - stream.sent


def test_a_stream_that_refuses_catches_up() -> None:
    net = Net()
    publisher, receiver, quick = net.publisher(), slow(net), net.receiver()
    data = subgroup(D16, bodies(50, 90))
    stream = net.send(publisher, data, range(0, len(data), 100), fin=False)
    assert net.egress[quick].subgroups()[0].payloads == bodies(50, 90)
    (out,) = net.egress[receiver].streams
    assert waiting(out) < 400
    drain(net, receiver)
    (told,) = net.egress[receiver].subgroups()
    assert told.payloads == bodies(50, 90)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.objects, counted.bytes, counted.dropped_streams) == (50, 4500, 0)
    # It is at the tail again.
    net.more(publisher, stream, b"\0\x01x", fin=True)
    assert out.fin
    assert net.egress[receiver].subgroups()[0].ids[-1] == 50


def test_the_end_comes_while_it_is_behind() -> None:
    for reset in (False, True):
        net = Net()
        publisher, receiver = net.publisher(), slow(net)
        data = subgroup(D16, bodies(20, 90))
        stream = net.send(publisher, data, range(0, len(data), 100), fin=not reset)
        if reset:
            net.reset(publisher, stream, 7)
        drain(net, receiver)
        (told,) = net.egress[receiver].subgroups()
        assert told.payloads == bodies(20, 90)
        assert (told.stream.fin, told.stream.reset_code) == (not reset, 7 if reset else None)


def test_few_streams_are_open_however_many_groups_it_is_behind() -> None:
    net = Net(limits=PlaneLimits(lagging_streams=3))
    publisher, receiver = net.publisher(), slow(net)
    for group in range(40):
        net.send(publisher, subgroup(D16, bodies(4, 90, group), group=group), (150, 250, 350))
    assert len(net.egress[receiver].streams) <= 4
    drain(net, receiver)
    found = net.egress[receiver].objects()
    assert sorted(found) == [(group, index) for group in range(40) for index in range(4)]
    groups = [told.header.group_id for told in net.egress[receiver].subgroups()]
    assert groups == sorted(groups)
    assert all(stream.fin for stream in net.egress[receiver].streams)


def test_groups_of_one_object_wait_in_the_log() -> None:
    """Each comes whole, so that no stream could refuse what is behind its beginning."""
    for draft in (D16, D18):
        net = Net(limits=PlaneLimits(lagging_streams=3))
        publisher, receiver = net.publisher(), slow(net, draft, room=0)
        for group in range(40):
            net.send(publisher, subgroup(D16, bodies(1, 900, group), group=group))
        egress = net.egress[receiver]
        assert [len(stream.data) for stream in egress.streams] == [0, 0, 0]
        egress.room = 100
        drain(net, receiver)
        assert sorted(egress.objects()) == [(group, 0) for group in range(40)]
        assert all(stream.fin for stream in egress.streams)
        counted = net.plane.subscription_counters(Subscription(receiver, 0))
        assert counted is not None
        assert (counted.objects, counted.bytes, counted.dropped_streams) == (40, 36_000, 0)


def test_a_beginning_that_was_refused_is_behind_others_in_its_run() -> None:
    net = Net()
    publisher, receiver = net.publisher(), slow(net, room=0, start=(0, 2))
    stream = net.open(publisher, subgroup(D16, bodies(6, 90)))
    net.more(publisher, stream, b"", fin=True)
    net.egress[receiver].room = 100
    drain(net, receiver)
    (told,) = net.egress[receiver].subgroups()
    assert told.ids == [2, 3, 4, 5]
    assert told.stream.fin


def test_refused_beginnings_that_the_log_lets_go_are_lost_and_counted() -> None:
    net = Net(cache=CacheLimits(max_groups=5), limits=PlaneLimits(lagging_streams=2))
    publisher, receiver = net.publisher(), slow(net, room=0)
    for group in range(300):
        net.send(publisher, subgroup(D16, bodies(1, 90, group), group=group))
    egress = net.egress[receiver]
    # Nothing is sent, and nothing grows: what waits is forgotten with what the log lets go.
    assert len(egress.streams) == 2
    assert net.plane.track_counters(1).dropped_objects > 150
    egress.room = 100
    drain(net, receiver)
    found = [told(stream, D16).header.group_id for stream in egress.streams if stream.data]
    assert sorted(found) == list(range(295, 300))
    assert net.plane.track_counters(1).dropped_objects == 295
    assert [code is not None for code in egress.resets()[:3]] == [True, True, False]


def test_what_the_log_has_let_go_is_lost_and_counted() -> None:
    net = Net(cache=CacheLimits(max_track_bytes=600_000))
    publisher, receiver = net.publisher(), slow(net)
    data = subgroup(D16, bodies(100, 20_000))
    net.send(publisher, data, range(0, len(data), 10_000))
    drain(net, receiver)
    first, *others = net.egress[receiver].subgroups()
    assert first.stream.reset_code is not None
    (rest,) = others
    assert rest.stream.fin
    assert rest.ids == list(range(rest.ids[0], 100))
    missing = 100 - len(first.ids) - len(rest.ids)
    assert missing > 0
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.dropped_streams == 1
    assert net.plane.track_counters(1).dropped_objects == missing


def test_whole_groups_that_are_gone_are_counted() -> None:
    net = Net(cache=CacheLimits(max_groups=5), limits=PlaneLimits(lagging_streams=1))
    publisher, receiver = net.publisher(), slow(net)
    for group in range(20):
        net.send(publisher, subgroup(D16, bodies(3, 90, group), group=group), (150, 250))
    drain(net, receiver)
    found = net.egress[receiver].objects()
    assert net.plane.track_counters(1).dropped_objects == 60 - len(found)
    assert {(group, index) for group in range(15, 20) for index in range(3)} <= set(found)


def test_what_is_too_old_is_not_sent() -> None:
    net = Net()
    publisher, receiver = net.publisher(), slow(net, delivery_timeout=1.0)
    data = subgroup(D16, bodies(30, 90))
    each = (len(data) - 3) // 30
    stream = net.open(publisher, data[: 3 + each])
    for index in range(1, 30):
        (out,) = net.egress[receiver].streams[-1:]
        out.sent = len(out.data) - 50  # something of it always leaves
        net.wait(0.2)
        net.more(publisher, stream, data[3 + index * each : 3 + (index + 1) * each])
    drain(net, receiver)
    found = sorted(index for _, index in net.egress[receiver].objects())
    assert found[-1] == 29
    assert len(found) + net.plane.track_counters(1).dropped_objects == 30


def test_a_receiver_that_is_gone_pulls_no_more() -> None:
    net = Net()
    publisher, receiver = net.publisher(), slow(net)
    data = subgroup(D16, bodies(20, 90))
    net.send(publisher, data, range(0, len(data), 100))
    (out,) = net.egress[receiver].streams
    net.plane.remove_egress(net.now, Subscription(receiver, 0), reset_code=1)
    size = len(out.data)
    out.send(net.now)
    assert (len(out.data), out.reset_code) == (size, 1)


def test_a_receiver_that_is_finished_reads_to_the_end() -> None:
    net = Net(limits=PlaneLimits(lagging_streams=1))
    publisher, receiver = net.publisher(), slow(net)
    for group in range(5):
        data = subgroup(D16, bodies(20, 90), group=group)
        net.send(publisher, data, range(0, len(data), 100))
    key = Subscription(receiver, 0)
    assert not net.plane.finish_egress(key)
    net.send(publisher, subgroup(D16, bodies(1, 90), group=9))  # behind the end
    assert SubscriptionDone(key) not in net.plane.poll_notices()
    drain(net, receiver)
    found = sorted(net.egress[receiver].objects())
    assert found == [(group, index) for group in range(5) for index in range(20)]
    assert net.plane.poll_notices().count(SubscriptionDone(key)) == 1
    assert net.plane.finish_egress(key)  # nothing is behind


@given(data=st.data())
def test_who_is_slow_gets_everything_once(data: st.DataObject) -> None:
    """Whatever the drafts, pieces and pauses are: nothing is lost while the log has it."""
    net = Net(limits=PlaneLimits(lagging_streams=data.draw(st.integers(1, 4))))
    source = data.draw(DRAFTS)
    publisher = net.publisher(source)
    receivers = [
        slow(net, data.draw(DRAFTS), room=data.draw(st.integers(1, 400))) for _ in range(3)
    ]
    expected: dict[tuple[int, int], bytes] = {}
    streams: list[tuple[int, list[bytes]]] = []
    for group in range(data.draw(st.integers(1, 6))):
        payloads = bodies(data.draw(st.integers(1, 6)), data.draw(st.integers(1, 120)), group)
        extended = data.draw(st.booleans())
        whole = subgroup(
            source, payloads, group=group, extensions=[b""] * len(payloads) if extended else None
        )
        expected.update({(group, index): body for index, body in enumerate(payloads)})
        chunks = cut(whole, data.draw(st.lists(st.integers(1, 600), max_size=6)))
        streams.append((net.open(publisher, chunks[0], fin=len(chunks) == 1), chunks[1:]))
    while any(chunks for _, chunks in streams):
        number, chunks = data.draw(st.sampled_from([each for each in streams if each[1]]))
        net.more(publisher, number, chunks.pop(0), fin=not chunks)
        receiver = data.draw(st.sampled_from(receivers))
        for stream in net.egress[receiver].streams:
            if data.draw(st.booleans()):
                stream.send(net.now, data.draw(st.integers(0, 200)))
    for receiver in receivers:
        drain(net, receiver)
        assert net.egress[receiver].objects() == expected
        assert all(stream.fin for stream in net.egress[receiver].streams)
        counted = net.plane.subscription_counters(Subscription(receiver, 0))
        assert counted is not None
        assert counted.objects == len(expected)
        assert counted.bytes == sum(map(len, expected.values()))
    assert net.plane.track_counters(1).dropped_objects == 0
