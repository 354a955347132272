"""Reading of a policy file: all mistakes are reported, each with its line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from laps_relay.config.policy import Fault, Place, PolicyModel, compiled
from laps_relay.config.policy_rest import strays_beside_faults
from laps_relay.config.sources import ConfigError, Problem
from laps_relay.policy.rules import Rules

__all__ = ["load_policy", "policy_lines"]

_MAX_FILE: Final = 1024 * 1024
_PART: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_NAME: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAME})\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(rf"\s*({_NAME})\s*=")


def load_policy(path: Path) -> Rules:
    """Return the policy of a file. Raises :class:`ConfigError` with all mistakes."""
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_syntax(path, str(error))) from None
    lines = policy_lines(text)
    try:
        model = PolicyModel.model_validate(data)
    except ValidationError as error:
        found = [_fault(item) for item in error.errors(include_url=False)]
        found += strays_beside_faults(data, [at for at, _, _ in found])
    else:
        found = list(model.strays())
        if not found:
            return compiled(model)
    raise ConfigError(*_in_order(path, lines, found))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE + 1)
        if len(raw) > _MAX_FILE:
            raise ConfigError(
                Problem(
                    where=str(path),
                    key="",
                    wrong=f"is larger than {_MAX_FILE} bytes",
                    right="use patterns and regions in place of long lists",
                )
            )
        return raw.decode()
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        wrong = "is not UTF-8"
    raise ConfigError(
        Problem(where=str(path), key="", wrong=wrong, right="give the path of a TOML file")
    ) from None


def _syntax(path: Path, words: str) -> Problem:
    at = re.search(r" \(at line (\d+), column (\d+)\)$", words)
    where = f"{path}:{at[1]}" if at else str(path)
    wrong = f"not TOML: {words[: at.start()] if at else words}"
    return Problem(where=where, key="", wrong=wrong, right='a line is: name = "value"')


def policy_lines(text: str) -> dict[Place, int]:
    """Return the line of each key and table; keys inside long strings may be misplaced."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    prefix: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            prefix = ()
            parts = _parts(header[2])
            for index, part in enumerate(parts):
                prefix = (*prefix, part)
                if index == len(parts) - 1 and header[1] == "[[":
                    counts[prefix] = counts.get(prefix, 0) + 1
                if prefix in counts:
                    # Below an array of tables the last of them is meant.
                    prefix = (*prefix, counts[prefix] - 1)
            found.setdefault(prefix, number)
        elif assigned := _KEY.match(line):
            found.setdefault((*prefix, *_parts(assigned[1])), number)
    return found


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, name)]


def _in_order(path: Path, lines: Mapping[Place, int], found: Iterable[Fault]) -> list[Problem]:
    """Return mistakes in the order of the file."""
    rows: list[tuple[int, Problem]] = []
    for at, wrong, right in found:
        near = at
        while near and near not in lines:
            near = near[:-1]
        line = lines.get(near, 0)
        # Items of an array of tables are counted from one, as people do.
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in at)
        where = f"{path}:{line}" if line else str(path)
        rows.append((line, Problem(where=where, key=name, wrong=wrong, right=right)))
    return [problem for _, problem in sorted(rows, key=lambda row: row[0])]


def _fault(error: ErrorDetails) -> Fault:
    at: Place = tuple(part for part in error["loc"] if part != "[key]")
    shown = f"{str(error['input'])[:60]!a}: "
    match error["type"]:
        case "extra_forbidden":
            known = _keys_at(at[:-1])
            near = difflib.get_close_matches(str(at[-1]), known, 1, 0.6)
            return at, "unknown key", f"did you mean {near[0]}?" if near else _list(known)
        case "missing":
            wrong = "is missing"
        case "model_type":
            return at, f"{shown}not a table", _list(_keys_at(at))
        case _:
            words = error["msg"].removeprefix("Value error, ")
            wrong = f"{shown}{words[:1].lower()}{words[1:]}"
    return at, wrong, _right(at)


def _list(known: Iterable[str]) -> str:
    return f"its keys are {', '.join(sorted(known))}"


def _model_at(at: Place) -> Any:
    """Return the type that belongs at a place, with lists and tables opened."""
    kind: Any = PolicyModel
    for part in at:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = _fields(kind).get(str(part))
            kind = None if field is None else field.annotation
        else:
            # The last argument is the value of a table, or the item of a list.
            kind = (get_args(kind) or (None,))[-1]
    return kind


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _keys_at(at: Place) -> list[str]:
    kind = _model_at(at)
    return list(_fields(kind)) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _right(at: Place) -> str:
    """Return what a key means; for an item of a list, what the list means."""
    while at:
        kind = _model_at(at[:-1])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = _fields(kind).get(str(at[-1]))
            return "" if field is None else str(field.description or "")
        at = at[:-1]
    return ""
