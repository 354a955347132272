from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laps_relay.network.flood.entries import SubscribeEntries
from laps_relay.network.flood.floods import FloodTable, Verdict
from laps_relay.network.settings import NetworkSettings
from laps_sdk.timers import first_of
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from testkit.flood_net import FloodNet, Table, subscribe, table, told, unsubscribe

# The tables of a network against what is true: who is connected knows exactly the newest stamps.

NODES = 4
nodes = st.integers(0, NODES - 1)
keys = st.integers(0, 2)


class FloodMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.net = FloodNet(NODES)

    @rule(a=nodes, b=nodes)
    def connect(self, a: int, b: int) -> None:
        self.net.connect(a, b)

    @precondition(lambda self: self.net.links)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.net.disconnect(data.draw(st.sampled_from(sorted(self.net.links))))

    @precondition(lambda self: self.net.links)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        self.net.move(data.draw(st.sampled_from(sorted(self.net.links))))

    @rule(node=nodes)
    def restart(self, node: int) -> None:
        self.net.restart(node)

    @rule(node=nodes, key=keys)
    def want(self, node: int, key: int) -> None:
        self.net.want(node, key)

    @rule(node=nodes, key=keys)
    def unwant(self, node: int, key: int) -> None:
        self.net.unwant(node, key)

    @precondition(lambda self: self.net.links)
    @rule(data=st.data(), messages=st.integers(1, 4))
    def work(self, data: st.DataObject, messages: int) -> None:
        pair = data.draw(st.sampled_from(sorted(self.net.links)))
        there, back = data.draw(st.permutations(pair))
        session = self.net.links[pair]
        self.net.flush(session, there)
        for _ in range(messages):
            self.net.deliver(session, back)

    @rule(node=nodes)
    def learn(self, node: int) -> None:
        self.net.learn(node)

    @rule(seconds=st.sampled_from([0.02, 0.5, 6.0, 31.0]))
    def advance(self, seconds: float) -> None:
        self.net.advance(seconds)

    @rule()
    def rest(self) -> None:
        self.net.settle()
        self.net.check()

    @invariant()
    def nothing_of_a_former_life_is_used(self) -> None:
        for node in self.net.nodes:
            assert all(entry.stamp.epoch >= 1 for entry in node.table.live())

    @invariant()
    def the_size_is_what_a_count_gives(self) -> None:
        for node in self.net.nodes:
            live = list(node.table.live())
            assert node.table.size == len(live)
            assert list(node.table.live(2)) == live[2:]
            for key in range(3):
                found = [entry for entry in live if entry.full_name_hash == key]
                assert list(node.table.of_key(key)) == found
            for other in self.net.nodes:
                source = NodeId(other.number)
                theirs = [entry for entry in live if entry.source == source]
                assert list(node.table.of_source(source)) == theirs

    def teardown(self) -> None:
        net = self.net
        net.settle()
        net.check()
        at_baseline(net)


TestFloods = FloodMachine.TestCase
TestFloods.settings = settings(stateful_step_count=40)


@pytest.mark.parametrize("seed", range(40))
def test_who_is_connected_knows_exactly_the_newest_stamps(seed: int) -> None:
    dice = random.Random(seed)
    net = FloodNet(dice.randint(3, 6))
    everybody = range(len(net.nodes))

    def work() -> None:
        for _ in range(dice.randint(1, 12)):
            if net.links:
                pair = dice.choice(sorted(net.links))
                there, back = dice.sample(pair, 2)
                net.flush(net.links[pair], there)
                for _ in range(dice.randint(0, 5)):
                    net.deliver(net.links[pair], back)

    def rest() -> None:
        net.settle()
        net.check()

    def with_a_link(do: Callable[[tuple[int, int]], None]) -> Callable[[], None]:
        return lambda: do(dice.choice(sorted(net.links))) if net.links else None

    steps: list[tuple[int, Callable[[], None]]] = [
        (5, lambda: net.connect(dice.choice(everybody), dice.choice(everybody))),
        (2, with_a_link(net.disconnect)),
        (1, with_a_link(net.move)),
        (1, lambda: net.restart(dice.choice(everybody))),
        (6, lambda: net.want(dice.choice(everybody), dice.randint(0, 2))),
        (4, lambda: net.unwant(dice.choice(everybody), dice.randint(0, 2))),
        (12, work),
        (6, lambda: net.learn(dice.choice(everybody))),
        (3, lambda: net.advance(dice.choice([0.02, 0.5, 6.0, 12.0, 29.0, 31.0]))),
        (2, rest),
    ]
    weights = [weight for weight, _ in steps]
    for _, step in dice.choices(steps, weights, k=150):
        step()
    rest()
    at_baseline(net)


