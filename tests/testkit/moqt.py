"""Strategies for MoQT control messages, and a plain form of messages for byte vectors."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import testkit.names  # noqa: F401 - registers the strategies for names
from laps_wire.buffer import IntegerCoding
from laps_wire.fields import Layout
from laps_wire.moqt import control, keyvalue, setup, structures
from laps_wire.moqt.codepoints import AliasType, FilterType, RequestErrorCode
from laps_wire.moqt.control import message_name
from laps_wire.moqt.keyvalue import (
    KeyValue,
    KeyValues,
    KeyValuesCodec,
    PrefixedKeyValues,
    sorted_pairs,
)
from laps_wire.moqt.messages import RequestError
from laps_wire.moqt.parameters import Parameters, ParametersCodec, TrackPropertiesCodec, entries_of
from laps_wire.moqt.setup import SetupOptions, SetupOptionsCodec
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.strategies import SHORT, register, values_of, varints

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load_vectors(name: str) -> list[dict[str, Any]]:
    """The byte vectors of ``tests/vectors/moqt/<name>.json``."""
    data = json.loads((VECTORS / "moqt" / f"{name}.json").read_text(encoding="utf-8"))
    vectors: list[dict[str, Any]] = data["vectors"]
    return vectors


# A plain form, to compare with JSON


def plain(value: Any) -> Any:
    """``value`` as JSON would have it; what a parameter set or token leaves out is left out."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, FullTrackName):
        return [plain(value.namespace), value.name.decode()]
    if isinstance(value, Namespace):
        return [field.decode() for field in value.fields]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, structures.FetchTarget):
        return {type(value).__name__: _attributes(value)}
    if isinstance(value, Parameters | SetupOptions | Token):
        return {name: item for name, item in _attributes(value).items() if item not in (None, [])}
    if is_dataclass(value):
        return _attributes(value)
    return value


