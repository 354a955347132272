from __future__ import annotations

from laps_relay.network.flood.entries import SubscribeEntries
from laps_relay.network.flood.flood_records import NOBODY, FloodPeer, FloodState, Record, Source
from laps_relay.network.flood.flood_rests import Rests
from laps_relay.network.flood.flood_telling import Telling
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeInfo, SubscribeWithdrawal
from laps_wire.peering.laps2.information import SubscribeIdentity
from testkit.flood_net import subscribe, unsubscribe

OWN = 100
Row = Record[SubscribeInfo, SubscribeWithdrawal]
Peer = FloodPeer[SubscribeInfo, SubscribeWithdrawal]


class Rig:
    """Three sessions, with nodes 1 to 3; rows are of node 9 unless told otherwise."""

    def __init__(self, *, few: bool = False) -> None:
        self.state: FloodState[SubscribeInfo, SubscribeWithdrawal] = FloodState()
        self.denied: set[tuple[int, int]] = set()
        self.few = [1, 77]
        self.rests: Rests[SubscribeInfo, SubscribeWithdrawal] = Rests(0.02)
        self.telling: Telling[SubscribeInfo, SubscribeWithdrawal, SubscribeIdentity] = Telling(
            SubscribeEntries(NodeId(OWN)),
            self.state,
            self.rests,
            lambda session, entry: (session, entry.full_name_hash) not in self.denied,
            (lambda _: self.few) if few else None,
        )
        for session in (1, 2, 3):
            slot = self.state.slots.take(session)
            self.state.peers[session] = FloodPeer(session, NodeId(session), slot)

    def peer(self, session: int) -> Peer:
        return self.state.peers[session]

    def row(self, item: SubscribeInfo | SubscribeWithdrawal, giver: int | None = None) -> Row:
        source = self.state.sources.setdefault(item.source, Source(1, known=True))
        row: Row = Record(item, dead=isinstance(item, SubscribeWithdrawal))
        source.records[item.full_name_hash] = row
        if giver is not None:
            row.given, row.primary = self.peer(giver).bit, self.peer(giver).slot
        return row

    def told(self) -> dict[int, tuple[list[int], list[int]]]:
        """Sequences of what each session is told: advertise, withdraw."""
        found = {}
        for session, peer in self.state.peers.items():
            advertise, withdraw = self.telling.flush(peer)
            if advertise or withdraw:
                found[session] = (
                    [item.stamp.sequence for item in advertise],
                    [item.stamp.sequence for item in withdraw],
                )
        return found


def test_an_entry_goes_to_all_but_where_it_came_from_and_its_source() -> None:
    rig = Rig()
    rig.telling.mark(rig.row(subscribe(2, 1, sequence=5), giver=1))
    assert rig.told() == {3: ([5], [])}
    assert rig.told() == {}


def test_what_nobody_gives_goes_to_nobody_and_our_own_to_everybody() -> None:
    rig = Rig()
    rig.telling.mark(rig.row(subscribe(9, 1, sequence=5)))
    assert rig.told() == {}
    rig.telling.mark(rig.row(subscribe(OWN, 1, sequence=6)))
    assert rig.told() == {1: ([6], []), 2: ([6], []), 3: ([6], [])}


def test_who_may_have_forgotten_an_entry_is_told_again() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(row)
    assert rig.told() == {2: ([5], []), 3: ([5], [])}
    rig.telling.again(row, rig.peer(3).bit)
    rig.telling.mark(row)
    assert rig.told() == {3: ([5], [])}
    assert rig.peer(3).offered == 1


def test_what_rests_is_taken_back_and_given_again_later() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(row)
    rig.told()
    rig.rests.begin(0.0, row)
    rig.telling.mark(row)
    rig.telling.mark(rig.row(subscribe(9, 2, sequence=6), giver=1))
    assert rig.told() == {2: ([6], [5]), 3: ([6], [5])}
    rig.rests.end(row)
    rig.telling.mark(row)
    assert rig.told() == {2: ([5], []), 3: ([5], [])}


def test_a_change_is_told_once_and_only_in_its_last_form() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(row)
    row.item = subscribe(9, 1, sequence=6)
    rig.telling.mark(row)
    assert rig.told() == {2: ([6], []), 3: ([6], [])}
    row.item, row.stale, row.sent = subscribe(9, 1, sequence=7), row.sent, 0
    rig.telling.mark(row)
    assert rig.told() == {2: ([7], []), 3: ([7], [])}


def test_what_must_not_be_told_any_more_is_withdrawn_with_its_own_stamp() -> None:
    rig = Rig()
    rig.telling.mark(rig.row(subscribe(9, 1, sequence=5), giver=1))
    rig.telling.mark(rig.row(subscribe(9, 2, sequence=6), giver=1))
    rig.told()
    rig.denied.add((2, 1))
    rig.telling.reconsider()
    assert rig.told() == {2: ([], [5])}
    rig.denied.clear()
    rig.telling.reconsider()
    assert rig.told() == {2: ([5], [])}


