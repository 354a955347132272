"""Streams under way: what each leg gets, and how it ends."""

from __future__ import annotations

from itertools import pairwise

import pytest

from laps_relay.peer_forwarding.forwarding import EgressSet, Outdated, SetIdle
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.forwarding.samples import Sample, Samples
from laps_wire.peering.errors import StreamCode
from testkit.peer_plane import KEY, PeerNet, head
from testkit.plane import D18, subgroup


def test_priorities_keep_their_order_and_leave_the_first_to_control() -> None:
    assert len(PRIORITIES) == 256
    assert all(first < second for first, second in pairwise(PRIORITIES))
    assert PRIORITIES[0] > 0


@pytest.mark.parametrize("fin", [True, False])
def test_the_publishers_priority_and_ttl_are_kept_for_each_hop(fin: bool) -> None:
    net = PeerNet(peers=2)
    net.send(head(priority=3, ttl_ms=1500) + b"a", fin=fin)
    net.send(head(priority=200) + b"a", fin=fin, stream=7)
    for session in (2, 3):
        timed, plain = net.peer[session].streams
        assert (timed.priority, plain.priority) == (PRIORITIES[3], PRIORITIES[200])
        assert (timed.deadline, plain.deadline) == (101.5, None)
        assert (timed.drop_code, plain.drop_code) == (StreamCode.EXPIRED, StreamCode.OVERLOADED)
        assert timed.droppable
        assert plain.droppable
        assert timed.header.priority == 3
        assert timed.header.ttl_ms == 1500


@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("size", [0, 1400, 1499, 1500, 5000])
def test_short_beginnings_are_one_write(size: int, fin: bool) -> None:
    net = PeerNet(peers=2, local=True)
    sent = head(extensions=b"\x02\x01a") + bytes(size)
    net.send(sent, fin=fin)
    one, other = net.peer[2].streams[0], net.peer[3].streams[0]
    assert one.data[8:] == other.data[8:] == sent[8:]
    assert one.fin == other.fin == fin
    assert len(one.writes) == (2 if size >= 1500 else 1)
    if size >= 1500:
        assert one.writes[1] is other.writes[1]
    (arrived,) = net.sink.streams.values()
    assert arrived.data == bytes(size)
    assert arrived.header.extensions == b"\x02\x01a"
    assert arrived.fin == fin


def test_streams_to_our_own_clients_have_numbers_of_their_own() -> None:
    net = PeerNet(peers=0, local=True)
    for stream in (3, 7):
        net.send(head() + b"a", stream=stream)
    net.send(head() + b"whole", stream=11, fin=True)
    for stream in (3, 7):
        net.send(b"b%d" % stream, stream=stream, fin=True)
    assert {number: each.data for number, each in net.sink.streams.items()} == {
        1: b"ab3",
        2: b"ab7",
        3: b"whole",
    }
    assert all(each.fin for each in net.sink.streams.values())


def test_the_deadline_moves_with_each_chunk() -> None:
    net = PeerNet(peers=1)
    net.send(head(ttl_ms=500) + b"a")
    stream = net.peer[2].streams[0]
    for _ in range(5):
        net.now += 10
        net.send(b"b")
        assert stream.deadline == net.now + 0.5
    net.now += 10
    net.send(b"", fin=True)
    assert stream.deadline == net.now + 0.5
    assert stream.fin
    assert stream.payload == b"abbbbb"


def test_a_byte_that_waits_longer_than_its_ttl_ends_its_leg() -> None:
    net = PeerNet(peers=2)
    net.peer[2].slow = True
    net.send(head(ttl_ms=500) + b"a")
    net.now += 0.4
    net.send(b"b")
    net.now += 0.1
    net.send(b"c")
    late, good = net.peer[2].streams[0], net.peer[3].streams[0]
    assert late.reset_code == StreamCode.EXPIRED
    assert late.payload == b"ab"
    net.send(b"d", fin=True)
    assert good.payload == b"abcd"
    assert good.fin
    counters = net.plane.counters()
    assert (counters.dropped_streams, counters.dropped_bytes) == (1, 26)
    assert net.peer[1].stopped == []


def test_a_slow_peer_that_goes_on_sending_keeps_its_leg() -> None:
    net = PeerNet(peers=1)
    net.peer[2].slow = True
    net.send(head(ttl_ms=500) + b"a")
    stream = net.peer[2].streams[0]
    for _ in range(20):
        net.now += 0.3
        # All but the last chunk have left: nothing waits longer than 0.3 seconds.
        stream.sent = len(stream.data) - len(stream.writes[-1])
        net.send(b"bcd")
    assert stream.reset_code is None
    assert stream.payload == b"a" + b"bcd" * 20


