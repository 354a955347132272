"""Every gold table is what its contract says: columns, types, keys."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.build import read_gold
from laps_analytics.gold.recipes import ORDER, RECIPES
from laps_analytics.gold.tables import GOLD
from unit.analytics.gold.lakes import GoldLake, Rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", list(GOLD))
def test_keys_name_one_row_each_and_are_never_null(name: str, rows: Rows) -> None:
    found = [tuple(row[key] for key in GOLD[name].keys) for row in rows(name)]
    assert len(set(found)) == len(found)
    assert all(value is not None for key in found for value in key)


def test_stored_columns_are_those_of_the_contract(spark: SparkSession, gold_lake: GoldLake) -> None:
    for name, contract in GOLD.items():
        frame = read_gold(spark, gold_lake.lake, name)
        assert [(field.name, field.dataType) for field in frame.schema] == [
            (field.name, field.dataType) for field in contract.schema()
        ]


def test_every_table_has_a_recipe() -> None:
    assert set(ORDER) == set(GOLD)


@pytest.mark.parametrize("name", list(GOLD))
def test_a_contract_names_the_events_that_are_read(name: str) -> None:
    def read(table: str) -> set[str]:
        recipe = RECIPES[table]
        return set(recipe.silver).union(*map(read, recipe.gold))

    assert set(GOLD[name].inputs) == read(name)
