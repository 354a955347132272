"""What values mean: names of code points and texts of identifiers, from the message itself.

A reader sees numbers. The message that was made of them knows more: an attribute may be a member
of an enumeration, a node id or a name. The tree's labels are the attributes' names, so the two are
laid over each other and each leaf gets the words of its attribute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, Flag
from typing import Any, Final

from laps_wire.trace.tree import Node

__all__ = ["annotate"]

_INDEX: Final = re.compile(r"(.*)\[(\d+)\]")
_TYPE_LABELS: Final = frozenset({"type", "message type", "message_type"})
# What a leaf's value shows by itself.
_PLAIN: Final = (int, float, bytes, str, bool, type(None), tuple, list, memoryview)


def annotate(root: Node, message: Any) -> None:
    """Write notes on the leaves of ``root`` from what ``message`` says about them."""
    _name_the_type(root)
    if message is not None:
        _walk(root, message, is_top=True)


def _name_the_type(root: Node) -> None:
    """The number that says which message this is means the composite that follows."""
    kind = None
    for child in root.children or ():
        if child.is_leaf:
            kind = child if child.label in _TYPE_LABELS else kind
        elif kind is not None:
            kind.note = child.label
            return


def _walk(node: Node, value: Any, *, is_top: bool = False) -> None:
    for child in node.children or ():
        found, item = _look_up(value, child.label)
        if child.is_leaf:
            if found and not child.note:
                _explain(child, item)
        elif is_top or not found:
            # What stands at the top is the message, whatever attribute has the same name; and a
            # composite that is no attribute is a part of its frame.
            _walk(child, value)
        elif not isinstance(item, bytes):
            # What is bytes in the message was opened, and explained, by somebody else.
            _walk(child, item)


def _explain(leaf: Node, item: Any) -> None:
    """Put what the message says beside what the bytes say, unless the two contradict."""
    if isinstance(leaf.value, bytes) and isinstance(item, int):
        # The C++ relay's little-endian numbers: only their codec knows that they are numbers.
        if int.from_bytes(leaf.value, "little") != item:
            return
        leaf.value = int(item)
    if isinstance(item, int) and leaf.value != item:
        # A message may hold the sum of deltas, or a list in another order than it came.
        return
    words = _words(item)
    leaf.note = "" if words == str(leaf.value) else words


def _look_up(value: Any, label: str) -> tuple[bool, Any]:
    """The attribute or item that a label names, and whether there is one."""
    if match := _INDEX.fullmatch(label):
        if match.group(1):
            found, value = _look_up(value, match.group(1))
            if not found:
                return False, None
        index = int(match.group(2))
        if isinstance(value, Sequence) and not isinstance(value, bytes) and index < len(value):
            return True, value[index]
        return False, None
    name = label.replace(" ", "_").lower()
    if name.isidentifier() and not name.startswith("_") and hasattr(value, name):
        item = getattr(value, name)
        return not callable(item), item
    return False, None


def _words(item: Any) -> str:
    """What a value is called, where that is more than the value."""
    if isinstance(item, Flag):
        return item.name or ""
    if isinstance(item, Enum):
        return item.name
    return "" if type(item) in _PLAIN else str(item)
