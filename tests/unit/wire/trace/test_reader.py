"""The tracing reader: reads as its base does, and remembers.

The tree of a traced read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import VI64, Reader, Writer
from laps_wire.errors import IncompleteError, MalformedError
from laps_wire.trace.reader import Node, Record, TracingReader, join


def seen(reader: TracingReader) -> list[tuple[str, int, int, object]]:
    return [(path, leaf.start, leaf.end, leaf.value) for path, leaf in reader.record.root.leaves()]


def test_every_kind_of_read_is_a_leaf() -> None:
    writer = Writer()
    writer.u8(1, "")
    writer.u16(2, "")
    writer.u32(3, "")
    writer.u64(4, "")
    writer.f64(0.5, "")
    writer.varint(300, "")
    writer.prefixed(b"ab", "", 9)
    writer.raw(b"cdefg")
    reader = TracingReader(writer.getvalue())
    assert reader.u8("a") == 1
    assert reader.u16("b") == 2
    assert reader.u32("c") == 3
    assert reader.u64("d") == 4
    assert reader.f64("e") == 0.5
    assert reader.varint("f") == 300
    assert reader.prefixed("g", 9) == b"ab"
    assert reader.take(1, "h") == b"c"
    assert bytes(reader.view(1, "i")) == b"d"
    assert bytes(reader.peek_rest()) == b"efg"
    assert reader.rest("j") == b"efg"
    assert seen(reader) == [
        ("a", 0, 1, 1),
        ("b", 1, 3, 2),
        ("c", 3, 7, 3),
        ("d", 7, 15, 4),
        ("e", 15, 23, 0.5),
        ("f", 23, 25, 300),
        ("g.length", 25, 26, 2),
        ("g", 26, 28, b"ab"),
        ("h", 28, 29, b"c"),
        ("i", 29, 30, b"d"),
        ("j", 30, 33, b"efg"),
    ]


@given(st.binary(max_size=40), st.lists(st.integers(0, 8), max_size=12), st.booleans())
def test_it_reads_what_its_base_reads(data: bytes, choices: list[int], partial: bool) -> None:
    """Same values, same errors, same position, whatever is asked."""

    def run(reader: Reader) -> list[object]:
        reads: list[Callable[[], object]] = [
            lambda: reader.u8("x"),
            lambda: reader.u16("x"),
            lambda: reader.u32("x"),
            lambda: reader.u64("x"),
            lambda: repr(reader.f64("x")),
            lambda: reader.varint("x"),
            lambda: reader.prefixed("x", 5),
            lambda: reader.take(3, "x"),
            lambda: reader.expect_end("x"),
        ]
        found: list[object] = []
        try:
            found.extend(reads[choice]() for choice in choices)
        except (IncompleteError, MalformedError) as error:
            # The trace tells the length before bytes from the bytes; the rest is the same.
            found.append(str(error).replace("x.length", "x"))
        return [*found, reader.pos]

    assert run(TracingReader(data, partial=partial)) == run(Reader(data, partial=partial))


def test_parts_share_the_record() -> None:
    reader = TracingReader(b"\x01\x02\x03\x04", integers=VI64)
    reader.enter("whole")
    part = reader.sub(2, "part")
    assert part.integers is VI64
    part.enter("part")
    part.u16("x")
    part.leave()
    reader.u16("y")
    reader.leave()
    assert seen(reader) == [("whole.part.x", 0, 2, 0x102), ("whole.y", 2, 4, 0x304)]


def test_a_part_that_is_cut_is_read_as_far_as_it_goes() -> None:
    reader = TracingReader(b"\x01\x02", partial=True)
    part = reader.sub(5, "part")
    assert reader.record.missing == 3
    assert reader.at_end
    assert part.u8("a") == 1
    with pytest.raises(IncompleteError):
        part.u16("b")
    assert reader.record.ended == ("b", 1, 2)
    assert seen(reader) == [("a", 0, 1, 1)]


def test_a_part_that_is_there_to_the_last_byte_is_strict() -> None:
    reader = TracingReader(b"\x01\x02", partial=True)
    part = reader.sub(2, "part")
    assert (part.partial, reader.record.missing) == (False, 0)
    with pytest.raises(MalformedError, match="x: truncated"):
        part.u32("x")
    assert TracingReader(b"\x02ab").prefixed("at the limit", 2) == b"ab"


def test_a_part_that_lies_about_itself_is_refused() -> None:
    reader = TracingReader(b"\x01\x02")
    with pytest.raises(MalformedError, match="part: truncated"):
        reader.sub(5, "part")
    assert reader.record.missing == 0


def test_it_remembers_where_bytes_ran_out_or_were_left_over() -> None:
    reader = TracingReader(b"\x01\x02\x03", partial=True)
    reader.u8("a")
    with pytest.raises(IncompleteError):
        reader.u64("b")
    assert reader.record.ended == ("b", 1, 3)
    reader = TracingReader(b"\x01\x02\x03")
    reader.u8("a")
    with pytest.raises(MalformedError, match="2 byte"):
        reader.expect_end("MESSAGE")
    assert reader.record.ended == ("MESSAGE", 1, 3)
    reader = TracingReader(b"")
    reader.expect_end("MESSAGE")
    assert reader.record.ended is None


def test_a_length_over_the_limit_is_still_seen() -> None:
    reader = TracingReader(b"\x09abc")
    with pytest.raises(MalformedError, match="name: length 9 is over the limit of 4") as caught:
        reader.prefixed("name", 4)
    assert caught.value.offset == 0
    assert seen(reader) == [("name.length", 0, 1, 9)]


def test_the_next_message_has_a_record_of_its_own() -> None:
    reader = TracingReader(b"\x01\x02")
    reader.u8("a")
    first = reader.record
    reader.restart()
    reader.u8("b")
    assert reader.record is not first
    assert seen(reader) == [("b", 1, 2, 2)]
    assert reader.record.root.start == 1


def test_another_coding_for_the_rest() -> None:
    data = b"\x01" + VI64.encode(2**63)
    reader = TracingReader(data, partial=True)
    reader.u8("a")
    inner = reader.recoded(VI64)
    assert inner.partial
    assert inner.varint("b") == 2**63
    assert reader.at_end
    assert [path for path, *_ in seen(reader)] == ["a", "b"]


# The tree


def shape(node: Node) -> object:
    """A node as nested data."""
    if node.children is None:
        return (node.label, node.start, node.end, node.value)
    return [node.label, node.start, node.end, *map(shape, node.children)]


def test_leaves_and_composites() -> None:
    record = Record.start(3)
    record.leaf("a", 3, 4, 1)
    record.enter("b", 4)
    record.leaf("c", 4, 6, 2)
    record.enter("[0]", 6)
    record.leaf("d", 6, 6, b"")
    assert record.path == "b[0]"
    record.leave()
    record.leave()
    record.leaf("e", 6, 7, 3)
    assert shape(record.root) == [
        "",
        3,
        7,
        ("a", 3, 4, 1),
        ["b", 4, 6, ("c", 4, 6, 2), ["[0]", 6, 6, ("d", 6, 6, b"")]],
        ("e", 6, 7, 3),
    ]
    assert [(path, leaf.value) for path, leaf in record.root.leaves()] == [
        ("a", 1),
        ("b.c", 2),
        ("b[0].d", b""),
        ("e", 3),
    ]
    assert record.path == ""


def test_leaving_more_than_was_entered_does_no_harm() -> None:
    record = Record.start(0)
    record.leave()
    record.leaf("a", 0, 1, 1)
    assert shape(record.root) == ["", 0, 1, ("a", 0, 1, 1)]


def test_what_is_read_again_counts_the_last_time() -> None:
    record = Record.start(0)
    record.leaf("keep", 0, 1, 1)
    record.leaf("type", 1, 2, 1)
    record.leaf("length", 2, 4, 1)
    record.enter("MESSAGE", 1)  # went back to 1
    record.leaf("type", 1, 2, 2)
    record.leave()
    record.leaf("x", 2, 3, 9)
    record.leaf("y", 2, 4, 8)  # and again, inside one composite
    assert shape(record.root) == [
        "",
        0,
        4,
        ("keep", 0, 1, 1),
        ["MESSAGE", 1, 2, ("type", 1, 2, 2)],
        ("y", 2, 4, 8),
    ]


def test_paths() -> None:
    assert join("", "a") == "a"
    assert join("a", "b") == "a.b"
    assert join("a", "[1]") == "a[1]"
    assert join("", "[1]") == "[1]"


def test_moving() -> None:
    node = Node("a", 0, 3, children=[Node("b", 0, 1, 1), Node("c", 1, 3, children=[])])
    node.move(10)
    assert shape(node) == ["a", 10, 13, ("b", 10, 11, 1), ["c", 11, 13]]


def test_a_leaf_is_its_own_leaf() -> None:
    leaf = Node("a", 0, 1, 7)
    assert leaf.is_leaf
    assert list(leaf.leaves()) == [("a", leaf)]
