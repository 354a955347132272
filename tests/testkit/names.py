"""Strategies for names, node IDs and what else the name modules put into tables."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.names import FullTrackName, FullTrackNameCodec, Namespace, NamespaceCodec
from laps_wire.nodeid import NodeId, NodeIdCodec
from laps_wire.varint import IntegerCoding
from testkit.strategies import register, values_of


@register(NamespaceCodec)
def _(codec: NamespaceCodec, integers: IntegerCoding) -> SearchStrategy[Namespace]:
    fields = st.lists(st.binary(min_size=1, max_size=12), min_size=codec.minimum, max_size=4)
    return fields.map(lambda drawn: Namespace(tuple(drawn)))


@register(FullTrackNameCodec)
def _(codec: FullTrackNameCodec, integers: IntegerCoding) -> SearchStrategy[FullTrackName]:
    return st.builds(FullTrackName, values_of(codec.namespace), st.binary(max_size=12))


@register(NodeIdCodec)
def _(codec: NodeIdCodec, integers: IntegerCoding) -> SearchStrategy[NodeId]:
    return st.integers(0, 2**64 - 1).map(NodeId)
