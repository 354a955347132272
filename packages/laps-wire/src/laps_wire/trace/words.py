"""Names for numbers, by the end of a field's path: ``PROOF.mode``, with ``[]`` for any index.

A whole message names most of its values itself (:mod:`laps_wire.trace.annotate`). These words are
for the rest: for the fields of a message that broke off, whose names are read off its table, and
for open fields (error codes, features, flags), which are plain integers in the message because
others than the known ones are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from laps_wire.fields import Choice
from laps_wire.layout import Array, Layout, Many
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
from laps_wire.quicr.control import LAYOUTS as QUICR_LAYOUTS
from laps_wire.trace.tree import Node

__all__ = ["CPP", "LAPS2", "MOQT", "QUICR", "Words", "apply_words"]

Words = Mapping[str, Callable[[int], str]]
"""The end of a path to a function that names a number, or gives an empty text."""

_INDEX: Final = re.compile(r"\[\d+\]")


def apply_words(root: Node, words: Words) -> None:
    """Name the numbers of a tree that have no note yet."""
    for path, leaf in root.leaves():
        if leaf.note or type(leaf.value) is not int:
            continue
        parts = _INDEX.sub("[]", path).split(".")
        # The longest end first: CONNECT_REFUSED.code before code.
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
    """The names that the tables of messages know: members of enumerations, and node ids."""
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
