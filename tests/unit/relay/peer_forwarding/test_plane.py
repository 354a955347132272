"""The plane as its callers see it."""

from __future__ import annotations

from operator import is_

import pytest

from laps_relay.peer_forwarding.forwarding import (
    LOCAL,
    EgressSet,
    Ingress,
    Outdated,
    Rerouted,
    SetIdle,
)
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.timers import first_of
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataKind
from laps_wire.peering.session import SnsStanding
from testkit.peer_plane import CONTEXT, KEY, PeerNet, head


def test_it_is_the_plane_of_the_network() -> None:
    made = PeerPlane(None)
    assert first_of(made.clocks, made.samples_at) is None
    plane: PeerPlane = made
    assert plane.poll_timeout() is None
    assert plane.poll_notices() == []
    assert plane.entries() == {}
    assert plane.fib_size() == 0
    assert set(plane.counters()) == {0}


# Streams


def test_every_chunk_goes_to_every_peer_as_it_is() -> None:
    net = PeerNet(peers=3)
    chunks = [b"x" * 600, b"y" * 700, b"z"]
    net.send(head() + b"first")
    for chunk in chunks:
        net.send(chunk)
    net.send(b"", fin=True)
    for session in (2, 3, 4):
        (stream,) = net.peer[session].streams
        assert stream.header.sns_id == 70 + session
        assert stream.payload == b"first" + b"".join(chunks)
        assert stream.fin
        assert all(map(is_, stream.writes[1:], chunks))
    assert net.peer[1].streams == []


@pytest.mark.parametrize("peers", [1, 2])
def test_only_four_bytes_of_the_header_change(peers: int) -> None:
    net = PeerNet(peers=peers)
    sent = head(extensions=b"\x01\x02ab") + b"payload"
    net.send(sent, fin=True)
    (stream,) = net.peer[2].streams
    assert stream.data[:4] == sent[:4]
    assert stream.data[4:8] == (72).to_bytes(4, "big")
    assert stream.data[8:] == sent[8:]


@pytest.mark.parametrize("peers", [1, 2])
def test_a_header_in_pieces(peers: int) -> None:
    net = PeerNet(peers=peers)
    sent = head() + b"payload"
    net.send(sent[:23], step=1)
    assert net.peer[2].streams == []
    net.send(sent[23:], step=1, fin=True)
    (stream,) = net.peer[2].streams
    assert stream.payload == b"payload"
    assert stream.fin


@pytest.mark.parametrize("peers", [1, 2])
def test_a_reset_is_mirrored_with_its_code(peers: int) -> None:
    net = PeerNet(peers=peers, local=True)
    net.send(head() + b"pay")
    net.plane.stream_reset(net.now, 1, 3, 0x17)
    assert [stream.reset_code for stream in net.peer[2].streams] == [0x17]
    assert [arrived.code for arrived in net.sink.streams.values()] == [0x17]
    net.plane.stream_reset(net.now, 1, 3, 0x18)
    net.plane.stream_reset(net.now, 9, 3, 0x18)
    assert [stream.reset_code for stream in net.peer[2].streams] == [0x17]


def test_sessions_that_are_not_there() -> None:
    net = PeerNet()
    net.send(head() + b"x", session=9)
    net.plane.datagram(net.now, 9, head(kind=DataKind.DATAGRAM))
    stream = net.peer[2].open_unidirectional()
    net.plane.out_stream_gone(net.now, 9, stream, 5, stopped=False)
    net.plane.out_stream_gone(net.now, 2, stream, 5, stopped=True)
    net.plane.remove_session(net.now, 9)
    net.plane.cut(net.now, EgressSet(9, 1), 5)
    net.plane.cut(net.now, EgressSet(2, 999), 5)
    assert set(net.plane.counters()) == {0}


def test_streams_keep_the_sets_with_which_they_began() -> None:
    net = PeerNet(peers=2)
    net.send(head() + b"old ", stream=3)
    net.session(4)
    net.install((3, 4), out_id=700)
    net.send(head() + b"new ", stream=7)
    net.send(b"end", stream=3, fin=True)
    net.plane.remove(net.now, Ingress(1, 7))
    net.send(b"end", stream=7, fin=True)
    found = {
        session: [(stream.header.sns_id, stream.payload, stream.fin) for stream in peer.streams]
        for session, peer in net.peer.items()
    }
    assert found == {
        1: [],
        2: [(72, b"old end", True)],
        3: [(73, b"old end", True), (703, b"new end", True)],
        4: [(704, b"new end", True)],
    }
    assert net.plane.entries() == {}


# Peers that want no more


