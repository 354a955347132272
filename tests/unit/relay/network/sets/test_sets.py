"""Subscriber node sets in small networks, by hand."""

from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.forwarding import EgressSet, Ingress, SetIdle
from laps_sdk.timers import first_of
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import SnsRefusal
from laps_wire.peering.session import SnsAdvertised, SnsRefusedByPeer, SnsWithdrawn
from testkit.set_world import SetWorld, feed

KEY = 0x7AC5
LINE = [(1, 2), (2, 3)]
"""1 -- 2 -- 3"""
DIAMOND = [(1, 2), (1, 3), (2, 4), (3, 4)]
"""From 1 to 4 by 2 or by 3; sessions 1 and 2 begin at 1, sessions 3 and 4 end at 4."""


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


def want(net: SetWorld, *targets: int, relay: int = 1, number: int = 1, scope: str = "") -> None:
    net[relay].sets.set_feed(net.now, feed(number), KEY, ids(*targets), scope)
    net.check()


def begin(net: SetWorld, *names: str, relay: int = 1, number: int = 1) -> None:
    for name in names:
        net[relay].plane.begin(feed(number), name)


def got(net: SetWorld, name: str) -> list[int]:
    return sorted(int(node) for (node, each), count in net.delivered.items() if each == name)


def move(net: SetWorld, relay: int, target: int, hop: int) -> None:
    """Another next hop at one relay."""
    net[relay].hop[NodeId(target)] = NodeId(hop)
    net[relay].sets.reroute(net.now, [NodeId(target)])
    net.check()


def advertise(
    net: SetWorld, session: int, sns_id: int, *targets: int, hops: int = 0, scope: str = ""
) -> None:
    """A peer of relay 2 makes or changes a set, without sets of its own."""
    net[2].got.setdefault(session, {})[sns_id] = (ids(*targets), hops, scope)
    net[2].sets.advertised(
        net.now,
        session,
        SnsAdvertised(
            sns_id=sns_id,
            version=1,
            hops=hops,
            targets=ids(*targets),
            added=(),
            removed=(),
            scope=scope,
        ),
    )


def refusals(net: SetWorld, relay: int, session: int) -> list[tuple[object, ...]]:
    """What a relay has refused on a session, and not delivered yet."""
    queue = net.control.get((NodeId(relay), session), ())
    return [message[1:] for message in queue if message[0] == "refuse"]


# In place


def test_along_a_line() -> None:
    net = SetWorld(3, LINE)
    want(net, 2, 3, scope="gold")
    net.drain()
    net.check()
    assert net[2].got[1] == {1: (ids(2, 3), 0, "gold")}
    assert net[3].got[2] == {1: (ids(3), 1, "gold")}
    begin(net, "s")
    net.drain()
    assert got(net, "s") == [2, 3]
    (row,) = net[2].sets.rows()
    assert net[2].sets.incoming == 1
    assert (row.local, row.hops, row.scope, row.key) == (True, 1, "gold", None)
    assert [net[number].sets.uses(1) for number in (1, 2, 3)] == [1, 1, 0]
    assert net[2].sets.uses(2) == 1
    assert [net[number].sets.in_transit for number in (1, 2, 3)] == [False, True, False]


def test_targets_come_and_go_in_place() -> None:
    net = SetWorld(3, LINE)
    want(net, 3)
    net.drain()
    begin(net, "s")
    net.drain()
    want(net, 2, 3)
    net.drain()
    assert net[2].got[1] == {1: (ids(2, 3), 0, "")}
    want(net, 2)
    net.drain()
    assert net[2].plane.cuts == [(EgressSet(2, 1), StreamCode.NO_SUBSCRIBERS)]
    assert net[1].sets.counters.moved == 0
    assert net[3].sets.rows() == []
    want(net)
    net.drain()
    assert net[1].plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]
    assert [row.targets for row in net[1].sets.rows()] == [()]
    net[1].sets.drop_feed(net.now, feed(1))
    assert net.is_empty()


def test_our_own_clients_are_a_target_too() -> None:
    net = SetWorld(3, LINE)
    want(net, 1)
    assert net[1].plane.entries == {feed(1): ((), True)}
    want(net, 1, 2)
    assert net[1].plane.entries == {feed(1): ((EgressSet(1, 1),), True)}
    want(net, 2)
    assert net[1].plane.entries == {feed(1): ((EgressSet(1, 1),), False)}


