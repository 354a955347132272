"""What only the aioquic backend does: growing packets, backpressure, windows that slide."""

from __future__ import annotations

from functools import partial

import pytest

from laps_sdk.quic.base import ConnectionLimits
from testkit.engines import SERVER_ADDRESS, Link, connected, make_engine

FLAVOURS = ["aioquic", "aioquic-stock"]
UNI = True


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def send(link: Link, size: int, *, fin: bool = True) -> int:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, bytes(size), fin)
    return stream_id


def deliver(link: Link, size: int, *, limit: float = 120.0) -> None:
    stream_id = send(link, size)
    link.run(lambda: link.server.finished(stream_id), limit=limit)


# Path MTU


def test_packets_begin_at_1200_and_grow_once_a_probe_has_arrived(flavour: str) -> None:
    link = Link(make_engine(flavour, server=False), make_engine(flavour, server=True))
    link.run(lambda: link.client.connected and link.server.connected)
    assert max(link.client.sizes) == max(link.server.sizes[:2]) == 1200
    before = link.client.quic.max_datagram_size
    link.settle()
    assert link.client.quic.max_datagram_size == before + 252
    link.client.sizes.clear()
    deliver(link, 20_000)
    assert max(link.client.sizes) == 1452


def test_the_target_can_be_a_jumbo_packet(flavour: str) -> None:
    link = Link(
        make_engine(flavour, server=False, datagram_size=8900),
        make_engine(flavour, server=True, datagram_size=1200),
        mtu=9000,
    )
    link.run(lambda: link.client.connected and link.server.connected)
    link.settle()
    deliver(link, 100_000)
    assert max(link.client.sizes) == 8900
    assert max(link.server.sizes) == 1200


def test_on_a_smaller_path_packets_grow_to_what_it_takes(flavour: str) -> None:
    link = connected(flavour, flavour, mtu=1350)
    link.settle(10)
    link.client.sizes.clear()
    deliver(link, 50_000)
    assert 1330 <= max(link.client.sizes) <= 1350


def test_losing_probes_is_no_congestion(flavour: str) -> None:
    link = connected(flavour, flavour, mtu=1200)
    before = link.client.quic.stats()
    link.settle(20)
    after = link.client.quic.stats()
    assert before.congestion_window is not None
    assert after.congestion_window is not None
    assert after.congestion_window >= before.congestion_window
    assert after.bytes_in_flight == 0
    assert after.packets_lost == 0


def test_a_path_that_begins_to_swallow_large_packets(flavour: str) -> None:
    link = connected(flavour, flavour)
    link.settle()
    assert link.client.quic.max_datagram_size > 1400
    link.mtu = 1300
    deliver(link, 200_000)
    link.settle(10)
    assert link.client.quic.max_datagram_size < 1300
    link.client.sizes.clear()
    deliver(link, 50_000)
    assert max(link.client.sizes) <= 1300


def test_large_packets_that_vanish_among_small_ones_are_noticed(flavour: str) -> None:
    link = connected(flavour, flavour)
    link.settle()
    link.mtu = 1300
    stream_id = send(link, 100_000)

    def small_ones_pass() -> bool:
        link.client.quic.datagram(b"small")
        return link.server.finished(stream_id)

    link.run(small_ones_pass, limit=60)
    assert link.client.quic.max_datagram_size < 1300


def test_datagrams_that_no_longer_fit_keep_nothing_waiting(flavour: str) -> None:
    link = connected(flavour, flavour)
    link.settle()
    link.mtu = 1300
    long = bytes(link.client.quic.max_datagram_size)
    stream_id = send(link, 100_000)
    for _ in range(40):
        link.client.quic.datagram(long)
    link.run(lambda: link.server.finished(stream_id), limit=60)
    link.client.quic.datagram(b"short")
    link.run(lambda: b"short" in link.server.datagrams())
    assert link.client.quic.total_backlog() == 0


def test_another_path_begins_at_1200_again(flavour: str) -> None:
    link = connected(flavour, flavour)
    link.settle()
    assert link.server.quic.max_datagram_size > 1400
    link.rebind()
    link.mtu = 1200
    stream_id = send(link, 1000)
    link.run(lambda: link.server.quic.peer_address == link.client.address)
    assert link.server.quic.max_datagram_size < 1200
    link.run(lambda: link.server.finished(stream_id))
    answer = link.server.quic.open_stream(UNI)
    link.server.quic.write(answer, bytes(30_000), True)
    link.run(lambda: link.client.finished(answer))


# Backpressure


