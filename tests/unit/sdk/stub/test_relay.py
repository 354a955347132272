"""A Stub relay as its shell drives it: dials, handshakes with a parent, drains, and ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import Dial, PeerUp, Refusal
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.reports import Dialled, PeerAdded, PeerGone, PeerTurnedDown
from laps_sdk.peering.settings import Identity, PeeringSettings
from laps_sdk.stub.relay import STUB_NODE, StubRelay
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Load,
    LoadClass,
    NodeInfo,
    NodeSelf,
    RelayType,
    Stamp,
)
from laps_wire.peering.laps2.handshake import HASH_CHECK_NAME
from laps_wire.peering.session import LAPS2, ConnectionClose, Role, StreamData
from testkit.bridges import World
from testkit.relay_ends import OpenAuthenticator
from testkit.relay_net import HASHER
from testkit.stubs import Stub

NOW = 1000.0
SESSION = 7
PARENT = NodeId(5)


class Egress:
    """The egress of a connection that carries no data here."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def active(relay: StubRelay) -> NodeId | None:
    """The parent to which everything goes."""
    parent = relay.uplink.active
    return None if parent is None else parent.node


def load_class(relay: StubRelay) -> LoadClass:
    return relay.info.node.load.load_class


def stub_relay(**more: Any) -> StubRelay:
    return StubRelay(
        Identity(node_id=NodeId(9), epoch=3),
        PeeringSettings(),
        Stub(World()).uplink,
        hasher=HASHER,
        authenticator=OpenAuthenticator(),
        challenge=lambda: bytes(32),
        random=lambda: 0.5,
        **{"may_peer": lambda _node: None} | more,
    )


def dialled(relay: StubRelay) -> Dial:
    relay.set_contacts(NOW, [Contact(address="parent:1")])
    (dial,) = relay.poll_dials(NOW)
    relay.connection_opened(
        NOW,
        SESSION,
        Egress(),
        role=Role.DIALLER,
        alpn=LAPS2.alpn,
        spki_hash=bytes(32),
        dial=dial,
    )
    return dial


class Parent:
    """The other end of the connection."""

    def __init__(self, relay: StubRelay) -> None:
        self.relay = relay
        info = NodeInfo(NodeSelf(PARENT, RelayType.EDGE, Stamp(1, 1)))
        self.peers = Peers(
            Identity(node_id=PARENT, epoch=1),
            PeeringSettings(),
            OpenAuthenticator(),
            challenge=lambda: bytes([1]) * 32,
            hash_check=HASHER.full_name(*HASH_CHECK_NAME),
            may_peer=lambda _node: None,
            node_info=lambda: info,
        )
        self.peers.opened(NOW, 1, role=Role.LISTENER, alpn=LAPS2.alpn, spki_hash=bytes(32))
        self.closed = False

    def run(self) -> list[object]:
        """Carry bytes until both ends are quiet; gives what the parent saw."""
        seen: list[object] = []
        moved = True
        while moved and not self.closed:
            moved = False
            for item in self.relay.poll_transmit(SESSION):
                moved = True
                if isinstance(item, StreamData):
                    self.peers.stream_data(NOW, 1, item.stream_id, item.data)
                elif isinstance(item, ConnectionClose):
                    self.closed = True
            for item in self.peers.poll_transmit(1):
                moved = True
                if isinstance(item, StreamData):
                    self.relay.control_data(NOW, SESSION, item.stream_id, item.data)
                elif isinstance(item, ConnectionClose):
                    self.relay.connection_closed(NOW, SESSION, item.code, item.reason)
                    self.closed = True
            seen += [event for _, event in self.peers.poll_events()]
        return seen


def test_a_parent_is_dialled_and_joined_to_the_uplink() -> None:
    relay = stub_relay()
    dialled(relay)
    seen = Parent(relay).run()
    (up,) = (event for event in seen if isinstance(event, PeerUp))
    assert up.node.node.node_id == STUB_NODE
    assert up.node.node.relay_type is RelayType.STUB
    assert active(relay) == PARENT
    kinds = [type(event) for event in relay.poll_events()]
    assert kinds == [Dialled, PeerAdded]
    relay.connection_closed(NOW, SESSION)
    assert active(relay) is None
    assert PeerGone in [type(event) for event in relay.poll_events()]
    assert not relay.links.by_session


def test_a_dial_that_fails_is_reported_and_tried_again() -> None:
    relay = stub_relay()
    relay.set_contacts(NOW, [Contact(address="parent:1")])
    (dial,) = relay.poll_dials(NOW)
    relay.dial_failed(NOW, dial.number, "nothing listens there")
    assert [event.failed for event in relay.poll_events() if isinstance(event, Dialled)] == [
        "",
        "nothing listens there",
    ]
    due = relay.poll_timeout()
    assert due is not None
    assert relay.poll_dials(due)


def test_policy_keeps_a_parent_out() -> None:
    relay = stub_relay(may_peer=lambda _node: Refusal("not this one", "rule"))
    dialled(relay)
    Parent(relay).run()
    assert active(relay) is None
    (refused,) = (event for event in relay.poll_events() if isinstance(event, PeerTurnedDown))
    assert (refused.node, refused.contact) == (PARENT, "parent:1")


def test_another_filter_ends_a_session() -> None:
    relay = stub_relay()
    dialled(relay)
    Parent(relay).run()
    relay.set_peer_filter(NOW, lambda _node: Refusal("not this one", "rule"))
    assert active(relay) is None


def test_a_parent_that_is_not_configured_any_more_is_left() -> None:
    relay = stub_relay()
    dialled(relay)
    Parent(relay).run()
    relay.set_contacts(NOW, [])
    assert active(relay) is None
    assert any(isinstance(item, ConnectionClose) for item in relay.poll_transmit(SESSION))


def test_a_drain_and_its_end_are_said_with_new_stamps() -> None:
    relay = stub_relay()
    relay.set_load(NOW, Load(LoadClass.BUSY, 800))
    assert relay.info.node.stamp == Stamp(3, 2)
    relay.drain(NOW, 5.0)
    assert load_class(relay) is LoadClass.DRAINING
    relay.set_load(NOW, Load(LoadClass.NORMAL, 1))  # who drains does so to the end
    assert relay.info.node.stamp == Stamp(3, 3)
    relay.stay(NOW)
    due = relay.poll_timeout()
    assert due == NOW + 2.0
    relay.handle_timeout(due)
    assert load_class(relay) is LoadClass.NORMAL
    assert relay.info.node.stamp == Stamp(3, 4)


def test_a_stub_takes_no_connections() -> None:
    relay = stub_relay()
    relay.connection_opened(
        NOW,
        SESSION,
        Egress(),
        role=Role.LISTENER,
        alpn=LAPS2.alpn,
        spki_hash=bytes(32),
    )
    assert any(isinstance(item, ConnectionClose) for item in relay.poll_transmit(SESSION))


def test_it_needs_nothing_of_the_relay_server() -> None:
    code = (
        "import sys, laps_sdk.stub.relay\n"
        "print([name for name in sys.modules if name.startswith('laps_relay')])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"
