from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from laps_sdk.quic.admission import Admission, AdmissionLimits
from laps_sdk.quic.base import Address, Connection, ConnectionLimits, EgressLimits, Handler
from laps_sdk.quic.dispatch import Dispatcher, Inboxes
from laps_sdk.quic.engine import Burst, Engine, EngineConnection
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StreamDropped,
    StreamsAvailable,
)
from laps_sdk.quic.resets import StatelessResets
from laps_sdk.quic.udp import Unreachable
from testkit.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.anyio

CLIENT = ("192.0.2.1", 4433)


def initial(destination: bytes) -> bytes:
    header = b"\xc0\0\0\0\1" + bytes([len(destination)]) + destination + b"\x04from\x00"
    return header.ljust(1200, b"\0")


class StillPort:
    """A port whose packets the test puts in and takes out."""

    address = ("192.0.2.9", 1)

    def __init__(self) -> None:
        self.inbox: list[tuple[list[bytes], Address]] = []
        self.gone: list[Unreachable] = []
        self.sent: list[Burst] = []
        self.readable: Callable[[], None] = lambda: None

    def start(self, callback: Callable[[], None]) -> None:
        self.readable = callback

    def receive(self) -> list[tuple[list[bytes], Address]]:
        inbox, self.inbox = self.inbox, []
        return inbox

    def unreachable(self) -> list[Unreachable]:
        gone, self.gone = self.gone, []
        return gone

    def send(self, burst: Burst) -> None:
        self.sent.append(burst)

    def local(self, address: Address) -> Address | None:
        return address

    def close(self) -> None:
        pass


class ScriptedMaker(Engine):
    name = "scripted"
    needs_retry = False

    def __init__(self) -> None:
        self.made: list[ScriptedEngine] = []
        self.fault = False

    def dial(self, *_: Any, **__: Any) -> EngineConnection:
        raise AssertionError

    def accept(self, *_: Any, **__: Any) -> EngineConnection:
        if self.fault:
            raise ZeroDivisionError
        made = ScriptedEngine()
        made.complete = False
        made.ids = (b"engine-%d" % len(self.made),)
        self.made.append(made)
        return made

    def reload_certificate(self) -> None:
        raise AssertionError


class Keeper:
    """A handler that keeps what it gets and does what it is told with it."""

    def __init__(self, act: Callable[[Connection, Event], None] | None = None) -> None:
        self.batches: list[list[Event]] = []
        self.connection: Connection | None = None
        self.act = act

    def __call__(self, connection: Connection) -> Handler:
        self.connection = connection
        return self

    def handle_events(self, events: Sequence[Event]) -> None:
        self.batches.append(list(events))
        if self.act is not None and self.connection is not None:
            for event in events:
                self.act(self.connection, event)


