"""The reference page of the configuration, made from the models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from laps_relay.config.base import lifecycle_of
from laps_relay.config.model import RelayConfig
from laps_relay.config.sources import ENVIRONMENT_PREFIX, section_models

__all__ = ["json_schema", "markdown"]


def json_schema() -> dict[str, Any]:
    """JSON Schema of the file; each key carries its ``lifecycle``."""
    return RelayConfig.model_json_schema()


def markdown() -> str:
    """One table for each section."""
    return "\n".join(_section(name, model) for name, model in sorted(section_models().items()))


def _section(name: str, model: type[BaseModel]) -> str:
    title = f"`[{name}]`" if name else "Top level"
    lines = [f"## {title}", "", (model.__doc__ or "").strip(), ""]
    rows = []
    for key, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            continue
        variable = ENVIRONMENT_PREFIX + f"{name}.{key}".lstrip(".").upper().replace(".", "__")
        rows.append(
            f"| `{key}` | {_default(field.default)} | {lifecycle_of(field.json_schema_extra)} |"
            f" {field.description} | `{variable}` |"
        )
    if rows:
        lines += ["| key | default | takes effect | meaning | environment |"]
        lines += ["| --- | --- | --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "`~/.local/state/laps`"
    if value is None or value in ("", []):
        return "none"
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