@pytest.mark.parametrize("peers", [1, 2, 3])
def test_a_peer_that_stops_leaves_alone(peers: int) -> None:
    net = PeerNet(peers=peers)
    net.send(head() + b"a")
    for session in range(2, 2 + peers):
        assert net.peer[1].stopped == []
        net.gone(session, stopped=True)
        net.send(b"b")
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]
    assert [net.peer[number].streams[0].payload for number in range(2, 2 + peers)] == [
        b"a" + b"b" * (number - 2) for number in range(2, 2 + peers)
    ]
    assert net.plane.counters().dropped_streams == 0
    net.send(b"not a header", fin=True)
    assert net.plane.counters().streams_in == 1


def test_slow_peers_are_told_as_overload() -> None:
    net = PeerNet(peers=2)
    net.send(head() + b"a")
    net.gone(2, lost=10)
    net.gone(3, stopped=True)
    assert net.peer[1].stopped == [(3, StreamCode.OVERLOADED)]
    counters = net.plane.counters()
    assert (counters.dropped_streams, counters.dropped_bytes) == (1, 10)


def test_our_own_clients_keep_a_stream_alive() -> None:
    net = PeerNet(peers=1, local=True)
    net.send(head() + b"a")
    net.gone(2)
    net.send(b"b", fin=True)
    assert net.peer[1].stopped == []
    (arrived,) = net.sink.streams.values()
    assert (arrived.data, arrived.fin) == (b"ab", True)
    assert arrived.header.sns_id == 7


def test_what_is_not_sent_is_known_and_counted_with_the_end_of_its_session() -> None:
    net = PeerNet(peers=2)
    assert net.plane.unsent() == 0
    net.send(head() + b"a")
    assert net.plane.unsent() == 2  # they have not ended
    net.peer[2].slow = True
    net.send(b"b", fin=True)
    assert net.plane.unsent() == 1  # bytes of one wait
    net.plane.remove_session(net.now, 3)
    assert net.plane.counters().unsent_streams == 0
    net.plane.remove_session(net.now, 2)
    assert (net.plane.unsent(), net.plane.counters().unsent_streams) == (0, 1)


def test_a_finished_stream_can_still_be_dropped() -> None:
    net = PeerNet(peers=1)
    net.peer[2].slow = True
    net.send(head() + b"a", fin=True)
    net.send(head() + b"a", fin=True, stream=7)
    net.gone(2, 0, lost=25)
    net.gone(2, 1, stopped=True)
    counters = net.plane.counters()
    assert (counters.dropped_streams, counters.dropped_bytes) == (1, 25)


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_that_is_dropped_while_its_end_is_written_is_counted(whole: bool) -> None:
    """The egress has no room for the last bytes; the plane hears of it a moment later."""
    net = PeerNet(peers=1)
    peer = net.peer[2]
    peer.slow = True

    def drop() -> None:
        (stream,) = peer.streams
        stream.gone = stream.fin

    peer.on_write = drop
    if whole:
        net.send(head() + b"a", fin=True)
    else:
        net.send(head() + b"a")
        net.send(b"b", fin=True)
    (stream,) = peer.streams
    assert stream.gone
    net.plane.out_stream_gone(net.now, 2, stream, 25, stopped=False)
    counters = net.plane.counters()
    assert (counters.dropped_streams, counters.dropped_bytes) == (1, 25)


# Sessions that go


def test_the_end_of_the_sender_is_a_reset_after_which_others_may_send_the_rest() -> None:
    net = PeerNet(peers=1, local=True)
    net.send(head() + b"a")
    net.send(head()[:9], stream=7)
    net.send(head(99), stream=11)
    net.send(head(99), stream=15, fin=True)
    net.plane.datagram(net.now, 1, head(99, kind=DataKind.DATAGRAM))
    items = net.holder[1].take(99)
    assert len(items) == 3
    net.plane.remove_session(net.now, 1)
    assert net.peer[2].streams[0].reset_code == StreamCode.LOST
    assert [each.code for each in net.sink.streams.values()] == [StreamCode.LOST]
    assert net.plane.entries() == {}
    assert net.plane.counters().held_bytes == 0
    net.plane.release(net.now, 1, items)
    net.plane.discard(net.now, 1, items)
    assert net.plane.counters().unknown_streams == 0
    assert net.plane.counters().unknown_datagrams == 0
    assert net.peer[1].stopped == []


def test_the_end_of_a_receiver_ends_its_legs_only() -> None:
    net = PeerNet(peers=2)
    net.send(head() + b"a")
    net.plane.retire(net.now, EgressSet(2, 72))
    net.plane.remove_session(net.now, 2)
    net.send(b"b")
    net.send(head() + b"c", stream=7, fin=True)
    assert len(net.peer[2].streams) == 1
    assert [stream.payload for stream in net.peer[3].streams] == [b"ab", b"c"]
    net.plane.remove_session(net.now, 3)
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]
    net.wait(10)
    assert net.plane.poll_notices() == []


