from __future__ import annotations

from laps_sdk.peering.peer_records import STREAM_STEP, PeerRecord
from laps_wire.nodeid import NodeId
from laps_wire.peering.session import Role
from testkit.peer_nodes import Net


def test_a_record_begins_without_a_node_and_has_one_when_the_session_is_up() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    session, _ = net.connect(a, b)
    record = a.peers._peers[session]
    assert (record.number, record.role, record.dial) == (session, Role.DIALLER, None)
    assert (record.node, record.up, record.over, record.refusal) == (None, None, False, None)
    net.run()
    assert record.node == NodeId(20)
    assert record.up is not None


def test_two_records_are_never_the_same_and_the_second_control_stream_has_an_id() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    session, _ = net.connect(a, b)
    record = a.peers._peers[session]
    twin = PeerRecord(session, record.wire, record.role, record.alpn, record.spki_hash, None)
    assert record != twin
    assert twin.next_stream == STREAM_STEP  # 0 is the id of the first one
