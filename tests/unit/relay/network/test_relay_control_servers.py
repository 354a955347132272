"""Control servers, and relays that are dialled on demand."""

from __future__ import annotations

import pytest

from laps_relay.network.control_server.redirect import CLIENT_LABEL
from laps_relay.peer_forwarding.forwarding import LOCAL
from laps_sdk.peering.reports import PeerGone
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import (
    RelayType,
    SubscribeCode,
)
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of

VIA = RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


# Control servers and dynamic peering


def test_a_target_without_a_way_is_dialled_and_left_when_it_has_no_use() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.run()
    assert net.way(1, 2) == ()
    net.publish(1)
    net.subscribe(2)
    net.run(2)
    assert net.answers(2)[-1] == ACCEPTED
    demand = [row for row in net.relays[1].tables.peers() if row.on_demand]
    assert [row.node for row in demand] == [2]
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]
    assert net.relays[9].plane.counters().streams_in == 0
    net.unsubscribe(2)
    net.run(34)
    assert [row.node for row in net.relays[1].tables.peers() if row.on_demand] == [2]
    # Somebody needs it again before its time is over.
    net.subscribe(2)
    net.run(40)
    net.send(1, b"again")
    net.run()
    assert net.got(2) == [[b"again"]]
    net.unsubscribe(2)
    net.run(40)
    assert [row.node for row in net.relays[1].tables.peers()] == [9]
    assert [event.reason for event in net.told(1, PeerGone)] == ["not needed any more"]


def test_without_dynamic_peering_nobody_is_dialled() -> None:
    net = RelayNet()
    net.add(1, dynamic_peering=False)
    net.add(2, dynamic_peering=False)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.subscribe(2)
    net.run(2)
    assert [row.node for row in net.relays[1].tables.peers()] == [9]


def test_losing_a_control_server_loses_nothing() -> None:
    net = RelayNet()
    edges, servers = range(1, 5), (11, 12, 13)
    for number in edges:
        net.add(number)
    for number in servers:
        net.add(number, RelayType.CONTROL)
    for number in edges:
        net.dial_for_ever(number, *servers)
    net.run()
    names = [FullTrackName.parse(f"example-room--video{number}") for number in range(12)]
    for name in names:
        net.publish(1, name)
        net.subscribe(2, name)
        net.subscribe(3, name)
    net.run(3)
    # Each subscribe is at two servers, and at the Edge that publishes; nowhere else.
    held = [{row.key for row in net.relays[number].tables.subscribe_rows()} for number in servers]
    for name in names:
        assert sum(key_of(name) in keys for keys in held) == 2
    assert len(net.relays[1].tables.subscribe_rows()) == 24
    assert net.relays[4].tables.subscribe_rows() == []
    net.crash(12)
    net.run(3)
    held = [{row.key for row in net.relays[number].tables.subscribe_rows()} for number in (11, 13)]
    assert held == [{key_of(name) for name in names}] * 2
    for name in names:
        net.send(1, b"object", name)
    net.run()
    assert net.got(2, 3, 4) == [[b"object"] * 12, [b"object"] * 12, []]
    assert all(answer == ACCEPTED for answer in net.answers(2))
    net.subscribe(4, names[0])
    net.run(2)
    net.send(1, b"for a late one", names[0])
    net.run()
    assert net.got(4) == [[b"for a late one"]]


def test_an_edge_that_reaches_no_control_server_is_served_after_a_while() -> None:
    """It is behind a Via: the others give it time, then they flood for it."""
    net = RelayNet()
    for number in (1, 2):
        net.add(number)
    net.add(5, VIA)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.run()
    del net.contacts["relay-9:33434"]
    net.join(1, 5)
    net.join(2, 5)
    net.publish(1)
    net.run(2)
    net.subscribe(2)
    assert net.relays[2].tables.announce_rows() == []
    net.run(60)
    assert net.answers(2)[-1] == ACCEPTED
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]


@pytest.mark.parametrize("servers", [1, 3])
def test_an_edge_that_drains_hears_from_control_servers_who_has_its_tracks(servers: int) -> None:
    net = RelayNet()
    edges, numbers = range(1, 5), range(11, 11 + servers)
    for number in edges:
        net.add(number)
        net.relays[number].set_own_label(net.now, CLIENT_LABEL, f"moqt://n{number}:1")
    for number in numbers:
        net.add(number, RelayType.CONTROL)
    for number in edges:
        net.dial_for_ever(number, *numbers)
    net.run()
    for name in (TRACK, OTHER):
        net.publish(1, name)
    for number, name in ((2, TRACK), (3, TRACK), (4, OTHER)):
        net.subscribe(number, name)
    net.run(3)
    relay = net.relays[2]
    assert {row.source for row in relay.tables.subscribe_rows()} == {2}
    relay.drain(net.now, 30.0)
    net.run(0.1)
    assert {row.source for row in relay.tables.subscribe_rows()} == {2, 3}
    # It serves nobody for that.
    assert {row.source for row in net.relays[3].tables.subscribe_rows()} == {3}
    assert [row for row in relay.tables.fib() if row.session == LOCAL] == []
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"], [b"object"], []]


def test_a_control_server_that_is_back_keeps_its_session() -> None:
    """It had gone from the node information for a moment, and its session was given up."""
    net = RelayNet()
    for number in (1, 2):
        net.add(number)
    for number in (8, 9):
        net.add(number, RelayType.CONTROL)
    net.dial_for_ever(9, 8)
    net.dial_for_ever(1, 8, 9)
    net.dial_for_ever(2, 8)
    net.join(1, 2)
    net.run(2)
    (row,) = [row for row in net.relays[2].tables.peers() if row.node == 9]
    assert row.on_demand
    relay = net.relays[2]
    known = dict(relay.servers.known)
    relay.servers.known.clear()
    relay.handle_timeout(net.now)
    relay.servers.known.update(known)
    relay.handle_timeout(net.now)
    net.run(60)
    assert [each.session for each in net.relays[2].tables.peers() if each.node == 9] == [
        row.session
    ]


def test_nobody_publishes_it() -> None:
    net = RelayNet()
    net.add(1)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.run()
    net.subscribe(1)
    net.run()
    assert net.answers(1) == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER)]
