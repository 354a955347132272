"""What follows from what peers say: ways, moves, drains, dials, in whole networks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from laps_relay.core.network.dial_wishes import WishBook
from laps_relay.core.network.dialling import Contact
from laps_relay.core.network.events import (
    Dialled,
    NodeGone,
    PeerGone,
    PeerLeaving,
    PolicyChanged,
    RouteChanged,
    SubscribeGone,
    SubscribeRefused,
)
from laps_relay.core.network.interfaces import LOCAL, Answer, NodeLookup, Refusal
from laps_relay.core.network.plans import NO_PLAN, TablePlan
from laps_relay.core.network.redirect import CLIENT_LABEL
from laps_relay.core.network.relay import NetworkRelay
from laps_relay.core.network.selection import ORDERS
from laps_relay.core.policy import OPEN_POLICY, OpenPolicy
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceKind,
    Load,
    LoadClass,
    NodeInfo,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
)
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of

VIA = RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


def chain(*, reflect: bool = True) -> RelayNet:
    """Edge 1, a relay 2, Edge 3."""
    net = RelayNet()
    net.add(1)
    net.add(2, VIA, reflect=reflect)
    net.add(3)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    return net


def ring() -> RelayNet:
    """Five relays in a ring with a chord between 1 and 3; the link 4-5 is slow."""
    net = RelayNet()
    for number in range(1, 6):
        net.add(number)
    for left, right in ((1, 2), (2, 3), (3, 4), (5, 1), (1, 3)):
        net.join(left, right)
    net.join(4, 5, delay=0.02)
    net.run(2)
    return net


# Ways


def test_the_track_of_an_edge_reaches_the_clients_of_another() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.run()
    net.publish(1)
    net.run()
    assert net.clients[2].known == [TRACK]
    net.want(2)
    net.run()
    assert net.answers(2) == [ACCEPTED]
    net.send(1, b"object")
    net.feed(1).send_datagram(net.now, b"small", priority=1)
    net.run()
    assert net.got(1, 2) == [[], [b"object"]]
    assert net.clients[2].datagrams == [b"small"]


@pytest.mark.parametrize("reflect", [True, False])
def test_a_via_carries_what_it_takes_no_part_in(reflect: bool) -> None:
    net = chain(reflect=reflect)
    net.publish(1)
    net.run()
    net.want(3)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.send(1, b"object")
    net.run()
    assert net.got(1, 3) == [[], [b"object"]]
    assert net.relays[2].counters().streams_out == 1
    net.unwant(3)
    net.relays[1].withdraw(net.now, AnnounceKind.TRACK, TRACK)
    net.run(120)
    assert net.at_rest() == []


def test_every_pair_of_a_ring_with_a_chord_takes_the_best_way() -> None:
    net = ring()
    ways = {(a, b): net.way(a, b) for a in net.relays for b in net.relays if a != b}
    # One hop: all neighbours, the slow link too (hops come before time).
    for a, b in ((1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (1, 3)):
        assert (ways[a, b], ways[b, a]) == ((b,), (a,))
    assert (ways[1, 4], ways[4, 1]) == ((3, 4), (3, 1))
    assert (ways[2, 4], ways[4, 2]) == ((3, 4), (3, 2))
    assert (ways[2, 5], ways[5, 2]) == ((1, 5), (1, 2))
    assert (ways[3, 5], ways[5, 3]) == ((1, 5), (1, 3))


def test_a_link_that_breaks_takes_everything_that_was_learned_over_it() -> None:
    net = ring()
    net.publish(5)
    net.run()
    net.want(2)
    net.run()
    net.send(5, b"before")
    net.run()
    for number in net.relays:
        net.events[number].clear()
    net.cut(1, net.session(1, 5))
    assert net.way(1, 5) == ()
    net.run(2)
    assert (net.way(1, 5), net.way(2, 5)) == ((3, 4, 5), (3, 4, 5))
    assert (RouteChanged(node=NodeId(5), peer=NodeId(3), hops=2, cost_us=60_000)) in net.told(
        2, RouteChanged
    )
    net.send(5, b"after")
    net.run()
    assert net.got(2) == [[b"before", b"after"]]
    assert [event.reason for event in net.told(5, PeerGone)] == ["cut"]
    net.unwant(2)
    net.run(10)
    assert [net.relays[number].sets() for number in net.relays] == [[]] * 5
    net.cut(4, net.session(4, 5))
    net.run(2)
    assert [(gone.node, gone.reason) for gone in net.told(2, NodeGone)] == [(5, "withdrawn")]
    assert [(gone.node, gone.reason) for gone in net.told(4, NodeGone)] == [(5, "session_closed")]
    net.run(120)
    assert net.at_rest([1, 2, 3, 4]) == []
    # Alone again: nothing of the others is left, own entries are.
    assert [row.node for row in net.relays[5].nodes()] == [5]


def test_a_relay_that_restarts_is_another_one() -> None:
    net = chain()
    net.publish(1)
    net.run()
    net.want(3)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.restart(1)
    net.join(1, 2)
    net.run(8)
    assert net.clients[3].known == []
    assert net.relays[2].fib() == net.relays[3].fib() == []
    assert net.answers(3)[0][0] is Answer.ENDED
    net.publish(1)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.send(1, b"of its second life")
    net.run()
    assert net.got(3) == [[b"of its second life"]]
    epochs = {row.epoch for relay in net.relays.values() for row in relay.announce_rows()}
    assert epochs == {4}


def test_two_edges_publish_the_same_track() -> None:
    net = chain()
    net.publish(1)
    net.publish(3)
    net.add(4)
    net.join(4, 2)
    net.run()
    net.want(4)
    net.run()
    assert net.answers(4)[0] == ACCEPTED
    net.send(1, b"one context")
    net.send(3, b"another")
    net.run()
    assert sorted(net.got(4)[0]) == [b"another", b"one context"]
    # Both publish only: neither gets what the other does.
    assert net.got(1, 3) == [[], []]


# Comes and goes


def test_who_joins_gets_a_track_from_the_next_stream_on() -> None:
    """Nobody between knows where an object ends; the pages say so, and what to do."""
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, VIA if number == 2 else RelayType.EDGE)
    net.join(1, 2)
    net.join(2, 3)
    net.join(2, 4)
    net.publish(1)
    net.run()
    net.want(3)
    net.run()
    long = net.begin(1, b"first, ")
    net.run()
    net.want(4)
    net.run()
    assert net.answers(4) == [ACCEPTED]
    long.write(b"second", fin=False)
    net.send(1, b"another stream")
    net.run()
    long.write(b", last", fin=True)
    net.run()
    assert net.got(3, 4) == [[b"another stream", b"first, second, last"], [b"another stream"]]


# Moves


def test_a_transit_relay_does_not_split_a_set_over_parallel_connections() -> None:
    net = RelayNet()
    for number in (1, 2, 3, 4, 5):
        net.add(number, RelayType.VIA if number == 2 else RelayType.EDGE)
    net.join(1, 2)
    net.relays[2].set_contacts(net.now, [Contact(address="relay-3:33434", parallel=4)])
    net.join(3, 4)
    net.join(3, 5)
    net.run(3)
    names = [FullTrackName.parse(f"example-room--v{number}") for number in range(16)]
    for name in names:
        net.publish(1, name)
        net.want(4, name)
    net.run(2)
    rows = net.relays[2].peers()
    net.cut(2, next(row.session for row in rows if row.node == 3 and not row.control))
    net.run(40)  # it was dialled again
    assert len([row for row in net.relays[2].peers() if row.node == 3]) == 4
    for name in names:
        net.want(5, name)
    net.run(2)
    for name in names:
        net.send(1, b"object", name)
    net.run(2)
    counters = net.relays[2].counters()
    assert (counters.streams_in, counters.streams_out) == (16, 16)
    assert net.got(4, 5) == [[b"object"] * 16] * 2


def test_a_parallel_connection_that_dies_gives_its_tracks_to_the_others() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.relays[1].set_contacts(net.now, [Contact(address="relay-2:33434", parallel=4)])
    net.run()
    names = [FullTrackName.parse(f"example-room--video{number}") for number in range(16)]
    for name in names:
        net.publish(1, name)
        net.want(2, name)
    net.run()
    used = {row.session for row in net.relays[1].sets()}
    assert len(used) == 4
    control = next(row.session for row in net.relays[1].peers() if row.control)
    dying = max(used - {control})
    homes = {row.key: row.session for row in net.relays[1].sets()}
    for name in names:
        net.send(1, b"first", name)
    net.run()
    net.cut_off.add(2)
    net.cut(1, dying)
    net.run()
    after = {row.key: row.session for row in net.relays[1].sets()}
    assert dying not in after.values()
    assert all(after[key] == home for key, home in homes.items() if home != dying)
    for name in names:
        net.send(1, b"second", name)
    net.run()
    assert net.got(2) == [[b"first"] * 16 + [b"second"] * 16]


def test_a_stream_spans_the_drain_of_a_via() -> None:
    net = RelayNet()
    net.add(1)
    net.add(4)
    for via in (2, 3):
        net.add(via, VIA)
        net.join(1, via)
        net.join(via, 4)
    net.run()
    net.publish(1)
    net.want(4)
    net.run()
    assert net.way(1, 4) == (2, 4)
    long = net.begin(1, b"begun, ")
    net.run(0.1)
    net.relays[2].drain(net.now, 30.0, "maintenance")
    net.run(0.5)
    assert net.way(1, 4) == (3, 4)
    sets = {row.session: row for row in net.relays[1].sets()}
    old, new = net.session(1, 2), net.session(1, 3)
    assert (sets[old].retiring, sets[new].retiring) == (True, False)
    net.send(1, b"the new way")
    long.write(b"moved, ")
    net.run(0.1)
    assert net.got(4) == [[b"the new way"]]
    long.write(b"ended", fin=True)
    net.run(3)
    assert net.got(4) == [[b"begun, moved, ended"]]
    assert [row.session for row in net.relays[1].sets()] == [new]
    assert net.relays[2].sets() == []
    assert {event.node for event in net.told(1, PeerLeaving)} == {NodeId(2)}
    net.run(40)
    assert {row.node for row in net.relays[1].peers()} == {NodeId(3)}


def test_a_stream_spans_the_coming_of_a_better_link() -> None:
    net = chain()
    net.publish(1)
    net.want(3)
    net.run()
    long = net.begin(1, b"by the Via, ")
    net.run(0.1)
    net.join(1, 3)
    net.run(0.5)
    assert net.way(1, 3) == (3,)
    long.write(b"to its end", fin=True)
    net.send(1, b"straight")
    net.run(3)
    assert sorted(net.got(3)[0]) == [b"by the Via, to its end", b"straight"]
    assert [row.session for row in net.relays[1].sets()] == [net.session(1, 3)]
    assert net.relays[2].fib() == []


def test_data_that_is_faster_than_its_set_is_held() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.run()
    net.publish(1)
    net.want(2)
    net.run(0.0)
    while not net.clients[1].feeds:
        net.run(0.001)
    # The set is made at the origin, and the control stream is slow.
    first = net.ends[2, net.session(2, 1)].other
    waiting = [item for item in net._heap if item[2] is first and item[3] == "control"]
    for item in waiting:
        net._heap.remove(item)
    net.send(1, b"early")
    net.run(0.1)
    assert net.got(2) == [[]]
    assert net.relays[2].counters().held_bytes > 0
    for _, _, _, what, args in waiting:
        net.later(first, what, *args)
    net.run(0.1)
    assert net.got(2) == [[b"early"]]
    assert net.relays[2].counters().held_bytes == 0


# Churn and policy


def test_an_unsubscribe_waits_and_is_cancelled_by_a_new_want() -> None:
    net = chain()
    net.publish(1)
    net.want(3)
    net.run()
    net.unwant(3)
    net.run(4)
    assert [row.source for row in net.relays[1].subscribe_rows()] == [3]
    net.want(3)
    net.run(10)
    net.send(1, b"still there")
    net.run()
    assert net.got(3) == [[b"still there"]]
    assert net.clients[1].released == []
    net.unwant(3)
    net.run(4.5)
    assert net.clients[1].released == []
    net.run(1)
    assert net.clients[1].released == [key_of(TRACK)]
    # Only who unsubscribes knows that it waited.
    assert [event.delayed for event in net.told(3, SubscribeGone)] == [True]
    assert [event.delayed for event in net.told(1, SubscribeGone)] == [False]
    assert net.relays[1].subscribe_rows() == []


def test_a_publisher_ends_a_track_and_comes_back() -> None:
    net = chain()
    net.publish(1)
    net.want(3)
    net.run()
    stream = net.begin(1, b"the last ")
    net.run(0.1)
    net.relays[1].pull_ended(net.now, key_of(TRACK), "it is over")
    net.clients[1].feeds.clear()
    net.run(0.5)
    assert net.answers(3)[1:] == [ACCEPTED, (Answer.ENDED, SubscribeCode.ENDED)]
    stream.write(b"words", fin=True)
    net.run(3)
    assert net.got(3) == [[b"the last words"]]
    for number in (1, 2, 3):
        assert (net.relays[number].sets(), net.relays[number].fib()) == ([], [])
    net.want(3)
    net.run()
    net.send(1, b"more")
    net.run()
    assert net.got(3) == [[b"more"]]


class Closed(OpenPolicy):
    """Subscribers at some relays may have nothing."""

    __slots__ = ("excluded",)

    def __init__(self, *excluded: int) -> None:
        self.excluded = excluded

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        if source.node_id in self.excluded:
            return Refusal("tracks", f"{source.node_id} may not have it")
        return None


def test_a_policy_that_is_loaded_cuts_what_it_forbids() -> None:
    net = chain()
    net.publish(1)
    net.want(3)
    net.run()
    net.answers(3)
    stream = net.begin(1, b"never ")
    net.run(0.1)
    net.relays[1].set_policy(net.now, Closed(3))
    stream.write(b"whole", fin=True)
    net.run()
    assert net.got(3) == [[]]
    assert [data for data, _ in net.clients[3].reset] == [b"never "]
    assert net.answers(3)[0][1] is SubscribeCode.POLICY
    assert net.relays[1].sets() == net.relays[2].sets() == []
    assert [event.reason for event in net.told(1, SubscribeRefused)]
    assert len(net.told(1, PolicyChanged)) == 1
    net.relays[1].set_policy(net.now, OPEN_POLICY)
    net.run()
    net.send(1, b"allowed again")
    net.run()
    assert net.got(3) == [[b"allowed again"]]


def test_a_policy_cuts_the_streams_of_one_of_several() -> None:
    net = chain()
    for number in (4, 5):
        net.add(number)
    net.join(2, 4)
    net.join(1, 5)
    net.run()
    net.publish(1)
    for number in (3, 4, 5):
        net.want(number)
    net.run()
    stream = net.begin(1, b"begun ")
    net.run(0.1)
    net.relays[1].set_policy(net.now, Closed(3, 5))
    net.run(0.001)
    stream.write(b"and ended", fin=True)
    net.send(1, b"new")
    net.run()
    assert net.got(3, 4, 5) == [[], [b"begun and ended", b"new"], []]
    assert [data for data, _ in net.clients[3].reset] == [b"begun "]
    assert [data for data, _ in net.clients[5].reset] == [b"begun "]


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
    net.want(2)
    net.run(2)
    assert net.answers(2)[-1] == ACCEPTED
    demand = [row for row in net.relays[1].peers() if row.on_demand]
    assert [row.node for row in demand] == [2]
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]
    assert net.relays[9].counters().streams_in == 0
    net.unwant(2)
    net.run(34)
    assert [row.node for row in net.relays[1].peers() if row.on_demand] == [2]
    # Somebody needs it again before its time is over.
    net.want(2)
    net.run(40)
    net.send(1, b"again")
    net.run()
    assert net.got(2) == [[b"again"]]
    net.unwant(2)
    net.run(40)
    assert [row.node for row in net.relays[1].peers()] == [9]
    assert [event.reason for event in net.told(1, PeerGone)] == ["not needed any more"]


def test_without_dynamic_peering_nobody_is_dialled() -> None:
    net = RelayNet()
    net.add(1, dynamic_peering=False)
    net.add(2, dynamic_peering=False)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.want(2)
    net.run(2)
    assert [row.node for row in net.relays[1].peers()] == [9]


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
        net.want(2, name)
        net.want(3, name)
    net.run(3)
    # Each subscribe is at two servers, and at the Edge that publishes; nowhere else.
    held = [{row.key for row in net.relays[number].subscribe_rows()} for number in servers]
    for name in names:
        assert sum(key_of(name) in keys for keys in held) == 2
    assert len(net.relays[1].subscribe_rows()) == 24
    assert net.relays[4].subscribe_rows() == []
    net.crash(12)
    net.run(3)
    held = [{row.key for row in net.relays[number].subscribe_rows()} for number in (11, 13)]
    assert held == [{key_of(name) for name in names}] * 2
    for name in names:
        net.send(1, b"object", name)
    net.run()
    assert net.got(2, 3, 4) == [[b"object"] * 12, [b"object"] * 12, []]
    assert all(answer == ACCEPTED for answer in net.answers(2))
    net.want(4, names[0])
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
    net.want(2)
    assert net.relays[2].announce_rows() == []
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
        net.want(number, name)
    net.run(3)
    relay = net.relays[2]
    assert {row.source for row in relay.subscribe_rows()} == {2}
    relay.drain(net.now, 30.0)
    net.run(0.1)
    assert {row.source for row in relay.subscribe_rows()} == {2, 3}
    # It serves nobody for that.
    assert {row.source for row in net.relays[3].subscribe_rows()} == {3}
    assert [row for row in relay.fib() if row.session == LOCAL] == []
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
    (row,) = [row for row in net.relays[2].peers() if row.node == 9]
    assert row.on_demand
    relay = net.relays[2]
    known = dict(relay._servers.known)
    relay._servers.known.clear()
    relay._settle(net.now)
    relay._servers.known.update(known)
    relay._settle(net.now)
    net.run(60)
    assert [each.session for each in net.relays[2].peers() if each.node == 9] == [row.session]


def test_nobody_publishes_it() -> None:
    net = RelayNet()
    net.add(1)
    net.add(9, RelayType.CONTROL)
    net.dial_for_ever(1, 9)
    net.run()
    net.want(1)
    net.run()
    assert net.answers(1) == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER)]


# Vias, which are not the best way to anybody


def across(*, dynamic_peering: bool = True) -> RelayNet:
    """Edge 1 in the us and a publisher, Edges 2, 3, 4 in the eu, each its peer; Via 5 in the eu."""
    net = RelayNet()
    net.add(1, region="us", via_hold=2.0, dynamic_peering=dynamic_peering)
    net.add(5, VIA, region="eu", dynamic_peering=False)
    for number in (2, 3, 4):
        net.add(number, region="eu", dynamic_peering=False)
        net.join(1, number)
        net.join(number, 5)
    return net


def crowded(*, dynamic_peering: bool = True) -> RelayNet:
    """The same with the Via as a peer, which is used."""
    net = across(dynamic_peering=dynamic_peering)
    net.join(1, 5)
    net.run(2)
    net.publish(1)
    for number in (2, 3, 4):
        net.want(number)
    net.run(1)
    assert hops_of(net) == [2, 3, 4]
    net.run(4)
    assert hops_of(net) == [5]
    return net


def hops_of(net: RelayNet, number: int = 1) -> list[int]:
    """Where new streams of a relay go."""
    rows = net.relays[number].sets()
    return sorted(
        net.ends[number, row.session].other.owner
        for row in rows
        if not row.incoming and not row.retiring
    )


def test_a_via_that_drains_is_left_before_it_goes() -> None:
    net = crowded(dynamic_peering=False)
    before = net.begin(1, b"be")
    net.run(0.1)
    net.relays[5].drain(net.now, 10.0, "maintenance")
    net.run(1)
    assert hops_of(net) == [2, 3, 4]
    during = net.begin(1, b"dur")
    net.run(5)
    before.write(b"fore", fin=True)
    net.run(6)
    during.write(b"ing", fin=True)
    net.run(1)
    assert net.got(2, 3, 4) == [[b"before", b"during"]] * 3
    assert 5 not in [row.node for row in net.relays[1].peers()]


def test_an_overloaded_via_is_left() -> None:
    net = crowded()
    net.relays[5].set_load(net.now, Load(LoadClass.OVERLOADED, 990))
    net.run(1)
    assert hops_of(net) == [5]
    net.run(2)
    assert hops_of(net) == [2, 3, 4]
    net.relays[5].set_load(net.now, Load(LoadClass.NORMAL, 100))
    net.run(3)
    assert hops_of(net) == [5]
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3


def test_a_via_that_was_dialled_on_demand_is_used_and_kept() -> None:
    net = across()
    net.run(12)
    net.told(1, Dialled)
    net.publish(1)
    for number in (2, 3, 4):
        net.want(number)
    net.run(3)
    assert hops_of(net) == [5]
    net.run(100)
    assert hops_of(net) == [5]
    assert [event.node for event in net.told(1, Dialled)] == [5]
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3


def test_an_origin_that_becomes_overloaded_asks_for_a_via() -> None:
    net = crowded()
    net.unwant(4)
    net.run(10)
    assert hops_of(net) == [2, 3]
    net.relays[1].set_load(net.now, Load(LoadClass.OVERLOADED, 990))
    net.run(3)
    assert hops_of(net) == [5]


def test_transit_by_another_way_than_the_best_leaves_who_drains() -> None:
    """1 - 2 - {3, 4, 5} - 6: policy at 2 forbids 3 for the class, so 4 is used, then 5."""

    class Gold(OpenPolicy):
        def scope(self, name: FullTrackName) -> str:
            return "gold"

    class NotThree(OpenPolicy):
        def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
            shut = scope == "gold" and any(node.node_id == 3 for node in nodes[1:-1])
            return Refusal("rule", "not there") if shut else None

    net = RelayNet()
    net.add(1, policy=Gold(), dynamic_peering=False)
    net.add(2, VIA, policy=NotThree(), dynamic_peering=False)
    net.add(6, dynamic_peering=False)
    net.join(1, 2)
    for number in (3, 4, 5):
        net.add(number, VIA, dynamic_peering=False)
        net.join(2, number)
        net.join(number, 6)
    net.run(2)
    assert net.way(2, 6) == (3, 6)
    net.publish(1)
    net.want(6)
    net.run(2)
    assert hops_of(net, 2) == [4]
    before = net.begin(1, b"be")
    net.run(0.1)
    net.relays[4].drain(net.now, 5.0, "maintenance")
    net.run(1)
    assert hops_of(net, 2) == [5]
    during = net.begin(1, b"dur")
    net.run(1)
    before.write(b"fore", fin=True)
    net.run(6)
    during.write(b"ing", fin=True)
    net.run(1)
    assert net.got(6) == [[b"before", b"during"]]


def test_wishes_are_looked_for_only_when_something_has_changed() -> None:
    net = crowded()
    steering = net.relays[1]._steering
    assert not steering.wishes_due(net.now)
    net.publish(2, FullTrackName.parse("example-room--other"))
    net.run()
    asked: list[float] = []
    look = WishBook.nodes

    def counted(book: WishBook, now: float) -> list[NodeId]:
        asked.append(now)
        return look(book, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WishBook, "nodes", counted)
        net.publish(2, FullTrackName.parse("example-room--another"))
        net.run()
        assert asked == []
        net.relays[5].set_own_label(net.now, "x", "y")
        net.run(0.5)
        assert asked
    assert hops_of(net) == [5]


# What others decide


def test_another_order_of_ways() -> None:
    """By time alone the slow link is not taken, though it is one hop."""
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, order=ORDERS["delay"])
    net.join(1, 2)
    net.join(2, 3)
    net.join(1, 3, delay=0.5)
    net.run(5)
    assert (net.way(1, 3), net.way(3, 1)) == ((2, 3), (2, 1))
    net.publish(1)
    net.want(3)
    net.run(3)
    net.send(1, b"object")
    net.run(0.1)
    assert net.got(3) == [[b"object"]]


def test_a_plan_is_followed_from_when_it_comes_and_never_against_policy() -> None:
    class NotSix(OpenPolicy):
        def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
            shut = any(node.node_id == 6 for node in nodes[1:-1])
            return Refusal("rule", "not there") if shut else None

    net = crowded(dynamic_peering=False)
    net.add(6, VIA, region="eu", dynamic_peering=False)
    for number in (1, 2, 3, 4):
        net.join(number, 6)
    net.run(5)
    assert hops_of(net) == [5]
    origin = net.relays[1]
    origin.set_plan(net.now, TablePlan(classes={("", "eu"): NodeId(6)}))
    net.run(1)
    assert hops_of(net) == [5]
    net.run(2)
    assert hops_of(net) == [6]
    origin.set_policy(net.now, NotSix())
    assert 6 not in hops_of(net)
    net.run(3)
    assert hops_of(net) == [5]
    origin.set_policy(net.now, OPEN_POLICY)
    net.run(3)
    assert hops_of(net) == [6]
    origin.set_plan(net.now, TablePlan(tracks={(key_of(TRACK), "eu"): NodeId(5)}))
    net.run(3)
    assert hops_of(net) == [5]
    origin.set_plan(net.now, NO_PLAN)
    net.run(3)
    assert hops_of(net) == [5], "what is in use stays, unless another is clearly better"
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3


# What is told


def test_a_way_that_only_costs_more_is_no_news() -> None:
    net = chain()
    assert [event.node for event in net.told(1, RouteChanged)] == [2, 3]
    for _ in range(4):
        net.relays[2].measured(net.now, net.session(2, 3), 80_000)
        net.run(2)
    assert net.relays[1].nodes()[2].cost_us > 50_000
    assert net.told(1, RouteChanged) == []
    net.crash(3)
    net.run()
    (lost,) = net.told(1, RouteChanged)
    assert (lost.node, lost.peer) == (3, None)


def test_rounds_end() -> None:
    """A part that always has something new does not hang the relay."""
    net = RelayNet()
    relay = net.add(1)
    turns: list[float] = []

    def busy(_: NetworkRelay, now: float) -> bool:
        turns.append(now)
        relay.set_own_contacts(now, ("elsewhere:1",))
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkRelay, "_round", busy)
        relay.set_load(net.now, Load(LoadClass.NORMAL, 7))
    assert len(turns) == 1_000


def test_what_a_relay_says_of_itself_later_reaches_others() -> None:
    net = RelayNet()
    left, right = net.add(1), net.add(2)
    net.join(1, 2)
    net.run()
    for value in ("moqt://one.example:1", "moqt://one.example:1", "moqt://two.example:1", ""):
        left.set_own_label(net.now, "client", value)
        net.run()
        told = right.node(left.node_id)
        assert told is not None
        assert [label.value for label in told.labels] == ([value] if value else [])


class Secretive(OpenPolicy):
    """Nothing of node 3 goes out, to anybody or to one peer."""

    __slots__ = ("to",)

    def __init__(self, to: int | None = None) -> None:
        self.to = to

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        secret = entry.source == 3 and self.to in (None, peer.node_id)
        return Refusal("export", "not out of here") if secret else None


def guarded(*, announced: bool = True) -> RelayNet:
    """Edges 1 and 3 at both ends of Via 2; 4 is a neighbour of 2 and leads nowhere."""
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, RelayType.VIA if number == 2 else RelayType.EDGE)
        if number > 1:
            net.join(min(number - 1, 2), number)
    if announced:
        net.publish(1)
    net.run()
    return net


NOT_OUT = (Answer.REFUSED, SubscribeCode.POLICY)
SERVED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


@pytest.mark.parametrize("where", [2, 3])
def test_what_is_kept_from_all_who_could_serve_it_is_answered(where: int) -> None:
    net = guarded()
    # At 2 only from the one that leads there.
    policy = Secretive(1 if where == 2 else None)
    net.relays[where].set_policy(net.now, policy)
    net.run()
    net.want(3)
    net.run(1.2)
    assert net.answers(3) == [NOT_OUT]
    assert net.clients[3].reasons[-1] == "not out of here"
    assert [event.reason for event in net.told(where, SubscribeRefused)] == ["not out of here"]
    net.run(200)
    assert net.answers(3) == []
    net.relays[where].set_policy(net.now, OpenPolicy())
    net.run()
    assert net.answers(3) == [SERVED]
    net.relays[where].set_policy(net.now, policy)
    net.run(2)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]
    net.unwant(3)
    net.run(60)
    assert len(net.relays[where]._withheld) == 0


def test_what_is_kept_back_is_answered_when_somebody_announces_it() -> None:
    net = guarded(announced=False)
    net.relays[2].set_policy(net.now, Secretive())
    net.want(3)
    net.run()
    assert net.answers(3) == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER)]
    net.publish(1)
    net.run(1.2)
    assert [event.source for event in net.told(2, SubscribeRefused)] == [3]
    # Who asks again is answered again.
    net.want(3)
    net.run(2.2)
    assert net.answers(3)[-1] == NOT_OUT


def test_it_is_answered_when_the_last_way_around_is_gone() -> None:
    net = guarded()
    net.join(4, 1)
    net.relays[2].set_policy(net.now, Secretive(1))
    net.run()
    net.want(3)
    net.run(3)
    assert net.answers(3) == [SERVED]
    net.cut(4, net.session(4, 1))
    net.run(10)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]


def test_a_control_server_answers_what_it_keeps_from_all_who_announced_it() -> None:
    net = RelayNet()
    servers = (11, 12)
    for number in (1, 3, 4):
        net.add(number)
    for number in servers:
        net.add(number, RelayType.CONTROL)
    net.dial_for_ever(1, 3, 4, *servers)
    net.dial_for_ever(3, 4, *servers)
    net.dial_for_ever(4, *servers)
    net.publish(1)
    net.run(3)
    for number in servers:
        net.relays[number].set_policy(net.now, Secretive(1))
    net.run()
    net.want(3)
    net.want(4)
    net.run(3)
    assert (net.answers(3), net.answers(4)) == ([NOT_OUT], [SERVED])
    assert net.clients[3].reasons[-1] == "not out of here"
    for number in servers:
        told = net.told(number, SubscribeRefused)
        assert [event.reason for event in told] == ["not out of here"]
    # Somebody else announces it, of whom nothing is kept; then only the first one has it again.
    net.publish(4)
    net.run(10)
    assert net.answers(3)[-1:] == [SERVED]
    for number in servers:
        net.relays[number].set_policy(net.now, OpenPolicy())
    net.unwant(3)
    net.unwant(4)
    net.run(60)
    assert [len(net.relays[number]._withheld) for number in servers] == [0, 0]


class NotAway(OpenPolicy):
    """Nodes that say that they are away are left out, at the filter of the name."""

    __slots__ = ("at",)

    def __init__(self, at: str) -> None:
        self.at = at

    def _judge(self, at: str, node: NodeSelf) -> Refusal | None:
        away = at == self.at and any(label.key == "away" for label in node.labels)
        return Refusal(at, "away") if away else None

    def peer(self, node: NodeSelf) -> Refusal | None:
        return self._judge("peer", node)

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return self._judge("import", peer)

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return self._judge("export", peer)

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        return self._judge("subscribe", source)


@pytest.mark.parametrize(
    ("at", "where", "who"), [("subscribe", 1, 3), ("import", 2, 3), ("export", 2, 1)]
)
def test_policy_goes_by_what_a_node_says_now(at: str, where: int, who: int) -> None:
    net = guarded()
    net.relays[where].set_policy(net.now, NotAway(at))
    net.want(3)
    net.run(2)
    assert net.answers(3)[-1] == SERVED
    net.relays[who].set_own_label(net.now, "away", "yes")
    net.run(5)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]
    net.relays[who].set_own_label(net.now, "away", "")
    net.run(5)
    assert net.answers(3)[-1] == SERVED


def test_a_peer_that_goes_where_peers_must_not_be_is_left() -> None:
    net = guarded()
    net.relays[2].set_policy(net.now, NotAway("peer"))
    net.run()
    net.told(2, PeerGone)
    net.relays[3].set_own_label(net.now, "away", "yes")
    net.run()
    assert [(gone.node, gone.code) for gone in net.told(2, PeerGone)] == [(3, CloseCode.POLICY)]


class NoTransit(OpenPolicy):
    """Nothing is reached through other relays."""

    __slots__ = ()

    def import_node(self, info: NodeInfo, peer: NodeSelf, nodes: NodeLookup) -> Refusal | None:
        return Refusal("transit", "no relay may be passed") if info.path else None


def test_a_relay_that_policy_cuts_off_asks_whether_it_is_still_served() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, VIA if number == 2 else RelayType.EDGE, dynamic_peering=False)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    net.publish(1)
    net.want(3)
    net.run()
    assert net.answers(3)[-1] == (Answer.ACCEPTED, SubscribeCode.ACCEPTED)
    identity = NodeId(3), key_of(TRACK)
    before = net.relays[3].subscribes.get(identity)
    net.relays[3].set_policy(net.now, NoTransit())
    # The publisher's relay has still a way to us, and serves us.
    net.run(20)
    assert net.answers(3) == []
    net.send(1, b"still there")
    net.run()
    assert net.got(3) == [[b"still there"]]
    after = net.relays[3].subscribes.get(identity)
    assert before is not None
    assert after is not None
    assert after.stamp > before.stamp
    net.relays[3].set_policy(net.now, OPEN_POLICY)
    net.run(20)
    assert net.answers(3) == []
    for number in (1, 3):
        net.relays[number].set_policy(net.now, NoTransit())
    net.run(20)
    assert net.answers(3)[-1][0] is Answer.ENDED
    for number in (1, 3):
        net.relays[number].set_policy(net.now, OPEN_POLICY)
    net.run(20)
    assert net.answers(3)[-1] == (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


def test_a_link_that_is_not_configured_any_more_carries_what_has_begun_to_its_end() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.dial_for_ever(1, 2, 3)
    net.dial_for_ever(2, 3)
    net.publish(1)
    net.run()
    net.want(2)
    net.run()
    relay, old = net.relays[1], net.session(1, 2)
    long = net.begin(1, b"begun, ")
    net.run(0.1)
    net.dial_for_ever(1, 3)
    net.run(0.5)
    assert {(row.session == old, row.retiring) for row in relay.sets()} == {
        (True, True),
        (False, False),
    }
    net.send(1, b"the new way")
    net.run(0.1)
    long.write(b"ended", fin=True)
    net.run(3)
    assert net.got(2) == [[b"the new way", b"begun, ended"]]
    assert {row.node for row in relay.peers()} == {NodeId(3)}
    assert [event.by_peer for event in net.told(1, PeerLeaving)] == [False]
    relay._part(net.now, old, 1.0)  # it is gone
    relay._part(net.now, net.session(1, 3), 1.0)
    net.run(3)
    assert net.told(1, PeerLeaving)[0].node == 3