def test_data_that_came_before_its_set() -> None:
    net = SetWorld(3, LINE)
    want(net, 2, 3)
    begin(net, "early")
    net.arrive(net.in_flight()[0])
    assert got(net, "early") == []
    net.drain()
    assert got(net, "early") == [2, 3]


def test_a_set_without_targets() -> None:
    net = SetWorld(3, LINE)
    advertise(net, 1, 1)
    assert net[2].plane.entries == {Ingress(1, 1): ((), False)}


# Moves


def test_a_move_is_made_before_it_breaks() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, 4)
    net.drain()
    begin(net, "old")
    move(net, 1, 4, 3)
    assert net[1].sent == {1: {1: ids(2, 4), 2: ids(2)}, 2: {1: ids(4)}}
    assert net[1].plane.entries[feed(1)] == ((EgressSet(1, 2), EgressSet(2, 1)), False)
    begin(net, "new")
    net.drain()
    assert got(net, "old") == got(net, "new") == [2, 4]
    net.finished |= {"old"}
    net.drain()
    assert net[1].sent == {1: {2: ids(2)}, 2: {1: ids(4)}}
    assert net[2].got[1] == {2: (ids(2), 0, "")}
    assert net[1].sets.counters.moved == 1
    assert not net.truncated


@pytest.mark.parametrize("number", range(1, 9))
def test_targets_behind_one_peer_are_in_one_set_whatever_sessions_lead_there(number: int) -> None:
    """Otherwise the data would cross the link twice."""
    net = SetWorld(5, [(1, 2), (2, 3), (3, 4), (3, 5)])
    sets = net[1].sets
    for each in range(1, number + 1):  # sets are spread by their numbers
        sets.set_feed(net.now, feed(each), each, frozenset({NodeId(4)}), "")
    net.drain()
    net.links[9] = (NodeId(2), NodeId(3))
    sets.set_feed(net.now, feed(number), number, frozenset({NodeId(4), NodeId(5)}), "")
    net.drain()
    net.check()
    assert net.reached(NodeId(1), feed(number)) == {NodeId(4): 1, NodeId(5): 1}


def test_figures_do_not_move_anything() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, 3, 4)
    net.drain()
    made = net[1].sets.counters.made
    net[1].sets.reroute(net.now, [NodeId(4), NodeId(99)])
    net[1].sets.reroute(net.now)
    assert not net.control
    assert net[1].sets.counters.made == made


def test_only_what_is_affected_is_looked_at() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, number=1)
    want(net, 3, number=2)
    before = net[1].assigned
    net[1].sets.reroute(net.now, [NodeId(4)])
    assert net[1].assigned == before
    net[1].sets.reroute(net.now, [NodeId(3)])
    assert net[1].assigned == before + 1


def test_who_does_not_go_the_best_way() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, 4)
    net.drain()
    at = {NodeId(4): NodeId(4), NodeId(2): NodeId(1)}.get
    assert net[2].sets.off_best_path([NodeId(2), NodeId(3), NodeId(4)], at) == []
    assert net[2].sets.off_best_path([NodeId(4)], lambda _: NodeId(1)) == [NodeId(4)]
    assert net[1].sets.off_best_path([NodeId(4)], lambda _: NodeId(3)) == [], "a feed is steered"


def test_a_target_that_comes_back_elsewhere_gets_nothing_twice() -> None:
    """It went and came, and both changes are slower than a stream that began before them."""
    net = SetWorld(4, DIAMOND)
    want(net, 2, 3, 4)
    net.drain()
    begin(net, "s")
    to_two, to_three = net.in_flight()
    want(net, 2, 3)
    net[1].hop[NodeId(4)] = NodeId(3)
    want(net, 2, 3, 4)
    net.arrive(to_two)
    net.arrive(net.in_flight()[-1])
    while net.control:
        net.deliver(*next(iter(net.control)))
    net.arrive(to_three)
    net.drain()
    net.check()
    assert net.delivered[NodeId(4), "s"] == 1


