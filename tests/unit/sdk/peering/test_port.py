"""One connection to another relay: what goes where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from laps_sdk.peering import port
from laps_sdk.peering.events import Dial
from laps_sdk.peering.port import PeerPort, PeerRelay
from laps_sdk.quic.base import ConnectionStats
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    DropReason,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
    Writable,
)
from laps_wire.errors import ProtocolViolation
from laps_wire.peering.errors import CloseCode, StreamCode, UnknownKindError
from laps_wire.peering.session import ConnectionClose, Ending, Role, StreamEnd
from laps_wire.peering.session import StreamData as ControlData
from testkit.fake_connection import FakeConnection, FakeStream


class Relay:
    """Keeps every call; ``raises`` comes out of the data path."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raises: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        def call(now: float, session: int, *args: Any, **more: Any) -> None:
            del now, session
            self.calls.append((name, *args, *more.values()))
            if self.raises is not None and name in ("data_stream", "datagram"):
                raise self.raises

        return call

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.calls = self.calls, []
        return taken


class Server:
    """Keeps what a port asks of its server."""

    def __init__(self) -> None:
        self.settled = 0
        self.forgotten: list[int] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def settle(self) -> None:
        self.settled += 1

    def forget(self, number: int) -> None:
        self.forgotten.append(number)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.later.append((delay, callback))


class Rig:
    def __init__(self, *, is_client: bool = True, dial: Dial | None = None) -> None:
        self.relay = Relay()
        self.server = Server()
        self.connection = FakeConnection(is_client=is_client, alpn="laps-2")
        self.port = PeerPort(
            cast("PeerRelay", self.relay),
            7,
            self.connection,
            dial,
            settle=self.server.settle,
            on_closed=self.server.forget,
            call_later=self.server.call_later,
        )

    def stream(self, stream_id: int) -> FakeStream:
        return self.connection.streams[stream_id]


def test_a_connection_is_introduced_with_its_role() -> None:
    dial = Dial(1, "x")
    rig = Rig(dial=dial)
    rig.port.open()
    assert rig.relay.take() == [
        ("connection_opened", rig.connection, Role.DIALLER, "laps-2", bytes(32), dial)
    ]
    rig = Rig(is_client=False)
    rig.port.open()
    assert rig.relay.take()[0][2] is Role.LISTENER


def test_what_arrives_is_sorted() -> None:
    rig = Rig()
    stream = object()
    rig.port.handle_events(
        [
            Connected("laps-2"),
            StreamData(0, b"c", False),
            StreamData(3, b"d", True),
            DatagramReceived(b"g"),
            StreamReset(1, 5),
            StreamReset(3, 6),
            StopSending(0, 7),
            StopSending(2, 8, stream),
            StopSending(6, 8),
            StreamDropped(stream, DropReason.EXPIRED, 99),
            Writable(),
            Closed(9, "bye", by_peer=True, application=True),
        ]
    )
    assert rig.relay.take() == [
        ("control_data", 0, b"c", False),
        ("data_stream", 3, b"d", True),
        ("datagram", b"g"),
        ("control_reset", 1, 5),
        ("data_reset", 3, 6),
        ("control_stopped", 0, 7),
        ("out_stream_gone", stream, 0, True),
        ("out_stream_gone", stream, 99, False),
        ("connection_closed", 9, "bye"),
    ]
    assert rig.server.forgotten == [7]
    assert rig.server.settled == 1


@pytest.mark.parametrize(("code", "told"), [(0, 0), (0x10A, CloseCode.INTERNAL_ERROR)])
def test_codes_of_quic_are_not_ours(code: int, told: int) -> None:
    rig = Rig()
    rig.port.handle_events([Closed(code, "idle", by_peer=False, application=False)])
    assert rig.relay.take() == [("connection_closed", told, "idle")]


