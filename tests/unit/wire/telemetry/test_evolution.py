"""What a change of the schema asks of the version number."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laps_wire.telemetry.envelope import schema
from laps_wire.telemetry.schema import Change, compare, version_key

RELEASED = Path(__file__).parents[3] / "vectors" / "telemetry-schema.json"

BASE: dict[str, Any] = {
    "version": "1.0",
    "envelope": [{"name": "v", "type": "string", "nullable": False, "doc": "V."}],
    "events": {
        "a.b": {
            "doc": "B.",
            "fields": [
                {
                    "name": "kind",
                    "type": "string",
                    "nullable": False,
                    "doc": "K.",
                    "known_values": ["x", "y"],
                },
                {"name": "n", "type": "long", "nullable": True, "doc": "N."},
                {
                    "name": "path",
                    "type": "array",
                    "nullable": False,
                    "items": {
                        "type": "struct",
                        "fields": [{"name": "id", "type": "long", "nullable": False}],
                    },
                },
                {"name": "by", "type": "map", "nullable": False, "values": {"type": "long"}},
            ],
        }
    },
}


def fields(plain: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plain["events"]["a.b"]["fields"]
    return found


def put(*path: str | int) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    def with_value(value: Any) -> Callable[[dict[str, Any]], None]:
        def change(plain: dict[str, Any]) -> None:
            at: Any = plain
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = value

        return change

    return with_value


FIELD = ("events", "a.b", "fields")


@pytest.mark.parametrize(
    ("change", "expected", "reason"),
    [
        (put("version")("1.1"), Change.NONE, None),
        (put(*FIELD, 0, "doc")("Other words."), Change.NONE, None),
        (lambda p: fields(p).reverse(), Change.NONE, None),
        (put("events", "c.d")({"doc": "", "fields": []}), Change.MINOR, "c.d: a new event type"),
        (put(*FIELD, 0, "known_values")(["x", "y", "z"]), Change.MINOR, "new known value 'z'"),
        (
            lambda p: fields(p).append({"name": "m", "type": "long", "nullable": True}),
            Change.MINOR,
            "a.b.m: a new nullable field",
        ),
        (
            lambda p: fields(p).append({"name": "m", "type": "long", "nullable": False}),
            Change.MAJOR,
            "a.b.m: a new field that is never null",
        ),
        (
            lambda p: p["envelope"].append({"name": "w", "type": "long", "nullable": True}),
            Change.MINOR,
            "envelope.w: a new nullable field",
        ),
        (lambda p: fields(p).pop(), Change.MAJOR, "a.b.by: the field was removed"),
        (lambda p: p["events"].clear(), Change.MAJOR, "a.b: the event type was removed"),
        (put(*FIELD, 0, "known_values")(["x"]), Change.MAJOR, "the known value 'y' was removed"),
        (put(*FIELD, 1, "type")("double"), Change.MAJOR, "a.b.n: long became double"),
        (put(*FIELD, 1, "nullable")(False), Change.MAJOR, "a.b.n: is never null now"),
        (put(*FIELD, 0, "nullable")(True), Change.MAJOR, "a.b.kind: may be null now"),
        (
            put(*FIELD, 2, "items", "fields", 0, "type")("string"),
            Change.MAJOR,
            "a.b.path[].id: long became string",
        ),
        (
            put(*FIELD, 3, "values", "type")("double"),
            Change.MAJOR,
            "a.b.by[]: long became double",
        ),
    ],
)
def test_a_change_and_what_it_asks(
    change: Callable[[dict[str, Any]], None], expected: Change, reason: str | None
) -> None:
    new = copy.deepcopy(BASE)
    change(new)
    found, reasons = compare(BASE, new)
    assert found is expected
    assert (reason is None and not reasons) or any(str(reason) in said for said in reasons)


def test_the_largest_change_counts() -> None:
    new = copy.deepcopy(BASE)
    new["events"]["c.d"] = {"doc": "", "fields": []}
    fields(new).pop()
    found, reasons = compare(BASE, new)
    assert found is Change.MAJOR
    assert len(reasons) == 2


def test_the_version_followed_the_rules_since_the_last_release() -> None:
    """``tests/vectors/telemetry-schema.json`` is the schema as last released.

    If this fails, raise VERSION in ``laps_wire/telemetry/schema.py`` as the message asks, and write
    the new schema into the file with ``python scripts/telemetry_page.py``.
    """
    old = json.loads(RELEASED.read_text(encoding="utf-8"))
    new = schema()
    change, reasons = compare(old, new)
    before, after = version_key(old["version"]), version_key(new["version"])
    if change is Change.MAJOR:
        assert after[0] > before[0], reasons
    elif change is Change.MINOR:
        assert after > before, reasons
    else:
        assert after >= before
    assert new == old or after > before, "the words changed: write the file again"
