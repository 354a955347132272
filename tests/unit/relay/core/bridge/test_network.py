"""Edges joined by bridges: publishers at one, subscribers at others."""

from __future__ import annotations

import pytest

from laps_wire.moqt.session import RequestAccepted
from testkit.bridges import World
from testkit.edge_net import TRACK
from testkit.plane import D16, D18, bodies, subgroup


@pytest.mark.parametrize("lag", [False, True])
def test_a_track_goes_from_one_edge_to_two_others(lag: bool) -> None:
    world = World(lag=lag)
    one, two, three = world.edge(), world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    subscribers = [two.subscriber(D16, TRACK), three.subscriber(D18, TRACK)]
    for subscriber in subscribers:
        subscriber.one(RequestAccepted)
    publisher.send(subgroup(D18, bodies(3)))
    for subscriber in subscribers:
        assert list(subscriber.objects().values()) == bodies(3)
    assert [(origin, target) for origin, target, _ in world.carried] == [(0, 1), (0, 2)]
