from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from laps_relay.sim.net.clock import Clock
from laps_relay.sim.net.shortcuts import SharedMessages
from laps_relay.sim.net.wires import (
    MAX_DATAGRAMS,
    Cause,
    Channel,
    Chunk,
    Lane,
    Pipe,
    SimOutStream,
    Waiting,
    Wire,
    WireDigest,
)
from laps_wire.peering.laps2 import Drain, encode


class Line:
    """A pipe and what comes out of it."""

    def __init__(
        self, wire: Wire, seed: int = 1, *, clock: Clock | None = None, limit: int = 256 * 1024
    ) -> None:
        self.clock = clock or Clock()
        self.judged: list[tuple[str, object]] = []
        self.got: list[tuple[float, Chunk]] = []
        self.gone: list[tuple[int, int]] = []
        self.seen: list[Chunk] = []
        self.pipe = Pipe(
            self.clock,
            random.Random(seed),
            wire,
            "a",
            lambda chunk: self.got.append((self.clock.now, chunk)),
            lambda stream, lost: self.gone.append((stream.stream_id, lost)),
            lambda _, chunk: self.seen.append(chunk),
            connection=7,
            record=Channel(WireDigest()),
            limit=limit,
            judge=self,
        )
        self._next = 2

    # QueueJudge

    def sends(self, pipe: Pipe, stream: SimOutStream | None, item: Waiting) -> None:
        self.judged.append(("sends", item.since))

    def drops(self, pipe: Pipe, stream: SimOutStream, cause: Cause, code: int) -> None:
        assert pipe is self.pipe
        assert stream.waiting
        self.judged.append((cause.name, code))

    def closes(self, pipe: Pipe, begun: Sequence[SimOutStream]) -> None:
        pass

    def drops_datagram(self, pipe: Pipe, item: Waiting) -> None:
        self.judged.append(("datagram", item.chunk.data))

    def stream(
        self, priority: int = 0, *, droppable: bool = False, deadline: float | None = None
    ) -> SimOutStream:
        self._next += 4
        return SimOutStream(self.pipe, self._next, priority, droppable, 9, deadline)

    def run(self, until: float = 100.0) -> list[bytes]:
        self.clock.run(until)
        return [chunk.data for _, chunk in self.got]


def test_what_is_sent_arrives_after_the_delay() -> None:
    line = Line(Wire(("a", "b"), 0.02))
    stream = line.stream()
    stream.write(b"one")
    stream.write(b"two", fin=True)
    stream.write(b"never")
    assert stream.closed
    assert line.run() == [b"one", b"two"]
    assert {when for when, _ in line.got} == {0.02}
    assert line.got[-1][1].fin


def test_streams_overtake_each_other_and_keep_their_own_order() -> None:
    line = Line(Wire(("a", "b"), 0.02, jitter=0.5, loss=0.2))
    streams = [line.stream() for _ in range(6)]
    for number in range(20):
        for stream in streams:
            stream.write(bytes([stream.stream_id, number]))
    line.run()
    by_stream: dict[int, list[int]] = {}
    for _, chunk in line.got:
        by_stream.setdefault(chunk.data[0], []).append(chunk.data[1])
    assert all(numbers == list(range(20)) for numbers in by_stream.values())
    order = [chunk.data[0] for _, chunk in line.got]
    assert order != [stream.stream_id for stream in streams] * 20


def test_loss_is_a_delay_on_streams_and_a_loss_of_datagrams() -> None:
    line = Line(Wire(("a", "b"), 0.02, loss=1.0))
    line.stream().write(b"late", fin=True)
    line.pipe.send(None, Chunk("datagram", 0, b"lost"))
    assert line.run() == [b"late"]
    assert line.got[0][0] > 0.02


def test_bandwidth_takes_time_and_the_urgent_goes_first() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    low, high = line.stream(200), line.stream(1)
    for number in range(3):
        low.write(b"l%d" % number + bytes(60))
    high.write(b"h" + bytes(61), fin=True)
    line.pipe.send(None, Chunk("data", 0, b"control"))
    assert low.queued == 124  # the first one is on the wire
    line.run()
    assert [chunk.data[:2].rstrip(b"\0") for _, chunk in line.got] == [
        b"l0", b"co", b"h", b"l1", b"l2",
    ]  # fmt: skip
    assert line.got[-1][0] > 0.2


