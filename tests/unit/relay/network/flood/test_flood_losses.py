"""Entries whose givers go, and whose sources are gone for a while or for good."""

from __future__ import annotations

import random

import pytest

from laps_relay.network.flood.floods import Verdict
from laps_wire.nodeid import NodeId
from testkit.flood_net import FloodNet, Table, subscribe, table, told, unsubscribe


def test_what_a_node_said_before_it_restarted_dies_with_its_epoch() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    made.heard(0.0, 1, subscribe(9, 2))
    made.take_changes()
    told(made)
    made.heard(0.0, 1, subscribe(9, 1, epoch=2))
    made.node_changed(1.0, NodeId(9), 2)
    assert told(made) == {2: ([1], []), 3: ([1], [])}
    assert [entry.stamp.epoch for entry in made.live()] == [2]
    assert [(change.identity[1], change.entry) for change in made.take_changes()] == [
        (1, subscribe(9, 1, epoch=2)),
        (2, None),
    ]


def test_nothing_of_an_unknown_node_is_used_and_it_comes_back_with_it() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    told(made)
    made.take_changes()
    made.node_changed(1.0, NodeId(9), None)
    made.node_changed(1.0, NodeId(9), None)
    assert (made.get((NodeId(9), 1)), list(made.live())) == (None, [])
    assert [change.entry for change in made.take_changes()] == [None]
    assert made.heard(2.0, 1, subscribe(9, 1, sequence=2)) is Verdict.NEWER
    made.node_changed(3.0, NodeId(9), 1)
    assert [change.entry for change in made.take_changes()] == [subscribe(9, 1, sequence=2)]
    assert told(made) == {2: ([2], []), 3: ([2], [])}
    made.node_changed(4.0, NodeId(9), None)
    made.node_changed(5.0, NodeId(9), 1)
    assert told(made) == {}
    # After a long time somebody may have forgotten it.
    made.node_changed(6.0, NodeId(9), None)
    made.node_changed(26.0, NodeId(9), 1)
    assert told(made) == {2: ([2], []), 3: ([2], [])}
    made.node_changed(30.0, NodeId(9), None)
    assert made.poll_timeout() == 60.0
    made.handle_timeout(60.0)
    assert (made.sizes(), made.poll_timeout()) == ((0, 0, 0), 65.0)
    made.handle_timeout(65.0)  # there is room for others now
    assert made.poll_timeout() is None
    assert told(made) == {}
    made.node_changed(71.0, NodeId(1), None)
    assert made.heard(71.0, 2, subscribe(1, 1)) is Verdict.WAITING


def away(made: Table, start: float, end: float) -> None:
    """Node 9 is out of reach for a while."""
    made.node_changed(start, NodeId(9), None)
    made.node_changed(end, NodeId(9), 1)
    made.node_changed(end, NodeId(9), 1)


def test_what_a_giver_may_have_forgotten_must_be_said_again() -> None:
    """Who gave it forgot it, and told nobody, a moment before we would have done the same."""
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=4))
    made.heard(0.0, 1, subscribe(9, 2, sequence=5))
    made.heard(0.0, 2, subscribe(9, 2, sequence=5))
    told(made)
    away(made, 1.0, 1.0 + 29.9)
    assert made.get((NodeId(9), 1)) is not None
    made.heard(31.0, 2, subscribe(9, 2, sequence=5))
    told(made)
    made.handle_timeout(36.0)
    # The first is given by nobody now; the second has one giver less.
    assert told(made) == {2: ([], [4, 5]), 3: ([], [4, 5])}
    made.handle_timeout(36.04)
    assert told(made) == {1: ([5], []), 3: ([5], [])}
    assert made.heard_on((NodeId(9), 2)) == 2
    made.handle_timeout(41.0)
    assert [entry.full_name_hash for entry in made.live()] == [2]
    assert made.poll_timeout() is None


def test_what_is_said_again_before_the_node_is_back_counts() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    made.node_changed(1.0, NodeId(9), None)
    assert made.heard(30.0, 1, subscribe(9, 1)) is Verdict.REPEATED
    made.node_changed(30.5, NodeId(9), 1)
    assert made.poll_timeout() is None


def test_nothing_is_doubted_after_a_short_time() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    away(made, 1.0, 20.0)
    assert made.poll_timeout() is None
    assert list(made.live()) == [subscribe(9, 1)]


def test_a_doubt_outlives_another_short_absence() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    away(made, 1.0, 30.0)
    away(made, 32.0, 33.0)
    assert made.poll_timeout() == 38.0
    made.handle_timeout(38.0)
    made.handle_timeout(43.0)
    assert list(made.live()) == []