def test_a_session_that_sends_to_itself_can_go() -> None:
    net = PeerNet(peers=0)
    net.install((1,))
    net.send(head() + b"a")
    assert net.peer[1].streams[0].payload == b"a"
    net.plane.remove_session(net.now, 1)
    assert net.peer[1].streams[0].reset_code == StreamCode.LOST
    assert net.peer[1].stopped == []
    assert net.plane.counters().bytes_in == 25


# Sets


def test_a_retired_set_is_reported_when_it_is_idle() -> None:
    net = PeerNet(peers=1)
    net.send(head() + b"a")
    net.install((), out_id=0)
    net.plane.retire(net.now, EgressSet(2, 72))
    net.wait(10)
    assert net.plane.poll_notices() == []
    net.send(b"b", fin=True)
    net.wait(0.9)
    assert net.plane.poll_notices() == []
    net.wait(0.2)
    assert net.plane.poll_notices() == [SetIdle(EgressSet(2, 72))]
    assert net.plane.poll_notices() == []
    assert net.plane.poll_timeout() is None


def test_cut_ends_streams_to_one_set() -> None:
    net = PeerNet(peers=2)
    net.peer[2].slow = True
    net.send(head() + b"a", stream=3)
    net.send(head() + b"b", stream=7, fin=True)
    net.install((2,), out_id=700)
    net.send(head() + b"c", stream=11)
    net.send(head() + b"d", stream=15, fin=True)
    net.plane.cut(net.now, EgressSet(2, 72), 0x4C02)
    assert [stream.reset_code for stream in net.peer[2].streams] == [0x4C02, 0x4C02, None, None]
    net.send(b"more", stream=3, fin=True)
    assert net.peer[3].streams[0].payload == b"amore"
    net.plane.cut(net.now, EgressSet(2, 702), 5)
    assert net.peer[1].stopped == [(11, StreamCode.NO_SUBSCRIBERS)]
    assert net.peer[2].streams[3].reset_code == 5


# Data before its set


def test_what_was_held_goes_first() -> None:
    net = PeerNet(peers=2)
    net.send(head(9) + b"a", stream=3)
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM) + b"d")
    net.send(b"b", stream=3)
    net.send(head(9) + b"c", stream=7, fin=True)
    assert net.plane.counters().held_bytes == 24 * 3 + 4
    net.install((2, 3), sns_id=9)
    net.plane.release(net.now, 1, [*net.holder[1].take(9), object()])
    net.send(b"e", stream=3, fin=True)
    for session in (2, 3):
        assert [stream.payload for stream in net.peer[session].streams] == [b"abe", b"c"]
        assert all(stream.fin for stream in net.peer[session].streams)
        assert [data[24:] for data, _ in net.peer[session].datagrams] == [b"d"]
    assert net.plane.counters().held_bytes == 0


def test_what_does_not_come_is_given_up() -> None:
    net = PeerNet()
    net.send(head(9) + b"a", stream=3)
    net.send(b"b", stream=3)
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM) + b"d")
    net.plane.discard(net.now, 1, [*net.holder[1].take(9), object()])
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    counters = net.plane.counters()
    assert (counters.unknown_streams, counters.unknown_datagrams, counters.held_bytes) == (1, 1, 0)
    net.send(b"c", stream=3)
    net.plane.stream_reset(net.now, 1, 3, 0)


def test_a_set_that_is_gone() -> None:
    net = PeerNet()
    net.holder[1].standing[5] = SnsStanding.GONE
    net.send(head(5) + b"a")
    net.plane.datagram(net.now, 1, head(5, kind=DataKind.DATAGRAM) + b"d")
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    assert net.plane.counters().unknown_streams == 1
    assert net.plane.counters().unknown_datagrams == 1


def test_data_without_a_set_is_for_nobody() -> None:
    """Stubs send such data, and are guests: it does not come here."""
    net = PeerNet()
    net.send(head(0) + b"a", stream=3)
    net.plane.datagram(net.now, 1, head(0, kind=DataKind.DATAGRAM))
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    net.send(head(0) + b"d", stream=11, fin=True)
    assert net.plane.counters().unknown_streams == 2
    assert net.plane.counters().unknown_datagrams == 1


# What peers do wrong


def test_datagrams_that_break_the_protocol() -> None:
    net = PeerNet()
    for data in (b"", head()[:9], b"\x05" * 30, head() + b"a", bytes([200]) + head()[1:]):
        with pytest.raises(ProtocolViolation):
            net.plane.datagram(net.now, 1, data)
    net.plane.datagram(net.now, 1, bytes([24, 0x30]) + head()[2:])
    assert net.plane.counters().unknown_kinds == 1
    assert net.plane.counters().datagrams_in == 0


