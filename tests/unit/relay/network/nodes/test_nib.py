"""The node information base: what it learns, chooses and sends, and which paths are usable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_relay.network.nodes.nib import Nib, PathFinder
from laps_relay.network.nodes.node_table import Changes, Fault
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY, OpenPolicy, RulePolicy
from laps_relay.policy.facts import NodePattern
from laps_relay.policy.interface import NodeInfoLookup
from laps_relay.policy.rules import Fence, Link, Rules
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import first_of
from laps_wire.errors import StateError
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import Load, LoadClass, NodeInfo, NodeSelf, RelayType
from testkit.nib_net import (
    BERLIN,
    TOKYO,
    WE,
    NibNet,
    key_of,
    located,
    nib_of,
    node_info,
    told,
    with_peers,
)
from testkit.paths import Directory, describe
from testkit.properties import examples

P, Q, R, X, Y = (NodeId(number) for number in (1, 2, 3, 8, 9))
SETTINGS = NetworkSettings()


# What is told


def test_we_tell_of_ourselves_and_of_others_with_ourselves_appended() -> None:
    nib = with_peers(P, Q)
    assert nib.pending(0.0, P)
    assert told(nib, P) == ({WE: (), Q: (WE,)}, [])
    assert not nib.pending(0.0, P)
    assert told(nib, P) == ({}, [])
    assert nib.advertised_to(P, Q)
    assert not nib.advertised_to(P, X)
    assert not nib.advertised_to(X, Q)
    assert told(nib, X) == ({}, [])
    assert not nib.pending(0.0, X)
    assert nib.is_behind(0.0)
    told(nib, Q)
    assert not nib.is_behind(0.0)
    nib.resend(P)
    assert nib.is_behind(0.0)


def test_why_a_node_is_forgotten() -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert nib.take_changes().lost == {}
    nib.withdrawn(0.0, P, [X])
    news = nib.has_changes
    assert nib.take_changes().lost == {X: "withdrawn"}
    assert (news, nib.has_changes) == (True, False)
    assert nib.take_changes().lost == {}


def test_what_is_said_of_peers_that_are_gone_is_nothing() -> None:
    nib = with_peers(P)
    nib.remove_peer(0.0, P)
    nib.remove_peer(0.0, P)
    assert nib.advertised(0.0, P, [node_info(X, (P, 1))]) == []
    nib.withdrawn(0.0, P, [X])
    assert nib.nodes() == []
    assert nib.poll_timeout() is None


# Silences


class Barred(OpenPolicy):
    """Nothing goes through a relay."""

    __slots__ = ()

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        return Refusal("transit", "no relay may be passed") if info.path else None


def test_how_long_neither_told_the_other_of_a_node() -> None:
    nib = with_peers(P, Q)
    told(nib, P)
    told(nib, Q)
    nib.advertised(1.0, P, [node_info(X, (P, 1_000))])
    told(nib, P, 1.0)
    told(nib, Q, 1.0)
    assert nib.take_spoken(P) == nib.take_spoken(Q) == nib.take_spoken(R) == {}
    # Q still hears of it, but not from us; P tells us.
    nib.set_policy(10.0, Barred())
    assert told(nib, Q, 10.0) == ({}, [X])
    nib.set_policy(26.0, OPEN_POLICY)
    assert told(nib, P, 26.0) == ({}, [])
    assert told(nib, Q, 26.0) == ({X: (P, WE)}, [])
    assert nib.take_spoken(P) == {}
    assert nib.take_spoken(Q) == {X: 16.0}
    assert nib.take_spoken(Q) == {}
    nib.set_policy(30.0, Barred())
    told(nib, Q, 30.0)
    nib.set_policy(45.0, OPEN_POLICY)
    told(nib, Q, 45.0)
    assert nib.take_spoken(Q) == {}  # not long


def test_a_peer_that_tells_of_a_node_ends_a_silence_and_so_do_we() -> None:
    nib = with_peers(P, Q)
    for peer in (P, Q):
        told(nib, peer)
    nib.advertised(100.0, P, [node_info(X, (P, 1_000))])
    assert nib.take_spoken(P) == {X: 100.0}  # since the session began
    nib.advertised(100.0, P, [node_info(X, (P, 2_000))])
    nib.advertised(100.0, Q, [node_info(X, (Y, 1), (Q, 1_000))])
    told(nib, Q, 100.0)
    assert nib.take_spoken(Q) == {X: 100.0}
    nib.withdrawn(110.0, P, [X])
    nib.withdrawn(110.0, P, [X])
    told(nib, P, 110.0)  # the way of Q
    nib.withdrawn(120.0, Q, [X])
    for peer in (P, Q):
        told(nib, peer, 120.0)
    nib.advertised(136.0, Q, [node_info(X, (Q, 1_000))])
    told(nib, P, 136.0)
    assert nib.take_spoken(P) == {X: 16.0}
    assert nib.take_spoken(Q) == {X: 16.0}
    nib.remove_peer(140.0, Q)
    told(nib, P, 140.0)
    nib.add_peer(150.0, Q, node_info(Q), srtt_us=1_000, forwards=True)
    nib.advertised(156.0, Q, [node_info(X, (Q, 1_000))])
    assert nib.take_spoken(Q) == {}


# Choosing


def test_a_control_server_tells_everybody_of_everybody() -> None:
    control = Nib(node_info(WE, kind=RelayType.CONTROL), SETTINGS, policy=OPEN_POLICY)
    for peer in (P, Q):
        control.add_peer(0.0, peer, node_info(peer), srtt_us=10_000, forwards=False)
    control.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert control.best(X) is None
    assert told(control, Q) == ({WE: (), P: (WE,), X: (P, WE)}, [])
    control.set_self(0.0, node_info(WE, sequence=2))
    assert told(control, Q) == ({WE: ()}, [P, X])


def test_a_lost_way_becomes_an_advertisement_of_the_alternate() -> None:
    nib = with_peers(P, Q, R)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.advertised(0.0, Q, [node_info(X, (Y, 1_000), (Q, 1_000))])
    assert told(nib, R)[0][X] == (P, WE)
    nib.withdrawn(0.0, P, [X])
    assert told(nib, R) == ({X: (Y, Q, WE)}, [])
    nib.withdrawn(0.0, Q, [X])
    assert told(nib, R) == ({}, [X])


def test_a_best_way_that_moves_to_a_peer_is_withdrawn_from_it() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (Y, 1_000), (P, 1_000))])
    assert told(nib, P)[0] == {WE: (), Q: (WE,)}
    assert told(nib, Q)[0] == {WE: (), P: (WE,), X: (Y, P, WE)}
    nib.advertised(0.0, Q, [node_info(X, (Q, 1_000))])
    assert told(nib, P) == ({X: (Q, WE)}, [])
    assert told(nib, Q) == ({}, [X])


def test_nothing_is_told_to_a_node_on_the_path() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (Q, 1_000), (P, 1_000))])
    assert told(nib, Q)[0] == {WE: (), P: (WE,)}


def test_a_path_of_sixteen_is_used_and_not_passed_on() -> None:
    nib = with_peers(P, Q)
    path = [(100 + hop, 1_000) for hop in range(15)]
    nib.advertised(0.0, P, [node_info(X, *path, (P, 1_000))])
    assert nib.best(X) is not None
    assert told(nib, Q)[0] == {WE: (), P: (WE,)}
    nib.advertised(0.0, P, [node_info(X, *path[1:], (P, 1_000))])
    assert len(told(nib, Q)[0][X]) == 16
    nib.advertised(0.0, P, [node_info(X, *path, (P, 1_000))])
    assert told(nib, Q) == ({}, [X])


def test_a_change_and_its_opposite_are_nothing() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    told(nib, Q)
    nib.withdrawn(0.0, P, [X])
    assert nib.pending(0.0, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert told(nib, Q) == ({}, [])


# Stamps, epochs, keys


def test_the_newest_self_part_counts_whoever_says_it() -> None:
    nib = with_peers(P, Q, R)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), sequence=5, region="old")])
    nib.advertised(0.0, Q, [node_info(X, (Y, 1_000), (Q, 1_000), sequence=7, region="new")])
    info, best = nib.info(X), nib.best(X)
    assert info is not None
    assert best is not None
    assert (info.node.region, best.peer) == ("new", P)
    exported = {each.node.node_id: each for each in nib.flush(0.0, R)[0]}[X]
    assert (exported.node.region, len(exported.path)) == ("old", 2)
    nib.take_changes()
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), sequence=4, region="older")])
    info = nib.info(X)
    assert info is not None
    assert info.node.region == "new"
    assert nib.take_changes() == Changes([X], [])
    nib.withdrawn(0.0, Q, [X])
    info = nib.info(X)
    assert info is not None
    assert info.node.region == "older"
    assert nib.take_changes() == Changes([], [X], [X])


@pytest.mark.parametrize("links", [[(1, 2), (2, 3), (3, 4)], [(1, 2), (2, 3), (3, 1), (3, 4)]])
@pytest.mark.parametrize("sequence", [2, 10_000])
def test_what_somebody_invents_of_a_node_goes_with_him_everywhere(
    links: list[tuple[int, int]], sequence: int
) -> None:
    net = NibNet(4, SETTINGS)
    for a, b in links:
        net.up(a, b, 1_000)
    net.rest(1_000)
    liar = NodeId(66)
    net.nibs[4].add_peer(net.now, liar, node_info(liar), srtt_us=1, forwards=True)
    draining = Load(LoadClass.DRAINING)
    lie = node_info(1, (liar, 1), sequence=sequence, load=draining, region="nowhere")
    net.nibs[4].advertised(net.now, liar, [lie])
    net.rest(1_000)
    # The truth may have the same stamp.
    net.load(1, Load(LoadClass.BUSY))
    net.rest(1_000)
    net.nibs[4].remove_peer(net.now, liar)
    net.rest(1_000)
    net.check()
    for nib in net.nibs.values():
        info = nib.info(NodeId(1))
        assert info is not None
        assert info.node == net.infos[1].node


def test_a_later_epoch_wins_and_an_invented_one_goes_with_who_says_it() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), epoch=5)])
    nib.take_changes()
    nib.advertised(0.0, Q, [node_info(X, (Y, 1), (Q, 1_000), epoch=9)])
    best = nib.best(X)
    assert best is not None
    assert (best.peer, nib.epoch(X)) == (Q, 9)
    assert [way.peer for way in nib.candidates(X)] == [Q]
    assert nib.take_changes() == Changes([X], [X])
    nib.remove_peer(0.0, Q)
    best = nib.best(X)
    assert best is not None
    assert (best.peer, nib.epoch(X)) == (P, 5)
    assert nib.take_changes() == Changes([Q, X], [Q, X], lost={Q: "session_closed"})


def test_a_control_server_may_know_of_a_restart_first() -> None:
    nib = with_peers(P, R)
    nib.add_peer(0.0, Q, node_info(Q, kind=RelayType.CONTROL), srtt_us=1, forwards=False)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), epoch=5)])
    nib.advertised(0.0, Q, [node_info(X, (Q, 1_000), epoch=6)])
    assert nib.epoch(X) == 6
    assert nib.best(X) is not None
    exported = {each.node.node_id: each for each in nib.flush(0.0, R)[0]}[X]
    assert exported.node.stamp.epoch == 5


def test_another_key_is_refused_and_reported() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), signature=key_of("a"))])
    reports = nib.advertised(0.0, Q, [node_info(X, (Q, 1), epoch=9, signature=key_of("b"))])
    assert [(each.fault, each.peer, each.node) for each in reports] == [(Fault.KEY_CONFLICT, Q, X)]
    best = nib.best(X)
    assert best is not None
    assert best.peer == P
    assert nib.fingerprint(X) == b"a" * 32
    assert nib.advertised(0.0, Q, [node_info(X, (Q, 1), epoch=9, signature=key_of("a"))]) == []
    assert nib.epoch(X) == 9


def test_an_id_that_nobody_holds_any_more_is_free_for_another_key() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), signature=key_of("a"))])
    nib.withdrawn(0.0, P, [X])
    assert nib.advertised(0.0, Q, [node_info(X, (Q, 1), signature=key_of("b"))]) == []
    assert nib.fingerprint(X) == b"b" * 32
    assert nib.fingerprint(Y) is None


# What is not believed


def test_our_own_id_on_the_path_is_a_withdrawal() -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert nib.advertised(0.0, P, [node_info(X, (WE, 1_000), (P, 1_000))]) == []
    assert nib.best(X) is None


def test_entries_about_ourselves_are_not_used() -> None:
    nib = with_peers(P)
    assert nib.advertised(0.0, P, [node_info(WE, (P, 1))]) == []
    reports = nib.advertised(0.0, P, [node_info(WE, (P, 1), epoch=2)])
    assert [each.fault for each in reports] == [Fault.OWN_ID]
    assert nib.best(WE) is None
    assert nib.epoch(WE) == 1
    assert nib.nodes() == [P]


@pytest.mark.parametrize(
    "entry",
    [
        node_info(X, (P, 1), (Y, 1)),
        node_info(X),
        node_info(X, (Y, 1), (Y, 1), (P, 1)),
        node_info(X, (P, 1), kind=RelayType.STUB),
        node_info(0, (P, 1)),
    ],
)
def test_a_misfit_replaces_what_was_said_before_and_is_not_used(entry: NodeInfo) -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert len(nib.advertised(0.0, P, [entry])) == 1
    assert nib.best(NodeId(0)) is None
    if entry.node.node_id == X:
        assert nib.best(X) is None


def test_a_peer_that_says_nonsense_of_itself_is_still_there() -> None:
    nib = with_peers(P)
    reports = nib.advertised(0.0, P, [node_info(P, (P, 1), sequence=2)])
    assert [each.fault for each in reports] == [Fault.BAD_PATH]
    nib.withdrawn(0.0, P, [P])
    assert nib.best(P) is not None
    assert nib.advertised(0.0, P, [node_info(P, sequence=3, region="r")]) == []
    assert nib.advertised(0.0, P, [node_info(P, sequence=2, region="q")]) == []
    info = nib.info(P)
    assert info is not None
    assert info.node.region == "r"


def test_a_way_that_is_faster_than_light_is_not_believed() -> None:
    nib = located()
    reports = nib.advertised(0.0, P, [node_info(X, (P, 1), location=TOKYO)])
    assert [each.fault for each in reports] == [Fault.IMPLAUSIBLE]
    assert nib.best(X) is None
    assert nib.advertised(0.0, P, [node_info(X, (P, 100_000), location=TOKYO)]) == []
    assert nib.best(X) is not None
    nib = located(light_time=False)
    assert nib.advertised(0.0, P, [node_info(X, (P, 1), location=TOKYO)]) == []


def test_a_peer_whose_place_cannot_be_true_is_reported_and_stays() -> None:
    nib = located()
    reports = nib.advertised(0.0, P, [node_info(P, location=TOKYO, sequence=2)])
    assert [each.fault for each in reports] == [Fault.IMPLAUSIBLE]
    assert nib.best(P) is not None
    assert nib.advertised(0.0, P, [node_info(X, (P, 1), location=BERLIN)]) == []


def test_more_nodes_than_agreed_end_the_session() -> None:
    nib = with_peers(P, nib=nib_of(max_nodes=3))
    nib.advertised(0.0, P, [node_info(number, (P, 1)) for number in (20, 21)])
    nib.advertised(0.0, P, [node_info(20, (Y, 1), (P, 1))])
    with pytest.raises(LimitExceededError, match="more than 3 nodes"):
        nib.advertised(0.0, P, [node_info(22, (P, 1))])


# Synchronisation


def test_what_is_not_told_again_is_forgotten() -> None:
    nib = with_peers(P)
    nib.sync_ended(0.0, P)
    nib.advertised(0.0, P, [node_info(number, (P, 1)) for number in (20, 21)])
    nib.sync_began(P)
    nib.advertised(0.0, P, [node_info(21, (P, 1)), node_info(22, (P, 1))])
    assert nib.nodes() == [P, 20, 21, 22]
    nib.sync_ended(0.0, P)
    assert nib.nodes() == [P, 21, 22]


def test_a_peer_may_not_have_heard_yet_what_it_is_told_no_more() -> None:
    nib = with_peers(P, Q)
    told(nib, P)
    assert nib.may_target(0.0, P, Q)
    assert not nib.may_target(0.0, P, X)
    nib.remove_peer(0.0, Q)
    assert nib.may_target(0.0, P, Q)
    assert told(nib, P) == ({}, [Q])
    assert not nib.advertised_to(P, Q)
    assert nib.may_target(SETTINGS.convergence - 1, P, Q)
    assert not nib.may_target(SETTINGS.convergence, P, Q)
    # Nor what it was told in a session that is over.
    nib.remove_peer(40.0, P)
    assert nib.may_target(40.0, P, WE)
    assert not nib.may_target(40.0, X, WE)


def test_everything_can_be_told_again_and_holds_meanwhile() -> None:
    nib = with_peers(P, Q)
    told(nib, P)
    nib.resend(P)
    assert nib.advertised_to(P, Q)
    assert nib.pending(0.0, P)
    assert told(nib, P) == ({WE: (), Q: (WE,)}, [])
    nib.remove_peer(0.0, Q)
    nib.resend(P)
    assert told(nib, P) == ({WE: ()}, [Q])


# Signatures


def test_what_was_not_verified_is_not_told_where_it_must_be() -> None:
    nib = with_peers(P)
    nib.add_peer(0.0, Q, node_info(Q), srtt_us=1, forwards=True, signed=True)
    nib.add_peer(0.0, R, node_info(R), srtt_us=1, forwards=True, signed=True)
    assert told(nib, Q) == ({WE: (), R: (WE,)}, [])
    assert told(nib, P) == ({WE: (), Q: (WE,), R: (WE,)}, [])


# Metrics


def test_a_load_class_counts_for_ways_through_the_relay_at_once() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.advertised(0.0, Q, [node_info(X, (Y, 1_000), (Q, 1_000))])
    overloaded = Load(LoadClass.OVERLOADED)
    nib.advertised(0.0, P, [node_info(P, sequence=2, load=overloaded)])
    best = nib.best(X)
    assert best is not None
    assert best.peer == Q
    best = nib.best(P)
    assert best is not None
    assert best.peer == P
    nib.withdrawn(0.0, Q, [X])
    assert nib.best(X) is not None
    nib.advertised(0.0, Q, [node_info(X, (Y, 1_000), (Q, 1_000))])
    nib.advertised(0.0, P, [node_info(P, sequence=3)])
    best = nib.best(X)
    assert best is not None
    assert best.peer == P


# Policy


# Many of them


EXACT = NetworkSettings(metric_ratio=0.0, metric_floor_us=0)
RELAYS = 6
MOST = 3_000
"""Messages until it must be quiet; thirty are usual."""
numbers = st.integers(1, RELAYS)
times = st.integers(1, 60).map(lambda ms: ms * 1000)


class Network(RuleBasedStateMachine):
    """Relays whose links and loads change at any time, also while messages are under way."""

    exact = True

    @initialize(links=st.lists(st.tuples(numbers, numbers, times), min_size=4, max_size=12))
    def begin(self, links: list[tuple[int, int, int]]) -> None:
        self.net = NibNet(RELAYS, EXACT if self.exact else SETTINGS)
        for a, b, srtt in links:
            self.toggle(a, b, srtt)

    def toggle(self, a: int, b: int, srtt: int) -> None:
        if a != b:
            if (min(a, b), max(a, b)) in self.net.links:
                self.net.down(a, b)
            else:
                self.net.up(a, b, srtt)

    @rule(a=numbers, b=numbers, srtt=times)
    def link(self, a: int, b: int, srtt: int) -> None:
        self.toggle(a, b, srtt)

    @precondition(lambda self: self.net.links)
    @rule(data=st.data(), srtt=times)
    def measure(self, data: st.DataObject, srtt: int) -> None:
        self.net.measure(*data.draw(st.sampled_from(sorted(self.net.links))), srtt)

    @rule(number=numbers, load=st.sampled_from(LoadClass), value=st.sampled_from([0, 50, 500]))
    def load(self, number: int, load: LoadClass, value: int) -> None:
        self.net.load(number, Load(load, value))

    @rule(number=numbers)
    def restart(self, number: int) -> None:
        self.net.restart(number)

    @rule(seconds=st.sampled_from([0.01, 0.4, 2.0]))
    def wait(self, seconds: float) -> None:
        self.net.now += seconds

    @precondition(lambda self: self.net.queues)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self.net.flush(*data.draw(st.sampled_from(sorted(self.net.queues))))

    @precondition(lambda self: any(self.net.queues.values()))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        waiting = sorted(pair for pair, queue in self.net.queues.items() if queue)
        self.net.deliver(*data.draw(st.sampled_from(waiting)))

    @rule()
    def rest(self) -> None:
        self.net.rest(MOST)
        self.net.check(costs=self.exact)

    @invariant()
    def no_way_has_a_loop(self) -> None:
        for number, nib in self.net.nibs.items():
            for node in nib.nodes():
                best = nib.best(node)
                assert best is None or len({number, *best.relays}) == best.hops + 2

    def teardown(self) -> None:
        if hasattr(self, "net"):
            self.rest()
            for link in list(self.net.links):
                self.net.down(*link)
            for nib in self.net.nibs.values():
                assert nib.nodes() == []
                assert (nib.size, nib.adj_out()) == (0, [])
                assert nib.poll_timeout() is None or nib.poll_timeout() == nib._exports._due.when(
                    nib._node
                )


class DampedNetwork(Network):
    exact = False


TestNetwork = Network.TestCase
TestNetwork.settings = hypothesis_settings(max_examples=examples(24), stateful_step_count=30)
TestDampedNetwork = DampedNetwork.TestCase
TestDampedNetwork.settings = hypothesis_settings(max_examples=examples(12), stateful_step_count=30)


def test_another_way_than_the_best_is_a_change_of_its_own() -> None:
    nib = nib_of()
    for peer in (P, Q):
        nib.add_peer(0.0, peer, node_info(peer), srtt_us=1_000, forwards=True)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.take_changes()
    nib.advertised(1.0, Q, [node_info(X, (7, 1_000), (Q, 1_000))])
    assert nib.take_changes() == Changes([], [], [X])
    nib.set_peer(2.0, Q, draining=True)
    assert nib.take_changes() == Changes([Q], [], [X])
    nib.withdrawn(3.0, Q, [X])
    assert nib.take_changes() == Changes([], [], [X])
    assert nib.take_changes() == Changes([], [])


# Peers: sessions, links, what is measured on them


def test_a_peer_is_a_neighbour_with_an_empty_path() -> None:
    nib = with_peers(P)
    best = nib.best(P)
    assert best is not None
    assert (best.peer, best.hops, best.cost_us, best.forwards) == (P, 0, 10_000, True)
    assert nib.next_hop(P) == P
    assert nib.next_hop(X) is None
    assert nib.nodes() == [P]
    assert nib.take_changes() == Changes([P], [P])
    assert nib.take_changes() == Changes([], [])


def test_a_session_without_control_is_a_way_to_the_peer_and_nothing_more() -> None:
    nib = with_peers(Q)
    nib.add_neighbour(0.0, P, node_info(P), srtt_us=3_000)
    assert nib.advertised(0.0, P, [node_info(X, (P, 1_000))]) == []
    nib.sync_began(P)
    nib.sync_ended(0.0, P)
    nib.resend(P)
    assert nib.best(X) is None
    best = nib.best(P)
    assert best is not None
    assert best.cost_us == 3_000
    assert told(nib, P) == ({}, [])
    assert told(nib, Q) == ({WE: (), P: (WE,)}, [])
    nib.remove_neighbour(0.0, P)
    nib.remove_neighbour(0.0, P)
    assert nib.best(P) is None
    assert told(nib, Q) == ({}, [P])


def test_data_sessions_beside_a_control_session_carry_what_goes_through_the_peer() -> None:
    nib = nib_of()
    nib.add_peer(0.0, P, node_info(P), srtt_us=10_000, forwards=False)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert nib.best(X) is None
    nib.add_neighbour(0.0, P, node_info(P), srtt_us=10_000)
    assert nib.best(X) is not None
    nib.remove_peer(0.0, P)
    assert nib.nodes() == [P]
    assert nib.best(P) is not None
    nib.remove_neighbour(0.0, P)
    assert nib.nodes() == []
    assert nib.take_changes().lost == dict.fromkeys([P, X], "session_closed")


def test_a_direction_that_comes_and_goes() -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.take_changes()
    nib.set_peer(0.0, P, forwards=False)
    assert nib.best(X) is None
    assert nib.info(X) is not None
    assert [way.forwards for way in nib.candidates(X)] == [False]
    assert nib.take_changes() == Changes([P, X], [])
    nib.set_peer(0.0, P, forwards=True)
    assert nib.best(X) is not None
    nib.set_peer(0.0, X, forwards=True)
    assert nib.best(X, lambda _: False) is None


def test_a_peer_that_connects_again_is_told_everything_again() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    told(nib, P)
    nib.add_peer(0.0, P, node_info(P, epoch=2), srtt_us=10_000, forwards=True)
    assert nib.nodes() == [P, Q]
    assert nib.size == 2
    assert nib.epoch(P) == 2
    assert told(nib, P) == ({WE: (), Q: (WE,)}, [])


def test_stubs_and_ourselves_are_no_peers() -> None:
    nib = nib_of()
    with pytest.raises(StateError, match="cannot be a peer"):
        nib.add_peer(0.0, X, node_info(X, kind=RelayType.STUB), srtt_us=1, forwards=True)
    with pytest.raises(StateError, match="cannot be a peer"):
        nib.add_neighbour(0.0, WE, node_info(WE), srtt_us=1)


def test_a_neighbour_without_control_is_passed_on_as_others_tell_of_it() -> None:
    nib = with_peers(P, Q)
    nib.add_neighbour(0.0, X, node_info(X, region="then"), srtt_us=1_000)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), sequence=2, region="now")])
    exported = {each.node.node_id: each for each in nib.flush(0.0, Q)[0]}[X]
    assert (exported.node.region, len(exported.path)) == ("now", 1)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), epoch=2, region="another life")])
    nib.set_peer(0.0, P, forwards=False)
    exported = {each.node.node_id: each for each in nib.flush(0.0, Q)[0]}[X]
    assert exported.node.region == "then"


def test_what_was_told_of_a_false_control_server_is_taken_back_when_the_true_one_is_here() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), epoch=3, signature=key_of("b"))])
    assert X in {each.node.node_id for each in nib.flush(0.0, Q)[0]}
    true = node_info(X, kind=RelayType.CONTROL, epoch=2, signature=key_of("a"))
    nib.add_peer(1.0, X, true, srtt_us=1_000, forwards=False)
    assert nib.flush(1.0, Q) == ((), (X,))


def test_who_is_here_with_another_key_than_others_said_is_believed() -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), signature=key_of("b"))])
    reports = nib.add_peer(
        0.0, X, node_info(X, signature=key_of("a")), srtt_us=1_000, forwards=True
    )
    assert [(each.fault, each.peer) for each in reports] == [(Fault.KEY_CONFLICT, P)]
    assert nib.fingerprint(X) == b"a" * 32
    assert [way.peer for way in nib.candidates(X)] == [X]


def test_a_link_that_was_not_measured_yet_costs_what_light_needs() -> None:
    nib = located()
    nib.add_peer(0.0, Q, node_info(Q, location=TOKYO), srtt_us=0, forwards=True)
    nib.add_neighbour(0.0, Q, node_info(Q, location=TOKYO), srtt_us=0)
    best = nib.best(Q)
    assert best is not None
    assert 59_000 < best.cost_us < 61_000
    assert nib.advertised(0.0, Q, [node_info(X, (Q, 1_000), location=TOKYO)]) == []
    nib.set_peer(0.0, Q, srtt_us=0)
    nib.set_peer(0.0, Q, srtt_us=200_000)
    best = nib.best(Q)
    assert best is not None
    assert best.cost_us == 200_000


def test_a_link_is_measured_again_and_again_and_told_when_it_matters() -> None:
    nib = with_peers(P, Q, srtt_us=20_000)
    told(nib, Q)
    nib.take_changes()
    nib.set_peer(0.0, P, srtt_us=21_900)
    assert nib.take_changes() == Changes([], [])
    nib.set_peer(0.0, P, srtt_us=22_000)
    assert nib.take_changes() == Changes([P], [])
    assert told(nib, Q) == ({P: (WE,)}, [])
    nib.set_peer(0.5, P, srtt_us=30_000)
    assert nib.poll_timeout() == 1.0
    assert first_of(nib.clocks) == 1.0
    assert told(nib, Q, 0.9) == ({}, [])
    nib.handle_timeout(1.0)
    best = nib.best(P)
    assert best is not None
    assert best.cost_us == 30_000
    assert told(nib, Q, 1.0) == ({P: (WE,)}, [])
    nib.set_peer(1.5, P, srtt_us=60_000)
    nib.set_peer(1.6, P, srtt_us=30_000)
    assert nib.poll_timeout() is None
    nib.set_peer(1.7, P, srtt_us=60_000)
    nib.remove_peer(1.8, P)
    assert nib.poll_timeout() is None


def test_a_draining_peer_is_the_last_choice() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.advertised(0.0, Q, [node_info(X, (Y, 1_000), (Q, 1_000))])
    nib.set_peer(0.0, P, draining=True)
    best = nib.best(X)
    assert best is not None
    assert best.peer == Q
    # It is the session that ends, not the peer: that is reached by another way.
    nib.advertised(0.0, Q, [node_info(P, (Q, 1_000))])
    best = nib.best(P)
    assert best is not None
    assert best.peer == Q
    nib.set_peer(0.0, P, draining=False)
    best = nib.best(P)
    assert best is not None
    assert best.peer == P
    nib.set_peer(0.0, P, draining=True)
    nib.add_peer(0.0, P, node_info(P, epoch=2), srtt_us=10_000, forwards=True)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    best = nib.best(X)
    assert best is not None
    assert best.peer == P


class NoTransit(OpenPolicy):
    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        return Refusal("no transit", "there are relays on the way") if info.path else None

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("no transit", "we are on the way") if info.path else None


def test_another_policy_is_asked_about_everything() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert told(nib, Q)[0] == {WE: (), P: (WE,), X: (P, WE)}
    nib.set_policy(0.0, NoTransit())
    assert nib.best(X) is None
    assert told(nib, Q) == ({}, [P, X])
    nib.advertised(0.0, P, [node_info(Y, (P, 1_000))])
    assert nib.best(Y) is None
    assert nib.epoch(Y) == 1
    nib.set_policy(0.0, OPEN_POLICY)
    assert None not in [nib.best(node) for node in (P, Q, X, Y)]
    nib.set_policy(0.0, NoTransit())
    nib.remove_peer(0.0, P)
    nib.set_policy(0.0, OPEN_POLICY)
    assert nib.nodes() == [Q]


# Lookups of nodes and of paths to them


def test_the_seed_chooses_the_shorter_way_and_keeps_the_alternate() -> None:
    """Seed 000, Node Path: node 1:3 has 75 ms over one relay, and 150 ms over two."""
    nib = with_peers(2, 6)
    nib.set_peer(0.0, Q, srtt_us=50_000)
    nib.advertised(0.0, Q, [node_info(X, (2, 25_000))])
    nib.advertised(0.0, NodeId(6), [node_info(X, (5, 20_000), (6, 40_000))])
    best = nib.best(X)
    assert best is not None
    assert (best.peer, best.hops, best.cost_us) == (2, 1, 75_000)
    assert [way.peer for way in nib.candidates(X)] == [2, 6]
    assert nib.best(X, lambda way: way.peer != 2) == nib.candidates(X)[1]


def test_what_one_peer_tells() -> None:
    nib = with_peers(P, Q)
    nib.advertised(0.0, P, [node_info(X, (7, 1_000), (P, 1_000))])
    way = nib.advertised_by(X, P)
    assert way is not None
    assert (way.peer, way.hops) == (P, 2)
    assert nib.advertised_by(X, Q) is None
    assert nib.advertised_by(X, NodeId(99)) is None
    nib.withdrawn(0.0, P, [X])
    assert nib.advertised_by(X, P) is None


def test_a_rule_never_gets_what_does_not_forward() -> None:
    nib = with_peers(P)
    nib.add_peer(0.0, Q, node_info(Q, kind=RelayType.CONTROL), srtt_us=1, forwards=True)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    nib.advertised(0.0, Q, [node_info(X, (Q, 1))])
    assert [way.peer for way in nib.candidates(X)] == [P, Q]
    assert nib.best(X, lambda way: way.peer == Q) is None
    assert nib.best(Q) is None
    assert told(nib, P)[0] == {WE: ()}


def test_what_nodes_say_of_themselves() -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000), epoch=3, signature=key_of("x"))])
    assert [nib.epoch(node) for node in (WE, P, X, Y)] == [1, 1, 3, None]
    assert nib.fingerprint(X) == key_of("x").fingerprint
    assert nib.fingerprint(Y) is None
    assert (nib.nodes(), nib.size) == ([P, X], 2)
    assert [nib.next_hop(node) for node in (P, X, Y)] == [P, P, None]


@pytest.mark.parametrize("ask", [Nib.info, Nib.best, Nib.next_hop])
def test_an_answer_is_never_older_than_what_was_said_last(
    ask: Callable[[Nib, NodeId], object],
) -> None:
    nib = with_peers(P)
    nib.advertised(0.0, P, [node_info(X, (P, 1_000))])
    assert ask(nib, X) is not None
    nib.withdrawn(0.0, P, [X])
    assert ask(nib, X) is None


HASHER = KeyedHasher(bytes(16))
ME, A, B, T = (NodeId(number) for number in (1, 2, 3, 9))


def no_transit(*nodes: NodeId) -> RulePolicy:
    fence = Fence(deny_nodes=tuple(NodePattern.parse(str(node)) for node in nodes))
    return RulePolicy(Rules(transit=fence), HASHER, local=ME)


def test_policy_sees_ourselves_the_transit_and_the_target() -> None:
    nodes = Directory(describe(ME, region="us"), describe(T, region="eu"))
    nodes.path(T, A, B)
    (path,) = nodes.candidates(T)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    relays = paths.relays(path)
    assert [relay.node_id for relay in relays] == [ME, A, B, T]
    assert [relay.region for relay in relays] == ["us", "", "", "eu"]
    assert paths.self_of(B).node_id == B


def test_without_a_policy_the_best_way_is_the_best() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    best = paths.best(T, "gold")
    assert best is not None
    assert best.peer == B
    assert [path.peer for path in paths.allowed(T, "")] == [B, A]
    assert paths.refusal("", best) is None
    assert paths.refusal_of("", B, T) is None


def test_what_policy_forbids_is_not_taken() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, no_transit(B))
    best = paths.best(T, "")
    assert best is not None
    assert best.peer == A
    assert [path.peer for path in paths.allowed(T, "")] == [A]
    assert paths.refusal_of("", B, T) == Refusal("transit", f"node {B} is denied ({B})")
    assert paths.refusal_of("", A, T) is None
    nodes.cut(T, A)
    assert paths.best(T, "") is None
    assert paths.why_none(T, "") == Refusal("transit", f"node {B} is denied ({B})")
    paths.policy = OPEN_POLICY
    assert paths.best(T, "") is not None


def test_the_way_through_one_peer() -> None:
    nodes = Directory()
    nodes.path(T, A, NodeId(7))
    nodes.path(T, B, rtt=1)
    paths = PathFinder(ME, nodes, no_transit(B))
    path = paths.through(T, "", A)
    assert path is not None
    assert path.peer == A
    assert paths.through(T, "", B) is None  # forbidden
    assert paths.through(T, "", A, NodeId(7)) is None  # it leads back
    assert paths.through(T, "", NodeId(5)) is None


def test_our_own_link_counts() -> None:
    link = Link(
        name="cable",
        between=(NodePattern.parse(str(ME)), NodePattern.parse(str(T))),
        countries=("CA",),
    )
    rules = Rules(links=(link,), transit=Fence(deny_countries=frozenset({"CA"})))
    nodes = Directory()
    nodes.path(T)
    paths = PathFinder(ME, nodes, RulePolicy(rules, HASHER, local=ME))
    assert paths.best(T, "") is None
    nodes.path(T, A)
    assert paths.best(T, "") is not None


def test_nothing_goes_back_to_where_it_came_from() -> None:
    nodes = Directory()
    nodes.path(T, A)
    nodes.path(T, B, A)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    assert paths.best(T, "", A) is None
    assert paths.why_none(T, "", A) == Refusal("", f"the only way to {T} leads back to {A}")
    found = paths.best(T, "", B)
    assert found is not None
    assert found.peer == A
    assert paths.best(T, "", T) is None


def test_what_does_not_forward_is_no_way() -> None:
    nodes = Directory()
    nodes.path(T, A, forwards=False)
    paths = PathFinder(ME, nodes, OPEN_POLICY)
    assert paths.best(T, "") is None
    assert paths.allowed(T, "") == []
    assert paths.why_none(T, "") == Refusal("", f"no way to {T}")