def test_a_full_queue_gives_up_what_may_be_given_up() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}), limit=100_000)
    kept, dropped = line.stream(5), line.stream(7, droppable=True)
    for _ in range(40):
        kept.write(bytes(4096))
        dropped.write(bytes(4096))
    assert dropped.closed
    assert line.gone
    assert line.gone[0][0] == dropped.stream_id
    line.clock.run(1.0)
    assert any(chunk.kind == "reset" and chunk.code == 9 for _, chunk in line.got)
    assert not kept.closed


def test_what_is_too_old_is_not_sent() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    line.stream(1).write(bytes(2000), fin=True)
    late = line.stream(5)
    late.set_deadline(1.0)
    late.set_priority(6)
    late.write(b"x" * 10, fin=True)
    assert b"x" * 10 not in line.run()
    assert line.gone == [(late.stream_id, 10)]


def test_a_reset_stream_sends_nothing_of_what_waited() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    line.stream(1).write(bytes(1000), fin=True)
    stream = line.stream(5)
    stream.write(b"never")
    stream.reset(3)
    stream.reset(4)
    line.run()
    assert [(chunk.kind, chunk.code) for _, chunk in line.got] == [("data", 0), ("reset", 3)] or [
        (chunk.kind, chunk.code) for _, chunk in line.got
    ] == [("reset", 3), ("data", 0)]


def test_nothing_of_a_stream_comes_behind_its_reset() -> None:
    overtaken = 0
    for seed in range(20):
        line = Line(Wire(("a", "b"), 0.02, jitter=0.5), seed)
        stream, other = line.stream(), line.stream()
        stream.write(b"one")
        other.write(b"other")
        stream.reset(3)
        line.run()
        kinds = [chunk.kind for _, chunk in line.got if chunk.stream_id == stream.stream_id]
        assert kinds in (["data", "reset"], ["reset"])
        assert b"other" in line.run()
        overtaken += kinds == ["reset"]
    assert 0 < overtaken < 20


def test_a_blocked_wire_keeps_streams_and_loses_datagrams() -> None:
    wire = Wire(("a", "b"), 0.01)
    line = Line(wire)
    wire.blocked["a"] = True
    stream, old = line.stream(), line.stream(deadline=1.0)
    stream.write(b"kept")
    old.write(b"too old")
    old.write(b"as well", fin=True)
    line.pipe.send(None, Chunk("datagram", 0, b"lost"))
    assert line.run(2.0) == []
    wire.blocked.clear()
    line.pipe.unblocked()
    assert line.run() == [b"kept", b""]
    assert line.got[1][1].kind == "reset"


def test_nothing_comes_out_of_a_closed_pipe() -> None:
    line = Line(Wire(("a", "b"), 0.01))
    line.stream().write(b"under way")
    line.pipe.closed = True
    stream = line.stream()
    stream.write(b"too late")
    stream.reset(1)
    assert line.run() == []


def test_a_slow_receiver_is_slow_in_one_direction() -> None:
    wire = Wire(("a", "b"), 0.01)
    wire.slow["a"] = 10.0
    assert wire.rate("a") == 10.0
    assert wire.rate("b") is None
    assert wire.srtt_us == 20_000
    wire.bandwidth.update(a=5.0, b=20.0)
    assert wire.rate("a") == 5.0
    assert wire.rate("b") == 20.0


def test_a_packet_that_began_slowly_ends_slowly() -> None:
    wire = Wire(("a", "b"), 0.0)
    line = Line(wire)
    seen = [wire.hampered]
    wire.slow["a"] = 100.0
    assert [*seen, wire.hampered] == [False, True]
    line.stream().write(bytes(1000), fin=True)
    del wire.slow["a"]
    line.run(1.0)
    assert wire.hampered  # it is under way for ten seconds
    line.run()
    assert not wire.hampered


def test_two_connections_share_one_bandwidth() -> None:
    wire = Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0})
    clock = Clock()
    one, other = Line(wire, clock=clock), Line(wire, clock=clock)
    for line in (one, other):
        stream = line.stream()
        for _ in range(5):
            stream.write(bytes(60))
    clock.run(0.55)  # six packets of 60 bytes and 40 around them
    assert (len(one.got), len(other.got)) == (4, 2)  # the first two before the other came
    clock.run(10.0)
    assert (len(one.got), len(other.got)) == (5, 5)
    assert round(one.got[-1][0], 6) == 0.7
    assert round(other.got[-1][0], 6) == 0.9