class Rig:
    def __init__(self, keeper: Any = None, **limits: float) -> None:
        self.keeper = keeper if keeper is not None else Keeper()
        self.port = StillPort()
        self.maker = ScriptedMaker()
        made = AdmissionLimits(**limits)  # type: ignore[arg-type]  # numbers of both kinds
        self.dispatcher = Dispatcher(
            asyncio.get_running_loop(),
            self.port,
            self.maker,
            limits=ConnectionLimits(keepalive=0.0),
            egress=EgressLimits(max_bytes=1_000),
            admission=Admission(made, key=b"key"),
            resets=StatelessResets(b"key"),
            handshake_timeout=made.handshake_timeout,
            listener=self.keeper,
        )

    @property
    def connection(self) -> Connection:
        assert isinstance(self.keeper, Keeper)
        assert self.keeper.connection is not None
        return self.keeper.connection

    async def receive(self, *datagrams: bytes) -> None:
        self.port.inbox.append((list(datagrams), CLIENT))
        self.port.readable()
        await self.settle()

    async def settle(self) -> None:
        """Let turns that were asked for run."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def accepted(self) -> ScriptedEngine:
        """A connection whose handshake is complete."""
        await self.receive(initial(b"client-%d" % len(self.maker.made)))
        engine = self.maker.made[-1]
        engine.complete = True
        engine.pending = [Connected("scripted")]
        await self.receive(b"\x40" + engine.ids[0] + b"more")
        return engine

    def stop(self) -> None:
        self.dispatcher.stop(0, "")


async def test_a_handshake_makes_a_handler() -> None:
    rig = Rig()
    await rig.receive(initial(b"client-0"))
    (engine,) = rig.maker.made
    assert rig.dispatcher.half_open == 1
    assert rig.keeper.connection is None
    engine.complete = True
    engine.pending = [Connected("scripted"), DatagramReceived(b"x")]
    await rig.receive(b"\x40engine-0more")
    assert rig.keeper.batches == [[Connected("scripted"), DatagramReceived(b"x")]]
    assert rig.dispatcher.half_open == 0
    assert len(rig.dispatcher.connections) == 1
    assert engine.calls.count(("flush",)) == 2
    rig.stop()
    assert rig.keeper.batches[-1] == [Closed(0, "", False, True)]
    assert not rig.dispatcher.connections


async def test_packets_are_routed_by_id_in_runs() -> None:
    rig = Rig()
    one, two = await rig.accepted(), await rig.accepted()
    for engine in (one, two):
        engine.take()
    a, b = b"\x40engine-0a", b"\x40engine-1b"
    await rig.receive(a, a, b, a, b"", b"\x80", b"\x40 nobody's", initial(b"client-0"))
    assert one.take("feed") == [
        ("feed", [a, a], CLIENT),
        ("feed", [a, initial(b"client-0")], CLIENT),
    ]
    assert two.take("feed") == [("feed", [b], CLIENT)]
    assert rig.dispatcher.refused == {"short": 1, "unknown": 1}
    rig.stop()


async def test_ids_that_change_are_followed() -> None:
    rig = Rig()
    engine = await rig.accepted()
    engine.ids = (b"engine-0", b"engine-x")
    await rig.receive(b"\x40engine-0")
    engine.ids = (b"engine-x",)
    await rig.receive(b"\x40engine-x")
    engine.take()
    await rig.receive(b"\x40engine-0", b"\x40engine-x")
    assert engine.take("feed") == [("feed", [b"\x40engine-x"], CLIENT)]
    rig.stop()


async def test_a_late_copy_of_the_first_packet_begins_nothing() -> None:
    rig = Rig()
    await rig.receive(initial(b"client-0"))
    (engine,) = rig.maker.made
    engine.ids = (b"engine-0", b"client-0")
    await rig.receive(initial(b"client-0"))
    engine.ids = (b"engine-0",)
    await rig.receive(initial(b"client-0"))
    await rig.receive(initial(b"client-0"))
    assert len(rig.maker.made) == 1
    rig.stop()


async def test_a_fault_of_an_engine_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keepers: list[Keeper] = []

    def listen(connection: Connection) -> Handler:
        keepers.append(Keeper())
        return keepers[-1](connection)

    rig = Rig(listen)
    for fault in ("feed", "flush"):
        engine = await rig.accepted()
        engine.fault = fault
        await rig.receive(b"\x40" + engine.ids[0])
    timed = await rig.accepted()
    timed.fault, timed.timer = "on_timer", 0.0
    await rig.receive(b"\x40" + timed.ids[0])
    await rig.receive()
    whole = await rig.accepted()
    assert [[type(e) for e in k.batches[-1]] for k in keepers] == [[Closed]] * 3 + [[Connected]]
    assert list(rig.dispatcher.connections) == [keepers[3].connection]
    assert whole.take("flush")
    assert caplog.text.count("the scripted engine failed in") == 3
    rig.maker.fault = True
    await rig.receive(initial(b"client-9"))
    assert rig.dispatcher.refused == {"failed": 1}
    rig.stop()


async def test_a_handler_that_fails_hears_only_the_end() -> None:
    def fail(_: Connection, event: Event) -> None:
        raise ZeroDivisionError

    keeper = Keeper(fail)
    rig = Rig(keeper)
    engine = await rig.accepted()
    engine.pending = [DatagramReceived(b"x")]
    await rig.receive(b"\x40engine-0")
    await rig.settle()
    assert keeper.batches == [[Connected("scripted")], [Closed(1, "internal error", False, True)]]
    assert ("close", 1, "internal error", True) in engine.calls
    rig.stop()


async def test_a_handler_that_fails_with_events_waiting_gets_none_of_them() -> None:
    keeper = Keeper()
    rig = Rig(keeper)
    engine = await rig.accepted()

    def fail(_: Connection, event: Event) -> None:
        raise ZeroDivisionError

    keeper.act = fail
    engine.pending = [DatagramReceived(b"%d" % n) for n in range(600)]
    await rig.receive(b"\x40engine-0")
    await rig.settle()
    assert [len(batch) for batch in keeper.batches] == [1, 256, 1]
    rig.stop()


async def test_a_flood_of_events_is_given_in_rounds_and_then_refused() -> None:
    rig = Rig()
    busy, calm = await rig.accepted(), await rig.accepted()
    busy.pending = [DatagramReceived(b"%d" % n) for n in range(5_000)]
    calm.pending = [DatagramReceived(b"calm")]
    rig.port.inbox = [([b"\x40engine-0", b"\x40engine-1"], CLIENT)]
    rig.port.readable()
    rig.keeper.batches.clear()
    busy.take()
    rig.port.inbox = [([b"\x40engine-0"], CLIENT)]
    rig.port.readable()
    assert rig.dispatcher.refused == {"inbox": 1}
    assert busy.take("feed") == []
    for _ in range(30):
        await asyncio.sleep(0)
    assert sum(map(len, rig.keeper.batches)) == 5_000 - 256
    assert max(map(len, rig.keeper.batches)) == 256
    rig.stop()


async def test_events_of_the_egress_follow_in_the_next_turn() -> None:
    rig = Rig()
    engine = await rig.accepted()
    engine.window = 0
    connection = rig.connection
    stream = connection.open_unidirectional(droppable=True)
    stream.write(b"x" * 2_000)
    await rig.settle()
    (event,) = rig.keeper.batches[-1]
    assert isinstance(event, StreamDropped)
    engine.pending = [StreamsAvailable()]
    await rig.receive(b"\x40engine-0")
    assert len(rig.keeper.batches) == 2
    rig.stop()


async def test_an_engine_that_ends_without_a_word_is_told_as_gone() -> None:
    rig = Rig()
    engine = await rig.accepted()
    engine.over = True
    await rig.receive(b"\x40engine-0")
    assert rig.keeper.batches[-1] == [Closed(0, "the connection is gone", False, False)]
    assert not rig.dispatcher.connections
    await rig.receive(b"\x40engine-0")
    assert rig.dispatcher.refused == {"unknown": 1}
    rig.stop()


async def test_last_words_of_an_engine_are_heard() -> None:
    rig = Rig()
    engine = await rig.accepted()

    def flush(now: float) -> list[Burst]:
        engine.over = True
        engine.pending = [Closed(9, "peer", True, True)]
        return []

    engine.flush = flush  # type: ignore[method-assign]  # the script of this one test
    await rig.receive(b"\x40engine-0")
    assert rig.keeper.batches[-1] == [Closed(9, "peer", True, True)]
    rig.stop()


async def test_a_handshake_that_takes_too_long_is_given_up() -> None:
    rig = Rig(handshake_timeout=0.0)
    await rig.receive(initial(b"client-0"))
    await rig.receive()
    assert rig.dispatcher.refused == {"timeout": 1}
    assert rig.dispatcher.half_open == 0
    assert rig.keeper.connection is None
    rig.stop()


async def test_timers_ring_without_any_packet() -> None:
    rig = Rig()
    engine = await rig.accepted()
    engine.take()
    rung = asyncio.Event()

    def on_timer(now: float) -> None:
        engine.timer = None
        rung.set()

    engine.on_timer = on_timer  # type: ignore[method-assign]  # the script of this one test
    loop = asyncio.get_running_loop()
    engine.timer = loop.time() + 1_000
    await rig.receive(b"\x40engine-0")
    engine.timer = loop.time() + 0.01
    await rig.receive(b"\x40engine-0")
    async with asyncio.timeout(30):
        await rung.wait()
    rig.stop()


async def test_what_is_written_outside_a_turn_goes_out_soon() -> None:
    rig = Rig()
    engine = await rig.accepted()
    engine.take()
    engine.bursts = [Burst([b"packet", b"packet"], CLIENT)]
    connection = rig.connection
    connection.open_unidirectional().write(b"data")
    assert engine.calls == [("write", 2, b"data", False)]
    await rig.settle()
    assert engine.calls[1:] == [("flush",)]
    assert rig.port.sent == [Burst([b"packet", b"packet"], CLIENT)]
    stats = connection.stats()
    assert (stats.bytes_sent, stats.packets_sent) == (12, 2)
    rig.stop()


async def test_who_does_not_listen_takes_nobody_in() -> None:
    rig = Rig()
    quiet = Dispatcher(
        asyncio.get_running_loop(),
        rig.port,
        rig.maker,
        limits=ConnectionLimits(),
        egress=EgressLimits(),
        admission=Admission(AdmissionLimits(), key=b""),
        resets=StatelessResets(b"key"),
        handshake_timeout=1.0,
        listener=None,
    )
    await rig.receive(initial(b"client-0"))
    assert quiet.refused == {"unknown": 1}
    assert not rig.maker.made
    quiet.stop(0, "")


async def test_icmp_ends_only_dials_that_nobody_has_answered() -> None:
    rig = Rig()
    await rig.accepted()
    outcomes: list[Closed | None] = []
    engine = ScriptedEngine()
    engine.complete = False
    engine.ids = (b"dialling",)
    rig.dispatcher.dial(engine, rig.keeper, outcomes.append)
    await rig.settle()
    rig.port.gone = [Unreachable(CLIENT, True), Unreachable(("192.0.2.77", 1), True)]
    await rig.receive()
    await rig.settle()
    assert outcomes == [Closed(0, "nothing listens there", False, False)]
    assert len(rig.keeper.batches) == 1
    rig.stop()
    rig.dispatcher._turn()
    rig.dispatcher._turn_soon()


# Inboxes


def some(count: int, first: int = 0) -> list[Event]:
    return [DatagramReceived(b"%d" % number) for number in range(first, first + count)]


def test_a_busy_one_does_not_keep_the_others_waiting() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=3, limit=100)
    inboxes.put("busy", some(7))
    inboxes.put("quiet", some(1))
    assert inboxes.round() == [("busy", some(3)), ("quiet", some(1))]
    inboxes.put("quiet", some(1, 1))
    assert inboxes.round() == [("busy", some(3, 3)), ("quiet", some(1, 1))]
    assert inboxes
    assert inboxes.round() == [("busy", some(1, 6))]
    assert not inboxes
    assert inboxes.round() == []


def test_order_is_kept_when_more_comes() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=2)
    inboxes.put("one", some(3))
    inboxes.put("one", some(1, 3))
    assert [inboxes.round()[0][1], inboxes.round()[0][1]] == [some(2), some(2, 2)]


def test_who_has_too_much_is_full_until_it_was_taken() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=2, limit=3)
    assert not inboxes.full("one")
    inboxes.put("one", some(3))
    assert inboxes.full("one")
    assert not inboxes.full("two")
    inboxes.round()
    assert not inboxes.full("one")
