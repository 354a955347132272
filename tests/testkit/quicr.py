"""Strategies for QuicR's field codecs, messages and datagram header; its byte vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.buffer import IntegerCoding
from laps_wire.quicr import (
    LAYOUTS,
    RESERVED_DATAGRAM_STREAM_ID,
    DatagramHeader,
    Flags,
    Message,
    MessageType,
    Response,
    SubscribeIntent,
    fields,
)
from laps_wire.quicr.shortname import ShortName
from testkit.strategies import SHORT, register, values_of, varints

full_names: SearchStrategy[ShortName] = st.integers(0, 2**128 - 1).map(ShortName)


@st.composite
def short_names(draw: st.DrawFn) -> ShortName:
    """Names and wildcards, the lengths at the edges of bytes often."""
    length = draw(st.one_of(st.integers(0, 128), st.sampled_from([0, 1, 8, 84, 127, 128])))
    return draw(full_names).prefix(length)


stream_ids: SearchStrategy[int] = varints().filter(
    lambda number: number != RESERVED_DATAGRAM_STREAM_ID
)


@register(fields.Number128)
@register(fields.CountedName)
def _(codec: Any, integers: IntegerCoding) -> SearchStrategy[ShortName]:
    return full_names


@register(fields.Prefix)
@register(fields.MaskedName)
def _(codec: Any, integers: IntegerCoding) -> SearchStrategy[ShortName]:
    return short_names()


@register(fields.VarBool)
def _(codec: fields.VarBool, integers: IntegerCoding) -> SearchStrategy[bool]:
    return st.booleans()


@register(fields.FlagsByte)
def _(codec: fields.FlagsByte, integers: IntegerCoding) -> SearchStrategy[Flags]:
    return st.integers(0, 255).map(Flags)


@register(fields.DatagramStreamId)
def _(codec: fields.DatagramStreamId, integers: IntegerCoding) -> SearchStrategy[int]:
    return stream_ids


@register(fields.Accept)
def _(codec: fields.Accept, integers: IntegerCoding) -> SearchStrategy[int | None]:
    return st.none() | stream_ids


@register(fields.Optional)
def _(codec: fields.Optional, integers: IntegerCoding) -> SearchStrategy[int | None]:
    return st.none() | values_of(codec.item, integers)


@register(fields.WordsOrEnd)
def _(codec: fields.WordsOrEnd, integers: IntegerCoding) -> SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=SHORT)


messages: SearchStrategy[Message] = st.one_of([values_of(layout) for layout in LAYOUTS.values()])
"""Any control message."""


@st.composite
def datagram_headers(draw: st.DrawFn) -> DatagramHeader:
    """Headers with and without the count of the group before."""
    object_id = draw(st.just(0) | varints())
    offset_and_fin = draw(st.integers(0, 3) | varints())
    first = object_id == 0 and offset_and_fin < 2
    return DatagramHeader(
        draw(stream_ids),
        draw(varints()),
        object_id,
        offset_and_fin,
        draw(varints()),
        Flags(draw(st.integers(0, 255))),
        draw(varints()) if first else None,
    )


# The byte vectors of tests/vectors/quicr.json


def _field(name: str, value: Any) -> Any:
    """A field's value from its form in JSON."""
    match name, value:
        case "name", str():
            return ShortName.parse(value)
        case (("names" | "names_success" | "names_fail"), list()):
            return tuple(ShortName.parse(item) for item in value)
        case "data", str():
            return bytes.fromhex(value)
        case "intent", str():
            return SubscribeIntent[value]
        case "response", str():
            return Response[value]
        case "flags", int():
            return Flags(value)
    return value


def message_of(vector: dict[str, Any], kind: MessageType) -> Any:
    """The message that a vector describes."""
    values = {name: _field(name, value) for name, value in vector["fields"].items()}
    return LAYOUTS[kind].cls(**values)


VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "quicr.json").read_text(encoding="utf-8")
)
