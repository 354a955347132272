"""What a relay does with what its peers send: paths, moves and drains in whole networks."""

from __future__ import annotations

import pytest

from laps_relay.network.events import NodeGone, RouteChanged, SubscribeGone
from laps_relay.network.relay import NetworkRelay
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.reports import PeerGone, PeerLeaving
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    Load,
    LoadClass,
    RelayType,
    SubscribeCode,
)
from testkit.relay_net import TRACK, RelayNet, key_of
from testkit.relay_shapes import chain, ring

VIA = RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


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
    net.subscribe(2)
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
    net.subscribe(3)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.send(1, b"object")
    net.run()
    assert net.got(1, 3) == [[], [b"object"]]
    assert net.relays[2].plane.counters().streams_out == 1
    net.unsubscribe(3)
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


def test_a_relay_that_is_back_is_dialled_as_soon_as_anybody_knows_it() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.join(1, 2)
    net.dial_for_ever(1, 3)
    net.run()
    net.crash(3)
    net.run(20)
    (contact,) = net.relays[1].tables.contacts()
    assert contact.due is not None
    net.run(contact.due - net.now + 0.1)  # that was in vain, so the next one is far away
    (contact,) = net.relays[1].tables.contacts()
    assert contact.due is not None
    assert contact.due - net.now > 2.0
    net.add(3)
    net.join(3, 2)
    net.run(1)
    assert net.way(1, 3) == (3,)


def test_a_link_that_breaks_takes_everything_that_was_learned_over_it() -> None:
    net = ring()
    net.publish(5)
    net.run()
    net.subscribe(2)
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
    net.unsubscribe(2)
    net.run(10)
    assert [net.relays[number].tables.sets() for number in net.relays] == [[]] * 5
    net.cut(4, net.session(4, 5))
    net.run(2)
    assert [(gone.node, gone.reason) for gone in net.told(2, NodeGone)] == [(5, "withdrawn")]
    assert [(gone.node, gone.reason) for gone in net.told(4, NodeGone)] == [(5, "session_closed")]
    net.run(120)
    assert net.at_rest([1, 2, 3, 4]) == []
    # Alone again: nothing of the others is left, own entries are.
    assert [row.node for row in net.relays[5].tables.nodes()] == [5]


def test_a_relay_that_restarts_is_another_one() -> None:
    net = chain()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.restart(1)
    net.join(1, 2)
    net.run(8)
    assert net.clients[3].known == []
    assert net.relays[2].tables.fib() == net.relays[3].tables.fib() == []
    assert net.answers(3)[0][0] is Answer.ENDED
    net.publish(1)
    net.run()
    assert net.answers(3) == [ACCEPTED]
    net.send(1, b"of its second life")
    net.run()
    assert net.got(3) == [[b"of its second life"]]
    epochs = {row.epoch for relay in net.relays.values() for row in relay.tables.announce_rows()}
    assert epochs == {4}


def test_two_edges_publish_the_same_track() -> None:
    net = chain()
    net.publish(1)
    net.publish(3)
    net.add(4)
    net.join(4, 2)
    net.run()
    net.subscribe(4)
    net.run()
    assert net.answers(4)[0] == ACCEPTED
    net.send(1, b"one context")
    net.send(3, b"another")
    net.run()
    assert sorted(net.got(4)[0]) == [b"another", b"one context"]
    # Both publish only: neither gets what the other does.
    assert net.got(1, 3) == [[], []]


# Comes and goes


def star() -> RelayNet:
    """Edges 1, 3 and 4 around Via 2: 1 publishes, and 3 subscribes."""
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, VIA if number == 2 else RelayType.EDGE)
    net.join(1, 2)
    net.join(2, 3)
    net.join(2, 4)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    return net


def test_who_joins_gets_a_track_from_the_next_stream_on() -> None:
    """Nobody between knows where an object ends; the pages say so, and what to do."""
    net = star()
    long = net.begin(1, b"first, ")
    net.run()
    net.subscribe(4)
    net.run()
    assert net.answers(4) == [ACCEPTED]
    long.write(b"second", fin=False)
    net.send(1, b"another stream")
    net.run()
    long.write(b", last", fin=True)
    net.run()
    assert net.got(3, 4) == [[b"another stream", b"first, second, last"], [b"another stream"]]


def test_a_stream_that_stays_open_is_to_go_on_for_who_joins() -> None:
    """Whoever writes is asked for a new stream, once it has been open for a while."""
    net = star()
    long = net.begin(1, b"first")
    net.run()
    renewed = net.clients[1].renewed
    net.subscribe(4)
    net.run()
    assert renewed == [key_of(TRACK)]
    long.write(b"", fin=True)
    net.send(1, b"second")
    net.run()
    assert net.got(3, 4) == [[b"first", b"second"], [b"second"]]