def detoured() -> SetWorld:
    """1 had 4 by 2 and 5, and has it by 3; 2 and 5 have it by 1 now. A stream is on its way to 2.

    ::

        1 -- 2 -- 5 -- 4 -- 3 -- 1
    """
    net = SetWorld(5, [(1, 2), (1, 3), (2, 5), (3, 4), (4, 5)])
    net[1].hop[NodeId(4)] = NodeId(2)
    want(net, 4)
    net.drain()
    begin(net, "s")
    move(net, 1, 4, 3)
    net[5].hop[NodeId(4)] = NodeId(2)
    move(net, 2, 4, 1)
    return net


def test_a_target_keeps_its_place_until_its_sender_has_moved_it() -> None:
    """2 reaches 4 through 1 only, but a stream of 1 is still on its way to 2."""
    net = detoured()
    begin(net, "t")
    net.drain()
    assert got(net, "s") == got(net, "t") == [4]
    assert refusals(net, 2, 1) == []
    # It is told, and served as long as the sender has it in the set: streams may come late.
    net.advance(0.1)
    assert net[2].sets.counters.refused == 1
    assert [len(row.egress) for row in net[2].sets.rows()] == [1]
    assert net[2].plane.entries[Ingress(1, 1)] == ((EgressSet(3, 1),), False)
    net.advance(60.0)
    assert net[2].plane.entries[Ingress(1, 1)] == ((EgressSet(3, 1),), False)
    net.finished |= {"s", "t"}
    net.advance(0.1)
    assert net[2].sets.rows() == []
    assert net[2].sets.living == 0


def test_a_policy_takes_places_that_were_kept_only_if_it_forbids_their_ways() -> None:
    """2 sends to 4 by 5, although 5 does not say so any more."""
    net = detoured()
    net.advance(0.1)
    kept = ((EgressSet(3, 1),), False)
    net[2].sets.reroute(net.now, cut=True)
    assert net[2].plane.entries[Ingress(1, 1)] == kept
    net[2].forbidden.add((NodeId(1), NodeId(4)))
    net[2].sets.reroute(net.now, cut=True)
    assert net[2].plane.entries[Ingress(1, 1)] == kept
    net[2].forbidden.add((NodeId(5), NodeId(4)))
    net[2].sets.reroute(net.now, cut=True)
    assert net[2].plane.entries[Ingress(1, 1)] == ((), False)
    assert net[2].sets.living == 0
    assert net[2].sets.counters.refused == 1  # it knows


def test_another_class_makes_everything_anew() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 3, 4, scope="gold")
    net.drain()
    want(net, 3, 4, scope="silver")
    net.drain()
    assert net[2].got[1] == {2: (ids(4), 0, "silver")}
    assert net[4].got[3] == {2: (ids(4), 1, "silver")}
    # The same for a set of a peer that is described anew.
    advertise(net, 1, 2, 4, hops=5, scope="silver")
    assert net[2].sent[3] == {2: ids(4), 3: ids(4)}
    net.drain()
    assert net[4].got[3] == {3: (ids(4), 6, "silver")}


def test_with_a_cut_streams_under_way_end() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 4)
    begin(net, "s")
    net.drain()
    net[1].hop[NodeId(4)] = NodeId(3)
    net[1].forbidden.add((NodeId(2), NodeId(4)))
    net[1].sets.reroute(net.now, cut=True)
    assert net[1].plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]
    assert net[1].sent == {1: {}, 2: {1: ids(4)}}
    assert net.truncated == {(NodeId(4), "s")}


def test_what_waits_behind_peers_ends_with_the_set_that_is_cut() -> None:
    """A policy gives data a class that its sets, made before, do not name: only 1 knows of it."""
    net = SetWorld(4, [(1, 2), (2, 3), (3, 4)])
    want(net, 4)
    net.drain()
    begin(net, "at 3", "at 2")
    for name, hops in (("at 3", 2), ("at 2", 1)):
        for _ in range(hops):
            (stream,) = (each for each in net.in_flight() if each.name == name)
            net.arrive(stream)
    net.finished |= {"at 3", "at 2"}  # 1 has nothing to reset
    assert [(int(each.relay), each.name) for each in net.in_flight()] == [(2, "at 2"), (3, "at 3")]
    net[1].policy.add(NodeId(4))
    net[1].sets.reroute(net.now, cut=True)
    net.drain()
    code = StreamCode.NO_SUBSCRIBERS
    assert net[2].plane.cuts == [(EgressSet(2, 1), code)]
    assert net[3].plane.cuts == [(EgressSet(3, 1), code)]
    assert net.delivered == {}


