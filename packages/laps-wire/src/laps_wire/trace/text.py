"""A decoding as text: a tree with offsets and bytes, and a finger on what is wrong.

::

    laps-2: NODE_WITHDRAW, 12 bytes
       0  0b                       type: 11 (NODE_WITHDRAW)
       1  0a                       length: 10
       2                           NODE_WITHDRAW
       2  00 00 00 01 00 00 00 02    node_id: 0x100000002 (0.1:0.2)
      10  41                         sequence: 1
          ^^ bad: NODE_WITHDRAW.sequence: truncated: 1 more byte(s) needed, 1 left

Offsets are decimal, as in error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from laps_wire.telemetry.privacy import safe_text
from laps_wire.trace.decode import Decoded, Fault, Status, Traced
from laps_wire.trace.tree import Node
from laps_wire.trace.values import COLUMN, bytes_column, show_value

__all__ = ["PLAIN", "Paint", "paint_ansi", "render", "render_fields"]

Paint = Callable[[str, str], str]
"""``paint(role, text)``: a text in the colours of its role."""

MAX_REASON: Final = 400
"""How many characters of an error's reason are shown."""

_WIDTH: Final = COLUMN * 3 - 1
_COLOURS: Final = {
    "offset": "2",
    "bytes": "36",
    "name": "1",
    "bad": "1;31",
    "dim": "2",
    "left": "33",
    "right": "35",
}


def PLAIN(role: str, text: str) -> str:  # noqa: ARG001, N802 - a constant that happens to be called
    """No colours."""
    return text


def paint_ansi(role: str, text: str) -> str:
    """The colours of a terminal."""
    return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if text else text


def render(decoded: Decoded, paint: Paint = PLAIN) -> Iterator[str]:
    """The lines of a decoding, message by message, and its fault."""
    last = len(decoded.messages) - 1
    for index, traced in enumerate(decoded.messages):
        fault = decoded.fault if index == last else None
        if index:
            yield ""
        yield _heading(decoded, traced, fault, paint)
        rows = _Rows(decoded.data, paint)
        for child in traced.root.children or ():
            yield from rows.node(child, 0)
        if fault is not None:
            yield from rows.fault(fault, traced.root.end)
    if not decoded.messages and decoded.fault is not None:
        yield paint("bad", f"{decoded.protocol.name}: {decoded.fault}")


def _heading(decoded: Decoded, traced: Traced, fault: Fault | None, paint: Paint) -> str:
    start = traced.root.start
    name = paint("name", safe_text(traced.name))
    at = f" at {start}" if start else ""
    if fault is None:
        return f"{decoded.protocol.name}: {name}, {traced.root.end - start} bytes{at}"
    state = "cut off" if fault.status is Status.INCOMPLETE else "bad"
    return f"{decoded.protocol.name}: {name}{at}, {paint('bad', state)}"


class _Rows:
    """Writes rows of one message; remembers the last leaf, for the caret to stand under it."""

    def __init__(self, data: bytes, paint: Paint) -> None:
        self.data = data
        self.paint = paint
        self.last: Node | None = None
        self.digits = max(4, len(str(len(data))))

    def node(self, node: Node, depth: int, parent: str = "") -> Iterator[str]:
        """A leaf's row, or a composite's and those of its children."""
        indent = "  " * depth
        label = safe_text(node.label)
        if node.children is None:
            self.last = node
            words = f"{indent}{label}: {_value(node, parent)}"
            yield self.row(node.start, bytes_column(self.data[node.start : node.end]), words)
            return
        words = f" ({safe_text(node.note)})" if node.note else ""
        yield self.row(node.start, "", f"{indent}{self.paint('name', label)}{words}")
        for child in node.children:
            yield from self.node(child, depth + 1, node.label)

    def row(self, offset: int, shown: str, words: str) -> str:
        """Offset, bytes, words."""
        left = self.paint("offset", f"{offset:>{self.digits}}")
        column = self.paint("bytes", shown) + " " * (_WIDTH - len(shown))
        return f"{left}  {column}  {words}".rstrip()

    def fault(self, fault: Fault, read_to: int) -> Iterator[str]:
        """The bytes that are wrong with carets under them, the reason, and what was not read."""
        region = self.data[fault.offset : fault.end]
        if self.last is None or self.last.start != fault.offset or not region:
            yield self.row(fault.offset, bytes_column(region), "" if region else "(end of input)")
        else:
            region = self.data[self.last.start : self.last.end]
        carets = "^" * len(bytes_column(region)) or "^"
        state = "incomplete" if fault.status is Status.INCOMPLETE else "bad"
        reason = self.paint("bad", f"{carets} {state}: {safe_text(str(fault), MAX_REASON)}")
        yield f"{'':{self.digits}}  {reason}"
        rest = len(self.data) - max(fault.end, read_to)
        if rest > 0:
            yield self.row(len(self.data) - rest, "", self.paint("dim", f"{rest} byte(s) not read"))


def _value(node: Node, parent: str) -> str:
    """A leaf's value; an item of a list is shown as what the list is called."""
    label = parent if node.label.startswith("[") else node.label
    return show_value(label, node.value, node.note)


# Only the fields, for conversations

_FRAME_LABELS: Final = frozenset({"length", "count", "header_len"})
_FRAME_ENDS: Final = (".length", ".count", ".present", " length")


def render_fields(traced: Traced) -> Iterator[str]:
    """What a message says, without offsets, bytes, lengths and counts."""
    children = traced.root.children or []
    bodies = [child for child in children if not child.is_leaf]
    # Behind a frame (type, length) stands one composite, which the heading names already.
    if len(bodies) == 1 and bodies[0] is children[-1]:
        children = bodies[0].children or []
    for child in children:
        yield from _fields(child, 0)


def _fields(node: Node, depth: int, parent: str = "") -> Iterator[str]:
    indent = "  " * depth
    label = safe_text(node.label)
    if node.children is None:
        if label not in _FRAME_LABELS and not label.endswith(_FRAME_ENDS):
            yield f"{indent}{label}: {_value(node, parent)}"
        return
    inside = [line for child in node.children for line in _fields(child, depth + 1, node.label)]
    if inside:
        words = f" ({safe_text(node.note)})" if node.note else ""
        yield f"{indent}{label}{words}"
        yield from inside
