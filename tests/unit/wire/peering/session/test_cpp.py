"""The C++ relay's dialect: bytes that were seen on the wire, and what a session makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import EncodeError, ProtocolViolation, StateError
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.errors import CloseCode, NodeIdConflictError
from laps_wire.peering.laps2 import (
    NO_EVIDENCE,
    Bases,
    Direction,
    Evidence,
    Location,
    Mode,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    RelayType,
    SnsRefusal,
    Stamp,
)
from laps_wire.peering.session import (
    CPP_16,
    CPP_18,
    AuthenticationStep,
    Dialect,
    Kind,
    Role,
    events,
    to_cpp_node,
)
from laps_wire.peering.session.cpp import CppHandshake, from_cpp_node
from laps_wire.peering.session.dialect import SnsDescription, SnsDiff, SnsEnd, SnsRejection, SnsSet
from laps_wire.peering.session.state import Shape
from testkit.peering_pair import Pair, config, node

A, B = NodeId(1), NodeId(2)
DIALECT: Dialect = CPP_16
BOTH_WAYS = Direction.BIDIRECTIONAL

#: What a C++ relay with endpoint id "relay-a" sends first, as captured.
LIVE_CONNECT = bytes.fromhex("01 0001 00000022 02 b97e0ef037b17f89 01 07") + b"relay-a" + bytes(16)
RELAY_A = cpp.NodeInfo(NodeId(0xB97E0EF037B17F89), cpp.NodeType.EDGE, b"relay-a")
#: A set, as captured.
LIVE_SET = bytes.fromhex("01 000a 0000000f 00000002 02 0001 1122334455667788")


def test_what_it_is() -> None:
    assert (CPP_16.alpn, CPP_18.alpn) == ("moqt-16", "moqt-18")
    assert DIALECT.shape is Shape.PLAIN
    assert DIALECT.single_stream
    assert DIALECT.single_messages
    assert not DIALECT.checks_types
    assert not DIALECT.ordered_sns
    assert DIALECT.first_sns_id == 2
    assert isinstance(DIALECT.handshake(config(Role.DIALLER)), CppHandshake)


def test_live_bytes() -> None:
    connect = cpp.Connect(cpp.PeerMode.BOTH, RELAY_A)
    assert DIALECT.decode(b"x" + LIVE_CONNECT, 1, 0) == (connect, len(LIVE_CONNECT) + 1)
    assert DIALECT.encode(connect, 0) == LIVE_CONNECT
    message, used = DIALECT.decode(LIVE_SET, 0, 0)
    assert used == len(LIVE_SET)
    assert list(DIALECT.read_sns(message)) == [
        SnsDescription(2, None, (NodeId(0x1122334455667788),))
    ]


def test_we_dial_like_a_cpp_relay() -> None:
    info = NodeInfo(
        NodeSelf(RELAY_A.node_id, RelayType.EDGE, Stamp(5, 0), contacts=("relay-a", "other"))
    )
    handshake = CPP_16.handshake(config(Role.DIALLER, node_info=info))
    assert CPP_16.encode(handshake.connect(), 0) == LIVE_CONNECT


def test_we_answer_a_cpp_relay_with_one_message() -> None:
    pair = Pair(dialect=CPP_16)
    pair.listener.handle_stream_data(pair.now, 0, LIVE_CONNECT)
    (question,) = pair.listener.poll_events()
    assert isinstance(question, events.AuthenticationRequired)
    assert (question.peer, question.mode) == (RELAY_A.node_id, Mode.BOTH)
    pair.listener.accept(pair.now)
    item = pair.listener.poll_transmit()
    assert isinstance(item, events.StreamData)
    assert (item.stream_id, item.alone) == (0, True)
    response = cpp.ConnectResponse(0, to_cpp_node(node(20)))
    assert item.data == cpp.encode(response, cpp.DRAFT16)


# Node information


def test_nodes_there_and_back() -> None:
    info = NodeInfo(
        NodeSelf(A, RelayType.VIA, Stamp(0, 0), contacts=("relay-a",), location=Location(5.0, -6.0))
    )
    assert to_cpp_node(info) == cpp.NodeInfo(A, cpp.NodeType.VIA, b"relay-a", 5.0, -6.0)
    assert from_cpp_node(to_cpp_node(info)) == info


def test_nodes_without_contact_or_with_a_path() -> None:
    info = NodeInfo(NodeSelf(A, RelayType.EDGE, Stamp(9, 9)), path=(NodePathItem(B, 25),))
    there = to_cpp_node(info)
    assert there.contact == b"0.0:0.1"
    assert there.path == (cpp.NodePathItem(B, 25),)
    assert (there.longitude, there.latitude) == (0.0, 0.0)


@pytest.mark.parametrize(
    "place", [(0.0, 0.0), (181.0, 1.0), (1.0, -91.0), (float("inf"), 1.0), (1.0, float("-inf"))]
)
def test_places_that_are_none(place: tuple[float, float]) -> None:
    assert from_cpp_node(cpp.NodeInfo(A, cpp.NodeType.EDGE, b"x", *place)).node.location is None


def test_a_contact_that_is_no_text() -> None:
    info = from_cpp_node(cpp.NodeInfo(A, cpp.NodeType.EDGE, b"\xffx"))
    assert info.node.contacts == ("\\xffx",)


def test_control_servers_do_not_exist_there() -> None:
    with pytest.raises(EncodeError, match="no control servers"):
        to_cpp_node(node(1, RelayType.CONTROL))


# The handshake


def test_listener_grants_what_was_asked_for_or_nothing() -> None:
    handshake = CppHandshake(config(Role.LISTENER))
    question = handshake.on_connect(cpp.Connect(cpp.PeerMode.DATA, RELAY_A))
    assert question.step is AuthenticationStep.VERIFY
    assert (question.mode, question.direction) == (Mode.DATA, BOTH_WAYS)
    assert (question.evidence, question.transcript) == (NO_EVIDENCE, b"")
    assert question.peer_info == from_cpp_node(RELAY_A)
    with pytest.raises(StateError, match="only be granted what it asked for: DATA"):
        handshake.respond(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE)
    with pytest.raises(StateError, match="only be granted"):
        handshake.respond(Mode.DATA, Direction.UNIDIRECTIONAL, NO_EVIDENCE)
    with pytest.raises(StateError, match="no proof"):
        handshake.respond(Mode.DATA, BOTH_WAYS, Evidence(2))
    assert handshake.respond(Mode.DATA, BOTH_WAYS, NO_EVIDENCE).error == 0
    agreement = handshake.agreement()
    assert (agreement.mode, agreement.direction, agreement.version) == (Mode.DATA, BOTH_WAYS, 1)
    assert agreement.hold_seconds == 0
    assert agreement.peer_settings.max_sns_targets == 0xFFFF


def test_dialler_takes_the_answer() -> None:
    handshake = CppHandshake(config(Role.DIALLER))
    assert handshake.connect().mode is cpp.PeerMode.BOTH
    with pytest.raises(StateError, match="not come that far"):
        handshake.agreement()
    assert handshake.on_response(cpp.ConnectResponse(0, RELAY_A)).peer == RELAY_A.node_id
    assert handshake.agreement().peer == from_cpp_node(RELAY_A)


def test_what_the_handshake_does_not_have() -> None:
    handshake = CppHandshake(config(Role.DIALLER))
    assert handshake.transcript(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE) == b""
    with pytest.raises(StateError, match="no proof"):
        handshake.prove(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE)
    for method in (handshake.on_challenge, handshake.on_proof):
        with pytest.raises(ProtocolViolation, match="Connect is unknown"):
            method(cpp.Connect(cpp.PeerMode.BOTH, RELAY_A))
    with pytest.raises(ProtocolViolation, match="without node information"):
        handshake.on_response(cpp.ConnectResponse(1, None))


def test_our_own_node_id_at_the_other_end() -> None:
    handshake = CppHandshake(config(Role.LISTENER, number=7))
    twin = cpp.NodeInfo(NodeId(7), cpp.NodeType.EDGE, b"twin")
    with pytest.raises(NodeIdConflictError, match="our own node ID"):
        handshake.on_connect(cpp.Connect(cpp.PeerMode.BOTH, twin))


# Messages

SUBSCRIBE = cpp.SubscribeInfo(1, A, 2, 3, 4, b"data")
ANNOUNCE = cpp.AnnounceInfo(A, 4, Namespace((b"demo",)), b"clk", 0)


@pytest.mark.parametrize(
    ("message", "kind", "event"),
    [
        (cpp.Connect(cpp.PeerMode.BOTH, RELAY_A), Kind.CONNECT, None),
        (
            cpp.ConnectResponse(2, None),
            Kind.REFUSED,
            events.Refused(code=CloseCode.NOT_AUTHORIZED, reason="C++ relay error 2"),
        ),
        (
            cpp.ConnectResponse(1, None),
            Kind.REFUSED,
            events.Refused(code=CloseCode.INTERNAL_ERROR, reason="C++ relay error 1"),
        ),
        (cpp.NodeInfoAdvertise(RELAY_A), Kind.NODE, events.NodesAdvertised(nodes=(RELAY_A,))),
        (
            cpp.NodeInfoWithdrawn(RELAY_A),
            Kind.NODE,
            events.NodesWithdrawn(nodes=(RELAY_A.node_id,)),
        ),
        (
            cpp.AnnounceInfoAdvertised(ANNOUNCE),
            Kind.ANNOUNCE,
            events.AnnouncesAdvertised(announces=(ANNOUNCE,)),
        ),
        (
            cpp.AnnounceInfoWithdrawn(ANNOUNCE),
            Kind.ANNOUNCE,
            events.AnnouncesWithdrawn(announces=(ANNOUNCE,)),
        ),
        (
            cpp.SubscribeInfoAdvertised(SUBSCRIBE),
            Kind.SUBSCRIBE,
            events.SubscribesAdvertised(subscribes=(SUBSCRIBE,)),
        ),
        (
            cpp.SubscribeInfoWithdrawn(SUBSCRIBE),
            Kind.SUBSCRIBE,
            events.SubscribesWithdrawn(subscribes=(SUBSCRIBE,)),
        ),
        (cpp.SubscribeNodeSetWithdrawn(3), Kind.SNS, None),
        (cpp.UnknownMessage(77, b""), Kind.IGNORED, None),
    ],
)
def test_kinds_and_events(message: Any, kind: Kind, event: events.Event | None) -> None:
    assert DIALECT.kind(message) is kind
    assert DIALECT.event(0.0, message) == event


def test_an_acceptance_is_a_response() -> None:
    assert DIALECT.kind(cpp.ConnectResponse(0, RELAY_A)) is Kind.RESPONSE
    assert DIALECT.kind(object()) is None


@pytest.mark.parametrize(
    ("code", "error"), [(CloseCode.NOT_AUTHORIZED, 2), (CloseCode.POLICY, 1), (99, 1)]
)
def test_refusals(code: int, error: int) -> None:
    assert DIALECT.refusal(code, "why", 5, ("x",)) == cpp.ConnectResponse(error, None)


def test_messages_that_do_not_exist_there() -> None:
    assert DIALECT.keepalive() is None
    assert DIALECT.stay() is None
    assert DIALECT.generation(cpp.UnknownMessage(0x0C, b"")) is None
    assert DIALECT.drain(1.0, "", ()) is None
    assert DIALECT.sync(Bases.SNS, begin=True) is None
    assert DIALECT.write_sns_refusal(SnsRejection(1, 1, SnsRefusal.POLICY)) is None
    with pytest.raises(StateError, match="no control stream 1"):
        DIALECT.latch(1)


def test_sets_are_always_written_whole() -> None:
    now = SnsSet(2, 9, frozenset({B, A}), scope="gold")  # nowhere to write the class
    expected = [cpp.SubscribeNodeSetAdvertised(2, 2, (A, B))]
    for whole in (True, False):
        assert list(DIALECT.write_sns((SnsDiff(2, 9, (B,)),), now, whole=whole)) == expected
    assert DIALECT.write_sns_end(2) == cpp.SubscribeNodeSetWithdrawn(2)
    # One that is emptied before it ends just ends.
    nobody = SnsSet(2, 10, frozenset(), scope="gold")
    assert DIALECT.write_sns((SnsDiff(2, 10, (), (A, B)),), nobody, whole=False) == []
    assert list(DIALECT.read_sns(cpp.SubscribeNodeSetWithdrawn(2))) == [SnsEnd(2)]


def test_draft_18_writes_long_contacts_in_its_own_way() -> None:
    long = cpp.NodeInfoAdvertise(cpp.NodeInfo(A, cpp.NodeType.EDGE, b"x" * 100))
    assert CPP_18.encode(long, 0) != CPP_16.encode(long, 0)
    assert CPP_18.decode(CPP_18.encode(long, 0), 0, 0)[0] == long
