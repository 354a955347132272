"""The base of all sections, and the types of their values: units, lists, paths, labels, node ids.

A section has no unknown keys, and a life cycle for each key::

    static            read at the start; a change needs a restart
    new-connections   a reload changes it for connections that come afterwards
    at-once           a reload changes it for everything

Durations and sizes are written as ``5s``, ``250ms`` or ``64MiB``; a plain number is seconds or
bytes. Fields of these types parse text, hold a number, and write the text again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from laps_wire.nodeid import NodeId

__all__ = [
    "LOOPBACK",
    "Duration",
    "FilePath",
    "Label",
    "Lifecycle",
    "MisfitError",
    "NodeIdText",
    "Numbers",
    "Paths",
    "Section",
    "Size",
    "Words",
    "format_duration",
    "format_size",
    "key",
    "lifecycle_of",
    "parse_duration",
    "parse_size",
    "words",
]

Lifecycle = Literal["static", "new-connections", "at-once"]
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts that only this machine reaches."""
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_DURATION: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)?")
_SIZE: Final = re.compile(r"(\d{1,15})\s*(B|kB|MB|GB|KiB|MiB|GiB)?")


class MisfitError(ValueError):
    """A value that contradicts others of its table; ``key`` names it, the text says why."""

    def __init__(self, key: str, words: str) -> None:
        super().__init__(words)
        self.key = key


class Section(BaseModel):
    """A table of the configuration."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, validate_default=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse ``true`` and ``false`` for a number; pydantic would take them for 1 and 0."""
        wanted = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and wanted in (int, float):
            raise ValueError("a number belongs here, not true or false")
        return value


def key(
    default: Any,
    text: str,
    lifecycle: Lifecycle = "static",
    *,
    secret: bool = False,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """Return the field of a key: its default, its meaning, and when a change takes effect."""
    extra: dict[str, Any] = {"lifecycle": lifecycle}
    if secret:
        extra["secret"] = True
    return Field(default, description=text, json_schema_extra=extra, ge=ge, gt=gt, le=le, lt=lt)


def lifecycle_of(extra: object) -> Lifecycle:
    """Return the life cycle in a field's ``json_schema_extra``."""
    found = extra.get("lifecycle") if isinstance(extra, dict) else None
    return found if found in ("new-connections", "at-once") else "static"


def parse_duration(value: object) -> object:
    """Return seconds; other types than text are left for the model to check."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError("a duration is a number with ms, s, m, h or d behind it, such as '5s'")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def parse_size(value: object) -> object:
    """Return bytes; other types than text are left for the model to check."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError(
            "a size is a whole number with B, kB, MB, GB, KiB, MiB or GiB behind it, such as"
            " '64MiB'"
        )
    return int(found[1]) * _BYTES[found[2] or "B"]


def format_duration(value: float) -> str:
    """Return a duration in the largest unit without a fraction."""
    for unit, factor in reversed(_SECONDS.items()):
        count = value / factor
        if value and count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{value:g}s"


def format_size(value: int) -> str:
    """Return a size in the largest binary unit without a fraction."""
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return f"{value}B"


Duration = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "format": "duration", "examples": ["5s"]}),
]
"""Seconds in the program, ``5s`` in files."""

Size = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"], "format": "size", "examples": ["64MiB"]}),
]
"""Bytes in the program, ``64MiB`` in files."""


def words(value: object) -> object:
    """Return a list from text with commas, as an environment variable has it."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return value


def _path(path: Path) -> Path:
    """Return a path with ``~`` expanded. Raises ``ValueError`` for text that cannot be a path."""
    text = str(path)
    if "\0" in text or text == ".":
        raise ValueError("a path is not empty and holds no zero bytes; leave the key out for none")
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("nobody of this name has a home directory; write the whole path") from None


def _node_id(text: str) -> str:
    if not text:
        return text
    node = NodeId.parse(text)
    if node == 0:
        raise ValueError("0 is no node id: every Stub has it; choose another one, or none")
    return str(node)


def _label(text: str) -> str:
    if not text.isprintable() or len(text) > 64:
        raise ValueError("a name of at most 64 printable characters")
    return text


FilePath = Annotated[Path, AfterValidator(_path)]
Label = Annotated[str, AfterValidator(_label)]
NodeIdText = Annotated[str, AfterValidator(_node_id)]
"""``high:low``; empty if the relay chooses it."""
Words = Annotated[list[str], BeforeValidator(words)]
Numbers = Annotated[list[int], BeforeValidator(words)]
Paths = Annotated[list[FilePath], BeforeValidator(words)]