def at_baseline(net: FloodNet) -> None:
    for index, node in enumerate(net.nodes):
        for key in list(node.own):
            net.unwant(index, key)
    net.settle()
    net.check()
    net.advance(200.0)
    for node in net.nodes:
        assert node.table.sizes() == (0, 0, 0)
        assert node.table.poll_timeout() is None


# Rules, one by one: a table with sessions 1 to 3 to nodes 1 to 3, all known with epoch 1.


def test_the_highest_stamp_is_true_and_nothing_older_is_passed_on() -> None:
    made = table()
    assert made.heard(0.0, 1, subscribe(9, 1, sequence=5)) is Verdict.NEWER
    assert made.heard(0.0, 2, subscribe(9, 1, sequence=4)) is Verdict.STALE
    assert made.heard(0.0, 2, subscribe(9, 1, sequence=5)) is Verdict.REPEATED
    assert told(made) == {2: ([5], []), 3: ([5], [])}
    assert made.heard(0.0, 2, subscribe(9, 1, sequence=6)) is Verdict.NEWER
    assert told(made) == {1: ([6], []), 3: ([6], [])}
    assert made.heard_withdrawal(0.0, 1, unsubscribe(9, 1, sequence=5)) is Verdict.STALE
    assert made.heard_on((NodeId(9), 1)) == 2
    assert [entry.stamp.sequence for entry in made.live()] == [6]
    [change] = made.take_changes()
    assert change == ((NodeId(9), 1), subscribe(9, 1, sequence=6), None)
    assert made.take_changes() == []


def test_stamps_are_pairs() -> None:
    made = table(nodes=())
    made.node_changed(0.0, NodeId(9), 2)
    assert made.heard(0.0, 1, subscribe(9, 1, epoch=2, sequence=1)) is Verdict.NEWER
    assert made.heard(0.0, 2, subscribe(9, 1, epoch=1, sequence=99)) is Verdict.STALE
    assert made.heard_withdrawal(0.0, 2, unsubscribe(9, 1, epoch=1, sequence=99)) is Verdict.STALE


def test_a_withdrawal_is_remembered_for_the_convergence_time() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    told(made)
    assert made.heard_withdrawal(0.0, 1, unsubscribe(9, 1, sequence=6)) is Verdict.NEWER
    assert told(made) == {2: ([], [6]), 3: ([], [6])}
    assert made.get((NodeId(9), 1)) is None
    # Somebody who has not heard of it yet is told.
    assert made.heard(1.0, 2, subscribe(9, 1, sequence=5)) is Verdict.STALE
    assert told(made) == {2: ([], [6])}
    assert made.heard_withdrawal(1.0, 2, unsubscribe(9, 1, sequence=6)) is Verdict.REPEATED
    assert made.poll_timeout() == 30.0
    assert first_of(made.clocks) == 30.0
    assert made.sizes() == (0, 0, 1)
    made.handle_timeout(30.0)
    assert (made.sizes(), made.poll_timeout()) == ((0, 0, 0), None)
    # The end of something never heard of is remembered, too, and told to nobody.
    made.heard_withdrawal(40.0, 1, unsubscribe(9, 7, sequence=8))
    assert made.sizes() == (0, 0, 1)
    assert told(made) == {}
    assert made.heard(41.0, 3, subscribe(9, 7, sequence=7)) is Verdict.STALE


def test_the_source_is_not_corrected() -> None:
    made = table()
    made.heard_withdrawal(0.0, 2, unsubscribe(1, 1, sequence=6))
    assert made.heard(0.0, 1, subscribe(1, 1, sequence=5)) is Verdict.STALE
    assert told(made) == {}


