"""Peers of the node information base: sessions, links, what is measured on them."""

from __future__ import annotations

import pytest

from laps_relay.network.nodes.nib import Changes, Fault
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import NodeInfoLookup
from laps_relay.policy.open_policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import first_of
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType
from testkit.nib_net import TOKYO, WE, key_of, located, nib_of, node_info, told, with_peers

P, Q, R, X, Y = (NodeId(number) for number in (1, 2, 3, 8, 9))


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
