"""Strategies for names, node IDs and what else the name modules put into tables."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.buffer import IntegerCoding
from laps_wire.names import FullTrackName, FullTrackNameCodec, Namespace, NamespaceCodec
from laps_wire.nodeid import NodeId, NodeIdCodec
from laps_wire.quicr.shortname import BITS, ShortName
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


def short_names(length: SearchStrategy[int] | None = None) -> SearchStrategy[ShortName]:
    """Short names of any length; few distinct bits, so that prefixes of each other are common."""
    lengths = st.one_of(st.integers(0, 8), st.integers(0, BITS)) if length is None else length
    values = st.one_of(
        st.integers(0, (1 << BITS) - 1), st.integers(0, 255).map(lambda top: top << (BITS - 8))
    )
    return st.builds(lambda value, size: ShortName(value).prefix(size), values, lengths)