def test_a_policy_holds_for_streams_whose_feed_has_ended() -> None:
    net = SetWorld(5, [*DIAMOND, (2, 5)])
    want(net, 4, 5)
    net.drain()
    begin(net, "s")
    net.drain()
    net[1].sets.drop_feed(net.now, feed(1))
    net[1].sets.reroute(net.now, cut=True)
    assert (net[1].plane.cuts, net[1].sent) == ([], {1: {1: ids(4, 5)}})
    net[1].forbidden.add((NodeId(2), NodeId(4)))
    net[1].sets.reroute(net.now)  # ways have changed, and no policy
    assert net[1].sent == {1: {1: ids(4, 5)}}
    net[1].sets.reroute(net.now, cut=True)
    assert (net[1].plane.cuts, net[1].sent) == ([], {1: {1: ids(5)}})
    net.drain()
    assert net.truncated == {(NodeId(4), "s")}
    net[1].forbidden.add((NodeId(2), NodeId(5)))
    net[1].sets.reroute(net.now, cut=True)
    assert net[1].plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]
    net.drain()
    assert net.truncated == {(NodeId(4), "s"), (NodeId(5), "s")}
    assert net.is_empty()


def test_a_policy_holds_for_streams_whose_set_was_withdrawn() -> None:
    """4 gets the rest by another way; what 2 has of the old one waits there."""
    net = SetWorld(4, DIAMOND)
    want(net, 4)
    net.drain()
    begin(net, "s")
    net.arrive(net.in_flight()[0])
    net.finished.add("s")
    move(net, 1, 4, 3)
    net.idle()
    while net.control:
        net.deliver(*next(iter(net.control)))
    assert (net[2].sets.incoming, net[2].sets.living) == (0, 1)
    net[2].forbidden.add((NodeId(4), NodeId(4)))
    net[2].sets.reroute(net.now, cut=True)
    assert net[2].plane.cuts == [(EgressSet(3, 1), StreamCode.NO_SUBSCRIBERS)]
    net.drain()
    assert got(net, "s") == []


def test_what_policy_still_allows_is_not_cut() -> None:
    """Another class, or a way that is only better now: streams under way end where they began."""
    net = SetWorld(5, [*DIAMOND, (2, 5), (3, 5)])
    want(net, 4, 5)
    begin(net, "s")
    net.drain()
    net[1].hop.update({NodeId(4): NodeId(3), NodeId(5): NodeId(3)})
    net[1].forbidden.add((NodeId(2), NodeId(5)))
    net[1].sets.reroute(net.now, cut=True)
    assert net[1].plane.cuts == []
    assert net[1].sent == {1: {1: ids(4)}, 2: {1: ids(4, 5)}}
    net.drain()
    assert net.truncated == {(NodeId(5), "s")}
    # It is retired by now; another policy may still end it.
    net[1].sets.reroute(net.now, cut=True)
    assert net[1].plane.cuts == []
    net[1].forbidden.add((NodeId(2), NodeId(4)))
    net[1].sets.reroute(net.now, cut=True)
    assert net[1].plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]


# Ends


def test_a_feed_that_ends_lets_its_streams_end() -> None:
    net = SetWorld(3, LINE)
    want(net, 2, 3)
    begin(net, "s")
    net.drain()
    net[1].sets.drop_feed(net.now, feed(1))
    net[1].sets.drop_feed(net.now, feed(1))
    net.drain()
    assert net[1].sent == {1: {1: ids(2, 3)}}
    assert [net[number].sets.living for number in (1, 2, 3)] == [1, 1, 0]
    # Nothing that still comes in about it does anything.
    refused = SnsRefusedByPeer(sns_id=1, version=1, code=SnsRefusal.POLICY, targets=())
    net[1].sets.refused(net.now, 1, refused)
    net[1].sets.reroute(net.now)
    net.finished.add("s")
    net.drain()
    assert net.is_empty()


