"""The envelope of telemetry events, their JSON Lines form, and exports of the schema.

``event_id`` is ``relay:boot:seq``. The relay increments ``seq`` for each event of a boot. So a
reader can remove duplicates, and detects lost telemetry by a gap in the numbers.

**JSON Lines.** A line is one JSON object in ASCII, with everything else escaped. So text of a peer
cannot break a line or control a terminal. Reading refuses what JSON parsers treat differently:
repeated field names, NaN, lone surrogates.

**Exports** of the schema are plain data, a JSON Schema document and Markdown tables, made from the
dataclasses at the time of the call. ``docs/reference/telemetry.md`` contains :func:`markdown`; a
test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Final, NoReturn

from laps_wire.errors import EncodeError
from laps_wire.telemetry.events import BODIES, Body, UnknownBody
from laps_wire.telemetry.schema import (
    VERSION,
    Column,
    DataType,
    FieldSpec,
    StructSpec,
    TelemetryError,
    build,
    fields_from_plain,
    fields_to_plain,
    from_plain,
    put_extra,
    struct_of,
    to_plain,
    version_key,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_LINE",
    "BadLine",
    "Event",
    "dump_line",
    "json_schema",
    "load_line",
    "load_lines",
    "markdown",
    "schema",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of telemetry: what all events have in common.

    :meth:`of` makes one, :meth:`from_dict` reads one.
    """

    v: Annotated[str, Column("Version of the schema that the writer used, major.minor.")]
    event_id: Annotated[str, Column("relay:boot:seq; the same event has the same id for ever.")]
    ts_us: Annotated[int, Column("When it happened: microseconds since 1970, UTC, relay's clock.")]
    relay: Annotated[str, Column("Node id of the relay that wrote it.")]
    boot: Annotated[int, Column("Boot epoch of that relay; larger after every start.")]
    type: Annotated[str, Column("Which event this is; it decides the fields of the body.")]
    tenant: Annotated[str | None, Column("Whose traffic it is about, if it is about one.")] = None
    region: Annotated[str | None, Column("Where the relay stands, in its operator's word.")] = None
    body: Annotated[Body, Column("What happened.", any_struct=True)]
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type != (expected := _type_of(self.body)):
            raise EncodeError(f"type {self.type!a} has a body of {expected!a}")
        prefix = f"{self.relay}:{self.boot}:"
        # A node id has colons itself, so the id is compared with its parts and never split.
        if not self.event_id.startswith(prefix) or not _is_seq(self.event_id[len(prefix) :]):
            raise EncodeError(
                f"event_id {self.event_id[:80]!a} is not relay:boot:seq, here {prefix[:80]!a}"
                " and a number"
            )

    @classmethod
    def of(
        cls,
        body: Body,
        *,
        relay: str,
        boot: int,
        seq: int,
        ts_us: int,
        tenant: str | None = None,
        region: str | None = None,
    ) -> Event:
        """The event for ``body``, in the version that this package writes."""
        return cls(
            v=VERSION,
            event_id=f"{relay}:{boot}:{seq}",
            ts_us=ts_us,
            relay=relay,
            boot=boot,
            type=_type_of(body),
            tenant=tenant,
            region=region,
            body=body,
        )

    @property
    def seq(self) -> int:
        """The number of the event within its boot."""
        return int(self.event_id.rpartition(":")[2])

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-able data: null fields left out, unknown fields as they came."""
        spec, body = struct_of(Event), self.body
        plain = fields_to_plain(self, spec, "", skip="body")
        plain["body"] = dict(body.data) if isinstance(body, UnknownBody) else to_plain(body, "body")
        put_extra(plain, self, spec, "")
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> Event:
        """The event that a dict describes; :class:`TelemetryError` says what is wrong, and where.

        A type that this version does not know gives an :class:`UnknownBody`. An unknown *major*
        version is refused: its fields may mean something else.
        """
        spec = struct_of(Event)
        values = fields_from_plain(plain, spec, "", skip="body")
        _check_version(values["v"])
        data = plain.get("body") if isinstance(plain, Mapping) else None
        if not isinstance(data, Mapping):
            raise TelemetryError("missing or not an object", where="body")
        kind = values["type"]
        body_class = BODIES.get(kind)
        values["body"] = (
            UnknownBody(kind, dict(data))
            if body_class is None
            else from_plain(body_class, data, "body")
        )
        event: Event = build(spec, values, "")
        return event


def _type_of(body: Body) -> str:
    return body.type if isinstance(body, UnknownBody) else body.TYPE


def _check_version(version: str) -> None:
    """Any minor of our major is read; the rest is not ours to guess at."""
    try:
        major, _ = version_key(version)
    except ValueError as error:
        raise TelemetryError(str(error), where="v") from None
    ours, _ = version_key(VERSION)
    if major != ours:
        raise TelemetryError(f"version {version}, but this reader knows {ours}.x", where="v")


def _is_seq(text: str) -> bool:
    """Whether ``text`` is a sequence number, in the one way that it is written."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and str(int(text)) == text


