"""Strategies for the field codecs and messages of laps-2, and its vectors as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import testkit.names  # noqa: F401 - registers the strategies of names and node IDs
from laps_wire.buffer import QUIC, IntegerCoding
from laps_wire.fields import U64, Layout
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import FINGERPRINT_BYTES, AnnounceKind, DataKind
from laps_wire.peering.laps2.fields import Ascending, Bits, Maybe, Parameters, ParametersCodec
from laps_wire.peering.laps2.forwarding import DataHeader, encode_extensions
from laps_wire.peering.laps2.handshake import Connect, ConnectResponse
from laps_wire.peering.laps2.information import AnnounceInfo, Degrees, NodeSignature
from laps_wire.peering.laps2.messages import LAYOUTS, UnknownMessage
from testkit import strategies
from testkit.strategies import register, values_of, varints


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


@register(Degrees)
def _(codec: Degrees, integers: IntegerCoding) -> SearchStrategy[float]:
    return st.floats(-codec.limit, codec.limit)


@register(ParametersCodec)
def _(codec: ParametersCodec, integers: IntegerCoding) -> SearchStrategy[Parameters]:
    return parameters()


# Structures whose fields depend on each other: drawn as they must be, not until they happen to fit.


def _node_signatures(codec: Layout[Any]) -> SearchStrategy[NodeSignature]:
    fingerprint = st.just(b"") | st.binary(min_size=FINGERPRINT_BYTES, max_size=FINGERPRINT_BYTES)
    signed = st.builds(NodeSignature, varints().filter(bool), fingerprint, st.binary(max_size=8))
    return st.builds(NodeSignature, st.just(0), fingerprint) | signed


def _announces(codec: Layout[Any]) -> SearchStrategy[AnnounceInfo]:
    table = dict(codec.table)

    def build(drawn: tuple[Any, ...], kind: AnnounceKind, name: FullTrackName | None) -> Any:
        source, stamp, hashes, name_hash, full_name_hash, rest = drawn
        if name is not None:
            hashes = tuple(range(len(name.namespace.fields)))
            if kind is AnnounceKind.NAMESPACE:
                name = FullTrackName(name.namespace, b"")
        if kind is AnnounceKind.NAMESPACE:
            name_hash = None
        return AnnounceInfo(source, stamp, kind, hashes, name_hash, full_name_hash, name, rest)

    drawn = st.tuples(
        values_of(table["source"]),
        values_of(table["stamp"]),
        values_of(table["element_hashes"]),
        values_of(U64),
        values_of(U64),
        parameters(),
    )
    return st.builds(build, drawn, st.sampled_from(AnnounceKind), values_of(table["plaintext"]))


def _speaking_for_itself(codec: Layout[Any]) -> SearchStrategy[Any]:
    def strategy(name: str, field: Any) -> SearchStrategy[Any]:
        drawn = values_of(field)
        return drawn.map(lambda info: replace(info, path=())) if name == "node_info" else drawn

    return st.builds(codec.cls, *(strategy(name, field) for name, field in codec.table))


_SPECIAL: dict[type, Callable[[Layout[Any]], SearchStrategy[Any]]] = {
    NodeSignature: _node_signatures,
    AnnounceInfo: _announces,
    Connect: _speaking_for_itself,
    ConnectResponse: _speaking_for_itself,
}
_any_layout = strategies._MAKERS[Layout]


@register(Layout)
def _(codec: Layout[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    special = _SPECIAL.get(codec.cls)
    return special(codec) if special else _any_layout(codec, integers)


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
