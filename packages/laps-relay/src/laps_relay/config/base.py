"""The base of all sections: no unknown keys, and a life cycle for each key.

::

    static            read at the start; a change needs a restart
    new-connections   a reload changes it for connections that come afterwards
    at-once           a reload changes it for everything
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

__all__ = ["Lifecycle", "MisfitError", "Section", "key", "lifecycle_of"]

Lifecycle = Literal["static", "new-connections", "at-once"]


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
