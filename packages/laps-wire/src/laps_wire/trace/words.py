"""Names for numbers that messages keep as numbers, because others than the known ones are allowed.

A message whose field must be a member of an enumeration has the name itself. Open fields (error
codes, features, authentication schemes) are plain integers there, and flags are single bits; their
names are here, by the end of the field's path, with ``[]`` for any index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from laps_wire.moqt.codepoints import (
    ObjectStatus,
    PublishDoneCodeD16,
    PublishDoneCodeD18,
    RequestErrorCode,
)
from laps_wire.moqt.data import datagram, fetch, subgroup
from laps_wire.moqt.data.types import RangeKind
from laps_wire.moqt.versions import Draft
from laps_wire.peering.cpp.codepoints import ConnectError, DataType
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2.codepoints import (
    AuthScheme,
    DataKind,
    Feature,
    ParameterId,
    PayloadFormat,
    SnsRefusal,
    SubscribeCode,
)
from laps_wire.trace.tree import Node

__all__ = ["CPP", "LAPS2", "MOQT", "Words", "apply_words"]

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
    }


MOQT: Final[Mapping[Draft, Words]] = {draft: _moqt(draft) for draft in Draft}


# Peering


def _version(value: int) -> str:
    return f"{value >> 8}.{value & 0xFF}"


def _kind_and_flags(value: int) -> str:
    overlap = "|OVERLAP" if value & 0x1 else ""
    return f"{_member(DataKind)(value >> 4)}{overlap}"


LAPS2: Final[Words] = {
    **MOQT[Draft.D16],
    "versions[]": _version,
    "CHALLENGE.version": _version,
    "features[]": _member(Feature),
    "schemes[]": _member(AuthScheme),
    "scheme": _member(AuthScheme),
    "parameters.id": _member(ParameterId),
    "CONNECT_REFUSED.code": _member(CloseCode),
    "SUBSCRIBE_RESPONSE.code": _member(SubscribeCode),
    "SNS_REFUSED.code": _member(SnsRefusal),
    "DATA_HEADER.kind and flags": _kind_and_flags,
    "DATA_HEADER.format": _member(PayloadFormat),
}

CPP: Final[Words] = {
    **MOQT[Draft.D16],
    "CONNECT_RESPONSE.error": _member(ConnectError),
    "ANNOUNCE_INFO_ADVERTISED.info.flags": lambda value: "NAMESPACE" if value & 1 else "TRACK",
    "ANNOUNCE_INFO_WITHDRAWN.info.flags": lambda value: "NAMESPACE" if value & 1 else "TRACK",
    "STREAM_HEADER.type": _member(DataType),
    "DATAGRAM_HEADER.type": _member(DataType),
}
