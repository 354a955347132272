"""What can be asked of nodes and of ways to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laps_relay.network.nodes.nib import Nib
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from testkit.nib_net import WE, key_of, node_info, told, with_peers

P, Q, R, X, Y = (NodeId(number) for number in (1, 2, 3, 8, 9))


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
