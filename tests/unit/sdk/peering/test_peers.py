"""All connections of a relay, as the shell and the rest of the core use them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.peering.events import Dial, NodeIdConflict
from laps_sdk.peering.peers import PeerDown, PeerRefused, PeerUp
from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Direction,
    Keepalive,
    Mode,
    NodeAdvertise,
    NodeInfo,
    NodeSelf,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import (
    ControlStreamLost,
    ControlStreamMoved,
    Draining,
    NodesAdvertised,
    Role,
    Staying,
    SyncRequested,
)
from testkit.peer_nodes import Net, Node, banning
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
