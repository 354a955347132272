"""For how long nothing was said of a node on a session."""

from __future__ import annotations

from laps_relay.network.nodes.silences import Silences
from laps_wire.nodeid import NodeId

A, B, X, Y = map(NodeId, (1, 2, 8, 9))


def test_a_silence_is_as_long_as_nobody_speaks() -> None:
    silences = Silences(30.0)
    silences.begin(100.0, A, X)
    silences.begin(101.0, A, Y)
    silences.begin(104.0, A, X)  # somebody spoke in between
    assert silences.end(110.0, A, X, 0.0) == 6.0
    assert silences.end(110.0, A, Y, 0.0) == 9.0
    assert len(silences) == 0


def test_nothing_was_said_before_a_session_began() -> None:
    silences = Silences(30.0)
    assert silences.end(110.0, A, X, 90.0) == 20.0
    silences.begin(80.0, A, X)  # on the one before
    assert silences.end(110.0, A, X, 90.0) == 20.0


def test_long_silences_are_not_remembered_and_are_still_long() -> None:
    silences = Silences(30.0)
    silences.begin(10.0, A, X)
    silences.begin(20.0, B, X)
    silences.begin(40.0, A, Y)
    assert len(silences) == 2
    assert silences.end(41.0, A, X, 5.0) >= 30.0
    assert silences.end(41.0, B, X, 5.0) == 21.0


def test_there_are_not_more_than_so_many() -> None:
    silences = Silences(30.0, most=2)
    for number in range(5):
        silences.begin(float(number), A, NodeId(number))
    assert len(silences) == 2
    assert silences.end(5.0, A, NodeId(4), 0.0) == 1.0
    assert silences.end(5.0, A, NodeId(0), 0.0) == 5.0
