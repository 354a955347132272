from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import BACKGROUND, URGENT, EgressLimits, OutStream
from laps_sdk.quic.egress import ROOM, Egress, EgressStream, SendWindow
from laps_sdk.quic.events import DropReason, Pulled, StreamDropped, StreamsAvailable, Writable
from testkit.scripted_engine import ScriptedEngine

LIMITS = EgressLimits(
    max_bytes=10_000,
    max_control_bytes=5_000,
    high_water=4_000,
    low_water=1_000,
    max_waiting_streams=3,
    max_datagrams=4,
)


class Rig:
    """An egress, its engine, and a clock that stands still."""

    def __init__(self, limits: EgressLimits = LIMITS) -> None:
        self.engine = ScriptedEngine()
        self.now = 100.0
        self.wakes = 0
        self.egress = Egress(self.engine, limits, clock=lambda: self.now, wake=self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def open(
        self,
        priority: int = 10,
        *,
        droppable: bool = True,
        deadline: float | None = None,
        drop_code: int = 0,
    ) -> EgressStream:
        return self.egress.open_unidirectional(
            priority=priority, droppable=droppable, drop_code=drop_code, deadline=deadline
        )

    def turn(self) -> list[tuple[object, ...]]:
        """Pump and flush; what the engine was given."""
        self.egress.pump(self.now)
        self.egress.flushed()
        return self.engine.take()


def written(calls: list[tuple[object, ...]]) -> list[object]:
    return [call[1] for call in calls if call[0] == "write"]


def congested(rig: Rig) -> bool:
    return rig.egress.congested


def test_what_fits_goes_straight_through_and_wakes_once() -> None:
    rig = Rig()
    stream = rig.open()
    stream.write(b"one")
    stream.write(b"two", fin=True)
    assert rig.engine.take() == [("write", 2, b"one", False), ("write", 2, b"two", True)]
    assert stream.closed
    assert stream.queued == rig.egress.queued_bytes == 0
    assert rig.wakes == 1
    assert rig.turn() == []
    assert rig.egress.stream(2) is None


def test_the_engine_is_asked_again_after_each_flush() -> None:
    rig = Rig()
    stream = rig.open()
    rig.engine.window = 10
    stream.write(b"12345")
    stream.write(b"67890")
    assert rig.engine.take() == [("write", 2, b"12345", False)]
    assert stream.queued == 5
    rig.engine.window = 0
    assert rig.turn() == []
    rig.engine.window = 1000
    assert rig.turn() == [("write", 2, b"67890", False)]
    stream.write(b"more")
    assert rig.engine.take() == [("write", 2, b"more", False)]


def test_writes_to_a_closed_stream_do_nothing() -> None:
    rig = Rig()
    stream = rig.open()
    stream.write(b"", fin=True)
    stream.write(b"late")
    stream.reset(1)
    assert rig.engine.take() == [("write", 2, b"", True)]


def test_the_most_urgent_goes_first_and_equals_take_turns() -> None:
    rig = Rig(EgressLimits())
    rig.engine.window = 0
    bulk, first, second, urgent = (rig.open(p) for p in (9, 5, 5, 1))
    bulk.write(b"b" * 100, fin=True)
    first.write(b"f" * 20_000, fin=True)
    second.write(b"s" * 20_000, fin=True)
    urgent.write(b"u", fin=True)
    assert rig.turn() == []
    rig.engine.window = 60_000
    assert written(rig.turn()) == [14, 6, 10, 6, 10, 2]
    assert rig.egress.queued_bytes == 0


def test_small_chunks_are_joined_and_large_ones_sliced() -> None:
    rig = Rig(EgressLimits())
    rig.engine.window = 0
    stream = rig.open()
    for _ in range(5):
        stream.write(b"abc")
    stream.write(b"d" * 20_000)
    rig.engine.window = 18_000
    first = rig.turn()
    assert first[0] == ("write", 2, b"abc" * 5, False)
    assert [len(call[2]) for call in first if isinstance(call[2], bytes)] == [15, 16_384, 1_601]
    rig.engine.window = 100_000
    (rest,) = rig.turn()
    assert rest == ("write", 2, b"d" * 2_015, False)


def test_a_change_of_priority_counts_for_what_is_queued() -> None:
    rig = Rig()
    rig.engine.window = 0
    one, two = rig.open(5), rig.open(6)
    one.write(b"1", fin=True)
    two.write(b"2", fin=True)
    two.set_priority(1)
    one.set_priority(5)
    rig.engine.window = 1000
    assert written(rig.turn()) == [6, 2]
    three = rig.open(7)
    three.set_priority(3)
    assert three.priority == 3


def test_over_its_limit_the_least_urgent_droppable_stream_is_reset() -> None:
    rig = Rig()
    rig.engine.window = 0
    kept = rig.open(BACKGROUND, droppable=False)
    kept.write(b"k" * 100)
    streams = [rig.open(priority, drop_code=7) for priority in (5, 8, 8, 6)]
    for stream in streams[:3]:
        stream.write(b"x" * 3_000)
    streams[3].write(b"x" * 4_000)
    (event,) = [e for e in rig.egress.take_events() if isinstance(e, StreamDropped)]
    assert event == StreamDropped(streams[1], DropReason.OVERFLOW, 3_000)  # the oldest of two
    assert rig.engine.take() == [("reset", 10, 7)]
    assert streams[1].closed
    assert streams[1].queued == 0
    assert not kept.closed
    assert rig.egress.queued_bytes == 10_100
    assert (rig.egress.dropped_streams, rig.egress.dropped_bytes) == (1, 3_000)


def test_a_stream_longer_than_the_queue_drops_itself() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.write(b"x" * 10_001, fin=True)
    assert rig.egress.take_events() == [StreamDropped(stream, DropReason.OVERFLOW, 10_001)]
    assert rig.egress.queued_bytes == 0


def test_too_many_control_bytes_end_the_connection() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.egress.open_bidirectional(priority=URGENT)
    stream.write(b"x" * 5_000)
    assert rig.egress.overrun == ""
    stream.write(b"x")
    assert "hold 5001 bytes" in rig.egress.overrun
    stream.write(b"x")
    assert "hold 5001 bytes" in rig.egress.overrun
    assert not stream.closed


def test_congestion_has_two_marks() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.write(b"x" * 4_000)
    assert congested(rig) is False
    stream.write(b"x")
    assert congested(rig) is True
    rig.engine.window = 2_000
    rig.turn()
    assert congested(rig) is True
    rig.turn()
    assert congested(rig) is False
    assert rig.egress.has_events
    assert rig.egress.take_events() == [Writable()]
    assert rig.egress.take_events() == []


def test_a_queue_that_was_dropped_is_writable_too() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.write(b"x" * 5_000)
    assert congested(rig) is True
    stream.reset(3)
    assert rig.turn() == [("reset", 2, 3)]
    assert congested(rig) is False
    assert rig.egress.take_events() == [Writable()]


def test_a_reset_takes_back_a_fin_that_still_waits() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.write(b"all", fin=True)
    assert stream.closed
    stream.reset(4)
    assert rig.engine.take() == [("reset", 2, 4)]
    rig.engine.window = 1000
    assert rig.turn() == []


# Deadlines


def test_what_has_not_been_sent_by_its_deadline_is_dropped() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open(deadline=101.0, drop_code=9)
    stream.write(b"late", fin=True)
    assert rig.egress.next_timer() == 101.0
    assert rig.turn() == []
    rig.now = 101.0
    assert rig.turn() == [("reset", 2, 9)]
    assert rig.egress.take_events() == [StreamDropped(stream, DropReason.EXPIRED, 4)]
    assert rig.egress.next_timer() is None


def test_a_deadline_that_was_met_is_forgotten() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open(deadline=101.0)
    stream.write(b"x", fin=True)
    rig.engine.window = 1000
    assert written(rig.turn()) == [2]
    assert rig.egress.next_timer() is None
    rig.now = 102.0
    assert rig.turn() == []


def test_in_time_a_stream_with_a_deadline_goes_straight_through() -> None:
    rig = Rig()
    stream = rig.open(deadline=101.0)
    stream.write(b"in time")
    assert rig.engine.take() == [("write", 2, b"in time", False)]
    rig.now = 101.0
    stream.write(b"late", fin=True)
    assert rig.engine.take() == [("reset", 2, 0)]
    assert rig.egress.take_events() == [StreamDropped(stream, DropReason.EXPIRED, 4)]


def test_deadlines_move() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.set_deadline(101.0)
    stream.write(b"x")
    assert rig.egress.next_timer() == 101.0
    stream.set_deadline(103.0)
    stream.set_deadline(103.0)
    assert rig.egress.next_timer() == 103.0
    rig.now = 102.0
    assert rig.turn() == []
    stream.set_deadline(None)
    assert rig.egress.next_timer() is None
    rig.now = 104.0
    assert rig.turn() == []
    assert not stream.closed


def test_a_deadline_that_comes_back_drops_once() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open(deadline=101.0)
    stream.write(b"x")
    stream.set_deadline(105.0)
    stream.set_deadline(101.0)
    rig.now = 102.0
    assert rig.turn() == [("reset", 2, 0)]
    assert rig.egress.dropped_streams == 1


def test_an_old_deadline_in_the_heap_drops_nobody() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open(deadline=101.0)
    stream.write(b"x")
    stream.set_deadline(110.0)
    rig.now = 105.0
    assert rig.turn() == []
    assert not stream.closed


def test_deadlines_of_streams_that_left_do_not_pile_up() -> None:
    rig = Rig()
    for _ in range(500):
        rig.engine.left[True] = 1
        rig.engine.window = 0
        rig.open(deadline=1e9).write(b"x", fin=True)
        rig.engine.window = 1000
        rig.turn()
    assert len(rig.egress._deadlines) < 100


# Streams of the peer's permission


def test_streams_wait_for_permission_in_order_of_urgency() -> None:
    rig = Rig()
    rig.engine.left[True] = 1
    opened, slow, quick = rig.open(5), rig.open(9), rig.open(1)
    assert opened.stream_id == 2
    assert slow.stream_id is None
    slow.write(b"slow", fin=True)
    quick.write(b"quick")
    assert rig.turn() == []
    rig.engine.left[True] = 1
    assert rig.turn() == [("write", 6, b"quick", False)]
    assert (quick.stream_id, slow.stream_id) == (6, None)
    rig.engine.left[True] = 5
    assert rig.turn() == [("write", 10, b"slow", True)]


def test_a_stream_that_waits_can_be_empty_and_reset() -> None:
    rig = Rig()
    rig.engine.left[True] = 0
    empty, gone = rig.open(), rig.open()
    gone.write(b"x")
    gone.reset(5)
    assert gone.closed
    rig.engine.left[True] = 2
    assert rig.turn() == []
    assert empty.stream_id == 2
    empty.write(b"", fin=True)
    assert rig.engine.take() == [("write", 2, b"", True)]


def test_too_many_that_wait_drop_the_least_urgent() -> None:
    rig = Rig()
    rig.engine.left[True] = 0
    streams = [rig.open(priority) for priority in (1, 7, 3)]
    streams[1].write(b"seven")
    late = rig.open(2)
    assert rig.egress.take_events() == [StreamDropped(streams[1], DropReason.BLOCKED, 5)]
    assert rig.engine.take() == []
    assert not late.closed
    assert rig.egress.overrun == ""


def test_too_many_that_wait_and_must_not_be_dropped_end_the_connection() -> None:
    rig = Rig()
    rig.engine.left[True] = 0
    for _ in range(5):
        rig.open(droppable=False)
    assert "4 that must not be dropped wait" in rig.egress.overrun


def test_a_stream_that_waits_has_a_deadline_too() -> None:
    rig = Rig()
    rig.engine.left[True] = 0
    stream = rig.open(deadline=101.0)
    assert rig.egress.next_timer() == 101.0
    rig.now = 101.5
    assert rig.turn() == []
    assert rig.egress.take_events() == [StreamDropped(stream, DropReason.EXPIRED, 0)]


def test_bidirectional_streams_are_refused_and_offered_again() -> None:
    rig = Rig()
    rig.engine.left[False] = 0
    with pytest.raises(StreamLimitError, match="bidirectional"):
        rig.egress.open_bidirectional(priority=0)
    assert rig.turn() == []
    assert rig.egress.take_events() == []
    rig.engine.left[False] = 1
    rig.turn()
    assert rig.egress.take_events() == [StreamsAvailable()]
    assert rig.egress.open_bidirectional(priority=0).stream_id == 0
    rig.turn()
    assert rig.egress.take_events() == []


# The engine's backlog


def test_a_stream_without_credit_stalls_alone() -> None:
    rig = Rig(EgressLimits())
    rig.engine.window = 40_000
    stuck, other = rig.open(1), rig.open(5)
    stuck.write(b"s" * 30_000)
    stuck.write(b"s" * 30_000)
    rig.turn()
    rig.engine.held = {2: 60_000}  # it took all of it and the peer gives no credit
    stuck.write(b"s" * 30_000)
    other.write(b"o" * 1_000)
    assert rig.turn() == []  # it may be pacing; but somebody has to look again
    assert rig.egress.next_timer() == pytest.approx(100.1)
    rig.now = 100.2
    assert written(rig.turn()) == [2, 6]  # what was left of its allowance, and then the other
    assert rig.egress.next_timer() is None
    assert len(rig.egress.stalled) == 1
    other.write(b"o" * 1_000)
    assert written(rig.turn()) == [6]
    rig.engine.held = {2: 1_000}
    assert set(written(rig.turn())) == {2}
    assert not rig.egress.stalled


def test_a_stream_that_the_engine_is_full_of_waits_even_when_nothing_else_does() -> None:
    rig = Rig(EgressLimits())
    stream = rig.open()
    rig.engine.held = {2: 40_000}
    stream.write(b"x" * 33_000)
    assert rig.engine.take() == []
    assert stream.queued == 33_000
    assert stream.unsent == 73_000
    rig.engine.held = {}
    assert stream.unsent == 33_000
    assert written(rig.turn()) == [2, 2, 2]


def test_a_stalled_stream_can_be_dropped_and_reset() -> None:
    rig = Rig(EgressLimits(max_bytes=50_000))
    stuck = rig.open(9)
    rig.engine.held = {2: 40_000}
    stuck.write(b"x" * 40_000)
    rig.turn()
    assert written(rig.turn()) == []
    rig.open(1).write(b"y" * 120_000)
    dropped = [e for e in rig.egress.take_events() if isinstance(e, StreamDropped)]
    assert [(e.stream is stuck, e.lost) for e in dropped] == [(True, 40_000), (False, 120_000)]


# Datagrams


def test_datagrams_go_straight_through_while_there_is_window() -> None:
    rig = Rig()
    assert rig.egress.send_datagram(b"now", None)
    assert rig.engine.take() == [("datagram", b"now")]
    assert not rig.egress.send_datagram(b"x" * 1201, None)
    assert rig.egress.send_datagram(b"late", 99.0)
    assert rig.engine.take() == []
    assert rig.egress.datagrams.dropped == 1


def test_datagrams_wait_oldest_out_first() -> None:
    rig = Rig()
    rig.engine.window = 0
    for number in range(6):
        assert rig.egress.send_datagram(b"%d" % number, 101.0 if number == 3 else None)
    assert rig.egress.datagrams.dropped == 2
    assert rig.egress.queued_bytes == 4
    rig.now = 102.0
    rig.engine.window = 1000
    assert rig.turn() == [("datagram", b"2"), ("datagram", b"4"), ("datagram", b"5")]
    assert rig.egress.datagrams.dropped == 3


def test_datagrams_share_with_streams_but_not_with_control() -> None:
    rig = Rig(EgressLimits())
    rig.engine.window = 0
    rig.open(URGENT, droppable=False).write(b"control")
    rig.open(5).write(b"s" * 2_000)
    for _ in range(4):
        rig.egress.send_datagram(b"d" * 1_000, None)
    rig.engine.window = 100_000
    calls = [(call[0], call[1] if call[0] == "write" else 0) for call in rig.turn()]
    assert calls[0] == ("write", 2)
    assert calls[1] == ("datagram", 0)
    assert ("write", 6) in calls[2:4]
    assert calls.count(("datagram", 0)) == 4


def test_while_streams_wait_datagrams_do_too() -> None:
    rig = Rig()
    rig.engine.window = 0
    rig.open().write(b"waits")
    rig.egress.flushed()
    rig.engine.window = 1000
    assert rig.egress.send_datagram(b"behind", None)
    assert rig.engine.take() == []
    assert {call[0] for call in rig.turn()} == {"write", "datagram"}


# The end


def test_stop_sending_resets_with_the_same_code() -> None:
    rig = Rig()
    rig.engine.window = 0
    stream = rig.open()
    stream.write(b"queued")
    rig.egress.stopped(2, 44)
    assert stream.closed
    assert rig.egress.queued_bytes == 0
    rig.egress.stopped(99, 45)
    assert rig.engine.take() == [("reset", 2, 44), ("reset", 99, 45)]


def test_nothing_is_sent_after_the_end() -> None:
    rig = Rig()
    rig.engine.window = 0
    queued, idle = rig.open(), rig.open()
    queued.write(b"x", fin=True)
    rig.egress.send_datagram(b"x", None)
    rig.engine.left[True] = 0
    waiting = rig.open()
    rig.egress.close()
    rig.engine.take()
    later: list[OutStream] = [rig.open(), rig.egress.open_bidirectional(priority=0)]
    for stream in (queued, idle, waiting, *later):
        assert stream.closed
        stream.write(b"more")
        stream.reset(1)
    assert rig.egress.adopt(4).closed
    assert not rig.egress.send_datagram(b"x", None)
    assert rig.egress.queued_bytes == 0
    assert rig.turn() == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.integers(0, 3), st.booleans()),
            st.tuples(st.just("write"), st.integers(0, 9), st.integers(0, 3_000)),
            st.tuples(st.just("fin"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("reset"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("window"), st.sampled_from([0, 500, 5_000, 50_000]), st.just(0)),
            st.tuples(st.just("credit"), st.integers(0, 4), st.just(0)),
            st.tuples(st.just("turn"), st.just(0), st.just(0)),
        ),
        max_size=60,
    )
)
def test_bytes_arrive_in_order_or_their_stream_is_dropped(
    steps: list[tuple[str, int, int]],
) -> None:
    """Whatever happens: no byte is lost, doubled or moved on a stream that was not given up."""
    rig = Rig(EgressLimits(max_bytes=8_000, max_control_bytes=1 << 30, max_waiting_streams=5))
    rig.engine.left[True] = 3
    streams: list[EgressStream] = []
    sent: list[bytearray] = []
    given_up: set[int] = set()
    counter = 0
    for kind, number, extra in [*steps, ("credit", 100, 0), ("window", 1 << 30, 0)]:
        index = number % len(streams) if streams else -1
        if kind == "open":
            streams.append(rig.open(number, droppable=bool(extra)))
            sent.append(bytearray())
        elif kind == "window":
            rig.engine.window = number
        elif kind == "credit":
            rig.engine.left[True] += number
        elif kind == "turn":
            rig.egress.pump(rig.now)
            rig.egress.flushed()
        elif index < 0 or streams[index].closed:
            continue
        elif kind == "write":
            counter += 1
            data = counter.to_bytes(2, "big") * (extra // 2)
            sent[index] += data
            streams[index].write(data)
        elif kind == "fin":
            streams[index].write(b"", fin=True)
        else:
            given_up.add(index)
            streams[index].reset(0)
        assert rig.egress.queued_bytes == sum(stream.queued for stream in streams)
        assert sum(stream.queued for stream in streams if stream.droppable) <= 8_000
    for _ in range(3):
        rig.egress.pump(rig.now)
        rig.egress.flushed()
    dropped = [e.stream for e in rig.egress.take_events() if isinstance(e, StreamDropped)]
    arrived: dict[int, bytes] = {}
    for call in rig.engine.calls:
        if call[0] == "write":
            stream_id, piece = call[1], call[2]
            assert isinstance(stream_id, int)
            assert isinstance(piece, bytes)
            arrived[stream_id] = arrived.get(stream_id, b"") + piece
    for index, stream in enumerate(streams):
        got = arrived.get(stream.sid, b"")
        if stream in dropped or index in given_up:
            assert sent[index].startswith(got)
        else:
            assert got == sent[index]
            assert stream.queued == 0


# The send window


def test_the_window_less_the_backlog() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window = 1_000
    assert window.measure() == 1_000
    engine.held = {0: 400}
    assert window.measure() == 600
    engine.held = {0: 4_000}
    assert window.measure() == 0
    engine.window = 0
    assert window.measure(1.0) == 0
    assert window.recheck is None


def test_backlog_of_stalled_streams_does_not_count() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 4_000, 4: 100}
    window.stalled = 4_000
    assert window.measure() == 900


