"""The faults of qh3 that are guarded, one by one."""

from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection

from laps_sdk.quic.aioquic.compat import Tuned
from laps_sdk.quic.events import StreamData
from laps_sdk.quic.qh3.engine import Qh3Connection
from testkit.engines import ALPN, Link, connected, make_engine

UNI = True


def server_of(link: Link) -> Qh3Connection:
    quic = link.server.quic
    assert isinstance(quic, Qh3Connection)
    return quic


def client_of(link: Link) -> Qh3Connection:
    quic = link.client.quic
    assert isinstance(quic, Qh3Connection)
    return quic


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_client_with_an_empty_id_is_served(monkeypatch: pytest.MonkeyPatch, loss: float) -> None:
    """Chromium's way; aioquic does the same if it is told to, but must not offer further ids."""
    monkeypatch.setattr("laps_sdk.quic.library.CONNECTION_ID_LENGTH", 0)
    monkeypatch.setattr(Tuned, "_replenish_connection_ids", lambda _: None)

    def connect(self: Tuned, address: object, now: float) -> None:
        self._peer_cid.cid = self._original_destination_connection_id = b"original"
        QuicConnection.connect(self, address, now)

    monkeypatch.setattr(Tuned, "connect", connect)
    link = Link(
        make_engine("aioquic-stock", server=False), make_engine("qh3", server=True), loss=loss
    )
    assert link.client.quic.connection_ids == (b"",)
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.server.quic.alpn == ALPN
    assert link.server.unroutable == 0
    stream_id = link.client.quic.open_stream(False)
    link.client.quic.write(stream_id, bytes(100_000), True)
    link.run(lambda: link.server.finished(stream_id))
    link.server.quic.write(stream_id, bytes(100_000), True)
    link.server.quic.datagram(b"to the empty id")
    link.run(lambda: link.client.finished(stream_id))
    link.server.quic.close(3, "done")
    link.run(lambda: link.client.closed)


def test_a_retry_is_always_asked_for() -> None:
    assert make_engine("qh3", server=True).needs_retry
    assert not make_engine("aioquic", server=True).needs_retry


def test_what_was_built_before_the_core_raised_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    link = connected("qh3", "aioquic")
    quic = client_of(link)
    stream_id = quic.open_stream(UNI)
    quic.write(stream_id, bytes(100_000), True)
    core = quic._quic._require_core()

    class Failing:
        """A core that breaks down after each second packet."""

        def __init__(self) -> None:
            self.calls = 0

        def __getattr__(self, name: str) -> object:
            found: object = getattr(core, name)
            return found

        def poll_transmit(self, now: float) -> object:
            self.calls += 1
            if self.calls % 3 == 0:
                raise RuntimeError("broken")
            return core.poll_transmit(now)

    monkeypatch.setattr(quic._quic, "_core", Failing())
    assert [len(burst.datagrams) for burst in quic.flush(link.now)] == [2]
    monkeypatch.undo()
    link.run(lambda: link.server.received(stream_id) == b"" or link.server.finished(stream_id))


def test_a_core_that_builds_nothing_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    link = connected("qh3", "aioquic")
    quic = client_of(link)
    core = quic._quic._require_core()

    class Broken:
        def __getattr__(self, name: str) -> object:
            found: object = getattr(core, name)
            return found

        def poll_transmit(self, now: float) -> object:
            raise RuntimeError("broken")

    monkeypatch.setattr(quic._quic, "_core", Broken())
    for _ in range(16):
        assert link.client.closed is None
        assert quic.flush(link.now) == []
        link.client.events += quic.events()
    assert link.client.closed is not None
    assert link.client.closed.reason == "qh3 cannot build a packet: broken"
    assert link.client.closed.code == 1
    monkeypatch.undo()
    # The close itself may still go out.
    link.run(lambda: link.server.closed)


