"""The telemetry schema as plain data, derived from the dataclasses so that neither can drift.

A field of an event is an annotated dataclass field::

    srtt_us: Annotated[int, Column("Smoothed round trip time.")]
    close_code: Annotated[int | None, Column("Code of the close.", since="1.1")] = None

and its column in the schema is read off that: the name, the type (from the annotation), whether it
may be null (``| None``), the sentence and the version that brought it. Types are those that every
table engine has::

    str -> string     int -> long (64 bits, signed)     float -> double (finite)     bool -> boolean
    tuple[X, ...] -> array<X>     Mapping[str, X] -> map<string, X>     dataclass -> struct

A 64-bit hash does not fit a signed long, so hashes and node ids are strings.

An event type that came later has its version in ``SINCE``: old readers do not know it at all, so
its first fields may be required.

The rules of evolution are in :mod:`laps_wire.telemetry.evolution`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from typing import get_type_hints as hints_of

__all__ = [
    "EXTRA",
    "VERSION",
    "Column",
    "DataType",
    "FieldSpec",
    "StructSpec",
    "TypeName",
    "struct_of",
    "version_key",
]

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
