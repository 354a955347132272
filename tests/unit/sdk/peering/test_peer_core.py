"""What follows from what a session tells: proofs, keys, lives of a node, types of relays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from laps_sdk.peering.events import NOT_NOW, Dial, Refusal
from laps_sdk.peering.peer_core import REOPEN_INTERVAL
from laps_sdk.peering.peers import NodeIdConflict, NodeUnproved, PeerDown, PeerRefused, PeerUp
from laps_sdk.peering.settings import PeeringSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    ConnectRefused,
    Evidence,
    Feature,
    Mode,
    NodeAdvertise,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import CPP_16, ControlStreamLost, NodesAdvertised, Role
from testkit.peer_nodes import Net, Node, ToyAuthenticator, banning

A, B = NodeId(10), NodeId(20)


def codes(node: Node) -> list[int]:
    return [event.code for event in node.of(PeerRefused)]


# Proofs


def test_a_proof_that_does_not_hold_is_refused() -> None:
    net = Net()
    a = net.node(10, authenticator=ToyAuthenticator(10, secret=b"wrong"))
    b = net.node(20)
    net.connect(a, b)
    net.run()
    assert codes(a) == codes(b) == [CloseCode.NOT_AUTHORIZED]
    (seen,) = a.of(PeerRefused)
    assert seen.by_peer
    assert seen.node == B
    assert seen.reason == "the signature is bad (proof)"
    assert b.of(PeerRefused)[0].node == A
    assert not a.of(PeerUp)
    assert not b.of(PeerUp)


def test_a_listener_must_prove_itself_too() -> None:
    net = Net()
    a, b = net.node(10), net.node(20, authenticator=_Deceiver(20))
    net.connect(a, b)
    net.run()
    assert codes(a) == [CloseCode.NOT_AUTHORIZED]
    assert not a.of(PeerUp)
    assert b.of(PeerDown)[0].code == CloseCode.NOT_AUTHORIZED


class _Deceiver(ToyAuthenticator):
    """Takes everybody's proof, and has none of its own."""

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        super().sign(schemes, transcript)
        return Evidence(3, b"", b"nothing")


class _Mute(ToyAuthenticator):
    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        del schemes, transcript
        return None


def test_who_cannot_sign_does_not_come_in() -> None:
    net = Net()
    a, b = net.node(10, authenticator=_Mute(10)), net.node(20)
    net.connect(a, b)
    net.run()
    assert codes(a) == [CloseCode.NOT_AUTHORIZED]
    net.connect(b, a)
    net.run()
    assert codes(b)[-1] == CloseCode.NOT_AUTHORIZED


def test_both_sides_sign_over_the_same_tls_key() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    net.connect(a, b)
    net.run()
    for seen in (a.authenticator.seen, b.authenticator.seen):
        assert bytes([20]) * 32 in seen[0]


def test_policy_says_who_may_peer() -> None:
    net = Net()
    a, b = net.node(10), net.node(20, may_peer=banning(10))
    net.connect(a, b)
    net.run()
    assert codes(a) == codes(b) == [CloseCode.POLICY]
    net.connect(b, a)
    net.run()
    assert codes(b) == [CloseCode.POLICY] * 2
    assert a.of(PeerDown)[0].code == CloseCode.POLICY  # a listener is up before the dialler is


def test_names_that_are_hashed_with_another_key_are_seen_at_once() -> None:
    net = Net()
    a, b = net.node(10), net.node(20, hash_check=8)
    net.connect(a, b)
    net.run()
    assert codes(a) == codes(b) == [CloseCode.HASH_MISMATCH]


# Node ids, keys and epochs


def test_another_key_never_gets_a_node_id_and_a_person_is_told() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    net.connect(a, b)
    net.run()
    twin = net.node(10, key=66, epoch=99)
    net.connect(twin, b)
    net.run()
    assert codes(twin) == [CloseCode.NODE_ID_CONFLICT]
    (conflict,) = b.of(NodeIdConflict)
    assert (conflict.node, conflict.known, conflict.shown) == (
        A,
        bytes([10]) * 32,
        bytes([66]) * 32,
    )
    assert b.peers.control_of(A) is not None
    assert not a.of(PeerDown)