def test_a_core_that_lost_frames_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The frames of that packet are gone: the peer would wait for them for ever."""
    link = connected("qh3", "aioquic")
    quic = client_of(link)
    core = quic._quic._require_core()

    class Forgetful:
        def __getattr__(self, name: str) -> object:
            found: object = getattr(core, name)
            return found

        def poll_transmit(self, now: float) -> object:
            raise ValueError("reserved stream is missing")

    monkeypatch.setattr(quic._quic, "_core", Forgetful())
    quic.flush(link.now)
    link.client.events += quic.events()
    assert link.client.closed is not None
    assert link.client.closed.reason == "qh3 lost frames: reserved stream is missing"
    assert link.client.closed.code == 1
    assert "qh3 lost frames to ('192.0.2.2', 443)" in caplog.text
    monkeypatch.undo()
    link.run(lambda: link.server.closed)


def test_events_wait_for_frames_that_the_core_holds_back_but_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = connected("aioquic", "qh3")
    link.settle()
    quic = server_of(link)
    guarded = quic._quic
    core = guarded._require_core()
    full = [True]

    class Full:
        """A core whose window is full, and that has repeated data."""

        loss_total = 1

        def __getattr__(self, name: str) -> object:
            found: object = getattr(core, name)
            return found

        @property
        def bytes_in_flight(self) -> int:
            return core.congestion_window if full[0] else 0

    monkeypatch.setattr(guarded, "_core", Full())
    stream_id = link.client.quic.open_stream(UNI)
    for number in (1, 2, 3):
        full[0] = number != 2
        link.client.quic.write(stream_id, bytes([number]), False)
        packets = [data for burst in link.client.quic.flush(link.now) for data in burst.datagrams]
        quic.feed(packets, link.client.address, link.now)
        expected = [StreamData(stream_id, b"\x01\x02", False)] if number == 2 else []
        joined = b"".join(e.data for e in quic.events() if isinstance(e, StreamData))
        assert joined == b"".join(event.data for event in expected)
    held_until = quic.next_timer()
    assert held_until is not None
    assert held_until <= link.now + 0.05
    quic.flush(link.now + 0.051)
    assert StreamData(stream_id, b"\x03", False) in quic.events()


def test_an_error_of_the_core_while_receiving_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = connected("aioquic", "qh3")
    quic = server_of(link)
    core = quic._quic._require_core()

    class Broken:
        def __getattr__(self, name: str) -> object:
            found: object = getattr(core, name)
            return found

        def receive_many_datagrams(self, *_: object) -> object:
            raise RuntimeError("cannot")

    monkeypatch.setattr(quic._quic, "_core", Broken())
    quic.feed([b"\x40" + bytes(60)], link.client.address, link.now)
    monkeypatch.undo()
    link.run(lambda: link.server.closed and link.client.closed)
    assert link.server.closed is not None
    assert link.server.closed.reason == "cannot"
    assert not link.server.closed.application


def test_datagrams_keep_to_the_congestion_window() -> None:
    link = connected("aioquic", "qh3")
    quic = server_of(link)
    stream_id = quic.open_stream(UNI)
    for _ in range(500):
        quic.datagram(bytes(1000))
    quic.write(stream_id, bytes(200_000), True)
    assert quic.total_backlog() == 500 * 1000 + 200_000
    peak = 0

    def watch() -> bool:
        nonlocal peak
        window, in_flight = quic._quic.congestion
        peak = max(peak, in_flight - window)
        return quic.total_backlog() == 0

    link.run(watch)
    assert peak <= 3 * 1280
    link.run(lambda: link.client.finished(stream_id) and len(link.client.datagrams()) == 500)


def test_at_most_64_datagrams_go_at_once() -> None:
    link = connected("qh3", "qh3")
    for _ in range(4):
        stream_id = link.client.quic.open_stream(UNI)
        link.client.quic.write(stream_id, bytes(300_000), True)
        link.run(lambda key=stream_id: link.server.finished(key))  # type: ignore[misc]  # bound
    link.settle()
    for _ in range(200):
        link.client.quic.datagram(bytes(200))
    link.client.quic.flush(link.now)
    assert link.client.quic.total_backlog() == (200 - 64) * 200


def test_a_datagram_waiting_while_the_path_shrank_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = connected("qh3", "aioquic")
    quic = client_of(link)
    quic.datagram(bytes(1100))
    quic.datagram(b"short")
    monkeypatch.setattr(type(quic._quic), "packet_size", 1000)
    link.run(lambda: link.server.datagrams() == [b"short"])
    assert quic.total_backlog() == 0


def test_a_close_by_the_peer_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    link = connected("qh3", "qh3")
    with caplog.at_level("DEBUG"):
        link.client.quic.close(0, "done")
        link.run(lambda: link.server.closed)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_reading_cannot_be_paused() -> None:
    link = connected("aioquic", "qh3")
    assert not link.server.quic.set_reading(2, False)
    assert not link.server.quic.withhold(1)


def test_figures_of_a_connection() -> None:
    link = connected("qh3", "qh3", loss=0.05, seed=5)
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, bytes(500_000), True)
    link.run(lambda: link.server.finished(stream_id))
    stats = link.client.quic.stats()
    assert stats.packets_lost
    assert stats.rtt is not None
    assert 0.02 <= stats.rtt + 1e-9 < 1.0
    assert stats.rtt_min is None
    assert stats.congestion_window


def test_before_the_first_packet_a_server_has_nothing() -> None:
    engine = make_engine("qh3", server=True)
    datagram = b"\xc0\x00\x00\x00\x01\x08" + bytes(8) + b"\x08" + bytes(1300)
    quic = engine.accept(
        datagram, ("192.0.2.9", 9), original_destination=b"o" * 8, retry_source=bytes(8), now=5.0
    )
    assert quic.next_timer() is None
    assert quic.flush(5.0) == []
    assert quic.peer_address == ("192.0.2.9", 9)
    assert quic.max_datagram_size == quic.streams_left(UNI) == quic.send_window() == 0
    stats = quic.stats()
    assert (stats.packets_lost, stats.rtt, stats.congestion_window) == (0, None, 0)


def test_many_streams_within_the_limit_of_103() -> None:
    link = connected("aioquic", "qh3")
    quic = link.client.quic
    opened = 0
    while opened < 500:
        link.run(lambda: quic.streams_left(UNI) > 0)
        for _ in range(quic.streams_left(UNI)):
            quic.write(quic.open_stream(UNI), b"x", True)
            opened += 1
    link.run(lambda: sum(event.fin for event in link.server.of(StreamData)) == opened)
    assert link.client.closed is None


@pytest.mark.xfail(
    strict=True, reason="qh3 sends one PATH_CHALLENGE for an address and never repeats it"
)
def test_a_new_address_is_followed_although_the_first_path_response_is_lost() -> None:
    link = connected("aioquic", "qh3")
    link.settle()
    stream_id = link.server.quic.open_stream(UNI)
    link.rebind()
    link.mtu = 1199  # a PATH_RESPONSE has at least 1200 bytes (RFC 9000, 8.2.2)
    link.client.quic.datagram(b"from the new address")
    link.settle(0.5)
    link.mtu = 1472
    link.server.quic.write(stream_id, b"to the new address", True)
    link.run(lambda: link.client.finished(stream_id), limit=600)