def test_a_move_and_then_the_end() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 4)
    net.drain()
    begin(net, "s")
    move(net, 1, 4, 3)
    net[1].sets.drop_feed(net.now, feed(1))
    net.drain()
    assert got(net, "s") == [4]
    net.finished.add("s")
    net.drain()
    assert net.is_empty()


def test_idle_is_about_retired_sets() -> None:
    net = SetWorld(3, LINE)
    want(net, 2)
    net[1].sets.idle(net.now, SetIdle(EgressSet(1, 1)))
    net[1].sets.idle(net.now, SetIdle(EgressSet(1, 77)))
    assert net[1].sent == {1: {1: ids(2)}}


def test_what_ends_that_was_not_there() -> None:
    net = SetWorld(3, LINE)
    net[2].sets.withdrawn(net.now, 1, SnsWithdrawn(sns_id=3, targets=()))
    net[2].sets.session_gone(net.now, 5)
    net[2].sets.handle_timeout(net.now)
    assert net.is_empty()


# Sessions that end


def test_targets_of_a_dead_session_get_another_one() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, 3, 4)
    net.drain()
    begin(net, "lost")
    assert net[1].sent == {1: {1: ids(2, 4)}, 2: {1: ids(3)}}
    net.kill(1)
    # A new set at 3: the first stream from now on must reach 4. There was nothing to make at 2.
    assert net[1].sent == {2: {1: ids(3), 2: ids(3, 4)}}
    begin(net, "next")
    net.drain()
    assert got(net, "next") == [3, 4]
    assert net[2].sets.rows() == []
    net.check()


def test_a_relay_in_between_leaves_the_search_to_the_o_relay() -> None:
    """2 loses 4, and could go by 5, for all that it knows: it says so to 1, and makes no set."""
    net = SetWorld(5, [*DIAMOND, (2, 5), (5, 4)])
    want(net, 4)
    net.drain()
    made = net[2].sets.counters.made
    net.kill(3)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.NOT_ADVERTISED, (NodeId(4),))]
    net.drain()
    assert net[2].sets.counters.made == made
    assert net[5].sets.rows() == []
    assert net[1].sent[2] == {1: ids(4)}
    assert net.reached(NodeId(1), feed(1)) == {NodeId(4): 1}


def test_a_dead_session_takes_retired_sets_and_orphans_along() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 4, number=1)
    want(net, 2, number=2)
    net.drain()
    begin(net, "s", number=1)
    begin(net, "t", number=2)
    move(net, 1, 4, 3)
    net[1].sets.drop_feed(net.now, feed(2))
    assert net[1].sets.living == 3
    net.kill(1)
    assert net[1].sets.living == 1
    net.check()
    assert net[2].sets.living == 0 or net[2].plane.retired


def test_without_a_way_a_feed_waits_for_a_route() -> None:
    net = SetWorld(3, LINE)
    want(net, 2, 3)
    net.drain()
    net.kill(1)
    (row,) = net[1].sets.rows()
    assert row.unserved == ((NodeId(2), "no way to 0.0:0.2"), (NodeId(3), "no way to 0.0:0.3"))
    assert net[1].sets.poll_timeout() is None
    # Who wants it is told so by the relay.
    assert [item.reason for item in net[1].routing_reports[KEY].values()] == [
        "no way to 0.0:0.2",
        "no way to 0.0:0.3",
    ]
    net.links[9] = (NodeId(1), NodeId(2))
    net[1].sets.reroute(net.now, [NodeId(2), NodeId(3)])
    net.drain()
    assert net.reached(NodeId(1), feed(1)) == {NodeId(2): 1, NodeId(3): 1}
    assert net[1].routing_reports == {KEY: {}}


def test_a_target_that_is_kept_and_told_when_its_session_dies() -> None:
    net = detoured()
    net.advance(0.1)
    net.kill(3)
    net.check()
    net.advance(2.0)
    assert net[2].plane.entries[Ingress(1, 1)] == ((), False)
    want(net)
    net[1].sets.drop_feed(net.now, feed(1))
    net.finished.add("s")
    net.drain()
    assert net.is_empty()


# Refusals of ours


def test_a_deep_set_is_delivered_but_not_forwarded() -> None:
    net = SetWorld(3, LINE)
    advertise(net, 1, 1, 2, 3, hops=16)
    assert net[2].plane.entries == {Ingress(1, 1): ((), True)}
    assert refusals(net, 2, 1) == [(1, SnsRefusal.TOO_MANY_HOPS, (NodeId(3),))]