# JSON Lines

MAX_LINE: Final = 1 << 20
"""The longest line, in bytes or characters, that is read or written."""

MAX_DEPTH: Final = 32
"""How many objects and arrays may stand in each other, the event itself included."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not an event: what :func:`load_lines` gives in its place, for quarantine."""

    line: int
    """The number of the line, from 1."""
    raw: bytes
    """The line as it was, without its end."""
    error: TelemetryError
    """What is wrong with it."""


def dump_line(event: Event) -> str:
    """The event as one line of JSON, without a line end."""
    plain = event.as_dict()
    try:
        _check_values(plain)
        line = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"{event.type}: an unknown field is not JSON: {error}") from None
    if len(line) > MAX_LINE:
        raise EncodeError(f"{event.type}: {len(line)} bytes are over the limit of {MAX_LINE}")
    return line


def load_line(line: str | bytes) -> Event:
    """The event of one line; :class:`TelemetryError` says what is wrong, and where."""
    if len(line) > MAX_LINE:
        raise TelemetryError(f"a line of {len(line)} is over the limit of {MAX_LINE}")
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise TelemetryError(f"not UTF-8 at byte {error.start}: {error.reason}") from None
    try:
        plain = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        # Both can only come from these characters, and most lines have none of them.
        if "\\u" in text or not text.isascii() or text.count("[") + text.count("{") > MAX_DEPTH:
            _check_values(plain)
    except json.JSONDecodeError as error:
        raise TelemetryError(f"not JSON at column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise TelemetryError(str(error)) from None
    except RecursionError:
        raise TelemetryError(f"nested deeper than {MAX_DEPTH}") from None
    return Event.from_dict(plain)


def load_lines(lines: Iterable[str | bytes]) -> Iterator[Event | BadLine]:
    """Every line as an event or as a :class:`BadLine`; empty lines are skipped, but counted."""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            continue
        try:
            yield load_line(stripped)
        except TelemetryError as error:
            raw = stripped.encode(errors="replace") if isinstance(stripped, str) else stripped
            yield BadLine(number, raw, error.at_line(number))


# What JSON parsers disagree about


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"two fields are named {name[:60]!a}")
            seen.add(name)
    return plain


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def _integer(digits: str) -> int:
    # 2**128 and a sign: any column of today or tomorrow, and far from a quadratic conversion.
    if len(digits) > 40:
        raise ValueError(f"the number {digits[:40]}... is too large")
    return int(digits)


def _check_values(plain: object) -> None:
    """``ValueError`` for half a surrogate pair or for too deep a nesting."""
    todo: list[tuple[object, int]] = [(plain, 1)]
    while todo:
        value, depth = todo.pop()
        if depth > MAX_DEPTH and isinstance(value, dict | list | tuple):
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("half a surrogate pair, which is not text") from None
        elif isinstance(value, dict):
            todo += [(key, depth) for key in value]
            todo += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            todo += [(item, depth + 1) for item in value]


# The schema in other forms


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
        "properties": {column.name: _json_field(column) for column in spec.fields},
        "required": [column.name for column in spec.fields if not column.nullable],
    }


def _json_field(column: FieldSpec) -> dict[str, Any]:
    plain = _json_type(column.type)
    if column.nullable:
        plain = {"anyOf": [plain, {"type": "null"}]}
    if column.values:
        # Examples and not an enum: lists of words grow within a major version.
        plain["examples"] = list(column.values)
    plain["description"] = column.doc
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
        for column in struct_of(cls).fields:
            kind = column.type if column.type.item is None else column.type.item
            if kind.struct is not None:
                found[kind.struct.cls] = kind.struct
    return list(found.values())


def _section(title: str, spec: StructSpec) -> str:
    lines = [f"## {title}", "", spec.doc, "", "| Field | Type | Null | Since | Meaning |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for item in spec.fields:
        known = ", ".join(f"`{value}`" for value in item.values)
        words = f" Known values: {known}." if known else ""
        null = "yes" if item.nullable else "no"
        kind = _short(item.type)
        lines.append(f"| `{item.name}` | {kind} | {null} | {item.since} | {item.doc}{words} |")
    return "\n".join([*lines, ""])


def _short(kind: DataType) -> str:
    """A type in a table cell: a struct is a name, described in its own section."""
    if kind.struct is not None:
        return kind.struct.cls.__name__
    if kind.item is not None:
        inside = _short(kind.item)
        return f"array of {inside}" if kind.name == "array" else f"map of string to {inside}"
    return kind.name
