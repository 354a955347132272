"""Reads a subgroup stream as it arrives, chunk by chunk, without copying payloads.

``_begin`` runs for every object, so it reads integers in place.
``subgroup.read_object_header`` reads the same fields one by one, and a property test holds the two
together. See ``stream`` for the events.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import IncompleteError, MalformedError
from laps_wire.moqt.data.stream import DataEvent, StreamParser
from laps_wire.moqt.data.subgroup import NO_OBJECT, after_the_end, decode_subgroup_header
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    OBJECT_END,
    ObjectHeader,
    ObjectStatus,
    SubgroupHeader,
    check_status,
    extensions_too_large,
)
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = ["SubgroupParser"]

_NORMAL: Final = ObjectStatus.NORMAL
_LONGEST_HEADER: Final = 4 * 9 + 1
"""The most bytes in a SUBGROUP_HEADER: four integers and a priority."""


class SubgroupParser(StreamParser):
    """One incoming subgroup stream, from its type on.

    Bytes: ``feed``, ``finish``. State: ``header``, ``object_id``, ``ended``.
    """

    __slots__ = (
        "_decode",
        "_has_extensions",
        "_max",
        "_small",
        "_subgroup_id",
        "draft",
        "ended",
        "header",
        "object_id",
    )

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        self.header: SubgroupHeader | None = None
        """The stream's header, once it is whole."""
        self.object_id = NO_OBJECT
        """The id of the last object begun; -1 before the first."""
        self.ended = False
        """Whether an object said that the group or the track ends here."""
        self._subgroup_id: int | None = None
        self._has_extensions = False
        integers = draft.integers
        self._decode = integers.decode
        self._max = integers.max_value
        self._small = integers.one_byte

    def _started(self) -> bool:
        return self.header is not None

    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        header = self.header
        if header is None:
            return self._open(data, pos, events)
        if self.ended:
            raise after_the_end(self.object_id)
        small, decode = self._small, self._decode
        value = data[pos]
        if value < small:
            pos += 1
        else:
            value, pos = decode(data, pos, end)
        object_id = self.object_id + 1 + value
        if object_id > self._max:
            raise MalformedError(f"object id {object_id} is too large", field="object id delta")
        extensions = b""
        if self._has_extensions:
            if pos < end and not data[pos]:
                pos += 1  # an empty block
            else:
                value, pos = decode(data, pos, end)
                if value > MAX_EXTENSIONS_SIZE:
                    raise extensions_too_large(value)
                stop = pos + value
                if stop > end:
                    raise IncompleteError(stop - end)
                extensions = bytes(data[pos:stop])
                pos = stop
        after = pos + 2
        if after <= end and small <= (value := data[pos]) < small + 0x40:
            # Most payloads: both codings put the upper six bits of two bytes here.
            length = (value & 0x3F) << 8 | data[pos + 1]
            pos = after
        else:
            length, pos = decode(data, pos, end)
        status = _NORMAL
        if not length:
            value, pos = decode(data, pos, end)
            if value:
                status = check_status(value, extensions)
        subgroup_id = self._subgroup_id
        if subgroup_id is None:
            self._subgroup_id = subgroup_id = object_id
        events.append(
            # What ObjectHeader(...) does, at less than half of its cost.
            tuple.__new__(
                ObjectHeader,
                (
                    header.group_id,
                    object_id,
                    subgroup_id,
                    header.priority,
                    length,
                    status,
                    extensions,
                ),
            )
        )
        self.object_id = object_id
        if length:
            self._left = length
        else:
            events.append(OBJECT_END)
            self.ended = status is not _NORMAL
        return pos

    def _open(self, data: ByteSource, pos: int, events: list[DataEvent]) -> int:
        """Read the SUBGROUP_HEADER, from a copy: a view would forbid the held bytes to grow."""
        header, used = decode_subgroup_header(bytes(data[pos : pos + _LONGEST_HEADER]), self.draft)
        self.header = header
        self._subgroup_id = header.subgroup_id
        self._has_extensions = header.has_extensions
        events.append(header)
        return pos + used
