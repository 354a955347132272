from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.control_server.sharding import REPLICAS, Sharding, rendezvous
from laps_sdk.upstream.bodies import body_for
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, SubscribeInfo
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
