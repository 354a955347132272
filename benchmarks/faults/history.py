"""What clients record, one JSON array on each line of a file, and what an object carries.

Times are of the system's monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "HEAD",
    "Delivered",
    "Ended",
    "Payload",
    "Published",
    "PublisherHistory",
    "Reported",
    "SubscriberHistory",
    "pack",
    "read_publishers",
    "read_subscribers",
    "unpack",
]

_HEAD: Final = struct.Struct("!QdI")
_DIGEST: Final = 16
HEAD: Final = _HEAD.size + _DIGEST
"""The bytes of the smallest payload."""


class Payload(NamedTuple):
    """What an object carries."""

    sequence: int
    sent: float
    intact: bool
    """Whether the payload has its length and its hash."""


def _digest(track: str, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST, person=track.encode()[:16]).digest()


def pack(track: str, sequence: int, sent: float, size: int) -> bytes:
    """Return a payload of ``size`` bytes, or the smallest one: number, time, length, hash."""
    filler = bytes(max(0, size - HEAD))
    body = _HEAD.pack(sequence, sent, len(filler)) + filler
    return _digest(track, body) + body


def unpack(track: str, payload: bytes) -> Payload:
    """Read a payload of :func:`pack`; a damaged one is returned with ``intact`` False."""
    if len(payload) < HEAD:
        return Payload(-1, 0.0, intact=False)
    body = payload[_DIGEST:]
    sequence, sent, length = _HEAD.unpack_from(body)
    whole = len(payload) == HEAD + length and payload[:_DIGEST] == _digest(track, body)
    return Payload(sequence, sent, intact=whole)


class Published(NamedTuple):
    """An object that a publisher wrote."""

    sequence: int
    group: int
    object: int
    sent: float


class Delivered(NamedTuple):
    """An object that a subscription returned to its application."""

    sequence: int
    group: int
    object: int
    subgroup: int
    sent: float
    received: float
    intact: bool


class Reported(NamedTuple):
    """A gap that a subscription reported: all objects from the first to the last location."""

    first_group: int
    first_object: int
    last_group: int
    last_object: int
    at: float
    cause: str


class Ended(NamedTuple):
    """The end of a subscription, or of a publication, while the other side was still there."""

    at: float
    reason: str


@dataclass(slots=True)
class PublisherHistory:
    """What became of one published track."""

    track: str
    published: list[Published] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    """The errors with which the track ended before its publisher ended it."""


@dataclass(slots=True)
class SubscriberHistory:
    """What one subscription returned and reported."""

    name: str
    track: str
    delivered: list[Delivered] = field(default_factory=list)
    reported: list[Reported] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    """The ends that were reported before the publisher ended the track."""
    discarded: int = 0
    """Second copies that the SDK discarded."""


def _lines(files: Iterable[Path]) -> Iterator[list[Any]]:
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # the last line of a killed process may be cut
                    yield json.loads(line)


def read_publishers(files: Iterable[Path]) -> dict[str, PublisherHistory]:
    """Return the history of each track."""
    tracks: dict[str, PublisherHistory] = {}
    for kind, track, *rest in _lines(files):
        history = tracks.setdefault(track, PublisherHistory(track))
        if kind == "published":
            history.published.append(Published(*rest))
        elif kind == "ended":
            history.ended.append(Ended(*rest))
    return tracks


def read_subscribers(files: Iterable[Path]) -> dict[str, SubscriberHistory]:
    """Return the history of each subscription, by the name of the subscription."""
    subscribers: dict[str, SubscriberHistory] = {}
    for kind, name, *rest in _lines(files):
        if kind == "subscription":
            subscribers[name] = SubscriberHistory(name, *rest)
        elif kind == "delivered":
            subscribers[name].delivered.append(Delivered(*rest))
        elif kind == "reported":
            subscribers[name].reported.append(Reported(*rest))
        elif kind == "ended":
            subscribers[name].ended.append(Ended(*rest))
        elif kind == "discarded":
            subscribers[name].discarded += rest[0]
    return subscribers
