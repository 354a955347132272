"""Local publishers' flows."""

from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.forwarding import (
    LOCAL,
    EgressSet,
    Ingress,
    Outdated,
    Rerouted,
    SetIdle,
)
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.forwarding.samples import Sample, Samples
from laps_sdk.upstream.interfaces import Feed
from laps_wire.errors import EncodeError
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import FLAG_CONTINUED, FLAG_FETCH, DataKind, split
from testkit.peer_plane import CONTEXT, KEY, Out, PeerNet
from testkit.plane import D18, subgroup

PLACE = Ingress(LOCAL, 5)


def make(peers: int = 2) -> tuple[PeerNet, Feed]:
    net = PeerNet(peers=peers)
    feed = net.plane.open_feed(5, KEY, CONTEXT, 9)
    egress = [EgressSet(session, 40 + session) for session in range(2, 2 + peers)]
    net.plane.install(net.now, PLACE, egress, local=False)
    return net, feed


def closed(stream: OutStream) -> bool:
    """Asked anew each time; a checker of types believes that a property stays as it was."""
    return stream.closed


def outs(net: PeerNet) -> list[Out]:
    return [stream for session in sorted(net.peer) for stream in net.peer[session].streams]


@pytest.mark.parametrize("peers", [1, 2, 3])
def test_a_stream_goes_to_every_set(peers: int) -> None:
    net, feed = make(peers)
    stream = feed.open_stream(net.now, priority=12, ttl_ms=300)
    assert closed(stream) is False
    chunks = [b"a", b"b" * 1000, b"c"]
    for chunk in chunks:
        stream.write(chunk)
    stream.write(b"", True)
    assert closed(stream)
    stream.write(b"ignored")
    stream.write(b"ignored", True)
    found = outs(net)
    assert len(found) == peers
    for session, out in enumerate(found, 2):
        header = out.header
        assert (header.kind, header.sns_id) == (DataKind.STREAM, 40 + session)
        assert (header.track, header.context) == (KEY, CONTEXT)
        assert (header.priority, header.ttl_ms, header.payload_format) == (12, 300, 9)
        assert out.payload == b"".join(chunks)
        assert out.fin
        assert out.writes[1] is chunks[1]
        assert (out.priority, out.deadline) == (PRIORITIES[12], None)
        assert out.drop_code == StreamCode.EXPIRED
    counters = net.plane.counters()
    assert (counters.streams_in, counters.streams_out) == (1, peers)
    assert (counters.bytes_in, counters.bytes_out) == (1026, 1026 * peers)


def test_a_stream_that_goes_on_has_a_flag() -> None:
    net = PeerNet(peers=1)
    feed = net.plane.open_feed(5, KEY, CONTEXT, 9, FLAG_FETCH)
    net.plane.install(net.now, PLACE, [EgressSet(2, 42)], local=False)
    for continued in (False, True, False):
        feed.open_stream(net.now, priority=12, continued=continued).write(b"a", True)
    both = FLAG_FETCH | FLAG_CONTINUED
    assert [out.header.flags for out in outs(net)] == [FLAG_FETCH, both, FLAG_FETCH]


def test_what_goes_on_because_somebody_was_lost_has_the_flag_too() -> None:
    """Who never got what was before can ask for it (laps-2, 6.6)."""
    net, feed = make(2)
    first = feed.open_stream(net.now, priority=1)
    first.write(b"a")
    net.plane.remove_session(net.now, 2)
    net.plane.outdate(net.now, PLACE)
    assert outdated(net) == [Outdated(PLACE)]
    first.write(b"", True)
    for _ in range(2):
        feed.open_stream(net.now, priority=1, continued=True).write(b"b", True)
    flags = [out.header.flags for out in net.peer[3].streams]
    assert flags == [0, FLAG_CONTINUED, FLAG_CONTINUED]


def test_a_stream_that_one_set_has_asked_for_goes_only_there() -> None:
    net, feed = make(3)
    stream = feed.open_stream(net.now, priority=1, continued=True, to=(3, 43))
    stream.write(b"a")
    net.plane.outdate(net.now, PLACE)
    assert net.plane.poll_timeout() is None  # it is not to go on elsewhere
    stream.write(b"b", True)
    feed.open_stream(net.now, priority=1).write(b"c", True)
    found = {number: [out.payload for out in peer.streams] for number, peer in net.peer.items()}
    assert found == {1: [], 2: [b"c"], 3: [b"ab", b"c"], 4: [b"c"]}
    assert net.peer[3].streams[0].header.flags == FLAG_CONTINUED


