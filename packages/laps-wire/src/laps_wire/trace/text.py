"""The output of a decoding: text with offsets and a mark at the fault, or JSON objects.

::

    laps-2: NODE_WITHDRAW, 12 bytes
       0  0b                       type: 11 (NODE_WITHDRAW)
       1  0a                       length: 10
       2                           NODE_WITHDRAW
       2  00 00 00 01 00 00 00 02    node_id: 0x100000002 (0.1:0.2)
      10  41                         sequence: 1
          ^^ bad: NODE_WITHDRAW.sequence: truncated: 1 more byte(s) needed, 1 left

Offsets are decimal, as in error messages. :func:`as_dicts` yields one object for each message, with
a flat list of fields and their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from laps_wire.telemetry.privacy import safe_text
from laps_wire.trace.decode import Decoded, Fault, Status, Traced
from laps_wire.trace.reader import Node

__all__ = [
    "PLAIN",
    "Paint",
    "as_dicts",
    "bytes_column",
    "fault_dict",
    "paint_ansi",
    "render",
    "render_fields",
    "show_value",
    "text_of",
]

# Values

MAX_SHOWN: Final = 24
"""The most bytes of a binary value that are shown."""

MAX_TEXT: Final = 60
"""The most characters of a text that are shown."""

COLUMN: Final = 8
"""The width of the bytes column, in bytes."""


def show_value(label: str, value: Any, note: str = "") -> str:
    """Return the text of a leaf's value and its note."""
    words = f" ({safe_text(note)})" if note else ""
    if isinstance(value, bytes):
        return f"{_show_bytes(value)}{words}"
    if isinstance(value, int) and value >= 1 << 32:
        if "hash" in label or label in {"track", "track alias"}:
            return f"{value:#018x}{words}"
        if note:
            return f"{value:#x}{words}"
        # Times are shown in decimal; larger numbers are IDs, shown in hexadecimal too.
        return f"{value}" if value < 1 << 53 else f"{value} = {value:#x}"
    if isinstance(value, int) and value > 9 and label.endswith(("type", "flags")):
        # Code points and bits are in hexadecimal in the specifications.
        return f"{value:#x}{words}"
    return f"{value}{words}"


def _show_bytes(value: bytes) -> str:
    if not value:
        return "(empty)"
    text = text_of(value)
    if text is not None:
        return f'"{text}"' if len(text) <= MAX_TEXT else f'"{text[: MAX_TEXT - 3]}..."'
    if len(value) <= MAX_SHOWN:
        return f"0x{value.hex()}"
    return f"0x{value[:MAX_SHOWN].hex()}... ({len(value)} bytes)"


def text_of(value: bytes) -> str | None:
    """Return bytes as text if they are printable ASCII, else None."""
    if not value.isascii():
        return None
    text = value.decode("ascii")
    return text if text.isprintable() else None


def bytes_column(data: bytes) -> str:
    """Return bytes in hexadecimal, cut to the width of the column."""
    if len(data) <= COLUMN:
        return data.hex(" ")
    return f"{data[: COLUMN - 1].hex(' ')} .."


# Text

Paint = Callable[[str, str], str]
"""``paint(role, text)`` returns a text in the colours of its role."""

MAX_REASON: Final = 400
"""The most characters of an error's reason that are shown."""

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


def PLAIN(role: str, text: str) -> str:  # noqa: ARG001, N802 - used as a constant
    """Return the text without colours."""
    return text


def paint_ansi(role: str, text: str) -> str:
    """Return the text in the colours of a terminal."""
    return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if text else text


def render(decoded: Decoded, paint: Paint = PLAIN) -> Iterator[str]:
    """Yield the lines of a decoding: each message, and the fault."""
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
    """The rows of one message; ``last`` is the last leaf, under which a caret is shown."""

    def __init__(self, data: bytes, paint: Paint) -> None:
        self.data = data
        self.paint = paint
        self.last: Node | None = None
        self.digits = max(4, len(str(len(data))))

    def node(self, node: Node, depth: int, parent: str = "") -> Iterator[str]:
        """Yield the row of a leaf, or the rows of a composite and its children."""
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
        """Return one row: offset, bytes, text."""
        left = self.paint("offset", f"{offset:>{self.digits}}")
        column = self.paint("bytes", shown) + " " * (_WIDTH - len(shown))
        return f"{left}  {column}  {words}".rstrip()

    def fault(self, fault: Fault, read_to: int) -> Iterator[str]:
        """Yield the faulty bytes with carets under them, the reason, and the unread rest."""
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
    """Return the text of a leaf's value; an item of a list uses the label of the list."""
    label = parent if node.label.startswith("[") else node.label
    return show_value(label, node.value, node.note)


# Only the fields, for conversations

_FRAME_LABELS: Final = frozenset({"length", "count", "header_len"})
_FRAME_ENDS: Final = (".length", ".count", ".present", " length")


def render_fields(traced: Traced) -> Iterator[str]:
    """Yield the fields of a message without offsets, bytes, lengths and counts."""
    children = traced.root.children or []
    bodies = [child for child in children if not child.is_leaf]
    # A frame (type, length) is followed by one composite, which the heading already names.
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


# JSON


def as_dicts(decoded: Decoded) -> Iterator[dict[str, Any]]:
    """Yield one object for each message; the last one has the fault, if any."""
    last = len(decoded.messages) - 1
    for index, traced in enumerate(decoded.messages):
        yield _message(decoded, traced, decoded.fault if index == last else None)
    if not decoded.messages and decoded.fault is not None:
        yield {"protocol": decoded.protocol.name, "error": fault_dict(decoded.fault)}


def _message(decoded: Decoded, traced: Traced, fault: Fault | None) -> dict[str, Any]:
    start, end = traced.root.start, traced.root.end
    plain: dict[str, Any] = {
        "protocol": decoded.protocol.name,
        "message": traced.name,
        "offset": start,
        "length": end - start,
        "fields": [_field(path, leaf, decoded.data) for path, leaf in traced.root.leaves()],
    }
    if fault is not None:
        plain["error"] = fault_dict(fault)
    return plain


def _field(path: str, leaf: Node, data: bytes) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": path,
        "offset": leaf.start,
        "length": leaf.end - leaf.start,
        "hex": data[leaf.start : leaf.end].hex(),
    }
    value = leaf.value
    if isinstance(value, bytes):
        text = text_of(value)
        if text is not None:
            plain["text"] = text
    elif isinstance(value, float) and (value != value or value in {float("inf"), -float("inf")}):  # noqa: PLR0124 - NaN
        plain["value"] = str(value)  # JSON has no such number
    else:
        plain["value"] = value
    if leaf.note:
        plain["note"] = leaf.note
    return plain


def fault_dict(fault: Fault) -> dict[str, Any]:
    """Return a fault as an object."""
    plain: dict[str, Any] = {
        "kind": "incomplete" if fault.status is Status.INCOMPLETE else "bad",
        "path": fault.path,
        "reason": fault.reason,
        "offset": fault.offset,
        "length": fault.end - fault.offset,
    }
    if fault.code is not None:
        plain["code"] = fault.code
    if fault.missing:
        plain["missing"] = fault.missing
    return plain
