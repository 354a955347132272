"""Contract of a gold table: its columns, its grain, and the question that it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["DT", "WINDOW_START", "GoldColumn", "GoldTable", "Merge", "column", "sql_type"]

Merge: TypeAlias = Literal["", "sum", "max", "hll", "kll"]
"""How a longer window computes a column: sum, maximum, or merged sketches.

Empty for a key and for a column that is computed from others.
"""

_PLAIN: Final[dict[str, DataType]] = {
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def sql_type(text: str) -> DataType:
    """Parse the SQL name of a type. Spark's own parser needs a running session."""
    name, _, inside = text.partition("<")
    if not inside:
        return _PLAIN[name]
    parts = _split(inside.removesuffix(">"))
    if name == "array":
        return ArrayType(sql_type(parts[0]))
    if name == "map":
        return MapType(sql_type(parts[0]), sql_type(parts[1]))
    fields = [part.split(":", 1) for part in parts]
    return StructType([StructField(field, sql_type(kind)) for field, kind in fields])


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside another type."""
    parts, depth = [""], 0
    for char in text:
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


@dataclass(frozen=True, slots=True)
class GoldColumn:
    """A column: its name, its SQL type and a description."""

    name: str
    type: str
    doc: str
    key: bool = False
    """Whether it is part of the key of a row."""
    merge: Merge = ""


def column(name: str, kind: str, doc: str, *, key: bool = False, merge: Merge = "") -> GoldColumn:
    """Return a column; keys come first."""
    return GoldColumn(name, kind, doc, key, merge)


DT: Final = column("dt", "string", "Day of the row, UTC, as yyyy-mm-dd; the partition.", key=True)
"""Column of every table."""
WINDOW_START: Final = column("window_start", "timestamp", "Begin of the window, UTC.", key=True)
"""Column of tables whose rows have a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldTable:
    """A table that answers a question."""

    name: str
    question: str
    grain: str
    """What a row stands for."""
    inputs: tuple[str, ...]
    """Event types that it is built from."""
    columns: tuple[GoldColumn, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the key."""
        return tuple(item.name for item in self.columns if item.key)

    def schema(self) -> StructType:
        """Return the Spark schema; keys are not nullable."""
        return StructType(
            [
                StructField(item.name, sql_type(item.type), nullable=not item.key)
                for item in self.columns
            ]
        )
