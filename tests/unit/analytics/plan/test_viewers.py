"""The rule itself is compared with that of gold in ``gold/test_viewers.py``."""

from __future__ import annotations

import pyarrow as pa

from laps_analytics.plan.viewers import COLUMNS, one_viewer

SECOND = 1_000_000


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    """Seconds, relay, boot, session, who measured; and what stands behind that."""
    schema = pa.schema(
        [(name, pa.int64() if name in ("ts", "boot") else pa.string()) for name in COLUMNS]
    )
    whole = [(*row, *[None] * (len(COLUMNS) - len(row))) for row in rows]
    plain = [dict(zip(COLUMNS, row, strict=True)) for row in whole]
    return pa.Table.from_pylist(
        [row | {"ts": int(str(row["ts"])) * SECOND} for row in plain], schema=schema
    )


def test_in_a_minute_a_viewer_has_one_voice() -> None:
    rows: list[tuple[object, ...]] = [
        (10, "a", 1, "1", "relay"),
        (20, "a", 1, "1", "player"),
        (70, "a", 1, "1", "relay"),
        (10, "a", 2, "1", "relay"),
        (10, "b", 1, "1", None),
        (10, "c", 1, "1", "player"),
    ]
    assert one_viewer(table(rows)) == table(rows[1:])
    assert one_viewer(table([])).num_rows == 0


def test_what_was_sent_elsewhere_is_put_where_the_relay_has_the_viewer() -> None:
    first = (10, "a", 1, "1", "relay", "p", "eu", "t1")
    then = (130, "b", 1, "7", "relay", "p", "us", None)
    posted = [
        (20, "post", 9, "posted:x", "player", "p", None, None),
        (140, "post", 9, "posted:x", "player", "p", "cloud", "t2"),
        (990, "post", 9, "posted:x", "player", "p", None, None),
        (20, "post", 9, "posted:y", "player", "q", "cloud", None),
        (20, "post", 9, "posted:z", "player", None, None, None),
    ]
    found = one_viewer(table([first, then, *posted])).to_pylist()
    seen = [
        (row["ts"] // SECOND, row["relay"], row["session_id"], row["region"], row["track"])
        for row in found
    ]
    assert seen == [
        (20, "a", "1", "eu", "t1"),
        (140, "b", "7", "us", "t2"),
        (990, "b", "7", "us", None),
        (20, "post", "posted:y", "cloud", None),
        (20, "post", "posted:z", None, None),
    ]
