"""The schema in other forms, and the page that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from laps_wire.telemetry.envelope import Event, json_schema, markdown, schema
from laps_wire.telemetry.events import BODIES
from laps_wire.telemetry.schema import VERSION
from testkit.telemetry import bodies, events, unknown_bodies

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "telemetry.md"
MARK = "<!-- from the schema: python scripts/telemetry_page.py -->\n"


def test_the_schema_is_plain_data() -> None:
    plain = schema()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["version"] == VERSION
    assert list(plain["events"]) == list(BODIES)
    assert [field["name"] for field in plain["envelope"]] == [
        *("v", "event_id", "ts_us", "relay", "boot", "type", "tenant", "region", "body")
    ]
    close = {field["name"]: field for field in plain["events"]["session.close"]["fields"]}
    assert close["kind"]["known_values"] == ["peer", "client"]
    assert close["close_code"] == {
        "name": "close_code",
        "type": "long",
        "nullable": True,
        "doc": "Code of the close; null after a timeout.",
        "since": "1.0",
    }


# A validator for the part of JSON Schema that we use, so that the document is held to real events.


def accepts(rule: dict[str, Any], value: Any) -> bool:
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
        "null": type(None),
    }
    if "type" in rule:
        if not isinstance(value, kinds[rule["type"]]):
            return False
        if isinstance(value, bool) and rule["type"] in {"integer", "number"}:
            return False
    if "anyOf" in rule and not any(accepts(arm, value) for arm in rule["anyOf"]):
        return False
    if "minimum" in rule and not rule["minimum"] <= value <= rule["maximum"]:
        return False
    if "const" in rule and value != rule["const"]:
        return False
    if "pattern" in rule and not re.search(rule["pattern"], value):
        return False
    if isinstance(value, list) and "items" in rule:
        return all(accepts(rule["items"], item) for item in value)
    if isinstance(value, dict):
        if any(name not in value for name in rule.get("required", ())):
            return False
        properties = rule.get("properties", {})
        for name, item in value.items():
            inner = properties.get(name, rule.get("additionalProperties", {}))
            if not accepts(inner, item):
                return False
        for branch in rule.get("allOf", ()):
            if accepts(branch["if"], value) and not accepts(branch["then"], value):
                return False
    return True


@pytest.mark.parametrize("name", BODIES)
def test_the_json_schema_accepts_every_event(name: str) -> None:
    document = json_schema()

    @given(events(bodies(BODIES[name])))
    def check(event: Event) -> None:
        assert accepts(document, event.as_dict())

    check()


@given(events(unknown_bodies))
def test_the_json_schema_accepts_unknown_types(event: Event) -> None:
    assert accepts(json_schema(), event.as_dict())


def test_the_json_schema_refuses_what_the_reader_refuses() -> None:
    document = json_schema()
    assert json.loads(json.dumps(document)) == document
    good: dict[str, Any] = {
        "v": "1.0",
        "event_id": "r:1:2",
        "ts_us": 5,
        "relay": "r",
        "boot": 1,
        "type": "sns.wd",
        "body": {"session_id": "s", "sns_id": 2, "direction": "in", "removed": ["n"]},
    }
    assert accepts(document, good)
    changes: list[dict[str, Any]] = [
        {"v": "2.0"},
        {"v": "1.01"},
        {"ts_us": "5"},
        {"ts_us": 2**63},
        {"boot": True},
        {"body": 7},
        {"body": {"session_id": "s", "sns_id": 2, "direction": "in"}},
        {"body": {**good["body"], "removed": [1]}},
    ]
    for bad in changes:
        assert not accepts(document, {**good, **bad}), bad
    del good["relay"]
    assert not accepts(document, good)


def test_a_map_and_known_values_in_json_schema() -> None:
    document = json_schema()
    hop = next(b for b in document["allOf"] if b["if"]["properties"]["type"]["const"] == "hop.stat")
    drops = hop["then"]["properties"]["body"]["properties"]["drops"]
    assert drops["additionalProperties"]["type"] == "integer"
    opened = document["allOf"][0]["then"]["properties"]["body"]["properties"]["kind"]
    assert opened["examples"] == ["peer", "client"]


def test_the_tables() -> None:
    text = markdown()
    for name in BODIES:
        assert f"## `{name}`\n" in text
    assert "| `path` | array of PathItem | no | 1.0 | The way to it, nearest relay last. |" in text
    assert "| `drops` | map of string to long | no |" in text
    assert "| `queue_ms` | MsHistogram | yes |" in text
    assert text.count("## `MsHistogram`") == text.count("## `PathItem`") == 1
    assert "Known values: `edge`, `via`, `stub`, `control`. |" in text


def test_the_page_shows_the_schema() -> None:
    words, mark, tables = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, "the page has lost its mark"
    assert tables == "\n" + markdown(), "run python scripts/telemetry_page.py"
    assert VERSION in words
