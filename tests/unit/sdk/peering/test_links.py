"""Connections, and data that arrives before their handshake is over."""

from __future__ import annotations

from collections import Counter
from typing import cast

from laps_sdk.forwarding.interfaces import PeerEgress
from laps_sdk.peering.links import (
    PRE_HANDSHAKE_BYTES,
    Chunk,
    ForeignPeer,
    Link,
    Links,
    PreHandshakeData,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType, Stamp

A, B = NodeId(1), NodeId(2)
NO_EGRESS = cast("PeerEgress", None)


def link(links: Links, session: int, node: NodeId | None = None, *, control: bool = False) -> Link:
    made = Link(session, NO_EGRESS, "laps-2", control=control, sends=True)
    links.add(made)
    if node is not None:
        links.meet(made, node)
    return made


def test_a_connection_has_no_node_until_the_handshake_says_so() -> None:
    links = Links()
    made = link(links, 3)
    assert (made.up, made.relay_type, links.nodes()) == (False, None, [])
    links.meet(made, A)
    links.meet(made, A)
    made.info = NodeInfo(NodeSelf(A, RelayType.VIA, Stamp(1, 1)))
    assert (made.up, made.relay_type) == (True, RelayType.VIA)
    assert links.of(A) == (made,)
    assert links.get(3) is made


def test_control_is_carried_by_one_and_data_by_all() -> None:
    links = Links()
    first, second = link(links, 1, A, control=True), link(links, 2, A)
    assert links.control(A) is first
    assert links.control(B) is None
    assert list(links.controls()) == [first]
    assert links.forwards(A)
    assert not links.forwards(B)
    first.sends = second.sends = False
    assert not links.forwards(A)
    assert links.session_to(A, 5) is None


def test_the_least_measured_round_trip_counts() -> None:
    links = Links()
    first, second = link(links, 1, A), link(links, 2, A)
    assert links.srtt_us(A) == 0
    first.srtt_us = 900
    second.srtt_us = 700
    assert links.srtt_us(A) == 700


def test_parallel_connections_share_the_tracks_and_a_lost_one_moves_only_its_own() -> None:
    links = Links()
    for session in (4, 5, 6):
        link(links, session, A)
    before = {key: links.session_to(A, key) for key in range(3000)}
    shares = Counter(before.values())
    assert set(shares) == {4, 5, 6}
    assert min(shares.values()) > 800
    links.remove(5)
    for key, chosen in before.items():
        if chosen != 5:
            assert links.session_to(A, key) == chosen
    assert {links.session_to(A, key, {4, 5}) for key in range(20)} == {4}
    assert {links.session_to(A, key, {5}) for key in range(20)} == {4, 6}
    links.remove(6)
    assert {links.session_to(A, key) for key in range(20)} == {4}


def test_guests_are_no_part_of_the_network() -> None:
    links = Links()
    made = link(links, 1, A, control=True)
    made.guest = cast("ForeignPeer", object())
    assert links.of(A) == ()
    assert links.nodes() == []
    assert list(links.controls()) == []


def test_what_is_removed_is_gone() -> None:
    links = Links()
    made = link(links, 1, A)
    nobody = link(links, 2)
    assert links.remove(1) is made
    assert links.remove(2) is nobody
    assert links.remove(2) is None
    assert links.nodes() == []
    assert links.get(1) is None


def test_pieces_wait_in_order_and_are_taken_once() -> None:
    early = PreHandshakeData()
    pieces = [Chunk(2, b"a", False), Chunk(6, b"b", True), Chunk(2, b"c", True)]
    assert all(early.add(piece) for piece in pieces)
    assert (early.take(), early.take()) == (pieces, [])


def test_a_stream_that_was_abandoned_is_forgotten() -> None:
    early = PreHandshakeData()
    early.add(Chunk(2, b"a", False))
    early.add(Chunk(6, b"b", False))
    early.forget(2)
    assert early.take() == [Chunk(6, b"b", False)]


def test_a_stream_that_does_not_fit_is_stopped_as_a_whole() -> None:
    early = PreHandshakeData()
    early.add(Chunk(2, b"a", False))
    early.add(Chunk(6, b"b", False))
    assert not early.add(Chunk(2, bytes(PRE_HANDSHAKE_BYTES), False))
    assert early.add(Chunk(2, b"more of it", True))
    assert (early.refused(2), early.refused(6)) == (True, False)
    assert early.take() == [Chunk(6, b"b", False)]


def test_empty_pieces_count_too() -> None:
    early = PreHandshakeData()
    assert not all(early.add(Chunk(stream, b"", False)) for stream in range(2, 2_000, 4))