def test_backlog_that_stands_still_does_not_count_after_a_while() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 4_000}
    assert window.measure(1.0) == 0
    assert window.recheck == pytest.approx(1.1)
    assert window.measure(1.05) == 0
    engine.held = {0: 3_000}  # it moves: pacing
    assert window.measure(1.2) == 0
    assert window.measure(1.25) == 0
    assert window.measure(1.35) == 1_000
    assert window.recheck is None
    engine.held = {0: 3_000, 4: 300}
    assert window.measure() == 700
    engine.held = {}
    assert window.measure(1.4) == 1_000
    engine.held = {0: 3_000}
    assert window.measure(1.5) == 0


def test_an_engine_is_not_filled_without_end() -> None:
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 1_000_000}
    assert window.measure(1.0) == 0
    assert window.measure(2.0) == 0
    assert window.recheck is not None


def test_what_was_given_last_may_be_stuck_too() -> None:
    """Nothing is in flight then, and no acknowledgement would make anybody look again."""
    engine = ScriptedEngine()
    window = SendWindow(engine)
    engine.window, engine.held = 1_000, {0: 900}
    assert window.measure(1.0) == 100
    assert window.recheck is None
    engine.held = {0: 1_000}
    window.blocked(1.0)
    assert window.recheck == pytest.approx(1.1)
    window.blocked(1.05)
    assert window.recheck == pytest.approx(1.1)
    assert window.measure(1.1) == 1_000


