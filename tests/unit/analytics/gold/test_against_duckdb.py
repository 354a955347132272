"""Every gold table equals what DuckDB makes of the same lines."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import pytest

from laps_analytics.gold.dimensions import CLASSES
from laps_analytics.gold.tables import GOLD
from testkit.gold_world import SKEW_US, TRACKS
from unit.analytics.gold.lakes import DIMENSIONS, Rows, Scene
from unit.analytics.gold.oracle import QUERIES, Oracle

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def oracle(scene: Scene) -> Oracle:
    return Oracle(
        scene.lines,
        skew=SKEW_US,
        late=scene.world.late,
        tracks=[(TRACKS[0], "gold", None), (TRACKS[1], "bronze", "initech")],
        limits=[
            (name, limit.latency_ms, limit.stall_ratio, limit.startup_ms, limit.allowed)
            for name, limit in CLASSES.items()
        ],
        capacities=[
            *[(relay, "", bps) for relay, bps in DIMENSIONS.relays.items()],
            *[(*link, bps) for link, bps in DIMENSIONS.links.items()],
        ],
    )


def plain(value: Any) -> Any:
    """A value as both engines can say it."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        # A map comes as pairs from one of them.
        if value and all(isinstance(item, tuple) for item in value):
            return {key: plain(item) for key, item in value}
        return [plain(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        if not left and not right:
            return True
        return len(left) == len(right) and all(map(same, left, right))
    if left in ([], {}) and right in ([], {}):
        return True  # an empty map is an empty list of pairs
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return left is right
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(left, date) and isinstance(right, date):
        return str(left) == str(right)
    return bool(left == right) and type(left) is type(right)


@pytest.mark.parametrize("name", list(GOLD))
def test_a_gold_table_is_what_duckdb_makes_of_the_lines(
    name: str, rows: Rows, oracle: Oracle
) -> None:
    contract = GOLD[name]
    sketches = {item.name for item in contract.columns if item.type == "binary"}
    columns = [item.name for item in contract.columns if item.name not in sketches]
    keys = contract.keys

    def keyed(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
        tidy = [{column: plain(row[column]) for column in columns} for row in found]
        return {tuple(str(row[key]) for key in keys): row for row in tidy}

    ours, theirs = keyed(rows(name)), keyed(oracle.rows(name))
    assert ours.keys() == theirs.keys()
    assert ours, "a table without rows shows nothing"
    wrong = [
        (key, column, row[column], theirs[key][column])
        for key, row in ours.items()
        for column in columns
        if not same(row[column], theirs[key][column])
    ]
    assert not wrong, wrong[:5]


def test_every_table_has_an_oracle() -> None:
    assert list(QUERIES) == list(GOLD)
