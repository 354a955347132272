"""What a publisher says about a track: draft 16's track extensions, draft 18's track properties.

They are Key-Value-Pairs that relays pass on as they are, so messages keep them raw. Here is what
the drafts define: the ranges, which a receiver must check, and a typed view with the defaults
filled in (moq-transport-16, 11; moq-transport-18, 12).

::

    0x02  [OBJECT_]DELIVERY_TIMEOUT      ms; draft 16: not 0, draft 18: 0 is none
    0x04  MAX_CACHE_DURATION             ms
    0x06  SUBGROUP_DELIVERY_TIMEOUT      ms, draft 18
    0x0B  IMMUTABLE                      pairs that nobody on the way may change
    0x0E  DEFAULT_PUBLISHER_PRIORITY     0..255, default 128
    0x22  DEFAULT_PUBLISHER_GROUP_ORDER  1 ascending (default), 2 descending
    0x30  DYNAMIC_GROUPS                 0 (default) or 1
    0x4000..0x7FFF                       draft 18: not to be served unless understood
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError
from laps_wire.moqt.codepoints import GroupOrder, PropertyTypeD18
from laps_wire.moqt.keyvalue import KEY_VALUES, KeyValue, KeyValues, read_pairs
from laps_wire.moqt.versions import Draft

__all__ = ["DEFAULT_PRIORITY", "TrackProperties", "TrackPropertiesCodec"]

DEFAULT_PRIORITY: Final = 128
"""A publisher's priority if it does not say (moq-transport-16, 11)."""

_MANDATORY: Final = range(0x4000, 0x8000)
_RANGES: Final[dict[int, tuple[int, int]]] = {
    PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY: (0, 255),
    PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER: (1, 2),
    PropertyTypeD18.DYNAMIC_GROUPS: (0, 1),
}


def _fault(pair: KeyValue, draft: Draft) -> str:
    """What is wrong with a pair whose type the draft defines for tracks, or nothing."""
    type_, value = pair
    if not isinstance(value, int):
        return ""
    if type_ in _RANGES:
        low, high = _RANGES[type_]
        if not low <= value <= high:
            return f"{PropertyTypeD18(type_).name} is {value}, outside {low}..{high}"
    if type_ == PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT and value == 0 and draft is Draft.D16:
        return "DELIVERY_TIMEOUT is 0"
    return ""


@dataclass(frozen=True, slots=True)
class TrackPropertiesCodec:
    """The last field of a message: pairs up to its end, with the drafts' ranges checked.

    Only the pairs themselves are checked. What is inside IMMUTABLE can make the track malformed,
    but not end the session.
    """

    draft: Draft

    def read(self, reader: Reader, field: str) -> KeyValues:
        """Read them; a value out of range is a protocol violation."""
        start = reader.pos
        pairs = KEY_VALUES.read(reader, field)
        for pair in pairs:
            fault = _fault(pair, self.draft)
            if fault:
                reader.fail(field, fault, offset=start)
        return pairs

    def write(self, writer: Writer, value: KeyValues, field: str) -> None:
        """Write them."""
        for pair in value:
            fault = _fault(pair, self.draft)
            if fault:
                writer.fail(field, fault)
        KEY_VALUES.write(writer, value, field)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackProperties:
    """The properties of a track that the drafts define, with their defaults."""

    object_delivery_timeout: int | None = None
    """In milliseconds; None is none. Draft 16 calls it DELIVERY_TIMEOUT."""
    subgroup_delivery_timeout: int | None = None
    """In milliseconds; None is none. Draft 18."""
    max_cache_duration: int | None = None
    """In milliseconds; None is as long as the cache likes."""
    publisher_priority: int = DEFAULT_PRIORITY
    group_order: GroupOrder = GroupOrder.ASCENDING
    dynamic_groups: bool = False
    """Whether a subscriber may ask for a new group."""
    mandatory: tuple[int, ...] = ()
    """Draft 18: types that a relay must understand to serve the track. We know none of them, so
    any of them means UNSUPPORTED_EXTENSION (moq-transport-18, 2.5.1)."""
    malformed: bool = False
    """Whether IMMUTABLE can not be read, holds itself, or holds a value out of range: then the
    track is malformed (moq-transport-16, 11.1)."""

    @classmethod
    def of(cls, pairs: KeyValues, draft: Draft) -> TrackProperties:
        """The typed view of ``pairs``, as a message of ``draft`` carried them."""
        found: dict[int, int] = {}
        mandatory: list[int] = []
        malformed = False
        try:
            for type_, value in _flatten(pairs, draft):
                if type_ in _MANDATORY and draft is Draft.D18:
                    mandatory.append(type_)
                elif isinstance(value, int):
                    # The drafts do not say which of two counts; the first is what relays see first.
                    found.setdefault(type_, value)
        except MalformedError:
            malformed = True
        return cls(
            object_delivery_timeout=found.get(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT) or None,
            subgroup_delivery_timeout=(
                found.get(PropertyTypeD18.SUBGROUP_DELIVERY_TIMEOUT) or None
                if draft is Draft.D18
                else None
            ),
            max_cache_duration=found.get(PropertyTypeD18.MAX_CACHE_DURATION),
            publisher_priority=found.get(
                PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, DEFAULT_PRIORITY
            ),
            group_order=GroupOrder(
                found.get(PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER, GroupOrder.ASCENDING)
            ),
            dynamic_groups=found.get(PropertyTypeD18.DYNAMIC_GROUPS) == 1,
            mandatory=tuple(mandatory),
            malformed=malformed,
        )


def _flatten(pairs: KeyValues, draft: Draft) -> Iterator[KeyValue]:
    """The pairs, then those inside IMMUTABLE; :class:`MalformedError` if one of them is bad."""
    inner: list[KeyValue] = []
    for pair in pairs:
        if pair.type == PropertyTypeD18.IMMUTABLE_PROPERTIES and isinstance(pair.value, bytes):
            inner.extend(read_pairs(Reader(pair.value, integers=draft.integers)))
            continue
        _require(pair, draft)
        yield pair
    for pair in inner:
        if pair.type == PropertyTypeD18.IMMUTABLE_PROPERTIES:
            raise MalformedError("holds itself", field="IMMUTABLE")
        _require(pair, draft)
        yield pair


def _require(pair: KeyValue, draft: Draft) -> None:
    fault = _fault(pair, draft)
    if fault:
        raise MalformedError(fault)
