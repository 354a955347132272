"""Manifests: which names there are to subscribe to, as JSON (seed 003, three sections "Manifest").

The seed's manifests are "for information purposes only", and its examples are not quite JSON. We
read the three shapes that they show, told apart by their keys, and write them as proper JSON::

    {"origin": O, "meeting": M, "publisher": [{"id": P,      a conference: who sends what
        "source": [{"type": T, "streams": [STREAM...]}...]}...]}
    {"origin": O, "channel": [{"name": N, "id": I}...]}      push to talk: the channels
    {"resource": R, "streams": [STREAM...]}                  streaming: the qualities

    STREAM = {"id": I, "codec": C, "quality": Q}             codec and quality may be missing

The conference in the seed has one publisher, not in a list, while its text speaks of several: both
are read, a list is written. Keys that we do not know are ignored. A manifest is data from a peer:
whatever is wrong with it is a :class:`~laps_wire.errors.MalformedError` that names the place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from laps_wire.buffer import ByteSource
from laps_wire.errors import EncodeError, MalformedError

__all__ = [
    "MAX_MANIFEST",
    "Channel",
    "ChannelManifest",
    "ConferenceManifest",
    "Manifest",
    "ManifestPublisher",
    "ManifestSource",
    "ManifestStream",
    "StreamingManifest",
    "format_manifest",
    "parse_manifest",
]

T = TypeVar("T")

MAX_MANIFEST: Final = 1 << 20
"""The largest manifest in bytes; a thousand publishers with ten streams each fit."""


@dataclass(frozen=True, slots=True)
class ManifestStream:
    """One quality of one source."""

    id: str
    """The source id in the stream's name."""
    codec: str = ""
    quality: str = ""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """A camera, a microphone: all of its qualities."""

    type: str
    streams: tuple[ManifestStream, ...]


@dataclass(frozen=True, slots=True)
class ManifestPublisher:
    """A participant who sends."""

    id: str
    """The sender id in the names of its streams."""
    sources: tuple[ManifestSource, ...]


@dataclass(frozen=True, slots=True)
class ConferenceManifest:
    """What is sent in a meeting."""

    origin: str
    meeting: str
    """The resource id in all names of the meeting."""
    publishers: tuple[ManifestPublisher, ...]


@dataclass(frozen=True, slots=True)
class Channel:
    """A push-to-talk channel."""

    name: str
    id: str
    """The resource id in the names of the channel."""


@dataclass(frozen=True, slots=True)
class ChannelManifest:
    """The channels of a workplace."""

    origin: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class StreamingManifest:
    """The qualities in which something can be watched."""

    resource: str
    streams: tuple[ManifestStream, ...]


Manifest: TypeAlias = ConferenceManifest | ChannelManifest | StreamingManifest


# Reading


def parse_manifest(data: ByteSource) -> Manifest:
    """Read a manifest of any of the three shapes."""
    if len(data) > MAX_MANIFEST:
        raise _fault("", f"{len(data)} bytes are over the limit of {MAX_MANIFEST}")
    try:
        top = json.loads(bytes(data).decode(), parse_constant=_no_constant)
    except RecursionError:
        raise _fault("", "nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, a number without end
        raise _fault("", f"not JSON: {error}") from None
    match top:
        case {"meeting": _}:
            return ConferenceManifest(
                _text(top, "", "origin"),
                _text(top, "", "meeting"),
                _many(top, "", "publisher", _publisher),
            )
        case {"channel": _}:
            return ChannelManifest(_text(top, "", "origin"), _many(top, "", "channel", _channel))
        case {"resource": _}:
            return StreamingManifest(_text(top, "", "resource"), _many(top, "", "streams", _stream))
    raise _fault("", "an object with a meeting, a channel or a resource belongs here")


def _fault(where: str, reason: str) -> MalformedError:
    return MalformedError(reason, field=f"manifest{where}")


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _text(node: dict[str, Any], where: str, key: str, default: str | None = None) -> str:
    value = node.get(key, default)
    if not isinstance(value, str):
        raise _fault(f"{where}.{key}", "a text belongs here")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _fault(f"{where}.{key}", "half a character") from None
    return value


def _many(
    node: dict[str, Any], where: str, key: str, item: Callable[[dict[str, Any], str], T]
) -> tuple[T, ...]:
    """Read a list of objects; a single object stands for a list of one."""
    value = node.get(key)
    items = [value] if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise _fault(f"{where}.{key}", "a list belongs here")
    read: list[T] = []
    for index, one in enumerate(items):
        here = f"{where}.{key}[{index}]"
        if not isinstance(one, dict):
            raise _fault(here, "an object belongs here")
        read.append(item(one, here))
    return tuple(read)


def _publisher(node: dict[str, Any], where: str) -> ManifestPublisher:
    return ManifestPublisher(_text(node, where, "id"), _many(node, where, "source", _source))


def _source(node: dict[str, Any], where: str) -> ManifestSource:
    return ManifestSource(_text(node, where, "type"), _many(node, where, "streams", _stream))


def _stream(node: dict[str, Any], where: str) -> ManifestStream:
    return ManifestStream(
        _text(node, where, "id"),
        _text(node, where, "codec", ""),
        _text(node, where, "quality", ""),
    )


def _channel(node: dict[str, Any], where: str) -> Channel:
    return Channel(_text(node, where, "name"), _text(node, where, "id"))


# Writing


def format_manifest(manifest: Manifest) -> bytes:
    """Write a manifest, without blanks; equal manifests give equal bytes."""
    try:
        data = json.dumps(_plain(manifest), separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"manifest: not encodable as UTF-8: {error.reason}") from None
    if len(data) > MAX_MANIFEST:
        raise EncodeError(f"manifest: {len(data)} bytes are over the limit of {MAX_MANIFEST}")
    return data


def _plain(manifest: Manifest) -> dict[str, Any]:
    if isinstance(manifest, StreamingManifest):
        return {"resource": manifest.resource, "streams": _plain_streams(manifest.streams)}
    if isinstance(manifest, ChannelManifest):
        channels = [{"name": channel.name, "id": channel.id} for channel in manifest.channels]
        return {"origin": manifest.origin, "channel": channels}
    publishers = [
        {
            "id": publisher.id,
            "source": [
                {"type": source.type, "streams": _plain_streams(source.streams)}
                for source in publisher.sources
            ],
        }
        for publisher in manifest.publishers
    ]
    return {"origin": manifest.origin, "meeting": manifest.meeting, "publisher": publishers}


def _plain_streams(streams: tuple[ManifestStream, ...]) -> list[dict[str, str]]:
    """Streams as JSON objects; what is empty is left out."""
    return [
        {
            key: text
            for key, text in (("id", one.id), ("codec", one.codec), ("quality", one.quality))
            if text or key == "id"
        }
        for one in streams
    ]
