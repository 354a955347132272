"""Which bodies silver refuses, and why. The tables are compared in gold/test_against_duckdb.py."""

from __future__ import annotations

from typing import Any

import pytest

from laps_analytics.ingest.silver import explain, shape_fits
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


CACHE = dict.fromkeys(
    (*("evicted_bytes", "expired_bytes", "fetch_joins"), *("hit_bytes", "miss_bytes", "window_ms")),
    "BIGINT",
)


def shape(**fields: str) -> str:
    inside = ", ".join(f"{name}: {kind}" for name, kind in (CACHE | fields).items())
    return f"OBJECT<{inside}>"


@pytest.mark.parametrize(
    ("fits", "given"),
    [
        (True, shape()),
        (True, shape(stored_bytes="BIGINT")),
        (True, shape(stored_bytes="VOID")),
        (True, shape(new="OBJECT<a: ARRAY<VARIANT>, b: DECIMAL(5,1)>")),
        (True, shape(**{"`a, b: <`": "STRING"})),
        (False, shape(hit_bytes="STRING")),
        (False, shape(hit_bytes="DECIMAL(20,0)")),
        (False, shape(hit_bytes="VOID")),
        (False, shape(stored_bytes="DOUBLE")),
        (False, "OBJECT<>"),
        (False, "ARRAY<BIGINT>"),
        (False, "OBJECT<a"),
    ],
)
def test_a_cache_stat(fits: bool, given: str) -> None:
    assert shape_fits("cache.stat", given) is fits


HOP = (
    "OBJECT<drops: {drops}, in_bytes: BIGINT, objects: BIGINT, out_bytes: BIGINT, queue_ms:"
    " {queue}, track: STRING, window_ms: BIGINT>"
)
QUEUE = "OBJECT<bounds_ms: ARRAY<{bounds}>, counts: ARRAY<{counts}>, sum_ms: {sum}>"


@pytest.mark.parametrize(
    ("fits", "drops", "queue"),
    [
        (True, "OBJECT<>", "VOID"),
        (True, "OBJECT<cc: BIGINT>", QUEUE.format(bounds="DOUBLE", counts="BIGINT", sum="DOUBLE")),
        (True, "OBJECT<>", QUEUE.format(bounds="VOID", counts="BIGINT", sum="BIGINT")),
        (False, "OBJECT<cc: VOID>", "VOID"),
        (False, "ARRAY<VOID>", "VOID"),
        (False, "OBJECT<>", QUEUE.format(bounds="STRING", counts="BIGINT", sum="BIGINT")),
        (False, "OBJECT<>", QUEUE.format(bounds="DOUBLE", counts="DOUBLE", sum="BIGINT")),
        (False, "OBJECT<>", "BIGINT"),
    ],
)
def test_a_hop_stat(fits: bool, drops: str, queue: str) -> None:
    assert shape_fits("hop.stat", HOP.format(drops=drops, queue=queue)) is fits


def test_structs_in_arrays() -> None:
    item = "OBJECT<node_id: STRING, srtt_us: BIGINT>"
    text = (
        "OBJECT<best: BOOLEAN, node_id: STRING, node_type: STRING, path: ARRAY<{}>,"
        " sum_srtt_us: BIGINT>"
    )
    assert shape_fits("node.adv", text.format(item))
    assert shape_fits("node.adv", text.format("VOID"))
    assert not shape_fits("node.adv", text.format("OBJECT<node_id: STRING>"))
    assert not shape_fits("node.adv", text.format("VARIANT"))
