"""The tree of a traced read."""

from __future__ import annotations

from laps_wire.trace.tree import Node, Record, join


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
