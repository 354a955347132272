"""Loading of the configuration: merge the sources, check all values, report all mistakes.

Sources are a TOML file, the environment, and options. Later ones win::

    default  <  relay.toml  <  LAPS_LISTEN__CLIENT_PORT=4433  <  --port 4433

Each source yields a flat table from a key's dotted name to its value and its place. Errors and
``config show`` name the place.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from laps_relay.config.fields import Lifecycle, MisfitError, lifecycle_of
from laps_relay.config.model import RelayConfig
from laps_wire.errors import LocalError
from laps_wire.telemetry import safe_text

__all__ = [
    "ENVIRONMENT_PREFIX",
    "Changes",
    "ConfigError",
    "Loaded",
    "Problem",
    "Setting",
    "compare",
    "from_environment",
    "from_file",
    "from_flags",
    "json_schema",
    "leaves",
    "load",
    "markdown",
    "section_models",
    "shown",
]

ENVIRONMENT_PREFIX: Final = "LAPS_"
MASK: Final = "********"
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
        for name, info in found[at].model_fields.items():
            kind = info.annotation
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


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, and where its values came from."""

    config: RelayConfig
    file: Path | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    """The place of each dotted key; keys that are missing here have their default."""


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> Loaded:
    """Load the configuration. Raises :class:`ConfigError` with all mistakes."""
    settings: dict[str, Setting] = {}
    if file is not None:
        settings |= from_file(file)
    settings |= from_environment(environment or {})
    settings |= from_flags(flags or {})
    tree: dict[str, Any] = {}
    sections = section_models()
    problems: list[Problem] = []
    for dotted, setting in settings.items():
        head, _, name = dotted.rpartition(".")
        if dotted in sections:
            problems.append(
                Problem(
                    where=setting.place,
                    key=dotted,
                    wrong="is a table, not a value",
                    right=f"write it as [{dotted}]",
                )
            )
        elif head not in sections or name not in sections[head].model_fields:
            problems.append(_unknown(dotted, setting, sections))
        else:
            at = tree
            for part in head.split(".") if head else ():
                at = at.setdefault(part, {})
            at[name] = setting.value
    try:
        config = RelayConfig.model_validate(tree)
    except ValidationError as error:
        problems += [_invalid(item, settings, sections) for item in error.errors(include_url=False)]
        raise ConfigError(*problems) from None
    if problems:
        raise ConfigError(*problems)
    return Loaded(config, file, {dotted: setting.place for dotted, setting in settings.items()})


_GONE = {
    f"limits.plane.{name}": "remove it: the limits of [cache] hold for this, too"
    for name in ("standby_bytes", "continued_bytes", "early_bytes")
}
"""Keys of earlier versions, and what to do instead."""


def _unknown(dotted: str, setting: Setting, sections: Mapping[str, type[BaseModel]]) -> Problem:
    if dotted in _GONE:
        return Problem(
            where=setting.place, key=dotted, wrong="no longer a key", right=_GONE[dotted]
        )
    known = [
        name
        for section, model in sections.items()
        for key in model.model_fields
        if (name := f"{section}.{key}".lstrip(".")) not in sections
    ]
    # A key in the wrong table is as common as a misspelt one. In the right table, half of its name
    # is: listen.port for listen.client_port.
    table, _, last = dotted.rpartition(".")
    beside = [name for name in known if name.rpartition(".")[0] == table]
    near = [name for name in beside if name.endswith(f"_{last}")]
    near = near or [name for name in known if name.rpartition(".")[2] == last]
    tables = difflib.get_close_matches(dotted, [name for name in sections if name], 1, 0.8)
    if not near and tables:
        near = [f"[{tables[0]}]"]
    near = near or difflib.get_close_matches(dotted, known, 1, 0.6)
    right = f"did you mean {near[0]}?" if near else "'laps-relay config schema' lists all keys"
    return Problem(where=setting.place, key=dotted, wrong="unknown key", right=right)


