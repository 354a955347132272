"""Silver itself is in gold/test_against_duckdb; here: what a body is refused for, in words."""

from __future__ import annotations

from typing import Any

import pytest

from laps_analytics.ingest.silver import explain
from testkit.telemetry_lines import START_US

GOOD = (
    '{"window_ms":1,"hit_bytes":1,"miss_bytes":1,"expired_bytes":1,"evicted_bytes":1,'
    '"fetch_joins":1}'
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (GOOD.replace('"hit_bytes":1', '"hit_bytes":"7"'), "body.hit_bytes: '7' is not a long"),
        ("{}", "body.window_ms: missing, but the field is never null"),
        # Nobody knows why; that it is so is still said.
        (GOOD, "the body does not fit its schema"),
    ],
)
def test_why_a_body_does_not_fit(body: str, reason: str) -> None:
    row: dict[str, Any] = {"v": "1.0", "event_id": "9:9:1:1", "ts_us": START_US, "relay": "9:9"}
    row |= {"boot": 1, "type": "cache.stat", "body": body}
    assert explain(row) == f"cache.stat: {reason}"