def test_a_doubt_ends_with_its_entry_and_with_its_source() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    away(made, 1.0, 30.0)
    made.heard_withdrawal(31.0, 1, unsubscribe(9, 1, sequence=2))
    made.node_changed(32.0, NodeId(9), 2)
    assert (made.sizes(), made.poll_timeout()) == ((0, 0, 0), None)
    made.heard(33.0, 1, subscribe(9, 1, epoch=2))
    away(made, 34.0, 60.0)
    made.remove_session(61.0, 1)
    made.handle_timeout(66.0)
    assert made.sizes() == (0, 0, 0)
    made.node_changed(67.0, NodeId(9), None)
    assert made.poll_timeout() is None


def test_who_may_have_lost_a_node_that_we_know_is_told_again_what_that_said() -> None:
    """Policy kept both from speaking of it, so the peer forgot it and we did not."""
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=4))
    made.heard(0.0, 1, subscribe(9, 2, sequence=5))
    made.heard_withdrawal(0.0, 1, unsubscribe(9, 2, sequence=6))
    made.heard(0.0, 1, subscribe(8, 3, sequence=7))  # of somebody else
    told(made)
    made.spoke(16.0, 2, NodeId(9), 15.0)  # it has not forgotten anything yet
    made.spoke(16.0, 2, NodeId(7), 30.0)
    assert told(made) == {}
    made.spoke(16.1, 2, NodeId(9), 15.1)
    made.spoke(16.1, 1, NodeId(9), 15.1)  # it is the one that gives it
    assert told(made) == {2: ([4], [])}
    assert told(made) == {}
    assert made.heard(16.2, 2, subscribe(9, 1, sequence=4)) is Verdict.REPEATED


def test_who_may_have_lost_a_node_must_say_again_what_that_said() -> None:
    """Otherwise nobody tells it: it is the one from whom we have it."""
    made = table()
    for session in (1, 2):
        made.heard(0.0, session, subscribe(9, 1, sequence=4))
        made.heard(0.0, session, subscribe(9, 2, sequence=5))
    told(made)
    made.spoke(30.0, 1, NodeId(9), 22.5)
    made.spoke(30.0, 2, NodeId(9), 22.6)
    assert made.poll_timeout() == 35.0
    made.heard(31.0, 2, subscribe(9, 1, sequence=4))
    made.handle_timeout(35.0)
    made.spoke(40.0, 1, NodeId(9), 30.0)
    made.heard(41.0, 1, subscribe(9, 2, sequence=5))
    assert told(made) == {2: ([4, 5], [])}  # as long as the first one gives them
    made.handle_timeout(45.0)
    assert told(made) == {2: ([], [4]), 3: ([], [4])}
    made.handle_timeout(45.04)
    assert told(made) == {1: ([4], []), 3: ([4], [])}
    assert made.heard_on((NodeId(9), 1)) == 2
    assert made.heard_on((NodeId(9), 2)) == 1


def test_a_peer_that_speaks_of_a_node_before_it_is_known_is_doubted_when_it_is() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1))
    made.node_changed(1.0, NodeId(9), None)
    made.spoke(25.0, 1, NodeId(9), 24.0)
    assert made.poll_timeout() == 31.0
    made.node_changed(25.0, NodeId(9), 1)
    assert made.poll_timeout() == 30.0
    made.heard(26.0, 1, subscribe(9, 1))
    made.handle_timeout(30.0)
    assert list(made.live()) == [subscribe(9, 1)]
    via = table(reflect=False)
    via.heard(0.0, 1, subscribe(9, 1))
    via.spoke(25.0, 1, NodeId(9), 24.0)  # it forgets, whoever gives it
    assert via.poll_timeout() == 30.0


def test_what_a_session_alone_gave_goes_with_it_after_a_grace() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    made.heard(0.0, 1, subscribe(9, 2, sequence=6))
    made.heard(0.0, 2, subscribe(9, 2, sequence=6))
    made.heard(0.0, 1, subscribe(8, 3, sequence=7))
    told(made)
    made.remove_session(1.0, 1)
    made.remove_session(1.0, 1)
    # Others may have it, and give it when they hear that we do not. What 2 gave is 2's own now.
    taken_back = unsubscribe(9, 1, sequence=5), unsubscribe(9, 2, sequence=6)
    assert made.flush(2) == made.flush(3) == ((), taken_back)
    assert made.poll_timeout() == 1.04
    made.handle_timeout(1.04)
    assert made.flush(2) == ((), ())
    assert made.flush(3) == ((subscribe(9, 2, sequence=6),), ())
    assert made.heard_on((NodeId(9), 1)) is None
    assert made.heard_on((NodeId(9), 2)) == 2
    assert made.get((NodeId(9), 1)) is not None
    assert made.sizes() == (2, 0, 0)
    assert made.heard(2.0, 3, subscribe(9, 1, sequence=5)) is Verdict.REPEATED
    assert made.flush(2) == ((), ())
    made.handle_timeout(2.04)
    assert made.flush(2) == ((subscribe(9, 1, sequence=5),), ())
    assert made.poll_timeout() is None
    made.remove_session(3.0, 3)
    assert made.poll_timeout() == 8.0
    made.take_changes()
    made.handle_timeout(8.0)
    assert [change.identity for change in made.take_changes()] == [(NodeId(9), 1)]
    assert made.flush(2) == ((), (unsubscribe(9, 1, sequence=5),))