def test_nothing_is_our_own_but_what_we_say() -> None:
    made = table()
    assert made.heard(0.0, 1, subscribe(100, 1, epoch=9)) is Verdict.OWN
    assert made.heard_withdrawal(0.0, 1, unsubscribe(100, 1, epoch=9)) is Verdict.OWN
    made.node_changed(0.0, NodeId(100), None)
    made.originate(0.0, subscribe(100, 1, sequence=3))
    assert told(made) == {1: ([3], []), 2: ([3], []), 3: ([3], [])}
    made.originate(0.0, subscribe(100, 1, sequence=4))
    made.retract(1.0, unsubscribe(100, 1, sequence=5))
    assert told(made) == {1: ([], [5]), 2: ([], [5]), 3: ([], [5])}
    made.add_session(4, source=NodeId(4))
    assert made.flush(4) == ((), (unsubscribe(100, 1, sequence=5),))
    made.originate(2.0, subscribe(100, 1, sequence=6))
    assert made.heard_on((NodeId(100), 1)) is None
    assert told(made) == {1: ([6], []), 2: ([6], []), 3: ([6], [])}
    assert made.poll_timeout() is None
    made.retract(3.0, unsubscribe(100, 2, sequence=7))
    assert made.poll_timeout() == 3.0 + 1.0 + 60.0
    made.handle_timeout(78.0)
    assert made.sizes() == (1, 0, 0)


def test_an_entry_waits_for_its_node_and_for_its_epoch() -> None:
    made = table(nodes=())
    assert made.heard(0.0, 1, subscribe(9, 1, epoch=2)) is Verdict.WAITING
    assert (made.get((NodeId(9), 1)), told(made), made.sizes()) == (None, {}, (0, 1, 0))
    made.node_changed(1.0, NodeId(9), 1)
    assert made.sizes() == (0, 1, 0)
    made.node_changed(2.0, NodeId(9), 2)
    assert made.get((NodeId(9), 1)) == subscribe(9, 1, epoch=2)
    assert told(made) == {2: ([1], []), 3: ([1], [])}
    # Nobody can remove it by inventing an epoch.
    assert made.heard_withdrawal(3.0, 2, unsubscribe(9, 1, epoch=77)) is Verdict.WAITING
    assert made.heard(3.0, 2, subscribe(9, 5, epoch=77)) is Verdict.WAITING
    assert made.get((NodeId(9), 1)) is not None
    assert made.poll_timeout() == 33.0
    made.handle_timeout(33.0)
    assert made.sizes() == (1, 0, 0)


def test_a_withdrawal_with_the_stamp_of_an_entry_says_that_the_sender_has_it_no_more() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    told(made)
    made.heard(0.0, 2, subscribe(9, 1, sequence=5))
    assert made.heard_withdrawal(1.0, 3, unsubscribe(9, 1, sequence=5)) is Verdict.TAKEN_BACK
    assert told(made) == {}
    assert made.heard_withdrawal(1.0, 1, unsubscribe(9, 1, sequence=5)) is Verdict.TAKEN_BACK
    assert made.heard_on((NodeId(9), 1)) == 2
    assert told(made) == {2: ([], [5]), 3: ([], [5])}
    made.handle_timeout(1.04)
    assert told(made) == {1: ([5], []), 3: ([5], [])}
    assert made.heard_withdrawal(1.05, 2, unsubscribe(9, 1, sequence=5)) is Verdict.TAKEN_BACK
    assert told(made) == {1: ([], [5]), 3: ([], [5])}
    made.handle_timeout(6.05)
    assert made.sizes() == (0, 0, 0)
    # Where nothing else was known it looks like an end; the source's word is stronger.
    made.heard_withdrawal(7.0, 1, unsubscribe(9, 1, sequence=5))
    assert made.heard(8.0, 2, subscribe(9, 1, sequence=5)) is Verdict.NEWER
    assert made.get((NodeId(9), 1)) is not None


