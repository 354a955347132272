"""Checks of a peer's entry about a node, before the entry is used (laps-2, 5.1).

::

    entry --> about this relay? --> a node that may be advertised? --> a valid path?
          --> are we on it?     --> the known key?                 --> slower than light?

An entry that fails is not believed. The peer's former entry of that node is removed, too, for the
peer replaced it. No session ends for it: an entry travels from relay to relay, and one that closed
sessions would close all of them. Only more entries than agreed end a session.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from laps_relay.network.nodes.light_time import Direction, declared, direction, least_rtt_us
from laps_relay.network.nodes.node_records import Fault, NodeRecord, PeerRecord
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Location, NodeInfo, RelayType
from laps_wire.peering.laps2.limits import MAX_HOPS

__all__ = ["Finding", "about_us", "misfit", "other_key", "place_of", "too_fast"]

_STUB_ID: Final = NodeId(0)

Finding = tuple[Fault, str]
"""What is wrong, and why."""

_direction = lru_cache(maxsize=8192)(direction)


def place_of(location: Location | None) -> Direction | None:
    """Return the direction of a location, from a cache: the same few locations occur often."""
    return None if location is None else _direction(location)


def about_us(own: NodeInfo, info: NodeInfo) -> Finding | None:
    """Return what is wrong with an entry about this relay; such an entry is never used."""
    if info.signature.fingerprint != own.signature.fingerprint:
        return Fault.OWN_ID, "our own node id is advertised with another key"
    if info.node.stamp.epoch > own.node.stamp.epoch:
        ours, theirs = own.node.stamp.epoch, info.node.stamp.epoch
        return Fault.OWN_ID, f"our own node id is advertised with epoch {theirs}, ours is {ours}"
    return None


def misfit(peer: NodeId, info: NodeInfo, relays: set[NodeId]) -> Finding | None:
    """Return what is wrong with a node or its path; ``relays`` are those on the path."""
    node = info.node.node_id
    if node == _STUB_ID or info.node.relay_type is RelayType.STUB:
        return Fault.BAD_NODE, "a Stub is not seen beyond its parent"
    path = info.path
    if not path:
        if node == peer:
            return None
        return Fault.BAD_PATH, "an empty path, but it is not the node itself that says so"
    if path[-1].node_id != peer:
        return Fault.BAD_PATH, f"the path ends with {path[-1].node_id}, not with who sent it"
    if len(path) > MAX_HOPS:
        return Fault.BAD_PATH, f"a path of {len(path)} items, at most {MAX_HOPS} are allowed"
    if len(relays) != len(path) or node in relays:
        return Fault.BAD_PATH, "the path passes a relay twice"
    if _STUB_ID in relays:
        return Fault.BAD_PATH, "the path passes node id 0"
    return None


def other_key(record: NodeRecord, info: NodeInfo) -> Finding | None:
    """Return whether a node id is advertised with another key; it never replaces the known one."""
    if info.signature.fingerprint == record.fingerprint:
        return None
    return Fault.KEY_CONFLICT, "another key than the one that holds this node id"


def too_fast(
    own: Direction | None, link: PeerRecord, info: NodeInfo, record: NodeRecord | None
) -> Finding | None:
    """Whether light would be slower.

    The sum of the path is the round trip from the peer to the node, and with our own link it is
    the one from us. A neighbour's sRTT is our own measurement, so only its location can be wrong.
    """
    newest = info.node
    if (
        record is not None
        and newest is not record.latest.node
        and not record.latest.node.stamp < newest.stamp
    ):
        newest = record.latest.node  # who passes a node on must not move it to be believed
    place = place_of(declared(newest))
    if place is None:
        return None
    total = 0
    for item in info.path:
        total += item.srtt_us
    theirs = link.place if info.path else None
    ours = own if link.srtt_us else None  # a link that was not measured yet proves nothing
    for end, rtt_us in ((theirs, total), (ours, total + link.srtt_us)):
        if end is not None and rtt_us < (least := least_rtt_us(end, place)):
            return Fault.IMPLAUSIBLE, f"a round trip of {rtt_us} us, light needs {least:.0f} us"
    return None
