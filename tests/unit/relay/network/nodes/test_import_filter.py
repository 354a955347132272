"""Import policy, and what it depends on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laps_relay.network.nodes import import_filter as imports_module
from laps_relay.network.nodes.import_filter import ImportFilter
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.node_records import NodeRecord
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import NodeInfoLookup
from laps_relay.policy.open_policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf
from testkit.nib_net import node_info

WE, P, Q, T, X = (NodeId(number) for number in (10, 1, 2, 5, 9))


class NotThrough(OpenPolicy):
    """No way may pass a relay of a region, or lead to a node of it."""

    def __init__(self, region: str) -> None:
        self.barred = region
        self.asked = 0

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        self.asked += 1
        for item in info.path:
            known = lookup(item.node_id)
            if known is not None and known.node.region == self.barred:
                return Refusal("region", f"not through {self.barred}")
        return Refusal("region", "not there") if info.node.region == self.barred else None


def nib_with(policy: OpenPolicy) -> Nib:
    nib = Nib(node_info(WE), NetworkSettings(), policy=policy)
    for peer in (P, Q):
        nib.add_peer(0.0, peer, node_info(peer), srtt_us=1_000, forwards=True)
    return nib


def imports_of(nib: Nib) -> ImportFilter:
    return nib._imports


def via_t(sequence: int = 1) -> NodeInfo:
    return node_info(X, (T, 1), (P, 1), sequence=sequence)


def test_a_relay_that_becomes_known_later_bars_ways_through_it() -> None:
    nib = nib_with(NotThrough("far"))
    nib.advertised(0.0, P, [via_t()])
    assert nib.best(X) is not None
    nib.advertised(0.0, P, [node_info(T, (P, 1), region="far")])
    assert nib.best(X) is None
    assert nib.best(T) is None
    # They are known all the same, however little can be sent there.
    assert nib.nodes() == [P, Q, T, X]
    assert nib.candidates(X) == []


class Unwalked(dict[NodeId, NodeRecord]):
    """Nodes that are looked up one by one, and never gone through."""

    def __iter__(self) -> Iterator[NodeId]:
        raise AssertionError("all nodes were looked at for one entry")

    keys = __iter__  # type: ignore[assignment]


def test_an_entry_with_an_unknown_relay_costs_the_same_however_many_nodes_are_known() -> None:
    nib = nib_with(OPEN_POLICY)
    table = nib._table
    table.records = Unwalked(table.records)
    nib.advertised(0.0, P, [via_t()])
    assert list(imports_of(nib)._unseen) == [T]
    table.records = dict(table.records.items())
    assert nib.best(X) is not None


def test_a_relay_that_moves_bars_and_frees_ways_through_it() -> None:
    nib = nib_with(NotThrough("far"))
    nib.advertised(0.0, P, [node_info(T, (P, 1), region="near"), via_t()])
    nib.advertised(0.0, Q, [node_info(T, (Q, 1), region="near")])
    assert nib.best(X) is not None
    nib.advertised(0.0, P, [node_info(T, (P, 1), sequence=2, region="far")])
    assert nib.take_changes().routes == [P, Q, T, X]
    assert nib.best(X) is None
    assert nib.best(T) is None  # nor by what Q said before it knew
    nib.advertised(0.0, Q, [node_info(T, (Q, 1), sequence=1, region="near")])
    assert nib.best(T) is None
    nib.advertised(0.0, Q, [node_info(T, (Q, 1), sequence=3, region="near")])
    assert nib.best(X) is not None


def test_what_a_peer_says_of_itself_counts_for_what_goes_through_it() -> None:
    nib = nib_with(NotThrough("far"))
    nib.advertised(0.0, P, [node_info(X, (P, 1)), node_info(T, (P, 1))])
    nib.advertised(0.0, Q, [node_info(X, (T, 1), (Q, 1))])
    nib.advertised(0.0, P, [node_info(P, sequence=2, region="far")])
    best = nib.best(X)
    assert best is not None
    assert best.peer == Q
    assert nib.best(P) is not None
    assert nib.best(T) is None
    nib.advertised(0.0, P, [node_info(P, sequence=3, region="near")])
    best = nib.best(X)
    assert best is not None
    assert best.peer == P
    nib.advertised(0.0, P, [node_info(P, sequence=4, region="near")])
    assert nib.best(T) is not None


def test_metrics_are_not_asked_about_again() -> None:
    policy = NotThrough("far")
    nib = nib_with(policy)
    nib.advertised(0.0, P, [node_info(X, (P, 1)), node_info(T, (P, 1))])
    asked = policy.asked
    nib.advertised(0.0, P, [node_info(P, sequence=2)])
    assert policy.asked == asked


def test_a_node_that_comes_back_as_another_one() -> None:
    nib = nib_with(NotThrough("far"))
    nib.advertised(0.0, Q, [node_info(T, (Q, 1), region="near")])
    nib.advertised(0.0, P, [via_t()])
    nib.withdrawn(0.0, Q, [T])
    nib.take_changes()
    assert nib.best(X) is not None
    nib.add_peer(0.0, T, node_info(T, region="far", epoch=2), srtt_us=1_000, forwards=True)
    assert nib.best(X) is None
    nib.remove_peer(0.0, T)
    nib.add_peer(0.0, T, node_info(T, region="far", epoch=2), srtt_us=1_000, forwards=True)
    assert nib.best(X) is None


def test_only_so_many_nodes_that_are_gone_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports_module, "_MAX_GONE", 2)
    nib = nib_with(NotThrough("far"))
    for number in (20, 21, 22):
        nib.advertised(0.0, P, [node_info(number, (P, 1))])
        nib.withdrawn(0.0, P, [NodeId(number)])
        nib.take_changes()
    assert list(imports_of(nib)._gone) == [21, 22]


def test_nothing_is_left_of_entries_that_wait_for_relays() -> None:
    nib = nib_with(OPEN_POLICY)
    waiting = imports_of(nib)._unseen
    nib.advertised(0.0, P, [node_info(X, (T, 1), (7, 1), (P, 1)), node_info(8, (T, 1), (P, 1))])
    assert set(waiting) == {T, 7}
    nib.advertised(0.0, P, [via_t()])
    assert set(waiting) == {T}
    nib.withdrawn(0.0, P, [NodeId(8), NodeId(77)])
    assert set(waiting) == {T}
    nib.remove_peer(0.0, P)
    assert not waiting


def test_another_policy_is_asked_about_everything_again() -> None:
    nib = nib_with(OPEN_POLICY)
    nib.advertised(0.0, P, [node_info(T, (P, 1), region="far"), via_t()])
    for _ in range(2):
        nib.set_policy(0.0, NotThrough("far"))
        assert [nib.best(node) for node in (T, X)] == [None, None]
    for _ in range(2):
        nib.set_policy(0.0, OPEN_POLICY)
        assert None not in [nib.best(node) for node in (T, X)]
