"""Datagrams between relays."""

from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.forwarding import Ingress
from laps_wire.peering.laps2 import DataKind
from testkit.peer_plane import KEY, PeerNet, head


def datagram(payload: bytes, *, ttl_ms: int = 0, extensions: bytes = b"") -> bytes:
    return head(kind=DataKind.DATAGRAM, ttl_ms=ttl_ms, extensions=extensions) + payload


@pytest.mark.parametrize("extensions", [b"", b"\x01\x02ab"])
def test_a_hop_changes_four_bytes(extensions: bytes) -> None:
    net = PeerNet(peers=2, local=True)
    sent = datagram(b"object", extensions=extensions)
    net.plane.datagram(net.now, 1, sent)
    for session in (2, 3):
        ((data, deadline),) = net.peer[session].datagrams
        assert data[:4] == sent[:4]
        assert data[4:8] == (70 + session).to_bytes(4, "big")
        assert data[8:] == sent[8:]
        assert deadline is None
    ((header, payload),) = net.sink.datagrams
    assert payload == b"object"
    assert header.extensions == extensions
    assert header.sns_id == 7


def test_the_ttl_is_the_deadline() -> None:
    net = PeerNet(peers=1)
    net.plane.datagram(net.now, 1, datagram(b"a", ttl_ms=250))
    assert [deadline for _, deadline in net.peer[2].datagrams] == [100.25]


def test_too_large_for_one_peer() -> None:
    net = PeerNet(peers=3)
    net.peer[2].max_datagram_size = 30
    net.peer[3].max_datagram_size = 31
    net.plane.datagram(net.now, 1, datagram(b"payload"))
    assert [len(net.peer[session].datagrams) for session in (2, 3, 4)] == [0, 1, 1]
    counters = net.plane.counters()
    assert (counters.datagrams_in, counters.datagrams_out) == (1, 2)
    assert (counters.dropped_datagrams, counters.dropped_bytes) == (1, 31)
    assert (counters.bytes_in, counters.bytes_out) == (31, 62)
    assert net.plane.entries()[Ingress(1, 7)][2] == (0, 1, 31, 62)


def test_nobody_wants_it() -> None:
    net = PeerNet(peers=0)
    net.plane.datagram(net.now, 1, datagram(b"a"))
    counters = net.plane.counters()
    assert (counters.datagrams_in, counters.datagrams_out, counters.dropped_bytes) == (1, 0, 0)


def test_our_own_clients_only() -> None:
    net = PeerNet(peers=0, local=True)
    net.plane.datagram(net.now, 1, datagram(b""))
    assert [payload for _, payload in net.sink.datagrams] == [b""]


def test_datagrams_are_counted_by_track_and_way() -> None:
    net = PeerNet(peers=2)
    net.plane.count_traffic()
    net.peer[3].max_datagram_size = 10
    data = head(kind=DataKind.DATAGRAM) + b"abc"
    net.plane.datagram(net.now, 1, data)
    (came,), sent = net.plane.take_traffic()
    assert (came.key, came.source, came.units, came.bytes) == (KEY, 1, 1, len(data))
    assert [(each.target, each.bytes, each.dropped) for each in sent] == [
        (2, len(data), 0),
        (3, 0, 1),
    ]
