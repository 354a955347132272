"""Control streams and the outbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.buffer import Reader
from laps_wire.errors import IncompleteError, MalformedError, ProtocolViolation, StateError
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.session import ConnectionClose, Ending, Role, StreamData, StreamEnd, Transmit
from laps_wire.peering.session.control_streams import (
    MAX_JOINED_BYTES,
    MAX_STALE_STREAMS,
    Assembler,
    ControlStreams,
    LatchItem,
    Lost,
    Moved,
    Outbox,
    Received,
    StreamEnding,
)

# Control streams: latching, moving, what is dropped, and two ends under every order of arrival


# A toy protocol: a length byte, then that many bytes. 0xFF can never begin a message.


def encode(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def decode(data: bytes, pos: int) -> tuple[str, int]:
    size = data[pos]
    if size == 0xFF:
        raise MalformedError("255 begins no message")
    end = pos + 1 + size
    if len(data) < end:
        raise IncompleteError(end - len(data))
    return data[pos + 1 : end].decode(), end


def listener(*, fixed: bool = False) -> ControlStreams[str]:
    return ControlStreams(Role.LISTENER, decode, fixed=fixed)


def dialler(*streams: int, fixed: bool = False) -> ControlStreams[str]:
    control = ControlStreams(Role.DIALLER, decode, fixed=fixed)
    for stream_id in streams:
        control.open(stream_id)
    return control


def run(items: Iterator[LatchItem[str]]) -> list[LatchItem[str]]:
    return list(items)


def texts(items: Iterator[LatchItem[str]]) -> list[str]:
    return [item.message for item in items if isinstance(item, Received)]


A, B, C = (Received(name) for name in "abc")
STOP_0 = StreamEnding(0, Ending.STOP)
RESET_0 = StreamEnding(0, Ending.RESET)
FINISH_0 = StreamEnding(0, Ending.FINISH)


# The listener


def test_listener_latches_on_to_the_first_stream() -> None:
    control = listener()
    assert (control.reading, control.sending) == (None, None)
    assert run(control.receive(0, encode("a"))) == [A]
    assert (control.reading, control.sending) == (0, 0)


def test_listener_does_not_latch_before_a_whole_message() -> None:
    control = listener()
    assert run(control.receive(0, b"\x01")) == []
    assert (control.reading, control.sending, control.buffered) == (None, None, 1)
    assert run(control.receive(0, b"a")) == [A]
    assert control.sending == 0


def test_every_message_of_a_chunk_and_every_chunk_of_a_message() -> None:
    control = listener()
    data = encode("a") + encode("b") + encode("c")
    assert run(control.receive(0, data)) == [A, B, C]
    for byte in data[:-1]:
        texts(control.receive(0, bytes([byte])))
    assert control.buffered == 1
    assert run(control.receive(0, data[-1:])) == [C]
    assert control.buffered == 0


def test_listener_moves_with_the_first_whole_message_and_resets_the_old_stream() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    assert run(control.receive(4, b"\x01")) == []
    assert (control.reading, control.sending) == (0, 0)
    assert run(control.receive(0, encode("b"))) == [B]  # still in use
    assert run(control.receive(4, b"c")) == [RESET_0, STOP_0, Moved(0, 4, False, 0), C]
    assert (control.reading, control.sending, control.stale) == (4, 4, 1)


def test_partial_message_on_the_old_stream_is_discarded() -> None:
    control = listener()
    run(control.receive(0, encode("a") + b"\x05par"))
    items = run(control.receive(4, encode("b")))
    assert Moved(0, 4, clean=False, discarded=4) in items
    assert control.buffered == 0
    assert run(control.receive(0, b"ti")) == []  # the rest of it means nothing any more
    assert run(control.receive(4, encode("c"))) == [C]


def test_old_stream_that_the_peer_finished_is_finished_and_not_reset() -> None:
    control = listener()
    assert run(control.receive(0, encode("a"), fin=True)) == [A, Lost(0)]
    assert control.sending == 0  # our half is still open, and the dialler still reads it
    assert run(control.receive(4, encode("b"))) == [FINISH_0, Moved(0, 4, True, 0), B]
    assert control.stale == 0


def test_finished_inside_a_message_is_not_clean() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    assert run(control.receive(0, b"\x03x", fin=True)) == [Lost(0)]
    assert run(control.receive(4, encode("b"))) == [FINISH_0, Moved(0, 4, False, 2), B]


def test_old_stream_that_the_peer_reset_is_not_stopped_again() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    assert run(control.reset(0)) == [Lost(0)]
    assert run(control.reset(0)) == []
    assert run(control.receive(0, encode("b"))) == []  # nothing follows a reset
    assert run(control.receive(4, encode("b"))) == [FINISH_0, Moved(0, 4, False, 0), B]


def test_finish_while_a_newer_stream_waits_is_no_loss() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    run(control.receive(4, b"\x01"))
    assert run(control.receive(0, b"", fin=True)) == []
    assert run(control.receive(4, b"b")) == [FINISH_0, Moved(0, 4, True, 0), B]


def test_message_and_finish_at_once_on_a_newer_stream() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    items = run(control.receive(4, encode("b") + encode("c"), fin=True))
    assert items == [RESET_0, STOP_0, Moved(0, 4, False, 0), B, C, Lost(4)]


def test_data_on_a_stale_stream_is_ignored_and_ended_only_once() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    run(control.receive(4, encode("b")))
    assert run(control.receive(0, encode("c"))) == []
    assert run(control.receive(0, encode("c"), fin=True)) == []
    assert control.stale == 0


def test_a_stream_that_was_overtaken_by_a_newer_one_is_stale_from_the_start() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    run(control.receive(8, encode("b")))
    assert run(control.receive(4, encode("c"))) == [
        StreamEnding(4, Ending.STOP),
        StreamEnding(4, Ending.RESET),
    ]
    assert run(control.receive(4, encode("c"))) == []
    assert run(control.reset(4)) == []
    assert control.reading == 8


def test_a_stale_stream_that_arrives_whole_only_needs_our_half_ended() -> None:
    control = listener()
    run(control.receive(8, encode("a")))
    assert run(control.receive(4, encode("c"), fin=True)) == [StreamEnding(4, Ending.RESET)]
    assert run(control.reset(0)) == [RESET_0]
    assert control.stale == 0


def test_a_newer_candidate_replaces_an_older_one() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    run(control.receive(4, b"\x01"))
    assert run(control.receive(8, b"\x01")) == [
        StreamEnding(4, Ending.STOP),
        StreamEnding(4, Ending.RESET),
    ]
    assert control.buffered == 1
    assert texts(control.receive(8, b"b")) == ["b"]


@pytest.mark.parametrize("how", ["finish", "reset"])
def test_a_newer_stream_that_ends_before_its_first_message_moves_nothing(how: str) -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    run(control.receive(4, b"\x01"))
    items = control.receive(4, b"", fin=True) if how == "finish" else control.reset(4)
    assert run(items) == [StreamEnding(4, Ending.RESET)]
    assert (control.reading, control.sending, control.buffered) == (0, 0, 0)
    assert run(control.receive(0, b"", fin=True)) == [Lost(0)]
    assert run(control.reset(8)) == [StreamEnding(8, Ending.RESET), Lost(8)]


def test_listener_whose_stream_is_stopped_writes_again_after_the_move() -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    assert run(control.stopped(0)) == [Lost(0)]
    assert run(control.stopped(0)) == []
    assert control.sending is None
    assert run(control.receive(4, encode("b"))) == [STOP_0, Moved(0, 4, False, 0), B]
    assert control.sending == 4


def test_a_first_message_that_may_not_open_a_stream_is_refused() -> None:
    def admit(message: str) -> None:
        if message != "latch":
            raise ProtocolViolation(f"{message} opens no stream")

    control = ControlStreams(Role.LISTENER, decode, admit=admit)
    assert texts(control.receive(0, encode("a"))) == ["a"]  # not asked for the first stream
    with pytest.raises(ProtocolViolation, match="b opens no stream"):
        run(control.receive(4, encode("b")))
    assert control.reading == 0
    assert texts(control.receive(8, encode("latch") + encode("b"))) == ["latch", "b"]


def test_a_move_over_a_skipped_stream_is_not_clean() -> None:
    control = listener()
    run(control.receive(0, encode("a"), fin=True))
    assert Moved(0, 8, clean=False, discarded=0) in run(control.receive(8, encode("b")))


def test_a_stream_that_was_stopped_before_it_was_seen_is_not_reset_again() -> None:
    control = listener()
    run(control.receive(8, encode("a")))
    assert run(control.stopped(4)) == []
    assert run(control.receive(4, b"x")) == [StreamEnding(4, Ending.STOP)]
    assert run(control.stopped(4)) == []  # known as stale by now
    assert run(control.stopped(12)) == []
    items = run(control.receive(12, encode("b")))
    assert items[-1] == B
    assert control.sending is None  # the dialler does not want to hear from us there
    for number in range(2 * MAX_STALE_STREAMS):
        run(control.stopped(100 + 4 * number))
    assert len(control._stopped) == MAX_STALE_STREAMS


# The dialler


def test_dialler_uses_the_stream_it_opened() -> None:
    control = dialler(0)
    assert (control.reading, control.sending) == (0, 0)
    assert run(control.receive(0, encode("a"))) == [A]


def test_dialler_writes_to_the_new_stream_at_once_and_reads_the_old_one_on() -> None:
    control = dialler(0)
    assert control.open(4) == (FINISH_0,)
    assert (control.reading, control.sending) == (0, 4)
    assert run(control.receive(0, encode("a"))) == [A]
    assert run(control.receive(0, b"", fin=True)) == []  # expected: no loss
    assert run(control.receive(4, encode("b"))) == [Moved(0, 4, True, 0), B]
    assert control.reading == 4


def test_dialler_stops_the_old_stream_if_the_listener_has_not_ended_it() -> None:
    control = dialler(0, 4)
    assert run(control.receive(4, encode("b"))) == [STOP_0, Moved(0, 4, False, 0), B]
    assert run(control.receive(0, encode("a"))) == []
    assert run(control.reset(0)) == []
    assert control.stale == 0


def test_dialler_that_opens_two_in_a_row_gives_the_middle_one_up() -> None:
    control = dialler(0, 4)
    run(control.receive(4, b"\x01"))
    assert control.open(8) == (
        StreamEnding(4, Ending.FINISH),
        StreamEnding(4, Ending.STOP),
    )
    assert control.buffered == 0
    assert run(control.receive(4, b"x")) == []
    assert run(control.receive(8, encode("b"))) == [STOP_0, Moved(0, 8, False, 0), B]


def test_dialler_learns_that_its_stream_is_lost() -> None:
    control = dialler(0)
    assert run(control.reset(0)) == [Lost(0)]
    assert control.open(4) == (FINISH_0,)
    assert run(control.stopped(4)) == [Lost(4)]
    assert control.sending is None
    assert control.open(8) == ()
    assert run(control.reset(8)) == [Lost(8)]


def test_stop_of_an_old_stream_is_nothing() -> None:
    control = dialler(0, 4)
    assert run(control.stopped(0)) == []
    assert control.sending == 4


# The peer's and our own faults


@pytest.mark.parametrize("stream_id", [1, 2, 3, 5])
def test_streams_that_the_dialler_did_not_open_are_violations(stream_id: int) -> None:
    for control in (listener(), dialler(0)):
        with pytest.raises(ProtocolViolation, match="no control stream"):
            run(control.receive(stream_id, b""))
        with pytest.raises(ProtocolViolation):
            run(control.reset(stream_id))
        with pytest.raises(ProtocolViolation):
            run(control.stopped(stream_id))


def test_dialler_refuses_streams_that_it_never_opened() -> None:
    with pytest.raises(ProtocolViolation, match="4 was never opened"):
        run(dialler(0).receive(4, encode("a")))


@pytest.mark.parametrize("stream_id", [0, 4])
def test_malformed_bytes_are_raised_after_what_preceded_them(stream_id: int) -> None:
    control = listener()
    run(control.receive(0, encode("a")))
    seen: list[LatchItem[str]] = []
    with pytest.raises(MalformedError):
        seen.extend(control.receive(stream_id, encode("b") + b"\xff"))
    assert seen[-1] == B


def test_too_many_abandoned_streams_end_the_session() -> None:
    control = listener()
    newest = 4 * (MAX_STALE_STREAMS + 2)
    run(control.receive(newest, encode("a")))
    for number in range(MAX_STALE_STREAMS):
        run(control.receive(4 * number, b"x"))
    assert control.stale == MAX_STALE_STREAMS
    with pytest.raises(LimitExceededError, match="abandoned") as caught:
        run(control.receive(4 * MAX_STALE_STREAMS, b"x"))
    assert caught.value.code == 0xB


def test_misuse_is_local() -> None:
    with pytest.raises(StateError, match="only the dialler"):
        listener().open(0)
    control = dialler(4)
    for stream_id in (0, 4, 5):
        with pytest.raises(StateError, match="not a newer"):
            control.open(stream_id)
    assert control.sending == 4


# One stream only: the C++ relay


def test_fixed_listener_knows_stream_zero_only() -> None:
    control = listener(fixed=True)
    assert run(control.receive(4, encode("x"))) == [
        StreamEnding(4, Ending.STOP),
        StreamEnding(4, Ending.RESET),
    ]
    assert run(control.receive(0, encode("a"))) == [A]
    assert run(control.reset(8)) == [StreamEnding(8, Ending.RESET)]
    assert (control.reading, control.sending) == (0, 0)


def test_fixed_dialler_opens_one_stream_only() -> None:
    control = dialler(0, fixed=True)
    with pytest.raises(StateError, match="one control stream"):
        control.open(4)


# Two ends and a network that keeps the order inside a stream, and nothing else


class TwoEnds(RuleBasedStateMachine):
    """Numbered messages both ways while the dialler opens new streams whenever it likes."""

    @initialize()
    def begin(self) -> None:
        self.ends = [ControlStreams(Role.DIALLER, decode), ControlStreams(Role.LISTENER, decode)]
        self.ends[0].open(0)
        self.next_stream = 4
        self.sent: list[list[tuple[int, str]]] = [[], []]  # by the end that sent
        self.got: list[list[str]] = [[], []]  # by the end that received
        self.wires: dict[tuple[int, int], list[tuple[str, bytes]]] = {}  # (to end, stream)
        self.ended: set[tuple[int, int, Ending]] = set()
        self.clean = [True, True]

    def put(self, to: int, stream_id: int, what: str, data: bytes = b"") -> None:
        queue = self.wires.setdefault((to, stream_id), [])
        if what == "reset":
            queue.clear()  # a reset may overtake everything before it
        if what == "stop":
            queue.insert(0, (what, data))  # not part of the stream's order
        else:
            queue.append((what, data))

    def handle(self, end: int, items: Iterator[LatchItem[str]]) -> None:
        for item in items:
            if isinstance(item, Received):
                if not self.got[end] and self.ends[end].reading != 0:
                    self.clean[end] = False  # latched late: earlier streams went by unread
                self.got[end].append(item.message)
            elif isinstance(item, StreamEnding):
                self.end_half(end, item)
            elif isinstance(item, Moved):
                assert item.new > item.old
                if item.clean:
                    old = [text for stream_id, text in self.sent[1 - end] if stream_id == item.old]
                    assert set(old) <= set(self.got[end])
                else:
                    self.clean[end] = False

    def end_half(self, end: int, ending: StreamEnding) -> None:
        key = (end, ending.stream_id, ending.ending)
        halves = (
            {Ending.RESET, Ending.FINISH} if ending.ending is not Ending.STOP else {Ending.STOP}
        )
        assert not any((end, ending.stream_id, half) in self.ended for half in halves), key
        self.ended.add(key)
        self.put(1 - end, ending.stream_id, ending.ending.value)

    def send(self, end: int, text: str, cut: int) -> None:
        stream_id = self.ends[end].sending
        if stream_id is None:
            return
        self.sent[end].append((stream_id, text))
        data = encode(text)
        for part in (data[:cut], data[cut:]):
            self.put(1 - end, stream_id, "data", part)

    @rule(end=st.integers(0, 1), cut=st.integers(0, 4))
    def send_message(self, end: int, cut: int) -> None:
        self.send(end, f"{len(self.sent[end]):03}", cut)

    @rule()
    def open_stream(self) -> None:
        for ending in self.ends[0].open(self.next_stream):
            self.end_half(0, ending)
        self.next_stream += 4

    def deliver_from(self, to: int, stream_id: int) -> None:
        what, data = self.wires[to, stream_id].pop(0)
        control = self.ends[to]
        if what == "reset":
            self.handle(to, control.reset(stream_id))
        elif what == "stop":
            # QUIC answers STOP_SENDING with a reset, if that half is still open.
            self.handle(to, control.stopped(stream_id))
            done = {(to, stream_id, Ending.RESET), (to, stream_id, Ending.FINISH)}
            if not done & self.ended:
                self.end_half(to, StreamEnding(stream_id, Ending.RESET))
        elif to == 0 or stream_id < self.next_stream:
            self.handle(to, control.receive(stream_id, data, fin=what == "finish"))

    @precondition(lambda self: any(self.wires.values()))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        waiting = sorted(key for key, queue in self.wires.items() if queue)
        self.deliver_from(*data.draw(st.sampled_from(waiting)))

    @invariant()
    def order_is_kept_and_nothing_is_doubled(self) -> None:
        if not hasattr(self, "ends"):
            return
        for end in (0, 1):
            assert self.got[end] == sorted(set(self.got[end]))
            assert set(self.got[end]) <= {text for _, text in self.sent[1 - end]}
            assert self.ends[end].buffered <= 2 * 5

    def teardown(self) -> None:
        if not hasattr(self, "ends"):
            return
        for _ in range(3):  # let everything arrive, then talk once more both ways
            for key in sorted(self.wires):
                while self.wires[key]:
                    self.deliver_from(*key)
            for end in (0, 1):
                self.send(end, f"{len(self.sent[end]):03}", 2)
        for key in sorted(self.wires):
            while self.wires[key]:
                self.deliver_from(*key)
        newest = self.next_stream - 4
        for end, control in enumerate(self.ends):
            assert (control.reading, control.sending) == (newest, newest)
            assert control.buffered == 0
            assert control.stale == 0
            if self.clean[end]:
                assert self.got[end] == [text for _, text in self.sent[1 - end]]


TestTwoEnds = TwoEnds.TestCase


# Messages from chunks: any chunking gives the same messages, at a cost that stays linear


def encode_assembly(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


class Decoder:
    """A 16-bit length, then that many bytes; 0xFFFF is malformed. Counts what it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: bytes, pos: int) -> tuple[bytes, int]:
        self.calls += 1
        reader = Reader(data, partial=True, pos=pos)
        size = reader.u16("size")
        if size == 0xFFFF:
            reader.fail("size", "never")
        return reader.take(size, "body"), reader.pos


