"""Connections, early data, choices among connections, foreign peers, and sending."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.links import (
    MAX_RECENT,
    PRE_HANDSHAKE_BYTES,
    Chunk,
    ForeignPeer,
    ForeignPeerWire,
    Link,
    Links,
    PreHandshakeData,
    ResponseReplay,
    mixed,
    send_split,
)
from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NodeInfo,
    NodeSelf,
    Probe,
    RelayType,
    Stamp,
    SubscribeResponse,
)
from laps_wire.peering.session import Event, ProbeReceived, SnsAdvertised, SnsWithdrawn
from testkit.relay_net import RelayNet

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


def test_foreign_peers_are_no_part_of_the_network() -> None:
    links = Links()
    made = link(links, 1, A, control=True)
    made.foreign_peer = cast("ForeignPeer", object())
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


# Choices


def test_bits_are_spread() -> None:
    assert mixed(0) == 0
    assert mixed(1) == 0x5692161D100B05E5
    assert mixed(1 << 64) == 0  # 64 bits count
    assert mixed(-1) == mixed((1 << 64) - 1)


def test_neighbours_are_far_apart() -> None:
    values = [mixed(number) for number in range(1000)]
    assert len(set(values)) == 1000
    apart = [(left ^ right).bit_count() for left, right in itertools.pairwise(values)]
    assert 28 < sum(apart) / len(apart) < 36


# Foreign peers


@dataclass
class Visitor:
    """A foreign peer that only listens."""

    wire: ForeignPeerWire
    events: list[Event] = field(default_factory=list)

    def event(self, now: float, event: Event) -> None:
        self.events.append(event)

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None: ...

    def stream_reset(self, now: float, stream_id: int, code: int) -> None: ...

    def datagram(self, now: float, data: bytes) -> None: ...

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        pass

    def measured(self, now: float, srtt_us: int) -> None: ...

    def closed(self, now: float) -> None: ...


def two_foreign_peers() -> tuple[RelayNet, Visitor, Visitor]:
    """Two relays, each a foreign peer of the other."""
    made: list[Visitor] = []

    def invite(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
        made.append(Visitor(wire))
        return made[-1]

    net = RelayNet()
    net.add(1, guests=invite)
    net.add(2, guests=invite)
    session, _ = net.join(1, 2)
    net.run()
    first, second = made if made[0].wire.session == session else made[::-1]
    return net, first, second


def test_a_foreign_peer_sends_over_its_session_until_that_is_over() -> None:
    net, first, second = two_foreign_peers()
    probe = Probe(1, NodeId(2), 5)
    first.wire.send(net.now, probe)
    net.run()
    assert ProbeReceived(probe=probe) in second.events
    first.wire.close(net.now, 0, "enough")
    first.wire.send(net.now, probe)
    net.run()
    assert net.relays[1].tables.peers() == net.relays[2].tables.peers() == []


def test_a_foreign_peer_has_sets_of_its_own_until_its_session_is_over() -> None:
    net, first, second = two_foreign_peers()
    a, b = NodeId(11), NodeId(12)
    sns_id = first.wire.advertise_sns(net.now, (a,))
    assert sns_id is not None
    first.wire.update_sns(net.now, sns_id, (a, b))
    net.run()
    told = [event.targets for event in second.events if isinstance(event, SnsAdvertised)]
    assert told[-1] == {a, b}
    # Too many targets for the other one: nothing is said.
    many = tuple(NodeId(number) for number in range(1, 70_000))
    first.wire.update_sns(net.now, sns_id, many)
    assert first.wire.advertise_sns(net.now, many) is None
    first.wire.withdraw_sns(net.now, sns_id)
    net.run()
    assert any(isinstance(event, SnsWithdrawn) for event in second.events)
    first.wire.close(net.now, 0, "enough")
    assert first.wire.advertise_sns(net.now, (a,)) is None
    first.wire.update_sns(net.now, sns_id, (a,))
    first.wire.withdraw_sns(net.now, sns_id)


# Sending


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 8), st.integers(3, 30))
def test_entries_come_once_and_in_order_in_messages_that_fit(
    entries: list[int], most: int, room: int
) -> None:
    sent: list[tuple[int, ...]] = []

    def send(part: tuple[int, ...]) -> None:
        if sum(part) > room:
            raise EncodeError("too long")
        sent.append(part)

    lost = send_split(send, lambda part: part, entries, most)
    assert [entry for part in sent for entry in part] == [each for each in entries if each <= room]
    assert lost == sum(each > room for each in entries)
    assert all(len(part) <= most for part in sent)


def test_what_is_too_long_together_is_sent_in_halves() -> None:
    sent: list[tuple[int, ...]] = []

    def send(part: tuple[int, ...]) -> None:
        if sum(part) > 2:
            raise EncodeError("too long")
        sent.append(part)

    assert send_split(send, lambda part: part, [1, 1, 1, 1, 3, 1], 4) == 1
    assert sent == [(1, 1), (1, 1), (1,)]


def response(sequence: int = 1, source: int = 1) -> SubscribeResponse:
    return SubscribeResponse(NodeId(source), 7, Stamp(1, sequence), NodeId(3), 0)


def test_responses_of_the_last_hold_time_are_sent_again() -> None:
    recent = ResponseReplay(15.0)
    assert recent.again(0.0, 1) == []
    recent.sent(0.0, 1, response(1))
    recent.sent(10.0, 1, response(2, source=2))
    recent.sent(10.0, 2, response(3))
    assert recent.again(15.0, 1) == [response(1), response(2, source=2)]
    assert recent.again(16.0, 1) == [response(2, source=2)]
    recent.forget(1)
    recent.forget(1)
    assert recent.again(16.0, 1) == []
    assert recent.again(16.0, 2) == [response(3)]
    assert recent.again(26.0, 2) == []


def test_the_last_that_a_relay_said_counts() -> None:
    recent = ResponseReplay(15.0)
    yes, no = response(1), replace(response(1), code=1, reason="over")
    recent.sent(0.0, 1, yes)
    recent.sent(1.0, 1, response(2, source=2))
    recent.sent(2.0, 1, no)
    assert recent.again(3.0, 1) == [response(2, source=2), no]
    other = replace(yes, responder=NodeId(4))
    recent.sent(3.0, 1, other)
    assert recent.again(3.0, 1) == [response(2, source=2), no, other]


def test_without_a_hold_time_everything_is_recent_but_not_without_end() -> None:
    recent = ResponseReplay(0.0)
    for number in range(MAX_RECENT + 10):
        recent.sent(float(number), 1, response(source=number))
    kept = recent.again(1e9, 1)
    assert len(kept) == MAX_RECENT
    assert kept[0] == response(source=10)