def test_at_the_end_of_a_synchronisation_what_was_not_said_again_is_forgotten() -> None:
    made = table(nodes=(1, 2, 3, 9))
    made.sync_began(1)
    for key in (1, 2, 3):
        made.heard(0.0, 1, subscribe(9, key, sequence=key))
    made.heard(0.0, 2, subscribe(9, 2, sequence=2))
    made.heard(0.0, 1, subscribe(8, 4))
    made.heard_withdrawal(0.0, 1, unsubscribe(9, 6, sequence=9))
    made.sync_ended(0.0, 1)
    made.sync_ended(0.0, 1)
    told(made)
    assert made.sizes() == (3, 1, 1)
    made.sync_began(1)
    made.heard(1.0, 1, subscribe(9, 3, sequence=3))
    made.heard(1.0, 1, subscribe(9, 5, sequence=10))
    made.sync_ended(1.0, 1)
    assert {entry.full_name_hash for entry in made.live()} == {2, 3, 5}
    assert made.sizes() == (3, 0, 1)
    left_out = unsubscribe(9, 1, sequence=1), unsubscribe(9, 2, sequence=2)
    assert made.flush(3) == ((subscribe(9, 5, sequence=10),), left_out)
    made.handle_timeout(1.04)  # the second one has another giver
    assert made.flush(3) == ((subscribe(9, 2, sequence=2),), ())


def test_what_a_giver_has_just_lost_has_its_grace_also_if_everything_is_told_again() -> None:
    """A session ends, and the next message to another peer is a synchronisation (seed 3125)."""
    giver, taker = table(nodes=(1, 2, 3, 9)), table(nodes=(1, 2, 3, 9))
    giver.heard(0.0, 1, subscribe(9, 1, sequence=5))
    for entry in giver.flush(3)[0]:
        taker.heard(0.0, 1, entry)
    giver.remove_session(1.0, 1)
    giver.resend(3)
    taker.sync_began(1)
    entries, withdrawals = giver.flush(3)
    assert entries == ()
    for withdrawal in withdrawals:
        taker.heard_withdrawal(1.0, 1, withdrawal)
    taker.sync_ended(1.0, 1)
    assert taker.get((NodeId(9), 1)) is not None
    taker.handle_timeout(6.0)
    assert taker.get((NodeId(9), 1)) is None


def test_what_a_giver_does_not_use_now_has_its_grace_also_if_everything_is_told_again() -> None:
    """The giver does not know its source for a moment; the taker knows it from somebody else."""
    giver, taker = table(nodes=(1, 2, 3, 9)), table(nodes=(1, 2, 3, 9))
    giver.heard(0.0, 1, subscribe(9, 1, sequence=5))
    for entry in giver.flush(3)[0]:
        taker.heard(0.0, 1, entry)
    giver.node_changed(1.0, NodeId(9), None)
    giver.resend(3)
    taker.sync_began(1)
    entries, withdrawals = giver.flush(3)
    assert entries == ()
    for withdrawal in withdrawals:
        taker.heard_withdrawal(1.0, 1, withdrawal)
    taker.sync_ended(1.0, 1)
    assert taker.get((NodeId(9), 1)) is not None
    giver.node_changed(2.0, NodeId(9), 1)
    for entry in giver.flush(3)[0]:
        taker.heard(2.0, 1, entry)
    taker.handle_timeout(9.0)
    assert taker.get((NodeId(9), 1)) is not None


def test_more_than_was_agreed_ends_the_session() -> None:
    made = table(most=2)
    made.heard(0.0, 1, subscribe(9, 1))
    made.heard(0.0, 1, subscribe(8, 1))
    assert made.given(1) == 2
    with pytest.raises(LimitExceededError, match="more than 2 entries from one peer"):
        made.heard(0.0, 1, subscribe(9, 2))
    with pytest.raises(LimitExceededError):
        made.heard(0.0, 1, subscribe(8, 2))
    assert made.heard(0.0, 1, subscribe(9, 1, sequence=2)) is Verdict.NEWER
    assert made.heard(0.0, 2, subscribe(9, 2)) is Verdict.NEWER
    with pytest.raises(LimitExceededError):
        made.heard(0.0, 1, subscribe(9, 2))
    assert made.sizes() == (2, 1, 0)


