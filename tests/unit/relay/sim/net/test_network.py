from __future__ import annotations

import gc
import random

import pytest

from laps_relay.sim.net.clock import Clock
from laps_relay.sim.net.network import End, Network
from laps_relay.sim.net.wires import Chunk, SimOutStream, Wire
from laps_sdk.peering.events import Dial
from laps_wire.peering.session import Role


class Somebody:
    """A host that writes down what happens to it."""

    def __init__(self, contact: str) -> None:
        self.contact = contact
        self.spki_hash = bytes(32)
        self.life = 1
        self.running = True
        self.silent = False
        self.ends: list[End] = []
        self.log: list[tuple[str, object]] = []

    def opened(self, end: End, dial: Dial | None) -> None:
        self.ends.append(end)
        self.log.append(("opened", end.role))

    def arrived(self, end: End, chunk: Chunk) -> None:
        self.log.append((chunk.kind, chunk.data or chunk.code))
        if chunk.kind == "stop":
            end.stopped(chunk.stream_id, chunk.code)

    def stream_gone(self, end: End, stream: SimOutStream, lost: int, stopped: bool) -> None:
        self.log.append(("gone", stopped))

    def lost(self, end: End, code: int, reason: str) -> None:
        self.log.append(("lost", code))

    def dial_failed(self, dial: Dial, reason: str) -> None:
        self.log.append(("failed", reason))

    def said(self, kind: str) -> list[object]:
        return [value for what, value in self.log if what == kind]


class Net:
    def __init__(self) -> None:
        self.clock = Clock()
        self.net = Network(self.clock, random.Random(1), idle=1.0, watch=lambda *_: None)
        self.a, self.b = Somebody("a"), Somebody("b")
        self.wire = Wire(("a", "b"), 0.1)
        self.net.add_wire(self.wire)
        for host in (self.a, self.b):
            self.net.add_host(host)

    def connect(self) -> tuple[End, End]:
        self.net.dial(self.a, Dial(1, "b"))
        self.clock.run(self.clock.now + 1.0)
        return self.a.ends[-1], self.b.ends[-1]


@pytest.fixture
def net() -> Net:
    return Net()


def test_a_dialled_connection_opens_on_both_sides_and_carries_everything(net: Net) -> None:
    near, far = net.connect()
    assert net.a.said("opened") == [Role.DIALLER]
    assert net.b.said("opened") == [Role.LISTENER]
    near.open_unidirectional().write(b"there", fin=True)
    far.open_unidirectional().write(b"back")
    assert near.send_datagram(b"quick")
    assert not near.send_datagram(bytes(near.max_datagram_size + 1))
    net.clock.run(5.0)
    assert net.b.log[1:] == [("data", b"there"), ("datagram", b"quick")]
    assert net.a.log[1:] == [("data", b"back")]
    assert net.net.between("a", "b") == [(near, far)]
    assert net.net.of("b") == [far]


def test_nobody_there_is_a_failure(net: Net) -> None:
    net.net.dial(net.a, Dial(1, "nowhere"))
    net.net.dial(net.a, Dial(2, "a"))
    net.b.silent = True
    net.net.dial(net.a, Dial(3, "b"))
    net.clock.run(5.0)
    assert net.a.said("failed") == ["no such relay", "no such relay", "nobody answers"]


def test_a_dial_of_a_former_life_is_forgotten(net: Net) -> None:
    net.net.dial(net.a, Dial(1, "b"))
    net.a.life = 2
    net.clock.run(5.0)
    assert net.a.log == []


def test_who_restarts_before_the_first_byte_arrives_does_not_answer(net: Net) -> None:
    net.net.dial(net.a, Dial(1, "b"))
    net.clock.run(0.25)  # the dialler's side stands, the listener's not yet
    net.b.life = 2
    net.clock.run(5.0)
    assert net.a.said("lost") == [0]
    assert net.b.log == []


