"""Whole conversations: fast with fast, fast with stock, both roles, good and bad links."""

from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    PingAcknowledged,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.logger import QuicLogger
from aioquic.tls import CipherSuite, Epoch

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from testkit.quic_pair import Link, QuicPair

KINDS = {"fast": FastQuicConnection, "stock": QuicConnection}
COMBINATIONS = ["fast-fast", "fast-stock", "stock-fast"]
"""Client and server."""
LINKS = {
    "good": {},
    "lossy": {"loss": 0.1},
    "reordering": {"reorder": 0.3},
    "duplicating": {"duplicate": 0.2},
    "corrupting": {"corrupt": 0.1},
    "all of it": {"loss": 0.05, "reorder": 0.1, "duplicate": 0.1, "corrupt": 0.05},
}


def make(
    combination: str = "fast-fast", link: dict[str, float] | None = None, **options: object
) -> QuicPair:
    client, server = combination.split("-")
    pair = QuicPair(client=KINDS[client], server=KINDS[server], **options)  # type: ignore[arg-type]
    # The link turns bad after the handshake, which is not what is tested here.
    for name, value in (link or {}).items():
        setattr(pair.link, name, value)
    return pair


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes of which no part is like another."""
    return b"".join((seed << 32 | index).to_bytes(8, "big") for index in range(size // 8 + 1))[
        :size
    ]


def is_over(pair: QuicPair) -> bool:
    """Whether everything that was sent is acknowledged and every stream is forgotten."""
    return all(not side._streams and not side._loss.bytes_in_flight for side in pair.sides.values())


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_streams_both_ways_arrive_whole(combination: str, link: str) -> None:
    pair = make(combination, LINKS[link])
    sent: dict[tuple[str, int], bytes] = {}
    for index, stream_id in enumerate((0, 4, 2, 6, 10)):
        sent["server", stream_id] = pattern(1 + 20_000 * index, index)
    for index, stream_id in enumerate((1, 3, 7)):
        sent["client", stream_id] = pattern(70_000 // (index + 1), index)
    for (side, stream_id), data in sent.items():
        sender = pair.client if side == "server" else pair.server
        sender.send_stream_data(stream_id, data, end_stream=True)
    pair.run_until(
        lambda: all(pair.received(side, each)[1] for side, each in sent),
    )
    for (side, stream_id), data in sent.items():
        assert pair.received(side, stream_id) == (data, True)
    # With data: an end alone can be lost by the stock class (see FastBase._write_stream_frame).
    for stream_id in (0, 4):
        pair.server.send_stream_data(stream_id, b"end", end_stream=True)
    pair.client.send_stream_data(1, b"end", end_stream=True)
    pair.run_until(lambda: is_over(pair))
    assert pair.terminated("client") is None
    assert pair.terminated("server") is None


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_many_streams_one_after_the_other(combination: str) -> None:
    pair = make(combination, {"loss": 0.03})
    total = 600  # far more than the peer allows at once
    opened = 0

    def open_more() -> None:
        nonlocal opened
        client = pair.client
        while opened < total and opened < client._remote_max_streams_uni:
            client.send_stream_data(2 + 4 * opened, pattern(300, opened), end_stream=True)
            opened += 1

    def done() -> bool:
        open_more()
        return opened == total and is_over(pair)

    pair.run_until(done)
    whole = {2 + 4 * index: pattern(300, index) for index in range(total)}
    got: dict[int, bytes] = {}
    for event in pair.events["server"]:
        if isinstance(event, StreamDataReceived):
            got[event.stream_id] = got.get(event.stream_id, b"") + event.data
    assert got == whole


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_more_streams_than_allowed_wait_and_go_later(combination: str) -> None:
    pair = make(combination)
    for index in range(200):
        pair.client.send_stream_data(4 * index, b"%d" % index, end_stream=True)
    answered: set[int] = set()

    def done() -> bool:
        for event in pair.events["server"]:
            if isinstance(event, StreamDataReceived) and event.stream_id not in answered:
                answered.add(event.stream_id)
                pair.server.send_stream_data(event.stream_id, b"ok", end_stream=True)
        return len(answered) == 200 and is_over(pair)

    pair.run_until(done)
    assert all(pair.received("client", 4 * index) == (b"ok", True) for index in range(200))


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("limits", [{"max_data": 3000}, {"max_stream_data": 2000}])
def test_flow_control_holds_back_and_lets_go(combination: str, limits: dict[str, int]) -> None:
    pair = make(combination, {"loss": 0.05}, **limits)
    data = {stream_id: pattern(9000, stream_id) for stream_id in (0, 4, 8)}
    for stream_id, each in data.items():
        pair.client.send_stream_data(stream_id, each, end_stream=True)
    pair.run_until(lambda: all(pair.received("server", each)[1] for each in data))
    for stream_id, each in data.items():
        assert pair.received("server", stream_id) == (each, True)


class Stingy(FastQuicConnection):
    """Grants credit only when told to."""

    generous = False

    def _write_connection_limits(self, builder: object, space: object) -> None:
        if self.generous:
            super()._write_connection_limits(builder, space)  # type: ignore[arg-type]

    def _write_stream_limits(self, builder: object, space: object, stream: object) -> None:
        if self.generous:
            super()._write_stream_limits(builder, space, stream)  # type: ignore[arg-type]


def test_streams_without_credit_wait_outside_of_the_queue_and_come_back() -> None:
    pair = QuicPair(client=FastQuicConnection, server=Stingy, max_data=5000)
    client = pair.client
    assert isinstance(client, FastQuicConnection)
    for stream_id in (2, 6, 10):
        client.send_stream_data(stream_id, pattern(3000, stream_id), end_stream=True)
    pair.run(5.0)
    assert client._remote_max_data_used == 5000
    assert not client._ready
    assert len(client._parked) == 3
    Stingy.generous = True
    try:
        # Anything makes the server send, and so look at its limits.
        pair.server.send_stream_data(1, b"x")
        pair.run_until(lambda: all(pair.received("server", each)[1] for each in (2, 6, 10)))
    finally:
        Stingy.generous = False
    assert not client._parked


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_resets_and_stops(combination: str) -> None:
    pair = make(combination, {"loss": 0.1})
    pair.client.send_stream_data(0, pattern(50_000))
    pair.client.send_stream_data(4, pattern(50_000))
    pair.run(0.05)
    pair.client.reset_stream(0, 11)
    pair.run_until(
        lambda: (
            StreamReset(error_code=11, stream_id=0) in pair.events["server"]
            and 4 in pair.server._streams
        )
    )
    pair.server.stop_stream(4, 22)
    pair.run_until(
        lambda: (
            StopSendingReceived(error_code=22, stream_id=4) in pair.events["client"]
            and StreamReset(error_code=22, stream_id=4) in pair.events["server"]
        )
    )
    for stream_id in (0, 4):
        pair.server.send_stream_data(stream_id, b"bye", end_stream=True)
    pair.run_until(lambda: is_over(pair))
    assert pair.received("client", 4) == (b"bye", True)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_datagrams_arrive_in_order_on_a_good_link(combination: str) -> None:
    pair = make(combination)
    sent = [pattern(size, size) for size in (0, 1, 63, 64, 500, 1100, 1150) for _ in range(5)]
    for data in sent:
        pair.client.send_datagram_frame(data)
        pair.server.send_datagram_frame(data)
    pair.run_until(lambda: len(pair.datagrams("client")) == len(pair.datagrams("server")) == 35)
    assert pair.datagrams("client") == pair.datagrams("server") == sent


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_datagrams_on_a_bad_link_come_at_most_once_and_unharmed(combination: str) -> None:
    pair = make(combination, LINKS["all of it"])
    sent = [pattern(200, index) for index in range(200)]
    for data in sent:
        pair.client.send_datagram_frame(data)
    pair.client.send_stream_data(0, b"after them", end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1] and not pair.client._loss.bytes_in_flight)
    got = pair.datagrams("server")
    assert len(set(got)) == len(got) > 100
    assert set(got) <= set(sent)


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("who", ["client", "server"])
def test_key_updates_in_the_middle(combination: str, who: str) -> None:
    pair = make(combination)
    data = pattern(200_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.server.send_stream_data(1, data, end_stream=True)
    for _ in range(3):
        pair.run(0.2)
        pair.sides[who].request_key_update()
    pair.run_until(lambda: pair.received("server", 0)[1] and pair.received("client", 1)[1])
    pair.client.send_stream_data(2, b"x", end_stream=True)
    pair.run(1.0)
    assert pair.received("server", 0) == pair.received("client", 1) == (data, True)
    for side in pair.sides.values():
        assert side._cryptos[Epoch.ONE_RTT].recv.key_phase == 1


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_client_that_moves_is_followed(combination: str) -> None:
    pair = make(combination)
    data = pattern(300_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.server.send_stream_data(1, data, end_stream=True)
    pair.run(0.1)
    pair.client_address = ("198.51.100.7", 777)
    pair.run_until(lambda: pair.received("server", 0)[1] and pair.received("client", 1)[1])
    assert pair.received("server", 0) == pair.received("client", 1) == (data, True)
    assert pair.server.get_peer_address() == pair.client_address
    assert pair.server._network_paths[0].is_validated
    if isinstance(pair.server, FastQuicConnection):
        # The old path is still known; the short way is open again nevertheless.
        assert len(pair.server._network_paths) == 2
        assert not pair.server._needs_parent()


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_client_that_takes_another_id(combination: str) -> None:
    pair = make(combination)
    data = pattern(100_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.run(0.05)
    pair.client.change_connection_id()
    pair.run_until(lambda: pair.received("server", 0)[1])
    pair.server.change_connection_id()
    pair.server.send_stream_data(0, data, end_stream=True)
    pair.run_until(lambda: pair.received("client", 0)[1])
    assert pair.received("client", 0) == pair.received("server", 0) == (data, True)


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("who", ["client", "server"])
def test_closing_tells_the_other_side(combination: str, who: str) -> None:
    pair = make(combination)
    pair.client.send_stream_data(0, pattern(1000))
    pair.run(0.1)
    pair.sides[who].close(error_code=42, reason_phrase="enough")
    pair.run_until(lambda: bool(pair.terminated("client") and pair.terminated("server")))
    expected = ConnectionTerminated(error_code=42, frame_type=None, reason_phrase="enough")
    assert pair.terminated("client") == pair.terminated("server") == expected
    for side in pair.sides.values():
        side.send_datagram_frame(b"too late")
        assert side.datagrams_to_send(now=pair.now) == []


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_silence_ends_a_connection(combination: str) -> None:
    pair = make(combination, idle_timeout=10.0)
    pair.client.send_stream_data(0, pattern(5000), end_stream=True)
    pair.run(8.0)
    assert pair.received("server", 0)[1]
    begin = pair.now
    pair.link.loss = 1.0
    pair.run_until(lambda: bool(pair.terminated("client") and pair.terminated("server")))
    assert pair.now <= begin + 10.0
    ended = pair.terminated("client")
    assert ended is not None
    assert ended.reason_phrase == "Idle timeout"


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_link_that_is_dead_for_seconds_is_survived(combination: str) -> None:
    pair = make(combination)
    data = pattern(200_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.run(0.1)
    pair.link.loss = 1.0
    pair.run(4.0)
    pair.link.loss = 0.0
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert pair.received("server", 0) == (data, True)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_pings_are_answered_among_data(combination: str) -> None:
    pair = make(combination)
    pair.client.send_stream_data(0, pattern(50_000))
    pair.client.send_ping(5)
    pair.run_until(lambda: PingAcknowledged(uid=5) in pair.events["client"])


@pytest.mark.parametrize(
    "suite", [CipherSuite.AES_256_GCM_SHA384, CipherSuite.CHACHA20_POLY1305_SHA256]
)
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_other_ciphers(combination: str, suite: CipherSuite) -> None:
    pair = make(combination, {"loss": 0.05}, suite=suite)
    data = pattern(50_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert pair.received("server", 0) == (data, True)
    for side in pair.sides.values():
        if isinstance(side, FastQuicConnection):
            assert (side._pair is None) == (suite is CipherSuite.CHACHA20_POLY1305_SHA256)


def test_with_a_log_every_packet_is_the_parents() -> None:
    log = QuicLogger()
    pair = QuicPair(client=FastQuicConnection, server=FastQuicConnection, quic_logger=log)
    data = pattern(20_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert pair.received("server", 0) == (data, True)
    events = log.to_dict()["traces"][0]["events"]
    assert sum(event["name"] == "transport:packet_sent" for event in events) > 15


def test_cubic_too() -> None:
    pair = make(link={"loss": 0.02}, congestion_control_algorithm="cubic")
    data = pattern(300_000)
    pair.client.send_stream_data(0, data, end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert pair.received("server", 0) == (data, True)


def test_data_written_before_the_handshake_is_done() -> None:
    pair = QuicPair(client=FastQuicConnection, server=FastQuicConnection, handshake=False)
    sent = {4 * index: pattern(3000, index) for index in range(5)}
    for stream_id, data in sent.items():
        pair.client.send_stream_data(stream_id, data, end_stream=True)
    pair.run_until(lambda: all(pair.received("server", each)[1] for each in sent))
    for stream_id, data in sent.items():
        assert pair.received("server", stream_id) == (data, True)


@pytest.mark.parametrize("loss", [0.02, 0.1])
def test_a_handshake_on_a_lossy_link(loss: float) -> None:
    link = Link(loss=loss, seed=3)
    pair = QuicPair(
        client=FastQuicConnection, server=FastQuicConnection, link=link, handshake=False
    )
    pair.client.send_stream_data(0, pattern(5000), end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert pair.received("server", 0) == (pattern(5000), True)


def test_the_short_way_is_taken() -> None:
    """Guards all tests above: most packets must not have gone to the parent."""
    calls = {"parent": 0, "burst": 0}

    class Counting(FastQuicConnection):
        def _parent_send(self, now: float) -> list[tuple[bytes, object]]:
            calls["parent"] += 1
            return super()._parent_send(now)

        def _send_burst(self, now: float, limits_due: bool) -> list[tuple[bytes, object]]:
            calls["burst"] += 1
            return super()._send_burst(now, limits_due)

    pair = QuicPair(client=Counting, server=Counting)
    calls["parent"] = 0
    pair.client.send_stream_data(0, pattern(500_000), end_stream=True)
    pair.run_until(lambda: pair.received("server", 0)[1])
    assert calls["parent"] == 0
    assert calls["burst"] > 10
