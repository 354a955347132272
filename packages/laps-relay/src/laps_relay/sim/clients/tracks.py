"""Names of the simulation's tracks, and their hashes."""

from __future__ import annotations

from typing import Final

from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace

__all__ = ["HASHER", "track"]

HASHER: Final = KeyedHasher(b"a network in a simulation")


def track(text: str) -> tuple[int, FullTrackName]:
    """The key and the name of a track; its class of service is its first field."""
    name = FullTrackName(Namespace.of(text.encode(), b"live"), b"video")
    return HASHER.full_name(name.namespace.fields, name.name), name
