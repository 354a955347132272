"""The telemetry schema, derived from dataclasses, and the conversion of records by it.

A field of an event is an annotated dataclass field::

    srtt_us: Annotated[int, Column("Smoothed round trip time.")]
    close_code: Annotated[int | None, Column("Code of the close.", since="1.1")] = None

Its column in the schema has the field's name, the type of the annotation, whether it may be null
(``| None``), the sentence, and the version that introduced it. The types exist in every table
engine::

    str -> string     int -> long (64 bits, signed)     float -> double (finite)     bool -> boolean
    tuple[X, ...] -> array<X>     Mapping[str, X] -> map<string, X>     dataclass -> struct

A 64-bit hash does not fit a signed long, so hashes and node IDs are strings.

A later event type has its version in ``SINCE``. Older readers do not know the type, so its first
fields may be required.

**Records** become JSON-able dicts and back. Reading is strict about known fields (types, ranges,
presence). Unknown fields of a later version are kept in ``extra`` and written again, so an old tool
in a pipeline loses nothing.

**Changes.** :func:`compare` returns which version a change of the schema needs:

==========================================================  =======================================
Change                                                      Version
==========================================================  =======================================
a new event type, a new nullable field, more known values   minor: old readers keep it in ``extra``
another sentence                                            none
a field removed, renamed, of another type, never-null now   major: old readers would misread it
a field nullable that was never null                        major: old readers would refuse it
==========================================================  =======================================

A reader reads every minor version of its major version. A writer writes one version.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from laps_wire.errors import EncodeError, TextFormError

__all__ = [
    "EXTRA",
    "LONG_MAX",
    "LONG_MIN",
    "VERSION",
    "Change",
    "Column",
    "DataType",
    "FieldSpec",
    "StructSpec",
    "TelemetryError",
    "TypeName",
    "build",
    "compare",
    "fields_from_plain",
    "fields_to_plain",
    "from_plain",
    "put_extra",
    "struct_of",
    "to_plain",
    "version_key",
]

# Errors


class TelemetryError(TextFormError):
    """A line or a dict that is not a telemetry event.

    ``hop.stat: body.drops.ttl: "7" is not a long (line 12)``: the place is a path into the event,
    so that a quarantine can count faults by field.
    """

    def __init__(self, reason: str, *, where: str = "", line: int | None = None) -> None:
        place = f"{where}: " if where else ""
        at = "" if line is None else f" (line {line})"
        super().__init__(f"{place}{reason}{at}")
        self.reason = reason
        """What is wrong, without the place."""
        self.where = where
        """The path of the field, such as ``body.path[2].srtt_us``; empty for the whole line."""
        self.line = line
        """The number of the line in its file, from 1, if known."""

    def at_line(self, line: int) -> TelemetryError:
        """The same fault with the number of its line."""
        return TelemetryError(self.reason, where=self.where, line=line)


# The schema of a dataclass

VERSION: Final = "1.4"
"""The version that this package writes: ``major.minor``, see the rules of evolution."""

EXTRA: Final = "extra"
"""The attribute that keeps fields this version does not know; never a column."""

TypeName: TypeAlias = Literal["string", "long", "double", "boolean", "array", "struct", "map"]


@dataclass(frozen=True, slots=True)
class Column:
    """What an annotation says about a field beside its type."""

    doc: str
    since: str = "1.0"
    values: tuple[str, ...] = ()
    """The words that a string may hold today. Readers accept others: a list may grow."""
    any_struct: bool = False
    """The field is a struct whose fields another field decides: the envelope's body."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A type as a table engine sees it."""

    name: TypeName
    item: DataType | None = None
    """The type of an array's items or of a map's values; keys are always strings."""
    struct: StructSpec | None = None
    """The fields of a struct; none for a struct that is open."""

    def __str__(self) -> str:
        if self.name == "array":
            return f"array<{self.item}>"
        if self.name == "map":
            return f"map<string, {self.item}>"
        if self.struct is not None:
            inside = ", ".join(f"{field.name}: {field.type}" for field in self.struct.fields)
            return f"struct<{inside}>"
        return self.name

    def as_dict(self) -> dict[str, Any]:
        """The type as JSON-able data."""
        plain: dict[str, Any] = {"type": self.name}
        if self.item is not None:
            plain["items" if self.name == "array" else "values"] = self.item.as_dict()
        if self.struct is not None:
            plain["fields"] = [field.as_dict() for field in self.struct.fields]
        return plain


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One column: name, type, whether it may be null, what it means, since which version."""

    name: str
    type: DataType
    nullable: bool
    doc: str
    since: str
    values: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The column as JSON-able data."""
        plain: dict[str, Any] = {
            "name": self.name,
            **self.type.as_dict(),
            "nullable": self.nullable,
            "doc": self.doc,
            "since": self.since,
        }
        if self.values:
            plain["known_values"] = list(self.values)
        return plain