def drain(assembler: Assembler[bytes]) -> list[bytes]:
    messages = []
    while (message := assembler.next()) is not None:
        messages.append(message)
    return messages


@given(st.lists(st.binary(max_size=20), max_size=8), st.lists(st.integers(1, 9), max_size=60))
def test_any_chunking_gives_the_same_messages(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(encode_assembly(message) for message in messages)
    assembler = Assembler(Decoder())
    got: list[bytes] = []
    for size in [*cuts, len(data)]:
        chunk, data = data[:size], data[size:]
        assembler.feed(chunk)
        got += drain(assembler)
    assembler.feed(data)
    got += drain(assembler)
    assert got == messages
    assert len(assembler) == 0


def test_what_waits_is_counted() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode_assembly(b"abc") + b"\x00\x05xy")
    assert len(assembler) == 9
    assert assembler.next() == b"abc"
    assert len(assembler) == 4
    assert assembler.next() is None
    assembler.feed(b"z")
    assert len(assembler) == 5


def test_a_message_that_comes_byte_by_byte_is_decoded_a_few_times_only() -> None:
    decoder = Decoder()
    assembler = Assembler(decoder)
    data = encode_assembly(bytes(5000))
    got = []
    for index in range(len(data)):
        assembler.feed(data[index : index + 1])
        got += drain(assembler)
    assert got == [bytes(5000)]
    assert decoder.calls <= 4


