"""The first object of a forwarded stream, searched for if its group is sampled.

A relay between others does not parse streams. For one group in so many it parses the beginning
once: to learn which object it is, and where it ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.scan import RunParser
from laps_wire.errors import IncompleteError, LapsError
from laps_wire.moqt.versions import Draft

__all__ = ["START", "FirstObject", "Probe", "may_be_sampled"]

_MOST: Final = 4096
"""Bytes in which the header of the first object must have ended."""
START: Final = 32
"""Bytes of a payload in which the group stands."""
_DRAFTS: Final = {draft.value: draft for draft in Draft}
_DECODE: Final = {draft.value: draft.integers.decode for draft in Draft}


class FirstObject(NamedTuple):
    """The first object of a stream."""

    group_id: int
    object_id: int
    size: int
    end: int
    """Up to which byte of the stream it reaches, the data header too."""


def may_be_sampled(samples: Samples, data: bytes) -> bool:
    """Return whether a stream may be sampled, by its first bytes; quickly False for nearly all."""
    decode = _DECODE.get(data[3])
    if decode is None:
        return False
    pos, end = data[0], len(data)
    try:
        # A SUBGROUP_HEADER: its type, the track alias, the group.
        _, pos = decode(data, pos, end)
        _, pos = decode(data, pos, end)
        group_id, _ = decode(data, pos, end)
    except IncompleteError:
        return True
    return samples.wants(int.from_bytes(data[8:16], "big"), group_id)


class Probe:
    """Parses the beginning of one stream."""

    __slots__ = ("_draft", "_held", "_over", "_samples", "came", "first", "key", "start")

    def __init__(self, samples: Samples, head: bytes, came: float) -> None:
        """``head`` begins with the data header."""
        self._samples = samples
        self._draft = _DRAFTS.get(head[3])
        self._held = b""
        self._over = False
        self.key = int.from_bytes(head[8:16], "big")
        self.start = head[0]
        """Where the payload begins."""
        self.came = came
        self.first: FirstObject | None = None

    def look(self, data: bytes) -> bool:
        """Take more payload; return whether the search is over."""
        draft = self._draft
        if draft is None:
            return True
        held = self._held = self._held + data[: _MOST - len(self._held)]
        try:
            self.first = self._found(held, draft)
        except LapsError:
            return True  # malformed; the relay that parses the whole stream reports it
        return self._over or self.first is not None or len(held) >= _MOST

    def _found(self, held: bytes, draft: Draft) -> FirstObject | None:
        parser, marks = RunParser(draft), list[Mark]()
        begun = parser.start(held)
        if begun is None:
            return None
        group_id = begun[0].group_id
        if not self._samples.wants(self.key, group_id):
            self._over = True
            return None
        parser.scan(begun[1], marks)
        if not marks:
            return None
        head, _, pos = marks[0]
        end = self.start + len(held) - len(begun[1]) + pos + head.payload_length
        return FirstObject(group_id, head.object_id, head.payload_length, end)
