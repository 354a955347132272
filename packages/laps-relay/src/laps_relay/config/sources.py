"""Sources of values: a TOML file, the environment, and options. Later ones win.

::

    default  <  relay.toml  <  LAPS_LISTEN__CLIENT_PORT=4433  <  --port 4433

Each source yields a flat table from a key's dotted name to its value and its place. Errors and
``config show`` name the place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from laps_relay.config.model import RelayConfig
from laps_wire.errors import LocalError
from laps_wire.telemetry import safe_text

__all__ = [
    "ENVIRONMENT_PREFIX",
    "ConfigError",
    "Problem",
    "Setting",
    "from_environment",
    "from_file",
    "from_flags",
    "section_models",
]

ENVIRONMENT_PREFIX: Final = "LAPS_"
_MAX_FILE: Final = 1024 * 1024
_HEADER: Final = re.compile(r"\s*\[\s*([A-Za-z0-9_.\-\s]+?)\s*\]\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\-]+)\s*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in the configuration."""

    where: str
    """File and line, variable, or option."""
    key: str
    wrong: str
    right: str = ""

    def __str__(self) -> str:
        hint = f"; {self.right}" if self.right else ""
        # A key may be any text in quotes: it must not make lines of its own.
        name = f"{safe_text(self.key)}: " if self.key else ""
        return f"{self.where}: {name}{self.wrong}{hint}"


class ConfigError(LocalError, ValueError):
    """The configuration is not usable; ``problems`` has all mistakes."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Setting(NamedTuple):
    """A value and the place that set it."""

    value: Any
    place: str


def section_models() -> dict[str, type[BaseModel]]:
    """Return every table of the configuration by its dotted name; "" is the root."""
    found: dict[str, type[BaseModel]] = {"": RelayConfig}
    waiting = [""]
    while waiting:
        at = waiting.pop()
        for name, field in found[at].model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                dotted = f"{at}.{name}".lstrip(".")
                found[dotted] = kind
                waiting.append(dotted)
    return found


def from_file(path: Path) -> dict[str, Setting]:
    """Return the settings of a TOML file. Raises :class:`ConfigError`."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(
            Problem(where=str(path), key="", wrong=f"cannot be read: {error.strerror}")
        ) from None
    if len(raw) > _MAX_FILE:
        raise ConfigError(
            Problem(where=str(path), key="", wrong=f"is larger than {_MAX_FILE} bytes")
        )
    try:
        text = raw.decode()
        data = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigError(Problem(where=str(path), key="", wrong="is not UTF-8")) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_syntax_problem(path, str(error))) from None
    lines = _lines(text)
    sections = section_models()
    out: dict[str, Setting] = {}

    def walk(table: Mapping[str, Any], prefix: str) -> None:
        for name, value in table.items():
            dotted = f"{prefix}{name}"
            if dotted in sections and isinstance(value, Mapping):
                walk(value, f"{dotted}.")
            else:
                line = lines.get(dotted)
                out[dotted] = Setting(value, f"{path}:{line}" if line else str(path))

    walk(data, "")
    return out


def _syntax_problem(path: Path, words: str) -> Problem:
    at = re.search(r" \(at line (\d+), column (\d+)\)$", words)
    where = f"{path}:{at[1]}" if at else str(path)
    wrong = f"not TOML: {words[: at.start()] if at else words}"
    return Problem(where=where, key="", wrong=wrong, right='a line is: name = "value"')


def _lines(text: str) -> dict[str, int]:
    """Return the line of each key; keys inside long strings may be misplaced."""
    found: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            prefix = "".join(header[1].split()) + "."
            found.setdefault(prefix[:-1], number)
        elif assigned := _KEY.match(line):
            found.setdefault(prefix + assigned[1], number)
    return found


def from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """Return the settings of variables ``LAPS_SECTION__KEY``; ignore others with the prefix."""
    sections = section_models()
    top = {name for name in RelayConfig.model_fields if name not in sections}
    out: dict[str, Setting] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        parts = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        if (len(parts) > 1 and parts[0] in sections) or (len(parts) == 1 and parts[0] in top):
            out[".".join(parts)] = Setting(value, f"environment {variable}")
    return out


def from_flags(flags: Mapping[str, tuple[str, object]]) -> dict[str, Setting]:
    """Return the settings of given options; ``flags`` has name and value by dotted key."""
    return {
        dotted: Setting(value, f"flag {flag}")
        for dotted, (flag, value) in flags.items()
        if value is not None
    }