def test_targets_that_we_did_not_advertise() -> None:
    net = SetWorld(3, LINE)
    net[2].denied.add(NodeId(3))
    advertise(net, 1, 1, 2, 3)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.NOT_ADVERTISED, (NodeId(3),))]
    # It is told once, and stays refused as long as the sender leaves it in the set ...
    net[2].denied.clear()
    net[2].sets.reroute(net.now)
    advertise(net, 1, 1, 2, 3)
    assert net[2].plane.entries == {Ingress(1, 1): ((), True)}
    # ... because it has found another way for it. When it comes again, it is served.
    advertise(net, 1, 1, 2)
    advertise(net, 1, 1, 2, 3)
    assert net[2].plane.entries == {Ingress(1, 1): ((EgressSet(2, 1),), True)}
    assert len(refusals(net, 2, 1)) == 1
    assert net[2].sets.counters.refused == 1


def test_nothing_goes_back_to_where_it_came_from() -> None:
    net = SetWorld(3, LINE)
    advertise(net, 1, 1, 1)
    assert net[2].plane.entries == {Ingress(1, 1): ((), False)}
    assert refusals(net, 2, 1) == []
    assert net[2].sets.poll_timeout() == pytest.approx(net.now + 0.04)
    assert first_of(net[2].sets.clocks) == net[2].sets.poll_timeout()
    net.now += 0.05
    net[2].sets.handle_timeout(net.now)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.NOT_ADVERTISED, (NodeId(1),))]
    assert net[2].sets.poll_timeout() is None


def test_a_route_that_is_back_soon_is_not_refused() -> None:
    net = SetWorld(3, LINE)
    session = net.links.pop(2)
    advertise(net, 1, 1, 3)
    net.now += 0.03
    net.links[2] = session
    net[2].sets.reroute(net.now, [NodeId(3)])
    assert net[2].sets.poll_timeout() is None
    assert net[2].sent == {2: {1: ids(3)}}


def test_a_route_that_is_back_soon_is_not_refused_for_policy() -> None:
    """Its session is replaced, as after a restart: for a moment only forbidden ways are left."""
    net = SetWorld(3, LINE)
    advertise(net, 1, 1, 3)
    net[2].policy.add(NodeId(3))
    session = net.links[2]
    net.kill(2)
    assert refusals(net, 2, 1) == []
    net[2].policy.clear()
    net.links[4] = session
    net.now += 0.03
    net[2].sets.reroute(net.now, [NodeId(3)])
    assert net[2].sets.poll_timeout() is None
    assert net[2].sent[4] == {1: ids(3)}
    # If it stays away, that is told.
    net[2].policy.add(NodeId(3))
    net.kill(4)
    net.now += 0.05
    net[2].sets.handle_timeout(net.now)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.POLICY, (NodeId(3),))]


def test_policy_is_told_at_once() -> None:
    net = SetWorld(3, LINE)
    net[2].policy.add(NodeId(3))
    advertise(net, 1, 1, 3)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.POLICY, (NodeId(3),))]


def test_a_refusal_on_a_session_that_is_about_to_end() -> None:
    net = SetWorld(3, LINE)
    net[2].policy.add(NodeId(3))
    advertise(net, 1, 1, 2)
    del net[2].got[1]
    added = SnsAdvertised(
        sns_id=1, version=2, hops=0, targets=ids(2, 3), added=(NodeId(3),), removed=()
    )
    net[2].sets.advertised(net.now, 1, added)
    assert not net.control
    assert net[2].sets.counters.refused == 1


# Refusals of peers


def test_another_way_for_what_a_peer_refuses() -> None:
    net = SetWorld(4, DIAMOND)
    net[2].denied.add(NodeId(4))
    want(net, 2, 4)
    begin(net, "s")
    net.drain()
    net.check()
    assert net[1].sets.counters.refused_by_peers == 1
    assert net.reached(NodeId(1), feed(1)) == {NodeId(2): 1, NodeId(4): 1}
    begin(net, "t")
    net.drain()
    assert (got(net, "s"), got(net, "t")) == ([2], [2, 4])
    # It does not go back because of figures, but when the peer serves it and is tried again.
    net[1].sets.reroute(net.now, [NodeId(4)])
    assert net[1].sent[2] != {}
    net[2].denied.clear()
    net.finished |= {"s", "t"}
    net.advance(0.5)
    assert net[1].sent == {1: {3: ids(2, 4)}, 2: {}}