@dataclass(frozen=True, slots=True)
class StructSpec:
    """The columns of one dataclass, in its order."""

    cls: type
    fields: tuple[FieldSpec, ...]

    @property
    def doc(self) -> str:
        """The first sentence of the dataclass's docstring."""
        return (self.cls.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()


_DERIVED: Final[dict[type, StructSpec]] = {}


def struct_of(cls: type) -> StructSpec:
    """The columns of a dataclass; ``TypeError`` where its declaration is not a schema."""
    spec = _DERIVED.get(cls)
    if spec is None:
        spec = _DERIVED[cls] = _derive(cls)
    return spec


def _derive(cls: type) -> StructSpec:
    """Read the columns off the annotations."""
    hints = hints_of(cls, include_extras=True)
    born = version_key(_born(cls))
    specs = []
    for field in fields(cls):
        if field.name == EXTRA:
            continue
        where = f"{cls.__name__}.{field.name}"
        hint = hints[field.name]
        if get_origin(hint) is not Annotated or not isinstance(hint.__metadata__[0], Column):
            raise TypeError(f"{where}: has no Column")
        column: Column = hint.__metadata__[0]
        bare, nullable = _strip_none(hint.__origin__)
        if nullable and field.default is not None:
            raise TypeError(f"{where}: a nullable field defaults to None")
        if not nullable and field.default is not MISSING:
            raise TypeError(f"{where}: a field that is never null has no default")
        if not nullable and version_key(column.since) > born:
            raise TypeError(f"{where}: a field added after {_born(cls)} must be nullable")
        kind = DataType("struct") if column.any_struct else _type_of(bare, where)
        specs.append(FieldSpec(field.name, kind, nullable, column.doc, column.since, column.values))
    if EXTRA not in {field.name for field in fields(cls)}:
        raise TypeError(f"{cls.__name__}: has no place for fields of later versions ({EXTRA})")
    return StructSpec(cls, tuple(specs))


def _born(cls: type) -> str:
    """The version that brought a struct: ``SINCE``, if it was not the first of this major."""
    since: str = getattr(cls, "SINCE", f"{VERSION.partition('.')[0]}.0")
    return since


def version_key(version: str) -> tuple[int, int]:
    """``"1.10"`` as numbers that compare; ``ValueError`` if it is not ``major.minor``."""
    major, dot, minor = version.partition(".")
    # ASCII digits only and no leading zero, so that one version has one text.
    for part in (major, minor):
        if not dot or not (part.isascii() and part.isdigit()) or str(int(part[:9])) != part:
            raise ValueError(f"{version!r} is not a version such as {VERSION!r}")
    return int(major), int(minor)


_SCALARS: Final[dict[Any, TypeName]] = {
    str: "string",
    int: "long",
    float: "double",
    bool: "boolean",
}


def _strip_none(hint: Any) -> tuple[Any, bool]:
    """``X | None`` as ``X`` and whether None was there."""
    if get_origin(hint) in {types.UnionType, Union}:
        rest = [arm for arm in get_args(hint) if arm is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return hint, False


def _type_of(hint: Any, where: str) -> DataType:
    """The column type of an annotation."""
    if hint in _SCALARS:
        return DataType(_SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return DataType("array", item=_type_of(arguments[0], where))
    if origin is Mapping and arguments[0] is str:
        return DataType("map", item=_type_of(arguments[1], where))
    if isinstance(hint, type) and is_dataclass(hint):
        return DataType("struct", struct=struct_of(hint))
    raise TypeError(f"{where}: {hint!r} has no column type")


# Records to JSON-able data and back

LONG_MAX: Final = 2**63 - 1
"""The largest long: table engines have no unsigned 64-bit integers."""

LONG_MIN: Final = -(2**63)
"""The smallest long."""


# Writing


def to_plain(value: Any, where: str = "") -> dict[str, Any]:
    """A record as a JSON-able dict: null fields left out, unknown fields put back.

    :class:`EncodeError` names the field whose value its column cannot hold.
    """
    return _struct_to_plain(value, struct_of(type(value)), where)


def _struct_to_plain(value: Any, spec: StructSpec, where: str) -> dict[str, Any]:
    if type(value) is not spec.cls:
        raise EncodeError(f"{where}: {_show(value)} is not a {spec.cls.__name__}")
    plain = fields_to_plain(value, spec, where)
    put_extra(plain, value, spec, where)
    return plain


def fields_to_plain(
    value: Any, spec: StructSpec, where: str, *, skip: str | None = None
) -> dict[str, Any]:
    """The known fields of a record that are not null, but not the field ``skip``."""
    plain: dict[str, Any] = {}
    for field in spec.fields:
        if field.name == skip:
            continue
        place = _join(where, field.name)
        item = getattr(value, field.name)
        if item is not None:
            plain[field.name] = _value_to_plain(item, field.type, place)
        elif not field.nullable:
            raise EncodeError(f"{place}: None, but the field is never null")
    return plain


def put_extra(plain: dict[str, Any], value: Any, spec: StructSpec, where: str) -> None:
    """Put the fields of a later version back."""
    extra: Mapping[str, Any] = getattr(value, EXTRA)
    for name, item in extra.items():
        if any(name == field.name for field in spec.fields):
            raise EncodeError(f"{_join(where, name)}: an extra field hides a known one")
        plain[name] = item


def _value_to_plain(value: Any, kind: DataType, where: str) -> Any:
    if kind.struct is not None:
        return _struct_to_plain(value, kind.struct, where)
    if kind.item is not None and kind.name == "array" and isinstance(value, tuple):
        return [
            _value_to_plain(item, kind.item, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
    if kind.item is not None and kind.name == "map" and isinstance(value, Mapping):
        for key in value:
            if (fault := _fault(key, "string")) is not None:
                raise EncodeError(f"{where}: key {fault}")
        return {
            key: _value_to_plain(item, kind.item, _join(where, key)) for key, item in value.items()
        }
    if (fault := _fault(value, kind.name)) is not None:
        raise EncodeError(f"{where}: {fault}")
    return float(value) if kind.name == "double" else value


# Reading


def from_plain(cls: type, plain: object, where: str = "") -> Any:
    """The record that a dict describes; :class:`TelemetryError` says what is wrong, and where."""
    return _struct_from_plain(plain, struct_of(cls), where)


def _struct_from_plain(plain: object, spec: StructSpec, where: str) -> Any:
    return build(spec, fields_from_plain(plain, spec, where), where)


def fields_from_plain(
    plain: object, spec: StructSpec, where: str, *, skip: str | None = None
) -> dict[str, Any]:
    """The arguments for a record: its known fields but ``skip``, and the others as ``extra``."""
    if not isinstance(plain, Mapping):
        raise TelemetryError(f"{_show(plain)} is not an object", where=where)
    values: dict[str, Any] = {}
    for field in spec.fields:
        if field.name == skip:
            continue
        place = _join(where, field.name)
        item = plain.get(field.name)
        if item is not None:
            values[field.name] = _value_from_plain(item, field.type, place)
        elif not field.nullable:
            state = "null" if field.name in plain else "missing"
            raise TelemetryError(f"{state}, but the field is never null", where=place)
    known = {field.name for field in spec.fields}
    values[EXTRA] = {name: item for name, item in plain.items() if name not in known}
    return values


def build(spec: StructSpec, values: dict[str, Any], where: str) -> Any:
    """The record; a combination that its dataclass refuses is the line's fault."""
    try:
        return spec.cls(**values)
    except EncodeError as error:
        raise TelemetryError(str(error), where=where) from None


def _value_from_plain(plain: object, kind: DataType, where: str) -> Any:
    if kind.struct is not None:
        return _struct_from_plain(plain, kind.struct, where)
    if kind.item is not None and kind.name == "array" and isinstance(plain, list):
        return tuple(
            _value_from_plain(item, kind.item, f"{where}[{index}]")
            for index, item in enumerate(plain)
        )
    if kind.item is not None and kind.name == "map" and isinstance(plain, Mapping):
        return {
            key: _value_from_plain(item, kind.item, _join(where, key))
            for key, item in plain.items()
        }
    if (fault := _fault(plain, kind.name)) is not None:
        raise TelemetryError(fault, where=where)
    return float(plain) if kind.name == "double" else plain  # type: ignore[arg-type]


# Both


def _fault(value: object, name: str) -> str | None:
    """Why ``value`` does not fit a column of type ``name``; None if it does."""
    good = False
    if name == "string":
        good = isinstance(value, str)
        if good and not _is_text(str(value)):
            return "holds half a surrogate pair, which is not text"
    elif name == "boolean":
        good = isinstance(value, bool)
    elif name == "long":
        # bool is an int in Python, and in no table engine.
        good = isinstance(value, int) and not isinstance(value, bool)
        if good and not LONG_MIN <= value <= LONG_MAX:  # type: ignore[operator]
            return f"{_show(value)} does not fit 64 signed bits"
    elif name == "double":
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if good and not _is_finite(value):  # type: ignore[arg-type]
            return f"{_show(value)} is not a finite number"
    return None if good else f"{_show(value)} is not a {name}"


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a double
        return False


def _show(value: object) -> str:
    """A value inside an error message: short, one line, printable."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number or a nesting that Python does not print
        text = "a huge value"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _join(where: str, name: str) -> str:
    """The path of a field; a name that is not plain ASCII words is quoted and shortened."""
    shown = name if name.isascii() and name.isidentifier() and len(name) <= 60 else _show(name)
    return f"{where}.{shown}" if where else shown


# Changes of the schema


class Change(IntEnum):
    """What a difference asks of the version number."""

    NONE = 0
    MINOR = 1
    MAJOR = 2


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, tuple[str, ...]]:
    """Return the largest change between two exported schemas, and a sentence for each change."""
    found: list[tuple[Change, str]] = []
    _fields(old["envelope"], new["envelope"], "envelope", found)
    found += [
        (Change.MAJOR, f"{name}: the event type was removed")
        for name in old["events"]
        if name not in new["events"]
    ]
    for name, event in new["events"].items():
        if name in old["events"]:
            _fields(old["events"][name]["fields"], event["fields"], name, found)
        else:
            found.append((Change.MINOR, f"{name}: a new event type"))
    worst = max((change for change, _ in found), default=Change.NONE)
    return worst, tuple(reason for _, reason in found)


def _fields(
    old: list[dict[str, Any]],
    new: list[dict[str, Any]],
    where: str,
    found: list[tuple[Change, str]],
) -> None:
    before = {field["name"]: field for field in old}
    after = {field["name"]: field for field in new}
    found += [
        (Change.MAJOR, f"{where}.{name}: the field was removed")
        for name in before
        if name not in after
    ]
    for name, field in after.items():
        place = f"{where}.{name}"
        if name in before:
            if before[name]["nullable"] != field["nullable"]:
                word = "may be null now" if field["nullable"] else "is never null now"
                found.append((Change.MAJOR, f"{place}: {word}"))
            _types(before[name], field, place, found)
        elif field["nullable"]:
            found.append((Change.MINOR, f"{place}: a new nullable field"))
        else:
            found.append((Change.MAJOR, f"{place}: a new field that is never null"))


def _types(
    old: dict[str, Any], new: dict[str, Any], place: str, found: list[tuple[Change, str]]
) -> None:
    if old["type"] != new["type"]:
        found.append((Change.MAJOR, f"{place}: {old['type']} became {new['type']}"))
        return
    for inner in ("items", "values"):
        if inner in old:
            _types(old[inner], new[inner], f"{place}[]", found)
    if "fields" in old:
        _fields(old["fields"], new["fields"], place, found)
    before, after = old.get("known_values", ()), new.get("known_values", ())
    found += [
        (Change.MAJOR, f"{place}: the known value {word!a} was removed")
        for word in before
        if word not in after
    ]
    found += [
        (Change.MINOR, f"{place}: a new known value {word!a}")
        for word in after
        if word not in before
    ]