def test_feeding_before_the_last_message_is_taken() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode_assembly(b"a"))
    assert assembler.next() == b"a"
    assembler.feed(encode_assembly(b"b"))
    assert drain(assembler) == [b"b"]


def test_bytes_that_came_between_two_looks_count() -> None:
    calls: list[int] = []

    def decode(data: bytes, pos: int) -> tuple[bytes, int]:
        calls.append(len(data))
        if len(data) < 4:
            assembler.feed(b"more")  # somebody feeds while we decode
            raise IncompleteError(1)
        return data, len(data)

    assembler = Assembler(decode)
    assembler.feed(b"x")
    assert assembler.next() == b"xmore"
    assert calls == [1, 5]


def test_faults_are_raised_and_views_may_be_kept() -> None:
    kept: list[memoryview] = []

    def decode(data: bytes, pos: int) -> tuple[bytes, int]:
        kept.append(memoryview(data))
        return Decoder()(data, pos)

    assembler = Assembler(decode)
    assembler.feed(b"\x00")
    assert assembler.next() is None
    assembler.feed(b"\x01a\xff\xff")
    assert assembler.next() == b"a"
    with pytest.raises(MalformedError):
        assembler.next()
    assert len(kept) == 3


def test_clear() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode_assembly(b"abc") + b"\x00\x09xyz")
    assert assembler.next() == b"abc"
    assert assembler.next() is None
    assembler.feed(b"!")
    assembler.clear()
    assert len(assembler) == 0
    assert assembler.next() is None
    assembler.feed(encode_assembly(b"new"))
    assert assembler.next() == b"new"


