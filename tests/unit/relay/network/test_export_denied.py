"""What export rules keep from all who could serve it is answered, once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from laps_relay.network.flood_exports import ExportDenied
from laps_relay.policy import OpenPolicy
from laps_relay.policy.facts import stranger
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeSelf, Stamp, SubscribeInfo
from laps_wire.peering.laps2.information import NO_DATA
from testkit.subscription_rig import subscribe_info, track

ENTRY = subscribe_info(3, track("a/b"), NO_DATA)


class Keeps(OpenPolicy):
    """Some peers hear of nothing."""

    __slots__ = ("peers",)

    def __init__(self, *peers: int) -> None:
        self.peers = peers

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", f"not to {peer.node_id}") if peer.node_id in self.peers else None


class Leads:
    """Peers 1, 2 and 4, and which of them lead to a publisher."""

    def __init__(self, *peers: int) -> None:
        self.peers = peers
        self.denied = ExportDenied(self.of)

    def is_due(self) -> bool:
        return self.denied.again

    def of(self, entry: SubscribeInfo) -> Iterator[tuple[NodeSelf, bool]]:
        assert entry.source == 3
        return ((stranger(NodeId(peer)), peer in self.peers) for peer in (1, 2, 4))


def test_it_is_said_if_nobody_hears_of_it() -> None:
    case = Leads(1, 2)
    assert case.denied.check(Keeps(1), ENTRY) is None
    assert case.denied.check(Keeps(2), ENTRY) is None
    refusal = case.denied.check(Keeps(1, 2), ENTRY)
    assert refusal == Refusal("export", "not to 0.0:0.1")
    assert case.denied.check(Keeps(1, 2), ENTRY) is None
    assert case.denied.check(Keeps(1, 2), replace(ENTRY, stamp=Stamp(1, 2))) == refusal
    assert len(case.denied) == 1
    # It went out meanwhile: then it is news again.
    assert case.denied.check(Keeps(), ENTRY) is None
    assert len(case.denied) == 0
    assert case.denied.check(Keeps(1, 2), ENTRY) == refusal
    case.denied.forget((NodeId(3), ENTRY.full_name_hash))
    assert (len(case.denied), case.denied.again) == (0, False)


def test_nobody_to_tell_is_no_matter_of_policy() -> None:
    assert Leads().denied.check(Keeps(1, 2), ENTRY) is None


def test_other_ways_matter_if_anything_is_kept_from_anybody() -> None:
    case = Leads(1)
    assert case.denied.check(Keeps(), ENTRY) is None
    case.denied.paths_removed()
    assert not case.is_due()
    assert case.denied.check(Keeps(2), ENTRY) is None
    case.denied.paths_removed()
    assert case.is_due()
    case.peers = (2,)
    assert case.denied.check(Keeps(2), ENTRY) == Refusal("export", "not to 0.0:0.2")
