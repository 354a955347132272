"""Reads a subgroup stream in runs: one piece of bytes, and where in it objects begin.

``laps_wire`` gives an event for each piece of a payload; a relay that hands bytes on as they came
does not want the pieces, only the places. So the reading of headers is shared, the loop is not::

    chunk 1  [ header | head payload.. ]     chunk 2  [ ..payload head payload he ]  chunk 3  [ ad
                        `---- run 1 --'                `------ run 2 -----------' held
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from laps_sdk.forwarding.coding import Mark, object_header, transcode
from laps_wire.errors import EncodeError, IncompleteError
from laps_wire.moqt.data.subgroup import SubgroupParser
from laps_wire.moqt.data.types import SubgroupHeader
from laps_wire.moqt.versions import Draft

__all__ = ["Run", "RunParser", "run_from"]

_NO_BYTES: Final = b""


class RunParser(SubgroupParser):
    """One incoming subgroup stream. ``start`` until there is a header, then ``scan``."""

    __slots__ = ("_events",)

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._events: list[Any] = []  # DataEvents; only one ObjectHeader is ever looked at

    @classmethod
    def behind(
        cls, header: SubgroupHeader, draft: Draft, object_id: int, left: int = 0
    ) -> RunParser:
        """A parser for what follows the object ``object_id``, which lacks ``left`` bytes."""
        parser = cls(draft)
        parser.header = header
        parser.object_id = object_id
        parser._subgroup_id = header.subgroup_id
        parser._has_extensions = header.has_extensions
        parser._left = left
        return parser

    @property
    def left(self) -> int:
        """Payload bytes that the object under way still lacks."""
        return self._left

    @property
    def cut_before(self) -> int | None:
        """The object with which another stream goes on, if this one was cut (laps-2, 7.2).

        What is held is the ID delta of that object then, and nothing else.
        """
        held = self._held
        if not held or self._left or self.header is None or self.ended:
            return None
        try:
            delta, pos = self._decode(held, 0, len(held))
        except IncompleteError:
            return None
        return self.object_id + 1 + delta if pos == len(held) else None

    def start(self, data: bytes) -> tuple[SubgroupHeader, bytes] | None:
        """Read the stream's header; give it and what follows, or None if more is needed."""
        held = self._held
        held += data
        try:
            pos = self._begin(held, 0, len(held), self._events)
        except IncompleteError:
            return None
        self._events.clear()
        rest = bytes(held[pos:])
        held.clear()
        header = self.header
        if header is None:  # a header was read
            raise AssertionError(self)
        return header, rest

    def scan(self, data: bytes, marks: list[Mark]) -> tuple[bytes, int]:
        """Take the next bytes: the run that begins with them, and where it ends.

        Objects that begin in it are appended to ``marks``. What is behind the end is held: it is
        the beginning of a header, and comes with the next bytes.
        """
        events = self._events
        pos = 0
        if self._held:
            held = self._held
            held += data
            try:
                pos = self._begin(held, 0, len(held), events)
            except IncompleteError:
                return _NO_BYTES, 0
            data = bytes(held)
            held.clear()
            marks.append((events[0], 0, pos))
            events.clear()
        end = len(data)
        begin = self._begin
        while True:
            left = self._left
            if left:
                stop = pos + left
                if stop > end:
                    self._left = stop - end
                    return data, end
                self._left = 0
                pos = stop
            if pos >= end:
                return data, end
            start = pos
            try:
                pos = begin(data, pos, end, events)
            except IncompleteError:
                self._held += data[pos:end]
                return data, start
            marks.append((events[0], start, pos))
            events.clear()


class Run(NamedTuple):
    """Bytes, and where in them objects begin."""

    body: bytes
    marks: list[Mark]
    previous: int
    """The object before the first mark; -1 if there is none."""
    has_extensions: bool
    draft: Draft


def run_from(run: Run, index: int, draft: Draft, extended: bool) -> bytes | None:
    """What a stream holds that begins with one of the objects of a run.

    None: it cannot be said in the draft, or without extension blocks if not ``extended``.
    """
    body, marks, previous, has_extensions, source = run
    head, start, payload = marks[index]
    same = draft is source and extended == has_extensions
    if same and not index and previous < 0:
        return body[start:] if start else body
    try:
        first = object_header(head, -1, extended, source, draft)
        if same:
            return first + body[payload:]
        rest = [(each, at - payload, end - payload) for each, at, end in marks[index + 1 :]]
        behind = transcode(body[payload:], rest, head.object_id, extended, source, draft)
    except EncodeError:
        return None
    return first + behind