def test_messages_of_one_byte() -> None:
    assembler: Assembler[int] = Assembler(lambda data, pos: (data[pos], pos + 1))
    for number in (1, 2):
        assembler.feed(bytes([number]))
        assert assembler.next() == number
        assert assembler.next() is None
    assembler.clear()
    assembler.feed(b"\x03")
    assert assembler.next() == 3


# The outbox: order, joining, waiting for a stream, and what a reset takes back


def outbox_drain(outbox: Outbox) -> list[Transmit]:
    items = []
    while (item := outbox.poll()) is not None:
        items.append(item)
    return items


def test_messages_for_one_stream_are_joined() -> None:
    outbox = Outbox()
    for data in (b"ab", b"c", b"def"):
        outbox.put(0, data)
    assert outbox.is_filled
    assert outbox_drain(outbox) == [StreamData(0, b"abcdef")]
    assert outbox.poll() is None
    assert not outbox.is_filled


def test_messages_stay_single_for_a_peer_that_takes_one_at_a_time() -> None:
    outbox = Outbox(single=True)
    outbox.put(0, b"ab")
    outbox.put(0, b"c")
    assert outbox_drain(outbox) == [
        StreamData(0, b"ab", alone=True),
        StreamData(0, b"c", alone=True),
    ]


def test_joining_stops_at_another_stream_and_at_an_end() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(4, b"b")
    outbox.put(4, b"c")
    outbox.end(4, Ending.FINISH)
    outbox.put(8, b"d")
    assert outbox_drain(outbox) == [
        StreamData(0, b"a"),
        StreamData(4, b"bc"),
        StreamEnd(4, Ending.FINISH),
        StreamData(8, b"d"),
    ]


