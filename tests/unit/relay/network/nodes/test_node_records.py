"""What the node information base keeps."""

from __future__ import annotations

from laps_relay.network.nodes.node_records import AdjOut, NodeRecord, PeerRecord
from laps_wire.nodeid import NodeId
from testkit.nib_net import key_of, node_info


def test_a_new_peer_carries_nothing_and_was_told_nothing() -> None:
    peer = PeerRecord(NodeId(1), node_info(1))
    assert (peer.out, peer.carries, peer.entries, peer.unsynced) == (None, False, {}, None)


def test_a_node_id_is_held_by_the_first_key() -> None:
    record = NodeRecord(NodeId(1), node_info(1, signature=key_of("a")))
    assert record.fingerprint == b"a" * 32
    assert record.best is None


def test_there_may_be_something_to_tell() -> None:
    nothing, everything, something = AdjOut(), AdjOut(), AdjOut()
    everything.again = True
    something.dirty[NodeId(1)] = None
    assert [out.pending for out in (nothing, everything, something)] == [False, True, True]
