"""How streams begin: headers in pieces, headers that are wrong, sets that are not there yet."""

from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.arrival import HeldStream
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataKind
from laps_wire.peering.session import SnsStanding
from testkit.peer_plane import PeerNet, head

GONE, LIVE = SnsStanding.GONE, SnsStanding.LIVE


# Headers


@pytest.mark.parametrize("step", [1, 2, 5, 23, 24, 25, 200])
@pytest.mark.parametrize("extensions", [b"", b"\x02\x03abc", b"\x02\x40\xc8" + bytes(200)])
def test_a_header_comes_in_pieces(step: int, extensions: bytes) -> None:
    net = PeerNet(peers=1, local=True)
    sent = head(extensions=extensions) + b"payload"
    net.send(sent, step=step, fin=True)
    (stream,) = net.peer[2].streams
    assert stream.data[8:] == sent[8:]
    assert stream.fin
    (arrived,) = net.sink.streams.values()
    assert arrived.data == b"payload"
    assert arrived.fin


def test_nothing_is_forwarded_before_the_header_is_whole() -> None:
    net = PeerNet(peers=1)
    net.send(head()[:23])
    assert net.peer[2].streams == []
    net.plane.stream_reset(net.now, 1, 3, 5)
    assert net.peer[2].streams == []
    net.send(head(), stream=7)
    assert len(net.peer[2].streams) == 1


@pytest.mark.parametrize("length", [0, 1, 8, 23])
def test_an_end_inside_the_header(length: int) -> None:
    net = PeerNet(peers=1)
    with pytest.raises(ProtocolViolation, match="ends inside its header"):
        net.send(head()[:length], fin=True)
    net.send(head()[:1], stream=7)
    with pytest.raises(ProtocolViolation, match="ends inside its header"):
        net.send(head()[1 : max(1, length)], fin=True, stream=7)


def test_headers_that_break_the_protocol() -> None:
    net = PeerNet(peers=1)
    with pytest.raises(MalformedError, match="at least 24 belong"):
        net.send(b"\x17")
    with pytest.raises(ProtocolViolation, match="the header of a datagram"):
        net.send(head(kind=DataKind.DATAGRAM) + b"a", stream=7)
    net.send(head()[:1], stream=11)
    with pytest.raises(ProtocolViolation, match="the header of a datagram"):
        net.send(head(kind=DataKind.DATAGRAM)[1:] + b"a", stream=11)
    for stream in (3, 7, 11):
        net.send(b"more", stream=stream)
        net.send(b"", stream=stream, fin=True)
    assert net.peer[1].stopped == []
    assert net.peer[2].streams == []


@pytest.mark.parametrize("first", [1, 2, 24])
def test_a_kind_that_is_not_known_ends_the_stream_only(first: int) -> None:
    net = PeerNet(peers=1)
    sent = bytes([24, 0x30]) + head()[2:]
    net.send(sent[:first])
    net.send(sent[first:])
    net.send(b"more", fin=True)
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_KIND)]
    net.send(sent, stream=7, fin=True)  # nobody is there to be stopped
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_KIND)]
    assert net.plane.counters().unknown_kinds == 2
    assert net.plane.counters().unknown_streams == 0


def test_a_set_without_anyone() -> None:
    net = PeerNet(peers=0)
    net.send(head() + b"a")
    net.send(head() + b"a", stream=7, fin=True)
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]
    net.send(b"b", fin=True)
    counters = net.plane.counters()
    assert (counters.streams_in, counters.streams_out, counters.bytes_in) == (2, 0, 50)


def test_set_zero() -> None:
    net = PeerNet(peers=1)
    net.send(head(0) + b"a")
    net.send(head(0) + b"a", stream=7, fin=True)
    net.plane.datagram(net.now, 1, head(0, kind=DataKind.DATAGRAM))
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    counters = net.plane.counters()
    assert (counters.unknown_streams, counters.unknown_datagrams, counters.held_bytes) == (2, 1, 0)
    assert net.holder[1].items == []


# Data before its set


def test_each_chunk_is_told_to_the_session() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"abc")
    net.send(b"de")
    net.send(b"", fin=True)
    assert [(sns_id, size) for sns_id, _, size in net.holder[1].items] == [(9, 27), (9, 2)]
    first, second = net.holder[1].take(9)
    assert first is second
    assert net.plane.counters().held_bytes == 29


def test_a_header_in_pieces_waits_too() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"abc", step=5, fin=True)
    net.install((2,), sns_id=9)
    net.plane.release(net.now, 1, net.holder[1].take(9))
    (stream,) = net.peer[2].streams
    assert stream.payload == b"abc"
    assert stream.fin


def test_a_chunk_between_the_set_and_its_release() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    items = net.holder[1].take(9)
    net.install((2,), sns_id=9)
    net.send(b"b")
    (stream,) = net.peer[2].streams
    assert stream.payload == b"ab"
    net.plane.release(net.now, 1, items)
    net.send(b"c", fin=True)
    net.plane.discard(net.now, 1, items)
    assert stream.payload == b"abc"
    assert stream.fin
    assert net.plane.counters().held_bytes == 0
    assert net.plane.counters().unknown_streams == 0


