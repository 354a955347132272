from __future__ import annotations

from laps_relay.policy.interface import NO_LIMITS, OPEN_POLICY, ClassLimits, Policy
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind, NodeInfo, Stamp, SubscribeInfo
from testkit.paths import Directory, describe

NAME = FullTrackName(Namespace.of(b"a"), b"t")
NODE = describe("1:1", region="eu")
ANNOUNCE = AnnounceInfo(NodeId(1), Stamp(1, 1), AnnounceKind.NAMESPACE, (1,), None, 2)
SUBSCRIBE = SubscribeInfo(NodeId(1), Stamp(1, 1), (1,), 2, 3)


def test_everything_is_allowed() -> None:
    policy: Policy = OPEN_POLICY
    assert policy.peer(NODE) is None
    assert policy.import_node(NodeInfo(NODE), NODE, Directory().info) is None
    assert policy.export_node(NodeInfo(NODE), NODE) is None
    assert policy.import_announce(ANNOUNCE, NODE) is None
    assert policy.export_announce(ANNOUNCE, NODE) is None
    assert policy.import_subscribe(SUBSCRIBE, NODE) is None
    assert policy.export_subscribe(SUBSCRIBE, NODE) is None
    assert policy.subscribe(NAME, SUBSCRIBE, NODE, NODE) is None
    assert policy.local_subscribe(NAME, NODE) is None
    assert policy.path("gold", [NODE, NODE]) is None


def test_there_are_no_classes_and_regions_are_the_nodes_own() -> None:
    assert OPEN_POLICY.scope(NAME) == ""
    assert OPEN_POLICY.limits("gold") is NO_LIMITS
    assert ClassLimits() == NO_LIMITS
    assert OPEN_POLICY.region(NODE) == "eu"
    assert OPEN_POLICY.country(NODE) == ""
    assert OPEN_POLICY.country(describe("1:1", labels={"country": "de"})) == "DE"