def test_streams_that_break_the_protocol() -> None:
    net = PeerNet()
    with pytest.raises(MalformedError):
        net.send(b"\x05" * 30)
    net.send(b"what follows is not looked at")
    assert net.plane.counters().streams_in == 0


# Feeds and figures


def test_a_feed_and_its_end() -> None:
    net = PeerNet(peers=2)
    feed = net.plane.open_feed(5, KEY, CONTEXT, 1)
    assert feed.ingress == Ingress(LOCAL, 5)
    net.plane.install(net.now, feed.ingress, [EgressSet(2, 4), EgressSet(3, 4)], local=True)
    assert net.plane.entries()[feed.ingress][1] is False
    stream = feed.open_stream(net.now, priority=9)
    stream.write(b"a")
    net.plane.close_feed(net.now, 5)
    net.plane.close_feed(net.now, 5)
    assert feed.ingress not in net.plane.entries()
    stream.write(b"b", True)
    assert [out.payload for out in net.peer[2].streams] == [b"ab"]
    assert feed.open_stream(net.now, priority=9).closed


def test_figures_count_what_is_under_way() -> None:
    net = PeerNet(peers=2, local=True)
    net.send(head() + b"a")
    net.send(head(11)[:5], stream=7)
    net.plane.datagram(net.now, 1, head(kind=DataKind.DATAGRAM) + b"d")
    feed = net.plane.open_feed(5, KEY, CONTEXT, 1)
    net.plane.install(net.now, feed.ingress, [EgressSet(2, 4)], local=False)
    feed.open_stream(net.now, priority=9).write(b"abc")
    for step in (1, 0):
        counters = net.plane.counters()
        assert (counters.streams_in, counters.streams_out) == (2, 3)
        assert (counters.datagrams_in, counters.datagrams_out) == (1, 2)
        assert counters.bytes_in == 25 + 25 + 27
        assert counters.bytes_out == 25 * 2 + 25 * 2 + 27
        sets, local, of_set = net.plane.entries()[Ingress(1, 7)]
        assert sets == (EgressSet(2, 72), EgressSet(3, 73))
        assert local
        assert of_set == (1, 1, 50, 100)
        assert net.plane.entries()[feed.ingress][2] == (1, 0, 27, 27)
        if step:
            net.send(b"", fin=True)


def test_a_plane_without_clients_of_its_own() -> None:
    plane = PeerPlane(None)
    net = PeerNet(peers=0)
    plane.add_session(1, net.peer[1], net.holder[1])
    plane.install(0.0, Ingress(1, 7), [], local=True)
    assert plane.entries()[Ingress(1, 7)][1] is False
    plane.stream_data(0.0, 1, 3, head() + b"a", False)
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]


def test_clients_of_our_own_that_come_later() -> None:
    plane, net = PeerPlane(None), PeerNet(peers=0)
    plane.add_session(1, net.peer[1], net.holder[1])
    plane.attach(net.sink)
    plane.install(0.0, Ingress(1, 7), [], local=True)
    plane.stream_data(0.0, 1, 3, head() + b"a", True)
    assert [each.data for each in net.sink.streams.values()] == [b"a"]


def test_what_is_given_up_behind_its_end_was_not_sent() -> None:
    net = PeerNet(peers=1)
    assert net.plane.take_traffic() == ([], [])
    net.plane.count_traffic()
    net.peer[2].slow = True
    data = head() + b"abc"
    net.send(data)
    net.plane.take_traffic()
    net.send(b"", fin=True)
    net.gone(2, lost=2)
    net.send(data, stream=7, fin=True)
    _, (sent,) = net.plane.take_traffic()
    assert (sent.units, sent.bytes, sent.dropped) == (2, len(data) - 2, 1)


def test_streams_that_should_go_on_anew() -> None:
    plane = PeerPlane(None, continue_after=2.0)
    place = Ingress(LOCAL, 1)
    plane.outdate(0.0, place)
    feed = plane.open_feed(1, KEY, CONTEXT, 18)
    plane.install(0.0, place, [], local=False)
    feed.open_stream(0.0, priority=1).write(b"a")
    plane.outdate(1.0, place)
    assert plane.poll_timeout() == 3.0
    assert plane.poll_notices() == [Rerouted(place)]
    plane.handle_timeout(3.0)
    assert plane.poll_notices() == [Outdated(place, 0.0)]
    net = PeerNet(peers=1)
    net.send(head() + b"a", fin=False)
    (ingress,) = net.plane.entries()
    assert net.plane.carries(ingress)
    assert net.plane.bringing(KEY) == []  # it is not for our own clients
    net.gone(2, lost=1)
    assert not net.plane.carries(ingress)
