from __future__ import annotations

from pathlib import Path

from laps_relay.config.page import json_schema, markdown

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_page_is_that_of_the_models() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(markdown()), (
        "run: python scripts/config_page.py"
    )


def test_every_key_has_a_lifecycle_in_the_schema() -> None:
    schema = json_schema()
    count = 0
    for table in [schema, *schema["$defs"].values()]:
        assert table["additionalProperties"] is False
        for name, field in table["properties"].items():
            if "$ref" not in field:
                assert field["lifecycle"] in ("static", "new-connections", "at-once"), name
                assert field["description"], name
                count += 1
    assert count > 90


def test_defaults_and_variables_are_told() -> None:
    text = markdown()
    assert "| `client_port` | `33435` | static |" in text
    assert "`LAPS_LIMITS__EGRESS__MAX_BYTES`" in text
    assert "| `telemetry_dir` | none |" in text
    assert "| `state_dir` | `~/.local/state/laps` |" in text