def test_a_close_is_heard_one_delay_later(net: Net) -> None:
    near, far = net.connect()
    net.net.close(near, 7, "bye")
    assert net.a.said("lost") == [7]
    assert not near.send_datagram(b"x")
    net.net.close(near, 8, "again")
    net.clock.run(net.clock.now + 0.05)
    assert net.b.said("lost") == []
    net.clock.run(net.clock.now + 1.0)
    assert net.b.said("lost") == [7]
    assert net.net.up == {}
    assert not far.open


def test_a_cut_is_noticed_after_the_idle_time_by_both(net: Net) -> None:
    net.connect()
    start = net.clock.now
    net.net.block("a", "b")
    net.net.block("b", "a")
    net.net.block("b", "a")
    net.clock.run(start + 0.9)
    assert net.a.said("lost") == net.b.said("lost") == []
    net.clock.run(start + 1.1)
    assert net.a.said("lost") == net.b.said("lost") == [0]


def test_a_short_cut_only_delays(net: Net) -> None:
    near, _ = net.connect()
    net.net.block("a", "b")
    near.open_unidirectional().write(b"patience", fin=True)
    net.clock.run(net.clock.now + 0.5)
    assert net.b.said("data") == []
    net.net.unblock("a", "b")
    net.net.unblock("a", "b")
    net.clock.run(net.clock.now + 5.0)
    assert net.b.said("data") == [b"patience"]
    assert net.a.said("lost") == []


def test_half_a_cut_is_noticed_first_by_who_hears_nothing(net: Net) -> None:
    net.connect()
    start = net.clock.now
    net.net.block("a", "b")
    net.clock.run(start + 1.5)
    assert net.b.said("lost") == [0]
    assert net.a.said("lost") == []
    net.clock.run(start + 2.5)
    assert net.a.said("lost") == [0]


def test_a_close_through_a_blocked_wire_is_not_heard(net: Net) -> None:
    near, _ = net.connect()
    start = net.clock.now
    net.net.block("a", "b")
    net.net.close(near, 7, "bye")
    net.clock.run(start + 0.5)
    assert net.b.said("lost") == []
    net.clock.run(start + 1.5)
    assert net.b.said("lost") == [0]


def test_who_is_gone_is_missed_after_the_idle_time(net: Net) -> None:
    near, _ = net.connect()
    net.a.running = False
    net.net.vanish(near)
    net.clock.run(net.clock.now + 2.0)
    assert net.a.said("lost") == []
    assert net.b.said("lost") == [0]


def test_who_stands_still_notices_later(net: Net) -> None:
    near, _ = net.connect()
    net.b.silent = True
    net.net.watch_silence(near)
    net.net.close(near, 5, "bye")
    net.clock.run(net.clock.now + 3.0)
    assert net.b.said("lost") == []
    net.b.silent = False
    net.clock.run(net.clock.now + 3.0)
    assert net.b.said("lost") == [5]


def test_a_stream_can_be_stopped(net: Net) -> None:
    near, far = net.connect()
    stream = near.open_unidirectional()
    stream.write(b"x")
    net.clock.run(net.clock.now + 1.0)
    far.stop_sending(2, 4)
    far.stop_sending(6, 4)
    net.clock.run(net.clock.now + 1.0)
    assert stream.closed
    assert net.a.said("gone") == [True]
    assert net.b.said("reset") == [4]


def test_finished_streams_are_not_kept(net: Net) -> None:
    near, _ = net.connect()
    # Other tests may have left some.
    others = {id(item) for item in gc.get_objects() if isinstance(item, SimOutStream)}
    for _ in range(500):
        near.open_unidirectional().write(b"x", fin=True)
    streams = [item for item in gc.get_objects() if isinstance(item, SimOutStream)]
    kept = [stream for stream in streams if id(stream) not in others]
    assert 0 < len(kept) < 200


def test_relays_without_a_link_may_have_a_way(net: Net) -> None:
    other = Somebody("c")
    net.net.add_host(other)
    assert net.net.wire("a", "c") is None
    net.net.default = lambda one, two: Wire((one, two), 0.2)
    wire = net.net.wire("c", "a")
    assert wire is not None
    assert net.net.wire("a", "c") is wire
    assert net.net.host("c") is other