def test_a_paused_stream_gets_no_credit_and_others_do(flavour: str) -> None:
    limits = ConnectionLimits(max_data=400_000, max_stream_data=50_000)
    link = Link(
        make_engine(flavour, server=False), make_engine(flavour, server=True, limits=limits)
    )
    link.run(lambda: link.client.connected and link.server.connected)
    paused = send(link, 300_000)
    link.run(lambda: link.server.received(paused))
    assert link.server.quic.set_reading(paused, False)
    assert link.server.quic.set_reading(paused, False)
    link.settle(5)
    # What it was allowed to send still arrives, no more.
    arrived = len(link.server.received(paused))
    assert arrived <= 2 * 50_000
    assert link.client.quic.backlog(paused) >= 300_000 - 2 * 50_000
    other = send(link, 500_000)
    link.run(lambda: link.server.finished(other))
    assert len(link.server.received(paused)) == arrived
    link.server.quic.set_reading(paused, True)
    link.run(lambda: link.server.finished(paused))
    assert len(link.server.received(paused)) == 300_000


def test_what_is_withheld_gives_no_credit(flavour: str) -> None:
    limits = ConnectionLimits(max_data=100_000, max_stream_data=90_000)
    link = Link(
        make_engine(flavour, server=False), make_engine(flavour, server=True, limits=limits)
    )
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.server.quic.withhold(100_000)
    streams = [send(link, 10_000) for _ in range(40)]
    link.settle(10)
    assert sum(len(link.server.received(stream_id)) for stream_id in streams) == 100_000
    assert link.client.quic.send_window() == 0
    # Too little to be worth a frame, then the half of the window.
    assert link.server.quic.withhold(90_000)
    link.settle(10)
    assert link.client.quic.send_window() == 0
    assert link.server.quic.withhold(50_000)
    link.run(lambda: all(map(link.server.finished, streams)))


def test_many_paused_streams_come_and_go(flavour: str) -> None:
    link = connected(flavour, flavour)

    def pause_and_end() -> None:
        streams = [send(link, 1, fin=False) for _ in range(50)]
        link.run(lambda: all(map(link.server.received, streams)))
        for stream_id in streams:
            link.server.quic.set_reading(stream_id, False)
            link.client.quic.write(stream_id, b"", True)
        link.run(lambda: all(map(link.server.finished, streams)))

    for _ in range(3):
        pause_and_end()
    deliver(link, 100_000)


def test_pausing_streams_that_end_leaves_nothing_behind(flavour: str) -> None:
    limits = ConnectionLimits(max_data=50_000, max_stream_data=40_000)
    link = Link(
        make_engine(flavour, server=False), make_engine(flavour, server=True, limits=limits)
    )
    link.run(lambda: link.client.connected and link.server.connected)
    for _ in range(12):
        stream_id = send(link, 10_000, fin=False)
        link.run(partial(link.server.received, stream_id))
        link.server.quic.set_reading(stream_id, False)
        link.client.quic.write(stream_id, b"", True)
        link.run(partial(link.server.finished, stream_id))
        link.server.quic.set_reading(stream_id, False)  # too late: it is over
    deliver(link, 100_000)


def test_windows_do_not_grow_with_what_was_received(flavour: str) -> None:
    limits = ConnectionLimits(max_data=80_000, max_stream_data=40_000)
    link = Link(
        make_engine(flavour, server=False), make_engine(flavour, server=True, limits=limits)
    )
    link.run(lambda: link.client.connected and link.server.connected)
    stream_id = send(link, 2_000_000, fin=False)
    link.run(lambda: len(link.server.received(stream_id)) == 2_000_000)
    link.server.quic.set_reading(stream_id, False)
    link.client.quic.write(stream_id, bytes(500_000), True)
    link.settle(10)
    assert len(link.server.received(stream_id)) - 2_000_000 <= 40_000


# Bursts, figures


def test_a_burst_of_64_packets_goes_at_once(flavour: str) -> None:
    link = connected(flavour, flavour)
    for _ in range(3):
        deliver(link, 200_000)
        link.settle()
    assert link.client.quic.send_window() > 64 * 1452
    send(link, 200_000)
    bursts = link.client.quic.flush(link.now)
    assert [burst.address for burst in bursts] == [SERVER_ADDRESS]
    assert len(bursts[0].datagrams) >= 64
    assert {len(data) for data in bursts[0].datagrams[:60]} == {1452}


