"""Hypothesis strategies derived from the wire tables: ``values_of(codec)``.

A table says what is legal on the wire, so the strategy for a message is read off its table and can
not drift from it. A package with its own field codecs registers one function for each::

    @strategies.register(MyCodec)
    def _(codec: MyCodec, integers: IntegerCoding) -> SearchStrategy[MyValue]: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire import fields
from laps_wire.buffer import QUIC, IntegerCoding

Maker = Callable[[Any, IntegerCoding], SearchStrategy[Any]]
_MAKERS: dict[type, Maker] = {}

#: Bytes and arrays stay short so that a message fits a test's budget; limits have their own tests.
SHORT = 24


def register(codec_type: type) -> Callable[[Maker], Maker]:
    """Say how values for ``codec_type`` are drawn."""

    def keep(maker: Maker) -> Maker:
        _MAKERS[codec_type] = maker
        return maker

    return keep


def values_of(codec: Any, integers: IntegerCoding = QUIC) -> SearchStrategy[Any]:
    """Draw values that ``codec`` can write, with integers in the range of ``integers``."""
    for codec_type in type(codec).__mro__:
        if codec_type in _MAKERS:
            return _MAKERS[codec_type](codec, integers)
    raise LookupError(f"no strategy is registered for {type(codec).__name__}")


def varints(integers: IntegerCoding = QUIC) -> SearchStrategy[int]:
    """Integers of every encoded size, the edges of each size often."""
    edges = [0, 63, 64, 127, 128, 16383, 16384, 2**30 - 1, 2**30, 2**62 - 1, 2**64 - 1]
    return st.one_of(
        st.integers(0, 200),
        st.sampled_from([edge for edge in edges if edge <= integers.max_value]),
        st.integers(0, integers.max_value),
    )


@register(fields.UInt)
def _(codec: fields.UInt, integers: IntegerCoding) -> SearchStrategy[int]:
    return st.integers(0, 2**codec.bits - 1)


@register(fields.VarInt)
def _(codec: fields.VarInt, integers: IntegerCoding) -> SearchStrategy[int]:
    return varints(integers)


@register(fields.Double)
def _(codec: fields.Double, integers: IntegerCoding) -> SearchStrategy[float]:
    return st.floats(allow_nan=False)


@register(fields.Bool8)
def _(codec: fields.Bool8, integers: IntegerCoding) -> SearchStrategy[bool]:
    return st.booleans()


@register(fields.Choice)
def _(codec: fields.Choice[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return st.sampled_from(list(codec.enum.__members__.values()))


@register(fields.Constrained)
def _(codec: fields.Constrained, integers: IntegerCoding) -> SearchStrategy[int]:
    return st.integers(codec.minimum, codec.maximum)


@register(fields.Fixed)
def _(codec: fields.Fixed, integers: IntegerCoding) -> SearchStrategy[bytes]:
    return st.binary(min_size=codec.size, max_size=codec.size)


@register(fields.Prefixed)
def _(codec: fields.Prefixed, integers: IntegerCoding) -> SearchStrategy[bytes]:
    return st.binary(max_size=min(codec.limit, SHORT))


@register(fields.Text)
def _(codec: fields.Text, integers: IntegerCoding) -> SearchStrategy[str]:
    # At most four bytes a character, and no lone surrogates: they are not text.
    return st.text(st.characters(codec="utf-8"), max_size=min(codec.limit // 4, SHORT))


@register(fields.Words)
def _(codec: fields.Words, integers: IntegerCoding) -> SearchStrategy[str]:
    return values_of(fields.Text(codec.limit), integers)


@register(fields.Rest)
def _(codec: fields.Rest, integers: IntegerCoding) -> SearchStrategy[bytes]:
    return st.binary(max_size=SHORT)


@register(fields.Array)
def _(codec: fields.Array[Any], integers: IntegerCoding) -> SearchStrategy[tuple[Any, ...]]:
    items = values_of(codec.item, integers)
    return st.lists(items, max_size=min(codec.limit, 4)).map(tuple)


@register(fields.Many)
def _(codec: fields.Many[Any], integers: IntegerCoding) -> SearchStrategy[tuple[Any, ...]]:
    items = values_of(codec.item, integers)
    return st.lists(items, max_size=min(codec.limit, 4)).map(tuple)


@register(fields.Layout)
def _(codec: fields.Layout[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    def build(values: tuple[Any, ...]) -> Any:
        try:
            return codec.cls(*values)
        except ValueError:
            return None  # a combination that the dataclass refuses

    drawn = st.tuples(*(values_of(field, integers) for _, field in codec.table))
    return drawn.map(build).filter(lambda message: message is not None)
