"""Records of what happens in the network: the facts that were not told truly once."""

from __future__ import annotations

from laps_relay.network import events as core
from laps_relay.telemetry.network_records import hash_text, node_text, record_of
from laps_sdk.peering import reports
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeInfo
from laps_wire.telemetry import DialFail, NodeWd, PeerRefuse, SubWd

A = NodeId(1)


def test_texts() -> None:
    assert (hash_text(255), node_text(None), node_text(A)) == ("00000000000000ff", None, str(A))


def test_why_a_node_is_gone() -> None:
    for why in ("withdrawn", "session_closed"):
        assert record_of(core.NodeGone(node=A, reason=why)) == NodeWd(node_id=str(A), reason=why)


def test_whether_an_unsubscribe_was_held_back() -> None:
    entry = SubscribeInfo(A, Stamp(7, 3), (1, 2), 3, 4)
    for delayed in (False, True):
        body = record_of(core.SubscribeGone(entry=entry, delayed=delayed))
        assert isinstance(body, SubWd)
        assert body.delayed is delayed


def test_dials_and_refusals() -> None:
    begun = reports.Dialled(contact="a:1", node=A, dynamic=True)
    assert record_of(begun) is None
    failed = reports.Dialled(contact="a:1\x1b", node=A, dynamic=True, failed="no")
    body = record_of(failed)
    assert isinstance(body, DialFail)
    assert (body.on_demand, body.peer, "\x1b" in body.contact) == (True, str(A), False)
    refused = reports.PeerTurnedDown(session=3, node=None, code=7, reason="", contact="a:1")
    assert record_of(refused) == PeerRefuse(session_id="p3", code=7, contact="a:1")
    assert record_of(core.PolicyChanged()) is None
