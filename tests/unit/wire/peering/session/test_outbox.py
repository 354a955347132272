"""The outbox: order, joining, waiting for a stream, and what a reset takes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_wire.peering.session.control_streams import Ending
from laps_wire.peering.session.events import ConnectionClose, StreamData, StreamEnd, Transmit
from laps_wire.peering.session.outbox import MAX_JOINED_BYTES, Outbox


def drain(outbox: Outbox) -> list[Transmit]:
    items = []
    while (item := outbox.poll()) is not None:
        items.append(item)
    return items


def test_messages_for_one_stream_are_joined() -> None:
    outbox = Outbox()
    for data in (b"ab", b"c", b"def"):
        outbox.put(0, data)
    assert outbox.is_filled
    assert drain(outbox) == [StreamData(0, b"abcdef")]
    assert outbox.poll() is None
    assert not outbox.is_filled


def test_messages_stay_single_for_a_peer_that_takes_one_at_a_time() -> None:
    outbox = Outbox(single=True)
    outbox.put(0, b"ab")
    outbox.put(0, b"c")
    assert drain(outbox) == [StreamData(0, b"ab", alone=True), StreamData(0, b"c", alone=True)]


def test_joining_stops_at_another_stream_and_at_an_end() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(4, b"b")
    outbox.put(4, b"c")
    outbox.end(4, Ending.FINISH)
    outbox.put(8, b"d")
    assert drain(outbox) == [
        StreamData(0, b"a"),
        StreamData(4, b"bc"),
        StreamEnd(4, Ending.FINISH),
        StreamData(8, b"d"),
    ]


def test_joining_is_bounded() -> None:
    outbox = Outbox()
    half = bytes(MAX_JOINED_BYTES // 2)
    for data in (half, half, b"x", bytes(MAX_JOINED_BYTES + 1), b"y"):
        outbox.put(0, data)
    sizes = [len(item.data) for item in drain(outbox) if isinstance(item, StreamData)]
    assert sizes == [MAX_JOINED_BYTES, 1, MAX_JOINED_BYTES + 1, 1]


def test_without_a_stream_messages_wait() -> None:
    outbox = Outbox()
    outbox.put(None, b"ab")
    outbox.put(None, b"c")
    assert outbox.waiting_bytes == 3
    assert outbox.poll() is None
    outbox.put(4, b"first")
    outbox.adopt(4)
    assert outbox.waiting_bytes == 0
    assert drain(outbox) == [StreamData(4, b"firstabc")]
    outbox.adopt(8)
    assert outbox.poll() is None  # it left once


def test_a_reset_takes_back_what_would_be_lost() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(4, b"other")
    outbox.put(0, b"b")
    outbox.end(0, Ending.RESET, 0x4C00)
    assert outbox.waiting_bytes == 2
    outbox.adopt(8)
    assert drain(outbox) == [
        StreamData(4, b"other"),
        StreamEnd(0, Ending.RESET, 0x4C00),
        StreamData(8, b"ab"),
    ]


def test_what_a_synchronisation_repeats_does_not_wait() -> None:
    outbox = Outbox()
    outbox.put(None, b"a", repeated=True)
    outbox.put(None, b"b")
    outbox.put(0, b"c", repeated=True)
    outbox.put(0, b"d")
    outbox.end(0, Ending.RESET)
    assert outbox.waiting_bytes == 2
    outbox.adopt(4)
    assert drain(outbox) == [StreamEnd(0, Ending.RESET), StreamData(4, b"bd")]
    outbox.put(4, b"e", repeated=True)
    outbox.put(4, b"f")
    assert drain(outbox) == [StreamData(4, b"ef")]


def test_a_finish_and_a_stop_leave_what_was_queued() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.end(0, Ending.STOP, 7)
    outbox.end(0, Ending.FINISH)
    assert drain(outbox) == [
        StreamData(0, b"a"),
        StreamEnd(0, Ending.STOP, 7),
        StreamEnd(0, Ending.FINISH),
    ]


def test_close_comes_last_and_what_waits_never_leaves() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(None, b"b")
    outbox.close(3, "why")
    assert outbox.waiting_bytes == 0
    outbox.adopt(4)
    assert drain(outbox) == [StreamData(0, b"a"), ConnectionClose(3, "why")]


def test_clear() -> None:
    outbox = Outbox()
    outbox.put(0, b"a")
    outbox.put(None, b"b")
    outbox.clear()
    assert outbox.waiting_bytes == 0
    outbox.adopt(4)
    assert outbox.poll() is None


@given(st.lists(st.tuples(st.sampled_from([0, 4]), st.binary(min_size=1, max_size=5))))
def test_no_byte_is_lost_or_moved(messages: list[tuple[int, bytes]]) -> None:
    outbox = Outbox()
    for stream_id, data in messages:
        outbox.put(stream_id, data)
    out: dict[int, bytes] = {0: b"", 4: b""}
    for item in drain(outbox):
        assert isinstance(item, StreamData)
        out[item.stream_id] += item.data
    for stream_id in (0, 4):
        assert out[stream_id] == b"".join(data for to, data in messages if to == stream_id)
