"""Judging entries."""

from __future__ import annotations

import pytest

from laps_relay.network.nodes.adj_in import about_us, misfit, other_key, place_of, too_fast
from laps_relay.network.nodes.light_time import ESTIMATED
from laps_relay.network.nodes.node_records import Fault, NodeRecord, PeerRecord
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Location, NodeInfo, RelayType
from testkit.nib_net import key_of, node_info

P = NodeId(1)
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
