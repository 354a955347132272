from __future__ import annotations

from laps_relay.network.subscriptions.want_records import No, Want, code_of
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeCode
from testkit.subscription_rig import key_of, track


def test_the_refusal_that_says_most_is_told() -> None:
    name = track("a/b")
    want = Want(key_of(name), name, (1,), 2)
    assert (want.wanted, want.denied, want.entry, want.state) == (True, False, None, None)
    assert want.worst() == No(SubscribeCode.NO_PUBLISHER, "nobody answered")
    want.refusals[NodeId(1)] = nobody = No(SubscribeCode.NO_PUBLISHER, "nobody")
    assert want.worst() is nobody
    assert not want.excluded
    want.refusals[NodeId(2)] = policy = No(SubscribeCode.POLICY, "not you")
    assert want.worst() is policy
    assert want.excluded


def test_a_code_of_a_later_protocol_is_a_refusal() -> None:
    assert code_of(6) is SubscribeCode.LIMIT
    assert code_of(1234) is SubscribeCode.PUBLISHER_REFUSED