def test_when_all_legs_are_late_the_sender_hears_of_it() -> None:
    net = PeerNet(peers=1)
    net.peer[2].slow = True
    net.send(head(ttl_ms=500) + b"a")
    net.now += 0.5
    net.send(b"b")
    assert net.peer[1].stopped == [(3, StreamCode.OVERLOADED)]
    net.send(b"c", fin=True)
    counters = net.plane.counters()
    assert (counters.streams_in, counters.bytes_in) == (1, 25)


def test_a_stream_that_is_late_at_its_end_needs_no_stop() -> None:
    net = PeerNet(peers=1)
    net.peer[2].slow = True
    net.send(head(ttl_ms=500) + b"a")
    net.now += 0.5
    net.send(b"b", fin=True)
    assert net.peer[2].streams[0].reset_code == StreamCode.EXPIRED
    assert net.peer[1].stopped == []
    assert net.plane.counters().bytes_in == 26


def test_from_two_peers_to_one() -> None:
    net = PeerNet(peers=3)
    chunk = b"x" * 2000
    net.send(head() + b"a")
    net.send(chunk)
    net.gone(3, stopped=True)
    net.send(chunk)
    net.gone(2, lost=9)
    net.send(chunk, fin=True)
    sizes = [len(net.peer[session].streams[0].payload) for session in (2, 3, 4)]
    assert sizes == [4001, 2001, 6001]
    assert net.peer[4].streams[0].fin
    assert net.plane.counters().bytes_out == sum(sizes) + 3 * 24
    assert net.plane.counters().bytes_in == 6025


@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("peers", [1, 2, 3])
def test_an_egress_that_drops_while_it_is_written_to(peers: int, fin: bool) -> None:
    net = PeerNet(peers=peers)
    net.send(head() + b"a")
    net.peer[2].on_write = lambda: net.gone(2, lost=1)
    net.send(b"b", fin=fin)
    net.peer[2].on_write = None
    net.send(b"c" * (not fin), stream=3 if not fin else 7)
    for session in range(3, 2 + peers):
        assert net.peer[session].streams[0].payload == (b"ab" if fin else b"abc")
        assert net.peer[session].streams[0].fin is fin
    stopped = [(3, StreamCode.OVERLOADED)] if peers == 1 else []
    assert net.peer[1].stopped == stopped
    counters = net.plane.counters()
    assert (counters.streams_in, counters.dropped_streams) == (1, 1)


def test_a_reset_reaches_only_who_is_left() -> None:
    net = PeerNet(peers=2)
    net.send(head() + b"a")
    net.gone(2, stopped=True)
    net.plane.stream_reset(net.now, 1, 3, 0x33)
    assert net.peer[2].streams[0].reset_code is None
    assert net.peer[3].streams[0].reset_code == 0x33
    assert net.plane.counters().bytes_in == 25
    assert net.plane.counters().bytes_out == 50


def test_whole_streams_that_wait_keep_their_set_busy() -> None:
    net = PeerNet(peers=1)
    net.peer[2].slow = True
    net.plane.retire(net.now, EgressSet(2, 72))
    net.send(head() + b"a", fin=True)
    net.wait(30)
    assert net.plane.poll_notices() == []
    net.peer[2].slow = False
    net.wait(2)
    assert net.plane.poll_notices() == [SetIdle(EgressSet(2, 72))]
    counters = net.plane.counters()
    assert (counters.streams_in, counters.streams_out) == (1, 1)
    assert (counters.bytes_in, counters.bytes_out) == (25, 25)


def test_a_whole_stream_on_a_retired_set_with_others_open() -> None:
    net = PeerNet(peers=1)
    net.send(head() + b"a", stream=7)
    net.plane.retire(net.now, EgressSet(2, 72))
    net.send(head() + b"a", fin=True)
    assert net.plane.poll_timeout() is None


def test_the_last_leg_of_a_stream_to_our_own_clients() -> None:
    net = PeerNet(peers=2, local=True)
    net.send(head() + b"a")
    net.gone(2)
    net.gone(3)
    net.send(b"b", fin=True)
    assert net.peer[1].stopped == []
    assert [each.data for each in net.sink.streams.values()] == [b"ab"]


# Traffic by track and way