def test_the_same_key_with_a_higher_epoch_replaces() -> None:
    net = Net()
    old, b = net.node(10, epoch=5), net.node(20)
    net.connect(old, b)
    net.connect(old, b)
    net.run()
    new = net.node(10, epoch=6)
    net.connect(new, b)
    net.run()
    assert [event.code for event in old.of(PeerDown)] == [CloseCode.SUPERSEDED] * 2
    relevant = [type(event) for _, event in b.told if isinstance(event, PeerUp | PeerDown)]
    assert relevant == [PeerUp, PeerUp, PeerDown, PeerDown, PeerUp]
    assert new.of(PeerUp)[0].control


def test_a_former_life_is_stale() -> None:
    net = Net()
    new, b = net.node(10, epoch=6), net.node(20)
    net.connect(new, b)
    net.run()
    old = net.node(10, epoch=5)
    net.connect(old, b)
    net.run()
    assert codes(old) == [CloseCode.STALE_EPOCH]
    net.connect(b, old)
    net.run()
    assert old.of(PeerDown)[0].code == CloseCode.STALE_EPOCH
    assert not new.of(PeerDown)


def test_who_dials_itself_notices() -> None:
    net = Net()
    a = net.node(10)
    net.connect(a, a)
    net.run()
    ends = a.of(PeerRefused)
    assert {event.code for event in ends} == {CloseCode.NODE_ID_CONFLICT}
    assert sorted(event.to_self for event in ends) == [False, True]  # one end has dialled


def test_a_twin_elsewhere_is_not_ourselves() -> None:
    net = Net()
    a, twin, b = net.node(10), net.node(10, key=3), net.node(20)
    net.connect(b, a)
    net.connect(a, twin)
    net.run()
    assert [event.to_self for event in a.of(PeerRefused)] == [True]
    # The toy certificates are named after the node, so only one of another name tells them apart.
    a.peers.opened(net.now, 50, role=Role.DIALLER, alpn="laps-2", spki_hash=b"\x07" * 32)
    refusal = laps2.encode(ConnectRefused(CloseCode.NODE_ID_CONFLICT, "taken", 1500, ("x:1",)))
    a.peers.stream_data(net.now, 50, 0, refusal)
    net.collect()
    last = a.of(PeerRefused)[-1]
    assert not last.to_self
    assert (last.redirect, last.retry_after) == (("x:1",), 1.5)


# Types of relays


def test_a_control_server_is_asked_for_control_alone() -> None:
    net = Net()
    a, server = net.node(10), net.node(20, relay_type=RelayType.CONTROL)
    net.connect(a, server)
    net.run()
    assert codes(a) == [CloseCode.MODE_REFUSED]
    net.connect(a, server, dial=Dial(1, "x", mode=Mode.CONTROL))
    net.run()
    (up,) = a.of(PeerUp)
    assert up.mode is Mode.CONTROL
    assert not up.sends_data
    assert not up.receives_data
    assert Feature.SHARDED_SUBSCRIBES in up.features
    other = net.node(30)
    net.connect(server, other)
    net.run()
    assert other.of(PeerUp)[0].mode is Mode.CONTROL
    assert Feature.SHARDED_SUBSCRIBES not in other.of(PeerUp)[0].features


def test_control_alone_that_is_there_already_is_redundant() -> None:
    net = Net()
    a, server = net.node(10), net.node(20, relay_type=RelayType.CONTROL)
    dial = Dial(1, "x", mode=Mode.CONTROL)
    net.connect(a, server, dial=dial)
    net.run()
    net.connect(a, server, dial=dial)
    net.run()
    net.connect(server, a, dial=dial)
    net.run()
    assert codes(a) == [CloseCode.REDUNDANT_CONTROL] * 2
    assert a.peers.control_of(B) is not None


def test_stubs_share_node_id_zero_and_are_known_by_their_sessions() -> None:
    net = Net()
    edge = net.node(20)
    stubs = [net.node(0, key=key, relay_type=RelayType.STUB) for key in (1, 2)]
    for stub in stubs:
        net.connect(stub, edge)
    net.run()
    assert len(edge.of(PeerUp)) == 2
    assert all(up.control and up.mode is Mode.BOTH for up in edge.of(PeerUp))
    # A Stub has one connection to its parent.
    net.connect(stubs[0], edge)
    net.run()
    assert codes(stubs[0]) == [CloseCode.REDUNDANT_CONTROL]
    # Nobody dials a Stub.
    net.connect(edge, stubs[1])
    net.run()
    assert codes(edge)[-1] == CloseCode.MODE_REFUSED