def test_a_fault_that_the_relay_leaves_to_us_ends_the_connection() -> None:
    rig = Rig()
    rig.relay.raises = ProtocolViolation("x" * 1000)
    rig.port.handle_events([StreamData(3, b"d", False), StreamData(7, b"d", False)])
    assert rig.connection.closes == [(CloseCode.PROTOCOL_VIOLATION, "x" * 200)]
    assert len(rig.relay.take()) == 1
    assert rig.server.settled == 1


def test_headers_of_a_later_version_end_one_stream() -> None:
    rig = Rig()
    rig.relay.raises = UnknownKindError(9, {1: "STREAM"})
    rig.port.handle_events([StreamData(3, b"d", False), DatagramReceived(b"g")])
    assert rig.connection.stopped == {3: StreamCode.UNKNOWN_KIND}
    assert rig.connection.closes == []


# What a session wants


def test_a_dialler_opens_control_streams_in_their_order() -> None:
    rig = Rig()
    rig.port.carry_out(
        [
            ControlData(0, b"one"),
            ControlData(0, b"two"),
            StreamEnd(0, Ending.FINISH),
            ControlData(4, b"three"),
            StreamEnd(0, Ending.STOP, 5),
            StreamEnd(4, Ending.RESET, 6),
        ]
    )
    assert rig.stream(0).written == b"onetwo"
    assert rig.stream(0).closed
    assert rig.stream(4).written == b"three"
    assert rig.stream(4).reset_code == 6
    assert rig.connection.stopped == {0: 5}
    rig.port.carry_out([StreamEnd(0, Ending.RESET, 7)])  # ended already
    assert rig.stream(0).reset_code is None
    assert sorted(rig.connection.streams) == [0, 4]


def test_a_listener_answers_on_the_stream_that_was_opened() -> None:
    rig = Rig(is_client=False)
    rig.port.carry_out([ControlData(0, b"x"), ControlData(8, b"y")])
    assert (rig.stream(0).written, rig.stream(8).written) == (b"x", b"y")


def test_what_the_peer_does_not_allow_yet_waits_in_order() -> None:
    rig = Rig()
    rig.connection.bidi_allowed = 0
    rig.port.carry_out([ControlData(0, b"a"), StreamEnd(0, Ending.FINISH)])
    rig.port.carry_out([ControlData(4, b"b")])
    assert rig.connection.streams == {}
    rig.connection.bidi_allowed = 1
    rig.port.handle_events([StreamsAvailable()])
    assert rig.stream(0).written == b"a"
    assert list(rig.connection.streams) == [0]
    rig.connection.bidi_allowed = 2
    rig.port.handle_events([StreamsAvailable()])
    assert rig.stream(4).written == b"b"


def test_a_close_waits_for_nothing() -> None:
    rig = Rig()
    rig.connection.bidi_allowed = 0
    rig.port.carry_out([ControlData(0, b"a"), ConnectionClose(5, "no")])
    assert rig.connection.closes == [(5, "no")]
    rig.port.handle_events([StreamsAvailable()])
    assert rig.connection.streams == {}


def test_old_streams_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MAX_OLD_STREAMS", 2)
    rig = Rig()
    rig.port.carry_out([ControlData(stream_id, b"x") for stream_id in (0, 4, 8)])
    assert sorted(rig.port._control) == [4, 8]


# The C++ relay


def alone(*messages: bytes) -> list[ControlData]:
    return [ControlData(0, each, alone=True) for each in messages]


def test_messages_for_a_cpp_relay_leave_one_by_one() -> None:
    rig = Rig()
    rig.port.carry_out(alone(b"1", b"2", b"3"))
    assert rig.stream(0).written == b"1"
    assert [delay for delay, _ in rig.server.later] == [0.0]
    rig.stream(0).queued_bytes = 1  # it has not left yet
    rig.port.carry_out(alone(b"4"))
    rig.port.send_alone()
    assert rig.stream(0).written == b"1"
    assert rig.server.later[-1] == (port.ALONE_RETRY, rig.port.send_alone)
    rig.stream(0).queued_bytes = 0
    for expected in (b"12", b"123", b"1234", b"1234"):
        rig.port.send_alone()
        assert rig.stream(0).written == expected
    assert len(rig.server.later) == 5
    rig.port.carry_out(alone(b"5"))
    assert rig.stream(0).written == b"12345"


