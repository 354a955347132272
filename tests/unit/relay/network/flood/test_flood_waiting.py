from __future__ import annotations

import pytest

from laps_relay.network.flood.flood_records import FloodPeer, FloodState, Verdict
from laps_relay.network.flood.flood_waiting import Waiting
from laps_sdk.timers import first_of
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import SubscribeInfo, SubscribeWithdrawal
from testkit.flood_net import subscribe, unsubscribe

Peer = FloodPeer[SubscribeInfo, SubscribeWithdrawal]


class Rig:
    def __init__(self) -> None:
        self.state: FloodState[SubscribeInfo, SubscribeWithdrawal] = FloodState()
        self.waiting: Waiting[SubscribeInfo, SubscribeWithdrawal] = Waiting(self.state)
        for session in (1, 2):
            self.state.peers[session] = FloodPeer(session, None, self.state.slots.take(session))
        self.room = 100

    @property
    def a(self) -> Peer:
        return self.state.peers[1]

    @property
    def b(self) -> Peer:
        return self.state.peers[2]

    def heard(
        self, peer: Peer, item: SubscribeInfo | SubscribeWithdrawal, until: float = 30.0
    ) -> Verdict:
        dead = isinstance(item, SubscribeWithdrawal)
        key = item.full_name_hash
        return self.waiting.heard(peer, key, item, dead=dead, until=until, check=self.check)

    def check(self) -> None:
        if not self.room:
            raise LimitExceededError("no room")
        self.room -= 1


def test_what_waits_is_taken_with_everybody_who_gave_it() -> None:
    rig = Rig()
    assert rig.heard(rig.a, subscribe(9, 1, epoch=3)) is Verdict.WAITING
    assert rig.heard(rig.b, subscribe(9, 1, epoch=3)) is Verdict.WAITING
    assert rig.heard(rig.b, subscribe(9, 1, epoch=3)) is Verdict.WAITING
    assert (rig.a.early, rig.b.early, len(rig.waiting)) == (1, 1, 1)
    [(early, givers)] = rig.waiting.take(NodeId(9), 3)
    assert early.item == subscribe(9, 1, epoch=3)
    assert givers == [rig.a, rig.b]
    assert (rig.a.early, rig.b.early, len(rig.waiting)) == (0, 0, 0)
    assert rig.waiting.poll_timeout() is None


def test_only_the_newest_waits() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1, sequence=5))
    assert rig.heard(rig.b, subscribe(9, 1, sequence=4)) is Verdict.STALE
    assert rig.heard(rig.a, unsubscribe(9, 1, sequence=6)) is Verdict.WAITING
    assert (rig.a.early, rig.b.early, len(rig.waiting)) == (1, 0, 1)
    [(early, givers)] = rig.waiting.take(NodeId(9), 1)
    assert early.dead
    assert givers == [rig.a]


def test_an_epoch_is_waited_for_and_an_older_one_is_dropped() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1, epoch=2))
    rig.heard(rig.a, subscribe(9, 2, epoch=4))
    rig.heard(rig.a, subscribe(9, 3, epoch=3))
    assert [early.item for early, _ in rig.waiting.take(NodeId(9), 3)] == [subscribe(9, 3, epoch=3)]
    assert len(rig.waiting) == 1
    assert [early.item for early, _ in rig.waiting.take(NodeId(9), 4)] == [subscribe(9, 2, epoch=4)]
    assert rig.waiting.take(NodeId(9), 4) == []


def test_a_withdrawal_with_the_same_stamp_takes_it_back() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1))
    rig.heard(rig.b, subscribe(9, 1))
    assert rig.heard(rig.a, unsubscribe(9, 1)) is Verdict.TAKEN_BACK
    assert (rig.a.early, rig.b.early, len(rig.waiting)) == (0, 1, 1)
    assert rig.heard(rig.b, unsubscribe(9, 1)) is Verdict.TAKEN_BACK
    assert len(rig.waiting) == 0


def test_an_advertisement_beats_a_withdrawal_with_the_same_stamp() -> None:
    rig = Rig()
    rig.heard(rig.a, unsubscribe(9, 1))
    assert rig.heard(rig.b, subscribe(9, 1)) is Verdict.WAITING
    [(early, givers)] = rig.waiting.take(NodeId(9), 1)
    assert not early.dead
    assert givers == [rig.b]


def test_it_waits_only_so_long() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1), until=30.0)
    rig.heard(rig.a, subscribe(9, 2), until=31.0)
    assert rig.waiting.poll_timeout() == 30.0
    assert first_of(rig.waiting.clocks) == 30.0
    rig.waiting.handle_timeout(30.0)
    assert (len(rig.waiting), rig.a.early, rig.waiting.poll_timeout()) == (1, 1, 31.0)
    rig.waiting.handle_timeout(31.0)
    assert (len(rig.waiting), rig.a.early, rig.waiting.poll_timeout()) == (0, 0, None)


def test_a_session_leaves_and_what_others_gave_stays() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1))
    rig.heard(rig.a, subscribe(9, 2))
    rig.heard(rig.b, subscribe(9, 2))
    rig.waiting.leave(rig.a)
    assert [givers for _, givers in rig.waiting.take(NodeId(9), 1)] == [[rig.b]]


def test_what_was_said_again_stays() -> None:
    rig = Rig()
    rig.heard(rig.a, subscribe(9, 1))
    rig.heard(rig.a, subscribe(9, 2))
    rig.a.told = set()
    rig.heard(rig.a, subscribe(9, 2))
    rig.waiting.leave(rig.a, but=set(rig.a.told))
    assert [early.item for early, _ in rig.waiting.take(NodeId(9), 1)] == [subscribe(9, 2)]


def test_too_many_are_refused_and_nothing_changes() -> None:
    rig = Rig()
    rig.room = 1
    rig.heard(rig.a, subscribe(9, 1))
    rig.heard(rig.a, subscribe(9, 1, sequence=2))
    with pytest.raises(LimitExceededError):
        rig.heard(rig.a, subscribe(9, 2))
    with pytest.raises(LimitExceededError):
        rig.heard(rig.b, subscribe(9, 1, sequence=2))
    with pytest.raises(LimitExceededError):
        rig.heard(rig.b, subscribe(9, 1, sequence=3))
    assert (rig.a.early, rig.b.early, len(rig.waiting)) == (1, 0, 1)
