"""What went which way: the bytes of every link, once, whenever they are asked for."""

from __future__ import annotations

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_relay.peer_forwarding.traffic import Arrival, Departure, Traffic
from laps_wire.peering.laps2 import DataKind
from testkit.peer_plane import KEY, PeerNet, head

HEAD = len(head())


def counting(peers: int = 2, *, local: bool = False) -> PeerNet:
    net = PeerNet(peers=peers, local=local)
    net.plane.count_traffic()
    return net


def test_nothing_is_counted_unless_asked_for() -> None:
    net = PeerNet()
    net.send(head() + b"abc", fin=True)
    assert net.plane.take_traffic() == ([], [])
    net.plane.count_traffic()
    assert net.plane.take_traffic() == ([], [])


def test_sums_begin_anew_when_they_are_taken() -> None:
    traffic = Traffic()
    for _ in range(2):
        traffic.came(1, 2, 10, 1)
        traffic.sent(1, 2, 3, 10, 1)
        traffic.sent(1, 2, 4, 5, dropped=1)
    came, sent = traffic.take()
    assert came == [Arrival(1, 2, 2, 20)]
    assert sent == [Departure(1, 2, 3, 2, 20, 0), Departure(1, 2, 4, 0, 10, 2)]
    assert traffic.take() == ([], [])


def test_what_was_given_up_later_is_taken_off_what_follows() -> None:
    traffic = Traffic()
    traffic.sent(1, 2, 3, -7, dropped=1)
    assert traffic.take()[1] == [Departure(1, 2, 3, 0, 0, 1)]
    traffic.sent(1, 2, 3, 10)
    assert traffic.take()[1] == [Departure(1, 2, 3, 0, 3, 0)]


def test_a_stream_is_counted_while_it_is_under_way() -> None:
    net = counting()
    net.send(head() + b"abc")
    assert net.plane.take_traffic() == (
        [Arrival(KEY, 1, 0, HEAD + 3)],
        [Departure(KEY, 1, 2, 0, HEAD + 3, 0), Departure(KEY, 1, 3, 0, HEAD + 3, 0)],
    )
    net.send(b"de")
    net.send(b"f", fin=True)
    assert net.plane.take_traffic() == (
        [Arrival(KEY, 1, 1, 3)],
        [Departure(KEY, 1, 2, 1, 3, 0), Departure(KEY, 1, 3, 1, 3, 0)],
    )
    assert net.plane.take_traffic() == ([], [])


def test_a_whole_stream_and_one_for_clients_only() -> None:
    net = counting(1)
    net.send(head() + b"abc", fin=True)
    assert net.plane.take_traffic() == (
        [Arrival(KEY, 1, 1, HEAD + 3)],
        [Departure(KEY, 1, 2, 1, HEAD + 3, 0)],
    )
    net = counting(0, local=True)
    net.send(head() + b"abc")
    net.send(b"", fin=True)
    assert net.plane.take_traffic() == ([Arrival(KEY, 1, 1, HEAD + 3)], [])


def test_what_a_slow_peer_did_not_get_is_not_sent() -> None:
    net = counting()
    net.send(head() + b"abc")
    net.gone(2, lost=2)
    net.send(b"d", fin=True)
    _, sent = net.plane.take_traffic()
    assert sent == [Departure(KEY, 1, 2, 1, HEAD + 1, 1), Departure(KEY, 1, 3, 1, HEAD + 4, 0)]


def test_a_stream_may_be_given_up_behind_its_end() -> None:
    net = counting(1)
    net.peer[2].slow = True
    net.send(head() + b"abc")
    net.send(b"d", fin=True)
    net.gone(2, lost=4)
    assert net.plane.take_traffic()[1] == [Departure(KEY, 1, 2, 1, HEAD, 1)]
    net.gone(2, lost=4)  # it is not known any more
    assert net.plane.take_traffic()[1] == []


def test_datagrams() -> None:
    net = counting()
    net.peer[3].max_datagram_size = 10
    data = head(kind=DataKind.DATAGRAM) + b"abc"
    net.plane.datagram(net.now, 1, data)
    assert net.plane.take_traffic() == (
        [Arrival(KEY, 1, 1, len(data))],
        [Departure(KEY, 1, 2, 1, len(data), 0), Departure(KEY, 1, 3, 0, 0, 1)],
    )


def test_what_our_own_clients_publish() -> None:
    net = counting(1)
    feed = net.plane.open_feed(1, KEY, 9, 1)
    net.plane.install(net.now, Ingress(LOCAL, 1), [EgressSet(2, 5)], local=False)
    stream = feed.open_stream(net.now, priority=1)
    stream.write(b"abc", True)
    feed.send_datagram(net.now, b"de", priority=1)
    came, sent = net.plane.take_traffic()
    assert came == [Arrival(KEY, LOCAL, 2, 2 * HEAD + 5)]
    assert sent == [Departure(KEY, LOCAL, 2, 2, 2 * HEAD + 5, 0)]
