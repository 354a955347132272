"""What we say to a C++ relay, in its words: hashes, announces, subscribes.

The names are those of the client protocol in its draft 16. The hash of a full name is the track's
alias on both sides (docs/spec/laps-cpp.md).
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
"""The draft of the build that we peer with."""
_DEFAULT_PRIORITY: Final = 128


class CityHasher:
    """A track's key as the C++ relay makes it."""

    __slots__ = ()

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The full-name hash, 62 bits."""
        return track_hashes(fields, name, DRAFT16_BITS).fullname

    def key_of(self, name: FullTrackName) -> int:
        """The same of a full name."""
        return self.full_name(name.namespace.fields, name.name)


CITY: Final = CityHasher()


# Announces


def announce_info(source: NodeId, kind: AnnounceKind, name: FullTrackName) -> cpp.AnnounceInfo:
    """A name that can be had from ``source``."""
    flags = cpp.FLAG_NAMESPACE if kind is AnnounceKind.NAMESPACE else 0
    return cpp.AnnounceInfo(source, CITY.key_of(name), name.namespace, name.name, flags)


def announced_name(info: cpp.AnnounceInfo) -> tuple[AnnounceKind, FullTrackName] | None:
    """What is announced; None if a track's name is not that of its hash, or a namespace has one."""
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
    """A track that is wanted at ``source``; ``data`` is what our clients asked for together.

    The relay at the publisher reads SUBSCRIBER_PRIORITY and NEW_GROUP_REQUEST, and cannot do
    without the former.
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
    """The track that is wanted; None if nobody can read it, or it is not that of its hash."""
    try:
        name = decode_subscribe_body(info.subscribe_data, CPP_DRAFT).track
    except LapsError:
        return None
    return name if CITY.key_of(name) == info.fullname_hash else None