def test_a_whole_set_is_refused() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 2, 4)
    net.drain()
    refused = SnsRefusedByPeer(sns_id=1, version=1, code=SnsRefusal.TOO_MANY_SETS, targets=())
    net[1].sets.refused(net.now, 1, refused)
    assert net[1].plane.entries[feed(1)] == ((EgressSet(2, 1),), False)
    assert net[1].sent[2] == {1: ids(4)}
    assert net[1].sets.rows()[0].unserved == ((NodeId(2), "refused by 0.0:0.2"),)
    assert net[1].sets.counters.refused_by_peers == 2


def test_a_set_that_came_too_late_is_not_refused() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 4)
    late = SnsRefusedByPeer(sns_id=1, version=0, code=SnsRefusal.UNKNOWN_SET, targets=())
    net[1].sets.refused(net.now, 1, late)
    assert net[1].sets.counters.unknown_by_peers == 1
    assert net[1].sent == {1: {1: ids(4)}}


def test_refusals_of_retired_and_unknown_sets_change_nothing() -> None:
    net = SetWorld(4, DIAMOND)
    want(net, 4)
    net.drain()
    begin(net, "s")
    move(net, 1, 4, 3)
    for sns_id in (1, 9):
        refused = SnsRefusedByPeer(
            sns_id=sns_id, version=1, code=SnsRefusal.POLICY, targets=(NodeId(4), NodeId(77))
        )
        net[1].sets.refused(net.now, 1, refused)
    net.check()
    assert net[1].sent == {1: {1: ids(4)}, 2: {1: ids(4)}}
    net.drain()
    assert got(net, "s") == [4]


def test_a_via_passes_a_refusal_on() -> None:
    net = SetWorld(3, LINE)
    net[3].denied.add(NodeId(3))
    net[2].sets.reroute(net.now)
    want(net, 3)
    net.drain()
    # 3 delivers to itself, whatever it advertises: so let it refuse the set as a whole.
    refused = SnsRefusedByPeer(sns_id=1, version=1, code=SnsRefusal.POLICY, targets=())
    net[2].sets.refused(net.now, 2, refused)
    assert refusals(net, 2, 1) == [(1, SnsRefusal.POLICY, (NodeId(3),))]
    net.drain()
    (row,) = net[1].sets.rows()
    assert row.unserved == ((NodeId(3), "refused by 0.0:0.2"),)
    # Policies change: whoever knows that has everything looked at again.
    net[1].sets.reroute(net.now)
    net.drain()
    assert net.reached(NodeId(1), feed(1)) == {NodeId(3): 1}


# Caps


def test_a_peer_that_takes_no_more_sets() -> None:
    net = SetWorld(4, DIAMOND)
    net[1].max_sets[1] = 1
    want(net, 4, number=1)
    want(net, 4, number=2)
    assert net[1].sent == {1: {1: ids(4)}, 2: {1: ids(4)}}
    assert net[1].not_taken == [(1, ids(4))]
    net[1].max_sets[2] = 1
    want(net, 4, number=3)
    net.check()
    rows = {row.ingress: row for row in net[1].sets.rows()}
    assert rows[feed(3)].unserved == ((NodeId(4), "refused by 0.0:0.2, 0.0:0.3"),)
    # There is room again. After a while the second feed takes it, and then the third its place.
    want(net, number=1)
    net.advance(31.0)
    net.advance(31.0)
    assert net.reached(NodeId(1), feed(3)) == {NodeId(4): 1}


def test_a_peer_that_takes_no_larger_sets() -> None:
    net = SetWorld(4, DIAMOND)
    net[1].max_targets[1] = 1
    want(net, 2)
    want(net, 2, 4)
    net.drain()
    net.check()
    assert net.reached(NodeId(1), feed(1)) == {NodeId(2): 1, NodeId(4): 1}
    assert net[1].sent == {1: {1: ids(2)}, 2: {1: ids(4)}}
    assert net[1].not_taken == [(1, ids(2, 4))]