# C++ relays


def test_a_cpp_relay_peers_in_both_directions() -> None:
    net = Net()
    a, b, c = net.node(10), net.node(20), net.node(30)
    net.connect(a, b, alpn="moqt-16")
    net.run()
    for node in (a, b):
        (up,) = node.of(PeerUp)
        assert up.mode is Mode.BOTH
        assert up.control
        assert up.alpn == "moqt-16"
        assert up.fingerprint == b""
    # It cannot be granted less than it asks for.
    net.connect(a, b, alpn="moqt-16")
    net.run()
    assert codes(b)[-1] == CloseCode.REDUNDANT_CONTROL
    # ... and nor can we be, if the other end does not see it.
    session = 77
    a.peers.opened(net.now, session, role=Role.DIALLER, alpn="moqt-16", spki_hash=bytes(32))
    granted = cpp.ConnectResponse(
        cpp.ConnectError.NONE,
        cpp.NodeInfo(B, cpp.NodeType.EDGE, b"b", 0.0, 0.0, ()),
    )
    a.peers.stream_data(net.now, session, 0, CPP_16.encode(granted, 65536))
    net.collect()
    assert codes(a)[-1] == CloseCode.REDUNDANT_CONTROL
    assert c.peers.control_of(A) is None


def test_the_control_stream_of_a_cpp_relay_is_never_replaced() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    ours, _ = net.connect(a, b, alpn="moqt-16")
    net.run()
    a.peers.stream_reset(net.now, ours, 0)
    net.run()
    assert a.peers.wire(ours).control_stream != 4


def test_a_control_server_does_not_speak_with_cpp_relays() -> None:
    net = Net()
    server = net.node(20, relay_type=RelayType.CONTROL)
    server.peers.opened(net.now, 1, role=Role.LISTENER, alpn="moqt-16", spki_hash=bytes(32))
    net.collect()
    assert codes(server) == [CloseCode.MODE_REFUSED]


# Signed nodes


def test_words_that_a_node_did_not_sign_end_the_session_where_that_was_agreed() -> None:
    settings = PeeringSettings(signed_nodes=True)
    net = Net()
    a, b = net.node(10, settings=settings), net.node(20, settings=settings)
    ours, _ = net.connect(a, b)
    net.run()
    assert Feature.SIGNED_NODES in a.of(PeerUp)[0].features
    good = a.peers.signed(NodeSelf(NodeId(30), RelayType.EDGE, Stamp(1, 1)))
    a.peers.wire(ours).send(net.now, NodeAdvertise((good,)))
    net.run()
    assert len(b.of(NodesAdvertised)) == 1
    bad = NodeInfo(NodeSelf(NodeId(31), RelayType.EDGE, Stamp(1, 1)))
    a.peers.wire(ours).send(net.now, NodeAdvertise((good, bad)))
    net.run()
    assert len(b.of(NodesAdvertised)) == 1
    assert b.of(PeerDown)[0].code == CloseCode.BAD_NODE
    assert "0.0:0.31" in a.of(PeerDown)[0].reason


def test_who_does_not_agree_to_that_is_refused_where_it_must_be() -> None:
    net = Net()
    a = net.node(10, settings=PeeringSettings(signed_nodes=True))
    b = net.node(20)
    for dialler, listener in ((a, b), (b, a)):
        net.connect(dialler, listener)
        net.run()
    assert [down.code for down in a.of(PeerRefused)] == [CloseCode.NOT_AUTHORIZED] * 2
    assert a.of(PeerUp) == []


def test_a_node_whose_certificate_has_ended_is_left_out() -> None:
    settings = PeeringSettings(signed_nodes=True)
    net = Net()
    a, b = net.node(10, settings=settings), net.node(20, settings=settings)
    ours, _ = net.connect(a, b)
    net.run()
    good, late = (
        a.peers.signed(NodeSelf(NodeId(number), RelayType.EDGE, Stamp(1, 1))) for number in (30, 31)
    )
    b.peers._authenticator.verify_node = (  # type: ignore[method-assign]
        lambda info: Refusal(NOT_NOW, "over") if info == late else None
    )
    a.peers.wire(ours).send(net.now, NodeAdvertise((good, late)))
    net.run()
    (told,) = b.of(NodesAdvertised)
    assert [info.node.node_id for info in told.nodes] == [30]
    assert [(event.node, event.reason) for event in b.of(NodeUnproved)] == [(31, "over")]
    assert b.of(PeerDown) == []


