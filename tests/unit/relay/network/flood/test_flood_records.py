from __future__ import annotations

import pytest

from laps_relay.network.flood.flood_records import (
    NOBODY,
    FloodPeer,
    FloodState,
    Record,
    Slots,
    Source,
)
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeInfo, SubscribeWithdrawal
from testkit.flood_net import subscribe, unsubscribe


def test_a_session_has_a_bit_of_its_own_until_all_rows_have_forgotten_it() -> None:
    slots = Slots()
    assert [slots.take(session) for session in (10, 11, 12)] == [0, 1, 2]
    assert slots.active == 0b111
    assert not slots.retire(1)
    assert slots.active == 0b101
    assert slots.take(13) == 3
    slots.swept()
    assert slots.take(14) == 1
    assert slots.take(15) == 4
    assert list(slots.sessions(0b111111)) == [10, 14, 12, 13, 15]
    assert list(slots.sessions(0b1000000)) == []


def test_rows_are_swept_for_many_sessions_together() -> None:
    slots = Slots()
    due = [slots.retire(slots.take(session)) for session in range(64)]
    assert due == [False] * 63 + [True]
    slots.swept()
    assert slots.take(99) == 0


def test_equal_masks_are_one_object() -> None:
    slots = Slots()
    wide = 1 << 100
    assert slots.shared(wide | 1) is slots.shared((1 << 100) + 1)
    for value in range(5000):
        assert slots.shared(value) == value
    assert len(slots._shared) < 5000


def test_a_peer_counts_what_it_gives() -> None:
    peer: FloodPeer[SubscribeInfo, SubscribeWithdrawal] = FloodPeer(3, NodeId(9), 5)
    assert (peer.slot, peer.bit, peer.live) == (5, 32, 0)
    alive: Record[SubscribeInfo, SubscribeWithdrawal] = Record(subscribe(1, 1), dead=False)
    dead: Record[SubscribeInfo, SubscribeWithdrawal] = Record(unsubscribe(1, 2), dead=True)
    assert alive.primary == NOBODY
    peer.count(alive, 1)
    peer.count(dead, 1)
    peer.early = 1
    assert (peer.live, peer.tombs, peer.total, peer.given) == (2, 1, 2, {NodeId(1): 2})
    peer.count(dead, -1)
    peer.count(alive, -1)
    assert (peer.live, peer.tombs, peer.total, peer.given) == (1, 0, 0, {})


def test_the_state_finds_sessions_and_rows() -> None:
    state: FloodState[SubscribeInfo, SubscribeWithdrawal] = FloodState()
    for session in (7, 8):
        state.peers[session] = FloodPeer(session, None, state.slots.take(session))
    assert [peer.session for peer in state.peers_of(0b11)] == [7, 8]
    assert state.peer(8).session == 8
    with pytest.raises(StateError, match="session 9 is not in the table"):
        state.peer(9)
    source: Source[SubscribeInfo, SubscribeWithdrawal] = Source(4, known=True)
    source.records[1] = Record(subscribe(1, 1), dead=False)
    state.sources[NodeId(1)] = source
    assert [record.item.stamp.epoch for record in state.records()] == [1]
