"""The whole schema in other forms: plain data, a JSON Schema document, Markdown tables.

All are made from the dataclasses at the time of the call. The page ``docs/reference/telemetry.md``
holds :func:`markdown`, and a test compares them.
"""

from __future__ import annotations

from typing import Any, Final

from laps_wire.telemetry.envelope import Event
from laps_wire.telemetry.events import BODIES
from laps_wire.telemetry.schema import VERSION, DataType, FieldSpec, StructSpec, struct_of

__all__ = ["json_schema", "markdown", "schema"]


def schema() -> dict[str, Any]:
    """The schema as plain data: the version, the envelope's fields, the fields of each event."""
    return {
        "version": VERSION,
        "envelope": [field.as_dict() for field in struct_of(Event).fields],
        "events": {
            name: {
                "doc": struct_of(cls).doc,
                "fields": [field.as_dict() for field in struct_of(cls).fields],
            }
            for name, cls in BODIES.items()
        },
    }


# JSON Schema (2020-12)

_JSON_TYPES: Final[dict[str, dict[str, Any]]] = {
    "string": {"type": "string"},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
}


def json_schema() -> dict[str, Any]:
    """A JSON Schema that accepts every event that this version's reader accepts by shape.

    Unknown fields and unknown types are allowed, as the reader keeps them.
    """
    envelope = _json_struct(struct_of(Event))
    envelope["properties"]["v"]["pattern"] = rf"^{VERSION.partition('.')[0]}\.(0|[1-9][0-9]*)$"
    branches = [
        {
            "if": {"properties": {"type": {"const": name}}},
            "then": {"properties": {"body": _json_struct(struct_of(cls))}},
        }
        for name, cls in BODIES.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"LAPS telemetry {VERSION}",
        **envelope,
        "allOf": branches,
    }


def _json_struct(spec: StructSpec) -> dict[str, Any]:
    return {
        "type": "object",
        "description": spec.doc,
        "properties": {field.name: _json_field(field) for field in spec.fields},
        "required": [field.name for field in spec.fields if not field.nullable],
    }


def _json_field(field: FieldSpec) -> dict[str, Any]:
    plain = _json_type(field.type)
    if field.nullable:
        plain = {"anyOf": [plain, {"type": "null"}]}
    if field.values:
        # Examples and not an enum: lists of words grow within a major version.
        plain["examples"] = list(field.values)
    plain["description"] = field.doc
    return plain


def _json_type(kind: DataType) -> dict[str, Any]:
    if kind.item is not None:
        item = _json_type(kind.item)
        if kind.name == "array":
            return {"type": "array", "items": item}
        return {"type": "object", "additionalProperties": item}
    if kind.struct is not None:
        return _json_struct(kind.struct)
    return dict(_JSON_TYPES.get(kind.name, {"type": "object"}))


# Markdown


def markdown() -> str:
    """The tables of the reference page."""
    parts = [_section("Envelope", struct_of(Event))]
    parts += [_section(f"`{name}`", struct_of(cls)) for name, cls in BODIES.items()]
    parts += [_section(f"`{spec.cls.__name__}`", spec) for spec in _inner_structs()]
    return "\n".join(parts)


def _inner_structs() -> list[StructSpec]:
    """The structs that stand inside other events, once each."""
    found: dict[type, StructSpec] = {}
    for cls in BODIES.values():
        for field in struct_of(cls).fields:
            kind = field.type if field.type.item is None else field.type.item
            if kind.struct is not None:
                found[kind.struct.cls] = kind.struct
    return list(found.values())


def _section(title: str, spec: StructSpec) -> str:
    lines = [f"## {title}", "", spec.doc, "", "| Field | Type | Null | Since | Meaning |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for field in spec.fields:
        words = f" Known values: {', '.join(f'`{v}`' for v in field.values)}." * bool(field.values)
        null = "yes" if field.nullable else "no"
        kind = _short(field.type)
        lines.append(f"| `{field.name}` | {kind} | {null} | {field.since} | {field.doc}{words} |")
    return "\n".join([*lines, ""])


def _short(kind: DataType) -> str:
    """A type in a table cell: a struct is a name, described in its own section."""
    if kind.struct is not None:
        return kind.struct.cls.__name__
    if kind.item is not None:
        inside = _short(kind.item)
        return f"array of {inside}" if kind.name == "array" else f"map of string to {inside}"
    return kind.name