# Bytes that are offered, and pulled later


class Source:
    """Has numbered pieces to write; offers them until one is refused."""

    def __init__(self, stream: EgressStream, count: int, size: int) -> None:
        self.stream = stream
        self.pieces = [bytes([number % 256]) * size for number in range(count)]
        self.calls = 0

    def pull(self, now: float) -> None:
        del now
        self.calls += 1
        while self.pieces:
            if not self.stream.offer(self.pieces[0], len(self.pieces) == 1):
                self.stream.pull_from(self.pull)
                return
            del self.pieces[0]


def test_what_would_only_wait_is_refused() -> None:
    rig = Rig(EgressLimits())
    stream = rig.open()
    assert stream.offer(b"x" * 100)
    rig.turn()
    rig.engine.window = 0
    assert stream.offer(b"x" * ROOM)
    assert not stream.offer(b"y")
    stream.reset(1)
    assert stream.offer(b"y")  # nobody needs it


def test_who_is_refused_is_asked_when_there_is_room() -> None:
    rig = Rig(EgressLimits())
    stream = rig.open()
    rig.engine.window = 0
    source = Source(stream, 40, 10_000)
    source.pull(rig.now)
    assert source.calls == 1
    expected = b"".join(bytes([number]) * 10_000 for number in range(40))
    rig.engine.window = 50_000
    got = b""
    while not stream.closed or stream.queued:
        assert stream.queued < ROOM + 10_000
        got += b"".join(bytes(data) for data in _data(rig.turn()))
    got += b"".join(bytes(data) for data in _data(rig.turn()))
    assert got == expected
    assert source.calls > 3


