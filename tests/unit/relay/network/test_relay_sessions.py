"""Sessions that come and go: what they bring, and that none of their state stays."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from laps_relay.network.events import SetGone
from laps_relay.network.nodes.location import ESTIMATED
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.steering import LinkState, Steering
from laps_relay.policy import OpenPolicy
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import NOT_NOW, PeerUp, Refusal
from laps_sdk.peering.links import ForeignPeer, ForeignPeerWire, Link
from laps_sdk.peering.reports import NodeSuspected, PeerAdded, PeerFaulted, PeerGone, PeerTurnedDown
from laps_wire.errors import ProtocolViolation
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    DataHeader,
    DataKind,
    Evidence,
    Location,
    Mode,
    NodeAdvertise,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    Probe,
    RelayType,
    Stamp,
)
from laps_wire.peering.laps2.forwarding import encode_data_header
from laps_wire.peering.session import Event, ProbeReceived
from testkit.relay_ends import End, OpenAuthenticator
from testkit.relay_net import TRACK, RelayNet, key_of

VIA, CONTROL = RelayType.VIA, RelayType.CONTROL


def pair(left: RelayType = RelayType.EDGE, right: RelayType = RelayType.EDGE) -> RelayNet:
    net = RelayNet()
    net.add(1, left)
    net.add(2, right)
    return net


# Arbitration


def test_two_relays_that_dial_each_other_have_one_control_session() -> None:
    net = pair()
    net.dial_for_ever(1, 2)
    net.dial_for_ever(2, 1)
    net.run(5)
    controls = [
        [row.session for row in relay.tables.peers() if row.control]
        for relay in net.relays.values()
    ]
    assert [len(each) for each in controls] == [1, 1]
    end = net.ends[1, controls[0][0]]
    assert end.other.session == controls[1][0]
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]


def test_the_end_of_the_control_session_leaves_the_data_sessions_a_way_to_the_peer() -> None:
    net = pair()
    net.relays[1].set_contacts(net.now, [Contact(address="relay-2:33434", parallel=2)])
    net.run()
    rows = {row.control: row.session for row in net.relays[1].tables.peers()}
    net.publish(1)
    net.subscribe(2)
    net.run()
    net.cut_off.add(2)
    net.cut(1, rows[True])
    assert net.way(1, 2) == (2,)
    assert [row.control for row in net.relays[1].tables.peers()] == [False]
    net.run(0.1)
    assert net.relays[1].tables.announce_rows()[0].source == 1
    # Nothing is known of what the other wants: that was learned over the session that is gone.
    net.run(40)
    assert net.relays[1].tables.subscribe_rows() == []
    net.cut_off.clear()
    net.run(40)
    assert sorted(row.control for row in net.relays[1].tables.peers()) == [False, True]
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]
    net.crash(2)
    assert net.way(1, 2) == ()
    assert net.relays[1].tables.peers() == []


def test_the_sets_of_a_session_end_with_it() -> None:
    net = pair()
    session, _ = net.join(1, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    net.cut(1, session)
    net.run(0.1)
    (gone,) = net.told(1, SetGone)
    assert (gone.session, gone.removed, gone.key) == (session, (NodeId(2),), key_of(TRACK))
    (gone,) = net.told(2, SetGone)
    assert (gone.incoming, gone.key) == (True, None)


# Data that waits for its set


def waiting(unknown_bytes: int) -> tuple[RelayNet, OutStream]:
    """A stream of relay 2 whose set does not come; relay 1 keeps so much of it."""
    net = RelayNet()
    net.add(1, unknown_bytes=unknown_bytes, unknown_time=1.0)
    net.add(2)
    net.join(1, 2)
    net.run()
    stream = net.ends[2, net.session(2, 1)].open_unidirectional()
    stream.write(encode_data_header(DataHeader(DataKind.STREAM, 9, 7, 9)))
    net.run(0.1)
    return net, stream


def test_a_stream_that_grows_while_it_waits_is_given_up() -> None:
    net, stream = waiting(10_000)
    for _ in range(50):
        stream.write(bytes(1_000))
        net.run(0.01)
        assert net.relays[1].plane.counters().held_bytes <= 10_000
    assert net.relays[1].plane.counters().unknown_streams == 1


def test_a_stream_that_never_pauses_is_given_up_in_time() -> None:
    net, stream = waiting(1_000_000)
    for _ in range(150):
        stream.write(b"x")
        net.run(0.01)
    assert net.relays[1].plane.counters().held_bytes == 0
    assert net.relays[1].plane.counters().unknown_streams == 1


class SlowWords(RelayNet):
    """What relay 1 says is lost, and sent again and again; its data is not."""

    slow = 0.0

    def later(self, end: End, what: str, *args: object) -> None:
        before = self.now
        self.now += self.slow if what == "control" and end.owner == 1 else 0.0
        super().later(end, what, *args)
        self.now = before


@pytest.mark.parametrize("late", [2.0, 10.0])
def test_data_waits_for_a_set_whose_message_is_sent_again_and_again(late: float) -> None:
    net = SlowWords()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.publish(1)
    net.run()
    net.slow = late
    net.subscribe(2)
    net.run(0.1)
    net.send(1, b"first")
    net.send(1, b"large" * 300_000)
    net.run(late - 0.2)
    assert net.got(2) == [[]]
    assert net.relays[2].plane.counters().held_bytes > 1_500_000
    net.run(1.0)
    assert net.got(2) == [[b"first", b"large" * 300_000]]
    assert net.relays[2].plane.counters().unknown_streams == 0


def test_what_is_larger_than_all_that_may_wait_does_not_wait() -> None:
    net, _ = waiting(0)
    assert net.relays[1].plane.counters().held_bytes == 0
    assert net.relays[1].plane.counters().unknown_streams == 1


# How sessions end


def test_a_fault_that_the_session_sees_is_told_as_one() -> None:
    net = pair()
    session, other = net.join(1, 2)
    net.run()
    net.relays[2].control_data(net.now, other, 0, b"\x3e\x00")
    net.run(0.1)
    (fault,) = net.told(2, PeerFaulted)
    assert (fault.session, fault.node, fault.code) == (other, 1, CloseCode.UNKNOWN_MESSAGE)
    assert fault.reason
    assert net.told(1, PeerFaulted) == []  # who was closed did not find a fault
    (gone,) = net.told(1, PeerGone)
    assert (gone.session, gone.by_peer) == (session, True)


def test_an_end_without_a_fault_is_not_told_as_one() -> None:
    net = pair()
    session, _ = net.join(1, 2)
    net.run()
    net.relays[1].close(net.now, session, CloseCode.OVERLOADED)
    net.run(0.1)
    assert net.told(1, PeerFaulted) == []


# Who may come


class Shut(OpenPolicy):
    """Nobody may peer."""

    __slots__ = ()

    def peer(self, node: NodeSelf) -> Refusal | None:
        return Refusal("peers", "nobody")


def test_a_peer_that_policy_turns_down() -> None:
    net = RelayNet()
    net.add(1, policy=Shut())
    net.add(2)
    net.join(2, 1)
    net.run()
    (event,) = net.told(1, PeerTurnedDown)
    assert (event.node, event.code) == (2, CloseCode.POLICY)
    assert event.contact == ""
    assert net.relays[1].tables.peers() == net.relays[2].tables.peers() == []


class Key(OpenAuthenticator):
    """Whoever shows a fingerprint holds it."""

    def __init__(self, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint

    def sign(self, schemes: object, transcript: object) -> Evidence:
        return Evidence(credential=self.fingerprint)

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        return evidence.credential

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        return NodeInfo(node, NodeSignature(1, self.fingerprint, b"signed"))


def test_a_node_id_belongs_to_one_key() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, authenticator=Key(bytes([number]) * 32))
    net.join(1, 2)
    net.run()
    net.crash(2)
    net.add(2, authenticator=Key(bytes([9]) * 32))
    net.join(2, 1)
    net.run()
    (event,) = net.told(1, NodeSuspected)
    assert (event.node, event.reason) == (2, "another key holds this node id")
    assert [row.node for row in net.relays[1].tables.peers()] == []
    # It peers with somebody who does not know it; the first one hears of it with another key.
    net.join(2, 3)
    net.run()
    assert [row.node for row in net.relays[3].tables.peers()] == [2]


def test_what_others_said_of_a_node_is_worth_less_than_its_key() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, authenticator=Key(bytes([number]) * 32))
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    assert net.way(1, 3) == (2, 3)
    del net.relays[3]
    net.add(3, authenticator=Key(bytes([7]) * 32))
    net.join(1, 3)
    net.run(1)
    assert NodeId(3) in {event.node for event in net.told(1, NodeSuspected)}
    assert net.way(1, 3) == (3,)


def test_a_relay_that_takes_no_foreign_peers_refuses_a_stub() -> None:
    net = RelayNet()
    net.add(1)
    net.add(0, RelayType.STUB)
    net.join(0, 1)
    net.run()
    assert [event.code for event in net.told(1, PeerGone)] == [CloseCode.MODE_REFUSED]


# Guests


@dataclass
class Visitor:
    """A guest that keeps what comes."""

    wire: ForeignPeerWire
    calls: list[tuple[object, ...]] = field(default_factory=list)

    def event(self, now: float, event: Event) -> None:
        if isinstance(event, ProbeReceived):
            raise ProtocolViolation("no probes here")
        self.calls.append(("event", type(event).__name__))

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        self.calls.append(("stream", data))

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        self.calls.append(("reset", stream_id))

    def datagram(self, now: float, data: bytes) -> None:
        self.calls.append(("datagram", data))

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        self.calls.append(("gone", stopped))

    def measured(self, now: float, srtt_us: int) -> None:
        self.calls.append(("measured", srtt_us))

    def closed(self, now: float) -> None:
        self.calls.append(("closed",))


def test_a_guest_has_its_session_for_itself_and_is_unseen() -> None:
    guests: dict[int, Visitor] = {}

    def invite(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
        if up.node.node.node_id != 2:
            return None
        guests[wire.session] = Visitor(wire)
        return guests[wire.session]

    net = RelayNet()
    net.add(1, guests=invite)
    net.add(2)
    net.add(3)
    net.join(2, 1)
    net.join(3, 1)
    net.run()
    (guest,) = guests.values()
    assert ("event", "NodesAdvertised") in guest.calls
    assert [row.node for row in net.relays[1].tables.nodes()] == [1, 3]
    assert [row.node for row in net.relays[3].tables.nodes()] == [3, 1]
    assert {row.node: row.guest for row in net.relays[1].tables.peers()} == {2: True, 3: False}
    net.say(2, 1, Probe(1, NodeId(3), 5))
    net.run()
    assert guest.calls[-1] == ("closed",)
    assert [gone.code for gone in net.told(2, PeerGone)] == [CloseCode.PROTOCOL_VIOLATION]


# Control servers


def test_a_control_server_comes_and_goes() -> None:
    net = pair()
    net.add(9, CONTROL)
    net.join(1, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [2]
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.run()
    # From now on the server holds it; no data goes through it.
    assert [row.source for row in net.relays[9].tables.subscribe_rows()] == [2]
    assert [row.session for row in net.relays[1].tables.subscribe_rows()] == [net.session(1, 9)]
    net.send(1, b"by itself")
    net.run()
    assert net.got(2) == [[b"by itself"]]
    net.crash(9)
    net.run(6)
    net.send(1, b"flooded again")
    net.run()
    assert net.got(2) == [[b"flooded again"]]
    assert net.clients[1].released == []


# What connects us


def test_the_best_of_several_connections_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    net = pair()
    states: list[LinkState | None] = []
    links = Steering.links

    def watch(self: Steering, node: NodeId, state: LinkState | None) -> None:
        if self is net.relays[1].steering:
            states.append(state)
        links(self, node, state)

    monkeypatch.setattr(Steering, "links", watch)
    net.relays[1].set_contacts(net.now, [Contact(address="relay-2:33434", parallel=2)])
    net.run()
    first, second = (row.session for row in net.relays[1].tables.peers())
    net.relays[1].measured(net.now, first, 90_000, 0.2, congested=True)
    net.relays[1].measured(net.now, second, 80_000, 0.1)
    assert (state := states[-1]) is not None
    assert (state.srtt_us, state.loss, state.congested) == (80_000, 0.1, False)
    net.relays[1].measured(net.now, second, 80_000, 0.1, congested=True)
    assert (state := states[-1]) is not None
    assert state.congested
    net.relays[1].links.by_session[first].sends = False
    net.relays[1].measured(net.now, first, 90_000)
    assert (state := states[-1]) is not None
    assert state.congested, "no data goes over the first one"
    net.run(2)
    assert [each.rtt_us for each in net.relays[1].info.node.reachable] == [80_000]
    net.relays[1].measured(net.now, 999, 5)


@pytest.mark.parametrize("mode", [Mode.CONTROL, Mode.DATA])
def test_a_connection_for_one_thing_only(mode: Mode) -> None:
    net = pair()
    net.relays[1].set_contacts(net.now, [Contact(address="relay-2:33434", mode=mode)])
    net.run()
    (row,) = net.relays[1].tables.peers()
    assert (row.control, row.sends) == (mode.control, mode.data)
    (added,) = net.told(1, PeerAdded)
    assert added.mode == mode.name.lower()
    assert added.contact == "relay-2:33434"
    assert added.handshake > 0.0
    # Control alone tells of the peer but leads no data there; data alone is a way to the peer.
    assert net.way(1, 2) == ((2,) if mode.data else ())
    assert [row.node for row in net.relays[1].tables.nodes()] == [1, 2]


def test_streams_that_are_held_give_way_to_later_ones() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2, unknown_bytes=600)
    net.join(1, 2)
    net.run()
    end = net.ends[1, net.session(1, 2)]
    for number in range(1, 6):
        header = encode_data_header(DataHeader(DataKind.STREAM, number, 7, 9))
        end.open_unidirectional().write(header + bytes(200))
    net.run(0.1)
    counters = net.relays[2].plane.counters()
    assert counters.unknown_streams > 0
    assert 0 < counters.held_bytes <= 600


# Where we stand


def test_a_relay_that_is_not_told_where_it_stands_finds_out() -> None:
    net = RelayNet()
    net.add(1, light_time=False)
    net.add(2)
    places = {3: Location(13.4, 52.5), 4: Location(2.35, 48.85), 5: Location(16.37, 48.2)}
    for number, place in places.items():
        net.add(number, VIA, location=place)
        for edge in (1, 2):
            net.join(edge, number, delay=0.005)
    net.run(0.5)
    here = net.relays[3].node(NodeId(2))
    assert here is not None
    assert here.location is None
    net.run(2)
    here = net.relays[3].node(NodeId(2))
    assert here is not None
    assert here.location is not None
    assert here.labels == (ESTIMATED,)
    # All three are within 1,000 km, and it is between them.
    assert 2 < here.location.longitude < 17
    assert 48 < here.location.latitude < 53
    # Who does not believe in light does not ask; who is told does not, either.
    other, via = net.relays[3].node(NodeId(1)), net.relays[2].node(NodeId(3))
    assert other is not None
    assert via is not None
    assert (other.location, via.location, via.labels) == (None, places[3], ())


def test_where_it_stands_is_asked_once_a_minute() -> None:
    net = pair()
    session, _ = net.join(1, 2)
    relay = net.relays[1]
    tried: list[float] = []

    def round_trips(self: Prober) -> dict[NodeId, int]:
        tried.append(net.now)
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prober, "round_trips", round_trips)
        begin = net.now
        for _ in range(150):
            net.run(1)
            relay.measured(net.now, session, 10_000)
    mine = sorted({round(at - begin) for at in tried})
    assert mine == [1, 61, 121]


def test_a_peer_is_not_avoided_any_more_when_the_connection_that_was_to_end_has_ended() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    contact = Contact(address="relay-2:33434", parallel=2)
    net.relays[1].set_contacts(net.now, [contact])
    net.dial_for_ever(3, 1, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    relay = net.relays[1]
    control, data = relay.links.of(NodeId(2))
    control.leaving = data.leaving = True
    relay.nib.set_peer(net.now, NodeId(2), draining=True)
    assert net.way(1, 2) == (3, 2)
    relay.close(net.now, data.session, CloseCode.NO_ERROR, "")
    net.run(0.01)
    assert net.way(1, 2) == (3, 2)  # the other one still is
    control.leaving = False
    relay.nib.set_peer(net.now, NodeId(2), draining=False)
    net.run(5)
    assert net.way(1, 2) == (2,)
    relay.links.of(NodeId(2))[1].leaving = True
    relay.nib.set_peer(net.now, NodeId(2), draining=True)
    assert net.way(1, 2) == (3, 2)
    relay.close(net.now, relay.links.of(NodeId(2))[1].session, CloseCode.NO_ERROR, "")
    net.run(0.01)
    assert net.way(1, 2) == (2,)


class Late(OpenAuthenticator):
    """The certificate of node 30 has ended."""

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        return Refusal(NOT_NOW, "over") if info.node.node_id == 30 else None


def test_a_node_that_is_not_proved_any_more_is_told_and_left_out() -> None:
    net = RelayNet()
    for number in (1, 2):
        net.add(number, authenticator=Late(), signed_nodes=True)
    net.join(2, 1)
    net.run()
    path = (NodePathItem(NodeId(2), 1),)
    for number in (30, 31):
        node = NodeSelf(NodeId(number), RelayType.EDGE, Stamp(1, 1))
        net.say(2, 1, NodeAdvertise((NodeInfo(node, path=path),)))
    net.run()
    found = [(event.node, event.peer, event.reason) for event in net.told(1, NodeSuspected)]
    assert found == [(30, 2, "over")]
    assert {row.node for row in net.relays[1].tables.nodes()} == {1, 2, 31}
    assert [row.node for row in net.relays[1].tables.peers()] == [2]
