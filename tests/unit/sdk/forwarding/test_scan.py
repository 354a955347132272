"""Reading streams in runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.scan import Run, RunParser, run_from
from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.data import ObjectCollector, ObjectStatus, SubgroupHeader, SubgroupParser
from laps_wire.moqt.data.types import MoqObject, TruncatedStreamError
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, bodies, cut, subgroup

DRAFTS = st.sampled_from([D16, D18])


@given(DRAFTS, st.lists(st.integers(1, 700), max_size=15), st.booleans())
def test_runs_hold_what_the_stream_holds(draft: Draft, places: list[int], extended: bool) -> None:
    blocks = [b"\x02\x05", b"", b"\x05\x40" + b"e" * 64, b""] if extended else None
    data = subgroup(
        draft,
        dict(zip([0, 1, 7, 90], [b"", *bodies(3, 150)], strict=True)),
        subgroup_id=None,
        extensions=blocks if draft is D16 else ([b""] * 4 if extended else None),
        status=(99, ObjectStatus.END_OF_GROUP),
    )
    parser = RunParser(draft)
    found: list[tuple[int, bytes]] = []
    started = False
    body_bytes = b""
    for piece in cut(data, places):
        if not started:
            begun = parser.start(piece)
            if begun is None:
                continue
            started = True
            assert begun[0].subgroup_id is None
            rest = begun[1]
        else:
            rest = piece
        marks: list[Mark] = []
        run, end = parser.scan(rest, marks)
        pos = 0
        for head, start, payload in marks:
            if found:
                found[-1] = (found[-1][0], found[-1][1] + run[pos:start])
            found.append((head.object_id, b""))
            pos = payload
        if end > pos:
            found[-1] = (found[-1][0], found[-1][1] + run[pos:end])
        body_bytes += run[:end]
    parser.finish()
    assert parser.left == 0
    assert data.endswith(body_bytes)
    collector = ObjectCollector(SubgroupParser(draft))
    expected = [
        (item.header.object_id, item.payload)
        for item in collector.feed(data)
        if isinstance(item, MoqObject)
    ]
    assert found == expected


def test_it_can_begin_behind_an_object() -> None:
    parser = RunParser.behind(SubgroupHeader(0, 4, 2), D16, 6)
    marks: list[Mark] = []
    run, end = parser.scan(b"\x01\x05abc", marks)
    assert (run, end) == (b"\x01\x05abc", 5)
    assert parser.left == 2
    ((head, start, payload),) = marks
    assert (head.group_id, head.object_id, head.subgroup_id) == (4, 8, 2)
    assert (start, payload) == (0, 2)
    with pytest.raises(TruncatedStreamError):
        parser.finish()


def test_nothing_follows_an_end() -> None:
    parser = RunParser.behind(SubgroupHeader(0, 4, 2), D16, -1)
    with pytest.raises(ProtocolViolation):
        parser.scan(b"\x00\x00\x03" + b"\x00\x01a", [])


@pytest.mark.parametrize("draft", [D16, D18])
def test_a_stream_that_was_cut(draft: Draft) -> None:
    """It ends with the ID delta of the object that follows, and nothing else."""
    parser = RunParser(draft)
    seen = [parser.cut_before]
    started = parser.start(subgroup(draft, bodies(2)))
    assert started is not None
    seen.append(parser.cut_before)
    delta = draft.integers.encode(1000)
    # Inside an object, at its end, inside the delta, behind it, and behind half a length.
    for piece in (started[1][:-1], started[1][-1:], delta[:1], delta[1:], b"\x40"):
        parser.scan(piece, [])
        seen.append(parser.cut_before)
    assert seen == [None, None, None, None, None, 1002, None]


# Cutting objects out of runs, and beginning in the middle of them.


HEADER = SubgroupHeader(0, 0, 0)


def whole_run(draft: Draft, count: int = 4, first: int = 0) -> Run:
    payloads = {first + index: body for index, body in enumerate(bodies(count, 30))}
    parser = RunParser(draft)
    started = parser.start(subgroup(draft, payloads))
    assert started is not None
    marks: list[Mark] = []
    body, _ = parser.scan(started[1], marks)
    return Run(body, marks, -1, has_extensions=False, draft=draft)


def objects(body: bytes, draft: Draft, previous: int = -1) -> list[tuple[int, bytes]]:
    parser = RunParser.behind(HEADER, draft, previous)
    marks: list[Mark] = []
    data, end = parser.scan(body, marks)
    edges = [*(mark[1] for mark in marks[1:]), end][: len(marks)]
    return [
        (head.object_id, data[payload:stop])
        for (head, _, payload), stop in zip(marks, edges, strict=True)
    ]


@pytest.mark.parametrize("source", [D16, D18])
@pytest.mark.parametrize("target", [D16, D18])
@pytest.mark.parametrize("index", [0, 2, 3])
def test_a_stream_that_begins_in_the_middle(source: Draft, target: Draft, index: int) -> None:
    run = whole_run(source)
    first = run_from(run, index, target, False)
    assert first is not None
    assert objects(first, target) == list(enumerate(bodies(4, 30)))[index:]
    behind = run_from(run._replace(previous=50), index, target, False)
    assert behind == first


def test_the_same_bytes_where_possible() -> None:
    run = whole_run(D16)
    assert run_from(run, 0, D16, False) is run.body
    shifted = [(head, start + 4, end + 4) for head, start, end in run.marks]
    assert run_from(run._replace(body=b"tail" + run.body, marks=shifted), 0, D16, False) == run.body


def test_what_cannot_be_said() -> None:
    run = whole_run(D18, count=2, first=(1 << 63))
    assert run_from(run, 0, D16, False) is None
    assert run_from(run, 0, D18, False) is run.body