def test_a_feed_that_is_no_track() -> None:
    """The answer to a FETCH: the best way, and nobody is told what became of it."""
    net = SetWorld(3, LINE)
    assert not net[1].sets.is_routed(feed(1))
    net[1].sets.set_feed(net.now, feed(1), None, ids(3), "")
    assert net[1].sets.is_routed(feed(1))
    net[1].sets.set_feed(net.now, feed(2), None, ids(9), "")
    assert not net[1].sets.is_routed(feed(2))


# Streams that go on anew


def test_open_streams_are_outdated_when_somebody_comes_or_moves() -> None:
    net = SetWorld(4, DIAMOND)
    plane = net[1].plane
    want(net, 4)
    assert plane.outdated == [feed(1)]
    want(net, 4)
    assert len(plane.outdated) == 1
    want(net, 4, 2)
    assert len(plane.outdated) == 2
    want(net, 4)
    assert len(plane.outdated) == 2  # who leaves lacks nothing
    move(net, 1, 4, 3 if net[1].hop[NodeId(4)] == NodeId(2) else 2)
    assert len(plane.outdated) == 3


def test_the_plane_hears_who_came_in_place() -> None:
    """What begins a moment later may overtake the news of it; a new set it has to wait for."""
    net = SetWorld(3, [(1, 2), (1, 3)])
    plane = net[1].plane
    want(net, 2)
    assert (len(plane.outdated), plane.in_place) == (1, False)
    want(net, 2, 3)
    assert (len(plane.outdated), plane.in_place) == (2, False)
    net = SetWorld(3, LINE)
    plane = net[1].plane
    want(net, 3)
    assert (len(plane.outdated), plane.in_place) == (1, False)
    want(net, 2, 3)
    assert (len(plane.outdated), plane.in_place) == (2, True)


def test_who_came_in_place_gets_the_rest_with_a_new_set() -> None:
    """A change of a set may come behind a stream, and there may be no other one."""
    net = SetWorld(3, LINE)
    want(net, 3)
    ((before,), _) = net[1].plane.entries[feed(1)]
    assert net[1].sets.renew(net.now, feed(1)) == KEY
    assert net[1].plane.entries[feed(1)][0] == (before,)  # nobody has come in place
    want(net, 2, 3)
    assert net[1].plane.entries[feed(1)][0] == (before,)
    assert net[1].sets.renew(net.now, feed(1)) == KEY
    ((after,), _) = net[1].plane.entries[feed(1)]
    assert after != before
    assert before in net[1].plane.retired
    assert net[1].sets.renew(net.now, feed(1)) == KEY
    assert net[1].plane.entries[feed(1)][0] == (after,)
    assert net[1].sets.renew(net.now, feed(7)) is None


def test_a_relay_in_between_asks_for_new_streams() -> None:
    """It moved a target, and streams that are open do not follow."""
    net = SetWorld(5, [(1, 2), (2, 3), (2, 4), (3, 5), (4, 5)])
    want(net, 5)
    net.drain()
    outdated = net[1].plane.outdated
    outdated.clear()
    hop = int(net[2].hop[NodeId(5)])
    move(net, 2, 5, 7 - hop)
    net.drain()
    assert outdated == []  # nothing is open
    begin(net, "long")
    net.drain()
    move(net, 2, 5, hop)
    net.drain()
    assert outdated == [feed(1)]
    moves = [(SnsRefusal.MOVED, frozenset(ids(5)))]
    assert net[2].refusals == moves  # asked once, and not while nothing was open
    # A relay in between passes it on, for a set that lives.
    (item,) = net[2].sets.rows()[0].egress[:1]
    moved = SnsRefusedByPeer(
        sns_id=item.egress.sns_id, version=1, code=SnsRefusal.MOVED, targets=tuple(ids(5))
    )
    net[2].sets.refused(net.now, item.egress.session, moved)
    net.drain()
    assert len(outdated) == 2
    assert net[2].sets.counters.refused_by_peers == 0
    # So does one that has lost a stream to somebody.
    (ingress,) = net[2].plane.entries
    assert net[2].sets.renew(net.now, ingress) is None
    net.drain()
    assert len(outdated) == 3
    assert net[2].refusals == 3 * moves
    assert net[1].sets.rows()[0].unserved == ()