def test_figures_of_a_connection(flavour: str) -> None:
    link = connected(flavour, flavour, loss=0.05, seed=3)
    deliver(link, 500_000)
    stats = link.client.quic.stats()
    assert stats.packets_lost
    assert stats.rtt is not None
    assert stats.rtt_min is not None
    assert stats.rtt_min + 1e-9 >= 0.02
    assert stats.rtt_min <= stats.rtt < 1.0
    assert stats.congestion_window
    assert stats.bytes_in_flight is not None


def test_backlog_is_what_was_in_no_packet_yet(flavour: str) -> None:
    link = connected(flavour, flavour)
    first, second = send(link, 1000), send(link, 500_000)
    link.client.quic.datagram(bytes(100))
    assert link.client.quic.backlog(first) == 1000
    assert link.client.quic.total_backlog() == 501_100
    window = link.client.quic.send_window()
    sent = sum(len(data) for burst in link.client.quic.flush(link.now) for data in burst.datagrams)
    assert 0 < sent <= window + 1452
    assert link.client.quic.backlog(first) == 0
    assert 500_000 - sent < link.client.quic.backlog(second) < 500_000
    assert link.client.quic.total_backlog() == link.client.quic.backlog(second)
    link.client.quic.reset(second, 1)
    assert link.client.quic.backlog(second) == link.client.quic.total_backlog() == 0


def test_a_stream_is_unacknowledged_until_all_of_it_has_arrived(flavour: str) -> None:
    """Its first packet is lost, and comes again; open streams and those given up do not count."""
    link = connected(flavour, flavour)
    link.settle()
    client = link.client.quic
    assert client.unacknowledged() == frozenset()
    opened, first, given_up = send(link, 10, fin=False), send(link, 1000), send(link, 10)
    client.write(two_ways := client.open_stream(not UNI), b"x", True)
    assert client.unacknowledged() == {first, given_up}
    client.reset(given_up, 7)
    assert client.unacknowledged() == {first}
    link.cut = True
    link.settle(0.1)
    second = send(link, 10)
    link.cut = False
    assert client.unacknowledged() == {first, second}
    link.run(lambda: link.server.finished(first) and link.server.finished(two_ways))
    link.settle()
    assert client.unacknowledged() == frozenset()
    client.write(opened, b"", True)
    assert client.unacknowledged() == {opened}


def test_words_are_unheard_until_they_have_arrived(flavour: str) -> None:
    """Of both sides of a stream, open or not; data is no word, and what is given up neither."""
    link = connected(flavour, flavour)
    link.settle()
    client, server = link.client.quic, link.server.quic
    send(link, 1000, fin=False)
    assert not client.unacknowledged_bidirectional()
    link.settle()
    client.write(words := client.open_stream(not UNI), b"x", False)
    assert client.unacknowledged_bidirectional()
    link.cut = True
    link.settle(0.1)
    assert client.unacknowledged_bidirectional()  # lost
    link.cut = False
    link.run(lambda: not client.unacknowledged_bidirectional())
    server.write(words, b"y", False)
    assert server.unacknowledged_bidirectional()
    server.reset(words, 7)
    assert not server.unacknowledged_bidirectional()


def test_a_peer_that_takes_no_datagrams(flavour: str) -> None:
    limits = ConnectionLimits(max_datagram_frame=0)
    link = Link(
        make_engine(flavour, server=False), make_engine(flavour, server=True, limits=limits)
    )
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.client.quic.max_datagram_size == 0
    link.client.quic.datagram(b"x")
    link.settle()
    assert link.server.datagrams() == []
    assert link.server.closed is None


# Servers before their first good packet


def test_a_server_whose_first_packet_is_garbage_waits_and_gives_up(flavour: str) -> None:
    engine = make_engine(flavour, server=True)
    datagram = b"\xc0\x00\x00\x00\x01\x08" + bytes(8) + b"\x08" + bytes(1300)
    quic = engine.accept(
        datagram, ("192.0.2.9", 9), original_destination=None, retry_source=None, now=5.0
    )
    assert quic.next_timer() is None
    assert quic.peer_address == ("192.0.2.9", 9)
    assert quic.flush(5.0) == []
    quic.feed([datagram], ("192.0.2.9", 9), 5.0)
    assert quic.flush(5.0) == []
    timer = quic.next_timer()
    assert timer == 35.0
    quic.on_timer(timer)
    assert quic.terminated
    assert [type(event).__name__ for event in quic.events()] == ["Closed"]


def test_after_a_retry_the_address_counts_as_valid(flavour: str) -> None:
    link = Link(make_engine(flavour, server=False), make_engine(flavour, server=True))
    link.retry = True
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.server.quic.server_name == "localhost"