def test_a_large_chunk_goes_packet_by_packet_and_ends_with_the_last() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    stream, urgent = line.stream(5), line.stream(1)
    stream.write(bytes(2500), fin=True)
    urgent.write(b"now")
    sizes = [(len(chunk.data), chunk.fin) for _, chunk in line.got] if line.run() else []
    assert sizes == [(1200, False), (3, False), (1200, False), (100, True)]


def test_an_end_without_data_waits_behind_the_data() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    stream = line.stream()
    for data in (b"one", b"two", b""):
        stream.write(data, fin=not data)
    assert line.run() == [b"one", b"two", b""]
    assert line.got[-1][1].fin


def test_datagrams_take_turns_with_streams_and_have_a_deadline() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    stream = line.stream()
    for number in range(3):
        stream.write(b"s%d" % number + bytes(58))
        line.pipe.send(None, Chunk("datagram", 0, b"d%d" % number + bytes(58)), 0.25)
    line.pipe.send(None, Chunk("data", 0, b"control"))
    order = [data[:2] for data in line.run()]
    assert order == [b"s0", b"co", b"d0", b"s1", b"s2"]
    assert [what for what, _ in line.judged].count("datagram") == 2


def test_more_datagrams_than_may_wait_drop_the_oldest() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    for number in range(MAX_DATAGRAMS + 2):
        line.pipe.send(None, Chunk("datagram", 0, b"%d" % number))
    assert line.judged[1:] == [("datagram", b"1")]  # the first one is on the wire


def test_what_is_written_too_late_is_given_up_at_once() -> None:
    line = Line(Wire(("a", "b"), 0.0))
    stream = line.stream(deadline=1.0)
    line.clock.run(1.0)
    stream.write(b"late", fin=True)
    assert line.gone == [(stream.stream_id, 4)]
    assert stream.closed
    assert not line.judged  # nothing of it waited


def test_a_deadline_that_is_put_off_holds_from_then_on() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    line.stream(1).write(bytes(4000), fin=True)
    late = line.stream(5, deadline=1.0)
    late.write(b"x", fin=True)
    late.set_deadline(2.0)
    line.clock.run(1.5)
    assert not line.gone
    line.clock.run(2.0)
    assert line.gone == [(late.stream_id, 1)]
    assert line.judged[-1] == ("EXPIRED", 9)


def test_what_waits_is_lost_with_the_connection_and_the_judge_hears_of_it() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}))
    stream = line.stream()
    stream.write(bytes(100))
    stream.write(bytes(100))
    line.pipe.send(None, Chunk("datagram", 0, b"d"))
    line.pipe.close()
    line.pipe.close()
    assert [what for what, _ in line.judged] == ["sends", "CLOSED", "datagram"]
    assert stream.queued == 0
    assert line.run() == []  # also what was under way


def test_who_is_least_urgent_and_waits_longest_is_shed() -> None:
    line = Line(Wire(("a", "b"), 0.0, bandwidth={"a": 1000.0}), limit=3000)
    streams = [line.stream(priority, droppable=True) for priority in (1, 9, 9, 5)]
    for stream in streams:
        stream.write(bytes(1000))
    streams[0].write(bytes(1000))
    assert [stream.closed for stream in streams] == [False, True, False, False]
    assert line.judged[-1] == ("SHED", 9)
    assert line.pipe.backlog.droppable == 3000
    assert line.pipe.receiver == "b"


# Lanes


class Somebody:
    """Has so many packets to send."""

    def __init__(self, sizes: list[int], rate: float | None = 1000.0) -> None:
        self.sizes = sizes
        self.rate = rate
        self.sent = 0

    def send_next(self) -> int | None:
        if not self.sizes:
            return None
        self.sent += 1
        return self.sizes.pop(0)


def test_a_lane_is_used_in_turn_and_stands_still_in_between() -> None:
    clock = Clock()
    lane = Lane(clock)
    one, other = Somebody([60, 60, 60]), Somebody([60])
    lane.want(one)
    lane.want(other)
    lane.want(other)
    assert (one.sent, other.sent) == (1, 0)
    clock.run(0.15)
    assert (one.sent, other.sent) == (2, 0)
    clock.run(0.25)
    assert (one.sent, other.sent) == (2, 1)
    assert lane.rate == 1000.0
    clock.run(1.0)
    assert one.sent == 3
    one.sizes = [60]
    lane.want(one)
    assert one.sent == 4


