from __future__ import annotations

from laps_relay.network.subscriptions.want_records import Due, Want, WantTimers
from laps_relay.network.subscriptions.want_serving import Serving
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from testkit.subscription_rig import Rig, key_of, track

GRACE = 5.0
ONE, TWO, STRANGER = NodeId(1), NodeId(2), NodeId(8)


class Case:
    def __init__(self) -> None:
        self.rig = Rig()
        self.timers: WantTimers = Timers()
        self.serving = Serving(GRACE, self.timers, node=self.rig.node, reaches=self.rig.reaches)

    def due(self, kind: Due, want: Want, node: NodeId) -> float | None:
        return self.timers.when((kind, want.key, node))

    def node(self, now: float, node: NodeId, epoch: int | None) -> None:
        self.rig.know(node, epoch)
        self.serving.node_changed(now, node)

    def way(self, now: float, node: NodeId, there: bool) -> bool:
        if there:
            self.rig.cut.discard(node)
        else:
            self.rig.cut.add(node)
        return node in list(self.serving.paths_changed(now, [node]))


def wanted(text: str = "a/b/n") -> Want:
    name = track(text)
    return Want(key_of(name), name, (1,), 2)


def test_who_serves_is_kept_with_its_life() -> None:
    case, want = Case(), wanted()
    case.serving.add(0.0, want, ONE)
    assert (want.accepted, want.renewed) == ({ONE: 1}, {ONE})
    assert (len(case.timers), len(case.serving)) == (0, 1)
    case.serving.remove(want, ONE)
    assert (want.accepted, len(case.serving)) == ({}, 0)
    case.node(0.0, ONE, None)
    assert not case.way(0.0, ONE, False)
    assert len(case.timers) == 0


def test_who_is_gone_or_started_again_has_a_grace() -> None:
    case, want, other = Case(), wanted(), wanted("a/b/m")
    for each in (want, other):
        case.serving.add(0.0, each, ONE)
    case.node(10.0, ONE, None)
    case.node(11.0, ONE, None)
    assert [case.due(Due.LOST, each, ONE) for each in (want, other)] == [15.0, 15.0]
    case.node(12.0, ONE, 1)
    assert len(case.timers) == 0
    case.node(13.0, ONE, 2)
    assert case.due(Due.LOST, want, ONE) == 18.0
    # It says yes again in its new life.
    case.serving.add(14.0, want, ONE)
    assert (want.accepted, case.due(Due.LOST, want, ONE)) == ({ONE: 2}, None)
    case.serving.remove(other, ONE)
    assert len(case.timers) == 0


def test_who_is_not_known_yet_is_believed_for_the_grace() -> None:
    case, want = Case(), wanted()
    case.serving.add(0.0, want, STRANGER)
    assert want.accepted == {STRANGER: None}
    assert case.due(Due.LOST, want, STRANGER) == GRACE
    case.node(1.0, STRANGER, 5)
    assert (want.accepted, len(case.timers)) == ({STRANGER: 5}, 0)


def test_who_cannot_be_reached_has_a_grace() -> None:
    case, want = Case(), wanted()
    assert not case.way(0.0, ONE, there=False)  # it serves nothing
    case.serving.add(0.0, want, ONE)
    assert case.due(Due.CUT, want, ONE) == GRACE
    case.serving.add(3.0, want, ONE)
    assert case.due(Due.CUT, want, ONE) == GRACE
    assert not case.way(4.0, ONE, there=True)
    assert len(case.timers) == 0
    assert not case.way(5.0, ONE, there=False)
    assert not case.way(6.0, ONE, there=False)
    assert case.due(Due.CUT, want, ONE) == 5.0 + GRACE
    case.serving.remove(want, ONE)
    assert len(case.timers) == 0


def test_a_track_is_cut_off_when_all_are_and_is_told_when_one_is_back() -> None:
    case, want = Case(), wanted()
    for node in (ONE, TWO):
        case.serving.add(0.0, want, node)
    case.way(1.0, ONE, there=False)
    assert not case.serving.cut_off(want)
    case.way(2.0, TWO, there=False)
    assert case.serving.cut_off(want)
    for node in (ONE, TWO):
        case.serving.remove(want, node)
    assert not case.way(3.0, ONE, there=False)
    assert case.way(4.0, ONE, there=True)
    assert not case.way(5.0, ONE, there=True)  # once
    assert case.way(6.0, TWO, there=True)
