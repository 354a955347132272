"""Writing objects again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import (
    CANCELLED,
    MALFORMED_TRACK,
    Mark,
    cut_mark,
    drop_code,
    integers_of,
    mirrored_code,
    object_header,
    start_header,
    transcode,
    translate_extensions,
)
from laps_sdk.forwarding.scan import RunParser
from laps_wire.errors import MalformedError
from laps_wire.moqt.data import (
    MalformedTrackError,
    ObjectHeader,
    ObjectStatus,
    SubgroupHeader,
    encode_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, subgroup

BOTH = [(D16, D18), (D18, D16), (D16, D16), (D18, D18)]
VALUES = st.integers(0, (1 << 62) - 1)
EVEN = st.builds(lambda number, value: KeyValue(number * 2, value), st.integers(50, 9000), VALUES)
ODD = st.builds(
    lambda number, value: KeyValue(number * 2 + 1, value), st.integers(50, 9000), st.binary()
)
PAIRS = st.lists(EVEN | ODD, max_size=5)


def head(extensions: bytes = b"", object_id: int = 5) -> ObjectHeader:
    return ObjectHeader(9, object_id, 0, None, 3, ObjectStatus.NORMAL, extensions)


@pytest.mark.parametrize(("source", "target"), BOTH)
@given(PAIRS, PAIRS)
def test_extensions_in_another_draft(
    source: Draft, target: Draft, pairs: list[KeyValue], inner: list[KeyValue]
) -> None:
    block = encode_extensions(pairs, source, immutable=inner)
    expected = encode_extensions(pairs, target, immutable=inner)
    assert translate_extensions(block, source, target) == expected


def test_extensions_that_cannot_be_read_make_the_track_malformed() -> None:
    with pytest.raises(MalformedTrackError, match="translated"):
        translate_extensions(b"\x02", D16, D18)


@pytest.mark.parametrize("draft", [D16, D18])
@given(PAIRS, PAIRS)
def test_integers_wherever_they_stand(
    draft: Draft, pairs: list[KeyValue], inner: list[KeyValue]
) -> None:
    block = encode_extensions(pairs, draft, immutable=inner)
    expected: dict[int, int] = {}
    # The immutable block has type 0x0B and stands before all of these.
    for pair in (*sorted(inner, key=lambda p: p.type), *sorted(pairs, key=lambda p: p.type)):
        if isinstance(pair.value, int):
            expected.setdefault(pair.type, pair.value)
    assert integers_of(head(block), draft) == expected


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (b"\x02", MalformedError),
        (b"\x03\x05ab", MalformedError),
        (b"\x3e\x01\x00\x01", MalformedTrackError),
        (b"\x0b\x01\x02", MalformedTrackError),
        (b"\x0b\x02\x0b\x00", MalformedTrackError),
        (b"\x0b\x00\x00\x00", MalformedTrackError),
        (b"\x0d\x80\x01\x00\x00" + bytes(1 << 16), MalformedError),
    ],
)
def test_faults_in_extensions(block: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        integers_of(head(block), D16)


def test_blocks_inside_blocks_are_not_followed() -> None:
    block = b""
    while len(block) < 16000:
        block = b"\x0b" + (len(block) | 0x4000).to_bytes(2, "big") + block
    with pytest.raises(MalformedTrackError):
        integers_of(head(block), D16)
    assert translate_extensions(block, D16, D18)


def test_a_type_may_repeat_unless_it_is_a_gap() -> None:
    assert integers_of(head(b"\x02\x07\x00\x08"), D16) == {2: 7}


def test_codes() -> None:
    assert mirrored_code(0x1234, D16, D16) == 0x1234
    assert mirrored_code(MALFORMED_TRACK, D16, D18) == MALFORMED_TRACK
    assert mirrored_code(4, D16, D18) == 6
    assert mirrored_code(6, D18, D16) == 4
    assert mirrored_code(5, D18, D16) == CANCELLED
    assert drop_code(D16) == 2
    assert drop_code(D18) == 5


def test_headers_of_empty_objects_have_a_status() -> None:
    empty = ObjectHeader(0, 4, 0, None, 0, ObjectStatus.END_OF_GROUP)
    assert object_header(empty, 1, True, D16, D18) == b"\x02\x00\x00\x03"


@pytest.mark.parametrize(("source", "target"), BOTH)
def test_a_run_in_another_draft(source: Draft, target: Draft) -> None:
    blocks = [encode_extensions([KeyValue(100 + index, 99)], source) for index in range(0, 6, 2)]
    payloads = {3: b"x" * 70, 4: b"", 200: b"z" * 20}
    data = subgroup(source, payloads, extensions=blocks)
    parser = RunParser(source)
    started = parser.start(data)
    assert started is not None
    marks: list[Mark] = []
    body, end = parser.scan(started[1], marks)
    assert end == len(body)
    expected = [encode_extensions([KeyValue(100 + i, 99)], target) for i in range(0, 6, 2)]
    whole = subgroup(target, payloads, extensions=expected)
    assert whole.endswith(transcode(body, marks, -1, True, source, target))
    assert transcode(b"only payload", [], 3, True, source, target) == b"only payload"
    # A run may begin with the end of a payload.
    pos = marks[0][2] + 10
    rest = [(each, start - pos, stop - pos) for each, start, stop in marks[1:]]
    assert whole.endswith(transcode(body[pos:], rest, 3, True, source, target))


def test_headers_for_receivers() -> None:
    header = SubgroupHeader(1, 2, None, 7, True, True, True)
    whole = start_header(header, 9, 4, D18, whole=True)
    assert whole == SubgroupHeader(9, 2, None, 7, True, True, True)
    later = start_header(header, 9, 4, D18, whole=False)
    assert later == SubgroupHeader(9, 2, 4, 7, True, True, False)
    assert not start_header(header, 9, 4, D16, whole=True).first_object


@pytest.mark.parametrize("draft", [D16, D18])
def test_the_mark_of_a_cut_is_the_beginning_of_the_next_object(draft: Draft) -> None:
    head = ObjectHeader(3, 300, 0, None, 5, ObjectStatus.NORMAL, b"")
    mark = cut_mark(head, 99, draft)
    assert mark == draft.integers.encode(200)
    assert object_header(head, 99, False, draft, draft).startswith(mark)
