"""What ``scripts/try_cluster.py`` calls the same, and what not."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructField, StructType

from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, write_rows

ROOT = Path(__file__).parents[3]
SCHEMA = StructType(
    [
        StructField("n", DoubleType()),
        StructField("closed_us", LongType()),
        StructField("some_hll", BinaryType()),
        StructField("dt", StringType()),
    ]
)
LIST = b"\x02\x01\x07\x0c\x03\x00\x02\x08"
"""The head of a sketch that still is a list of hashes."""


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("scripts.cluster.compare")


def way(folder: Path, *, n: float = 0.1, at: int = 1, hashes: bytes = b"aaaabbbb") -> Path:
    """What a chain might leave."""
    rows = [
        {"n": number, "closed_us": at, "some_hll": LIST + hashes, "dt": "2026-11-17"}
        for number in (n, 2.0, 2.0)
    ]
    lake = Lake.open(folder / "lake", create=True)
    write_rows(rows, SCHEMA, lake.table("gold/numbers"), partition_by=("dt",))
    (folder / "numbers").mkdir()
    (folder / "numbers" / "a.csv").write_text(f"n\n{n}\n")
    (folder / "bill.out").write_text(json.dumps({"usage": [{"n": 1, "closed_us": at}]}))
    return folder


def test_when_it_ran_and_the_order_of_rows_make_no_difference(compare: Any, tmp_path: Path) -> None:
    one = compare.made_by(way(tmp_path / "a"))
    other = compare.made_by(way(tmp_path / "b", at=2, hashes=b"bbbbaaaa"))
    assert compare.compare(one, other) == compare.Apart(6, [])


def test_the_last_bit_of_a_number_does(compare: Any, tmp_path: Path) -> None:
    one = compare.made_by(way(tmp_path / "a", n=0.3))
    other = compare.made_by(way(tmp_path / "b", n=0.1 + 0.2))
    found = compare.compare(one, other)
    kinds = [" ".join(line.split(maxsplit=2)[:2]) for line in found.differ]
    assert kinds == ["- a.csv", "+ a.csv", "- gold/numbers", "+ gold/numbers"]


def test_what_only_one_has_differs(compare: Any, tmp_path: Path) -> None:
    one, other = way(tmp_path / "a"), way(tmp_path / "b", hashes=b"aaaacccc")
    (other / "bill.out").unlink()
    found = compare.compare(compare.made_by(one), compare.made_by(other))
    assert sum(line.startswith("- bill.out") for line in found.differ) == 1
    assert sum("gold/numbers" in line for line in found.differ) == 6


def test_a_gold_table_that_was_not_built_is_named(compare: Any, tmp_path: Path) -> None:
    made = compare.made_by(way(tmp_path / "a"))
    assert compare.unmade(made) == list(GOLD)
    assert compare.unmade({**made, **{f"gold/{name}": {} for name in GOLD}}) == []
