"""Strategies and vectors for the C++ relay's peering messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import testkit.names  # noqa: F401 - registers the strategies for names and node IDs
from laps_wire.buffer import IntegerCoding
from laps_wire.names import NAMESPACE_PREFIX, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.messages import (
    LAYOUTS,
    NODE_INFO,
    IfAccepted,
    Incoming,
    LittleEndian64,
    LittleEndianNodeId,
    NodeInfo,
    NodeSet,
    ShortNamespace,
    UnknownMessage,
)
from testkit.strategies import register, values_of

VECTORS: dict[str, list[dict[str, str]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "laps-cpp.json").read_text()
)

U64S = st.integers(0, 2**64 - 1)


def live(name: str) -> bytes:
    """Bytes seen on the wire of a real C++ relay."""
    return next(bytes.fromhex(row["hex"]) for row in VECTORS["live"] if row["name"] == name)


def coded(name: str, build: str = "draft16") -> bytes:
    """Bytes that the C++ relay's own code writes."""
    return next(bytes.fromhex(row[build]) for row in VECTORS["code"] if row["name"] == name)


@register(LittleEndian64)
def _(codec: LittleEndian64, integers: IntegerCoding) -> SearchStrategy[int]:
    return U64S


@register(LittleEndianNodeId)
def _(codec: LittleEndianNodeId, integers: IntegerCoding) -> SearchStrategy[NodeId]:
    return U64S.map(NodeId)


@register(ShortNamespace)
def _(codec: ShortNamespace, integers: IntegerCoding) -> SearchStrategy[Namespace]:
    drawn: SearchStrategy[Namespace] = values_of(NAMESPACE_PREFIX)
    return drawn


@register(NodeSet)
def _(codec: NodeSet, integers: IntegerCoding) -> SearchStrategy[tuple[NodeId, ...]]:
    return st.sets(U64S, max_size=4).map(lambda ids: tuple(NodeId(it) for it in sorted(ids)))


@register(IfAccepted)
def _(codec: IfAccepted, integers: IntegerCoding) -> SearchStrategy[NodeInfo | None]:
    return st.none() | values_of(NODE_INFO, integers)


def messages() -> SearchStrategy[Incoming]:
    """Every kind of message, unknown ones too."""
    known: list[SearchStrategy[Any]] = [values_of(layout) for layout in LAYOUTS.values()]
    types = st.sampled_from([0, 3]) | st.integers(12, 0xFFFF)
    unknown = st.builds(UnknownMessage, types, st.binary(max_size=12))
    return st.one_of(*known, unknown)
