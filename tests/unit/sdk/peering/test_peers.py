"""Sessions with other relays, from the first byte to the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.peering.events import (
    NOT_NOW,
    Dial,
    NodeIdConflict,
    NodeUnproved,
    PeerDown,
    PeerRefused,
    PeerUp,
    Refusal,
)
from laps_sdk.peering.peers import REOPEN_INTERVAL
from laps_sdk.peering.settings import PeeringSettings
from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    ConnectRefused,
    Direction,
    Evidence,
    Feature,
    Keepalive,
    Mode,
    NodeAdvertise,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import (
    CPP_16,
    ControlStreamLost,
    ControlStreamMoved,
    Draining,
    NodesAdvertised,
    Role,
    Staying,
    SyncRequested,
)
from testkit.peer_nodes import Net, Node, ToyAuthenticator, banning
from testkit.properties import examples

A, B = NodeId(10), NodeId(20)


def pair() -> tuple[Net, Node, Node, int, int]:
    """Two nodes with an established session; the numbers of its ends."""
    net = Net()
    a, b = net.node(10), net.node(20)
    ours, theirs = net.connect(a, b)
    net.run()
    return net, a, b, ours, theirs


def test_two_relays_meet_and_know_each_other() -> None:
    _, a, b, ours, theirs = pair()
    (up,) = a.of(PeerUp)
    assert up.session == ours
    assert up.node.node.node_id == B
    assert (up.mode, up.direction, up.role) == (Mode.BOTH, Direction.BIDIRECTIONAL, Role.DIALLER)
    assert up.control
    assert up.sends_data
    assert up.receives_data
    assert up.fingerprint == bytes([20]) * 32
    assert up.settings.hash_check == 7
    assert a.peers.up(ours) == up
    assert a.peers.sessions_of(B) == (ours,)
    assert a.peers.control_of(B) == ours
    assert b.peers.control_of(A) == theirs
    assert b.of(PeerUp)[0].role is Role.LISTENER
    assert len(a.peers) == 1
    # The application is asked for its bases behind PeerUp.
    kinds = [type(event) for _, event in a.told]
    assert kinds == [PeerUp, SyncRequested]


def test_who_is_not_there_is_not_known() -> None:
    _, a, _, _, _ = pair()
    assert a.peers.up(99) is None
    assert a.peers.sessions_of(NodeId(99)) == ()
    assert a.peers.control_of(NodeId(99)) is None
    assert a.peers.poll_transmit(99) == []
    with pytest.raises(StateError, match="no session 99"):
        a.peers.wire(99)


def test_sets_of_a_session_can_be_read_before_its_handshake_is_over() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    net.connect(a, b)
    assert a.peers.sessions_of(B) == ()
    (state,) = a.peers.forwarding_states()
    assert (len(state.sender), len(state.receiver), len(state.unknown)) == (0, 0, 0)


def test_what_the_shell_may_not_do() -> None:
    net, a, _, ours, _ = pair()
    with pytest.raises(StateError, match="no peering protocol"):
        a.peers.opened(net.now, 7, role=Role.DIALLER, alpn="h3", spki_hash=bytes(32))
    with pytest.raises(StateError, match="open already"):
        a.peers.opened(net.now, ours, role=Role.DIALLER, alpn="laps-2", spki_hash=bytes(32))


def test_news_of_connections_that_are_gone_is_nothing() -> None:
    net, a, _, _, _ = pair()
    a.peers.stream_data(net.now, 99, 0, b"x")
    a.peers.stream_reset(net.now, 99, 0)
    a.peers.stop_sending(net.now, 99, 0)
    a.peers.closed(net.now, 99)
    a.peers.close(net.now, 99)
    assert a.peers.poll_dirty() == []
    assert a.peers.poll_events() == []


def test_commands_go_straight_to_the_session_and_what_follows_is_found() -> None:
    net, a, b, ours, _ = pair()
    node = b.of(PeerUp)[0].node.node
    a.peers.wire(ours).send(net.now, NodeAdvertise((NodeInfo(node),)))
    assert a.peers.poll_dirty() == [ours]
    assert a.peers.poll_dirty() == []
    assert a.peers.send(net.now, ours, Keepalive())
    net.run()
    assert b.of(NodesAdvertised)[0].nodes[0].node == node
    a.peers.wire(ours).close(net.now, CloseCode.NO_ERROR, "enough")
    assert [type(event) for _, event in a.peers.poll_events()] == [PeerDown]
    assert not a.peers.send(net.now, ours, Keepalive())
    net.run()
    assert b.of(PeerDown)[0].reason == "enough"
    assert not a.peers.send(net.now, 99, Keepalive())


def test_an_end_is_told_on_both_sides_and_leaves_nothing() -> None:
    net, a, b, ours, theirs = pair()
    a.peers.fail(net.now, ours, ProtocolViolation("bad data"))
    a.peers.fail(net.now, ours, ProtocolViolation("again"))
    net.run()
    (down,) = a.of(PeerDown)
    assert (down.session, down.node, down.control, down.by_peer) == (ours, B, True, False)
    assert (down.code, down.reason) == (CloseCode.PROTOCOL_VIOLATION, "bad data")
    (seen,) = b.of(PeerDown)
    assert (seen.session, seen.by_peer, seen.code) == (theirs, True, down.code)
    for node in (a, b):
        assert len(node.peers) == 0
        assert node.peers.poll_timeout() is None
        assert node.peers.sessions_of(A) == node.peers.sessions_of(B) == ()


def test_between_our_close_and_the_end_of_the_connection_nothing_is_up() -> None:
    net, a, _, ours, _ = pair()
    a.peers.close(net.now, ours, CloseCode.NO_ERROR, "x" * 1000)
    assert a.peers.up(ours) is None
    assert a.peers.sessions_of(B) == ()
    assert a.peers.control_of(B) is None
    a.peers.stream_data(net.now, ours, 0, b"late")
    net.collect()
    assert len(a.of(PeerDown)) == 1


def test_everything_can_be_closed_at_once() -> None:
    net = Net()
    a, b, c = net.node(10), net.node(20), net.node(30)
    net.connect(a, b)
    net.connect(c, a)
    net.run()
    a.peers.close_all(net.now, CloseCode.OVERLOADED, "off")
    net.run()
    assert [node.of(PeerDown)[0].code for node in (b, c)] == [CloseCode.OVERLOADED] * 2
    assert len(a.of(PeerDown)) == 2


# One control connection


def test_when_both_dial_at_once_the_lower_ones_connection_carries_control() -> None:
    net = Net()
    low, high = net.node(10), net.node(20)
    by_high = net.connect(high, low)
    by_low = net.connect(low, high)
    net.run()
    assert low.peers.control_of(B) == by_low[0]
    assert high.peers.control_of(A) == by_low[1]
    assert {up.mode for up in low.of(PeerUp)} == {Mode.BOTH, Mode.DATA}
    assert low.peers.sessions_of(B) == tuple(sorted((by_low[0], by_high[1])))


def test_more_connections_carry_data() -> None:
    net, a, b, ours, _ = pair()
    more = [net.connect(a, b)[0], net.connect(b, a)[1]]
    net.run()
    assert a.peers.control_of(B) == ours
    assert [a.peers.up(each).mode for each in more] == [Mode.DATA, Mode.DATA]  # type: ignore[union-attr]  # they are up


def test_control_that_was_lost_is_had_again() -> None:
    net, a, b, ours, _ = pair()
    net.cut(a, ours)
    again, _ = net.connect(b, a)[::-1]
    net.run()
    assert a.peers.control_of(B) == again
    assert [type(event) for _, event in a.told if isinstance(event, PeerUp | PeerDown)] == [
        PeerUp,
        PeerDown,
        PeerUp,
    ]


@settings(max_examples=examples(25))
@given(st.data())
def test_whatever_overtakes_whatever_both_agree_on_one_control_connection(
    data: st.DataObject,
) -> None:
    net = Net()
    nodes = net.node(10), net.node(20)
    ends: list[tuple[Node, int]] = []
    for _ in range(40):
        choices = [("dial", 0), ("dial", 1), *(("move", i) for i in range(len(net.waiting())))]
        if ends:
            choices.append(("cut", 0))
        what, which = data.draw(st.sampled_from(choices))
        if what == "dial" and len(ends) < 6:
            dialler, listener = nodes if which == 0 else nodes[::-1]
            ends.append((dialler, net.connect(dialler, listener)[0]))
        elif what == "move":
            net.step(net.waiting()[which])
        elif what == "cut":
            node, session = ends.pop(data.draw(st.integers(0, len(ends) - 1)))
            net.cut(node, session)
    net.run()
    held = [nodes[0].peers.control_of(B), nodes[1].peers.control_of(A)]
    if held[0] is None:
        assert held[1] is None
    else:
        other = nodes[0].wires[held[0]].other
        assert other is not None
        assert other.session == held[1]
    for node in nodes:
        ups = [up for s in node.wires if (up := node.peers.up(s)) is not None]
        assert sum(up.control for up in ups) <= 1


def test_who_has_no_room_and_who_takes_no_peers_says_so_at_once() -> None:
    net = Net()
    crowded = net.node(10, max_handshakes=1)
    stub = net.node(0, key=3, relay_type=RelayType.STUB)
    for node in (crowded, crowded, stub):
        node.sessions += 1
        node.peers.opened(
            net.now, node.sessions, role=Role.LISTENER, alpn="laps-2", spki_hash=bytes(32)
        )
    net.collect()
    assert [(each.session, each.code) for each in crowded.of(PeerRefused)] == [
        (1, CloseCode.OVERLOADED)
    ]
    assert stub.of(PeerRefused)[0].code == CloseCode.MODE_REFUSED


# Going away, policy, keys


def test_a_relay_that_drains_says_so_and_sends_newcomers_elsewhere() -> None:
    net, a, b, ours, _ = pair()
    b.peers.drain(net.now, 2.0, "maintenance", ("other.example:1",))
    b.peers.drain(net.now, 1.0)  # only the first time counts
    net.run()
    (told,) = a.of(Draining)
    assert told.alternates == ("other.example:1",)
    c = net.node(30)
    net.connect(c, b)
    net.run()
    (refused,) = c.of(PeerRefused)
    assert refused.code == CloseCode.DRAINED
    net.sleep(3.0)
    assert a.of(PeerDown)[0].code == CloseCode.DRAINED
    assert a.peers.up(ours) is None


def test_a_relay_that_stays_after_all_says_so_and_takes_newcomers() -> None:
    """But a connection that nobody wants any more ends."""
    net, a, b, _, theirs = pair()
    c, d = net.node(30), net.node(40)
    net.connect(c, b)
    net.run()
    (other,) = b.peers.sessions_of(NodeId(30))
    b.peers.part(net.now, other, 5.0, "not configured any more")
    b.peers.part(net.now, 99, 5.0, "there is none")
    b.peers.drain(net.now, 2.0)
    net.run()
    b.peers.stay(net.now)
    net.run()
    assert len(a.of(Staying)) == 1
    assert c.of(Staying) == []
    assert [b.peers.is_parted(session) for session in (other, theirs, 99)] == [True, False, False]
    net.connect(d, b)
    net.run()
    assert d.of(PeerRefused) == []
    net.sleep(6.0)
    assert a.of(PeerDown) == []
    assert c.of(PeerDown)[0].code == CloseCode.DRAINED


def test_alternates_are_given_to_who_comes_while_draining() -> None:
    net, _, b, _, _ = pair()
    b.peers.drain(net.now, 5.0, alternates=("x.example:2",))
    c = net.node(30)
    net.connect(c, b)
    net.run()
    assert c.of(PeerRefused)[0].redirect == ("x.example:2",)


def test_another_policy_ends_what_it_forbids() -> None:
    net, a, b, _, _ = pair()
    c = net.node(30)
    net.connect(c, a)
    net.run()
    # What is known by now counts more than what was said in the handshake.
    a.peers.set_policy(
        net.now, banning(20), lambda _: NodeSelf(NodeId(21), RelayType.EDGE, Stamp(1, 0))
    )
    net.run()
    assert b.of(PeerDown) == []
    a.peers.set_policy(net.now, banning(20), lambda _: None)
    net.run()
    (down,) = b.of(PeerDown)
    assert down.code == CloseCode.POLICY
    assert down.reason == "not here (peers)"
    assert a.peers.sessions_of(NodeId(30))
    net.connect(b, a)
    net.run()
    assert b.of(PeerRefused)[0].code == CloseCode.POLICY


def test_a_person_can_let_another_key_have_a_node_id() -> None:
    net, a, b, ours, _ = pair()
    assert not a.peers.forget_key(B)  # it is there
    net.cut(a, ours)
    twin = net.node(20, key=99)
    net.connect(twin, a)
    net.run()
    assert twin.of(PeerRefused)[0].code == CloseCode.NODE_ID_CONFLICT
    assert a.peers.forget_key(B)
    net.connect(twin, a)
    net.run()
    assert twin.of(PeerUp)
    assert b.of(PeerDown)


def test_keys_that_held_node_ids_in_a_former_life_still_do() -> None:
    net, a, b, ours, _ = pair()
    known = a.peers.poll_known_keys()
    assert known == {B: bytes([20]) * 32}
    assert a.peers.poll_known_keys() is None
    net.cut(a, ours)
    again = net.node(10, epoch=2, known_keys=known)
    twin = net.node(20, key=99)
    net.connect(twin, again)
    net.run()
    assert twin.of(PeerRefused)[0].code == CloseCode.NODE_ID_CONFLICT
    (conflict,) = again.of(NodeIdConflict)
    assert (conflict.node, conflict.shown) == (B, bytes([99]) * 32)
    net.connect(b, again)
    net.run()
    assert again.of(PeerUp)
    assert again.peers.poll_known_keys() is None


def test_what_we_say_of_ourselves_is_signed() -> None:
    _, a, _, _, _ = pair()
    info = a.peers.signed(a.peers.up(1).node.node)  # type: ignore[union-attr]  # it is up
    assert info.signature.fingerprint == bytes([10]) * 32


# Time


def test_nobody_waits_for_ever_for_a_handshake() -> None:
    net = Net()
    a = net.node(10)
    a.peers.opened(net.now, 1, role=Role.LISTENER, alpn="laps-2", spki_hash=bytes(32))
    net.sleep(30)
    (refused,) = a.of(PeerRefused)
    assert refused.code == CloseCode.HANDSHAKE_TIMEOUT
    assert refused.node is None


def test_keepalives_keep_a_session_and_silence_ends_it() -> None:
    net, a, b, ours, _ = pair()
    net.sleep(120)
    assert not a.of(PeerDown)
    a.wires[ours].open = False  # nothing arrives any more
    net.sleep(60)
    assert a.of(PeerDown)[0].code == CloseCode.HOLD_EXPIRED
    assert b.of(PeerDown)[0].code == CloseCode.HOLD_EXPIRED


def test_a_timer_that_comes_too_early_does_nothing() -> None:
    net, a, _, _, _ = pair()
    due = a.peers.poll_timeout()
    a.peers.handle_timeout(net.now)
    assert a.peers.poll_timeout() == due
    assert not a.peers.has_events()
    assert a.peers.poll_events() == []


def test_who_asks_whether_something_happened_hears_of_commands_too() -> None:
    net, a, _, ours, _ = pair()
    a.peers.wire(ours).close(net.now)
    assert a.peers.has_events()
    assert [type(event) for _, event in a.peers.poll_events()] == [PeerDown]
    assert not a.peers.has_events()


# Control streams


def test_a_lost_control_stream_is_replaced_by_the_dialler() -> None:
    net, a, b, ours, theirs = pair()
    a.peers.stream_reset(net.now, ours, 0, 5)
    assert a.peers.wire(ours).control_stream == 4
    net.run()
    assert [event.stream_id for event in a.of(ControlStreamLost)] == [0]
    assert [(event.old, event.new) for event in b.of(ControlStreamMoved)] == [(0, 4)]
    assert a.peers.up(ours) is not None
    assert len(a.of(SyncRequested)) == 2
    # What the listener sees of it is told, and left to the dialler.
    b.peers.stop_sending(net.now, theirs, 4)
    net.run()
    assert b.peers.up(theirs) is not None


def test_a_dial_says_whom_it_expects_and_what_it_wants() -> None:
    net = Net()
    a, b = net.node(10), net.node(20)
    dial = Dial(1, "b.example", node=B, mode=Mode.DATA, direction=Direction.UNIDIRECTIONAL)
    net.connect(a, b, dial=dial)
    net.run()
    (up,) = a.of(PeerUp)
    assert up.dial == dial
    assert (up.mode, up.direction, up.control) == (Mode.DATA, Direction.UNIDIRECTIONAL, False)
    assert up.sends_data
    assert not up.receives_data
    wrong = Dial(2, "b.example", node=NodeId(21))
    net.connect(a, b, dial=wrong)
    net.run()
    (refused,) = a.of(PeerRefused)
    assert (refused.code, refused.dial) == (CloseCode.WRONG_NODE, wrong)


def test_one_connection_ends_and_who_comes_is_still_taken() -> None:
    net, a, b, ours, theirs = pair()
    b.peers.part(net.now, theirs, 2.0, "not configured any more")
    b.peers.part(net.now, theirs, 1.0, "again")  # only the first time counts
    b.peers.part(net.now, 999, 1.0, "nobody")
    net.run()
    (told,) = a.of(Draining)
    assert (told.reason, told.alternates) == ("not configured any more", ())
    c = net.node(30)
    net.connect(c, b)
    net.run()
    assert c.of(PeerUp)
    net.sleep(3.0)
    assert a.of(PeerDown)[0].code == CloseCode.DRAINED
    assert a.peers.up(ours) is None


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