def test_answers_go_to_the_source_itself_if_it_is_there() -> None:
    made = table()
    made.heard(0.0, 2, subscribe(3, 1))
    made.heard(0.0, 1, subscribe(3, 1))
    made.heard(0.0, 3, subscribe(3, 1))
    assert made.heard_on((NodeId(3), 1)) == 2
    made.remove_session(1.0, 2)
    assert made.heard_on((NodeId(3), 1)) == 3


def test_what_has_lost_its_primary_rests_unless_its_source_gives_it() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(3, 1, sequence=5))
    made.heard(0.0, 2, subscribe(3, 1, sequence=5))
    assert told(made) == {2: ([5], [])}
    made.heard_withdrawal(1.0, 1, unsubscribe(3, 1, sequence=5))
    assert told(made) == {2: ([], [5])}
    made.heard(1.01, 3, subscribe(3, 1, sequence=5))  # the source, but 2 is the primary
    assert told(made) == {}
    made.heard_withdrawal(1.02, 2, unsubscribe(3, 1, sequence=5))
    assert told(made) == {1: ([5], []), 2: ([5], [])}
    assert made.poll_timeout() is None
    made.heard_withdrawal(2.0, 3, unsubscribe(3, 1, sequence=5))
    made.heard(2.0, 1, subscribe(3, 1, sequence=5))
    assert told(made) == {1: ([], [5]), 2: ([], [5])}
    # Something newer does not rest.
    made.heard(2.01, 2, subscribe(3, 1, sequence=6))
    assert told(made) == {1: ([6], [])}
    made.handle_timeout(3.0)
    assert told(made) == {}


@pytest.mark.parametrize("seed", range(20))
def test_what_its_source_gives_no_more_does_not_go_round_for_ever(seed: int) -> None:
    """Relays that are peers of each other take each other for ways to the source."""
    dice = random.Random(seed)
    net = FloodNet(dice.randint(4, 6))
    others = range(1, len(net.nodes))
    near = dice.sample(others, dice.randint(1, len(others)))
    pairs = [(0, other) for other in near] + [(a, b) for a in others for b in others if a < b]
    dice.shuffle(pairs)
    for pair in pairs:
        net.connect(*pair)
    net.want(0, 1)
    net.settle()
    net.check()
    net.nodes[0].gives = False
    net.nodes[0].table.reconsider()
    for _ in range(200):
        for pair in dice.sample(pairs, len(pairs)):
            for there, back in (pair, pair[::-1]):
                net.flush(net.links[pair], there)
                if dice.random() < 0.7:
                    net.deliver(net.links[pair], back)
        net.advance(0.02)
    assert not any(net.queues.values())
    net.settle()
    for other in others:
        assert list(net.nodes[other].table.live()) == []
    net.nodes[0].gives = True
    net.nodes[0].table.reconsider()
    net.settle()
    net.check()


def test_what_dies_with_its_source_makes_room_a_moment_later() -> None:
    made = table(nodes=(8, 9))
    made.add_session(4, source=NodeId(4), room=2)
    for key in (1, 2):
        made.heard(0.0, 1, subscribe(9, key))
    for key in (3, 4):
        made.heard(0.0, 1, subscribe(8, key))
    assert [entry.full_name_hash for entry in made.flush(4)[0]] == [1, 2]
    made.node_changed(1.0, NodeId(9), 2)  # it has started again
    made.heard(2.0, 1, subscribe(7, 9))
    assert made.flush(4) == ((), ())  # it may not know that yet
    made.handle_timeout(6.0)
    assert made.pending(4)
    assert [entry.full_name_hash for entry in made.flush(4)[0]] == [3, 4]
    # The same when a node is gone for good.
    made.heard(7.0, 1, subscribe(9, 5, epoch=2))
    assert made.flush(4) == ((), ())
    made.node_changed(8.0, NodeId(8), None)
    made.handle_timeout(38.0)
    assert made.flush(4) == ((), ())
    made.handle_timeout(43.0)
    assert [entry.full_name_hash for entry in made.flush(4)[0]] == [5]
    # Whoever ends waits for nothing.
    made.node_changed(44.0, NodeId(9), 3)
    made.remove_session(45.0, 4)
    made.handle_timeout(50.0)
    assert made.poll_timeout() is None
