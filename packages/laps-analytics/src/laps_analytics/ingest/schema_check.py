"""Check whether a body fits the schema of its type, without reading each value in Python.

The *shape* of a body is the result of Spark's ``schema_of_variant``:

::

    OBJECT<drops: OBJECT<ttl: BIGINT>, objects: BIGINT, track: STRING, window_ms: BIGINT>

Events of one type have few shapes, so each shape is checked once, by the rules of ``laps_wire``.
:func:`is_whole` is a Spark expression for what a shape does not show, such as a null in an array or
the rules of a histogram.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from laps_wire.telemetry import BODIES, MAX_BUCKETS, MsHistogram
from laps_wire.telemetry.schema import DataType, StructSpec, struct_of

__all__ = ["is_whole", "shape_fits"]

_TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|[^<>,:`\s()]+|[<>,:()]")
_NUMBERS: Final = ("BIGINT", "DECIMAL", "DOUBLE", "FLOAT")


class _Shape:
    """A shape as a tree: a type name, the fields of an object, or the items of an array."""

    __slots__ = ("fields", "item", "name")

    def __init__(
        self, name: str, fields: dict[str, _Shape] | None = None, item: _Shape | None = None
    ) -> None:
        self.name = name
        self.fields = fields
        self.item = item


def _parse(text: str) -> _Shape:
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    return _parse_one(tokens)


def _parse_one(tokens: list[str]) -> _Shape:
    name = tokens.pop()
    if name == "OBJECT":
        fields: dict[str, _Shape] = {}
        tokens.pop()
        while tokens[-1] != ">":
            key = tokens.pop()
            if key.startswith("`"):
                key = key[1:-1].replace("``", "`")
            tokens.pop()
            fields[key] = _parse_one(tokens)
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return _Shape(name, fields=fields)
    if name == "ARRAY":
        tokens.pop()
        item = _parse_one(tokens)
        tokens.pop()
        return _Shape(name, item=item)
    if tokens and tokens[-1] == "(":
        while tokens.pop() != ")":
            pass
    return _Shape(name)


@cache
def shape_fits(event_type: str, shape: str) -> bool:
    """Return whether bodies of this shape can be events of the type."""
    try:
        parsed = _parse(shape)
    except (IndexError, RecursionError):
        return False
    return _fits_struct(parsed, struct_of(BODIES[event_type]))


def _fits_struct(shape: _Shape, spec: StructSpec) -> bool:
    if shape.fields is None:
        return False
    for field in spec.fields:
        found = shape.fields.get(field.name)
        if found is None or found.name == "VOID":
            if not field.nullable:
                return False
        elif not _fits(found, field.type):
            return False
    return True


def _fits(shape: _Shape, kind: DataType) -> bool:
    if kind.struct is not None:
        return _fits_struct(shape, kind.struct)
    if kind.item is not None:
        inside = kind.item
        if kind.name == "array":
            # An array without items has a shape without a type.
            return shape.item is not None and (
                shape.item.name == "VOID" or _fits(shape.item, inside)
            )
        return shape.fields is not None and all(
            _fits(item, inside) for item in shape.fields.values()
        )
    if kind.name == "double":
        return shape.name in _NUMBERS
    return shape.name == {"string": "STRING", "long": "BIGINT", "boolean": "BOOLEAN"}[kind.name]


def is_whole(event_type: str, body: str) -> Column:
    """Return a condition: a body that was cast to its struct has all required values."""
    return _whole_struct(fn.col(body), struct_of(BODIES[event_type]))


def _whole_struct(value: Column, spec: StructSpec) -> Column:
    result = fn.lit(True)
    for field in spec.fields:
        item = value[field.name]
        inner = _whole(item, field.type)
        if field.nullable:
            if inner is not None:
                result = result & (item.isNull() | inner)
        else:
            result = result & item.isNotNull()
            if inner is not None:
                result = result & inner
    if spec.cls is MsHistogram:
        counts, bounds = value["counts"], value["bounds_ms"]
        result = (
            result
            & (fn.size(counts) == fn.size(bounds) + 1)
            & (fn.size(counts) <= MAX_BUCKETS)
            & ~fn.exists(counts, lambda count: count < 0)
            & (fn.array_sort(bounds) == bounds)
            & (fn.size(fn.array_distinct(bounds)) == fn.size(bounds))
        )
    return fn.coalesce(result, fn.lit(False))


def _whole(value: Column, kind: DataType) -> Column | None:
    """Return a condition on the inside of a value; None if nothing can be wrong there."""
    if kind.struct is not None:
        return _whole_struct(value, kind.struct)
    if kind.item is not None and kind.name == "array":
        struct = kind.item.struct

        def is_bad(item: Column) -> Column:
            return item.isNull() if struct is None else ~_whole_struct(item, struct)

        return ~fn.exists(value, is_bad)
    return None
