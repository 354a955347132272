"""Runs of bytes of a subgroup: cutting objects out, and beginning in the middle."""

from __future__ import annotations

from typing import NamedTuple

from laps_sdk.forwarding.coding import Mark, object_header, transcode
from laps_wire.errors import EncodeError
from laps_wire.moqt.versions import Draft

__all__ = ["Run", "run_from", "without"]


class Run(NamedTuple):
    """Bytes, and where in them objects begin."""

    body: bytes
    marks: list[Mark]
    previous: int
    """The object before the first mark; -1 if there is none."""
    has_extensions: bool
    draft: Draft


def without(run: Run, fresh: list[Mark], *, skipping: bool) -> tuple[bytes, list[Mark], bool]:
    """Cut objects that are not ``fresh`` out of a run; what follows one gets its header anew.

    ``skipping``: the bytes before the first mark belong to an object that was cut out. Gives the
    bytes that are left, the marks in them, and the same for what comes behind.
    """
    body, marks, previous, has_extensions, draft = run
    parts: list[bytes] = []
    kept: list[Mark] = []
    size, pos = 0, 0
    wanted = {mark[1] for mark in fresh}
    for head, start, payload in marks:
        if not skipping:
            parts.append(body[pos:start])
            size += start - pos
        skipping = start not in wanted
        if not skipping:
            anew = object_header(head, previous, has_extensions, draft, draft)
            parts.append(anew)
            kept.append((head, size, size + len(anew)))
            size += len(anew)
            pos, previous = payload, head.object_id
    if not skipping:
        parts.append(body[pos:])
    return b"".join(parts), kept, skipping


def run_from(run: Run, index: int, draft: Draft) -> bytes | None:
    """What a stream holds that begins with one of the objects of a run.

    None: it cannot be said in the draft.
    """
    body, marks, previous, has_extensions, source = run
    head, start, payload = marks[index]
    same = draft is source
    if same and not index and previous < 0:
        return body[start:] if start else body
    try:
        first = object_header(head, -1, has_extensions, source, draft)
        if same:
            return first + body[payload:]
        rest = [(each, at - payload, end - payload) for each, at, end in marks[index + 1 :]]
        behind = transcode(body[payload:], rest, head.object_id, has_extensions, source, draft)
    except EncodeError:
        return None
    return first + behind
