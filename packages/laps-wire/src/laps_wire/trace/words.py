"""Explanations of traced values: names of code points and texts of identifiers.

A reader sees only numbers, but the decoded message has types: an attribute may be an enumeration
member, a node ID or a name. Labels in the tree are attribute names, so :func:`annotate` looks up
each leaf in the message.

:func:`apply_words` names the remaining numbers by the end of their path: ``PROOF.mode``, with
``[]`` for any index. It covers the fields of a truncated message, whose names come from its table.
It also covers open fields (error codes, features, flags), which are plain integers in the message
because unknown values are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, Flag, IntEnum
from typing import Any, Final

from laps_wire.fields import Array, Choice, Layout, Many
from laps_wire.moqt.codepoints import (
    FetchType,
    GroupOrder,
    ObjectStatus,
    PublishDoneCodeD16,
    PublishDoneCodeD18,
    RequestErrorCode,
)
from laps_wire.moqt.data import datagram, fetch, subgroup
from laps_wire.moqt.data.types import RangeKind
from laps_wire.moqt.versions import Draft
from laps_wire.nodeid import NodeId, NodeIdCodec
from laps_wire.peering.cpp import messages as cpp
from laps_wire.peering.cpp.codepoints import ConnectError, DataType, MessageType
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import messages as laps2
from laps_wire.peering.laps2.codepoints import (
    AuthScheme,
    DataKind,
    Feature,
    ParameterId,
    PayloadFormat,
    SnsRefusal,
    SubscribeCode,
)
from laps_wire.peering.laps2.fields import Ascending, Maybe
from laps_wire.quicr.messages import LAYOUTS as QUICR_LAYOUTS
from laps_wire.trace.reader import Node

__all__ = ["CPP", "LAPS2", "MOQT", "QUICR", "Words", "annotate", "apply_words"]

# Notes from the message itself

_ITEM: Final = re.compile(r"(.*)\[(\d+)\]")
_TYPE_LABELS: Final = frozenset({"type", "message type", "message_type"})
# Types that need no note: the value itself is shown.
_PLAIN: Final = (int, float, bytes, str, bool, type(None), tuple, list, memoryview)


def annotate(root: Node, message: Any) -> None:
    """Set the notes of the leaves of ``root`` from the attributes of ``message``."""
    _name_the_type(root)
    if message is not None:
        _walk(root, message, is_top=True)


def _name_the_type(root: Node) -> None:
    """Set the note of the type field: the name of the composite that follows it."""
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
            # The top composite is the message itself, even if an attribute has the same name. A
            # composite that is not an attribute belongs to the frame.
            _walk(child, value)
        elif not isinstance(item, bytes):
            # Composites that are bytes in the message have notes already.
            _walk(child, item)


def _explain(leaf: Node, item: Any) -> None:
    """Set the note of a leaf from the message's value, unless the two values differ."""
    if isinstance(leaf.value, bytes) and isinstance(item, int):
        # Little-endian numbers of the C++ relay are read as bytes; the message has the number.
        if int.from_bytes(leaf.value, "little") != item:
            return
        leaf.value = int(item)
    if isinstance(item, int) and leaf.value != item:
        # A message may hold the sum of deltas, or a list in another order than received.
        return
    words = _words(item)
    leaf.note = "" if words == str(leaf.value) else words


def _look_up(value: Any, label: str) -> tuple[bool, Any]:
    """Return whether a label names an attribute or item, and its value."""
    if match := _ITEM.fullmatch(label):
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
    """Return the name or text of a value; empty if the value itself is sufficient."""
    if isinstance(item, Flag):
        return item.name or ""
    if isinstance(item, Enum):
        return item.name
    return "" if type(item) in _PLAIN else str(item)


# Names by path

Words = Mapping[str, Callable[[int], str]]
"""Functions by the end of a path; each returns the name of a number, or an empty text."""

_INDEX: Final = re.compile(r"\[\d+\]")


def apply_words(root: Node, words: Words) -> None:
    """Set the notes of integer leaves that have none yet."""
    for path, leaf in root.leaves():
        if leaf.note or type(leaf.value) is not int:
            continue
        parts = _INDEX.sub("[]", path).split(".")
        # The longest match first: CONNECT_REFUSED.code before code.
        for start in range(len(parts)):
            name = words.get(".".join(parts[start:]))
            if name is not None:
                leaf.note = name(leaf.value)
                break


def _member(enum: type[IntEnum]) -> Callable[[int], str]:
    names = {int(member): member.name for member in enum}
    return lambda value: names.get(value, "")


def _node_id(value: int) -> str:
    return str(NodeId(value))


def _of_tables(layouts: Mapping[Any, Layout[Any]]) -> dict[str, Callable[[int], str]]:
    """Return the names from the layouts of messages: enumeration members and node IDs."""
    found: dict[str, Callable[[int], str]] = {}
    for kind, layout in layouts.items():
        _visit(layout, kind.name, found)
    return found


def _visit(codec: object, path: str, found: dict[str, Callable[[int], str]]) -> None:
    match codec:
        case Layout():
            for name, inner in codec.table:
                _visit(inner, f"{path}.{name}", found)
        case Choice():
            found[path] = _member(codec.enum)
        case NodeIdCodec():
            found[path] = _node_id
        case Array() | Many() | Ascending():
            _visit(codec.item, f"{path}[]", found)
        case Maybe():
            _visit(codec.value, path, found)