def test_every_byte_of_a_stream_is_counted_once() -> None:
    net = PeerNet(peers=2)
    net.plane.count_traffic()
    first = head() + b"abc"
    net.send(first)
    net.plane.take_traffic()  # what is under way, too
    net.send(b"de")
    net.gone(2, lost=1)
    net.send(b"f", fin=True)
    net.send(first, stream=7, fin=True)
    came, sent = net.plane.take_traffic()
    size = len(first)
    assert [(each.units, each.bytes) for each in came] == [(2, 3 + size)]
    assert {each.target: (each.units, each.bytes, each.dropped) for each in sent} == {
        2: (2, 1 + size, 1),
        3: (2, 3 + size, 0),
    }


# Objects that are timed


def sampling(*, peers: int = 2, local: bool = False) -> tuple[PeerNet, Samples]:
    net, samples = PeerNet(peers=peers, local=local), Samples(1, lambda _: 0)
    net.plane.time_objects(samples)
    return net, samples


TIMED = head(payload_format=18) + subgroup(D18, {4: b"x" * 30, 5: b"y"}, group=9)


@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("local", [True, False])
def test_the_first_object_of_a_stream_is_timed_on_every_leg(local: bool, fin: bool) -> None:
    net, samples = sampling(local=local)
    net.send(TIMED, fin=fin)
    net.wait(0)
    assert samples.take() == [
        Sample(KEY, 9, 4, 30, 100.0, 100.0, source=1, target=target) for target in (2, 3)
    ]
    assert samples.arrival(KEY, 9) == ((1, 100.0) if local else None)


def test_a_stream_in_pieces_goes_the_short_way_once_it_was_looked_at() -> None:
    net, samples = sampling(peers=1)
    net.peer[2].slow = True
    net.send(TIMED[:26])
    net.send(TIMED[26:50])
    net.wait(0)
    assert samples.take() == []  # the object has not all come
    net.send(TIMED[50:])
    net.send(b"more")
    out = net.peer[2].streams[0]
    assert out.data[8:] == (TIMED + b"more")[8:]
    net.wait(0.002)
    assert samples.take() == []  # it waits
    out.sent = len(TIMED)
    net.wait(0.1)
    assert [(each.target, each.came) for each in samples.take()] == [(2, 100.0)]


def test_a_leg_that_is_given_up_is_no_measure() -> None:
    net, samples = sampling()
    for peer in (2, 3):
        net.peer[peer].slow = True
    net.send(TIMED[:50])
    net.gone(2)
    net.plane.stream_reset(net.now, 1, 3, 7)
    net.wait(1)
    assert (samples.take(), samples.poll_timeout()) == ([], None)
    net.send(TIMED[:50], stream=7)
    net.send(b"", stream=7, fin=True)  # it ends within the object
    net.wait(1)
    assert (samples.take(), samples.poll_timeout()) == ([], None)


def test_what_is_not_chosen_is_left_alone() -> None:
    net = PeerNet(peers=1)
    net.plane.time_objects(Samples(0, lambda _: 0))
    net.send(TIMED)
    net.send(TIMED, stream=7, fin=True)
    assert net.plane.poll_timeout() is None


@pytest.mark.parametrize("peers", [0, 1])
def test_a_stream_that_our_own_clients_did_not_ask_for(peers: int) -> None:
    net = PeerNet(peers=peers, local=True)
    net.sink.spurns = True
    net.send(head() + b"a")
    net.send(b"b")
    net.send(b"c", fin=True)
    (arrived,) = net.sink.streams.values()
    assert arrived.data == b"a"
    if peers:
        # Others want it: they get all of it.
        assert net.peer[2].streams[0].payload == b"abc"
        assert net.peer[1].stopped == []
    else:
        assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]


def test_a_receiver_that_is_lost_while_others_go_on() -> None:
    """Its sender is to begin anew; if nobody is left, the stream was stopped and that says so."""
    net = PeerNet(peers=2)
    net.send(head() + b"a", fin=False)
    ingress = next(iter(net.plane.entries()))
    assert net.plane.carries(ingress)
    net.gone(2, stopped=True)
    assert net.plane.poll_notices() == [Outdated(ingress)]
    net.gone(3, lost=1)
    assert net.plane.poll_notices() == []
    assert not net.plane.carries(ingress)
    assert not net.plane.carries(ingress._replace(session=99))


def test_where_a_track_comes_from() -> None:
    net = PeerNet(peers=1, local=True)
    net.send(head() + b"a", fin=False)
    net.send(head() + b"b", fin=False, stream=7)
    assert net.plane.bringing(KEY) == list(net.plane.entries())
    assert net.plane.bringing(KEY + 1) == []
    away = PeerNet(peers=1)
    away.send(head() + b"a", fin=False)
    assert away.plane.bringing(KEY) == []
