"""What shells and the local side call: every call does what it says, and all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from laps_relay.policy import OpenPolicy
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import PeerUp, Refusal
from laps_sdk.peering.links import ForeignPeer, ForeignPeerWire, Link
from laps_sdk.peering.reports import Dialled, PeerFaulted, PeerGone
from laps_sdk.upstream.interfaces import Answer
from laps_wire.errors import ProtocolViolation
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceKind,
    NodeSelf,
    RelayType,
    SubscribeCode,
)
from laps_wire.peering.session import Event
from testkit.relay_net import HASHER, OTHER, TRACK, RelayNet, key_of
from testkit.relay_shapes import pair

VIA = RelayType.VIA


# Data


def test_a_reset_travels_with_its_code() -> None:
    net = pair()
    net.begin(1, b"half").reset(0x123)
    net.run()
    assert net.clients[2].reset == [(b"half", 0x123)]


def test_a_slow_peer_loses_a_stream_and_it_is_counted() -> None:
    net = pair()
    net.begin(1, b"half")
    net.run()
    (out,) = net.ends[2, net.session(2, 1)].incoming.values()
    relay = net.relays[1]
    relay.out_stream_gone(net.now, net.session(1, 2), out, 4, stopped=False)
    assert (relay.plane.counters().dropped_streams, relay.plane.counters().dropped_bytes) == (1, 4)


def test_a_peer_stops_a_stream() -> None:
    net = pair()
    stream = net.begin(1, b"half")
    net.run()
    net.ends[2, net.session(2, 1)].stop_sending(2, 0)
    net.run()
    assert stream.closed


def test_data_of_nobody_is_nothing() -> None:
    net = pair()
    relay = net.relays[1]
    relay.data_stream(net.now, 99, 2, b"data", True)
    relay.data_reset(net.now, 99, 2, 0)
    relay.datagram(net.now, 99, b"data")
    relay.connection_closed(net.now, 99)
    assert relay.plane.counters().streams_in == 0


def test_a_datagram_without_a_header_ends_the_session() -> None:
    net = pair()
    net.ends[2, net.session(2, 1)].send_datagram(b"\x00")
    net.run()
    assert [gone.node for gone in net.told(1, PeerGone)] == [2]
    assert [fault.node for fault in net.told(1, PeerFaulted)] == [2]


@dataclass
class Visitor:
    """A guest that keeps what comes, and takes no empty data."""

    wire: ForeignPeerWire
    calls: list[tuple[object, ...]] = field(default_factory=list)

    def event(self, now: float, event: Event) -> None: ...

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        if not data:
            raise ProtocolViolation("nothing")
        self.calls.append(("stream", data))

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        self.calls.append(("reset", code))

    def datagram(self, now: float, data: bytes) -> None:
        if not data:
            raise ProtocolViolation("nothing")
        self.calls.append(("datagram", data))

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        self.calls.append(("gone", lost))

    def measured(self, now: float, srtt_us: int) -> None:
        self.calls.append(("measured", srtt_us))

    def closed(self, now: float) -> None: ...


@pytest.mark.parametrize("fault", ["stream", "datagram"])
def test_a_guest_gets_all_that_is_its_own(fault: str) -> None:
    guests: list[Visitor] = []

    def invite(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
        guests.append(Visitor(wire))
        return guests[0]

    net = RelayNet()
    net.add(1, guests=invite)
    net.add(2)
    _, session = net.join(2, 1)
    net.run()
    relay, now = net.relays[1], net.now
    relay.data_stream(now, session, 2, b"data", True)
    relay.data_reset(now, session, 6, 5)
    relay.datagram(now, session, b"small")
    relay.measured(now, session, 7_000)
    out = net.ends[1, session].open_unidirectional()
    relay.out_stream_gone(now, session, out, 3, stopped=False)
    assert guests[0].calls == [
        ("stream", b"data"),
        ("reset", 5),
        ("datagram", b"small"),
        ("measured", 7_000),
        ("gone", 3),
    ]
    if fault == "stream":
        relay.data_stream(now, session, 10, b"", True)
    else:
        relay.datagram(now, session, b"")
    net.run()
    assert relay.tables.peers() == []
    assert [gone.code for gone in net.told(2, PeerGone)] == [CloseCode.PROTOCOL_VIOLATION]


# The local side


def test_namespaces_are_announced_found_and_withdrawn() -> None:
    net = pair()
    namespace = FullTrackName(TRACK.namespace, b"")
    net.relays[1].announce(net.now, AnnounceKind.NAMESPACE, namespace)
    net.run()
    assert net.clients[2].known == [TRACK, namespace]
    net.subscribe(2, OTHER)
    net.run()
    assert net.answers(2)[-1] == (Answer.ACCEPTED, SubscribeCode.ACCEPTED)
    net.relays[1].withdraw(net.now, AnnounceKind.NAMESPACE, namespace)
    net.run()
    assert net.clients[2].known == [TRACK]


def test_a_name_whose_hash_is_taken_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = RelayNet()
    net.add(1)
    net.add(2, VIA)
    monkeypatch.setattr(type(HASHER), "full_name", lambda *_: 77)
    net.subscribe(1)
    net.answers(1)
    net.subscribe(1, OTHER)
    assert net.answers(1) == [(Answer.REFUSED, SubscribeCode.HASH_COLLISION)]
    # A relay without clients has nobody to tell.
    net.relays[2].subscribe(net.now, TRACK)
    net.relays[2].subscribe(net.now, OTHER)
    assert net.clients[2].answers == []


def test_a_publisher_says_no_and_later_yes() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.publish(1)
    net.run()
    net.clients[1].answer = False
    net.subscribe(2)
    net.run()
    key, relay = key_of(TRACK), net.relays[1]
    relay.publisher_refused(net.now, key, SubscribeCode.PUBLISHER_REFUSED, "not now")
    net.run()
    assert net.answers(2) == [(Answer.REFUSED, SubscribeCode.PUBLISHER_REFUSED)]
    assert relay.tables.sets() == []
    net.subscribe(2)
    net.run(2)
    relay.publisher_accepted(net.now, key)
    net.run()
    assert net.answers(2) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    relay.publisher_ended(net.now, key, "over")
    net.run()
    assert net.answers(2) == [(Answer.ENDED, SubscribeCode.ENDED)]


def test_a_session_is_closed_by_order() -> None:
    net = pair()
    net.relays[1].close(net.now, net.session(1, 2), CloseCode.OVERLOADED, "enough")
    net.run()
    (gone,) = net.told(2, PeerGone)
    assert (gone.code, gone.reason, gone.by_peer) == (CloseCode.OVERLOADED, "enough", True)


# Dials


def test_dials_are_told_with_what_became_of_them() -> None:
    net = RelayNet()
    net.add(1)
    net.relays[1].set_contacts(net.now, [Contact(address="nowhere:1")])
    assert net.relays[1].poll_timeout() == net.now
    net.run(0.1)
    begun, failed = net.told(1, Dialled)
    assert (begun.contact, begun.failed) == ("nowhere:1", "")
    assert (failed.contact, failed.failed) == ("nowhere:1", "nobody there")


# Time


def test_a_peer_that_says_nothing_is_gone() -> None:
    net = RelayNet()
    net.add(1, hold=3.0)
    net.add(2)
    net.join(1, 2)
    net.run()
    # The other one is alive, but nothing comes through.
    for end in net.ends.values():
        end.open = False
    net.run(5)
    (gone,) = net.told(1, PeerGone)
    assert (gone.node, gone.code) == (NodeId(2), CloseCode.HOLD_EXPIRED)


def test_a_relay_with_nothing_to_do_wants_no_time() -> None:
    net = RelayNet()
    relay = net.add(1)
    assert relay.poll_timeout() is None
    relay.handle_timeout(net.now)
    assert (relay.poll_timeout(), relay.poll_dirty(), relay.poll_events()) == (None, [], [])
    assert relay.poll_known_keys() is None


def test_a_control_stream_that_is_lost_is_opened_again() -> None:
    net = pair()
    session = net.session(1, 2)
    net.relays[1].control_reset(net.now, session, 0, 5)
    net.run(3)
    net.relays[2].control_stopped(net.now, net.session(2, 1), 4, 5)
    net.run(3)
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]
    assert net.told(1, PeerGone) == []


def test_the_last_client_leaves() -> None:
    net = pair()
    net.unsubscribe(2)
    net.run(10)
    assert net.clients[1].released == [key_of(TRACK)]
    assert net.relays[1].tables.sets() == []


def test_a_connection_on_demand_ends_when_it_has_no_use() -> None:
    net = RelayNet()
    net.add(1, dynamic_idle=5.0)
    net.add(2)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run(2)
    assert [row.node for row in net.relays[1].tables.peers() if row.on_demand] == [2]
    net.unsubscribe(2)
    net.run(15)
    assert [row.node for row in net.relays[1].tables.peers()] == [9]
    net.relays[1].measured(net.now, 999, 5)


class NoTrack(OpenPolicy):
    """Our own clients may not have the track."""

    __slots__ = ()

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        return Refusal("track", f"not at {local.node_id}") if name == TRACK else None


def test_what_our_own_clients_may_not_have() -> None:
    net = RelayNet()
    relay = net.add(1)
    assert relay.against(TRACK) is None
    relay.set_policy(net.now, NoTrack())
    assert (relay.against(TRACK), relay.against(OTHER)) == ("not at 0.0:0.1", None)
