"""The rule itself is compared with that of gold in ``gold/test_viewers.py``."""

from __future__ import annotations

import pyarrow as pa

from laps_analytics.plan.viewers import COLUMNS, one_viewer

SECOND = 1_000_000


def test_in_a_minute_a_viewer_has_one_voice() -> None:
    rows = [
        (10, "a", 1, "1", "relay"),
        (20, "a", 1, "1", "player"),
        (70, "a", 1, "1", "relay"),
        (10, "a", 2, "1", "relay"),
        (10, "b", 1, "1", None),
        (10, "c", 1, "1", "player"),
    ]
    columns = [list(part) for part in zip(*rows, strict=True)]
    columns[0] = [at * SECOND for at in columns[0]]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    found = one_viewer(table).to_pylist()
    left = [tuple(row.values()) for row in found]
    assert left == [(at * SECOND, *rest) for at, *rest in rows[1:]]
    assert one_viewer(table.slice(0, 0)).num_rows == 0