def test_joining_is_bounded() -> None:
    outbox = Outbox()
    half = bytes(MAX_JOINED_BYTES // 2)
    for data in (half, half, b"x", bytes(MAX_JOINED_BYTES + 1), b"y"):
        outbox.put(0, data)
    sizes = [len(item.data) for item in outbox_drain(outbox) if isinstance(item, StreamData)]
    assert sizes == [MAX_JOINED_BYTES, 1, MAX_JOINED_BYTES + 1, 1]


def test_without_a_stream_messages_wait() -> None:
    outbox = Outbox()
    outbox.put(None, b"ab")
    outbox.put(None, b"c")
    assert outbox.waiting_bytes == 3
    assert outbox.poll() is None
    outbox.put(4, b"first")
    outbox.adopt(4)
    assert outbox.waiting_bytes == 0
    assert outbox_drain(outbox) == [StreamData(4, b"firstabc")]
    outbox.adopt(8)
    assert outbox.poll() is None  # it left once


def test_a_reset_takes_back_what_would_be_lost() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(4, b"other")
    outbox.put(0, b"b")
    outbox.end(0, Ending.RESET, 0x4C00)
    assert outbox.waiting_bytes == 2
    outbox.adopt(8)
    assert outbox_drain(outbox) == [
        StreamData(4, b"other"),
        StreamEnd(0, Ending.RESET, 0x4C00),
        StreamData(8, b"ab"),
    ]


def test_what_a_synchronisation_repeats_does_not_wait() -> None:
    outbox = Outbox()
    outbox.put(None, b"a", repeated=True)
    outbox.put(None, b"b")
    outbox.put(0, b"c", repeated=True)
    outbox.put(0, b"d")
    outbox.end(0, Ending.RESET)
    assert outbox.waiting_bytes == 2
    outbox.adopt(4)
    assert outbox_drain(outbox) == [StreamEnd(0, Ending.RESET), StreamData(4, b"bd")]
    outbox.put(4, b"e", repeated=True)
    outbox.put(4, b"f")
    assert outbox_drain(outbox) == [StreamData(4, b"ef")]


def test_a_finish_and_a_stop_leave_what_was_queued() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.end(0, Ending.STOP, 7)
    outbox.end(0, Ending.FINISH)
    assert outbox_drain(outbox) == [
        StreamData(0, b"a"),
        StreamEnd(0, Ending.STOP, 7),
        StreamEnd(0, Ending.FINISH),
    ]


def test_close_comes_last_and_what_waits_never_leaves() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(None, b"b")
    outbox.close(3, "why")
    assert outbox.waiting_bytes == 0
    outbox.adopt(4)
    assert outbox_drain(outbox) == [StreamData(0, b"a"), ConnectionClose(3, "why")]


def test_outbox_clear() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(None, b"b")
    outbox.clear()
    assert outbox.waiting_bytes == 0
    outbox.adopt(4)
    assert outbox.poll() is None


@given(st.lists(st.tuples(st.sampled_from([0, 4]), st.binary(min_size=1, max_size=5))))
def test_no_byte_is_lost_or_moved(messages: list[tuple[int, bytes]]) -> None:
    outbox = Outbox()
    for stream_id, data in messages:
        outbox.put(stream_id, data)
    out: dict[int, bytes] = {0: b"", 4: b""}
    for item in outbox_drain(outbox):
        assert isinstance(item, StreamData)
        out[item.stream_id] += item.data
    for stream_id in (0, 4):
        assert out[stream_id] == b"".join(data for to, data in messages if to == stream_id)
