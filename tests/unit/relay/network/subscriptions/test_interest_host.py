from __future__ import annotations

from laps_relay.network.subscriptions.interest_host import Denial, InterestsHost
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeCode
from testkit.interest_rig import Rig


def test_a_relay_is_the_host_of_its_interests() -> None:
    host: InterestsHost = Rig()
    assert host.replicas(1) == ()
    assert host.reaches(NodeId(1))
    denial = Denial(SubscribeCode.HASH_COLLISION, "no")
    assert denial.code is SubscribeCode.HASH_COLLISION
