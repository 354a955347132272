from __future__ import annotations

from laps_sdk.quic.base import ConnectionLimits, ConnectionStats, EgressLimits
from laps_sdk.quic.connection import QuicTransportConnection
from laps_sdk.quic.events import (
    Closed,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)
from testkit.fake_connection import Recorder
from testkit.scripted_engine import ScriptedEngine


class Rig:
    def __init__(self, *, is_client: bool = False, limits: ConnectionLimits | None = None) -> None:
        self.engine = ScriptedEngine()
        self.woken: list[QuicTransportConnection] = []
        self.connection = QuicTransportConnection(
            self.engine,
            clock=lambda: 5.0,
            wake=self.woken.append,
            is_client=is_client,
            limits=limits or ConnectionLimits(),
            egress=EgressLimits(),
            listener=lambda _: Recorder(),
            deadline=None,
        )


def test_getters() -> None:
    rig = Rig(is_client=True)
    connection = rig.connection
    assert connection.alpn == "scripted"
    assert connection.is_client
    assert not connection.is_webtransport
    assert connection.peer_address == ("192.0.2.1", 4433)
    assert connection.authority == "name.example"
    assert connection.server_key_hash == b""
    assert connection.path == ""
    assert not connection.congested
    assert connection.max_datagram_size == 1200
    assert connection.rtt == 0.25
    assert connection.now == 5.0
    assert connection.unacknowledged() == frozenset()
    assert not connection.unacknowledged_bidirectional()
    assert connection.stats() == ConnectionStats(
        0, 0, 0, 0, 1, 0.25, 0.125, 20_000, 300, 0, 0, 0, 0
    )


def test_streams_and_datagrams_wake_the_endpoint_once() -> None:
    rig = Rig()
    rig.connection.open_bidirectional().write(b"one")
    rig.connection.open_unidirectional(priority=3, droppable=True, drop_code=1).write(b"two")
    assert rig.connection.send_datagram(b"three")
    assert [call[0] for call in rig.engine.calls] == ["write", "write", "datagram"]
    assert rig.woken == [rig.connection]


def test_a_reply_stream_is_the_same_each_time_until_both_halves_are_over() -> None:
    rig = Rig()
    reply = rig.connection.reply_stream(0)
    assert rig.connection.reply_stream(0) is reply
    reply.write(b"done", fin=True)
    assert rig.connection.reply_stream(0) is reply
    own = rig.connection.open_bidirectional()
    assert own.stream_id == 0 or rig.connection.reply_stream(own.stream_id or 0) is own


def test_replies_of_streams_that_are_over_do_not_pile_up() -> None:
    rig = Rig()
    for number in range(1_000):
        stream_id = 4 * number
        reply = rig.connection.reply_stream(stream_id)
        rig.connection.filter_events([StreamData(stream_id, b"ask", True)])
        if number % 100:
            reply.write(b"answer", fin=True)
        rig.connection.filter_events([StreamReset(4 * number + 1, 0), StreamReset(stream_id, 0)])
    assert len(rig.connection._replies) < 100
    assert len(rig.connection._half_over) < 100
    assert not rig.connection.reply_stream(0).closed


def test_a_stream_that_was_refused_is_heard_no_more() -> None:
    rig = Rig()
    rig.connection.stop_sending(2, 9)
    assert rig.engine.take() == [("stop", 2, 9)]
    events: list[Event] = [StreamData(2, b"x", False), StreamData(6, b"y", True)]
    assert rig.connection.filter_events(events) == events[1:]
    assert rig.connection.filter_events([StreamData(2, b"", True)]) == []
    assert rig.connection.filter_events([StreamData(2, b"a new life", False)])
    rig.connection.stop_sending(10, 9)
    assert rig.connection.filter_events([StreamReset(10, 3)]) == [StreamReset(10, 3)]


def test_stop_sending_is_answered_and_credit_is_kept_from_the_handler() -> None:
    rig = Rig()
    stream = rig.connection.open_unidirectional()
    told = rig.connection.filter_events([StopSending(2, 8), StreamsAvailable()])
    assert told == [StopSending(2, 8)]
    assert stream.closed
    assert rig.engine.take() == [("reset", 2, 8)]