def _attributes(value: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def plain_message(message: Any) -> dict[str, Any]:
    """A message as the vectors have it."""
    return {"message": message_name(type(message))} | _attributes(message)


# Key-Value-Pairs


def pairs(
    integers: IntegerCoding, types: SearchStrategy[int] | None = None
) -> SearchStrategy[KeyValues]:
    """Pairs in ascending order of type, some types twice."""

    def value(type_: int) -> SearchStrategy[KeyValue]:
        values = st.binary(max_size=SHORT) if type_ & 1 else varints(integers)
        return values.map(lambda drawn: KeyValue(type_, drawn))

    drawn = varints(integers) if types is None else types
    return st.lists(drawn.flatmap(value), max_size=5).map(sorted_pairs)


@register(KeyValuesCodec)
def _(codec: KeyValuesCodec, integers: IntegerCoding) -> SearchStrategy[KeyValues]:
    return pairs(integers)


@register(PrefixedKeyValues)
def _(codec: PrefixedKeyValues, integers: IntegerCoding) -> SearchStrategy[KeyValues]:
    return pairs(integers)


@register(TrackPropertiesCodec)
def _(codec: TrackPropertiesCodec, integers: IntegerCoding) -> SearchStrategy[KeyValues]:
    # Types with a range apart, so that their values can be drawn inside it.
    ranged = st.one_of(
        st.tuples(st.just(0x02), st.integers(1, 9999)),
        st.tuples(st.just(0x0E), st.integers(0, 255)),
        st.tuples(st.just(0x22), st.integers(1, 2)),
        st.tuples(st.just(0x30), st.integers(0, 1)),
    ).map(lambda pair: KeyValue(*pair))
    free = varints(integers).filter(lambda type_: type_ not in (0x02, 0x0E, 0x22, 0x30))
    return st.tuples(st.lists(ranged, max_size=3), pairs(integers, free)).map(
        lambda both: sorted_pairs([*both[0], *both[1]])
    )


# Structures


@register(structures.LocationCodec)
def _(codec: structures.LocationCodec, integers: IntegerCoding) -> SearchStrategy[Location]:
    return st.builds(Location, varints(integers), varints(integers))


@register(structures.FilterCodec)
def _(codec: structures.FilterCodec, integers: IntegerCoding) -> SearchStrategy[Any]:
    start = values_of(structures.LOCATION, integers)
    return st.one_of(
        st.sampled_from([FilterType.NEXT_GROUP_START, FilterType.LARGEST_OBJECT]).map(
            SubscriptionFilter
        ),
        start.map(lambda at: SubscriptionFilter(FilterType.ABSOLUTE_START, at)),
        start.flatmap(
            lambda at: st.integers(at.group, integers.max_value).map(
                lambda end: SubscriptionFilter(FilterType.ABSOLUTE_RANGE, at, end)
            )
        ),
    )


@register(structures.TokenCodec)
def _(codec: structures.TokenCodec, integers: IntegerCoding) -> SearchStrategy[Token]:
    number, value = varints(integers), st.binary(max_size=SHORT)
    return st.one_of(
        st.builds(Token.delete, number),
        st.builds(Token.use_alias, number),
        st.builds(Token.register, number, number, value),
        st.builds(Token.use_value, number, value),
    )


@register(structures.FetchTargetCodec)
def _(codec: structures.FetchTargetCodec, integers: IntegerCoding) -> SearchStrategy[Any]:
    location, number = values_of(structures.LOCATION, integers), varints(integers)
    return st.one_of(
        st.builds(structures.StandaloneFetch, values_of(codec.track), location, location),
        st.builds(structures.RelativeJoiningFetch, number, number),
        st.builds(structures.AbsoluteJoiningFetch, number, number),
    )


# Typed values, parameters and options


@register(keyvalue.Flag)
def _(codec: keyvalue.Flag, integers: IntegerCoding) -> SearchStrategy[bool]:
    return st.booleans()


@register(keyvalue.Enclosed)
def _(codec: keyvalue.Enclosed[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return values_of(codec.inner, integers)


def entry_values(
    entries: list[keyvalue.Entry], integers: IntegerCoding
) -> SearchStrategy[dict[str, Any]]:
    """Some of the entries, as attributes."""
    drawn: dict[str, SearchStrategy[Any]] = {}
    for entry in entries:
        values = values_of(entry.codec, integers)
        many = st.lists(values, min_size=1, max_size=3).map(tuple)
        drawn[entry.attribute] = many if entry.repeats else values
    return st.fixed_dictionaries({}, optional=drawn)


@register(ParametersCodec)
def _(codec: ParametersCodec, integers: IntegerCoding) -> SearchStrategy[Parameters]:
    allowed = entries_of(codec.draft, codec.scope)
    ignored: SearchStrategy[KeyValues] = st.just(())
    if codec.draft is Draft.D16:
        known = {0x02, 0x03, 0x08, 0x09, 0x10, 0x20, 0x21, 0x22, 0x32} | codec.extensions
        ignored = pairs(integers, st.sampled_from(sorted(known - allowed.keys())))
    return st.builds(
        lambda values, others: Parameters(**values, ignored=others),
        entry_values(list(allowed.values()), integers),
        ignored,
    )


@register(setup.UriPart)
def _(codec: setup.UriPart, integers: IntegerCoding) -> SearchStrategy[str]:
    # Short texts of the right letters, and those of them that have the form.
    texts = st.text("/:@?.a1%2F[]", max_size=6)
    good = ["", "/", "/moq?a=1", "example.com:443", "[::1]", "user@host"]
    return st.one_of(st.sampled_from(good), texts).filter(
        lambda text: codec.pattern.fullmatch(text) is not None
    )


@register(setup.WordsToEnd)
def _(codec: setup.WordsToEnd, integers: IntegerCoding) -> SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=SHORT)


@register(SetupOptionsCodec)
def _(codec: SetupOptionsCodec, integers: IntegerCoding) -> SearchStrategy[SetupOptions]:
    entries = setup.entries_of(codec.draft)
    unknown = varints(integers).filter(lambda type_: type_ not in entries)
    options = st.builds(
        lambda values, others: SetupOptions(**values, unknown=others),
        entry_values(list(entries.values()), integers),
        pairs(integers, unknown),
    )
    if not codec.from_client:
        return options
    by_alias = (AliasType.DELETE, AliasType.USE_ALIAS)
    return options.filter(
        lambda drawn: all(t.alias_type not in by_alias for t in drawn.authorization_tokens)
    )


# Layouts


@register(control.Absent)
def _(codec: control.Absent[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return st.just(codec.default)


@register(control.Needed)
def _(codec: control.Needed[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return values_of(codec.codec, integers)


@register(control.Trailing)
def _(codec: control.Trailing[Any], integers: IntegerCoding) -> SearchStrategy[Any]:
    return st.one_of(st.none(), values_of(codec.codec, integers))


@register(control.RequestErrorLayout)
def _(codec: control.RequestErrorLayout, integers: IntegerCoding) -> SearchStrategy[RequestError]:
    code, interval = varints(integers), varints(integers)
    reason = values_of(structures.REASON)
    plain_code = code.filter(lambda drawn: drawn != RequestErrorCode.REDIRECT)
    redirect: Layout[Any] = structures.REDIRECT
    return st.one_of(
        st.builds(RequestError, st.none(), plain_code, interval, reason),
        st.builds(
            RequestError,
            st.none(),
            st.just(int(RequestErrorCode.REDIRECT)),
            interval,
            reason,
            values_of(redirect, integers),
        ),
    )


# Strategies are costly to make and cheap to draw from, so each is made once.


@cache
def message_values(entry: control.MessageLayout, draft: Draft) -> SearchStrategy[Any]:
    """Messages of one row of a draft's table."""
    return values_of(entry.layout, draft.integers)


@cache
def messages(draft: Draft) -> SearchStrategy[Any]:
    """Any message of ``draft``."""
    return st.one_of([message_values(entry, draft) for entry in control.layouts_of(draft)])


@cache
def parameter_values(codec: ParametersCodec) -> SearchStrategy[Parameters]:
    """Parameters that one message may carry."""
    return values_of(codec, codec.draft.integers)


@cache
def option_values(codec: SetupOptionsCodec) -> SearchStrategy[SetupOptions]:
    """Setup options."""
    return values_of(codec, codec.draft.integers)
