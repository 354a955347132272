"""What follows from what peers say: ways, moves, drains, dials, in whole networks."""

from __future__ import annotations

import pytest

from laps_relay.core.network.dialling import Contact
from laps_relay.core.network.events import NodeGone, PeerGone, PeerLeaving, RouteChanged
from laps_relay.core.network.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, RelayType, SubscribeCode
from testkit.relay_net import TRACK, RelayNet

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
    assert [event.node for event in net.told(2, NodeGone)] == [5]
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


# Moves


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