def test_a_stream_to_a_set_that_is_gone_goes_nowhere() -> None:
    net, feed = make(2)
    for to in ((2, 43), (9, 42)):
        stream = feed.open_stream(net.now, priority=1, to=to)
        assert stream.closed
        stream.write(b"a", True)
    net.plane.close_feed(net.now, 5)
    assert feed.open_stream(net.now, priority=1, to=(2, 42)).closed
    assert outs(net) == []


def test_a_resumed_stream_keeps_its_set_busy() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1, to=(2, 42))
    stream.write(b"a")
    net.plane.install(net.now, PLACE, [EgressSet(3, 43)], local=False)
    net.plane.retire(net.now, EgressSet(2, 42))
    net.wait(10.0)
    assert net.plane.poll_notices() == []
    stream.write(b"b", True)
    net.wait(10.0)
    assert net.plane.poll_notices() == [SetIdle(EgressSet(2, 42))]
    assert net.peer[2].streams[0].payload == b"ab"


def test_all_in_one_write() -> None:
    net, feed = make()
    feed.open_stream(net.now, priority=0, deadline=7.0).write(b"all", True)
    for out in outs(net):
        assert out.payload == b"all"
        assert out.fin
        assert len(out.writes) == 1
        assert (out.deadline, out.drop_code) == (7.0, StreamCode.EXPIRED)
    feed.open_stream(net.now, priority=0).write(bytes(4000), True)
    one, other = outs(net)[1], outs(net)[3]
    assert one.writes[1] is other.writes[1]
    assert one.drop_code == StreamCode.OVERLOADED
    assert one.fin


def test_nobody_wants_it() -> None:
    net = PeerNet()
    feed = net.plane.open_feed(5, KEY, CONTEXT, 9)
    assert feed.ingress == PLACE
    stream = feed.open_stream(net.now, priority=1)
    assert stream.closed
    assert stream.queued == 0
    stream.write(b"nowhere", True)
    stream.reset(5)
    assert not feed.send_datagram(net.now, b"nowhere", priority=1)
    assert outs(net) == []
    assert net.plane.counters().bytes_out == 0


def test_a_stream_keeps_its_sets() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    net.plane.install(net.now, PLACE, [EgressSet(3, 99)], local=False)
    stream.write(b"old", True)
    feed.open_stream(net.now, priority=1).write(b"new", True)
    assert [(out.header.sns_id, out.payload) for out in outs(net)] == [
        (42, b"old"),
        (43, b"old"),
        (99, b"new"),
    ]


def test_the_slowest_counts() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    net.peer[3].slow = True
    stream.write(b"abc")
    assert stream.queued == 27
    net.peer[3].streams[0].sent = 20
    assert stream.queued == 7
    stream.write(b"", True)
    assert stream.queued == 7
    stream.reset(0x44)
    assert [out.reset_code for out in outs(net)] == [None, 0x44]
    assert stream.queued == 0


@pytest.mark.parametrize("begun", [True, False])
def test_abandoned(begun: bool) -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    if begun:
        stream.write(b"abc")
    stream.reset(0x55)
    stream.write(b"more")
    assert stream.closed
    assert [out.reset_code for out in outs(net)] == [0x55, 0x55]
    assert net.plane.counters().bytes_out == (54 if begun else 0)


def test_priority_and_deadline_reach_all() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    stream.set_priority(77)
    stream.set_deadline(8.5)
    assert [(out.priority, out.deadline) for out in outs(net)] == [(77, 8.5)] * 2


def test_a_peer_leaves_before_the_first_byte() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    net.gone(2, stopped=True)
    stream.write(b"a")
    stream.write(b"b", True)
    assert net.peer[3].streams[0].payload == b"ab"
    assert net.peer[3].streams[0].header.sns_id == 43


def test_all_peers_leave() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    stream.write(b"a")
    net.gone(2, lost=3)
    assert closed(stream) is False
    net.plane.remove_session(net.now, 3)
    assert closed(stream)
    stream.write(b"b", True)
    assert [out.payload for out in outs(net)] == [b"a", b"a"]
    counters = net.plane.counters()
    assert (counters.bytes_in, counters.bytes_out) == (25, 50)
    assert (counters.dropped_streams, counters.dropped_bytes) == (1, 3)


def test_an_egress_that_is_closed_already() -> None:
    net, feed = make(1)
    stream = feed.open_stream(net.now, priority=1)
    stream.write(b"a")
    net.peer[2].streams[0].gone = True
    assert stream.closed


# Streams that should go elsewhere


def outdated(net: PeerNet) -> list[Outdated]:
    """What the writer is asked; that there is another path is told besides."""
    notices = net.plane.poll_notices()
    assert all(each == Rerouted(PLACE) for each in notices if not isinstance(each, Outdated))
    return [each for each in notices if isinstance(each, Outdated)]