def test_who_comes_back_gets_the_rest_of_what_is_still_sent() -> None:
    """It is not withdrawn yet; but what nobody here wanted is given up, and may never end."""
    net = chain()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    net.begin(1, b"long")
    net.run()
    net.unsubscribe(3)
    net.run()
    assert net.clients[1].renewed == []
    net.subscribe(3)
    net.run()
    assert net.clients[1].renewed == [key_of(TRACK)]
    net.subscribe(3)
    net.run()
    assert len(net.clients[1].renewed) == 1


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
        net.subscribe(4, name)
    net.run(2)
    rows = net.relays[2].tables.peers()
    net.cut(2, next(row.session for row in rows if row.node == 3 and not row.control))
    net.run(40)  # it was dialled again
    assert len([row for row in net.relays[2].tables.peers() if row.node == 3]) == 4
    for name in names:
        net.subscribe(5, name)
    net.run(2)
    for name in names:
        net.send(1, b"object", name)
    net.run(2)
    counters = net.relays[2].plane.counters()
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
        net.subscribe(2, name)
    net.run()
    used = {row.session for row in net.relays[1].tables.sets()}
    assert len(used) == 4
    control = next(row.session for row in net.relays[1].tables.peers() if row.control)
    dying = max(used - {control})
    homes = {row.key: row.session for row in net.relays[1].tables.sets()}
    for name in names:
        net.send(1, b"first", name)
    net.run()
    net.cut_off.add(2)
    net.cut(1, dying)
    net.run()
    after = {row.key: row.session for row in net.relays[1].tables.sets()}
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
    net.subscribe(4)
    net.run()
    assert net.way(1, 4) == (2, 4)
    long = net.begin(1, b"begun, ")
    net.run(0.1)
    net.relays[2].drain(net.now, 30.0, "maintenance")
    net.run(0.5)
    assert net.way(1, 4) == (3, 4)
    sets = {row.session: row for row in net.relays[1].tables.sets()}
    old, new = net.session(1, 2), net.session(1, 3)
    assert (sets[old].retiring, sets[new].retiring) == (True, False)
    net.send(1, b"the new way")
    long.write(b"moved, ")
    net.run(0.1)
    assert net.got(4) == [[b"the new way"]]
    long.write(b"ended", fin=True)
    net.run(3)
    assert net.got(4) == [[b"begun, moved, ended"]]
    assert [row.session for row in net.relays[1].tables.sets()] == [new]
    assert net.relays[2].tables.sets() == []
    assert {event.node for event in net.told(1, PeerLeaving)} == {NodeId(2)}
    net.run(40)
    assert {row.node for row in net.relays[1].tables.peers()} == {NodeId(3)}


def test_a_stream_spans_the_coming_of_a_better_link() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
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
    assert [row.session for row in net.relays[1].tables.sets()] == [net.session(1, 3)]
    assert net.relays[2].tables.fib() == []


def test_data_that_is_faster_than_its_set_is_held() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.run()
    net.publish(1)
    net.subscribe(2)
    net.run(0.0)
    while not net.clients[1].feeds:
        net.run(0.001)
    # The set is made at the origin, and the control stream is slow.
    first = net.ends[2, net.session(2, 1)].other
    waiting = [item for item in net.in_flight if item[2] is first and item[3] == "control"]
    for item in waiting:
        net.in_flight.remove(item)
    net.send(1, b"early")
    net.run(0.1)
    assert net.got(2) == [[]]
    assert net.relays[2].plane.counters().held_bytes > 0
    for _, _, _, what, args in waiting:
        net.later(first, what, *args)
    net.run(0.1)
    assert net.got(2) == [[b"early"]]
    assert net.relays[2].plane.counters().held_bytes == 0


# Churn and policy


def test_an_unsubscribe_waits_and_is_cancelled_by_a_new_want() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run()
    net.unsubscribe(3)
    net.run(4)
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]
    net.subscribe(3)
    net.run(10)
    net.send(1, b"still there")
    net.run()
    assert net.got(3) == [[b"still there"]]
    assert net.clients[1].released == []
    net.unsubscribe(3)
    net.run(4.5)
    assert net.clients[1].released == []
    net.run(1)
    assert net.clients[1].released == [key_of(TRACK)]
    # Only who unsubscribes knows that it waited.
    assert [event.delayed for event in net.told(3, SubscribeGone)] == [True]
    assert [event.delayed for event in net.told(1, SubscribeGone)] == [False]
    assert net.relays[1].tables.subscribe_rows() == []


def test_a_publisher_ends_a_track_and_comes_back() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run()
    stream = net.begin(1, b"the last ")
    net.run(0.1)
    net.relays[1].publisher_ended(net.now, key_of(TRACK), "it is over")
    net.clients[1].feeds.clear()
    net.run(0.5)
    assert net.answers(3)[1:] == [ACCEPTED, (Answer.ENDED, SubscribeCode.ENDED)]
    stream.write(b"words", fin=True)
    net.run(3)
    assert net.got(3) == [[b"the last words"]]
    for number in (1, 2, 3):
        assert (net.relays[number].tables.sets(), net.relays[number].tables.fib()) == ([], [])
    net.subscribe(3)
    net.run()
    net.send(1, b"more")
    net.run()
    assert net.got(3) == [[b"more"]]


# What is told


def test_a_way_that_only_costs_more_is_no_news() -> None:
    net = chain()
    assert [event.node for event in net.told(1, RouteChanged)] == [2, 3]
    for _ in range(4):
        net.relays[2].measured(net.now, net.session(2, 3), 80_000)
        net.run(2)
    assert net.relays[1].tables.nodes()[2].cost_us > 50_000
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


def test_a_link_that_is_not_configured_any_more_carries_what_has_begun_to_its_end() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.dial_for_ever(1, 2, 3)
    net.dial_for_ever(2, 3)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    relay, old = net.relays[1], net.session(1, 2)
    long = net.begin(1, b"begun, ")
    net.run(0.1)
    net.dial_for_ever(1, 3)
    net.run(0.5)
    assert {(row.session == old, row.retiring) for row in relay.tables.sets()} == {
        (True, True),
        (False, False),
    }
    net.send(1, b"the new way")
    net.run(0.1)
    long.write(b"ended", fin=True)
    net.run(3)
    assert net.got(2) == [[b"the new way", b"begun, ended"]]
    assert {row.node for row in relay.tables.peers()} == {NodeId(3)}
    assert [event.by_peer for event in net.told(1, PeerLeaving)] == [False]
    relay.demand.part(net.now, old, 1.0)  # it is gone
    relay.demand.part(net.now, net.session(1, 3), 1.0)
    net.run(3)
    assert net.told(1, PeerLeaving)[0].node == 3
