"""Guests: their wire, and how they are let in."""

from __future__ import annotations

from dataclasses import dataclass, field

from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.foreign_peers import ForeignPeerWire
from laps_sdk.peering.links import ForeignPeer, Link
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Probe
from laps_wire.peering.session import Event, ProbeReceived, SnsAdvertised, SnsWithdrawn
from testkit.relay_net import RelayNet


@dataclass
class Visitor:
    """A guest that only listens."""

    wire: ForeignPeerWire
    events: list[Event] = field(default_factory=list)

    def event(self, now: float, event: Event) -> None:
        self.events.append(event)

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None: ...

    def stream_reset(self, now: float, stream_id: int, code: int) -> None: ...

    def datagram(self, now: float, data: bytes) -> None: ...

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        pass

    def measured(self, now: float, srtt_us: int) -> None: ...

    def closed(self, now: float) -> None: ...


def two_guests() -> tuple[RelayNet, Visitor, Visitor]:
    """Two relays, each the guest of the other."""
    guests: list[Visitor] = []

    def invite(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
        guests.append(Visitor(wire))
        return guests[-1]

    net = RelayNet()
    net.add(1, guests=invite)
    net.add(2, guests=invite)
    session, _ = net.join(1, 2)
    net.run()
    first, second = guests if guests[0].wire.session == session else guests[::-1]
    return net, first, second


def test_a_guest_sends_over_its_session_until_that_is_over() -> None:
    net, first, second = two_guests()
    probe = Probe(1, NodeId(2), 5)
    first.wire.send(net.now, probe)
    net.run()
    assert ProbeReceived(probe=probe) in second.events
    first.wire.close(net.now, 0, "enough")
    first.wire.send(net.now, probe)
    net.run()
    assert net.relays[1].tables.peers() == net.relays[2].tables.peers() == []


def test_a_guest_has_sets_of_its_own_until_its_session_is_over() -> None:
    net, first, second = two_guests()
    a, b = NodeId(11), NodeId(12)
    sns_id = first.wire.advertise_sns(net.now, (a,))
    assert sns_id is not None
    first.wire.update_sns(net.now, sns_id, (a, b))
    net.run()
    told = [event.targets for event in second.events if isinstance(event, SnsAdvertised)]
    assert told[-1] == {a, b}
    # Too many targets for the other one: nothing is said.
    many = tuple(NodeId(number) for number in range(1, 70_000))
    first.wire.update_sns(net.now, sns_id, many)
    assert first.wire.advertise_sns(net.now, many) is None
    first.wire.withdraw_sns(net.now, sns_id)
    net.run()
    assert any(isinstance(event, SnsWithdrawn) for event in second.events)
    first.wire.close(net.now, 0, "enough")
    assert first.wire.advertise_sns(net.now, (a,)) is None
    first.wire.update_sns(net.now, sns_id, (a,))
    first.wire.withdraw_sns(net.now, sns_id)
