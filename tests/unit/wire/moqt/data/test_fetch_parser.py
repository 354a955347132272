"""A fetch stream that arrives in pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.fetch import (
    FetchParser,
    FetchState,
    decode_fetch_header,
    read_fetch_stream,
)
from laps_wire.moqt.data.types import (
    OBJECT_END,
    MalformedTrackError,
    ObjectHeader,
    ObjectTooLargeError,
    RangeEnd,
    RangeKind,
    TruncatedStreamError,
)
from laps_wire.moqt.versions import Draft
from testkit.moqt_data import (
    DRAFTS,
    chunkings,
    cut,
    damaged,
    encode_fetch,
    events_of,
    fetch_items,
    own_vectors,
    run,
)
from testkit.properties import check_bounded

UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING
ORDERS = st.sampled_from([UP, DOWN])


def check_all_ways(
    body: bytes, draft: Draft, order: GroupOrder, cuts: list[int], *, range_length: bool = True
) -> type | None:
    """At once, cut, byte by byte and field by field: always the same."""

    def parse(chunks: list[bytes]) -> tuple[list[Any], type | None]:
        return run(FetchParser(draft, order, range_length=range_length), chunks)

    events, fault = parse([body])
    assert parse(cut(body, cuts)) == (events, fault)
    assert parse(cut(body, range(1, len(body)))) == (events, fault)
    state = FetchState(draft, order, range_length=range_length)
    try:
        _, items = read_fetch_stream(Reader(b"\x05\x00" + body, integers=draft.integers), state)
    except RemoteError:
        assert fault is not None
    else:
        assert (events, fault) == (events_of(items), None)
    return fault


@given(st.data(), DRAFTS, ORDERS)
def test_chunks_do_not_matter(data: st.DataObject, draft: Draft, order: GroupOrder) -> None:
    items = data.draw(fetch_items(draft, order))
    _, body = encode_fetch(items, draft, order)
    assert run(FetchParser(draft, order), [body]) == (events_of(items), None)
    check_all_ways(body, draft, order, data.draw(chunkings(len(body))))


@given(st.data(), DRAFTS, ORDERS)
def test_chunks_do_not_matter_for_faults(
    data: st.DataObject, draft: Draft, order: GroupOrder
) -> None:
    items = data.draw(fetch_items(draft, order))
    _, body = encode_fetch(items, draft, order)
    broken = data.draw(damaged(body))
    fault = check_all_ways(broken, draft, order, data.draw(chunkings(len(broken))))
    assert fault is None or issubclass(
        fault, ProtocolViolation | MalformedTrackError | ObjectTooLargeError
    )


@given(DRAFTS, ORDERS, st.binary(max_size=60), st.data())
def test_any_bytes(draft: Draft, order: GroupOrder, data: bytes, more: st.DataObject) -> None:
    check_all_ways(data, draft, order, more.draw(chunkings(len(data))))
    check_bounded(lambda given: (FetchParser(draft, order).feed(given), 0), data)


@pytest.mark.parametrize("vector", own_vectors("fetch"))
def test_draft_18_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    _, used = decode_fetch_header(data, Draft.D18)
    fault = check_all_ways(
        data[used:],
        Draft.D18,
        DOWN if vector.get("descending") else UP,
        [used],
        range_length=vector.get("range_length", True),
    )
    assert (fault is None) == ("error" not in vector)


def test_payloads_are_slices_of_the_chunk() -> None:
    data = bytes.fromhex("1c0507800461626364")
    events = FetchParser(Draft.D16).feed(data)
    assert events == [ObjectHeader(5, 7, 0, 128, 4), b"abcd", OBJECT_END]
    assert isinstance(events[1], memoryview)
    assert events[1].obj is data


def test_ranges_and_empty_objects_have_no_payload() -> None:
    parser = FetchParser(Draft.D16)
    assert parser.feed(bytes.fromhex("408c050a00 1c050b80")) == [
        RangeEnd(RangeKind.NON_EXISTENT, 5, 10)
    ]
    assert parser.feed(b"\x00") == [ObjectHeader(5, 11, 0, 128, 0), OBJECT_END]
    parser.finish()


def test_a_response_without_objects_is_one() -> None:
    FetchParser(Draft.D18).finish()


@pytest.mark.parametrize("data", ["1c", "1c050780", "1c0507800461", "408c05", "408c050a"])
def test_a_fin_in_the_middle_is_a_violation(data: str) -> None:
    parser = FetchParser(Draft.D16)
    parser.feed(bytes.fromhex(data))
    with pytest.raises(TruncatedStreamError):
        parser.finish()


def test_without_lengths_a_range_ends_with_its_object_id() -> None:
    parser = FetchParser(Draft.D16, range_length=False)
    parser.feed(bytes.fromhex("408c050a"))
    parser.finish()


def test_the_order_decides_what_a_group_distance_means() -> None:
    data = bytes.fromhex("1c05008000 0c010000")
    for order, group_id in ((UP, 7), (DOWN, 3)):
        events = FetchParser(Draft.D18, order).feed(data)
        assert events[2] == ObjectHeader(group_id, 0, 0, 128, 0)