def test_without_that_feature_nobody_checks() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    ours, _ = net.connect(a, b)
    net.run()
    bad = NodeInfo(NodeSelf(NodeId(31), RelayType.EDGE, Stamp(1, 1)))
    a.peers.wire(ours).send(net.now, NodeAdvertise((bad,)))
    net.run()
    assert len(b.of(NodesAdvertised)) == 1


def test_what_is_signed_already_is_not_signed_again() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    me = NodeSelf(A, RelayType.EDGE, Stamp(1, 0))
    a.peers._node_info = lambda: NodeInfo(me, NodeSignature(3, b"f" * 32, b"mine"))
    net.connect(a, b)
    net.run()
    assert b.of(PeerUp)[0].node.signature.signature == b"mine"


# Caps and floods


def test_handshakes_under_way_are_bounded_and_the_silent_make_room() -> None:
    net = Net()
    b = net.node(20, max_handshakes=3)
    for session in range(1, 6):
        b.peers.opened(net.now, session, role=Role.LISTENER, alpn="laps-2", spki_hash=bytes(32))
    net.collect()
    # Those who came first, and said nothing, had to go.
    assert [event.session for event in b.of(PeerRefused)] == [1, 2]
    assert codes(b) == [CloseCode.OVERLOADED] * 2
    b.sessions = 10
    a = net.node(10)
    net.connect(a, b)
    net.run()
    assert a.of(PeerUp)
    assert len(b.of(PeerRefused)) == 3
    # Our own dials are not counted.
    other = net.node(40)
    for _ in range(5):
        b.sessions += 1
        b.peers.opened(net.now, b.sessions, role=Role.DIALLER, alpn="laps-2", spki_hash=bytes(32))
    net.connect(b, other)
    net.run()
    assert other.of(PeerUp)
    assert len(b.of(PeerRefused)) == 3


def test_connections_of_one_node_are_bounded() -> None:
    net = Net()
    a, b = net.node(10), net.node(20, max_sessions_per_node=2)
    for _ in range(3):
        net.connect(a, b)
        net.run()
    assert codes(a) == [CloseCode.OVERLOADED]
    assert len(b.peers.sessions_of(A)) == 2


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x02\x00", b"\x00\x01x", bytes(range(256))])
def test_garbage_ends_one_session_and_no_other(garbage: bytes) -> None:
    net = Net()
    a, b, c = net.node(10), net.node(20), net.node(30)
    ours, theirs = net.connect(a, b)
    net.connect(c, b)
    net.run()
    b.peers.stream_data(net.now, theirs, 0, garbage)
    # An odd type with a length is a message that may be ignored, or the beginning of one.
    b.peers.stream_data(net.now, theirs, 0, b"\x00" * 70_000)
    net.run()
    assert b.of(PeerDown)[0].code in (
        CloseCode.PROTOCOL_VIOLATION,
        CloseCode.UNKNOWN_MESSAGE,
        CloseCode.MESSAGE_TOO_LARGE,
    )
    assert a.peers.up(ours) is None
    assert not c.of(PeerDown)


def test_control_streams_are_not_replaced_faster_than_once_in_a_while() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    ours, _ = net.connect(a, b)
    net.run()
    a.peers.stream_reset(net.now, ours, 0)
    net.run()
    assert a.peers.wire(ours).control_stream == 4
    a.peers.stream_reset(net.now, ours, 4)
    net.run()
    assert len(a.of(ControlStreamLost)) == 2
    assert a.peers.wire(ours).control_stream != 8
    due = a.peers.poll_timeout()
    assert due is not None
    assert due <= net.now + REOPEN_INTERVAL
    net.sleep(REOPEN_INTERVAL)
    assert a.peers.wire(ours).control_stream == 8
    a.peers.stream_reset(net.now, ours, 8)
    a.peers.close(net.now, ours)
    net.sleep(5)
    assert len(a.peers) == 0


def test_a_lost_control_stream_in_the_handshake_is_no_reason_for_another() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    ours, _ = net.connect(a, b)
    a.peers.stream_reset(net.now, ours, 0)
    net.sleep(60)
    assert codes(a)
    assert len(a.peers) == len(b.peers) == 0
