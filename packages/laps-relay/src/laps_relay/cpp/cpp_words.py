"""Hashes, announces and subscribes in the dialect of C++ relays.

Messages of the client protocol are encoded in draft 16. Both sides use the hash of the full name as
the alias of a track (docs/spec/laps-cpp.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from laps_sdk.upstream.bodies import read_subscribe
from laps_wire.errors import LapsError
from laps_wire.hashing import DRAFT16_BITS, track_hashes
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.control import decode_subscribe_body, encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData

__all__ = [
    "CITY",
    "CPP_DRAFT",
    "CityHasher",
    "announce_info",
    "announced_name",
    "subscribe_info",
    "subscribed_track",
]

CPP_DRAFT: Final = Draft.D16
"""The MoQT draft of the C++ relays that we peer with."""
_DEFAULT_PRIORITY: Final = 128


class CityHasher:
    """Computes the key of a track as C++ relays do."""

    __slots__ = ()

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """Return the 62-bit hash of a full name, given as namespace fields and track name."""
        return track_hashes(fields, name, DRAFT16_BITS).fullname

    def key_of(self, name: FullTrackName) -> int:
        """Return the 62-bit hash of a full name."""
        return self.full_name(name.namespace.fields, name.name)


CITY: Final = CityHasher()


# Announces


def announce_info(source: NodeId, kind: AnnounceKind, name: FullTrackName) -> cpp.AnnounceInfo:
    """Return the announce of a name that ``source`` publishes."""
    flags = cpp.FLAG_NAMESPACE if kind is AnnounceKind.NAMESPACE else 0
    return cpp.AnnounceInfo(source, CITY.key_of(name), name.namespace, name.name, flags)


def announced_name(info: cpp.AnnounceInfo) -> tuple[AnnounceKind, FullTrackName] | None:
    """Return the kind and the name of an announce.

    Return None if a track does not match its hash, or if a namespace has a track name.
    """
    if info.is_namespace:
        if info.name:
            return None
        return AnnounceKind.NAMESPACE, FullTrackName(info.namespace, b"")
    name = FullTrackName(info.namespace, info.name)
    if CITY.key_of(name) != info.fullname_hash:
        return None
    return AnnounceKind.TRACK, name


# Subscribes


def subscribe_info(
    sequence: int, source: NodeId, name: FullTrackName, data: SubscribeData
) -> cpp.SubscribeInfo:
    """Return the subscribe of ``source`` to a track; ``data`` is our clients' merged SUBSCRIBE.

    The relay at the publisher reads SUBSCRIBER_PRIORITY and NEW_GROUP_REQUEST, and requires the
    former.
    """
    asked = read_subscribe(data)
    priority = group = None
    if asked is not None:
        priority = asked.parameters.subscriber_priority
        group = asked.parameters.new_group_request
    parameters = Parameters(
        subscriber_priority=_DEFAULT_PRIORITY if priority is None else priority,
        group_order=GroupOrder.ASCENDING,
        new_group_request=group,
    )
    hashes = track_hashes(name.namespace.fields, name.name, DRAFT16_BITS)
    return cpp.SubscribeInfo(
        sequence,
        source,
        hashes.namespace,
        hashes.name,
        hashes.fullname,
        encode_subscribe_body(Subscribe(0, name, parameters), CPP_DRAFT),
    )


def subscribed_track(info: cpp.SubscribeInfo) -> FullTrackName | None:
    """Return the track of a subscribe; None if it cannot be decoded or does not match its hash."""
    try:
        name = decode_subscribe_body(info.subscribe_data, CPP_DRAFT).track
    except LapsError:
        return None
    return name if CITY.key_of(name) == info.fullname_hash else None
