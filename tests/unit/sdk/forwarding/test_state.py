"""What the parts of the plane share."""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import CacheLimits, PlaneLimits, Subscription
from laps_sdk.forwarding.track import Source, State, Track
from testkit.plane import D16, NAME, Net, bodies, subgroup


def test_a_new_state_has_nothing() -> None:
    state = State(CacheLimits(), PlaneLimits())
    assert set(state.counters()) == {0}
    assert state.notices == []


def test_finished_streams_are_remembered_for_a_while() -> None:
    net = Net(limits=PlaneLimits(finished_streams=2))
    publisher, receiver = net.publisher(), net.receiver()
    for group in range(4):
        net.send(publisher, subgroup(D16, bodies(1), group=group))
    session = net.plane._sessions[receiver]
    assert list(session.finished) == net.egress[receiver].streams[2:]
    assert session.outs == {}
    for index in range(4):
        net.drop(receiver, index, lost=1)
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.dropped_streams == 2
    session.finish_out(net.egress[receiver].streams[0])  # not one of those that are open
    assert list(session.finished) == []


def test_only_streams_that_are_open_are_stopped() -> None:
    net = Net()
    publisher = net.publisher()
    stream = net.open(publisher, subgroup(D16, bodies(1)))
    session = net.plane._sessions[publisher]
    session.stop(stream, 5)
    session.stop(stream, 5)
    assert net.egress[publisher].stopped == [(stream, 5)]


def test_a_source_knows_the_oldest_subgroup_that_it_has_the_beginning_of() -> None:
    source = Source(Track(1, NAME, None, PlaneLimits(), []), 128)
    for place in ((5, 1), (6, 0), (5, 0), (5, 3)):
        source.began_with(*place)
    assert source.since == (5, 0)