def _bits(**masks: int) -> Callable[[int], str]:
    """The names of the bits that are set."""
    return lambda value: "|".join(name for name, mask in masks.items() if value & mask)


_SUBGROUP_ID: Final = {
    0x00: "SUBGROUP_ID_ZERO",
    0x02: "SUBGROUP_ID_IS_FIRST_OBJECT",
    0x04: "SUBGROUP_ID_PRESENT",
}
_SUBGROUP_BITS: Final = _bits(
    EXTENSIONS=subgroup.EXTENSIONS,
    END_OF_GROUP=subgroup.END_OF_GROUP,
    DEFAULT_PRIORITY=subgroup.DEFAULT_PRIORITY,
    FIRST_OBJECT=subgroup.FIRST_OBJECT,
)


def _subgroup_type(value: int) -> str:
    mode = _SUBGROUP_ID.get(value & subgroup.SUBGROUP_ID_MODE, "")
    return "|".join(filter(None, (mode, _SUBGROUP_BITS(value))))


_FETCH_SUBGROUP: Final = ("SUBGROUP_ZERO", "SUBGROUP_PRIOR", "SUBGROUP_NEXT", "SUBGROUP_PRESENT")
_FETCH_BITS: Final = _bits(
    OBJECT_ID=fetch.OBJECT_ID,
    GROUP_ID=fetch.GROUP_ID,
    PRIORITY=fetch.PRIORITY,
    EXTENSIONS=fetch.EXTENSIONS,
    DATAGRAM=fetch.DATAGRAM,
)


def _fetch_flags(value: int) -> str:
    if value >= fetch.FLAGS_END:
        return _member(RangeKind)(value)
    mode = "" if value & fetch.DATAGRAM else _FETCH_SUBGROUP[value & fetch.SUBGROUP_ID_MODE]
    return "|".join(filter(None, (mode, _FETCH_BITS(value))))


_DATAGRAM_TYPE: Final = _bits(
    EXTENSIONS=datagram.EXTENSIONS,
    END_OF_GROUP=datagram.END_OF_GROUP,
    ZERO_OBJECT_ID=datagram.ZERO_OBJECT_ID,
    DEFAULT_PRIORITY=datagram.DEFAULT_PRIORITY,
    STATUS=datagram.STATUS,
)


def _datagram_type(value: int) -> str:
    return "PADDING" if value == datagram.PADDING_DATAGRAM_TYPE else _DATAGRAM_TYPE(value)


def _moqt(draft: Draft) -> Words:
    done = PublishDoneCodeD16 if draft is Draft.D16 else PublishDoneCodeD18
    return {
        "error_code": _member(RequestErrorCode),
        "PUBLISH_DONE.status_code": _member(done),
        "object status": _member(ObjectStatus),
        "SUBGROUP_HEADER.type": _subgroup_type,
        "OBJECT_DATAGRAM.type": _datagram_type,
        "serialization flags": _fetch_flags,
        "GROUP_ORDER": _member(GroupOrder),
        "fetch_type": _member(FetchType),
    }


MOQT: Final[Mapping[Draft, Words]] = {draft: _moqt(draft) for draft in Draft}


# Peering


def _version(value: int) -> str:
    return f"{value >> 8}.{value & 0xFF}"


def _kind_and_flags(value: int) -> str:
    overlap = "|OVERLAP" if value & 0x1 else ""
    fetch = "|FETCH" if value & 0x2 else ""
    return f"{_member(DataKind)(value >> 4)}{overlap}{fetch}"


LAPS2: Final[Words] = {
    **MOQT[Draft.D16],
    **_of_tables(laps2.LAYOUTS),
    "versions[]": _version,
    "CHALLENGE.version": _version,
    "features[]": _member(Feature),
    "schemes[]": _member(AuthScheme),
    "scheme": _member(AuthScheme),
    "parameters.id": _member(ParameterId),
    "CONNECT_REFUSED.code": _member(CloseCode),
    "SUBSCRIBE_RESPONSE.code": _member(SubscribeCode),
    "FETCH_RESPONSE.code": _member(SubscribeCode),
    "SNS_REFUSED.code": _member(SnsRefusal),
    "DATA_HEADER.kind and flags": _kind_and_flags,
    "DATA_HEADER.format": _member(PayloadFormat),
}

CPP: Final[Words] = {
    **MOQT[Draft.D16],
    **_of_tables(cpp.LAYOUTS),
    **_of_tables({MessageType.CONNECT_RESPONSE: cpp.LAYOUTS[MessageType.CONNECT]}),
    "nodes[]": _node_id,
    "CONNECT_RESPONSE.error": _member(ConnectError),
    "ANNOUNCE_INFO_ADVERTISED.info.flags": lambda value: "NAMESPACE" if value & 1 else "TRACK",
    "ANNOUNCE_INFO_WITHDRAWN.info.flags": lambda value: "NAMESPACE" if value & 1 else "TRACK",
    "STREAM_HEADER.type": _member(DataType),
    "DATAGRAM_HEADER.type": _member(DataType),
}

# QuicR

QUICR: Final[Words] = _of_tables(QUICR_LAYOUTS)