def _data(calls: list[tuple[object, ...]]) -> list[bytes]:
    return [call[2] for call in calls if call[0] == "write" and isinstance(call[2], bytes)]


def test_the_more_urgent_source_is_asked_first() -> None:
    rig = Rig(EgressLimits())
    rig.engine.window = 0
    later, sooner = rig.open(priority=20), rig.open(priority=10)
    sources = [Source(later, 30, 10_000), Source(sooner, 30, 10_000)]
    for source in sources:
        source.pull(rig.now)
    rig.engine.window = 30_000
    while not sooner.closed:
        rig.turn()
    assert sources[1].pieces == []
    assert len(sources[0].pieces) == 23
    assert not later.closed


def test_the_owner_of_sources_that_were_asked_gets_a_turn() -> None:
    rig = Rig()
    for stream in (rig.open(), rig.open()):
        stream.pull_from(Source(stream, 1, 10).pull)
    assert not rig.egress.has_events
    rig.turn()
    assert list(map(type, rig.egress.take_events())) == [Pulled]
    rig.turn()
    assert not rig.egress.has_events


def test_a_source_without_bytes_leaves_the_line() -> None:
    rig = Rig()
    stream = rig.open()
    called: list[float] = []
    stream.pull_from(called.append)
    assert rig.turn() == []
    assert called == [rig.now]
    assert stream.offer(b"straight")
    assert rig.engine.take() == [("write", 2, b"straight", False)]


def test_a_stream_that_was_reset_is_not_asked() -> None:
    rig = Rig()
    stream = rig.open()
    called: list[float] = []
    stream.pull_from(called.append)
    stream.reset(1)
    rig.turn()
    stream.pull_from(called.append)
    rig.turn()
    assert called == []


def test_a_stream_that_waits_for_permission_is_asked_when_it_has_it() -> None:
    rig = Rig()
    rig.engine.left[True] = 0
    stream = rig.open()
    source = Source(stream, 1, 10)
    stream.pull_from(source.pull)
    rig.turn()
    assert source.calls == 0
    rig.engine.left[True] = 1
    rig.turn()
    assert source.calls == 1
    assert stream.closed
