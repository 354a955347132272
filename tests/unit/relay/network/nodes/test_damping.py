"""Which changes of metrics are worth a message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.nodes.damping import Urgency, same_relays, significant, urgency
from laps_relay.network.settings import NetworkSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Load, LoadClass, NodeInfo, Reachable, RelayType
from testkit.nib_net import key_of, node_info

SETTINGS = NetworkSettings()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (20_000, 22_000, True),
        (20_000, 18_000, True),
        (20_000, 21_999, False),  # 2 ms
        (100_000, 105_000, False),  # 10 %
        (100_000, 110_000, True),
        (0, 1_000, False),
        (0, 2_000, True),
        (5, 5, False),
    ],
)
def test_ten_percent_and_two_milliseconds(old: int, new: int, expected: bool) -> None:
    assert significant(old, new, SETTINGS) is expected


def test_without_thresholds_every_change_counts() -> None:
    exact = replace(SETTINGS, metric_ratio=0.0, metric_floor_us=0)
    assert significant(5, 6, exact)
    assert not significant(5, 5, exact)
    assert urgency(node_info(1), node_info(1, sequence=2), exact) is Urgency.NEVER


def test_the_same_relays_at_another_cost() -> None:
    path = node_info(1, (2, 10), (3, 10)).path
    assert same_relays(path, path)
    assert same_relays(path, node_info(1, (2, 99), (3, 10)).path)
    assert not same_relays(path, node_info(1, (2, 10), (4, 10)).path)
    assert not same_relays(path, path[:1])


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (node_info(1, sequence=9), Urgency.NEVER),
        (node_info(1, sequence=9, load=Load(value=99)), Urgency.NEVER),
        (node_info(1, sequence=9, load=Load(value=100)), Urgency.LATER),
        (node_info(1, load=Load(LoadClass.BUSY)), Urgency.NOW),
        (node_info(1, region="r"), Urgency.NOW),
        (node_info(1, kind=RelayType.VIA), Urgency.NOW),
        (node_info(1, epoch=2), Urgency.NOW),
        (node_info(1, signature=key_of("a")), Urgency.NOW),
        (node_info(1, reachable=(Reachable(NodeId(2), 5),)), Urgency.LATER),
    ],
)
def test_what_a_node_says_of_itself(new: NodeInfo, expected: Urgency) -> None:
    assert urgency(node_info(1), new, SETTINGS) is expected


def test_reachable_nodes_are_metrics() -> None:
    near = node_info(1, reachable=(Reachable(NodeId(2), 20_000),))
    assert urgency(near, near, SETTINGS) is Urgency.NEVER
    little = node_info(1, reachable=(Reachable(NodeId(2), 21_000),))
    assert urgency(near, little, SETTINGS) is Urgency.NEVER
    much = node_info(1, reachable=(Reachable(NodeId(2), 30_000),))
    assert urgency(near, much, SETTINGS) is Urgency.LATER
