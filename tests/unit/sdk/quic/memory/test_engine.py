"""The in-memory backend by itself: its streams and credit, and connections on virtual time.

Packets are carried by hand.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.base import ConnectionLimits
from laps_sdk.quic.engine import EngineConnection, EngineOptions
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)
from laps_sdk.quic.memory.engine import (
    Frame,
    MaxData,
    MaxStreams,
    MemoryEngine,
    Stream,
    StreamTable,
)

LIMITS = ConnectionLimits(max_streams_bidi=2, max_streams_uni=3, max_data=1000, max_stream_data=400)
UNI, BIDI = True, False


class Case:
    def __init__(self, *, is_client: bool = True) -> None:
        self.sent: list[Frame] = []
        self.table = StreamTable(LIMITS, is_client=is_client, send=self.sent.append)

    def write(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        half = self.table.sending(stream_id)
        assert half is not None
        half.write(data, fin)

    def receive(self, stream_id: int, offset: int, data: bytes, fin: bool = False) -> None:
        half = self.table.receiving(stream_id)
        assert half is not None
        got = half.receive(offset, data, fin)
        assert got is not None
        self.table.delivered(stream_id, half, len(got[0]), got[1])


def test_no_stream_before_the_peer_has_sent_its_limits() -> None:
    table = Case().table
    assert (table.left(UNI), table.left(BIDI), table.room) == (0, 0, 0)
    table.set_peer_limits(LIMITS)
    assert (table.left(UNI), table.left(BIDI), table.room) == (3, 2, 1000)
    assert table.allow(UNI, 4)
    assert not table.allow(UNI, 4)
    assert table.left(UNI) == 4


def test_ids_are_those_of_quic() -> None:
    client, server = Case().table, Case(is_client=False).table
    for table in (client, server):
        table.set_peer_limits(LIMITS)
    assert [client.open(BIDI), client.open(BIDI), client.open(UNI)] == [0, 4, 2]
    assert [server.open(BIDI), server.open(UNI), server.open(UNI)] == [1, 3, 7]
    assert sorted(client.outgoing) == [0, 2, 4]
    assert sorted(client.incoming) == [0, 4]
    assert client.left(BIDI) == 0


def test_what_goes_fits_the_packet_and_the_credit_of_stream_and_connection() -> None:
    case = Case()
    case.table.set_peer_limits(LIMITS)
    streams = [case.table.open(UNI) for _ in range(3)]
    for stream_id in streams:
        case.write(stream_id, bytes(500))
    assert list(case.table.frames(108)) == [Stream(2, 0, bytes(100), False)]
    assert list(case.table.frames(10)) == []
    sizes = [(frame.stream_id, len(frame.data)) for frame in case.table.frames(5000)]
    # The first two have used up their own credit, and then that of the connection is at its end.
    assert sizes == [(2, 300), (6, 400), (10, 200)]
    assert case.table.room == 0
    assert list(case.table.frames(5000)) == []
    case.table.credit = 1100
    assert [len(frame.data) for frame in case.table.frames(5000)] == [100]


def test_a_stream_is_forgotten_when_both_halves_are_over() -> None:
    case = Case()
    case.table.set_peer_limits(LIMITS)
    stream_id = case.table.open(BIDI)
    case.write(stream_id, b"question", fin=True)
    assert [frame.fin for frame in case.table.frames(100)] == [True]
    assert stream_id in case.table.outgoing
    case.receive(stream_id, 0, b"answer", fin=True)
    assert (case.table.outgoing, case.table.incoming) == ({}, {})
    assert case.table.sending(stream_id) is None
    assert case.table.receiving(stream_id) is None
    assert case.sent == []  # it was one of ours: the peer may not open more for it
    case.table.half_over(stream_id)
    assert case.sent == []


def test_the_peer_may_open_another_stream_for_each_that_is_over() -> None:
    case = Case()
    case.receive(3, 0, b"all", fin=True)
    case.receive(1, 0, b"question", fin=True)
    assert case.sent == [MaxStreams(UNI, 4)]
    half = case.table.outgoing[1]
    half.abandon()
    case.table.half_over(1)
    assert case.sent == [MaxStreams(UNI, 4), MaxStreams(BIDI, 3)]


def test_credit_is_given_again_when_half_of_it_is_used_up() -> None:
    case = Case()
    case.receive(3, 0, bytes(199))
    assert case.sent == []
    case.receive(3, 199, bytes(1))
    assert case.sent == [MaxData(3, 600)]
    case.receive(7, 0, bytes(300))
    assert case.sent[1:] == [MaxData(None, 1500), MaxData(7, 700)]
    half = case.table.incoming[7]
    half.reading = False
    case.receive(7, 300, bytes(300))
    assert len(case.sent) == 3  # who does not read gives nothing
    half.reading = True
    case.table.grant(7, half)
    assert case.sent[3:] == [MaxData(7, 1000)]


CLIENT, SERVER = ("10.0.0.1", 1), ("10.0.0.2", 2)
TINY = ConnectionLimits(
    max_streams_bidi=2, max_streams_uni=2, max_data=4_000, max_stream_data=2_000, idle_timeout=30
)


class Wire:
    """Two connections and the packets between them."""

    def __init__(
        self, *, limits: ConnectionLimits | None = None, alpn: tuple[str, ...] = ("one", "two")
    ) -> None:
        options = EngineOptions(alpn=("two", "three"), limits=limits or ConnectionLimits())
        self.now = 10.0
        self.keep: Callable[[bytes], bool] = lambda _: True
        self.shuffle: random.Random | None = None
        self.client: EngineConnection = MemoryEngine(EngineOptions(), number=1).dial(
            SERVER, alpn=alpn, server_name="name", now=self.now
        )
        self.server_engine = MemoryEngine(options, number=2)
        self.server: EngineConnection | None = None
        self.heard: dict[str, list[Event]] = {"client": [], "server": []}

    @property
    def served(self) -> EngineConnection:
        assert self.server is not None
        return self.server

    def _carry(self, source: EngineConnection) -> bool:
        packets = [d for burst in source.flush(self.now) for d in burst.datagrams if self.keep(d)]
        if self.shuffle is not None:
            self.shuffle.shuffle(packets)
        for packet in packets:
            if source is not self.client:
                self.client.feed([packet], SERVER, self.now)
                continue
            if self.server is None:
                self.server = self.server_engine.accept(
                    packet, CLIENT, original_destination=None, retry_source=None, now=self.now
                )
            self.server.feed([packet], CLIENT, self.now)
        return bool(packets)

    def run(self) -> Wire:
        """Carry packets until there are none; then nobody waits for anything but time."""
        for _ in range(5_000):
            moved = self._carry(self.client)
            if self.server is not None:
                moved = self._carry(self.server) or moved
                self.heard["server"] += self.server.events()
            self.heard["client"] += self.client.events()
            if not moved:
                return self
        raise AssertionError("they never stop talking")

    def pass_time(self, seconds: float) -> Wire:
        self.now += seconds
        for side in (self.client, self.server):
            timer = None if side is None else side.next_timer()
            if side is not None and timer is not None and timer <= self.now:
                side.on_timer(self.now)
        return self.run()

    def stream(self, side: str, stream_id: int) -> tuple[bytes, bool]:
        found = [e for e in self.heard[side] if isinstance(e, StreamData)]
        found = [e for e in found if e.stream_id == stream_id]
        return b"".join(e.data for e in found), any(e.fin for e in found)


def test_the_handshake_chooses_what_the_server_prefers() -> None:
    wire = Wire().run()
    assert wire.heard == {"client": [Connected("two")], "server": [Connected("two")]}
    assert wire.client.handshake_complete
    assert wire.served.alpn == "two"
    assert wire.served.server_name == "name"
    assert wire.served.peer_address == CLIENT
    assert wire.client.stats().rtt == 0
    assert wire.client.stats().bytes_in_flight == 0
    assert wire.client.connection_ids != wire.served.connection_ids


def test_no_common_protocol_closes() -> None:
    wire = Wire(alpn=("odd",)).run()
    (event,) = wire.heard["client"]
    assert isinstance(event, Closed)
    assert (event.code, event.by_peer, event.application) == (0x178, True, False)


def test_streams_of_both_kinds_and_sides() -> None:
    wire = Wire().run()
    assert wire.client.open_stream(False) == 0
    assert wire.client.open_stream(True) == 2
    assert wire.served.open_stream(True) == 3
    wire.client.write(0, b"ask", True)
    wire.client.write(2, b"", True)
    wire.served.write(3, b"x" * 5_000, False)
    wire.run()
    wire.served.write(0, b"answer", True)
    wire.client.write(0, b"closed already", False)
    wire.run()
    assert wire.stream("server", 0) == (b"ask", True)
    assert wire.stream("server", 2) == (b"", True)
    assert wire.stream("client", 0) == (b"answer", True)
    assert wire.stream("client", 3) == (b"x" * 5_000, False)


def test_what_is_lost_is_sent_again_after_a_while() -> None:
    wire = Wire().run()
    stream_id = wire.client.open_stream(True)
    wire.keep = lambda _: False
    wire.client.write(stream_id, b"lost", True)
    wire.client.datagram(b"lost for good")
    wire.run()
    wire.keep = lambda _: True
    wire.pass_time(0.1)
    assert wire.stream("server", 2) == (b"", False)
    wire.pass_time(0.2)
    assert wire.stream("server", 2) == (b"lost", True)
    assert wire.client.stats().packets_lost == 1
    assert not [e for e in wire.heard["server"] if isinstance(e, DatagramReceived)]


def test_what_later_packets_overtook_is_sent_again_at_once() -> None:
    wire = Wire().run()
    stream_id = wire.client.open_stream(True)
    wire.keep = lambda _: False
    wire.client.write(stream_id, b"first", False)
    wire.run()
    wire.keep = lambda _: True
    for number in range(4):
        wire.client.write(stream_id, b"%d" % number, False)
        wire.run()
    assert wire.stream("server", 2) == (b"first0123", False)


def test_credit_holds_a_sender_and_comes_back() -> None:
    wire = Wire(limits=TINY).run()
    one = wire.client.open_stream(True)
    wire.served.set_reading(one, False)
    wire.client.write(one, b"a" * 5_000, True)
    wire.run()
    assert wire.served.set_reading(one, False)
    wire.run()
    wire.served.set_reading(one, True)
    wire.run()
    assert wire.stream("server", one) == (b"a" * 5_000, True)
    assert wire.client.backlog(one) == 0


def test_what_is_withheld_gives_no_credit() -> None:
    wire = Wire(limits=TINY).run()
    assert wire.served.withhold(TINY.max_data)
    for _ in range(10):
        wire.client.write(wire.client.open_stream(True), b"a" * 1_000, True)
    wire.run()
    assert wire.client.total_backlog() == 10_000 - TINY.max_data
    # Too little to be worth a frame, then the half of the window.
    wire.served.withhold(TINY.max_data * 9 // 10)
    wire.run()
    assert wire.client.total_backlog() == 10_000 - TINY.max_data
    wire.served.withhold(TINY.max_data // 2)
    wire.run()
    assert wire.client.total_backlog() == 0


def test_a_paused_stream_gets_no_more_than_it_was_given() -> None:
    wire = Wire(limits=TINY).run()
    one = wire.client.open_stream(True)
    wire.client.write(one, b"a", False)
    wire.run()
    wire.served.set_reading(one, False)
    wire.client.write(one, b"a" * 5_000, True)
    wire.run()
    assert len(wire.stream("server", one)[0]) == 2_000
    assert wire.client.backlog(one) == wire.client.total_backlog() == 3_001
    wire.served.set_reading(one, True)
    wire.run()
    assert wire.stream("server", one) == (b"a" * 5_001, True)


def test_streams_are_limited_and_allowed_again() -> None:
    wire = Wire(limits=TINY).run()
    streams = [wire.client.open_stream(True) for _ in range(2)]
    assert wire.client.streams_left(True) == 0
    assert wire.client.streams_left(False) == 2
    for stream_id in streams:
        wire.client.write(stream_id, b"x", True)
    wire.run()
    assert wire.client.streams_left(True) == 2
    assert StreamsAvailable() in wire.heard["client"]


def test_resets_and_stops() -> None:
    wire = Wire().run()
    one, two = wire.client.open_stream(True), wire.client.open_stream(True)
    for stream_id in (one, two):
        wire.client.write(stream_id, b"begun", False)
    wire.run()
    wire.client.reset(one, 7)
    wire.client.reset(one, 8)
    wire.served.stop(two, 9)
    wire.run()
    assert StreamReset(one, 7) in wire.heard["server"]
    assert StopSending(two, 9) in wire.heard["client"]
    wire.client.reset(two, 9)
    wire.run()
    assert StreamReset(two, 9) in wire.heard["server"]
    wire.served.stop(two, 1)
    wire.served.stop(99, 1)
    wire.client.write(one, b"nothing", True)
    assert wire.client.backlog(one) == 0
    assert wire.client.flush(wire.now) == []


def test_a_lost_reset_is_repeated_and_its_bytes_are_not() -> None:
    wire = Wire().run()
    one = wire.client.open_stream(False)
    wire.keep = lambda _: False
    wire.client.write(one, b"never", False)
    wire.run()
    wire.client.reset(one, 5)
    wire.run()
    wire.keep = lambda _: True
    wire.pass_time(0.5)
    assert StreamReset(one, 5) in wire.heard["server"]
    assert wire.stream("server", one) == (b"", False)


def test_datagrams() -> None:
    wire = Wire().run()
    size = wire.client.max_datagram_size
    assert size > 1_000
    wire.client.datagram(b"small")
    wire.client.datagram(b"x" * size)
    assert wire.client.total_backlog() == 5 + size
    wire.run()
    found = [e.data for e in wire.heard["server"] if isinstance(e, DatagramReceived)]
    assert found == [b"small", b"x" * size]


def test_the_window_bounds_what_is_in_flight() -> None:
    wire = Wire().run()
    wire.keep = lambda _: False
    stream_id = wire.client.open_stream(True)
    wire.client.write(stream_id, b"x" * 500_000, True)
    wire.run()
    assert wire.client.send_window() < 1_200
    in_flight = wire.client.stats().bytes_in_flight
    assert in_flight is not None
    assert 70_000 < in_flight <= 76_800


def test_closing_tells_both_and_ends() -> None:
    wire = Wire().run()
    wire.client.close(5, "enough")
    wire.client.close(6, "again")
    wire.run()
    assert wire.heard["client"][-1] == Closed(5, "enough", False, True)
    assert wire.heard["server"][-1] == Closed(5, "enough", True, True)
    assert wire.client.terminated
    assert wire.served.terminated
    assert wire.client.next_timer() is None
    wire.client.on_timer(wire.now)
    wire.client.feed([b"late"], SERVER, wire.now)
    assert wire.client.flush(wire.now) == []


def test_silence_ends_it() -> None:
    wire = Wire(limits=TINY).run()
    wire.keep = lambda _: False
    wire.pass_time(31)
    last = wire.heard["server"][-1]
    assert isinstance(last, Closed)
    assert (last.code, last.reason, last.application) == (0, "idle timeout", False)


def test_packets_of_others_are_ignored() -> None:
    wire = Wire().run()
    wire.client.feed([b"noise", b"\xf0 a late retry"], SERVER, wire.now)
    wire.run()
    assert wire.heard["client"] == [Connected("two")]


def test_a_retry_is_followed_once() -> None:
    wire = Wire()
    wire.client.flush(wire.now)
    retry = b"\xf0\0\0\0\1\x00\x08retry-id" + b"token" + bytes(16)
    wire.client.feed([retry], SERVER, wire.now)
    wire.client.feed([retry.replace(b"token", b"other")], SERVER, wire.now)
    (burst,) = wire.client.flush(wire.now)
    assert burst.datagrams[0][6:14] == b"retry-id"
    assert b"token" in burst.datagrams[0]


def test_engine_settings() -> None:
    engine = MemoryEngine(EngineOptions(), needs_retry=True)
    engine.reload_certificate()
    assert (engine.name, engine.needs_retry, engine.reloads) == ("memory", True, 1)


@given(st.integers(0, 1_000), st.integers(0, 40), st.booleans())
def test_all_arrives_whatever_is_lost_or_reordered(seed: int, loss: int, shuffle: bool) -> None:
    generator = random.Random(seed)
    wire = Wire(limits=TINY).run()
    wire.keep = lambda _: generator.randrange(100) >= loss
    wire.shuffle = generator if shuffle else None
    sent = {}
    for _ in range(2):
        stream_id = wire.client.open_stream(False)
        sent[stream_id] = generator.randbytes(3_000)
        wire.client.write(stream_id, sent[stream_id], True)
    for _ in range(200):
        wire.pass_time(0.25)
        wire.client.feed([], SERVER, wire.now)
        if all(wire.stream("server", i) == (data, True) for i, data in sent.items()):
            return
    raise AssertionError({i: len(wire.stream("server", i)[0]) for i in sent})
