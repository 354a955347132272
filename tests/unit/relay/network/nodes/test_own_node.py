"""What a relay says of itself: stamps, changes, and load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.location import ESTIMATED
from laps_relay.network.nodes.own_node import LoadMeter, OwnNode, class_of, smoothed
from laps_sdk.peering.settings import Identity
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Label,
    Load,
    LoadClass,
    Location,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    Reachable,
    RelayType,
    Stamp,
)

IDENTITY = Identity(
    node_id=NodeId(5), epoch=7, contacts=("a:1",), region="eu", longitude=8.0, latitude=50.0
)


def test_it_says_who_it_is() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    node = own.info.node
    assert (node.node_id, node.relay_type, node.region) == (NodeId(5), RelayType.EDGE, "eu")
    assert node.location == Location(8.0, 50.0)
    assert node.stamp == Stamp(7, 1)
    assert own.info.path == ()
    assert own.node_id == NodeId(5)
    assert OwnNode(Identity(node_id=NodeId(5), epoch=1), RelayType.VIA).info.node.location is None


def test_all_that_it_originates_has_stamps_of_one_series() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    assert [own.stamp(), own.stamp()] == [Stamp(7, 2), Stamp(7, 3)]
    assert own.set_load(Load(LoadClass.BUSY, 800))
    assert own.info.node.stamp == Stamp(7, 4)


def test_only_news_is_said() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    assert not own.set_load(Load())
    assert not own.set_contacts(("a:1",))
    assert own.set_contacts(("b:2",))
    assert own.info.node.contacts == ("b:2",)
    before = own.info.node.labels
    assert not own.set_label("client", "")
    assert own.set_label("client", "moqt://a:1")
    assert not own.set_label("client", "moqt://a:1")
    assert own.set_label("client", "moqt://b:1")
    assert own.info.node.labels == (*before, Label("client", "moqt://b:1"))
    assert own.set_label("client", "")
    assert own.info.node.labels == before


def test_where_it_seems_to_stand_is_said_if_nobody_told_it() -> None:
    assert not OwnNode(IDENTITY, RelayType.EDGE).set_estimate(Location(13.4, 52.5))
    labels = (("rack", "4"), ("location", "the cellar"))
    own = OwnNode(Identity(node_id=NodeId(5), epoch=7, labels=labels), RelayType.EDGE)
    assert own.set_estimate(Location(13.4, 52.5))
    node = own.info.node
    assert (node.location, node.stamp) == (Location(13.4, 52.5), Stamp(7, 2))
    assert node.labels == (Label("rack", "4"), ESTIMATED)
    # A hundred kilometres are nothing.
    assert not own.set_estimate(Location(12.4, 51.7))
    assert own.info.node is node
    assert own.set_estimate(Location(2.35, 48.85))
    assert own.info.node.labels == node.labels


def test_round_trip_times_are_news_when_they_changed_much_or_somebody_came() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    first = Reachable(NodeId(9), 50_000)
    assert own.set_reachable((first,))
    assert not own.set_reachable((first,))
    assert not own.set_reachable((Reachable(NodeId(9), 54_000),))
    assert own.set_reachable((Reachable(NodeId(9), 56_000),))
    assert not own.set_reachable((Reachable(NodeId(9), 54_500),))
    assert own.set_reachable((first, Reachable(NodeId(10), 1)))
    assert own.set_reachable(())


def test_what_it_says_is_signed() -> None:
    def sign(node: NodeSelf) -> NodeInfo:
        return NodeInfo(node, NodeSignature(2, bytes(32), bytes([node.stamp.sequence])))

    own = OwnNode(IDENTITY, RelayType.EDGE, sign)
    assert own.info.signature.signature == b"\x01"
    own.set_load(Load(LoadClass.BUSY, 1))
    assert own.info.signature.signature == b"\x02"


NORMAL, BUSY, OVERLOADED = LoadClass.NORMAL, LoadClass.BUSY, LoadClass.OVERLOADED


@pytest.mark.parametrize(
    ("share", "classes"),
    [
        # After NORMAL, after BUSY, after OVERLOADED.
        (0.0, (NORMAL, NORMAL, NORMAL)),
        (0.69, (NORMAL, NORMAL, NORMAL)),
        (0.70, (NORMAL, BUSY, BUSY)),
        (0.80, (NORMAL, BUSY, BUSY)),
        (0.81, (BUSY, BUSY, BUSY)),
        (0.84, (BUSY, BUSY, BUSY)),
        (0.85, (BUSY, BUSY, OVERLOADED)),
        (0.95, (BUSY, BUSY, OVERLOADED)),
        (0.96, (OVERLOADED, OVERLOADED, OVERLOADED)),
    ],
)
def test_a_class_is_left_later_than_it_is_entered(
    share: float, classes: tuple[LoadClass, ...]
) -> None:
    assert tuple(class_of(share, before) for before in (NORMAL, BUSY, OVERLOADED)) == classes


shares = st.floats(0.0, 1.0)


@given(shares, shares, st.floats(0.0, 100.0))
def test_an_average_is_between_what_was_and_what_is(old: float, new: float, after: float) -> None:
    assert min(old, new) - 1e-9 <= smoothed(old, new, after) <= max(old, new) + 1e-9


@given(shares, shares, st.floats(0.1, 50.0))
def test_it_does_not_matter_how_often_one_looks(old: float, new: float, after: float) -> None:
    twice = smoothed(smoothed(old, new, after / 2), new, after / 2)
    assert twice == pytest.approx(smoothed(old, new, after))


class Run:
    """A meter, and time that passes."""

    def __init__(self) -> None:
        self.meter = LoadMeter()
        self.now, self.busy = 1000.0, 7.0
        assert self.meter.sample(self.now, self.busy, 1.0) == Load()

    def go(self, seconds: int, share: float, fill: float = 0.0) -> list[Load]:
        told = []
        for _ in range(seconds):
            self.now += 1.0
            self.busy += share
            told.append(self.meter.sample(self.now, self.busy, fill))
        return told


def test_a_burst_is_no_load_and_what_lasts_is() -> None:
    run = Run()
    assert {load.load_class for load in run.go(5, 1.0)} == {NORMAL}
    told = [load.load_class for load in run.go(60, 1.0)]
    assert told == sorted(told)
    assert set(told) == {NORMAL, BUSY, OVERLOADED}
    assert run.go(1, 1.0)[0].value >= 950
    assert [load.load_class for load in run.go(60, 0.0)][-1] is NORMAL
    assert run.go(1, 0.0)[0].value < 50


def test_queues_that_are_full_are_load() -> None:
    run = Run()
    assert run.go(60, 0.1, fill=1.0)[-1].load_class is OVERLOADED


def test_small_steps_are_not_told() -> None:
    run = Run()
    steady = run.go(100, 0.5)[-1]
    assert steady.value == pytest.approx(500, abs=50)
    for share in (0.46, 0.54, 0.48):
        assert set(run.go(30, share)) <= {steady}


def test_a_clock_that_stands_still_teaches_nothing() -> None:
    meter = LoadMeter()
    meter.sample(1.0, 1.0, 0.0)
    assert meter.sample(1.0, 9.0, 1.0) == Load()


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(-1.0, 2.0))))
def test_it_always_fits_the_wire(steps: list[tuple[float, float, float]]) -> None:
    meter, now, busy = LoadMeter(), 0.0, 0.0
    for seconds, spent, fill in steps:
        now, busy = now + seconds, busy + spent
        load = meter.sample(now, busy, fill)
        assert 0 <= load.value <= 1000
        assert load.load_class in (NORMAL, BUSY, OVERLOADED)
