"""A subgroup stream that arrives in pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import MalformedError, ProtocolViolation, StateError
from laps_wire.moqt.data.subgroup import SubgroupParser, SubgroupWriter, read_subgroup_stream
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    OBJECT_END,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    SubgroupHeader,
    TruncatedStreamError,
)
from laps_wire.moqt.versions import Draft
from testkit.foreign import draft16_vectors, foreign
from testkit.moqt_data import (
    DRAFTS,
    chunkings,
    cut,
    damaged,
    events_of,
    own_vectors,
    plain,
    run,
    subgroup_streams,
)
from testkit.properties import check_bounded

D16, D18 = Draft.D16, Draft.D18


def field_by_field(data: bytes, draft: Draft) -> list[Any] | None:
    """What the reader that traces makes of a whole stream; None for what it refuses."""
    try:
        header, objects = read_subgroup_stream(Reader(data, integers=draft.integers), draft)
    except (ProtocolViolation, ObjectTooLargeError):
        return None
    return [header, *events_of(objects)]


def check_all_ways(data: bytes, draft: Draft, cuts: list[int]) -> None:
    """At once, cut, byte by byte and field by field: always the same."""
    events, fault = run(SubgroupParser(draft), [data])
    assert run(SubgroupParser(draft), cut(data, cuts)) == (events, fault)
    assert run(SubgroupParser(draft), cut(data, range(1, len(data)))) == (events, fault)
    assert field_by_field(data, draft) == (events if fault is None else None)
    assert fault is None or issubclass(fault, ProtocolViolation | ObjectTooLargeError)


@given(st.data())
def test_chunks_do_not_matter(data: st.DataObject) -> None:
    draft = data.draw(DRAFTS)
    header, objects, encoded = data.draw(subgroup_streams(draft))
    assert run(SubgroupParser(draft), [encoded]) == ([header, *events_of(objects)], None)
    check_all_ways(encoded, draft, data.draw(chunkings(len(encoded))))


@given(st.data())
def test_chunks_do_not_matter_for_faults(data: st.DataObject) -> None:
    draft = data.draw(DRAFTS)
    _, _, encoded = data.draw(subgroup_streams(draft))
    broken = data.draw(damaged(encoded))
    check_all_ways(broken, draft, data.draw(chunkings(len(broken))))


@given(DRAFTS, st.binary(max_size=60), st.data())
def test_any_bytes(draft: Draft, data: bytes, more: st.DataObject) -> None:
    # Most random bytes stop at the type: half of them get a good one.
    if more.draw(st.booleans()):
        data = bytes([more.draw(st.sampled_from([0x10, 0x11, 0x32, 0x35]))]) + data
    check_all_ways(data, draft, more.draw(chunkings(len(data))))
    check_bounded(lambda given: (SubgroupParser(draft).feed(given), 0), data)


@pytest.mark.parametrize("vector", own_vectors("subgroup"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    check_all_ways(data, D18, [len(data) // 2])
    assert (run(SubgroupParser(D18), [data])[1] is None) == ("error" not in vector)


@foreign
def test_draft_16_vectors() -> None:
    for vector in draft16_vectors("data-streams/subgroup.json"):
        check_all_ways(bytes.fromhex(vector["hex"]), D16, [3])


def test_payloads_are_slices_of_the_chunk() -> None:
    data = bytes.fromhex("300102 0004") + b"abcd" + b"\x00\x02ef"
    events = SubgroupParser(D16).feed(data)
    pieces = [event for event in events if isinstance(event, memoryview)]
    assert [piece.tobytes() for piece in pieces] == [b"abcd", b"ef"]
    assert all(piece.obj is data for piece in pieces)
    assert [type(event) for event in events[1:]] == [
        ObjectHeader,
        memoryview,
        type(OBJECT_END),
    ] * 2


def test_a_payload_comes_as_it_arrives() -> None:
    parser = SubgroupParser(D16)
    begin = ObjectHeader(2, 0, 0, None, 4)
    header = SubgroupHeader(1, 2)
    assert parser.feed(b"\x30\x01") == []
    assert parser.feed(b"\x02\x00\x04") == [header, begin]
    assert parser.feed(b"") == []
    assert plain(parser.feed(b"a", [begin]))[1:] == [b"a"]
    assert plain(parser.feed(bytearray(b"bc"), [begin]))[1:] == [b"bc"]
    assert parser.feed(memoryview(b"d\x00\x01e")) == [
        b"d",
        OBJECT_END,
        begin._replace(object_id=1, payload_length=1),
        b"e",
        OBJECT_END,
    ]
    assert (parser.header, parser.object_id, parser.ended) == (header, 1, False)
    parser.finish()


@pytest.mark.parametrize("draft", list(Draft))
@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 16383, 16384, 2**21])
def test_every_size_of_payload_length(draft: Draft, size: int) -> None:
    writer = SubgroupWriter(SubgroupHeader(1, 2), draft)
    data = writer.start + writer.object(0, bytes(size)) + writer.object(1, b"x")
    events, fault = run(SubgroupParser(draft), cut(data, [4, 5, 6, len(data) - 2]))
    assert fault is None
    headers = [event for event in events if isinstance(event, ObjectHeader)]
    assert [header.payload_length for header in headers] == [size, 1]


def test_the_longest_header() -> None:
    # Every integer in nine bytes, which vi64 allows for any value.
    nine = [b"\xff" + value.to_bytes(8, "big") for value in (0x14, 2**64 - 1, 2**64 - 2, 2**64 - 3)]
    data = b"".join(nine) + b"\x80"
    expected = SubgroupHeader(2**64 - 1, 2**64 - 2, 2**64 - 3, 128)
    assert SubgroupParser(D18).feed(data) == [expected]
    check_all_ways(data + b"\x00\x01x", D18, [len(data) - 1])


def test_the_first_object_names_the_subgroup_for_all() -> None:
    events = SubgroupParser(D16).feed(bytes.fromhex("320100 0701aa 0001bb"))
    headers = [event for event in events if isinstance(event, ObjectHeader)]
    assert [header.subgroup_id for header in headers] == [7, 7]


def test_the_end_is_remembered_across_chunks() -> None:
    parser = SubgroupParser(D16)
    parser.feed(bytes.fromhex("300102 000004"))
    assert parser.ended
    with pytest.raises(ProtocolViolation, match="follows the end that object 0 announced"):
        parser.feed(b"\x00")


def test_long_extensions_arrive_in_pieces() -> None:
    writer = SubgroupWriter(SubgroupHeader(1, 2, has_extensions=True), D18)
    extensions = bytes(range(256)) * 20
    data = writer.start + writer.object(0, b"p", extensions=extensions)
    for step in (1, 50, 64, 65, 1000):
        events, fault = run(SubgroupParser(D18), cut(data, range(step, len(data), step)))
        assert fault is None
        assert events[1].extensions == extensions
        assert events[2:] == [b"p", OBJECT_END]


@pytest.mark.parametrize("draft", list(Draft))
def test_extensions_over_the_limit_are_refused_at_once(draft: Draft) -> None:
    encode = draft.integers.encode
    start = bytes.fromhex("310102 00")
    SubgroupParser(draft).feed(start + encode(MAX_EXTENSIONS_SIZE))
    # The limit is ours and not the drafts': no PROTOCOL_VIOLATION.
    with pytest.raises(ObjectTooLargeError, match="over the limit of 131072") as caught:
        SubgroupParser(draft).feed(start + encode(MAX_EXTENSIONS_SIZE + 1))
    assert caught.value.size == MAX_EXTENSIONS_SIZE + 1


@pytest.mark.parametrize("draft", list(Draft))
def test_object_ids_stay_in_range(draft: Draft) -> None:
    start = b"\x30\x01\x02" + draft.integers.encode(draft.integers.max_value) + b"\x00\x00"
    assert len(SubgroupParser(draft).feed(start)) == 3
    with pytest.raises(MalformedError, match="too large"):
        SubgroupParser(draft).feed(start + b"\x00\x01")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "in the middle of a header"),
        ("3001", "in the middle of a header"),
        ("300102 00", "in the middle of a header"),
        ("300102 0004 6162", "2 bytes before the end of an object"),
        ("300102 0004", "4 bytes before the end of an object"),
        ("300102 0000", "in the middle of a header"),
    ],
)
def test_a_fin_in_the_middle_is_a_violation(data: str, reason: str) -> None:
    parser = SubgroupParser(D16)
    parser.feed(bytes.fromhex(data))
    with pytest.raises(TruncatedStreamError, match=reason):
        parser.finish()
    with pytest.raises(StateError):
        parser.finish()


def test_after_a_fault_nothing_is_taken() -> None:
    parser = SubgroupParser(D16)
    kept: list[Any] = []
    with pytest.raises(ProtocolViolation, match="0x9 is not one of"):
        parser.feed(bytes.fromhex("300102 000161 000009"), kept)
    # What was good before the fault is not lost.
    assert plain(kept) == [
        SubgroupHeader(1, 2),
        ObjectHeader(2, 0, 0, None, 1),
        b"a",
        OBJECT_END,
    ]
    with pytest.raises(StateError):
        parser.feed(b"")
    with pytest.raises(StateError):
        parser.finish()


def test_a_status_is_read_from_the_wire() -> None:
    for value, status in ((0, ObjectStatus.NORMAL), (3, ObjectStatus.END_OF_GROUP)):
        events = SubgroupParser(D16).feed(bytes.fromhex("300102 0000") + bytes([value]))
        assert events[1:] == [ObjectHeader(2, 0, 0, None, 0, status), OBJECT_END]
