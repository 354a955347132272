"""Cutting objects out of runs, and beginning in the middle of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.scan import Run, RunParser, run_from, without
from laps_wire.moqt.data import SubgroupHeader
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, bodies, subgroup

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


@pytest.mark.parametrize("draft", [D16, D18])
@given(st.sets(st.integers(0, 3)))
def test_what_is_not_fresh_is_cut_out(draft: Draft, kept: set[int]) -> None:
    run = whole_run(draft)
    fresh = [mark for mark in run.marks if mark[0].object_id in kept]
    body, marks, skipping = without(run, fresh, skipping=False)
    assert objects(body, draft) == [(each, bodies(4, 30)[each]) for each in sorted(kept)]
    assert [mark[0].object_id for mark in marks] == sorted(kept)
    assert skipping is (3 not in kept)
    for head, start, payload in marks:
        assert body[payload : payload + 30] == bodies(4, 30)[head.object_id]
        assert start < payload


def test_the_end_of_a_refused_object_goes_with_it() -> None:
    run = whole_run(D16)
    tail = 10
    longer = Run(
        b"r" * tail + run.body,
        [(head, start + tail, end + tail) for head, start, end in run.marks],
        7 - 8,
        has_extensions=False,
        draft=D16,
    )
    body, marks, skipping = without(longer, longer.marks, skipping=True)
    assert body == run.body
    assert marks == run.marks
    assert not skipping
    kept, _, _ = without(longer, longer.marks, skipping=False)
    assert kept == longer.body


@pytest.mark.parametrize("source", [D16, D18])
@pytest.mark.parametrize("target", [D16, D18])
@pytest.mark.parametrize("index", [0, 2, 3])
def test_a_stream_that_begins_in_the_middle(source: Draft, target: Draft, index: int) -> None:
    run = whole_run(source)
    first = run_from(run, index, target)
    assert first is not None
    assert objects(first, target) == list(enumerate(bodies(4, 30)))[index:]
    behind = run_from(run._replace(previous=50), index, target)
    assert behind == first


def test_the_same_bytes_where_possible() -> None:
    run = whole_run(D16)
    assert run_from(run, 0, D16) is run.body
    shifted = [(head, start + 4, end + 4) for head, start, end in run.marks]
    assert run_from(run._replace(body=b"tail" + run.body, marks=shifted), 0, D16) == run.body


def test_what_cannot_be_said() -> None:
    run = whole_run(D18, count=2, first=(1 << 63))
    assert run_from(run, 0, D16) is None
    assert run_from(run, 0, D18) is run.body