def test_more_withdrawals_than_are_remembered() -> None:
    """Who passes them on did not make them: its session stays, and they work all the same."""
    made = table(most=2)
    made.heard(0.0, 1, subscribe(9, 1))
    assert [change.entry for change in made.take_changes()] == [subscribe(9, 1)]
    made.flush(3)
    for key in (5, 6):
        made.heard_withdrawal(0.0, 2, unsubscribe(9, key))
    assert made.heard_withdrawal(0.0, 2, unsubscribe(9, 7)) is Verdict.STALE
    assert made.sizes() == (1, 0, 2)
    assert made.heard_withdrawal(0.0, 2, unsubscribe(9, 1, sequence=2)) is Verdict.NEWER
    assert made.sizes() == (0, 0, 2)
    assert made.flush(3) == ((), (unsubscribe(9, 1, sequence=2),))
    assert [change.entry for change in made.take_changes()] == [None]
    assert made.heard_withdrawal(0.0, 2, unsubscribe(9, 5, sequence=2)) is Verdict.NEWER
    assert made.heard(0.0, 2, subscribe(9, 8)) is Verdict.NEWER


def test_a_session_is_told_no_more_than_it_takes() -> None:
    made = table()
    made.add_session(4, source=NodeId(4), room=2)
    for key in (1, 2, 3):
        made.heard(0.0, 1, subscribe(9, key))
    assert [entry.full_name_hash for entry in made.flush(4)[0]] == [1, 2]
    assert len(made.flush(3)[0]) == 3
    assert not made.pending(4)


def test_what_ends_waits_for_no_room() -> None:
    made = table()
    made.add_session(4, source=NodeId(4), room=1)
    for sequence in (1, 3, 5):
        made.heard(0.0, 1, subscribe(9, sequence, sequence=sequence))
    made.originate(0.0, subscribe(100, 1, sequence=1))
    made.flush(4)
    [peer] = [each for each in made._state.peers.values() if each.session == 4]
    assert len(peer.withheld) == 3
    made.heard_withdrawal(1.0, 1, unsubscribe(9, 3, sequence=4))
    made.retract(1.0, unsubscribe(100, 1, sequence=2))
    assert len(peer.withheld) == 1
    made.sync_began(1)
    made.heard(2.0, 1, subscribe(9, 1, sequence=1))
    made.sync_ended(2.0, 1)
    assert len(peer.withheld) == 0


def test_withdrawals_that_waited_do_not_pass_the_cap() -> None:
    made = table(most=2, nodes=(9,))
    for key in (1, 2):
        made.heard_withdrawal(0.0, 1, unsubscribe(9, key))
        made.heard_withdrawal(0.0, 1, unsubscribe(8, key))
    made.node_changed(0.0, NodeId(8), 1)
    assert made.sizes() == (0, 0, 2)


def test_a_via_that_does_not_reflect_remembers_for_the_convergence_time_only() -> None:
    made = table(reflect=False)
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    assert told(made) == {2: ([5], []), 3: ([5], [])}
    assert made.heard(1.0, 2, subscribe(9, 1, sequence=5)) is Verdict.REPEATED
    made.handle_timeout(30.0)
    assert made.sizes() == (1, 0, 0)
    made.handle_timeout(31.0)
    assert made.sizes() == (0, 0, 0)
    assert told(made) == {}
    # It cannot know who was told, so an end goes to all.
    made.heard_withdrawal(40.0, 1, unsubscribe(9, 1, sequence=6))
    assert told(made) == {2: ([], [6]), 3: ([], [6])}
    made.handle_timeout(70.0)
    assert (made.sizes(), made.poll_timeout()) == ((0, 0, 0), None)
    made.heard(80.0, 1, subscribe(9, 2, sequence=7))
    made.remove_session(81.0, 1)
    assert made.heard(82.0, 2, subscribe(9, 2, sequence=7)) is Verdict.REPEATED
    assert made.heard_on((NodeId(9), 2)) == 2
    made.handle_timeout(112.0)
    assert made.sizes() == (0, 0, 0)


def test_export_rules_change() -> None:
    denied: set[int] = set()
    made: Table = FloodTable(
        SubscribeEntries(NodeId(100)),
        NetworkSettings(),
        exports=lambda session, _: session not in denied,
    )
    made.node_changed(0.0, NodeId(9), 1)
    for session in (1, 2, 3):
        made.add_session(session, source=NodeId(session))
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    assert told(made) == {2: ([5], []), 3: ([5], [])}
    assert not made.pending(2)
    assert not made.is_behind()
    denied |= {2, 3}
    made.reconsider(2)
    assert made.pending(2)
    assert made.is_behind()
    assert told(made) == {2: ([], [5])}
    made.reconsider()
    assert told(made) == {3: ([], [5])}
    denied.clear()
    made.offer(3, [(NodeId(9), 1), (NodeId(9), 2)])
    assert told(made) == {3: ([5], [])}
    made.resend(3)
    assert told(made) == {3: ([5], [])}


