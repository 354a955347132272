"""What a traced read leaves behind: a tree of fields over the bytes that they were read from.

::

    bytes    01 00 04 00 00 00 07 72 65 6c 61 79 2d 61
             |  |---| |---------| |------------------|
    leaves   a  b     c           d                      every byte under one leaf, in order

    CONNECT
    ├── a
    ├── header          a composite: what was read between enter() and leave()
    │   ├── b
    │   └── c
    └── d
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Node", "Record"]


@dataclass(slots=True)
class Node:
    """A field: a leaf with a value, or a composite with children."""

    label: str
    start: int
    end: int
    value: Any = None
    """What a leaf's bytes mean: an integer, a float, or bytes."""
    note: str = ""
    """What the value means: the name of a code point, the text of a node id."""
    children: list[Node] | None = None
    """None for a leaf."""

    @property
    def is_leaf(self) -> bool:
        """Whether the field has bytes of its own."""
        return self.children is None

    def leaves(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Every leaf below, or this one, in the order of their bytes, with its path."""
        here = join(path, self.label)
        if self.children is None:
            yield here, self
            return
        for child in self.children:
            yield from child.leaves(here)

    def move(self, distance: int) -> None:
        """Shift all offsets: the bytes stand further on in a larger input."""
        self.start += distance
        self.end += distance
        for child in self.children or ():
            child.move(distance)


def join(path: str, label: str) -> str:
    """``a`` and ``b`` as ``a.b``, ``a`` and ``[0]`` as ``a[0]``."""
    return f"{path}{label}" if not path or label.startswith("[") else f"{path}.{label}"


@dataclass(slots=True)
class Record:
    """The growing tree of one message; shared by a reader and the readers of its parts."""

    root: Node
    open: list[Node] = field(init=False)
    """The composites that are being read, outermost first."""
    ended: tuple[str, int, int] | None = None
    """The field that had too few bytes, where it begins and where the bytes end, once it did."""
    missing: int = 0
    """How many bytes a part lacks that is read nevertheless, as far as it goes."""

    _trail: list[tuple[list[Node], Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open = [self.root]

    @classmethod
    def start(cls, pos: int) -> Record:
        """An empty record for what begins at ``pos``."""
        return cls(Node("", pos, pos, children=[]))

    @property
    def path(self) -> str:
        """Where the read is now."""
        path = ""
        for node in self.open:
            path = join(path, node.label)
        return path

    def leaf(self, label: str, start: int, end: int, value: Any) -> None:
        """A field was read."""
        self._forget_from(start)
        self._add(Node(label, start, end, value))
        for node in self.open:
            node.end = max(node.end, end)

    def enter(self, label: str, pos: int) -> None:
        """A composite begins."""
        self._forget_from(pos)
        node = Node(label, pos, pos, children=[])
        self._add(node)
        self.open.append(node)

    def leave(self) -> None:
        """The innermost composite ends."""
        if len(self.open) > 1:
            self.open.pop()

    def _add(self, node: Node) -> None:
        siblings = self.open[-1].children
        if siblings is None:
            raise AssertionError("only composites are open")
        siblings.append(node)
        if node.is_leaf:
            self._trail.append((siblings, node))

    def _forget_from(self, pos: int) -> None:
        """A reader that looked ahead and went back reads bytes again: the last time counts."""
        while self._trail and self._trail[-1][1].end > pos:
            siblings, node = self._trail.pop()
            siblings[:] = [other for other in siblings if other is not node]
