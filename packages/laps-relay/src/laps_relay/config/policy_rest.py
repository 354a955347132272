"""Checks of references in a policy file that also has wrong values.

References can be checked only in a model, and a model needs valid values. So wrong values are
removed from a copy, and the references of the rest are checked: all mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from laps_relay.config.policy import Fault, Place, PolicyModel

__all__ = ["strays_beside_faults"]

_ROUNDS: Final = 8
"""Most rounds: removing a value may make the table that held it invalid, and so on."""
_GONE: Final = object()
_NAMED: Final = ("regions", "classes")
"""Tables whose names others refer to; such a name exists even if its value is wrong."""


def strays_beside_faults(data: dict[str, Any], places: Iterable[Place]) -> list[Fault]:
    """Return references to undefined names in a file whose mistakes are at ``places``."""
    data = deepcopy(data)
    todo = list(places)
    for _ in range(_ROUNDS):
        for at in todo:
            _leave_out(data, at)
        kept: dict[Place, list[int]] = {}
        try:
            model = PolicyModel.model_validate(_rest(data, (), kept))
        except ValidationError as error:
            found = [item["loc"] for item in error.errors(include_url=False)]
            todo = [_original(at, kept) for at in found]
            continue
        return [(_original(at, kept), wrong, right) for at, wrong, right in model.strays()]
    return []


def _leave_out(data: Any, at: Place) -> None:
    """Remove a value, or the table that lacks it."""
    holder = data
    for depth, part in enumerate(at):
        there = part in holder if isinstance(holder, dict) else isinstance(holder, list)
        if not there or depth == len(at) - 1:
            break
        holder = holder[part]
    else:
        return
    if not there:
        _leave_out(data, at[:depth])
    elif isinstance(holder, list):
        holder[int(part)] = _GONE
    elif len(at) == 2 and at[0] in _NAMED:
        holder[part] = {}
    else:
        del holder[part]


def _rest(value: Any, at: Place, kept: dict[Place, list[int]]) -> Any:
    """Return a copy without removed items, and note which items of each list are left."""
    if isinstance(value, dict):
        return {name: _rest(each, (*at, name), kept) for name, each in value.items()}
    if isinstance(value, list):
        kept[at] = [index for index, each in enumerate(value) if each is not _GONE]
        return [_rest(value[index], (*at, new), kept) for new, index in enumerate(kept[at])]
    return value


def _original(at: Place, kept: dict[Place, list[int]]) -> Place:
    """Return the place in the file of a place in the copy."""
    numbers = [
        kept[at[:depth]][part] if isinstance(part, int) and at[:depth] in kept else part
        for depth, part in enumerate(at)
        if part != "[key]"
    ]
    return tuple(numbers)
