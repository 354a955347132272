"""The adj-RIB-in: checks of entries, and import policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laps_relay.network.nodes import adj_in as imports_module
from laps_relay.network.nodes.adj_in import ImportFilter, about_us, misfit, other_key, too_fast
from laps_relay.network.nodes.location import ESTIMATED, place_of
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.node_table import Fault, NodeRecord, PeerRecord
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import NodeInfoLookup, OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Location, NodeInfo, NodeSelf, RelayType
from testkit.nib_net import key_of, node_info

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


BERLIN, TOKYO = Location(13.4, 52.5), Location(139.7, 35.7)


def relays(info: NodeInfo) -> set[NodeId]:
    return {item.node_id for item in info.path}


def test_entries_about_ourselves() -> None:
    own = node_info(7, epoch=3, signature=key_of("a"))
    assert about_us(own, node_info(7, (1, 1), epoch=3, signature=key_of("a"))) is None
    assert about_us(own, node_info(7, (1, 1), epoch=2, signature=key_of("a"))) is None
    later = about_us(own, node_info(7, (1, 1), epoch=4, signature=key_of("a")))
    assert later is not None
    assert later[0] is Fault.OWN_ID
    assert "epoch 4" in later[1]
    other = about_us(own, node_info(7, (1, 1), epoch=3, signature=key_of("b")))
    assert other is not None
    assert "another key" in other[1]


@pytest.mark.parametrize(
    ("info", "fault", "words"),
    [
        (node_info(0, (1, 1)), Fault.BAD_NODE, "Stub"),
        (node_info(8, (1, 1), kind=RelayType.STUB), Fault.BAD_NODE, "Stub"),
        (node_info(8), Fault.BAD_PATH, "empty path"),
        (node_info(8, (1, 1), (2, 1)), Fault.BAD_PATH, "ends with 0.0:0.2"),
        (node_info(8, (2, 1), (2, 1), (1, 1)), Fault.BAD_PATH, "twice"),
        (node_info(8, (8, 1), (1, 1)), Fault.BAD_PATH, "twice"),
        (node_info(1, (1, 1)), Fault.BAD_PATH, "twice"),
        (node_info(8, (0, 1), (1, 1)), Fault.BAD_PATH, "node id 0"),
        (node_info(8, *((n, 1) for n in range(20, 36)), (1, 1)), Fault.BAD_PATH, "17 items"),
    ],
)
def test_misfits(info: NodeInfo, fault: Fault, words: str) -> None:
    finding = misfit(P, info, relays(info))
    assert finding is not None
    assert finding[0] is fault
    assert words in finding[1]


@pytest.mark.parametrize("info", [node_info(1), node_info(8, (1, 1)), node_info(8, (2, 1), (1, 1))])
def test_what_fits(info: NodeInfo) -> None:
    assert misfit(P, info, relays(info)) is None


def test_another_key_is_never_a_replacement() -> None:
    record = NodeRecord(NodeId(8), node_info(8, signature=key_of("a")))
    assert other_key(record, node_info(8, epoch=9, signature=key_of("a"))) is None
    for other in (node_info(8, epoch=9, signature=key_of("b")), node_info(8, epoch=9)):
        finding = other_key(record, other)
        assert finding is not None
        assert finding[0] is Fault.KEY_CONFLICT


def peer(location: Location | None, srtt_us: int = 1_000) -> PeerRecord:
    record = PeerRecord(P, node_info(P, location=location))
    record.place = place_of(location)
    record.srtt_us = srtt_us
    return record


def test_light_between_the_peer_and_the_node_and_between_us_and_the_node() -> None:
    here = place_of(BERLIN)
    slow = node_info(8, (1, 70_000), location=TOKYO)
    fast = node_info(8, (1, 1_000), location=TOKYO)
    assert too_fast(here, peer(BERLIN), slow, None) is None
    assert too_fast(None, peer(None), fast, None) is None
    for own, link in ((here, peer(None)), (None, peer(BERLIN))):
        finding = too_fast(own, link, fast, None)
        assert finding is not None
        assert finding[0] is Fault.IMPLAUSIBLE
    # Near to the peer, and our own link is long.
    assert too_fast(here, peer(TOKYO, 90_000), fast, None) is None
    assert too_fast(here, peer(BERLIN), node_info(8, (1, 1)), None) is None


def test_a_neighbour_is_measured_by_ourselves() -> None:
    finding = too_fast(place_of(BERLIN), peer(TOKYO), node_info(P, location=TOKYO), None)
    assert finding is not None
    near = node_info(P, location=BERLIN)
    assert too_fast(place_of(BERLIN), peer(TOKYO), near, None) is None


def test_a_place_that_is_estimated_proves_nothing() -> None:
    fast = node_info(8, (1, 1_000), location=TOKYO, labels=(ESTIMATED,))
    assert too_fast(place_of(BERLIN), peer(BERLIN), fast, None) is None


def test_a_link_that_was_not_measured_yet_proves_nothing() -> None:
    near = node_info(8, (1, 1_000), location=TOKYO)
    assert too_fast(place_of(BERLIN), peer(TOKYO, 0), near, None) is None
    assert too_fast(place_of(BERLIN), peer(TOKYO, 1), near, None) is not None


def test_who_passes_a_node_on_cannot_move_it() -> None:
    record = NodeRecord(NodeId(8), node_info(8, sequence=5, location=TOKYO))
    moved = node_info(8, (1, 1), sequence=5)
    assert too_fast(place_of(BERLIN), peer(BERLIN), moved, record) is not None
    newer = node_info(8, (1, 1), sequence=6)
    assert too_fast(place_of(BERLIN), peer(BERLIN), newer, record) is None