def _invalid(
    error: ErrorDetails, settings: Mapping[str, Setting], sections: Mapping[str, type[BaseModel]]
) -> Problem:
    parts = [str(part) for part in error["loc"]]
    # The end of the location may be inside a list; the longest known key counts.
    dotted = ".".join(parts)
    while dotted and dotted not in settings and dotted not in sections:
        dotted = dotted.rpartition(".")[0]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, MisfitError):
        dotted = f"{dotted}.{cause.key}".lstrip(".")
    setting = settings.get(dotted)
    where = setting.place if setting else _place_of_table(dotted, settings)
    wrong = error["msg"].removeprefix("Value error, ")
    wrong = wrong[:1].lower() + wrong[1:]
    if setting is not None and not _is_secret(dotted, sections):
        wrong = f"{str(setting.value)[:60]!a}: {wrong}"
    # A MisfitError names the correction itself; the meaning of the key would not help.
    right = "" if isinstance(cause, MisfitError) else _right(dotted, sections)
    return Problem(where=where, key=dotted, wrong=wrong, right=right)


def _place_of_table(dotted: str, settings: Mapping[str, Setting]) -> str:
    """Return the place of a mistake in a whole table: that of one of its keys."""
    places = [setting.place for name, setting in settings.items() if name.startswith(dotted)]
    return places[-1] if places else "configuration"


def _right(dotted: str, sections: Mapping[str, type[BaseModel]]) -> str:
    head, _, name = dotted.rpartition(".")
    model = sections.get(head)
    if model is None or name not in model.model_fields or dotted in sections:
        return ""
    default = _text_of(model.model_fields[name].get_default(call_default_factory=True))
    return f"{model.model_fields[name].description} Default: {default}"


def _is_secret(dotted: str, sections: Mapping[str, type[BaseModel]]) -> bool:
    head, _, name = dotted.rpartition(".")
    extra = sections[head].model_fields[name].json_schema_extra if head in sections else None
    return isinstance(extra, dict) and bool(extra.get("secret"))


def _text_of(value: object) -> str:
    if value is None or value == "":
        return "none"
    return ", ".join(map(str, value)) or "empty" if isinstance(value, list) else str(value)


# Looking at a configuration


def leaves(config: BaseModel, prefix: str = "") -> dict[str, Any]:
    """Return every value by its dotted key, in the order of the models, as a file has it."""
    out: dict[str, Any] = {}
    plain = config.model_dump(mode="json")
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            out |= leaves(value, f"{prefix}{name}.")
        elif isinstance(value, SecretStr):
            out[f"{prefix}{name}"] = MASK
        else:
            out[f"{prefix}{name}"] = plain[name]
    return out


def shown(loaded: Loaded) -> list[tuple[str, Any, str]]:
    """Return key, value (secrets masked) and place of every value."""
    return [
        (dotted, value, loaded.places.get(dotted, "default"))
        for dotted, value in leaves(loaded.config).items()
    ]


@dataclass(frozen=True, slots=True)
class Changes:
    """The keys in which two configurations differ, by what it takes to apply them."""

    now: tuple[str, ...] = ()
    new_connections: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def compare(old: RelayConfig, new: RelayConfig) -> Changes:
    """Return which changes a reload can apply, and which need a restart."""
    sections = section_models()
    by: dict[Lifecycle, list[str]] = {"at-once": [], "new-connections": [], "static": []}
    for dotted in leaves(new):
        before, after = _value(old, dotted), _value(new, dotted)
        if before != after:
            head, _, name = dotted.rpartition(".")
            by[lifecycle_of(sections[head].model_fields[name].json_schema_extra)].append(dotted)
    return Changes(tuple(by["at-once"]), tuple(by["new-connections"]), tuple(by["static"]))


def _value(config: BaseModel, dotted: str) -> Any:
    value: Any = config
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


# The reference page


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file; each key has its ``lifecycle``."""
    return RelayConfig.model_json_schema()


def markdown() -> str:
    """Return the reference page: one table for each section."""
    return "\n".join(_section(name, model) for name, model in sorted(section_models().items()))


def _section(name: str, model: type[BaseModel]) -> str:
    title = f"`[{name}]`" if name else "Top level"
    lines = [f"## {title}", "", (model.__doc__ or "").strip(), ""]
    rows = []
    for key, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            continue
        variable = ENVIRONMENT_PREFIX + f"{name}.{key}".lstrip(".").upper().replace(".", "__")
        rows.append(
            f"| `{key}` | {_default(info.default)} | {lifecycle_of(info.json_schema_extra)} |"
            f" {info.description} | `{variable}` |"
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
