"""Damping: which changes of metrics are advertised, and when (laps-2, 5.1).

sRTT and load change all the time, and every advertised change is work for every relay of the
network. A metric is advertised again when it has changed by a share **and** by an amount, and not
more often than once an interval. A load class, a contact or a region is no metric: its change is
advertised at once.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from laps_relay.network.settings import NetworkSettings
from laps_wire.peering.laps2 import Load, NodeInfo, NodePathItem, NodeSelf, Stamp
from laps_wire.peering.laps2.node import MAX_LOAD

__all__ = ["Urgency", "same_relays", "significant", "urgency"]


class Urgency(Enum):
    """When a change is advertised."""

    NOW = "now"
    LATER = "later"
    """When the interval since the last one is over."""
    NEVER = "never"
    """It is too small; together with later ones it may not be."""


def significant(old_us: int, new_us: int, settings: NetworkSettings) -> bool:
    """Return whether a time has changed enough to be advertised again."""
    change = abs(new_us - old_us)
    return (
        change > 0
        and change >= settings.metric_floor_us
        and change >= old_us * settings.metric_ratio
    )


def same_relays(a: tuple[NodePathItem, ...], b: tuple[NodePathItem, ...]) -> bool:
    """Return whether two paths pass the same relays, at whatever cost."""
    if len(a) != len(b):
        return False
    for left, right in zip(a, b, strict=True):
        if left is not right and left.node_id != right.node_id:
            return False
    return True


def urgency(old: NodeInfo, new: NodeInfo, settings: NetworkSettings) -> Urgency:
    """Return when a change of a node's self part must be advertised."""
    if _essence(old.node) != _essence(new.node):
        return Urgency.NOW
    if old.signature.fingerprint != new.signature.fingerprint:
        return Urgency.NOW
    change = abs(old.node.load.value - new.node.load.value)
    if change > 0 and change >= MAX_LOAD * settings.metric_ratio:
        return Urgency.LATER
    before = {each.node_id: each.rtt_us for each in old.node.reachable}
    after = {each.node_id: each.rtt_us for each in new.node.reachable}
    if before.keys() != after.keys():
        return Urgency.LATER
    if any(significant(before[node], after[node], settings) for node in before):
        return Urgency.LATER
    return Urgency.NEVER


def _essence(node: NodeSelf) -> NodeSelf:
    """Return a node's self part without its metrics; a new epoch is a new node."""
    return replace(
        node,
        stamp=Stamp(node.stamp.epoch, 0),
        load=Load(node.load.load_class),
        reachable=(),
    )