def look(net: PeerNet, seconds: float) -> int:
    """How often the writer is asked to go on anew, after that time."""
    net.now += seconds
    due = net.plane.poll_timeout()
    if due is not None and due <= net.now:
        net.plane.handle_timeout(net.now)
    found = outdated(net)
    assert all(each.ingress == PLACE for each in found)
    return len(found)


def test_each_change_of_the_targets_or_paths_of_a_feed_is_told() -> None:
    net, feed = make(2)
    net.plane.outdate(net.now, Ingress(LOCAL, 99))
    assert net.plane.poll_notices() == []
    net.plane.outdate(net.now, PLACE)
    net.plane.outdate(net.now, PLACE, in_place=True)
    assert net.plane.poll_notices() == [Rerouted(PLACE)] * 2
    stream = feed.open_stream(net.now, priority=1)
    net.gone(2, stopped=True)
    net.plane.outdate(net.now, PLACE)  # with a stream that has lost somebody
    assert net.plane.poll_notices() == [Outdated(PLACE), Rerouted(PLACE)]
    stream.write(b"a", True)
    net.plane.close_feed(net.now, 5)
    net.plane.outdate(net.now, PLACE)
    assert net.plane.poll_notices() == []


def test_a_stream_that_does_not_end_should_go_on_anew() -> None:
    net, feed = make(2)
    net.plane.outdate(net.now, Ingress(LOCAL, 99))
    net.plane.outdate(net.now, PLACE)
    assert net.plane.poll_timeout() is None  # nothing is open
    for end in ("written", "reset"):
        stream = feed.open_stream(net.now, priority=1)
        stream.write(b"a")
        net.plane.outdate(net.now, PLACE)
        if end == "written":
            stream.write(b"b", True)
        else:
            stream.reset(1)
        assert look(net, 0.5) == 0
    feed.open_stream(net.now, priority=1).write(b"c")
    net.plane.outdate(net.now, PLACE)
    assert look(net, 0.3) == 0
    net.plane.outdate(net.now, PLACE)  # another change: it is not put off
    assert look(net, 0.2) == 1
    assert look(net, 10.0) == 0  # once for each change
    net.plane.outdate(net.now, PLACE)
    net.plane.close_feed(net.now, 5)
    assert look(net, 10.0) == 0
    net.plane.outdate(net.now, PLACE)
    assert look(net, 10.0) == 0


def test_a_stream_that_begins_while_somebody_comes_is_looked_at_too() -> None:
    """Who was added in place may hear of that behind the stream, and there may be no other one."""
    net, feed = make(2)
    first = feed.open_stream(net.now, priority=1)
    first.write(b"a")
    net.plane.outdate(net.now, PLACE)
    net.now += 0.1
    first.write(b"b", True)
    feed.open_stream(net.now, priority=1).write(b"c")
    assert look(net, 0.4) == 0  # it may end by itself
    assert look(net, 0.1) == 1
    assert look(net, 10.0) == 0
    feed.open_stream(net.now, priority=1).write(b"d")
    assert look(net, 10.0) == 0  # nobody has come


def test_a_stream_that_begins_when_somebody_has_come_in_place_is_looked_at_too() -> None:
    """Nothing was open, and this one may be all that ever comes (seed 3375)."""
    net, feed = make(2)
    net.plane.outdate(net.now, PLACE)  # with a new set, for which data waits
    feed.open_stream(net.now, priority=1).write(b"a", True)
    assert net.plane.poll_timeout() is None
    net.plane.outdate(net.now, PLACE, in_place=True)
    net.now += 0.1
    feed.open_stream(net.now, priority=1).write(b"b")
    assert look(net, 0.4) == 0  # it may end by itself
    assert look(net, 0.1) == 1
    assert look(net, 10.0) == 0
    net.plane.outdate(net.now, PLACE, in_place=True)
    net.plane.close_feed(net.now, 5)
    assert look(net, 10.0) == 0


def test_a_stream_that_has_just_begun_is_not_cut_with_the_others() -> None:
    """Its first packets may be under way, and those of a new one would overtake them."""
    net, feed = make(2)
    feed.open_stream(net.now, priority=1).write(b"a")
    net.plane.outdate(net.now, PLACE)
    net.now += 0.4
    feed.open_stream(net.now, priority=1).write(b"b")
    began = net.now
    net.now += 0.1
    net.plane.handle_timeout(net.now)
    (notice,) = outdated(net)
    assert notice.before < began
    net.now = began + 0.5
    net.plane.handle_timeout(net.now)
    assert outdated(net) == [Outdated(PLACE, began)]


