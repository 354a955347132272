"""What we and a C++ network tell each other."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laps_relay.cpp.cpp_link import CppLimits, CppLink
from laps_sdk.peering.links import ForeignPeerWire
from laps_wire.errors import StateError
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData
from laps_wire.peering.session import (
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    Draining,
    Event,
    NodesAdvertised,
    NodesWithdrawn,
    SnsAdvertised,
    SnsWithdrawn,
    SubscribesAdvertised,
    SubscribesWithdrawn,
)
from testkit.cpp_peers import FAR, NEAR, OURS, CppWords, announce, key_of, node, subscribe
from testkit.edge_net import NAMESPACE, TRACK, track_of

COUSIN = NodeId(0x12)
"""Another relay of our own network."""
KEY = key_of(TRACK)
SPACE = FullTrackName(NAMESPACE, b"")


class Rig:
    """A link, and its owner."""

    def __init__(self, **limits: int) -> None:
        self.wire = CppWords()
        self.link = CppLink(
            self,
            cast("ForeignPeerWire", self.wire),
            source=OURS,
            ours=lambda each: each == COUSIN,
            limits=CppLimits(**limits),
        )
        self.calls: list[tuple[Any, ...]] = []

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.calls.append(("announced", kind, name))

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.calls.append(("retracted", kind, name))

    def takers_changed(self, now: float, key: int) -> None:
        self.calls.append(("takers", key, self.link.takers(key)))

    def asked_again(self, now: float, key: int) -> None:
        self.calls.append(("again", key))

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls

    def announces(self, *names: FullTrackName | Namespace, source: NodeId = FAR) -> None:
        entries = tuple(announce(name, source) for name in names)
        self.link.event(1.0, AnnouncesAdvertised(announces=entries))

    def retracts(self, *names: FullTrackName | Namespace, source: NodeId = FAR) -> None:
        entries = tuple(announce(name, source) for name in names)
        self.link.event(1.0, AnnouncesWithdrawn(announces=entries))

    def subscribes(self, *infos: cpp.SubscribeInfo) -> None:
        self.link.event(1.0, SubscribesAdvertised(subscribes=infos))

    def unsubscribes(self, *infos: cpp.SubscribeInfo) -> None:
        self.link.event(1.0, SubscribesWithdrawn(subscribes=infos))


# Names


def test_names_are_there_as_long_as_one_node_announces_them() -> None:
    rig = Rig()
    rig.announces(TRACK, NAMESPACE)
    rig.announces(TRACK, source=NEAR)
    assert rig.take() == [
        ("announced", AnnounceKind.TRACK, TRACK),
        ("announced", AnnounceKind.NAMESPACE, SPACE),
    ]
    assert rig.link.offers(TRACK)
    assert rig.link.offers(track_of("other", b"deeper"))
    assert not rig.link.offers(FullTrackName(Namespace.of(b"elsewhere"), b"x"))
    rig.retracts(TRACK)
    rig.retracts(TRACK)
    assert rig.take() == []
    rig.retracts(TRACK, source=NEAR)
    rig.retracts(NAMESPACE)
    assert rig.take() == [
        ("retracted", AnnounceKind.TRACK, TRACK),
        ("retracted", AnnounceKind.NAMESPACE, SPACE),
    ]
    assert not rig.link.offers(TRACK)


def test_what_we_or_ours_said_is_no_news() -> None:
    rig = Rig()
    for source in (OURS, COUSIN):
        rig.announces(TRACK, source=source)
        rig.retracts(TRACK, source=source)
        rig.subscribes(subscribe(TRACK, source))
        rig.unsubscribes(subscribe(TRACK, source))
        rig.link.event(1.0, NodesAdvertised(nodes=(node(source),)))
        rig.link.event(1.0, NodesWithdrawn(nodes=(source,)))
    assert rig.take() == []


def test_names_that_do_not_fit_are_refused() -> None:
    rig = Rig()
    wrong = cpp.AnnounceInfo(FAR, 5, NAMESPACE, b"report", 0)
    rig.link.event(1.0, AnnouncesAdvertised(announces=(wrong,)))
    rig.link.event(1.0, AnnouncesWithdrawn(announces=(wrong,)))
    rig.subscribes(cpp.SubscribeInfo(1, FAR, 0, 0, KEY, b"garbage"))
    good = subscribe(track_of("other"))
    rig.subscribes(cpp.SubscribeInfo(1, FAR, 0, 0, KEY, good.subscribe_data))
    assert rig.take() == []


def test_two_names_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.subscribes(subscribe(TRACK))
    other = track_of("other")
    monkeypatch.setattr("laps_relay.cpp.cpp_link.subscribed_track", lambda _: other)
    rig.subscribes(subscribe(TRACK, NEAR))
    assert rig.link.takers(KEY) == (FAR,)


# Subscribes


def test_takers_come_and_go() -> None:
    rig = Rig()
    rig.subscribes(subscribe(TRACK), subscribe(TRACK))
    rig.subscribes(subscribe(TRACK, NEAR))
    assert rig.take() == [("takers", KEY, (FAR,)), ("takers", KEY, (NEAR, FAR))]
    again = subscribe(TRACK, FAR, 2, new_group_request=4)
    rig.subscribes(again)
    assert rig.take() == [("again", KEY)]
    assert rig.link.taken(KEY) == (
        TRACK,
        SubscribeData(Draft.D16.value, again.subscribe_data),
    )
    # The number of a withdrawal says nothing.
    rig.unsubscribes(subscribe(TRACK, FAR, 77), subscribe(TRACK, FAR))
    assert rig.take() == [("takers", KEY, (NEAR,))]
    rig.unsubscribes(subscribe(TRACK, NEAR))
    assert rig.take() == [("takers", KEY, ())]
    rig.subscribes(subscribe(TRACK))
    assert rig.take() == [("takers", KEY, (FAR,))]


def test_nodes_that_are_lost_want_and_have_nothing() -> None:
    rig = Rig()
    rig.link.event(1.0, NodesAdvertised(nodes=(node(FAR), node(NEAR))))
    rig.announces(TRACK)
    rig.subscribes(subscribe(TRACK), subscribe(TRACK, NEAR))
    rig.take()
    lost = NodesWithdrawn(nodes=(FAR, NodeId(99)))
    rig.link.event(1.0, lost)
    rig.link.event(1.0, lost)
    assert rig.take() == [
        ("retracted", AnnounceKind.TRACK, TRACK),
        ("takers", KEY, (NEAR,)),
    ]
    rig.link.event(1.0, NodesAdvertised(nodes=(node(FAR),)))
    assert rig.take() == [
        ("announced", AnnounceKind.TRACK, TRACK),
        ("takers", KEY, (NEAR, FAR)),
    ]
    # Whoever says something is there.
    rig.link.event(1.0, lost)
    rig.take()
    rig.announces(NAMESPACE)
    assert ("announced", AnnounceKind.TRACK, TRACK) in rig.take()


def test_nodes_that_come_and_go_leave_nothing() -> None:
    """Or a peer with ever new ones would fill the memory, below its limit all the time."""
    rig = Rig(max_nodes=2)
    for number in range(1000, 2000):
        rig.link.event(1.0, NodesAdvertised(nodes=(node(NodeId(number)),)))
        rig.link.event(1.0, NodesWithdrawn(nodes=(NodeId(number),)))
    link = rig.link
    assert not any((link._nodes, link._heard._gone, link._takers._gone, link._sequences))


def test_sets_say_whether_data_is_for_us() -> None:
    rig = Rig()
    assert rig.link.takes(2)

    def sns(*targets: NodeId) -> SnsAdvertised:
        return SnsAdvertised(
            sns_id=2, version=0, hops=0, targets=frozenset(targets), added=(), removed=()
        )

    rig.link.event(1.0, sns(FAR))
    assert not rig.link.takes(2)
    rig.link.event(1.0, sns(FAR, OURS))
    assert rig.link.takes(2)
    rig.link.event(1.0, sns(FAR))
    rig.link.event(1.0, SnsWithdrawn(sns_id=2, targets=(FAR,)))
    assert rig.link.takes(2)


@pytest.mark.parametrize(
    ("limit", "event"),
    [
        ("max_nodes", NodesAdvertised(nodes=(node(FAR), node(NEAR)))),
        ("max_nodes", AnnouncesAdvertised(announces=(announce(TRACK), announce(TRACK, NEAR)))),
        ("max_announces", AnnouncesAdvertised(announces=(announce(TRACK), announce(NAMESPACE)))),
        (
            "max_subscribes",
            SubscribesAdvertised(subscribes=(subscribe(TRACK), subscribe(TRACK, NEAR))),
        ),
    ],
)
def test_a_peer_that_says_too_much_breaks_a_rule(limit: str, event: Event) -> None:
    rig = Rig(**{limit: 1})
    with pytest.raises(LimitExceededError):
        rig.link.event(1.0, event)


# What we say


def test_our_words() -> None:
    rig = Rig()
    link, wire = rig.link, rig.wire
    link.announce(1.0, AnnounceKind.TRACK, TRACK)
    link.retract(1.0, AnnounceKind.TRACK, TRACK)
    link.subscribe(2.0, KEY, TRACK, SubscribeData())
    link.subscribe(2.0, KEY, TRACK, SubscribeData())
    link.unsubscribe(2.0, KEY)
    link.unsubscribe(2.0, KEY)
    link.alive(3.0, node(OURS))
    mine = announce(TRACK, OURS)
    first, second, end = wire.sent[2:5]
    assert wire.sent == [
        cpp.AnnounceInfoAdvertised(mine),
        cpp.AnnounceInfoWithdrawn(mine),
        first,
        second,
        end,
        cpp.NodeInfoAdvertise(node(OURS)),
    ]
    assert (first.info.sequence, second.info.sequence) == (1, 2)
    assert end == cpp.SubscribeInfoWithdrawn(second.info)
    assert link.said == 3.0


def test_numbers_go_round() -> None:
    rig = Rig()
    rig.link._sequence = 0xFFFD
    for _ in range(3):
        rig.link.subscribe(1.0, KEY, TRACK, SubscribeData())
    assert [each.info.sequence for each in rig.wire.sent] == [0xFFFE, 0xFFFF, 1]


def test_a_session_that_is_over_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()

    def over(now: float, message: object) -> None:
        raise StateError("closed")

    monkeypatch.setattr(rig.wire, "send", over)
    rig.link.announce(1.0, AnnounceKind.TRACK, TRACK)


def test_other_events_are_not_for_us() -> None:
    rig = Rig()
    rig.link.event(1.0, Draining(deadline=1.0))
    assert rig.take() == []
