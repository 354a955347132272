"""Strategies for telemetry, read off the schema: ``bodies(cls)`` and ``events()``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.telemetry import BODIES, Event, MsHistogram, UnknownBody
from laps_wire.telemetry.schema import VERSION, DataType, StructSpec, struct_of

#: Any text, control characters too; half surrogates are not text.
texts = st.text(st.characters(codec="utf-8"), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), longs, doubles, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
#: Names that no version of ours uses.
extras = st.dictionaries(texts.map(lambda text: f"x-{text}"), json_values, max_size=2)

_SCALARS: dict[str, SearchStrategy[Any]] = {
    "string": texts,
    "long": longs,
    "double": doubles,
    "boolean": st.booleans(),
}


def values(kind: DataType) -> SearchStrategy[Any]:
    """Values that a column of this type can hold."""
    if kind.struct is not None:
        return structs(kind.struct)
    if kind.item is not None:
        item = values(kind.item)
        if kind.name == "array":
            return st.lists(item, max_size=3).map(tuple)
        return st.dictionaries(texts, item, max_size=3)
    return _SCALARS[kind.name]


def structs(spec: StructSpec) -> SearchStrategy[Any]:
    """Records of a dataclass, unknown fields included."""
    if spec.cls is MsHistogram:
        return histograms()
    drawn = {
        field.name: st.none() | values(field.type) if field.nullable else values(field.type)
        for field in spec.fields
    }
    return st.builds(spec.cls, **drawn, extra=extras)


def histograms() -> SearchStrategy[MsHistogram]:
    bounds = st.lists(doubles, max_size=5, unique=True).map(sorted).map(tuple)
    return bounds.flatmap(
        lambda given: st.builds(
            MsHistogram,
            st.just(given),
            st.lists(st.integers(0, 2**40), min_size=len(given) + 1, max_size=len(given) + 1).map(
                tuple
            ),
            doubles,
            st.none() | doubles,
            extra=extras,
        )
    )


def bodies(cls: type) -> SearchStrategy[Any]:
    """Bodies of one event type."""
    return structs(struct_of(cls))


unknown_bodies = st.builds(
    UnknownBody,
    texts.filter(lambda text: text not in BODIES),
    st.dictionaries(texts, json_values, max_size=3),
)


def events(body: SearchStrategy[Any]) -> SearchStrategy[Event]:
    """Events around a body, of this version and of a later one."""

    def build(
        body: Any, relay: str, boot: int, seq: int, version: str, rest: dict[str, Any]
    ) -> Event:
        kind = body.type if isinstance(body, UnknownBody) else body.TYPE
        return Event(
            v=version,
            event_id=f"{relay}:{boot}:{seq}",
            relay=relay,
            boot=boot,
            type=kind,
            body=body,
            **rest,
        )

    rest = st.fixed_dictionaries(
        {"ts_us": longs, "tenant": st.none() | texts, "region": st.none() | texts, "extra": extras}
    )
    versions = st.sampled_from([VERSION, "1.9999"])
    return st.builds(build, body, texts, longs, st.integers(0, 2**63), versions, rest)