def test_a_lane_without_a_limit_empties_at_once() -> None:
    lane = Lane(Clock())
    somebody = Somebody([60, 60, 60], None)
    lane.want(somebody)
    assert somebody.sent == 3


def test_a_lane_knows_since_when_it_is_faster() -> None:
    """What waited before waited for somebody who was slow."""
    clock = Clock()
    lane = Lane(clock)
    somebody = Somebody([60, 60, 60, 60, 60])
    lane.want(somebody)
    assert lane.quickened == -math.inf
    somebody.rate = 100.0
    clock.run(0.15)
    assert (lane.rate, lane.quickened) == (100.0, -math.inf)
    assert lane.held_back(0.14)
    somebody.rate = 1000.0
    clock.run(1.05)  # the packet that goes is not faster for that
    assert lane.quickened == -math.inf
    clock.run(1.15)
    assert (lane.rate, lane.quickened) == (1000.0, 1.1)
    somebody.rate = None
    clock.run(1.3)
    assert lane.rate is None
    assert lane.quickened == pytest.approx(1.2)
    assert lane.held_back(1.1)
    assert not lane.held_back(1.25)


def digest_of(*calls: Callable[[Channel], None], link: tuple[str, str] = ("a", "b")) -> str:
    digest = WireDigest()
    channel = digest.channel(*link)
    for call in calls:
        call(channel)
    return digest.hexdigest()


def data(
    now: float, stream: int, octets: bytes, *, fin: bool = False, kind: str = "data", code: int = 0
) -> Callable[[Channel], None]:
    return lambda channel: channel.sent(now, kind, stream, octets, fin, code)


def test_everything_that_a_peer_can_see_is_in_it() -> None:
    runs = [
        digest_of(),
        digest_of(data(1.0, 2, b"x")),
        digest_of(data(1.0, 2, b"x"), link=("b", "a")),
        digest_of(data(1.5, 2, b"x")),
        digest_of(data(1.0, 6, b"x")),
        digest_of(data(1.0, 2, b"y")),
        digest_of(data(1.0, 2, b"x", fin=True)),
        digest_of(data(1.0, 2, b"x", kind="datagram")),
        digest_of(data(1.0, 2, b"", kind="reset", code=1)),
        digest_of(data(1.0, 2, b"", kind="reset", code=2)),
        digest_of(data(1.0, 2, b"", kind="stop", code=1)),
        digest_of(lambda channel: channel.closed(1.0, 3)),
        digest_of(lambda channel: channel.dialled(1.0, "b")),
        digest_of(lambda channel: channel.delivered(1.0, 7, 1, 2, 3)),
    ]
    assert len(set(runs)) == len(runs)


def test_how_bytes_of_a_stream_were_cut_does_not_matter() -> None:
    whole = digest_of(data(1.0, 2, b"abcd", fin=True))
    assert digest_of(data(1.0, 2, b"ab"), data(1.0, 2, b"cd"), data(1.0, 2, b"", fin=True)) == whole
    assert digest_of(data(1.0, 2, b"ab"), data(1.1, 2, b"cd", fin=True)) != whole
    one = digest_of(data(1.0, 0, b"abcd", kind="datagram"))
    assert digest_of(*(data(1.0, 0, each, kind="datagram") for each in (b"ab", b"cd"))) != one


def test_which_link_comes_first_does_not_matter() -> None:
    one, other = WireDigest(), WireDigest()
    for digest, links in ((one, ("b", "c")), (other, ("c", "b"))):
        for receiver in links:
            digest.channel("a", receiver).sent(1.0, "data", 2, receiver.encode(), False, 0)
    assert one.hexdigest() == other.hexdigest()


def test_messages_that_were_handed_over_count_as_their_bytes() -> None:
    shared = SharedMessages()
    message = Drain(1000, "", ())
    frame = shared.encode(message, 100)
    assert shared.expand(frame + frame + b"rest") == 2 * encode(message) + b"rest"
    assert shared.expand(b"no frame") == b"no frame"
    shared.decode(frame, 0, 100)
    assert shared.expand(frame) == frame  # nothing that is under way
