"""Sharding over control servers, and Edges that do not share them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.control_server.sharding import REPLICAS, Servers, Sharding, meet, rendezvous
from laps_sdk.upstream.bodies import body_for
from laps_sdk.upstream.interfaces import Answer
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, RelayType, SubscribeCode, SubscribeInfo
from testkit.paths import Directory
from testkit.paths import describe as relay
from testkit.relay_net import OTHER, TRACK, RelayNet
from testkit.subscription_rig import announce_info, namespace, subscribe_info, track

US = NodeId(100)
KEYS = [KeyedHasher(bytes(16)).name(b"%d" % number) for number in range(2000)]
servers = st.sets(st.integers(1, 2**64 - 1).map(NodeId), min_size=1, max_size=8)
keys = st.integers(0, 2**64 - 1)


@given(keys, servers)
def test_two_replicas_whatever_the_order_of_the_servers(key: int, nodes: set[NodeId]) -> None:
    chosen = rendezvous(key, nodes)
    assert len(chosen) == len(set(chosen)) == min(REPLICAS, len(nodes))
    assert chosen == rendezvous(key, sorted(nodes, reverse=True))


@given(keys, servers)
def test_losing_a_server_moves_only_what_it_held_to_the_next_in_the_order(
    key: int, nodes: set[NodeId]
) -> None:
    order = rendezvous(key, nodes, len(nodes))
    for lost in order:
        rest = tuple(node for node in order if node != lost)
        assert rendezvous(key, nodes - {lost}) == rest[:REPLICAS]


def test_the_function_is_the_one_that_is_written_down() -> None:
    # Every implementation must choose the same servers.
    nodes = [NodeId(number) for number in (1, 2, 3, 4, 5)]
    chosen = [rendezvous(key, nodes) for key in (0, 1, 2**63, 2**64 - 1)]
    assert chosen == [(4, 5), (4, 3), (3, 5), (1, 3)]


@pytest.mark.parametrize("count", [3, 5, 10])
def test_load_is_even_and_a_new_server_takes_its_share(count: int) -> None:
    nodes = [NodeId.from_halves(1, number) for number in range(count)]
    before = {key: rendezvous(key, nodes) for key in KEYS}
    held = Counter(node for chosen in before.values() for node in chosen)
    fair = REPLICAS * len(KEYS) / count
    assert all(0.8 * fair < held[node] < 1.2 * fair for node in nodes)
    new = NodeId.from_halves(1, count)
    moved = 0
    for key, old in before.items():
        now = rendezvous(key, [*nodes, new])
        assert set(now) - set(old) <= {new}
        moved += new in now
    share = REPLICAS / (count + 1) * len(KEYS)
    assert 0.8 * share < moved < 1.2 * share


def test_without_control_servers_everything_is_flooded() -> None:
    sharding = Sharding(US)
    assert not sharding.active
    assert sharding.replicas(5) == ()
    announce, subscribe = entries(9)
    assert sharding.exports_announce(1, announce)
    assert sharding.exports_subscribe(1, subscribe)
    assert not sharding.remove_server(1)


def entries(source: int) -> tuple[AnnounceInfo, SubscribeInfo]:
    name = track("a/b/n")
    return announce_info(source, namespace("a/b")), subscribe_info(source, name, body_for(name))


def test_with_control_servers_our_own_go_to_them_and_nobody_else() -> None:
    sharding = Sharding(US)
    for number in (1, 2, 3):
        sharding.add_server(number, NodeId(number))
    assert sharding.active
    assert sharding.servers == {1, 2, 3}
    announce, subscribe = entries(100)
    replicas = sharding.replicas(subscribe.full_name_hash)
    assert [sharding.exports_announce(session, announce) for session in (1, 2, 3, 4)] == [
        True,
        True,
        True,
        False,
    ]
    told = [session for session in (1, 2, 3, 4) if sharding.exports_subscribe(session, subscribe)]
    assert sorted(replicas) == told
    foreign_announce, foreign_subscribe = entries(9)
    for session in (1, 2, 3, 4):
        assert not sharding.exports_announce(session, foreign_announce)
        assert not sharding.exports_subscribe(session, foreign_subscribe)
    # One of them is lost: the next in the order takes its place.
    assert sharding.remove_server(replicas[0])
    assert replicas[1] in sharding.replicas(subscribe.full_name_hash)
    assert len(sharding.replicas(subscribe.full_name_hash)) == 2


def test_a_server_may_have_a_new_session_before_the_old_one_is_gone() -> None:
    sharding = Sharding(US)
    sharding.add_server(1, NodeId(5))
    sharding.add_server(2, NodeId(5))
    assert sharding.remove_server(1)
    assert sharding.servers == {5}
    assert sharding.remove_server(2)
    assert not sharding.active
    assert sharding.servers == frozenset()


def test_for_those_who_are_apart_everything_is_flooded_and_told_to_the_servers() -> None:
    sharding = Sharding(US)
    for number in (1, 2, 3):
        sharding.add_server(number, NodeId(number))
    assert sharding.set_apart([NodeId(9)], [5])
    assert not sharding.set_apart({NodeId(9)}, {5})
    ours, lonely, others = entries(100), entries(9), entries(8)
    for announce, subscribe in (ours, lonely, others):
        assert sharding.exports_announce(5, announce)
        assert sharding.exports_subscribe(5, subscribe)
        assert not sharding.exports_announce(6, announce)
        assert not sharding.exports_subscribe(6, subscribe)
    announce, subscribe = lonely
    held = sorted(sharding.replicas(subscribe.full_name_hash))
    assert all(sharding.exports_announce(session, announce, lambda: 5) for session in (1, 2, 3))
    told = [each for each in (1, 2, 3) if sharding.exports_subscribe(each, subscribe, lambda: 5)]
    assert told == held
    # Who heard it from a server has nothing to tell the others.
    assert not any(sharding.exports_announce(each, announce, lambda: 2) for each in (1, 2, 3))
    assert not any(sharding.exports_subscribe(each, subscribe, lambda: 2) for each in (1, 2, 3))
    assert not sharding.exports_announce(1, others[0], lambda: 5)
    assert sharding.set_apart((), ())
    assert not sharding.exports_announce(5, ours[0])


CONTROL, VIA = RelayType.CONTROL, RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)
NAMES = [FullTrackName.parse(f"example-room--video{number}") for number in range(12)]
some = st.frozensets(st.integers(1, 6).map(NodeId), max_size=5)


@given(some, some, st.integers(0, 2**64 - 1))
def test_edges_that_meet_find_each_other_for_every_key(
    ours: frozenset[NodeId], theirs: frozenset[NodeId], key: int
) -> None:
    """The announces of the one are with all its servers, a subscribe of the other with two."""
    assert meet(ours, theirs) == meet(theirs, ours)
    if meet(ours, theirs):
        assert ours & set(rendezvous(key, theirs))
        assert theirs & set(rendezvous(key, ours))


def links(net: RelayNet, number: int) -> list[int]:
    return sorted(int(row.node or 0) for row in net.relays[number].tables.peers())


def talk(net: RelayNet, publisher: int, *subscribers: int, name: FullTrackName = TRACK) -> None:
    """What is published at one Edge comes to the others, once."""
    net.publish(publisher, name)
    net.run(3)
    for number in subscribers:
        net.subscribe(number, name)
    net.run(3)
    for number in subscribers:
        assert net.answers(number)[-1] == ACCEPTED
    net.send(publisher, b"object", name)
    net.run()
    assert net.got(*subscribers) == [[b"object"]] * len(subscribers)


def test_an_edge_learns_of_the_other_servers_and_connects_with_all() -> None:
    net = RelayNet()
    for number in (1, 2):
        net.add(number)
    for number in (11, 12, 13):
        net.add(number, CONTROL)
    net.dial_for_ever(1, 11, 12, 13)
    net.dial_for_ever(2, 11)
    net.dial_for_ever(12, 11)
    net.dial_for_ever(13, 11)
    net.join(2, 1)
    net.run(3)
    assert links(net, 2) == [1, 11, 12, 13]
    assert all(not row.sends for row in net.relays[2].tables.peers() if (row.node or 0) > 10)
    for name in NAMES:
        net.publish(2, name)
        net.subscribe(1, name)
    net.run(3)
    for name in NAMES:
        net.send(2, b"object", name)
    net.run()
    assert net.got(1) == [[b"object"] * len(NAMES)]
    # Nothing is flooded: what Edge 2 holds of others came from the servers.
    server = net.session(2, 11), net.session(2, 12), net.session(2, 13)
    assert {row.session for row in net.relays[2].tables.subscribe_rows()} <= {*server}
    # It stays that way when one is lost and comes back.
    net.crash(13)
    net.run(3)
    assert links(net, 2) == [1, 11, 12]
    net.add(13, CONTROL)
    net.dial_for_ever(13, 11)
    net.run(60)
    assert links(net, 2) == [1, 11, 12, 13]


def lonely(*, via: bool = False) -> RelayNet:
    """Edges 1 and 3 have a control server; Edge 2 has none and reaches none."""
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.add(9, CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(3, 9)
    net.run()
    net.contacts.pop("relay-9:33434")
    if via:
        net.add(5, VIA)
        net.join(2, 5)
        net.join(1, 5)
    else:
        net.join(2, 1)
    net.join(3, 1)
    net.run(10)
    assert 9 not in links(net, 2)
    return net


def test_an_edge_without_a_server_hears_and_is_heard_through_its_peer() -> None:
    net = lonely()
    talk(net, 2, 1, 3)
    talk(net, 3, 1, 2, name=OTHER)
    # Who publishes nowhere is not found, and that is said.
    nothing = FullTrackName.parse("example-room--nothing")
    net.subscribe(2, nothing)
    net.run(3)
    assert net.answers(2) == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER)]


def test_an_edge_behind_a_via_is_served_too() -> None:
    net = lonely(via=True)
    talk(net, 2, 1, 3)
    talk(net, 3, 1, 2, name=OTHER)


def test_somebody_else_speaks_for_it_when_its_peer_is_gone() -> None:
    net = lonely()
    net.join(2, 3)
    net.run(3)
    net.add(4)
    net.contacts["relay-9:33434"] = 9
    net.dial_for_ever(4, 9)
    net.run(3)
    del net.contacts["relay-9:33434"]
    net.join(4, 3)
    net.run(3)
    talk(net, 2, 4)
    net.crash(1)
    net.run(3)
    net.send(2, b"again")
    net.run()
    assert net.got(4) == [[b"again"]]
    late = FullTrackName.parse("example-room--late")
    talk(net, 2, 4, name=late)


def test_what_was_flooded_is_taken_back_once_it_has_a_server() -> None:
    net = lonely()
    net.publish(2)
    net.publish(1, OTHER)
    net.subscribe(3)
    net.run(3)
    assert len(net.relays[1].tables.announce_rows()) == 2
    net.contacts["relay-9:33434"] = 9
    net.dial_for_ever(2, 9)
    net.run(60)
    assert 9 in links(net, 2)
    rows = net.relays[1].tables.announce_rows()
    assert [row.source for row in rows] == [1]
    net.send(2, b"object")
    net.run()
    assert net.got(3) == [[b"object"]]


def test_who_is_no_peer_has_time_for_its_sessions() -> None:
    server = relay(9, CONTROL, contacts=("c:1",))
    nodes = Directory(server, relay(2), relay(3, reachable={9: 1}))
    nodes.path(2, 5)
    servers = Servers(nodes, 3.0)
    ours = frozenset({NodeId(9)})
    servers.changed(0.0, map(NodeId, (2, 3, 9)), frozenset())
    assert servers.known == {9: ("c:1",)}
    assert servers.apart(0.0, lambda _: True) == {}
    assert not servers.may_change(0.0, frozenset())
    assert servers.may_change(0.0, ours)
    servers.changed(1.0, (), ours, 7)
    assert servers.apart(1.0, lambda _: True) == {2: 2}
    assert not servers.may_change(9.0, ours, 7)
    assert servers.may_change(1.0, ours, 8)  # somebody may have become a peer
    assert servers.apart(1.0, lambda _: False) == {}
    assert servers.due == 4.0
    assert [servers.may_change(now, ours, 7) for now in (3.9, 4.0)] == [False, True]
    assert servers.apart(4.0, lambda _: False) == {2: 5}
    assert not servers.due
    nodes.put(relay(2, reachable={9: 1}))
    servers.changed(5.0, [NodeId(2)], ours)
    assert servers.apart(9.0, lambda _: True) == {}
    assert not servers.may_change(9.0, frozenset({NodeId(9)}))
    # A second server of ours that others do not have costs nothing; they lose theirs: it does.
    nodes.put(relay(2), relay(4))
    servers.changed(6.0, map(NodeId, (2, 4)), ours)
    assert servers.apart(9.0, lambda node: node == 4) == {2: 5, 4: 4}
    nodes.selves.pop(NodeId(2))
    nodes.selves.pop(NodeId(9))
    servers.changed(7.0, map(NodeId, (2, 9)), ours)
    assert servers.known == {}
    assert servers.apart(7.0, lambda _: True) == {3: 3, 4: 4}
    # Without a way nobody leads there.
    assert servers.apart(20.0, lambda _: False) == {}
