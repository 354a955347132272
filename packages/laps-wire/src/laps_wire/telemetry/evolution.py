"""How the schema may change, as a function: what a change between two exports asks of the version.

==========================================================  =======================================
Change                                                      Version
==========================================================  =======================================
a new event type, a new nullable field, more known values   minor: old readers keep it in ``extra``
other words in a sentence                                   none
a field removed, renamed, of another type, never-null now   major: old readers would misread it
a field nullable that was never null                        major: old readers would refuse it
==========================================================  =======================================

A reader reads every minor of its major, older and newer. A writer writes one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

__all__ = ["Change", "compare"]


class Change(IntEnum):
    """What a difference asks of the version number."""

    NONE = 0
    MINOR = 1
    MAJOR = 2


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, tuple[str, ...]]:
    """The largest change between two :func:`~laps_wire.telemetry.export.schema` dicts, and each."""
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