def test_what_waits_ends_with_the_connection() -> None:
    rig = Rig()
    rig.port.carry_out(alone(b"1", b"2"))
    rig.connection.close()
    rig.port.send_alone()
    assert rig.stream(0).written == b"1"
    rig.port.send_alone()
    rig = Rig()
    rig.port.carry_out(alone(b"1", b"2"))
    rig.port.handle_events([Closed(0, "", by_peer=True, application=True)])
    rig.port.send_alone()
    assert rig.stream(0).written == b"1"


def test_who_does_not_take_what_waits_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MAX_ALONE_BYTES", 5)
    rig = Rig()
    rig.port.carry_out(alone(b"12", b"345", b"67"))
    assert rig.connection.closes == []
    rig.port.send_alone()  # there is room again for what has left
    rig.port.carry_out(alone(b"890"))
    assert rig.connection.closes == []
    rig.port.carry_out(alone(b"x", b"y"))
    assert [code for code, _ in rig.connection.closes] == [CloseCode.OVERLOADED]
    assert (len(rig.port._alone), rig.port._alone_bytes) == (0, 0)


# Figures


def test_round_trip_and_loss_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()

    def stats(sent: int, lost: int | None, rtt: float | None) -> None:
        figures = ConnectionStats(1, 2, sent, 4, lost, rtt, None, None, None, 0, 0, 0, 0)
        monkeypatch.setattr(rig.connection, "stats", lambda: figures)
        rig.port.measure()

    stats(5, 0, None)
    assert rig.relay.take() == []
    stats(100, 10, 0.0123456)
    stats(200, 10, 0.02)
    stats(200, 10, 0.02)
    stats(300, None, 0.02)
    stats(310, 1000, 0.02)
    assert rig.relay.take() == [
        ("measured", 12346, 0.1, False),
        ("measured", 20000, 0.0, False),
        ("measured", 20000, 0.0, False),
        ("measured", 20000, 0.0, False),
        ("measured", 20000, 1.0, False),
    ]


class Look(NamedTuple):
    """What a connection says of itself; the bytes are those sent since the last look."""

    sent: int = 0
    queued: int = 0
    full: bool = False
    dropped: int = 0
    datagrams: int = 0


CALM = Look(sent=1_000_000, queued=900_000)


@pytest.mark.parametrize(
    "strained",
    [
        Look(sent=1_000_000, queued=1_100_000),
        Look(sent=9_000_000, queued=1, full=True),
        Look(sent=1_000, dropped=1),
        Look(sent=1_000, datagrams=3),
    ],
    ids=["slow", "full", "streams dropped", "datagrams dropped"],
)
def test_a_queue_that_lasts_is_congestion(strained: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    total = Look()

    def look(*looks: Look) -> list[bool]:
        nonlocal total
        for each in looks:
            total = Look(
                total.sent + each.sent,
                each.queued,
                each.full,
                total.dropped + each.dropped,
                total.datagrams + each.datagrams,
            )
            sent, queued, rig.connection.is_congested, streams, datagrams = total
            figures = ConnectionStats(
                sent, 0, 1, 0, 0, 0.01, None, None, None, queued, streams, 0, datagrams
            )
            monkeypatch.setattr(rig.connection, "stats", lambda figures=figures: figures)
            rig.port.measure()
        return [call[-1] for call in rig.relay.take()]

    assert look(CALM, Look(queued=60_000)) == [False] * 2, "little is nothing"
    assert look(strained, strained, CALM) == [False] * 3, "a burst is not"
    assert look(*[strained] * 4) == [False, False, True, True]
    assert look(CALM, CALM, strained) == [True] * 3
    assert look(*[CALM] * 4) == [True, True, False, False]