def test_a_source_that_is_not_known_is_not_spoken_of() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.state.sources[NodeId(9)].known = False
    rig.telling.mark(row)
    assert rig.told() == {}
    rig.state.sources[NodeId(9)].known = True
    rig.telling.mark(row)
    assert rig.told() == {2: ([5], []), 3: ([5], [])}


def test_an_end_is_told_to_those_who_know_the_beginning() -> None:
    rig = Rig()
    row = rig.row(unsubscribe(3, 1, sequence=8), giver=1)
    row.stale = rig.peer(2).bit | rig.peer(3).bit
    rig.telling.mark(row)
    assert rig.told() == {2: ([], [8])}
    rig.telling.mark(row)
    assert rig.told() == {}
    rig.telling.correct(rig.peer(1), row)
    assert rig.told() == {1: ([], [8])}


def test_a_buried_record_is_taken_back_from_those_who_were_told() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(row)
    rig.telling.flush(rig.peer(3))
    rig.telling.bury(row)
    assert rig.told() == {3: ([], [5])}
    # The same identity, back before anybody was told that it was gone.
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(row)
    rig.told()
    rig.telling.bury(row)
    again = rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.telling.mark(again)
    assert rig.told() == {2: ([5], []), 3: ([5], [])}


def test_a_session_that_knows_nothing_is_told_everything() -> None:
    rig = Rig()
    rig.row(subscribe(9, 1, sequence=5), giver=1)
    rig.row(unsubscribe(9, 2, sequence=6), giver=1)
    ended = rig.row(unsubscribe(OWN, 3, sequence=7))
    never = rig.row(unsubscribe(OWN, 4, sequence=8))
    rig.telling.ended[ended] = subscribe(OWN, 3)
    rig.telling.ended[never] = subscribe(OWN, 4)
    rig.denied.add((2, 4))
    rig.telling.fill(rig.peer(2))
    assert rig.told() == {2: ([5], [7])}
    rig.telling.reconsider()
    assert rig.told() == {3: ([5], [])}


def test_everything_is_told_again() -> None:
    rig = Rig()
    row = rig.row(subscribe(9, 1, sequence=5), giver=1)
    end = rig.row(unsubscribe(9, 2, sequence=6), giver=1)
    rig.telling.mark(row)
    rig.told()
    rig.telling.correct(rig.peer(2), end)
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {2: ([5], [6])}
    rig.denied.add((2, 1))
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {}


def test_who_is_told_everything_again_hears_what_we_lost_and_not_what_policy_keeps_back() -> None:
    rig = Rig()
    rows = [rig.row(subscribe(9, key, sequence=key), giver=1) for key in (1, 2, 3, 4, 5)]
    lost, resting, turned, kept_back, _ = rows
    for row in rows:
        rig.telling.mark(row)
    rig.told()
    lost.given, lost.primary = 0, NOBODY
    rig.rests.begin(0.0, resting)
    turned.given, turned.primary = rig.peer(2).bit, rig.peer(2).slot
    rig.denied.add((2, kept_back.item.full_name_hash))
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {2: ([5], [1, 2, 3])}
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {2: ([5], [])}
    rig.rests.end(resting)
    rig.telling.mark(resting)
    assert rig.told() == {2: ([2], [])}


def test_what_has_an_unknown_source_is_taken_back_where_everything_is_told_again() -> None:
    rig = Rig()
    row, new = (rig.row(subscribe(9, key, sequence=key), giver=1) for key in (1, 2))
    rig.telling.mark(row)
    rig.told()
    rig.state.sources[NodeId(9)].known = False
    rig.telling.mark(row)
    rig.telling.mark(new)
    assert rig.told() == {}, "at other times nothing is said of it"
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {2: ([], [1])}
    rig.telling.resend(rig.peer(2))
    assert rig.told() == {}
    rig.state.sources[NodeId(9)].known = True
    for each in (row, new):
        rig.telling.mark(each)
    assert rig.told() == {2: ([1, 2], []), 3: ([2], [])}


def test_an_audience_is_asked_for_and_nobody_else() -> None:
    rig = Rig(few=True)
    row = rig.row(subscribe(9, 1, sequence=5), giver=2)
    rig.row(subscribe(OWN, 2, sequence=6))
    rig.telling.mark(row)
    assert list(rig.peer(3).dirty) == []
    assert rig.told() == {1: ([5], [])}
    rig.few = [3]
    rig.denied.add((1, 1))
    rig.telling.reconsider()
    assert rig.told() == {1: ([], [5]), 3: ([5, 6], [])}
    rig.telling.fill(rig.peer(2))
    assert not rig.peer(2).full
    assert rig.told() == {2: ([6], [])}
    row.item, row.dead, row.stale = unsubscribe(9, 1, sequence=7), True, row.sent
    rig.telling.mark(row)
    assert rig.told() == {3: ([], [7])}