def test_a_session_is_in_the_table_once() -> None:
    made = table()
    with pytest.raises(StateError, match="session 1 is in the table already"):
        made.add_session(1, source=None)
    with pytest.raises(StateError, match="session 7 is not in the table"):
        made.heard(0.0, 7, subscribe(9, 1))


def test_sessions_come_and_go_without_end() -> None:
    made = table()
    made.heard(0.0, 1, subscribe(9, 1, sequence=5))
    for session in range(10, 210):
        made.add_session(session, source=None)
        assert made.flush(session) == ((subscribe(9, 1, sequence=5),), ())
        made.remove_session(1.0, session)
    assert made.get((NodeId(9), 1)) is not None
    made.heard_withdrawal(2.0, 1, unsubscribe(9, 1, sequence=6))
    assert told(made) == {}


def test_edges_hear_each_other_through_vias_that_keep_nothing() -> None:
    net = FloodNet(4)
    for via in (1, 2):
        net.nodes[via].settings = NetworkSettings(reflect=False)
        net.restart(via)
    for pair in ((0, 1), (1, 2), (2, 3), (0, 2)):
        net.connect(*pair)
    net.settle()
    net.want(0, 0)
    net.want(3, 1)
    net.drain()
    net.check()
    net.advance(40.0)
    for via in (1, 2):
        assert net.nodes[via].table.sizes() == (0, 0, 0)
    for edge, keys_used in ((0, {0, 1}), (3, {0, 1})):
        assert {entry.full_name_hash for entry in net.nodes[edge].table.live()} == keys_used
    net.unwant(0, 0)
    net.drain()
    assert {entry.full_name_hash for entry in net.nodes[3].table.live()} == {1}
    at_baseline(net)


# Looking entries up, and their changes


def test_what_can_be_used_is_found_in_every_way() -> None:
    made = table()
    for source, key, sequence in ((1, 7, 1), (1, 8, 2), (2, 7, 1), (5, 7, 1)):
        made.heard(0.0, 1, subscribe(source, key, sequence=sequence))
    made.heard_withdrawal(0.0, 1, unsubscribe(1, 8, sequence=3))
    assert [entry.source for entry in made.live()] == [1, 2]
    assert [entry.source for entry in made.live(1)] == [2]
    assert list(made.live(2)) == []
    assert [entry.source for entry in made.of_key(7)] == [1, 2]
    assert list(made.of_key(8)) == []
    assert [entry.full_name_hash for entry in made.of_source(NodeId(1))] == [7]
    assert list(made.of_source(NodeId(5))) == []
    assert made.size == 2
    assert made.sizes() == (2, 1, 1)
    assert made.given(1) == 3


def test_changes_are_told_once_and_those_that_end_where_they_began_are_none() -> None:
    made = table()
    node, entry = NodeId(1), subscribe(1, 7)
    identity = (node, 7)
    assert (made.get(identity), made.heard_on(identity)) == (None, None)
    assert made.get((NodeId(77), 7)) is None
    quiet = made.has_changes
    made.heard(0.0, 2, entry)
    assert (quiet, made.has_changes) == (False, True)
    assert made.take_changes() == [(identity, entry, None)]
    assert made.take_changes() == []
    assert (made.get(identity), made.heard_on(identity)) == (entry, 2)
    made.node_changed(0.0, node, None)
    assert (made.get(identity), made.size) == (None, 0)
    assert [*made.live(), *made.of_key(7), *made.of_source(node)] == []
    made.node_changed(0.0, node, 1)
    assert (made.get(identity), made.size) == (entry, 1)
    assert made.take_changes() == []
    made.heard_withdrawal(0.0, 2, unsubscribe(1, 7, sequence=2))
    assert made.take_changes() == [(identity, None, entry)]


# Entries whose givers go, and whose sources are gone for a while or for good


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
