"""Strategies for the field codecs and messages of laps-2, and its vectors as plain values."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import testkit.names  # noqa: F401 - registers the strategies of names and node IDs
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import DataKind
from laps_wire.peering.laps2.data import DataHeader, encode_extensions
from laps_wire.peering.laps2.fields import Ascending, Bits, Maybe, Words
from laps_wire.peering.laps2.framing import UnknownMessage
from laps_wire.peering.laps2.messages import LAYOUTS
from laps_wire.peering.laps2.node import Degrees
from laps_wire.peering.laps2.parameters import Parameters, ParametersCodec
from laps_wire.varint import QUIC, IntegerCoding
from testkit.strategies import SHORT, register, values_of, varints


@register(Maybe)
def _(codec: Maybe[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return st.none() | values_of(codec.value, integers)


@register(Ascending)
def _(codec: Ascending[Any], integers: IntegerCoding) -> SearchStrategy[tuple[Any, ...]]:
    members = st.lists(
        values_of(codec.item, integers), unique=True, min_size=codec.minimum, max_size=4
    )
    return members.map(lambda drawn: tuple(sorted(drawn)))


@register(Bits)
def _(codec: Bits[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return st.integers(1, codec.mask).map(codec.flags)


@register(Words)
def _(codec: Words, integers: IntegerCoding) -> SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=min(codec.limit // 4, SHORT))


@register(Degrees)
def _(codec: Degrees, integers: IntegerCoding) -> SearchStrategy[float]:
    return st.floats(-codec.limit, codec.limit)


@register(ParametersCodec)
def _(codec: ParametersCodec, integers: IntegerCoding) -> SearchStrategy[Parameters]:
    return parameters()


def parameters() -> SearchStrategy[Parameters]:
    """Parameter lists of any ids, known or not."""
    entries = st.dictionaries(varints(QUIC), st.binary(max_size=8), max_size=3)
    return entries.map(lambda drawn: Parameters(tuple(sorted(drawn.items()))))


def messages() -> SearchStrategy[Any]:
    """Any message, also of an unknown odd type."""
    known = st.sampled_from(list(LAYOUTS.values())).flatmap(values_of)
    numbers = st.integers(0x20, 2**61 - 1).map(lambda half: half * 2 + 1)
    return known | st.builds(UnknownMessage, numbers, st.binary(max_size=24))


def data_headers() -> SearchStrategy[DataHeader]:
    """Data headers with and without extensions."""
    u32 = st.integers(0, 2**32 - 1)
    u8 = st.integers(0, 255)
    return st.builds(
        DataHeader,
        kind=st.sampled_from(DataKind),
        sns_id=u32,
        track=st.integers(0, 2**64 - 1),
        context=u32,
        priority=u8,
        ttl_ms=u32,
        payload_format=u8,
        flags=st.integers(0, 15),
        extensions=st.just(b"") | parameters().map(encode_extensions),
    )


def plain(value: Any) -> Any:
    """A message as JSON has it: what tests/vectors/laps2.json is compared with."""
    if isinstance(value, Parameters):
        return [[identifier, data.hex()] for identifier, data in value]
    if isinstance(value, NodeId):
        return str(value)
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, int) and value >= 2**53:
        return f"{value:#018x}"  # JSON numbers are doubles for many readers
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, DataHeader):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def vectors() -> dict[str, Any]:
    """The shared test vectors."""
    path = Path(__file__).parents[1] / "vectors" / "laps2.json"
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def named(kind: str) -> list[Any]:
    """One kind of vector as pytest parameters with their names."""
    return [pytest.param(vector, id=vector["name"]) for vector in vectors()[kind]]