# Who takes only so many


def crowd(room: int, count: int) -> tuple[Rig, list[Row]]:
    """Session 3 takes so many, and there are more; sequences are keys."""
    rig = Rig()
    rig.peer(3).room = room
    rows = [rig.row(subscribe(9, key, sequence=key), giver=1) for key in range(1, count + 1)]
    for row in rows:
        rig.telling.mark(row)
    return rig, rows


def end(rig: Rig, row: Row) -> None:
    """The source ends an entry."""
    key = row.item.full_name_hash
    row.item, row.dead = unsubscribe(9, key, sequence=row.item.stamp.sequence + 100), True
    row.sent, row.stale = 0, row.sent
    rig.telling.mark(row)


def test_what_finds_no_room_waits_until_there_is_some() -> None:
    rig, rows = crowd(room=2, count=4)
    assert rig.told() == {2: ([1, 2, 3, 4], []), 3: ([1, 2], [])}
    assert not rig.peer(3).dirty
    end(rig, rows[0])
    assert rig.told() == {2: ([], [101]), 3: ([], [101])}
    assert rig.peer(3).dirty  # there is room: the next one comes with the next batch
    assert rig.told() == {3: ([3], [])}
    assert rig.told() == {}
    assert not rig.peer(3).dirty


def test_what_is_told_already_may_change() -> None:
    rig, rows = crowd(room=2, count=3)
    rig.told()
    rows[0].item = subscribe(9, 1, sequence=50)
    rows[0].sent, rows[0].stale = 0, rows[0].sent
    rig.telling.mark(rows[0])
    assert rig.told() == {2: ([50], []), 3: ([50], [])}


def test_what_goes_while_it_waits_is_not_told() -> None:
    rig, rows = crowd(room=1, count=3)
    rig.told()
    end(rig, rows[1])
    assert rig.told() == {2: ([], [102])}
    end(rig, rows[0])
    rig.told()
    assert rig.told() == {3: ([3], [])}


def test_who_is_told_everything_again_hears_what_it_had() -> None:
    rig, rows = crowd(room=2, count=3)
    rig.told()
    rig.telling.mark(rows[2])
    rig.telling.resend(rig.peer(3))
    assert rig.told() == {3: ([1, 2], [])}


def test_what_it_had_and_we_lost_takes_room_until_it_is_withdrawn() -> None:
    rig, rows = crowd(room=2, count=3)
    rig.told()
    rows[0].given, rows[0].primary = 0, NOBODY
    rig.telling.resend(rig.peer(3))
    assert rig.peer(3).offered == 1
    assert rig.told() == {3: ([2, 3], [1])}  # withdrawals go first


def test_room_is_counted_when_enough_was_withdrawn() -> None:
    rig, rows = crowd(room=128, count=130)
    rig.told()
    for row in rows[:2]:
        end(rig, row)
    assert rig.told()[3] == ([], [101, 102])
    assert not rig.peer(3).dirty
    end(rig, rows[2])
    assert rig.told()[3] == ([], [103])
    assert rig.told() == {3: ([129, 130], [])}


def test_what_is_over_or_may_not_be_told_waits_for_no_room() -> None:
    rig, rows = crowd(room=1, count=4)
    rig.told()
    peer = rig.peer(3)
    assert list(peer.withheld) == rows[1:]
    rig.telling.over(rows[1])
    rig.denied.add((3, 3))
    rig.telling.mark(rows[2])
    rig.told()
    assert list(peer.withheld) == [rows[3]]
    rig.telling.leave(peer)
    rig.telling.leave(peer)
    rig.telling.over(rows[3])
    assert list(peer.withheld) == [rows[3]]  # nobody looks at a session that has ended


def test_what_fades_makes_room_when_it_has_faded() -> None:
    rig, rows = crowd(room=2, count=4)
    rig.told()
    peer = rig.peer(3)
    del rig.state.sources[NodeId(9)].records[1]
    assert rig.telling.fade(rows[0]) == [rig.peer(2), peer]
    assert (rows[0].sent, peer.fading) == (0, 1)
    peer.freed += 1  # counted again for another reason: it still has two
    rig.telling.mark(rows[3])
    assert rig.told() == {}
    rig.telling.faded(peer)
    assert peer.fading == 0
    assert rig.told() == {3: ([3], [])}
    assert list(peer.withheld) == [rows[3]]