def test_a_stream_that_has_lost_somebody_goes_on_when_there_is_a_way() -> None:
    net, feed = make(2)
    stream = feed.open_stream(net.now, priority=1)
    stream.write(b"a")
    net.plane.remove_session(net.now, 2)
    net.plane.install(net.now, PLACE, [EgressSet(3, 50)], local=False)
    net.plane.outdate(net.now, PLACE)
    assert outdated(net) == [Outdated(PLACE)]
    assert look(net, 10.0) == 0
    stream.write(b"mark", True)
    anew = feed.open_stream(net.now, priority=1)
    anew.write(b"b")
    assert [out.payload for out in net.peer[3].streams] == [b"amark", b"b"]


def test_a_stream_that_nobody_gets_is_still_open() -> None:
    """Also one that nobody got when it began."""
    net, feed = make(1)
    net.plane.remove_session(net.now, 2)
    stream = feed.open_stream(net.now, priority=1)
    stream.write(b"a")
    net.plane.outdate(net.now, PLACE)
    assert look(net, 0.5) == 1
    stream.write(b"b", True)
    net.plane.outdate(net.now, PLACE)
    assert look(net, 0.5) == 0


def test_a_peer_that_stops_every_stream_is_tried_less_and_less() -> None:
    net, feed = make(1)
    waits = []
    for _ in range(8):
        feed.open_stream(net.now, priority=1).write(b"a")
        net.gone(2, stopped=True)
        due = net.plane.poll_timeout()
        assert due is not None
        waits.append(due - net.now)
        assert look(net, waits[-1]) == 1
        for stream in list(feed.open):  # type: ignore[attr-defined]
            stream.write(b"", True)
    assert waits == pytest.approx([1, 2, 4, 8, 8, 8, 8, 8])
    feed.open_stream(net.now, priority=1).write(b"a")
    net.now += 100
    net.gone(2, lost=1)
    assert net.plane.poll_timeout() == pytest.approx(net.now + 0.5)


def test_a_set_that_nobody_wants_any_more_is_not_missed() -> None:
    net, feed = make(2)
    feed.open_stream(net.now, priority=1).write(b"a")
    net.plane.cut(net.now, EgressSet(2, 42), 1)
    assert net.plane.poll_timeout() is None


def test_objects_in_datagrams() -> None:
    net, feed = make(2)
    net.peer[3].max_datagram_size = 10
    assert feed.send_datagram(net.now, b"object", priority=7, ttl_ms=100)
    ((data, deadline),) = net.peer[2].datagrams
    header, payload = split(data)
    assert bytes(payload) == b"object"
    assert (header.sns_id, header.track, header.context) == (42, KEY, CONTEXT)
    assert (header.priority, header.ttl_ms, header.payload_format) == (7, 100, 9)
    assert deadline == 100.1
    assert feed.send_datagram(net.now, b"object", priority=7)
    assert net.peer[2].datagrams[1][1] is None
    assert net.plane.counters().dropped_datagrams == 2
    net.peer[2].max_datagram_size = 10
    assert not feed.send_datagram(net.now, b"object", priority=7)
    net.plane.close_feed(net.now, 5)
    assert not feed.send_datagram(net.now, b"", priority=7)


def test_what_does_not_fit_a_header() -> None:
    net, feed = make(1)
    with pytest.raises(EncodeError):
        net.plane.open_feed(6, 1 << 64, CONTEXT, 9)
    with pytest.raises(EncodeError):
        feed.open_stream(net.now, priority=256)
    with pytest.raises(EncodeError):
        feed.send_datagram(net.now, b"", priority=1, ttl_ms=1 << 32)
    assert outs(net) == []


def test_many_headers() -> None:
    net, feed = make(1)
    for number in range(200):
        feed.open_stream(net.now, priority=number, ttl_ms=number).write(b"a", True)
    feed.open_stream(net.now, priority=0).write(b"a", True)
    assert [out.header.priority for out in outs(net)] == [*range(200), 0]


def test_objects_of_our_own_clients_are_timed() -> None:
    net, samples = PeerNet(peers=1), Samples(1, lambda _: 0)
    net.plane.time_objects(samples)
    feed = net.plane.open_feed(1, KEY, 9, 18)
    net.plane.install(net.now, Ingress(LOCAL, 1), [EgressSet(2, 5)], local=False)
    data = subgroup(D18, {4: b"x" * 30}, group=9)
    for cut in (5, len(data)):
        stream = feed.open_stream(net.now, priority=1)
        stream.write(data[:cut])  # perhaps the header alone
        stream.write(data[cut:], True)
        net.wait(0)
        assert samples.take() == [Sample(KEY, 9, 4, 30, 100.0, 100.0, target=2)]
    stream = feed.open_stream(net.now, priority=1)
    stream.write(data)
    stream.reset(1)
    net.wait(0)
    assert (samples.take(), samples.poll_timeout()) == ([], None)
