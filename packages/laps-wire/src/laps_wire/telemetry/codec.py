"""Dataclasses to JSON-able dicts and back, driven by the schema.

Reading is strict about what it knows (types, ranges, what must be there) and keeps what it does not
know: a field of a later version lands in ``extra`` and is written again where it stood. So an old
tool in the middle of a pipeline loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from laps_wire.errors import EncodeError
from laps_wire.telemetry.errors import TelemetryError
from laps_wire.telemetry.schema import EXTRA, DataType, StructSpec, struct_of

__all__ = [
    "LONG_MAX",
    "LONG_MIN",
    "build",
    "fields_from_plain",
    "fields_to_plain",
    "from_plain",
    "put_extra",
    "to_plain",
]

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