def test_a_chunk_while_the_release_is_on_its_way() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    items = net.holder[1].take(9)
    net.holder[1].standing[9] = LIVE
    net.send(b"b")
    net.send(b"c", fin=True)
    net.install((2,), sns_id=9)
    net.plane.release(net.now, 1, items)
    (stream,) = net.peer[2].streams
    assert stream.payload == b"abc"
    assert stream.fin
    assert net.plane.counters().held_bytes == 0


def test_what_comes_before_the_release_is_bounded() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    net.holder[1].standing[9] = LIVE
    for _ in range(5):
        net.send(bytes(64 * 1024))
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]
    assert net.plane.counters().held_bytes == 0
    assert net.plane.counters().unknown_streams == 1


def test_a_set_that_lives_and_goes_nowhere() -> None:
    net = PeerNet(peers=1)
    net.holder[1].standing[9] = LIVE
    net.send(head(9) + b"a")
    assert net.peer[1].stopped == [(3, StreamCode.NO_SUBSCRIBERS)]
    net.holder[1].standing.clear()
    net.send(head(9) + b"a", stream=7)
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM))
    net.plane.release(net.now, 1, net.holder[1].take(9))
    assert net.peer[1].stopped[1:] == [(7, StreamCode.NO_SUBSCRIBERS)]
    assert net.plane.counters().unknown_streams == 2
    assert net.plane.counters().unknown_datagrams == 1
    assert net.plane.counters().held_bytes == 0


def test_a_set_that_goes_while_its_data_waits() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    net.holder[1].standing[9] = GONE
    net.send(b"b")
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    net.plane.discard(net.now, 1, net.holder[1].take(9))
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    assert net.plane.counters().unknown_streams == 1
    assert net.plane.counters().held_bytes == 0


def test_one_dropped_chunk_gives_up_the_stream() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    net.send(b"b")
    oldest, other = net.holder[1].take(9)
    net.plane.discard(net.now, 1, [oldest])
    net.install((2,), sns_id=9)
    net.plane.release(net.now, 1, [other])
    net.send(b"c", fin=True)
    assert net.peer[2].streams == []
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]


def test_a_finished_stream_that_waits_needs_no_stop() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a", fin=True)
    net.plane.discard(net.now, 1, net.holder[1].take(9))
    assert net.peer[1].stopped == []
    assert net.plane.counters().unknown_streams == 1


def test_a_reset_while_it_waits() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    net.plane.stream_reset(net.now, 1, 3, 5)
    assert net.plane.counters().held_bytes == 0
    net.install((2,), sns_id=9)
    net.plane.release(net.now, 1, net.holder[1].take(9))
    assert net.peer[2].streams == []
    assert net.plane.counters().unknown_streams == 0


def test_a_buffer_that_gives_back_at_once() -> None:
    net = PeerNet(peers=1)

    def full(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
        del sns_id, size
        net.plane.discard(now, 1, [item])
        return SnsStanding.UNKNOWN

    net.plane.add_session(1, net.peer[1], full)
    net.send(head(9) + b"a")
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM))
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    counters = net.plane.counters()
    assert (counters.unknown_streams, counters.unknown_datagrams, counters.held_bytes) == (1, 1, 0)


def test_a_buffer_that_gives_back_and_says_so() -> None:
    net = PeerNet(peers=1)

    def refusing(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
        del sns_id, size
        net.plane.discard(now, 1, [item])
        return GONE

    net.plane.add_session(1, net.peer[1], refusing)
    net.send(head(9) + b"a")
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM))
    assert net.peer[1].stopped == [(3, StreamCode.UNKNOWN_SNS)]
    counters = net.plane.counters()
    assert (counters.unknown_streams, counters.unknown_datagrams, counters.held_bytes) == (1, 1, 0)


def test_datagrams_that_wait() -> None:
    net = PeerNet(peers=1)
    for index in range(3):
        net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM) + b"%d" % index)
    first, second, third = net.holder[1].take(9)
    net.plane.discard(net.now, 1, [first, first])
    net.install((2,), sns_id=9)
    net.plane.release(net.now, 1, [first, second, third, third])
    assert [data[24:] for data, _ in net.peer[2].datagrams] == [b"1", b"2"]
    assert net.plane.counters().unknown_datagrams == 1
    assert net.plane.counters().held_bytes == 0
    assert not isinstance(first, HeldStream)


def test_waiting_streams_and_their_session_end_together() -> None:
    net = PeerNet(peers=1)
    net.send(head(9) + b"a")
    net.send(head(9) + b"a", stream=7, fin=True)
    net.send(head()[:3], stream=11)
    net.plane.datagram(net.now, 1, head(9, kind=DataKind.DATAGRAM))
    net.plane.remove_session(net.now, 1)
    assert net.plane.counters().held_bytes == 0
    net.plane.discard(net.now, 1, net.holder[1].take(9))
    assert net.plane.counters().unknown_streams == 0