def test_reading_is_paused_and_resumed() -> None:
    rig = Rig()
    assert rig.connection.pause_reading(2)
    rig.connection.resume_reading(2)
    assert rig.engine.take() == [("set_reading", 2, False), ("set_reading", 2, True)]


def test_less_is_withheld_at_the_end_of_the_turn() -> None:
    rig = Rig()
    dirty: list[bool] = []
    for size in (9, 5):
        assert rig.connection.withhold(size)
        dirty.append(rig.connection.dirty)
    assert dirty == [False, True]
    assert rig.engine.take() == [("withhold", 9), ("withhold", 5)]


def test_nothing_follows_the_end() -> None:
    rig = Rig()
    stream = rig.connection.open_unidirectional()
    end = Closed(3, "over", True, True)
    assert rig.connection.filter_events([end, StreamData(2, b"late", False)]) == [end]
    assert rig.connection.closed
    assert stream.closed
    assert rig.connection.filter_events([StreamData(2, b"late", False)]) == []
    rig.connection.close(1)
    rig.connection.stop_sending(2, 1)
    rig.connection.resume_reading(2)
    assert not rig.connection.pause_reading(2)
    assert not rig.connection.withhold(0)
    assert not rig.connection.send_datagram(b"x")
    assert rig.engine.calls == []
    assert rig.connection.close_request is None


# A silent peer


def alive_rig(**limits: float) -> Rig:
    rig = Rig(limits=ConnectionLimits(**limits))  # type: ignore[arg-type]
    rig.connection.keep_alive(5.0)
    return rig


def test_a_silent_peer_gets_pings_and_is_dead_at_last() -> None:
    rig = alive_rig(keepalive=1.0, dead_after=4.0)
    connection = rig.connection
    times = []
    while (end := connection.check_alive(now := connection.alive_timer or 0.0)) is None:
        times.append(now)
    assert times == [6.0, 7.0, 8.0]
    assert now == 9.0
    assert rig.engine.take("ping") == [("ping",)] * 3
    assert end.reason == "nothing arrived for 4.0 s in spite of keepalives"


def test_a_peer_that_is_heard_gets_no_ping() -> None:
    rig = alive_rig(keepalive=1.0, dead_after=4.0)
    connection = rig.connection
    connection.heard_at = 5.5
    assert connection.check_alive(6.0) is None
    assert connection.alive_timer == 6.5
    assert rig.engine.take("ping") == []


def test_a_loop_that_was_late_asks_first() -> None:
    rig = alive_rig(keepalive=1.0, dead_after=4.0)
    connection = rig.connection
    assert connection.check_alive(100.0) is None
    assert connection.check_alive(101.0) is None
    connection.heard_at = 101.5
    assert connection.check_alive(102.5) is None
    assert connection.check_alive(103.5) is None
    assert connection.check_alive(104.5) is None
    assert connection.alive_timer == 105.5
    assert connection.check_alive(105.5) is not None


def test_without_keepalives_nothing_is_checked() -> None:
    assert alive_rig(keepalive=0.0, dead_after=4.0).connection.alive_timer is None
    assert alive_rig(keepalive=9.0, dead_after=0.0).connection.alive_timer == 14.0
    assert alive_rig(keepalive=9.0, dead_after=0.0, idle_timeout=3.0).connection.alive_timer == 6.0


def test_a_closed_port_is_believed_when_a_ping_had_no_answer() -> None:
    rig = alive_rig()
    connection = rig.connection
    assert connection.refused(6.0) is None
    assert rig.engine.take("ping") == [("ping",)]
    assert connection.refused(6.05) is None
    connection.heard_at = 6.07
    assert connection.refused(6.5) is None
    assert connection.refused(6.55) is None
    wait = max(0.1, 3 * (connection.rtt or 0.0))
    end = connection.refused(6.5 + wait)
    assert end is not None
    assert end.reason == "the port of the peer is closed"
    connection.end(end)
    assert connection.refused(9.0) is None
    assert connection.alive_timer is None
